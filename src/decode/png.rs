//! PNG by the `png` crate.

use std::io::{Cursor, ErrorKind};

use image::metadata::Orientation;
use png::{BitDepth, ColorType, DecodeOptions, Decoder, Limits, Reader, Transformations};

use super::Options;
use super::colour::{Colour, Layout, Pixels};
use super::orient::of_exif;
use super::picture::{Raw, check_size, u16s};
use crate::error::{Error, Result};
use crate::recycled;
use crate::sample::Data;

pub(super) fn decode(bytes: &[u8], options: &Options) -> Result<Raw> {
    read(bytes, options, false)
        .or_else(|error| if options.lenient { read(bytes, options, true) } else { Err(error) })
}

fn read(bytes: &[u8], options: &Options, lenient: bool) -> Result<Raw> {
    let fail = |error: png::DecodingError| Error::decode("broken PNG").with_source(error);
    let mut settings = DecodeOptions::default();
    settings.set_ignore_checksums(lenient);
    settings.set_ignore_text_chunk(true);
    settings.set_ignore_iccp_chunk(true);
    let mut decoder = Decoder::new_with_options(Cursor::new(bytes), settings);
    // For what the decoder keeps beside the picture.
    decoder.set_limits(Limits { bytes: 1 << 26 });
    let header = decoder.read_header_info().map_err(fail)?;
    let (width, height) = (header.width, header.height);
    check_size(u64::from(width), u64::from(height), options)?;
    let strip = if options.colour == Colour::Stored {
        Transformations::IDENTITY
    } else {
        Transformations::STRIP_16
    };
    decoder.set_transformations(Transformations::EXPAND | strip);
    let mut reader = decoder.read_info().map_err(fail)?;
    let orientation = reader
        .info()
        .exif_metadata
        .as_ref()
        .map_or(Orientation::NoTransforms, |exif| of_exif(exif));
    let (colour, depth) = reader.output_color_type();
    let layout = match colour {
        ColorType::Grayscale => Layout::Grey,
        ColorType::GrayscaleAlpha => Layout::GreyAlpha,
        ColorType::Rgb => Layout::Rgb,
        ColorType::Rgba => Layout::Rgba,
        ColorType::Indexed => return Err(Error::decode("PNG with an index and no palette")),
    };
    let wide = depth == BitDepth::Sixteen;
    let size = width as usize * height as usize * layout.channels() * if wide { 2 } else { 1 };
    if reader.output_buffer_size() != Some(size) {
        return Err(Error::decode("PNG of a size that doesn't fit its colours"));
    }
    let mut buffer = recycled::filled(size, if lenient { 128 } else { 0 });
    let row_size = size / height as usize;
    let read = rows(&mut reader, &mut buffer, row_size).and_then(|()| match reader.finish() {
        // All pixels are there and their checksums were right: a missing end does no harm.
        Err(png::DecodingError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            Ok(())
        }
        other => other,
    });
    if let (Err(error), false) = (read, lenient) {
        return Err(fail(error));
    }
    let data = if wide { Data::U16(u16s(buffer, u16::from_be_bytes)) } else { Data::U8(buffer) };
    Ok(Raw { pixels: Pixels { width, height, layout, data }, orientation, mended: lenient })
}

/// Reads all rows of the picture into `buffer`.
fn rows(
    reader: &mut Reader<Cursor<&[u8]>>,
    buffer: &mut [u8],
    row_size: usize,
) -> Result<(), png::DecodingError> {
    if reader.info().interlaced {
        let (colour, depth) = reader.output_color_type();
        #[allow(clippy::cast_possible_truncation)] // at most 4 channels of 16 bits
        let bits = (colour.samples() * depth as usize) as u8;
        while let Some(row) = reader.next_interlaced_row()? {
            if let png::InterlaceInfo::Adam7(pass) = row.interlace() {
                png::expand_interlaced_row(buffer, row_size, row.data(), pass, bits);
            }
        }
    } else {
        for row in buffer.chunks_exact_mut(row_size) {
            reader.read_row(row)?;
        }
    }
    Ok(())
}
