//! Batches: the heads of some samples, and their bodies collated.

use std::sync::Arc;

use super::fields::Fields;
use super::tensor::{Data, Tensor};
use super::value::Value;
use super::{Head, Sample};
use crate::error::{Error, Result};

/// Some samples collated.
#[derive(Debug, Clone)]
pub struct Batch<C> {
    /// The heads of the samples, in order.
    pub heads: Vec<Head>,
    /// What their bodies were made into.
    pub data: C,
}

impl<C> Batch<C> {
    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// What carries the heads of samples: a sample or a batch. This is all that a loader wants to know of what it hands out.
pub trait Heads {
    /// The heads, in the order in which the samples are delivered.
    fn heads(&self) -> &[Head];
}

impl<T> Heads for Sample<T> {
    fn heads(&self) -> &[Head] {
        std::slice::from_ref(&self.head)
    }
}

impl<C> Heads for Batch<C> {
    fn heads(&self) -> &[Head] {
        &self.heads
    }
}

/// Bodies that can be made into one batch.
pub trait Collate: Sized {
    /// What a batch of them is.
    type Output;

    /// Whether collating only moves the bodies: then it happens where the samples are gathered, and not on a thread of its own.
    const MOVES: bool = false;

    /// Whether `self` may stand in one batch behind `first`.
    ///
    /// # Errors
    /// What differs: a field that is missing, another shape, another type.
    fn check(&self, first: &Self) -> Result<()>;

    /// About how many bytes of memory it holds: for stages that are bounded in bytes. The same for the same sample, always.
    fn bytes(&self) -> usize {
        size_of_val(self)
    }

    /// About how many bytes it takes in a batch.
    fn batched(&self) -> usize {
        self.bytes()
    }

    /// Makes one of many. All have passed [`Collate::check`] against the first.
    ///
    /// # Errors
    /// If they can't be made into one all the same.
    fn collate(bodies: Vec<Self>) -> Result<Self::Output>;
}

/// One field over a batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Column {
    /// Numbers of one shape: `[B, ...]`. Pictures become `[B, C, H, W]`.
    Tensor(Tensor),
    /// Numbers of one type in shapes of their own, one sample behind the other: what was asked to be ragged.
    Ragged(Ragged),
    /// Text.
    Text(Vec<String>),
    /// Anything else.
    Values(Vec<Value>),
}

/// Tensors of one type in shapes of their own, one behind the other in one piece of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Ragged {
    /// The shape of each sample; all have as many axes.
    pub shapes: Vec<Vec<usize>>,
    /// The elements of all samples.
    pub data: Data,
}

impl Ragged {
    /// Where each sample's elements begin, and where those of the last one end: one more than there are samples.
    #[must_use]
    pub fn offsets(&self) -> Vec<usize> {
        let mut end = 0;
        let ends = self.shapes.iter().map(|shape| {
            end += shape.iter().product::<usize>();
            end
        });
        [0].into_iter().chain(ends).collect()
    }
}

/// The fields of a batch.
pub type Columns = Fields<Column>;

/// Kept together in a list.
macro_rules! collate_to_list {
    ($($t:ty: $bytes:expr),*) => {$(
        impl Collate for $t {
            type Output = Vec<Self>;

            const MOVES: bool = true;

            fn check(&self, _: &Self) -> Result<()> {
                Ok(())
            }

            fn bytes(&self) -> usize {
                let inside: fn(&Self) -> usize = $bytes;
                size_of_val(self) + inside(self)
            }

            fn collate(bodies: Vec<Self>) -> Result<Self::Output> {
                Ok(bodies)
            }
        }
    )*};
}

collate_to_list!(
    String: |text| text.len(),
    bytes::Bytes: |bytes| bytes.len(),
    i64: |_| 0,
    u32: |_| 0,
    u64: |_| 0,
    f32: |_| 0,
    Fields<bytes::Bytes>: |fields| fields.iter().map(|(_, bytes)| bytes.len()).sum(),
    Arc<str>: |text| text.len(),
    (): |()| 0
);

impl Collate for Tensor {
    type Output = Self;

    fn check(&self, first: &Self) -> Result<()> {
        if self.data.dtype() != first.data.dtype() {
            return Err(Error::batch(format!(
                "type {} in a batch of {}",
                self.data.dtype(),
                first.data.dtype()
            )));
        }
        if self.shape != first.shape {
            return Err(Error::batch(format!(
                "shape {:?} in a batch of {:?}",
                self.shape, first.shape
            )));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.data.as_bytes().len()
    }

    fn collate(bodies: Vec<Self>) -> Result<Self> {
        let first = bodies.first().ok_or_else(|| Error::batch("no samples to make a batch of"))?;
        let mut shape = vec![bodies.len()];
        shape.extend_from_slice(&first.shape);
        let mut data = first.data.empty_like(first.data.len() * bodies.len());
        for body in &bodies {
            body.check(first)?;
            data.append(&body.data);
        }
        Ok(Self { shape, data })
    }
}

macro_rules! collate_tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Collate),*> Collate for ($($name,)*) {
            type Output = ($($name::Output,)*);

            const MOVES: bool = $($name::MOVES)&&*;

            fn check(&self, first: &Self) -> Result<()> {
                $(self.$index.check(&first.$index)?;)*
                Ok(())
            }

            fn bytes(&self) -> usize {
                0 $(+ self.$index.bytes())*
            }

            fn batched(&self) -> usize {
                0 $(+ self.$index.batched())*
            }

            #[allow(non_snake_case)]
            fn collate(bodies: Vec<Self>) -> Result<Self::Output> {
                $(let mut $name = Vec::with_capacity(bodies.len());)*
                for body in bodies {
                    $($name.push(body.$index);)*
                }
                Ok(($($name::collate($name)?,)*))
            }
        }
    };
}

/// Place by place: what [`to_tuple`](crate::stages::FieldStream::to_tuple) makes.
impl<T: Collate, const N: usize> Collate for [T; N] {
    type Output = [T::Output; N];

    fn check(&self, first: &Self) -> Result<()> {
        self.iter().zip(first).try_for_each(|(own, first)| own.check(first))
    }

    fn bytes(&self) -> usize {
        self.iter().map(Collate::bytes).sum()
    }

    fn batched(&self) -> usize {
        self.iter().map(Collate::batched).sum()
    }

    fn collate(bodies: Vec<Self>) -> Result<Self::Output> {
        let mut columns: [Vec<T>; N] = std::array::from_fn(|_| Vec::with_capacity(bodies.len()));
        for body in bodies {
            columns.iter_mut().zip(body).for_each(|(column, value)| column.push(value));
        }
        let collated: Vec<T::Output> =
            columns.into_iter().map(T::collate).collect::<Result<_>>()?;
        collated.try_into().map_err(|_| Error::batch("another number of columns"))
    }
}

collate_tuple!(A 0);
collate_tuple!(A 0, B 1);
collate_tuple!(A 0, B 1, C 2);
collate_tuple!(A 0, B 1, C 2, D 3);
