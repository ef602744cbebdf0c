//! PiD's two augmentation pipelines, and the rules they are made of.
//!
//! A sample of an image and a caption goes in, as the decoder leaves it (`image.jpg`, `caption.json`). Out comes
//!
//! | field | value |
//! |---|---|
//! | `image` | `f32` tensor `[3, H, W]` from -1 to 1 (a [`Value::Normalized`] until its batch is put together), or the 8-bit picture ([`Fixed::as_image`]) |
//! | `caption` | one text |
//! | `aspect_ratio` | text, the bucket: `16,9`, or `L2048_16,9` |
//! | `aug_params` | JSON, `{"cropping": {"resize_w", "resize_h", "crop_x0", "crop_y0", "crop_w", "crop_h"}}` |
//! | `padding_mask` | [`Fixed`], on request: zeros `[1, H, W]` |
//! | `target_crop_size` | [`MultiResolution`]: `[W, H]` |
//!
//! Other fields stay. A sample without image or caption, or of another aspect ratio, or too small, is left out: counted, not a fault.
//! Where the original is at odds with itself, this is what it means to do: `crop_x0` is where the crop really is, caption weights
//! count, a caption may contain any word, and the picture is cropped before it is made into numbers.

use serde_json::json;

use super::caption::PickCaption;
use super::crop;
use super::fields::{Rename, StripExtensions};
use super::normalize::Normalize;
use super::resize::{self, Filter};
use super::{Augment, Needs};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Data, Fields, Image, Tensor, Value};

/// The aspect ratios of buckets, width to height, widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum AspectRatio {
    R16x9,
    R3x2,
    R4x3,
    R1x1,
    R3x4,
    R2x3,
    R9x16,
}

impl AspectRatio {
    /// All seven, as the fixed-resolution pipeline tells them apart.
    pub const ALL: [Self; 7] =
        [Self::R16x9, Self::R3x2, Self::R4x3, Self::R1x1, Self::R3x4, Self::R2x3, Self::R9x16];

    /// The five of the multi-resolution pipeline.
    pub const FIVE: [Self; 5] = [Self::R16x9, Self::R4x3, Self::R1x1, Self::R3x4, Self::R9x16];

    /// Width and height in lowest terms.
    #[must_use]
    pub const fn terms(self) -> (u32, u32) {
        match self {
            Self::R16x9 => (16, 9),
            Self::R3x2 => (3, 2),
            Self::R4x3 => (4, 3),
            Self::R1x1 => (1, 1),
            Self::R3x4 => (3, 4),
            Self::R2x3 => (2, 3),
            Self::R9x16 => (9, 16),
        }
    }

    /// As it stands in `aspect_ratio`: `16,9`.
    #[must_use]
    pub fn label(self) -> String {
        let (width, height) = self.terms();
        format!("{width},{height}")
    }

    /// The one of `among` (widest first) that is nearest by the logarithm of the ratio; `None` if there is none.
    ///
    /// Exact: the border between two ratios is their geometric mean, which no ratio of whole numbers meets for these seven.
    #[must_use]
    pub fn nearest(among: &[Self], (width, height): (u32, u32)) -> Option<Self> {
        let (w, h) = (u128::from(width), u128::from(height));
        let wider_than_border = |pair: &[Self]| {
            let [(w0, h0), (w1, h1)] = [pair[0].terms(), pair[1].terms()];
            w * w * u128::from(h0 * h1) > h * h * u128::from(w0 * w1)
        };
        let at =
            among.windows(2).position(wider_than_border).unwrap_or(among.len().checked_sub(1)?);
        Some(among[at])
    }
}

/// The size tables, named by the length of the square's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Resolution {
    P1024,
    P2048,
    P3072,
    P3840,
    P4096,
}

impl Resolution {
    /// Width and height of an aspect ratio.
    #[must_use]
    pub const fn size(self, ratio: AspectRatio) -> (u32, u32) {
        use AspectRatio::{R1x1, R2x3, R3x2, R3x4, R4x3, R9x16, R16x9};
        let (width, height) = match (self, ratio) {
            (Self::P1024, R1x1) => (1024, 1024),
            (Self::P1024, R4x3 | R3x4) => (1152, 896),
            (Self::P1024, R16x9 | R9x16) => (1344, 768),
            (Self::P1024, R3x2 | R2x3) => (1344, 896),
            (Self::P2048, R1x1) => (2048, 2048),
            (Self::P2048, R4x3 | R3x4) => (2304, 1728),
            (Self::P2048, R16x9 | R9x16) => (2688, 1536),
            (Self::P2048, R3x2 | R2x3) => (2688, 1792),
            (Self::P3072, R1x1) => (3072, 3072),
            (Self::P3072, R4x3 | R3x4) => (3520, 2688),
            (Self::P3072 | Self::P4096, R16x9 | R9x16) => (4096, 2304),
            (Self::P3072, R3x2 | R2x3) => (3776, 2496),
            (Self::P3840, R1x1) => (3584, 3584),
            (Self::P3840, R4x3 | R3x4) => (4096, 2816),
            (Self::P3840, R16x9 | R9x16) => (4096, 2176),
            (Self::P3840 | Self::P4096, R3x2 | R2x3) => (4096, 2688),
            (Self::P4096, R1x1) => (4096, 4096),
            (Self::P4096, R4x3 | R3x4) => (4096, 3072),
        };
        if matches!(ratio, R3x4 | R2x3 | R9x16) { (height, width) } else { (width, height) }
    }

