//! JPEG in pure Rust.

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;

use super::Options;
use super::colour::{Layout, Pixels, cmyk_to_rgb, ycck_to_cmyk};
use super::picture::{Raw, check_size};
use super::segments::orientation;
use crate::error::{Error, Result};
use crate::recycled;
use crate::sample::Data;

/// Decodes a file. Tolerantly, what can't be read is grey; the result counts as mended.
pub(super) fn read(bytes: &[u8], options: &Options, tolerant: bool) -> Result<Raw> {
    let fail = |error: DecodeErrors| Error::decode("broken JPEG").with_source(error);
    let settings = DecoderOptions::new_fast()
        .set_strict_mode(!tolerant)
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
    // Black where a damaged picture has nothing.
    let n = decoder.output_buffer_size().unwrap_or_default();
    let mut data = recycled::filled(n, 0);
    if let Err(error) = decoder.decode_into(&mut data) {
        recycled::keep(data);
        return Err(fail(error));
    }
    if stored == ColorSpace::YCCK {
        ycck_to_cmyk(&mut data);
    }
    if wanted.num_components() == 4 {
        data = cmyk_to_rgb(data);
    }
    #[allow(clippy::cast_possible_truncation)] // JPEG has 16 bits for each
    let pixels =
        Pixels { width: width as u32, height: height as u32, layout, data: Data::U8(data) };
    Ok(Raw { pixels, orientation, mended: tolerant })
}
