//! Adding a margin.

use serde::Deserialize;

use super::pixels::{check, map_values, row};
use super::{Augment, each_image};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Fields, Image, Value};

/// What a margin is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fill {
    /// One value in all channels.
    Value(u8),
    /// The pixel at the edge, again and again.
    Edge,
    /// The picture mirrored at its edge pixel, as often as is needed.
    Reflect,
}

/// Widths of the four margins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Margins {
    pub left: u32,
    pub top: u32,
    pub right: u32,
    pub bottom: u32,
}

/// Adds margins.
///
/// # Errors
/// If the result would be larger than any picture.
#[allow(clippy::useless_conversion)] // of 8-bit values only
pub fn pad(image: &Image, margins: Margins, fill: Fill) -> Result<Image> {
    check(image)?;
    let Margins { left, top, right, bottom } = margins;
    let sum = |side: u32, before: u32, after: u32| side.checked_add(before)?.checked_add(after);
    let size = sum(image.width, left, right)
        .zip(sum(image.height, top, bottom))
        .filter(|(w, h)| u64::from(*w) * u64::from(*h) <= 1 << 32);
    let (width, height) = size.ok_or_else(|| Error::augment("the margins are too large"))?;
    let columns = sources(image.width, left, width, fill);
    let rows = sources(image.height, top, height, fill);
    let channels = usize::from(image.channels);
    let n = width as usize * height as usize * channels;
    let data = map_values!(image, n, (values, out) => {
        let blank = match fill {
            Fill::Value(value) => value.into(),
            Fill::Edge | Fill::Reflect => 0,
        };
        for y in &rows {
            for x in &columns {
                match (x, y) {
                    (Some(x), Some(y)) => out.extend_from_slice(&values[y * row(image) + x * channels..][..channels]),
                    _ => out.extend(std::iter::repeat_n(blank, channels)),
                }
            }
        }
    });
    Ok(Image { width, height, channels: image.channels, data })
}

/// For each of `total` places the place in the picture whose value it gets.
fn sources(side: u32, before: u32, total: u32, fill: Fill) -> Vec<Option<usize>> {
    let side = i64::from(side);
    (0..i64::from(total))
        .map(|place| {
            let at = place - i64::from(before);
            let source = match fill {
                _ if (0..side).contains(&at) => at,
                Fill::Value(_) => return None,
                Fill::Edge => at.clamp(0, side - 1),
                Fill::Reflect if side == 1 => 0,
                Fill::Reflect => {
                    let turn = at.rem_euclid(2 * (side - 1));
                    turn.min(2 * (side - 1) - turn)
                }
            };
            usize::try_from(source).ok()
        })
        .collect()
}

/// Pads pictures in the middle up to a size; what is larger stays as it is.
#[derive(Debug, Clone, Copy)]
pub struct PadTo {
    width: u32,
    height: u32,
    fill: Fill,
}

impl PadTo {
    /// To this size.
    #[must_use]
    pub const fn new(width: u32, height: u32, fill: Fill) -> Self {
        Self { width, height, fill }
    }
}

impl Augment for PadTo {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        each_image(fields, rng, |image, _| {
            let (x, y) =
                (self.width.saturating_sub(image.width), self.height.saturating_sub(image.height));
            let margins = Margins { left: x / 2, top: y / 2, right: x - x / 2, bottom: y - y / 2 };
            *image = pad(image, margins, self.fill)?;
            Ok(())
        })
    }
}