    /// The table that is named by this side.
    #[must_use]
    pub fn of_level(level: u32) -> Option<Self> {
        let all = [Self::P1024, Self::P2048, Self::P3072, Self::P3840, Self::P4096];
        all.into_iter().find(|resolution| resolution.level() == level)
    }

    /// The side of the square that the table is named by.
    #[must_use]
    pub const fn level(self) -> u32 {
        match self {
            Self::P1024 => 1024,
            Self::P2048 => 2048,
            Self::P3072 => 3072,
            Self::P3840 => 3840,
            Self::P4096 => 4096,
        }
    }
}

/// The levels of the multi-resolution grid.
pub const LEVELS: [u32; 9] = [2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840, 4096];

/// Level and size of each step of the grid up to `max`, smallest first. Sizes are multiples of 64, cut to the table of `max`.
#[must_use]
pub fn grid(max: Resolution, ratio: AspectRatio) -> Vec<(u32, (u32, u32))> {
    let (w, h) = ratio.terms();
    let root = (f64::from(w) / f64::from(h)).sqrt();
    let (most_width, most_height) = max.size(ratio);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let round64 = |length: f64| (length / 64.0).round_ties_even() as u32 * 64;
    let step = |&level: &u32| {
        let side = f64::from(level);
        (level, (round64(side * root).min(most_width), round64(side / root).min(most_height)))
    };
    LEVELS.iter().filter(|level| **level <= max.level()).map(step).collect()
}

/// The size to which the adaptive rule brings a picture, so that a crop of `target` is nearly all of it. A picture that doesn't cover
/// the target stays as it is.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn adaptive_size((width, height): (u32, u32), target: (u32, u32)) -> (u32, u32) {
    let [w, h, target_w, target_h] = [width, height, target.0, target.1].map(f64::from);
    let scale = (w / target_w).min(h / target_h);
    if scale <= 1.0 {
        return (width, height);
    }
    (((w / scale).ceil() as u32).max(target.0), ((h / scale).ceil() as u32).max(target.1))
}

/// The size to which a picture that is a little too small is enlarged: if it reaches more than `threshold` of the target both ways.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn rescue_size(
    (width, height): (u32, u32),
    target: (u32, u32),
    threshold: f64,
) -> Option<(u32, u32)> {
    let [w, h, target_w, target_h] = [width, height, target.0, target.1].map(f64::from);
    let share = (h / target_h).min(w / target_w);
    let enlarge = |side: f64, least: u32| ((side / share + 0.5).floor() as u32).max(least);
    (share > threshold).then(|| (enlarge(w, target.0), enlarge(h, target.1)))
}

/// What both pipelines have in common.
#[derive(Debug, Clone)]
struct Common {
    captions: PickCaption,
    as_image: bool,
}

impl Common {
    fn new() -> Self {
        Self { captions: PickCaption::default(), as_image: false }
    }

