//! JPEG by libjpeg-turbo: faster, reads arithmetic coding, and can decode at a smaller scale.

use turbojpeg::{Colorspace, Decompressor, Image, PixelFormat, ScalingFactor};

use super::Options;
use super::colour::{Layout, Pixels, cmyk_to_rgb};
use super::orient::swaps;
use super::picture::{Raw, check_size};
use super::segments::orientation;
use crate::error::{Error, Result};
use crate::recycled;
use crate::sample::Data;

/// Decodes a file. Tolerantly, what can't be read is grey; the result counts as mended.
pub(super) fn read(bytes: &[u8], options: &Options, tolerant: bool) -> Result<Raw> {
    let fail = |error: turbojpeg::Error| Error::decode("broken JPEG").with_source(error);
    let mut decompressor = Decompressor::new().map_err(fail)?;
    decompressor.set_scan_limit(500).map_err(fail)?;
    let header = decompressor.read_header(bytes).map_err(fail)?;
    check_size(header.width as u64, header.height as u64, options)?;
    let orientation = orientation(bytes);
    if let Some((width, height)) = options.at_least.filter(|_| !header.is_lossless) {
        let (width, height) =
            if options.orient && swaps(orientation) { (height, width) } else { (width, height) };
        decompressor
            .set_scaling_factor(scale(
                (header.width, header.height),
                (width as usize, height as usize),
            ))
            .map_err(fail)?;
    }
    let (format, layout) = match header.colorspace {
        Colorspace::Gray => (PixelFormat::GRAY, Layout::Grey),
        Colorspace::CMYK | Colorspace::YCCK => (PixelFormat::CMYK, Layout::Rgb),
        _ => (PixelFormat::RGB, Layout::Rgb),
    };
    let scaled = header.scaled(decompressor.scaling_factor());
    let (width, height, pitch) = (scaled.width, scaled.height, scaled.width * format.size());
    let mut pixels = recycled::to_fill(pitch * height);
    if tolerant {
        pixels.fill(128);
    }
    match decompressor
        .decompress(bytes, Image { pixels: &mut pixels[..], width, pitch, height, format })
    {
        Err(error) if !tolerant => {
            recycled::keep(pixels);
            return Err(fail(error));
        }
        _ => {}
    }
    if format == PixelFormat::CMYK {
        pixels = cmyk_to_rgb(pixels);
    }
    #[allow(clippy::cast_possible_truncation)] // JPEG has 16 bits for each
    let pixels =
        Pixels { width: width as u32, height: height as u32, layout, data: Data::U8(pixels) };
    Ok(Raw { pixels, orientation, mended: tolerant })
}

/// The smallest scale at which the picture still covers what is needed. Only those with fast kernels.
fn scale(
    (width, height): (usize, usize),
    (least_width, least_height): (usize, usize),
) -> ScalingFactor {
    [ScalingFactor::ONE_EIGHTH, ScalingFactor::ONE_QUARTER, ScalingFactor::ONE_HALF]
        .into_iter()
        .find(|scale| scale.scale(width) >= least_width && scale.scale(height) >= least_height)
        .unwrap_or(ScalingFactor::ONE)
}
