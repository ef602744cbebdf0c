//! Antialiased resizing, by `fast_image_resize`. The filters are those of Pillow.

use std::cell::RefCell;

use fast_image_resize as fir;
use fir::images::{CroppedImage, ImageRef};
use serde::Deserialize;

use super::pixels::check;
use super::{Augment, Needs, crop, each_image};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::recycled;
use crate::sample::{Data, Fields, Image, Value};

thread_local! {
    /// Holds the pictures between its two passes, so that their memory is used again.
    static RESIZER: RefCell<fir::Resizer> = RefCell::new(fir::Resizer::new());
}

/// How new pixels are weighed from old ones. When a picture gets smaller the filter gets wider: no aliasing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Filter {
    /// The nearest pixel, for masks of labels.
    Nearest,
    /// Triangle, torchvision's default.
    #[default]
    Bilinear,
    /// Cubic with a = -0.5.
    Bicubic,
    /// Lanczos with 3 lobes.
    Lanczos,
}

impl Filter {
    const fn algorithm(self) -> fir::ResizeAlg {
        match self {
            Self::Nearest => fir::ResizeAlg::Nearest,
            Self::Bilinear => fir::ResizeAlg::Convolution(fir::FilterType::Bilinear),
            Self::Bicubic => fir::ResizeAlg::Convolution(fir::FilterType::CatmullRom),
            Self::Lanczos => fir::ResizeAlg::Convolution(fir::FilterType::Lanczos3),
        }
    }
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// To this width and height, by the default filter.
///
/// # Errors
/// If a side is 0.
pub fn exact(image: &Image, width: u32, height: u32) -> Result<Image> {
    with(image, (width, height), Filter::default())
}

/// The shorter side to `side`, the other in proportion, by the default filter.
///
/// # Errors
/// If `side` is 0 or the result would be larger than any picture.
pub fn shortest(image: &Image, side: u32) -> Result<Image> {
    with(image, shortest_size((image.width, image.height), side), Filter::default())
}

/// The longer side to `side`, the other in proportion, by the default filter.
///
/// # Errors
/// If `side` is 0.
pub fn longest(image: &Image, side: u32) -> Result<Image> {
    with(image, longest_size((image.width, image.height), side), Filter::default())
}

/// To this size, by this filter.
///
/// # Errors
/// If a side is 0.
pub fn with(image: &Image, size: (u32, u32), filter: Filter) -> Result<Image> {
    if size == (image.width, image.height) {
        return Ok(image.clone());
    }
    region(image, Region { x: 0, y: 0, width: image.width, height: image.height }, size, filter)
}

/// To `size`, of which only a part is computed and comes out: the same as cropping the resized picture, without the pixels beside it.
/// But for rounding: a value here and there is off by 1, more where a pixel is nearly transparent. By [`Filter::Nearest`] it is exact.
///
/// # Errors
/// If a side is 0, or the part is not inside the resized picture.
pub fn window(image: &Image, size: (u32, u32), part: Region, filter: Filter) -> Result<Image> {
    if size == (image.width, image.height) {
        return crop::at(image, part);
    }
    if filter == Filter::Nearest {
        // Rounding would decide between one pixel and its neighbour: another label.
        return crop::at(&with(image, size, filter)?, part);
    }
    crop::check_inside(part, size)?;
    let (left, width) = stretch(image.width, size.0, part.x, part.width);
    let (top, height) = stretch(image.height, size.1, part.y, part.height);
    let seen = fir::ResizeOptions::new().resize_alg(filter.algorithm());
    let seen = seen.crop(left, top, width, height);
    let whole = Region { x: 0, y: 0, width: image.width, height: image.height };
    convolve(image, whole, (part.width, part.height), seen)
}

/// Where a stretch of a resized side lies on the side as it was: its beginning and its length, never beyond the end.
fn stretch(side: u32, size: u32, start: u32, length: u32) -> (f64, f64) {
    let scale = f64::from(side) / f64::from(size);
    let start = f64::from(start) * scale;
    (start, (f64::from(length) * scale).min(f64::from(side) - start))
}

/// A part of a picture to this size: the same as cropping first, without the copy.
///
/// # Errors
/// If a side is 0, or the region is not inside the picture.
pub fn region(image: &Image, part: Region, size: (u32, u32), filter: Filter) -> Result<Image> {
    convolve(image, part, size, fir::ResizeOptions::new().resize_alg(filter.algorithm()))
}

/// A part of a picture, beyond which nothing is seen, to this size.
fn convolve(
    image: &Image,
    part: Region,
    (width, height): (u32, u32),
    options: fir::ResizeOptions,
) -> Result<Image> {
    check(image)?;
    if width == 0 || height == 0 || u64::from(width) * u64::from(height) > 1 << 32 {
        return Err(Error::augment(format!("can't resize to {width} x {height}")));
    }
    let fail = |error: &dyn std::fmt::Display| {
        Error::augment(format!("can't resize {} to {width} x {height}: {error}", image.describe()))
    };
    let kind = match (image.channels, &image.data) {
        (1, Data::U8(_)) => fir::PixelType::U8,
        (3, Data::U8(_)) => fir::PixelType::U8x3,
        (4, Data::U8(_)) => fir::PixelType::U8x4,
        (1, Data::U16(_)) => fir::PixelType::U16,
        (3, Data::U16(_)) => fir::PixelType::U16x3,
        (4, Data::U16(_)) => fir::PixelType::U16x4,
        _ => return Err(fail(&"no such pictures")),
    };
    let source = ImageRef::new(image.width, image.height, image.data.as_bytes(), kind)
        .map_err(|e| fail(&e))?;
    let source = CroppedImage::new(&source, part.x, part.y, part.width, part.height)
        .map_err(|e| fail(&e))?;
    let values = width as usize * height as usize * usize::from(image.channels);
    let resize = |to: &mut [u8]| -> Result<()> {
        let mut to =
            fir::images::Image::from_slice_u8(width, height, to, kind).map_err(|e| fail(&e))?;
        let resized = RESIZER.with(|own| match own.try_borrow_mut() {
            Ok(mut own) => own.resize(&source, &mut to, &options),
            Err(_) => fir::Resizer::new().resize(&source, &mut to, &options),
        });
        resized.map_err(|e| fail(&e))
    };
    let data = if matches!(image.data, Data::U8(_)) {
        let mut values = recycled::to_fill(values);
        resize(&mut values)?;
        Data::U8(values)
    } else {
        let mut values = recycled::to_fill::<u16>(values);
        resize(bytemuck::cast_slice_mut(&mut values))?;
        Data::U16(values)
    };
    Ok(Image { width, height, channels: image.channels, data })
}

/// The size with the shorter side `side` and the other in proportion, cut to whole pixels as torchvision does.
#[must_use]
pub fn shortest_size((width, height): (u32, u32), side: u32) -> (u32, u32) {
    if width <= height {
        (side, scale(height, side, width))
    } else {
        (scale(width, side, height), side)
    }
}

/// The size with the longer side `side` and the other in proportion, cut to whole pixels, at least one.
#[must_use]
pub fn longest_size((width, height): (u32, u32), side: u32) -> (u32, u32) {
    if width >= height {
        (side, scale(height, side, width).max(1))
    } else {
        (scale(width, side, height).max(1), side)
    }
}

/// `length * to / from`, cut; 0 stays 0.
fn scale(length: u32, to: u32, from: u32) -> u32 {
    let scaled = u64::from(length) * u64::from(to) / u64::from(from.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident($($arg:ident),*) $size:expr, $needs:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            $($arg: u32,)*
            filter: Filter,
        }

        impl $name {
            /// By the default filter.
            #[must_use]
            pub fn new($($arg: u32),*) -> Self {
                Self { $($arg,)* filter: Filter::default() }
            }

            /// By this filter.
            #[must_use]
            pub fn filter(mut self, filter: Filter) -> Self {
                self.filter = filter;
                self
            }
        }

        impl Augment for $name {
            fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
                each_image(fields, rng, |image, _| {
                    let size: fn(&Self, (u32, u32)) -> (u32, u32) = $size;
                    let has = (image.width, image.height);
                    let wanted = size(self, has);
                    if wanted != has {
                        *image = with(image, wanted, self.filter)?;
                    }
                    Ok(())
                })
            }

            fn needs(&self) -> Needs {
                let needs: fn(&Self) -> (u32, u32) = $needs;
                let (width, height) = needs(self);
                Needs::AtLeast(width, height)
            }
        }
    };
}

part! {
    /// Resizes to a width and a height.
    ResizeExact(width, height) |own, _| (own.width, own.height), |own| (own.width, own.height)
}

part! {
    /// Resizes the shorter side to a length, the other in proportion.
    ResizeShortest(side) |own, size| shortest_size(size, own.side), |own| (own.side, own.side)
}

part! {
    /// Resizes the longer side to a length, the other in proportion.
    ResizeLongest(side) |own, size| longest_size(size, own.side), |own| (own.side, own.side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_ends_where_the_side_ends() {
        for side in 1..2000 {
            for size in [224, 299, 300, 333, 336, 380, 1024] {
                for length in [1, 100, size] {
                    let (start, length) = stretch(side, size, size - length, length);
                    assert!(start >= 0.0 && length > 0.0, "{side} {size}");
                    assert!(start + length <= f64::from(side), "{side} {size}");
                }
            }
        }
    }
}