    /// Brings names and caption into order, and takes the picture out.
    fn begin(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<Image> {
        StripExtensions.apply(fields, rng)?;
        Rename::new([("images", "image")]).apply(fields, rng)?;
        match fields.remove("image") {
            Some(Value::Image(image)) => {
                self.captions.apply(fields, rng)?;
                Ok(image)
            }
            Some(other) => Err(Error::augment(format!("{}, not a decoded picture", other.kind()))
                .in_field("image")),
            None => Err(Error::filter("no image").in_field("image")),
        }
    }

    /// Resizes, crops and puts the results in.
    fn finish(
        &self,
        fields: &mut Fields<Value>,
        image: &Image,
        resized: (u32, u32),
        target: (u32, u32),
        bucket: String,
    ) -> Result<()> {
        let part = crop::center_region(resized, target)?;
        let image = resize::with(image, resized, Filter::Lanczos)
            .and_then(|resized| crop::at(&resized, part));
        let image = image.map_err(|error| error.in_field("image"))?;
        let value = if self.as_image {
            Value::Image(image)
        } else {
            Normalize::symmetric().value(image)?
        };
        fields.insert("image", value);
        fields.insert("aspect_ratio", Value::Text(bucket));
        let cropping = json!({
            "resize_w": resized.0, "resize_h": resized.1, "crop_x0": part.x, "crop_y0": part.y, "crop_w": target.0, "crop_h": target.1,
        });
        fields.insert("aug_params", Value::Json(json!({ "cropping": cropping })));
        Ok(())
    }
}

macro_rules! common {
    ($name:ident) => {
        impl $name {
            /// How captions are found and chosen. Default: [`PickCaption::default`].
            #[must_use]
            pub fn captions(mut self, captions: PickCaption) -> Self {
                self.common.captions = captions;
                self
            }

            /// Leaves the picture 8-bit, a quarter of the memory: for trainers that normalise on their device.
            #[must_use]
            pub fn as_image(mut self) -> Self {
                self.common.as_image = true;
                self
            }
        }
    };
}

/// `image_caption_augmentor`: one size for each aspect ratio.
#[derive(Debug, Clone)]
pub struct Fixed {
    resolution: Resolution,
    threshold: f64,
    padding_mask: bool,
    common: Common,
}

common!(Fixed);

impl Fixed {
    /// At the sizes of this table.
    #[must_use]
    pub fn new(resolution: Resolution) -> Self {
        Self { resolution, threshold: 0.9, padding_mask: false, common: Common::new() }
    }

    /// Enlarges pictures that reach more than this share of the target; smaller ones are left out. Default: 0.9.
    #[must_use]
    pub const fn threshold(mut self, share: f64) -> Self {
        self.threshold = share;
        self
    }

    /// Adds `padding_mask`. It is always zero, since nothing is padded.
    #[must_use]
    pub const fn padding_mask(mut self) -> Self {
        self.padding_mask = true;
        self
    }
}

impl Augment for Fixed {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        let image = self.common.begin(fields, rng)?;
        let size = (image.width, image.height);
        let ratio = AspectRatio::nearest(&AspectRatio::ALL, size)
            .ok_or_else(|| Error::filter("no aspect ratio is allowed"))?;
        let target = self.resolution.size(ratio);
        let mut resized = adaptive_size(size, target);
        if resized.0 < target.0 || resized.1 < target.1 {
            resized = rescue_size(resized, target, self.threshold).ok_or_else(|| {
                Error::filter(format!(
                    "{} x {} is too small for {} x {}",
                    size.0, size.1, target.0, target.1
                ))
                .in_field("image")
            })?;
        }
        self.common.finish(fields, &image, resized, target, ratio.label())?;
        if self.padding_mask {
            let (width, height) = (target.0 as usize, target.1 as usize);
            fields.insert(
                "padding_mask",
                Value::Tensor(Tensor {
                    shape: vec![1, height, width],
                    data: Data::F32(vec![0.0; width * height]),
                }),
            );
        }
        Ok(())
    }

    /// A picture that covers the largest sides of the table. With a smaller version the aspect ratio is that of its whole pixels, so
    /// a picture within a pixel of a border may fall on its other side.
    fn needs(&self) -> Needs {
        let sizes = AspectRatio::ALL.map(|ratio| self.resolution.size(ratio));
        let most = sizes.iter().fold((0, 0), |most, size| (most.0.max(size.0), most.1.max(size.1)));
        Needs::AtLeast(most.0, most.1)
    }
}

/// `image_caption_multi_resolution_augmentor`: for each picture the largest size of a grid that fits into it.
#[derive(Debug, Clone)]
pub struct MultiResolution {
    max: Resolution,
    common: Common,
}

common!(MultiResolution);

impl MultiResolution {
    /// At most at the sizes of this table.
    #[must_use]
    pub fn new(max: Resolution) -> Self {
        Self { max, common: Common::new() }
    }
}

impl Augment for MultiResolution {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        let image = self.common.begin(fields, rng)?;
        let size = (image.width, image.height);
        let ratio = AspectRatio::nearest(&AspectRatio::FIVE, size)
            .ok_or_else(|| Error::filter("no aspect ratio is allowed"))?;
        let fits = |step: &(u32, (u32, u32))| step.1.0 <= size.0 && step.1.1 <= size.1;
        let (level, target) = grid(self.max, ratio).into_iter().rfind(fits).ok_or_else(|| {
            Error::filter(format!("{} x {} is smaller than the grid", size.0, size.1))
                .in_field("image")
        })?;
        let resized = adaptive_size(size, target);
        self.common.finish(
            fields,
            &image,
            resized,
            target,
            format!("L{level}_{}", ratio.label()),
        )?;
        let crop = vec![i64::from(target.0), i64::from(target.1)];
        fields.insert(
            "target_crop_size",
            Value::Tensor(Tensor { shape: vec![2], data: Data::I64(crop) }),
        );
        Ok(())
    }
}
