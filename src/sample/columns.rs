//! Decoded fields into the columns of a batch, by a strict schema: that of the batch's first sample.

use super::batch::{Collate, Column, Columns, Ragged};
use super::fields::{Fields, Name};
use super::normalized::Normalized;
use super::tensor::{Data, Tensor};
use super::value::{Image, Value};
use crate::error::{Error, Result};

/// Pictures become `[B, C, H, W]`, whole numbers `[B]` of `i64`, tensors are stacked, ragged ones put one behind the other, text is listed, everything else is kept as it is.
/// All samples have the same fields of the same types and shapes.
impl Collate for Fields<Value> {
    type Output = Columns;

    fn check(&self, first: &Self) -> Result<()> {
        for (name, value) in first.iter() {
            let own = self.get(name).ok_or_else(|| {
                Error::batch(format!(
                    "missing, and the first sample of the batch has it ({})",
                    value.describe()
                ))
                .in_field(&**name)
            })?;
            own.check(value).map_err(|error| error.in_field(&**name))?;
        }
        match self.iter().find(|(name, _)| first.get(name).is_none()) {
            Some((name, value)) => Err(Error::batch(format!(
                "{} in a batch whose first sample has no such field",
                value.describe()
            ))
            .in_field(&**name)),
            None => Ok(()),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.iter().map(|(_, value)| value.bytes()).sum::<usize>()
    }

    fn batched(&self) -> usize {
        self.iter().map(|(_, value)| value.batched()).sum()
    }

    fn collate(mut bodies: Vec<Self>) -> Result<Columns> {
        let first = bodies.first().ok_or_else(none)?;
        let names: Vec<_> = first.iter().map(|(name, _)| Name::clone(name)).collect();
        for body in &bodies[1..] {
            body.check(first)?;
        }
        let mut columns = Columns::with_capacity(names.len());
        for name in names {
            let values = bodies.iter_mut().filter_map(|body| body.remove(&name)).collect();
            let column = Value::collate(values).map_err(|error| error.in_field(&*name))?;
            columns.push(name, column);
        }
        Ok(columns)
    }
}

impl Collate for Value {
    type Output = Column;

    fn check(&self, first: &Self) -> Result<()> {
        match (self, first) {
            (Self::Image(own), Self::Image(first)) => own.check(first),
            (Self::Tensor(own), Self::Tensor(first)) => own.check(first),
            (Self::Ragged(own), Self::Ragged(first)) => check_ragged(own, first),
            (Self::Normalized(own), Self::Normalized(first)) => own.check(first),
            // Pictures of 8 and of 16 bits, normalised, are the same to a batch.
            (Self::Normalized(picture), Self::Tensor(tensor))
            | (Self::Tensor(tensor), Self::Normalized(picture))
                if matches!(tensor.data, Data::F32(_)) && tensor.shape == picture.shape() =>
            {
                Ok(())
            }
            (own, first) if own.kind() == first.kind() => Ok(()),
            (own, first) => {
                Err(Error::batch(format!("{} in a batch of {}", own.describe(), first.describe())))
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self)
            + match self {
                Self::Bytes(bytes) => bytes.len(),
                Self::Text(text) => text.len(),
                // As text: near enough.
                Self::Json(value) => value.to_string().len(),
                Self::Int(_) => 0,
                Self::Image(image) => image.bytes(),
                Self::Normalized(picture) => picture.bytes(),
                Self::Tensor(tensor) | Self::Ragged(tensor) => tensor.bytes(),
                Self::Tensors(tensors) => {
                    tensors.iter().map(|(name, tensor)| name.len() + tensor.bytes()).sum()
                }
            }
    }

    fn batched(&self) -> usize {
        match self {
            Self::Normalized(picture) => picture.batched(),
            other => other.bytes(),
        }
    }

    fn collate(bodies: Vec<Self>) -> Result<Column> {
        let first = bodies.first().ok_or_else(none)?;
        for body in &bodies[1..] {
            body.check(first)?;
        }
        let kind = std::mem::discriminant(first);
        let mixed = bodies.iter().any(|body| std::mem::discriminant(body) != kind);
        macro_rules! all {
            ($variant:ident) => {
                bodies
                    .into_iter()
                    .filter_map(|v| if let Self::$variant(v) = v { Some(v) } else { None })
                    .collect()
            };
        }
        Ok(match first {
            Self::Normalized(_) | Self::Tensor(_) if mixed => {
                let tensors = bodies.into_iter().filter_map(Self::into_tensor).collect();
                Column::Tensor(Tensor::collate(tensors)?)
            }
            Self::Normalized(_) => Column::Tensor(Normalized::collate(all!(Normalized))?),
            Self::Image(_) => Column::Tensor(Image::collate(all!(Image))?),
            Self::Tensor(_) => Column::Tensor(Tensor::collate(all!(Tensor))?),
            Self::Int(_) => {
                Column::Tensor(Tensor { shape: vec![bodies.len()], data: Data::I64(all!(Int)) })
            }
            Self::Text(_) => Column::Text(all!(Text)),
            Self::Ragged(_) => Column::Ragged(ragged(all!(Ragged))?),
            _ => Column::Values(bodies),
        })
    }
}

/// Type and number of axes are the same; lengths may differ.
fn check_ragged(own: &Tensor, first: &Tensor) -> Result<()> {
    let kind = |tensor: &Tensor| (tensor.data.dtype(), tensor.shape.len());
    if kind(own) == kind(first) {
        Ok(())
    } else {
        Err(Error::batch(format!("{} in a ragged batch of {}", own.describe(), first.describe())))
    }
}

/// Copies tensors one behind the other.
fn ragged(tensors: Vec<Tensor>) -> Result<Ragged> {
    let first = tensors.first().ok_or_else(none)?;
    let mut data = first.data.empty_like(tensors.iter().map(|tensor| tensor.data.len()).sum());
    for tensor in &tensors {
        data.append(&tensor.data);
    }
    Ok(Ragged { shapes: tensors.into_iter().map(|tensor| tensor.into_parts().0).collect(), data })
}

/// `[B, C, H, W]`.
impl Collate for Image {
    type Output = Tensor;

    fn check(&self, first: &Self) -> Result<()> {
        if (self.shape(), self.data.dtype()) == (first.shape(), first.data.dtype()) {
            Ok(())
        } else {
            Err(Error::batch(format!("{} in a batch of {}", self.describe(), first.describe())))
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.data.as_bytes().len()
    }

    fn collate(bodies: Vec<Self>) -> Result<Tensor> {
        let first = bodies.first().ok_or_else(none)?;
        let mut shape = vec![bodies.len()];
        shape.extend(first.shape());
        let mut data = first.data.empty_like(first.data.len() * bodies.len());
        for body in &bodies {
            body.check(first)?;
            body.append_planes(&mut data);
        }
        Tensor::new(shape, data)
            .ok_or_else(|| Error::batch("a picture whose pixels don't fit its size"))
    }
}

pub(super) fn none() -> Error {
    Error::batch("no samples to make a batch of")
}
