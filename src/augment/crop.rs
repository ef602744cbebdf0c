//! Cropping: in the middle, at random, at random with resizing.

use super::pixels::{check, map_values, row};
use super::resize::{self, Filter, Region};
use super::{Augment, Needs, each_image};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Fields, Image, Value};

/// The rectangle with this upper left corner.
///
/// # Errors
/// If it is empty or reaches beyond the picture.
pub fn at(image: &Image, region: Region) -> Result<Image> {
    check(image)?;
    check_inside(region, (image.width, image.height))?;
    let Region { x, y, width, height } = region;
    let channels = usize::from(image.channels);
    let (from, to) = (x as usize * channels, (x + width) as usize * channels);
    let data = map_values!(image, (to - from) * height as usize, (values, out) => {
        for row in values.chunks_exact(row(image)).skip(y as usize).take(height as usize) {
            out.extend_from_slice(&row[from..to]);
        }
    });
    Ok(Image { width, height, channels: image.channels, data })
}

/// Refuses a rectangle that is empty or reaches beyond a picture of this size.
pub(super) fn check_inside(region: Region, size: (u32, u32)) -> Result<()> {
    let Region { x, y, width, height } = region;
    let inside = |start: u32, length: u32, side: u32| {
        length > 0 && start.checked_add(length).is_some_and(|end| end <= side)
    };
    if inside(x, width, size.0) && inside(y, height, size.1) {
        return Ok(());
    }
    Err(Error::augment(format!(
        "can't crop {width} x {height} at ({x}, {y}) from a picture of {} x {}",
        size.0, size.1
    )))
}

/// From the middle. Where the margins differ by one pixel, the even one of the two places is taken, as torchvision does.
///
/// # Errors
/// If the picture is smaller.
pub fn center(image: &Image, width: u32, height: u32) -> Result<Image> {
    at(image, center_region((image.width, image.height), (width, height))?)
}

/// Where [`center`] cuts.
///
/// # Errors
/// If the picture is smaller.
pub fn center_region(size: (u32, u32), (width, height): (u32, u32)) -> Result<Region> {
    let (free_x, free_y) = free(size, (width, height))?;
    // Half, rounded half to even.
    let middle = |free: u32| if free % 4 == 3 { free / 2 + 1 } else { free / 2 };
    Ok(Region { x: middle(free_x), y: middle(free_y), width, height })
}

/// At a random place.
///
/// # Errors
/// If the picture is smaller.
pub fn random(image: &Image, width: u32, height: u32, rng: &mut Rng) -> Result<Image> {
    let (free_x, free_y) = free((image.width, image.height), (width, height))?;
    at(image, Region { x: below(rng, free_x), y: below(rng, free_y), width, height })
}

/// How much wider and higher a picture is than what is wanted.
fn free(size: (u32, u32), (width, height): (u32, u32)) -> Result<(u32, u32)> {
    match (size.0.checked_sub(width), size.1.checked_sub(height)) {
        (Some(x), Some(y)) => Ok((x, y)),
        _ => Err(Error::augment(format!(
            "a picture of {} x {} is too small to crop {width} x {height}",
            size.0, size.1
        ))),
    }
}

/// Uniform in `0..=free`.
#[allow(clippy::cast_possible_truncation)]
fn below(rng: &mut Rng, free: u32) -> u32 {
    rng.below(u64::from(free) + 1) as u32
}

/// Crops from the middle; see [`center`].
#[derive(Debug, Clone, Copy)]
pub struct CenterCrop {
    width: u32,
    height: u32,
}

impl CenterCrop {
    /// To this size.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }
}

impl Augment for CenterCrop {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        each_image(fields, rng, |image, _| {
            *image = center(image, self.width, self.height)?;
            Ok(())
        })
    }
}

/// [`ResizeShortest`](super::ResizeShortest) and [`CenterCrop`] in one: the same picture, without the pixels that the crop would throw
/// away (see [`resize::window`]). What torchvision's presets for evaluation begin with.
///
/// ```
/// use shardstream::augment::{Augment, Normalize, ResizeCrop};
/// let pipeline = (ResizeCrop::new(256, 224, 224), Normalize::imagenet());
/// assert_eq!(pipeline.needs().size(), Some((256, 256)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ResizeCrop {
    side: u32,
    width: u32,
    height: u32,
    filter: Filter,
}

