//! Pictures that become numbers when their batch is put together.

use std::sync::Arc;

use super::batch::Collate;
use super::columns::none;
use super::tensor::{Data, Tensor};
use super::value::Image;
use crate::error::{Error, Result};
use crate::recycled;

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
        let mut data = recycled::to_fill(self.image.data.len());
        self.write(&mut data, |number| number);
        Tensor { shape: self.shape().to_vec(), data: Data::F32(data) }
    }

    /// Writes the numbers channel by channel into a slot for as many, each made into what the slot is of.
    pub(super) fn write<T>(&self, slot: &mut [T], make: impl Fn(f32) -> T) {
        let Data::U8(values) = &self.image.data else { return };
        let tables = &*self.tables.0;
        let plane = values.len() / tables.len().max(1);
        if let ([red, green, blue], Some((reds, rest))) = (tables, slot.split_at_mut_checked(plane))
            && let Some((greens, blues)) = rest.split_at_mut_checked(plane)
        {
            let pixels = values.as_chunks::<3>().0.iter();
            for (((pixel, r), g), b) in pixels.zip(reds).zip(greens).zip(blues) {
                *r = make(red[usize::from(pixel[0])]);
                *g = make(green[usize::from(pixel[1])]);
                *b = make(blue[usize::from(pixel[2])]);
            }
        } else {
            let planes = slot.chunks_exact_mut(plane.max(1));
            for ((channel, table), plane) in tables.iter().enumerate().zip(planes) {
                let values = values[channel..].iter().step_by(tables.len());
                for (number, value) in plane.iter_mut().zip(values) {
                    *number = make(table[usize::from(*value)]);
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
        let mut data = recycled::to_fill(shape.iter().product());
        let each = first.image.data.len().max(1);
        for (body, slot) in bodies.iter().zip(data.chunks_exact_mut(each)) {
            body.check(first)?;
            body.write(slot, |number| number);
        }
        Tensor::new(shape, Data::F32(data))
            .ok_or_else(|| Error::batch("a picture whose pixels don't fit its size"))
    }
}
