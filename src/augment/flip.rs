//! Mirroring.

use super::pixels::{check, map_values, row};
use super::{Augment, Needs, each_image};
use crate::error::Result;
use crate::random::Rng;
use crate::sample::{Fields, Image, Value};

/// Left and right change places.
///
/// # Errors
/// If the picture's values don't fit its size.
pub fn horizontal(image: &Image) -> Result<Image> {
    check(image)?;
    let channels = usize::from(image.channels);
    let data = map_values!(image, image.data.len(), (values, out) => {
        for row in values.chunks_exact(row(image)) {
            row.rchunks_exact(channels).for_each(|pixel| out.extend_from_slice(pixel));
        }
    });
    Ok(Image { data, ..*image })
}

/// Top and bottom change places.
///
/// # Errors
/// If the picture's values don't fit its size.
pub fn vertical(image: &Image) -> Result<Image> {
    check(image)?;
    let data = map_values!(image, image.data.len(), (values, out) => {
        values.rchunks_exact(row(image)).for_each(|row| out.extend_from_slice(row));
    });
    Ok(Image { data, ..*image })
}

/// Mirrors some samples.
#[derive(Debug, Clone, Copy)]
pub struct RandomFlip {
    probability: f64,
    vertical: bool,
}

impl RandomFlip {
    /// Left and right, with this probability.
    #[must_use]
    pub const fn horizontal(probability: f64) -> Self {
        Self { probability, vertical: false }
    }

    /// Top and bottom, with this probability.
    #[must_use]
    pub const fn vertical(probability: f64) -> Self {
        Self { probability, vertical: true }
    }
}

impl Augment for RandomFlip {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        if !rng.chance(self.probability) {
            return Ok(());
        }
        let flip = if self.vertical { vertical } else { horizontal };
        each_image(fields, rng, |image, _| {
            *image = flip(image)?;
            Ok(())
        })
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
