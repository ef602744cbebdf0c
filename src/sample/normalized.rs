//! Pictures that become numbers when their batch is put together.

use std::sync::Arc;

use super::batch::Collate;
use super::columns::none;
use super::recycled;
use super::tensor::{Data, Tensor};
use super::value::Image;
use crate::error::{Error, Result};

/// An 8-bit picture, and what each of its values will be as `f32`: a quarter of the memory of the numbers, which are written once, into
/// their place in the batch `[B, C, H, W]`. Made by [`Normalize`](crate::augment::Normalize).
#[derive(Debug, Clone, PartialEq)]
pub struct Normalized {
    image: Image,
    tables: Tables,
}

/// For each channel, the number that stands for each of the 256 values.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables(Arc<[[f32; 256]]>);

impl Tables {
    /// One table for each channel.
    #[must_use]
    pub fn new(tables: impl IntoIterator<Item = [f32; 256]>) -> Self {
        Self(tables.into_iter().collect())
    }
}

impl Normalized {
    /// A picture to be normalised; `None` if it does not have 8 bits, or another number of channels than there are tables.
    #[must_use]
    pub fn new(image: Image, tables: &Tables) -> Option<Self> {
        let fits = usize::from(image.channels) == tables.0.len()
            && image.data.len() == image.shape().iter().product::<usize>()
            && matches!(image.data, Data::U8(_));
        fits.then(|| Self { image, tables: tables.clone() })
    }

    /// The picture as it is.
    #[must_use]
    pub const fn image(&self) -> &Image {
        &self.image
    }

    /// Channels, height, width.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.image.shape()
    }

    /// The numbers, `[C, H, W]`.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let mut data = Vec::with_capacity(self.image.data.len());
        self.append(&mut data);
        Tensor { shape: self.shape().to_vec(), data: Data::F32(data) }
    }

    /// Appends the numbers channel by channel.
    pub(super) fn append(&self, to: &mut Vec<f32>) {
        let Data::U8(values) = &self.image.data else { return };
        for (channel, table) in self.tables.0.iter().enumerate() {
            if let (pixels, []) = values.as_chunks::<3>()
                && self.image.channels == 3
            {
                to.extend(pixels.iter().map(|pixel| table[usize::from(pixel[channel])]));
            } else {
                let values = values[channel..].iter().step_by(self.tables.0.len());
                to.extend(values.map(|value| table[usize::from(*value)]));
            }
        }
    }

    /// Writes the numbers channel by channel, in the machine's byte order.
    pub(super) fn write(&self, slot: &mut [u8]) {
        let Data::U8(values) = &self.image.data else { return };
        let channels = self.tables.0.len();
        let planes = slot.chunks_exact_mut((values.len() / channels.max(1) * 4).max(1));
        for ((channel, table), plane) in self.tables.0.iter().enumerate().zip(planes) {
            let numbers = plane.as_chunks_mut::<4>().0;
            if let (3, (pixels, [])) = (channels, values.as_chunks::<3>()) {
                for (number, pixel) in numbers.iter_mut().zip(pixels) {
                    *number = table[usize::from(pixel[channel])].to_ne_bytes();
                }
            } else {
                let values = values[channel..].iter().step_by(channels);
                for (number, value) in numbers.iter_mut().zip(values) {
                    *number = table[usize::from(*value)].to_ne_bytes();
                }
            }
        }
    }

    /// Type and shape, for error messages.
    pub(super) fn describe(&self) -> String {
        format!("tensor f4 {:?}", self.shape())
    }
}

/// `[B, C, H, W]` of `f32`.
impl Collate for Normalized {
    type Output = Tensor;

    fn check(&self, first: &Self) -> Result<()> {
        if self.shape() == first.shape() {
            Ok(())
        } else {
            Err(Error::batch(format!("{} in a batch of {}", self.describe(), first.describe())))
        }
    }

    fn bytes(&self) -> usize {
        self.image.bytes()
    }

    fn batched(&self) -> usize {
        self.image.data.len() * size_of::<f32>()
    }

    fn collate(bodies: Vec<Self>) -> Result<Tensor> {
        let first = bodies.first().ok_or_else(none)?;
        let mut shape = vec![bodies.len()];
        shape.extend(first.shape());
        let mut data = recycled::floats(shape.iter().product());
        for body in &bodies {
            body.check(first)?;
            body.append(&mut data);
        }
        Tensor::new(shape, Data::F32(data))
            .ok_or_else(|| Error::batch("a picture whose pixels don't fit its size"))
    }
}
