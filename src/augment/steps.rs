//! Pipelines as JSON.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::pid::{Fixed, MultiResolution, Resolution};
use super::{
    CenterCrop, ColourJitter, Fill, Filter, Keep, Normalize, PadTo, PickCaption, Pipeline, Ragged,
    RandomCrop, RandomFlip, RandomGrey, RandomResizedCrop, Rename, ResizeCrop, ResizeExact,
    ResizeLongest, ResizeShortest, StripExtensions,
};
use crate::error::{Error, Result};

/// One part of a pipeline, by its name. Settings that are left out are the part's defaults.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Resize {
        width: u32,
        height: u32,
        #[serde(default)]
        filter: Filter,
    },
    ResizeShortest {
        side: u32,
        #[serde(default)]
        filter: Filter,
    },
    ResizeLongest {
        side: u32,
        #[serde(default)]
        filter: Filter,
    },
    CenterCrop {
        width: u32,
        height: u32,
    },
    ResizeCrop {
        side: u32,
        width: u32,
        height: u32,
        #[serde(default)]
        filter: Filter,
    },
    RandomCrop {
        width: u32,
        height: u32,
    },
    RandomResizedCrop {
        width: u32,
        height: u32,
        #[serde(default = "scale")]
        scale: [f64; 2],
        #[serde(default = "ratio")]
        ratio: [f64; 2],
        #[serde(default)]
        filter: Filter,
    },
    PadTo {
        width: u32,
        height: u32,
        fill: Fill,
    },
    RandomFlip {
        probability: f64,
        #[serde(default)]
        vertical: bool,
    },
    ColourJitter {
        #[serde(default)]
        brightness: f64,
        #[serde(default)]
        contrast: f64,
        #[serde(default)]
        saturation: f64,
        #[serde(default)]
        hue: f64,
    },
    RandomGrey {
        probability: f64,
    },
    Rename(Map<String, Json>),
    Keep(Vec<String>),
    StripExtensions,
    PickCaption {
        from: Vec<String>,
        to: String,
        prompts: Map<String, Json>,
    },
    Normalize {
        mean: Vec<f32>,
        std: Vec<f32>,
    },
    Ragged(Vec<String>),
    ImageCaptionAugmentor {
        resolution: u32,
        #[serde(default = "threshold")]
        threshold: f64,
        #[serde(default)]
        padding_mask: bool,
        #[serde(default)]
        as_image: bool,
    },
    ImageCaptionMultiResolutionAugmentor {
        resolution: u32,
        #[serde(default)]
        as_image: bool,
    },
}

const fn scale() -> [f64; 2] {
    [0.08, 1.0]
}

const fn ratio() -> [f64; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

const fn threshold() -> f64 {
    0.9
}

impl Pipeline {
    /// A pipeline from JSON: a list of parts with their settings, by the names of the types in this module, in small letters.
    ///
    /// ```
    /// use shardstream::augment::{Augment, Needs, Pipeline};
    /// let pipeline = Pipeline::from_json(r#"[
    ///     "strip_extensions",
    ///     {"rename": {"images": "image"}},
    ///     {"pick_caption": {"from": ["caption"], "to": "caption", "prompts": {"prompt": 1, "prompt_short": 0.5}}},
    ///     {"resize_shortest": {"side": 256, "filter": "bicubic"}},
    ///     {"random_crop": {"width": 224, "height": 224}},
    ///     {"random_flip": {"probability": 0.5}},
    ///     {"colour_jitter": {"brightness": 0.2, "hue": 0.05}},
    ///     {"normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}
    /// ]"#)?;
    /// assert_eq!(pipeline.needs(), Needs::AtLeast(256, 256));
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// The other parts: `resize_crop` (`side`, `width`, `height`), `resize` and `pad_to` (`width`, `height`; `fill`: `"edge"`, `"reflect"` or `{"value": 0}`), `resize_longest`,
    /// `center_crop`, `random_resized_crop` (`scale`, `ratio`: pairs of numbers), `random_grey`, `keep` and `ragged` (lists of names), and `PiD`'s
    /// two pipelines by the names under which it registers them: `{"image_caption_augmentor": {"resolution": 1024}}` (`threshold`, `padding_mask`,
    /// `as_image`) and `image_caption_multi_resolution_augmentor` (`as_image`).
    ///
    /// # Errors
    /// If it is no such list, or a part can't work as it is set.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::build(text, false)
    }

    /// The same for the eye: pictures stay pictures. No part draws other random numbers for that.
    #[cfg(feature = "cli")]
    pub(crate) fn for_display(text: &str) -> Result<Self> {
        Self::build(text, true)
    }

    fn build(text: &str, shown: bool) -> Result<Self> {
        let steps: Vec<Json> = serde_json::from_str(text).map_err(|error| {
            Error::config("a recipe is a JSON list of parts").with_source(error)
        })?;
        steps.into_iter().enumerate().try_fold(Self::new(), |pipeline, (at, step)| {
            let step = serde_json::from_value(step).map_err(|error| error.to_string());
            step.and_then(|step: Step| step.add(pipeline, shown))
                .map_err(|why| Error::config(format!("part {at} of the recipe: {why}")))
        })
    }
}

