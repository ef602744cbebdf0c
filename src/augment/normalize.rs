//! Pictures to numbers, last.

use super::pixels::{check, no_picture};
use super::{Augment, Needs};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::recycled;
use crate::sample::{Data, Fields, Image, Normalized, Tables, Tensor, Value};

/// `(v / 255 - mean) / std` for each channel, as `f32` in `[C, H, W]` (65,535 in place of 255 for 16 bits).
///
/// # Errors
/// If there is not one mean and one standard deviation for each channel.
pub fn normalize(image: &Image, mean: &[f32], std: &[f32]) -> Result<Tensor> {
    check_parameters(image, mean, std)?;
    let channels = usize::from(image.channels);
    let plane = image.data.len() / channels;
    let mut out = recycled::to_fill(image.data.len());
    let planes = out.chunks_exact_mut(plane).zip(mean.iter().zip(std)).enumerate();
    match &image.data {
        Data::U8(values) => {
            for (channel, (plane, (mean, std))) in planes {
                let table = table(*mean, *std);
                for (out, value) in plane.iter_mut().zip(values[channel..].iter().step_by(channels))
                {
                    *out = table[usize::from(*value)];
                }
            }
        }
        Data::U16(values) => {
            for (channel, (plane, (mean, std))) in planes {
                for (out, value) in plane.iter_mut().zip(values[channel..].iter().step_by(channels))
                {
                    *out = (f32::from(*value) / 65_535.0 - mean) / std;
                }
            }
        }
        _ => return Err(no_picture(image)),
    }
    Ok(Tensor { shape: image.shape().to_vec(), data: Data::F32(out) })
}

fn check_parameters(image: &Image, mean: &[f32], std: &[f32]) -> Result<()> {
    check(image)?;
    let channels = usize::from(image.channels);
    if mean.len() != channels || std.len() != channels || std.contains(&0.0) {
        return Err(Error::augment(format!(
            "{} needs {channels} means and {channels} standard deviations that are not 0",
            image.describe()
        )));
    }
    Ok(())
}

/// [`normalize`] for a whole batch of 8-bit pictures `[B, C, H, W]`, so that samples wait as bytes and only batches are `f32`.
///
/// # Errors
/// If the tensor is no such batch, or there is not one mean and one standard deviation for each channel.
pub fn normalize_batch(batch: &Tensor, mean: &[f32], std: &[f32]) -> Result<Tensor> {
    let (&[_, channels, height, width], Data::U8(values)) = (&batch.shape[..], &batch.data) else {
        return Err(Error::augment(format!("{} is no batch of 8-bit pictures", batch.describe())));
    };
    if mean.len() != channels || std.len() != channels || std.contains(&0.0) {
        return Err(Error::augment(format!(
            "{} needs {channels} means and {channels} standard deviations that are not 0",
            batch.describe()
        )));
    }
    let tables: Vec<[f32; 256]> =
        mean.iter().zip(std).map(|(mean, std)| table(*mean, *std)).collect();
    let mut out = recycled::room(values.len());
    for (plane, table) in values.chunks_exact((height * width).max(1)).zip(tables.iter().cycle()) {
        out.extend(plane.iter().map(|value| table[usize::from(*value)]));
    }
    Ok(Tensor { shape: batch.shape.clone(), data: Data::F32(out) })
}

/// All 256 results, by the same operations in the same order as torchvision.
fn table(mean: f32, std: f32) -> [f32; 256] {
    std::array::from_fn(|v| (v as f32 / 255.0 - mean) / std)
}

/// Makes every picture an `f32` tensor; see [`normalize`]. Put it last. Pictures of 8 bits stay so until their batch is put together
/// ([`Normalized`]): then the numbers are written once, into their place.
#[derive(Debug, Clone)]
pub struct Normalize {
    mean: Vec<f32>,
    std: Vec<f32>,
    tables: Tables,
}

impl Normalize {
    /// With one mean and one standard deviation for each channel.
    #[must_use]
    pub fn new(mean: &[f32], std: &[f32]) -> Self {
        let tables = Tables::new(mean.iter().zip(std).map(|(mean, std)| table(*mean, *std)));
        Self { mean: mean.to_vec(), std: std.to_vec(), tables }
    }

    /// One picture: for pipelines whose bodies are not [`Fields`].
    ///
    /// # Errors
    /// If it does not have 8 bits, or there is not one mean and one standard deviation for each channel.
    pub fn picture(&self, image: Image) -> Result<Normalized> {
        self.check(&image)?;
        let what = image.describe();
        Normalized::new(image, &self.tables)
            .ok_or_else(|| Error::augment(format!("{what} is no picture of 8 bits")))
    }

    fn check(&self, image: &Image) -> Result<()> {
        check_parameters(image, &self.mean, &self.std)
    }

    /// A picture of 8 bits waits for its batch; one of 16 bits becomes numbers at once.
    pub(super) fn value(&self, image: Image) -> Result<Value> {
        match image.data {
            Data::U8(_) => self.picture(image).map(Value::Normalized),
            _ => normalize(&image, &self.mean, &self.std).map(Value::Tensor),
        }
    }

    /// The means and deviations of ImageNet, for RGB.
    #[must_use]
    pub fn imagenet() -> Self {
        Self::new(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225])
    }

    /// To -1 to 1, for RGB.
    #[must_use]
    pub fn symmetric() -> Self {
        Self::new(&[0.5; 3], &[0.5; 3])
    }
}

impl Augment for Normalize {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        for (name, value) in fields.iter_mut() {
            let taken = std::mem::replace(value, Value::Int(0));
            *value = match taken {
                Value::Image(image) => {
                    self.value(image).map_err(|error| error.in_field(&**name))?
                }
                other => other,
            };
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
