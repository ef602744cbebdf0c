//! The way back from a batch to its samples.

use super::batch::{Column, Columns, Ragged};
use super::fields::{Fields, Name};
use super::tensor::{Data, Tensor};
use super::value::Value;
use crate::error::{Error, Result};

/// A batch that can be taken apart again: what [`Collate`](super::Collate) does, backwards.
pub trait Split {
    /// What a sample of it is.
    type Body;

    /// The bodies of the `samples` samples that it was made of, in order.
    ///
    /// # Errors
    /// If it does not hold so many.
    fn split(self, samples: usize) -> Result<Vec<Self::Body>>;
}

fn check(holds: usize, samples: usize) -> Result<()> {
    if holds == samples {
        Ok(())
    } else {
        Err(Error::batch(format!("a batch of {holds} bodies for {samples} samples")))
    }
}

impl<T> Split for Vec<T> {
    type Body = T;

    fn split(self, samples: usize) -> Result<Self> {
        check(self.len(), samples)?;
        Ok(self)
    }
}

/// Along the first axis.
impl Split for Tensor {
    type Body = Self;

    fn split(self, samples: usize) -> Result<Vec<Self>> {
        let (&holds, shape) =
            self.shape.split_first().ok_or_else(|| Error::batch("a scalar is no batch"))?;
        check(holds, samples)?;
        let each = shape.iter().product::<usize>();
        let part = |at: usize| Self {
            shape: shape.to_vec(),
            data: self.data.part(at * each..(at + 1) * each),
        };
        Ok((0..samples).map(part).collect())
    }
}

impl Split for Ragged {
    type Body = Tensor;

    fn split(self, samples: usize) -> Result<Vec<Tensor>> {
        check(self.shapes.len(), samples)?;
        let offsets = self.offsets();
        let ranges = offsets.windows(2).map(|pair| pair[0]..pair[1]);
        let shapes = self.shapes.into_iter();
        Ok(shapes.zip(ranges).map(|(shape, r)| Tensor { shape, data: self.data.part(r) }).collect())
    }
}

/// `[B]` of `i64` comes out as whole numbers, other tensors as tensors: a picture as `[C, H, W]`.
impl Split for Column {
    type Body = Value;

    fn split(self, samples: usize) -> Result<Vec<Value>> {
        Ok(match self {
            Self::Tensor(tensor) => match (tensor.shape.len(), &tensor.data) {
                (1, Data::I64(values)) => {
                    values.clone().split(samples)?.into_iter().map(Value::Int).collect()
                }
                _ => tensor.split(samples)?.into_iter().map(Value::Tensor).collect(),
            },
            Self::Ragged(ragged) => ragged.split(samples)?.into_iter().map(Value::Ragged).collect(),
            Self::Text(texts) => texts.split(samples)?.into_iter().map(Value::Text).collect(),
            Self::Values(values) => values.split(samples)?,
        })
    }
}

impl Split for Columns {
    type Body = Fields<Value>;

    fn split(self, samples: usize) -> Result<Vec<Fields<Value>>> {
        let mut bodies = vec![Fields::with_capacity(self.len()); samples];
        for (name, column) in self {
            let values = column.split(samples).map_err(|error| error.in_field(&*name))?;
            for (body, value) in bodies.iter_mut().zip(values) {
                body.push(Name::clone(&name), value);
            }
        }
        Ok(bodies)
    }
}

impl<T: Split, const N: usize> Split for [T; N] {
    type Body = [T::Body; N];

    fn split(self, samples: usize) -> Result<Vec<Self::Body>> {
        let columns: Vec<_> =
            self.into_iter().map(|column| column.split(samples)).collect::<Result<_>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let mut body = || -> Option<Self::Body> {
            let values: Option<Vec<_>> = columns.iter_mut().map(Iterator::next).collect();
            values?.try_into().ok()
        };
        (0..samples).map(|_| body().ok_or_else(|| Error::batch("a column is too short"))).collect()
    }
}

macro_rules! split_tuple {
    ($($name:ident),*) => {
        impl<$($name: Split),*> Split for ($($name,)*) {
            type Body = ($($name::Body,)*);

            #[allow(non_snake_case)]
            fn split(self, samples: usize) -> Result<Vec<Self::Body>> {
                let ($($name,)*) = self;
                $(let mut $name = $name.split(samples)?.into_iter();)*
                let short = || Error::batch("a column is too short");
                (0..samples).map(|_| Ok(($($name.next().ok_or_else(short)?,)*))).collect()
            }
        }
    };
}

split_tuple!(A);
split_tuple!(A, B);
split_tuple!(A, B, C);
split_tuple!(A, B, C, D);