impl ResizeCrop {
    /// The shorter side to `side`, and of that `width` x `height` from the middle.
    #[must_use]
    pub fn new(side: u32, width: u32, height: u32) -> Self {
        Self { side, width, height, filter: Filter::default() }
    }

    /// By this filter.
    #[must_use]
    pub const fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

impl Augment for ResizeCrop {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        each_image(fields, rng, |image, _| {
            let size = resize::shortest_size((image.width, image.height), self.side);
            let part = center_region(size, (self.width, self.height))?;
            *image = resize::window(image, size, part, self.filter)?;
            Ok(())
        })
    }

    fn needs(&self) -> Needs {
        Needs::AtLeast(self.side, self.side)
    }
}

/// Crops at a random place; see [`random`].
#[derive(Debug, Clone, Copy)]
pub struct RandomCrop {
    width: u32,
    height: u32,
}

impl RandomCrop {
    /// To this size.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }
}

impl Augment for RandomCrop {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        each_image(fields, rng, |image, rng| {
            *image = random(image, self.width, self.height, rng)?;
            Ok(())
        })
    }
}

/// Crops a random share of the picture with a random aspect ratio, and resizes it to one size.
#[derive(Debug, Clone, Copy)]
pub struct RandomResizedCrop {
    width: u32,
    height: u32,
    scale: (f64, f64),
    ratio: (f64, f64),
    filter: Filter,
}

impl RandomResizedCrop {
    /// To this size; 8 to 100 % of the area, aspect ratio 3:4 to 4:3.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            scale: (0.08, 1.0),
            ratio: (3.0 / 4.0, 4.0 / 3.0),
            filter: Filter::Bilinear,
        }
    }

    /// Smallest and largest share of the area.
    #[must_use]
    pub const fn scale(mut self, smallest: f64, largest: f64) -> Self {
        self.scale = (smallest, largest);
        self
    }

    /// Smallest and largest ratio of width to height.
    #[must_use]
    pub const fn ratio(mut self, smallest: f64, largest: f64) -> Self {
        self.ratio = (smallest, largest);
        self
    }

    /// By this filter.
    #[must_use]
    pub const fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// The part of a picture of this size that is taken: the first of ten tries that fits inside, or else the largest part in the
    /// middle whose aspect ratio is allowed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn region(&self, (width, height): (u32, u32), rng: &mut Rng) -> Region {
        let (w, h) = (f64::from(width), f64::from(height));
        for _ in 0..10 {
            let area = w * h * rng.between(self.scale.0, self.scale.1);
            // By `libm`, so that it is the same to the bit on every machine.
            let ratio = libm::exp(rng.between(libm::log(self.ratio.0), libm::log(self.ratio.1)));
            let (part_w, part_h) =
                ((area * ratio).sqrt().round_ties_even(), (area / ratio).sqrt().round_ties_even());
            if part_w >= 1.0 && part_h >= 1.0 && part_w <= w && part_h <= h {
                let (part_w, part_h) = (part_w as u32, part_h as u32);
                let y = below(rng, height - part_h);
                let x = below(rng, width - part_w);
                return Region { x, y, width: part_w, height: part_h };
            }
        }
        let (part_w, part_h) = if w / h < self.ratio.0 {
            (w, (w / self.ratio.0).round_ties_even())
        } else if w / h > self.ratio.1 {
            ((h * self.ratio.1).round_ties_even(), h)
        } else {
            (w, h)
        };
        let (part_w, part_h) =
            ((part_w as u32).clamp(1, width.max(1)), (part_h as u32).clamp(1, height.max(1)));
        Region { x: (width - part_w) / 2, y: (height - part_h) / 2, width: part_w, height: part_h }
    }
}

impl Augment for RandomResizedCrop {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        each_image(fields, rng, |image, rng| {
            check(image)?;
            let part = self.region((image.width, image.height), rng);
            *image = resize::region(image, part, (self.width, self.height), self.filter)?;
            Ok(())
        })
    }
}
