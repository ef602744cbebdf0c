//! JPEG in pure Rust, by `zune-jpeg`; with the feature `turbojpeg` by libjpeg-turbo.

use std::ops::Range;

use image::metadata::Orientation;

use super::orient::of_exif;
use crate::error::Error;

#[cfg(feature = "turbojpeg")]
pub(super) use super::turbo::decode;

#[cfg(not(feature = "turbojpeg"))]
pub(super) use pure::decode;

#[cfg(not(feature = "turbojpeg"))]
mod pure {
    use zune_core::bytestream::ZCursor;
    use zune_core::colorspace::ColorSpace;
    use zune_core::options::DecoderOptions;
    use zune_jpeg::JpegDecoder;
    use zune_jpeg::errors::DecodeErrors;

    use super::super::Options;
    use super::super::colour::{Layout, Pixels, cmyk_to_rgb, ycck_to_cmyk};
    use super::super::picture::{Raw, check_size};
    use super::{cleaned, cut_off, ends, orientation};
    use crate::error::{Error, Result};
    use crate::sample::Data;

    pub(in super::super) fn decode(bytes: &[u8], options: &Options) -> Result<Raw> {
        if !ends(bytes) && !options.lenient {
            return Err(cut_off());
        }
        // Read strictly: a tolerant reading passes noise for data. What libjpeg forgives without harm is taken out first.
        read(bytes, options, true)
            .or_else(|error| cleaned(bytes).map_or(Err(error), |bytes| read(&bytes, options, true)))
            .or_else(|error| if options.lenient { read(bytes, options, false) } else { Err(error) })
    }

    fn read(bytes: &[u8], options: &Options, strict: bool) -> Result<Raw> {
        let fail = |error: DecodeErrors| Error::decode("broken JPEG").with_source(error);
        let settings = DecoderOptions::new_fast()
            .set_strict_mode(strict)
            .set_max_width(1 << 16)
            .set_max_height(1 << 16);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), settings);
        decoder.decode_headers().map_err(fail)?;
        let (width, height) = decoder.dimensions().unwrap_or((0, 0));
        check_size(width as u64, height as u64, options)?;
        let stored = decoder.input_colorspace().unwrap_or(ColorSpace::Unknown);
        let (wanted, layout) = match stored {
            ColorSpace::Luma => (ColorSpace::Luma, Layout::Grey),
            ColorSpace::CMYK | ColorSpace::YCCK => (stored, Layout::Rgb),
            _ => (ColorSpace::RGB, Layout::Rgb),
        };
        decoder.set_options(settings.jpeg_set_out_colorspace(wanted));
        let orientation = orientation(bytes);
        let mut data = decoder.decode().map_err(fail)?;
        if stored == ColorSpace::YCCK {
            ycck_to_cmyk(&mut data);
        }
        if wanted.num_components() == 4 {
            data = cmyk_to_rgb(&data);
        }
        #[allow(clippy::cast_possible_truncation)] // JPEG has 16 bits for each
        let pixels =
            Pixels { width: width as u32, height: height as u32, layout, data: Data::U8(data) };
        Ok(Raw { pixels, orientation, mended: !strict })
    }
}

pub(super) fn cut_off() -> Error {
    Error::decode("the JPEG is cut off: it has no end marker")
}

/// Whether the end marker comes after the start of the picture's data (thumbnails inside segments have markers of their own).
pub(super) fn ends(bytes: &[u8]) -> bool {
    let data = Segments::of(bytes)
        .find(|(marker, _)| matches!(*marker, SOS | EOI))
        .map_or(bytes.len(), |(_, range)| range.start);
    // Entropy-coded data holds 0xFF only before 0x00 and restart markers.
    bytes[data..].windows(2).any(|pair| pair == [0xFF, EOI])
}

/// What the first EXIF segment says; nothing if it can't be read.
pub(super) fn orientation(bytes: &[u8]) -> Orientation {
    Segments::of(bytes)
        .filter(|(marker, _)| *marker == APP1)
        .find_map(|(_, range)| bytes[range].get(4..).filter(|exif| exif.starts_with(b"Exif\0\0")))
        .map_or(Orientation::NoTransforms, of_exif)
}

/// The file without stray bytes between its segments and without an Adobe segment that is too short; `None` if it has neither.
pub(super) fn cleaned(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut clean = bytes.get(..2)?.to_vec();
    for (marker, range) in Segments::of(bytes) {
        if marker == SOS {
            clean.extend_from_slice(&bytes[range.start..]);
            return (clean.len() < bytes.len()).then_some(clean);
        }
        let segment = &bytes[range];
        let short_adobe =
            marker == APP14 && segment.len() < 16 && segment[4..].starts_with(b"Adobe");
        if !short_adobe {
            clean.extend_from_slice(segment);
        }
    }
    None
}

const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const APP1: u8 = 0xE1;
const APP14: u8 = 0xEE;

/// Marker and place of each segment of a file, up to the data of the first scan.
struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 2 }
    }
}

impl Iterator for Segments<'_> {
    type Item = (u8, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.at;
            let &[first, marker] = self.bytes.get(start..)?.first_chunk()?;
            match (first, marker) {
                (0xFF, EOI) => {
                    self.at = self.bytes.len();
                    return Some((EOI, start..start + 2));
                }
                // Stray and fill bytes, and markers that stand alone.
                (0..=0xFE, _) | (0xFF, 0xFF) => self.at += 1,
                (0xFF, 0x00 | 0x01 | 0xD0..=0xD8) => self.at += 2,
                (0xFF, _) => {
                    let length = usize::from(u16::from_be_bytes(
                        *self.bytes.get(start + 2..)?.first_chunk()?,
                    ))
                    .max(2);
                    let end = start + 2 + length;
                    if end > self.bytes.len() {
                        return None;
                    }
                    self.at = if marker == SOS { self.bytes.len() } else { end };
                    return Some((marker, start..end));
                }
            }
        }
    }
}