/// `true`, or what is wrong.
fn check(fine: bool, wrong: &str) -> Result<(), String> {
    if fine { Ok(()) } else { Err(wrong.to_owned()) }
}

fn sides(sides: [u32; 2]) -> Result<(), String> {
    check(!sides.contains(&0), "a side of 0 pixels")
}

fn share(share: f64) -> Result<(), String> {
    check((0.0..=1.0).contains(&share), "a probability is from 0 to 1")
}

fn resolution(level: u32) -> Result<Resolution, String> {
    Resolution::of_level(level)
        .ok_or_else(|| format!("resolution {level} is none of 1024, 2048, 3072, 3840, 4096"))
}

impl Step {
    fn add(self, to: Pipeline, shown: bool) -> Result<Pipeline, String> {
        Ok(match self {
            Self::Resize { width, height, filter } => {
                sides([width, height])?;
                to.then(ResizeExact::new(width, height).filter(filter))
            }
            Self::ResizeShortest { side, filter } => {
                sides([side; 2])?;
                to.then(ResizeShortest::new(side).filter(filter))
            }
            Self::ResizeLongest { side, filter } => {
                sides([side; 2])?;
                to.then(ResizeLongest::new(side).filter(filter))
            }
            Self::CenterCrop { width, height } => {
                sides([width, height])?;
                to.then(CenterCrop::new(width, height))
            }
            Self::ResizeCrop { side, width, height, filter } => {
                sides([side, side])?;
                sides([width, height])?;
                to.then(ResizeCrop::new(side, width, height).filter(filter))
            }
            Self::RandomCrop { width, height } => {
                sides([width, height])?;
                to.then(RandomCrop::new(width, height))
            }
            Self::RandomResizedCrop { width, height, scale, ratio, filter } => {
                sides([width, height])?;
                let range = |[from, to]: [f64; 2]| 0.0 < from && from <= to && to.is_finite();
                check(
                    range(scale) && scale[1] <= 1.0,
                    "scale is two shares of the area, ascending",
                )?;
                check(range(ratio), "ratio is two positive numbers, ascending")?;
                let crop = RandomResizedCrop::new(width, height).filter(filter);
                to.then(crop.scale(scale[0], scale[1]).ratio(ratio[0], ratio[1]))
            }
            Self::PadTo { width, height, fill } => {
                sides([width, height])?;
                to.then(PadTo::new(width, height, fill))
            }
            Self::RandomFlip { probability, vertical } => {
                share(probability)?;
                let flip = if vertical { RandomFlip::vertical } else { RandomFlip::horizontal };
                to.then(flip(probability))
            }
            Self::ColourJitter { brightness, contrast, saturation, hue } => {
                let factors = [brightness, contrast, saturation, hue];
                check(
                    factors.iter().all(|f| *f >= 0.0 && f.is_finite()),
                    "a spread is not negative",
                )?;
                check(hue <= 0.5, "hue turns by at most 0.5 of the circle")?;
                to.then(ColourJitter::new(brightness, contrast, saturation, hue))
            }
            Self::RandomGrey { probability } => {
                share(probability)?;
                to.then(RandomGrey::new(probability))
            }
            Self::Rename(names) => {
                let pairs = names.into_iter().map(|(old, new)| match new {
                    Json::String(new) => Ok((old, new)),
                    other => Err(format!("{old} can't be renamed to {other}")),
                });
                to.then(Rename::new(pairs.collect::<Result<Vec<_>, _>>()?))
            }
            Self::Keep(names) => to.then(Keep::new(names)),
            Self::StripExtensions => to.then(StripExtensions),
            Self::PickCaption { from, to: output, prompts } => {
                let weights = prompts.into_iter().map(|(name, weight)| {
                    let fine = weight.as_f64().filter(|weight| *weight >= 0.0);
                    fine.map(|weight| (name, weight))
                        .ok_or_else(|| format!("{weight} is no weight"))
                });
                let weights = weights.collect::<Result<Vec<_>, _>>()?;
                to.then(PickCaption::new(from, output).prompts(weights))
            }
            Self::Normalize { mean, std } => {
                check(mean.len() == std.len(), "as many means as standard deviations")?;
                check(!std.contains(&0.0), "a standard deviation of 0")?;
                if shown { to } else { to.then(Normalize::new(&mean, &std)) }
            }
            Self::Ragged(names) => {
                if shown {
                    to
                } else {
                    to.then(Ragged::new(names))
                }
            }
            Self::ImageCaptionAugmentor {
                resolution: level,
                threshold,
                padding_mask,
                as_image,
            } => {
                let fixed = Fixed::new(resolution(level)?).threshold(threshold);
                let fixed = if as_image || shown { fixed.as_image() } else { fixed };
                to.then(if padding_mask { fixed.padding_mask() } else { fixed })
            }
            Self::ImageCaptionMultiResolutionAugmentor { resolution: level, as_image } => {
                let multi = MultiResolution::new(resolution(level)?);
                to.then(if as_image || shown { multi.as_image() } else { multi })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_and_named() {
        for (text, why) in [
            ("{}", "config: a recipe is a JSON list of parts: invalid type: map"),
            (r#"[{"blur": {}}]"#, "config: part 0 of the recipe: unknown variant `blur`"),
            (
                r#"["strip_extensions", {"center_crop": {"width": 3}}]"#,
                "config: part 1 of the recipe: missing field `height`",
            ),
            (
                r#"[{"center_crop": {"width": 3, "height": 0}}]"#,
                "config: part 0 of the recipe: a side of 0 pixels",
            ),
            (
                r#"[{"random_flip": {"probability": 1.5}}]"#,
                "config: part 0 of the recipe: a probability is from 0 to 1",
            ),
            (
                r#"[{"random_flip": {"probability": 0.5, "vertcal": true}}]"#,
                "config: part 0 of the recipe: unknown field `vertcal`",
            ),
            (
                r#"[{"random_resized_crop": {"width": 3, "height": 3, "scale": [0.5, 0.2]}}]"#,
                "config: part 0 of the recipe: scale is two shares of the area, ascending",
            ),
            (
                r#"[{"image_caption_augmentor": {"resolution": 1000}}]"#,
                "config: part 0 of the recipe: resolution 1000 is none of 1024, 2048, 3072, 3840, 4096",
            ),
            (
                r#"[{"normalize": {"mean": [0.5], "std": [0]}}]"#,
                "config: part 0 of the recipe: a standard deviation of 0",
            ),
        ] {
            let error = Pipeline::from_json(text).err().map(|error| error.to_string());
            assert!(
                error.as_ref().is_some_and(|error| error.starts_with(why)),
                "{text}: {error:?}"
            );
        }
    }
}
