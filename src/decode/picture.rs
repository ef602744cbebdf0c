//! Pictures: the format by content, the limit before memory is taken, then the decoder of the format.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::Options;
use super::colour::{self, Layout, Pixels};
use super::{jpeg, orient, plain, png};
use crate::error::{Error, Result};
use crate::recycled;
use crate::sample::{Data, Image};

/// A picture, and whether it was damaged and let through.
pub(super) struct Decoded {
    pub(super) image: Image,
    pub(super) mended: bool,
}

/// What the decoder of one format gives.
pub(super) struct Raw {
    pub(super) pixels: Pixels,
    pub(super) orientation: Orientation,
    pub(super) mended: bool,
}

pub(super) fn decode(bytes: &[u8], options: &Options) -> Result<Decoded> {
    let raw = match sniff(bytes)? {
        ImageFormat::Jpeg => jpeg::decode(bytes, options)?,
        ImageFormat::Png => png::decode(bytes, options)?,
        format => other(bytes, format, options)?,
    };
    let image = colour::convert(raw.pixels, options.colour, options.background)?;
    let image = if options.orient { orient::apply(image, raw.orientation) } else { image };
    Ok(Decoded { image, mended: raw.mended })
}

/// The format by the first bytes; what else it may be is said in the error.
fn sniff(bytes: &[u8]) -> Result<ImageFormat> {
    if bytes.is_empty() {
        return Err(plain::empty());
    }
    if let Ok(
        format @ (ImageFormat::Jpeg
        | ImageFormat::Png
        | ImageFormat::WebP
        | ImageFormat::Gif
        | ImageFormat::Bmp
        | ImageFormat::Tiff
        | ImageFormat::Pnm),
    ) = image::guess_format(bytes)
    {
        return Ok(format);
    }
    let head = bytes.trim_ascii_start();
    let what = if head.starts_with(b"<") {
        "a web page or XML, not a picture"
    } else if head.starts_with(b"{") || head.starts_with(b"[") {
        "JSON, not a picture"
    } else if head.starts_with(b"version https://git-lfs") {
        "a Git LFS pointer, not the picture itself"
    } else if bytes.iter().all(|&b| b == 0) {
        "nothing but zero bytes"
    } else {
        "not a picture of a known format"
    };
    Err(Error::decode(format!("{what}: the field begins with {}", plain::show(bytes))))
}

/// Refuses a picture that is too large, before memory is taken for it.
pub(super) fn check_size(width: u64, height: u64, options: &Options) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::decode(format!("a picture of {width} x {height} pixels")));
    }
    match width.checked_mul(height) {
        Some(pixels) if pixels <= options.pixel_limit => Ok(()),
        _ => Err(Error::decode(format!(
            "{width} x {height} pixels are more than the limit of {} (Decoder::pixel_limit raises it)",
            options.pixel_limit
        ))),
    }
}

/// WebP, GIF, BMP, TIFF, PNM through `image`.
fn other(bytes: &[u8], format: ImageFormat, options: &Options) -> Result<Raw> {
    let fail = |error: image::ImageError| {
        Error::decode(format!("broken {}", name(format))).with_source(error)
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    // Twice the largest pixel, and what a decoder needs beside the picture.
    limits.max_alloc = Some(options.pixel_limit.saturating_mul(16).saturating_add(1 << 26));
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(fail)?;
    let (width, height) = decoder.dimensions();
    check_size(u64::from(width), u64::from(height), options)?;
    let orientation = match decoder.exif_metadata() {
        Ok(Some(exif)) => orient::of_exif(&exif),
        _ => decoder.orientation().unwrap_or(Orientation::NoTransforms),
    };
    let (layout, wide) = match decoder.color_type() {
        ColorType::L8 => (Layout::Grey, false),
        ColorType::La8 => (Layout::GreyAlpha, false),
        ColorType::Rgb8 => (Layout::Rgb, false),
        ColorType::Rgba8 => (Layout::Rgba, false),
        ColorType::L16 => (Layout::Grey, true),
        ColorType::La16 => (Layout::GreyAlpha, true),
        ColorType::Rgb16 => (Layout::Rgb, true),
        ColorType::Rgba16 => (Layout::Rgba, true),
        other => {
            return Err(Error::decode(format!(
                "{} with pixels of type {other:?} is not supported",
                name(format)
            )));
        }
    };
    let size = width as usize * height as usize * layout.channels() * if wide { 2 } else { 1 };
    let mut buffer = recycled::filled(size, 0);
    decoder.read_image(&mut buffer).map_err(fail)?;
    let data = if wide { Data::U16(u16s(buffer, u16::from_ne_bytes)) } else { Data::U8(buffer) };
    Ok(Raw { pixels: Pixels { width, height, layout, data }, orientation, mended: false })
}

pub(super) fn u16s(bytes: Vec<u8>, read: fn([u8; 2]) -> u16) -> Vec<u16> {
    let mut values = recycled::room(bytes.len() / 2);
    values.extend(bytes.as_chunks().0.iter().copied().map(read));
    recycled::keep(bytes);
    values
}

const fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::WebP => "WebP",
        ImageFormat::Gif => "GIF",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Tiff => "TIFF",
        _ => "PNM",
    }
}
