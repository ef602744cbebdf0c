//! Batches in memory that the caller supplies: pinned, shared with a device, mapped.

use super::batch::Collate;
use super::columns::none;
use super::fields::{Fields, Name};
use super::tensor::Data;
use super::value::{Image, Value, to_planes};
use crate::error::{Error, Result};

/// Memory for the tensors of a batch, field by field.
pub trait Buffers {
    /// Memory of exactly `bytes` bytes for a field whose batch has this element type (as [`Data::dtype`] names it) and shape.
    ///
    /// # Errors
    /// If there is none of that size. It is told with the field's name.
    fn buffer(
        &mut self,
        field: &str,
        dtype: &'static str,
        shape: &[usize],
        bytes: usize,
    ) -> Result<&mut [u8]>;
}

/// By the names of the fields; each is as long as its largest batch, or longer.
impl Buffers for Fields<Vec<u8>> {
    fn buffer(
        &mut self,
        field: &str,
        dtype: &'static str,
        shape: &[usize],
        bytes: usize,
    ) -> Result<&mut [u8]> {
        let buffer = self.get_mut(field).ok_or_else(|| Error::batch("no buffer for this field"))?;
        let length = buffer.len();
        buffer.get_mut(..bytes).ok_or_else(|| {
            Error::batch(format!(
                "a buffer of {length} bytes, and the batch ({dtype} {shape:?}) has {bytes}"
            ))
        })
    }
}

/// What became of a field in [`batch_into`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Placed {
    /// Its numbers are in the buffer, in the machine's byte order.
    Tensor {
        /// Type of the elements, as [`Data::dtype`] names it.
        dtype: &'static str,
        /// `[B, ...]`.
        shape: Vec<usize>,
    },
    /// Its numbers are in the buffer, one sample behind the other.
    Ragged {
        /// Type of the elements, as [`Data::dtype`] names it.
        dtype: &'static str,
        /// The shape of each sample.
        shapes: Vec<Vec<usize>>,
    },
    /// Text has no place in a buffer.
    Text(Vec<String>),
    /// Nor has anything else.
    Values(Vec<Value>),
}

/// A body that is checked like `T` when it comes into a batch, and stays as it is: the batch is the list of bodies, for
/// [`batch_into`] or a collation of your own.
///
/// ```
/// use shardstream::sample::{Collate, Fields, Loose, Value, batch_into};
///
/// // .map_body(Loose).batch(64)
/// let sample = |i| Loose(Fields::from_iter([("cls".into(), Value::Int(i))]));
/// let bodies = Loose::collate(vec![sample(3), sample(4)])?;
/// let mut buffers = Fields::from_iter([("cls".into(), vec![0; 1024])]);
/// batch_into(bodies, &mut buffers)?;
/// assert_eq!(buffers.get("cls").unwrap()[8..16], 4i64.to_ne_bytes());
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Loose<T>(pub T);

impl<T: Collate> Collate for Loose<T> {
    type Output = Vec<T>;

    const MOVES: bool = true;

    fn check(&self, first: &Self) -> Result<()> {
        self.0.check(&first.0)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn collate(bodies: Vec<Self>) -> Result<Vec<T>> {
        Ok(bodies.into_iter().map(|Self(body)| body).collect())
    }
}

/// Collates samples like [`Fields::collate`], but the numbers go straight from each sample into the caller's memory, once: pictures as
/// `[B, C, H, W]`, whole numbers as `[B]` of `i64`, tensors stacked, ragged ones one behind the other.
///
/// # Errors
/// If the samples don't have the same fields, types and shapes, or a buffer is missing or has another size.
pub fn batch_into(
    mut bodies: Vec<Fields<Value>>,
    buffers: &mut impl Buffers,
) -> Result<Fields<Placed>> {
    let first = bodies.first().ok_or_else(none)?;
    for body in &bodies[1..] {
        body.check(first)?;
    }
    let names: Vec<Name> = first.iter().map(|(name, _)| Name::clone(name)).collect();
    let mut placed = Fields::with_capacity(names.len());
    for name in names {
        let values: Vec<Value> = bodies.iter_mut().filter_map(|body| body.remove(&name)).collect();
        let field = place(&name, values, buffers).map_err(|error| error.in_field(&*name))?;
        placed.push(name, field);
    }
    Ok(placed)
}

/// One field of all samples.
fn place(name: &str, values: Vec<Value>, buffers: &mut impl Buffers) -> Result<Placed> {
    let (dtype, shape, item) = match values.first() {
        Some(Value::Image(image)) => {
            (image.data.dtype(), image.shape().to_vec(), image.data.len() * image.data.item_size())
        }
        Some(Value::Tensor(tensor)) => {
            (tensor.data.dtype(), tensor.shape.clone(), tensor.data.len() * tensor.data.item_size())
        }
        Some(Value::Normalized(picture)) => {
            ("f4", picture.shape().to_vec(), picture.shape().iter().product::<usize>() * 4)
        }
        Some(Value::Int(_)) => ("i8", Vec::new(), 8),
        Some(Value::Ragged(first)) => {
            return place_ragged(name, first.data.dtype(), &values, buffers);
        }
        Some(Value::Text(_)) => {
            let text = |value| if let Value::Text(text) = value { Some(text) } else { None };
            return Ok(Placed::Text(values.into_iter().filter_map(text).collect()));
        }
        _ => return Ok(Placed::Values(values)),
    };
    let shape: Vec<usize> = [values.len()].into_iter().chain(shape).collect();
    let bytes = values.len() * item;
    let buffer = buffers.buffer(name, dtype, &shape, bytes)?;
    if buffer.len() != bytes {
        return Err(Error::batch(format!(
            "a buffer of {} bytes in place of {bytes}",
            buffer.len()
        )));
    }
    // A batch of tensors without elements has nothing to place.
    for (slot, value) in buffer.chunks_exact_mut(item.max(1)).zip(&values) {
        match value {
            Value::Image(image) if image.data.as_bytes().len() == item => image_into(image, slot),
            Value::Tensor(tensor) if tensor.data.as_bytes().len() == item => {
                slot.copy_from_slice(tensor.data.as_bytes())
            }
            Value::Normalized(picture) => picture.write(slot.as_chunks_mut().0, f32::to_ne_bytes),
            Value::Int(int) => slot.copy_from_slice(&int.to_ne_bytes()),
            other => {
                return Err(Error::batch(format!(
                    "{} with another number of values",
                    other.describe()
                )));
            }
        }
    }
    Ok(Placed::Tensor { dtype, shape })
}

/// Tensors of any shapes, one behind the other.
fn place_ragged(
    name: &str,
    dtype: &'static str,
    values: &[Value],
    buffers: &mut impl Buffers,
) -> Result<Placed> {
    let tensors =
        || values.iter().filter_map(|v| if let Value::Ragged(t) = v { Some(t) } else { None });
    let elements = tensors().map(|tensor| tensor.data.len()).sum();
    let bytes = tensors().map(|tensor| tensor.data.as_bytes().len()).sum();
    let buffer = buffers.buffer(name, dtype, &[elements], bytes)?;
    if buffer.len() != bytes {
        return Err(Error::batch(format!(
            "a buffer of {} bytes in place of {bytes}",
            buffer.len()
        )));
    }
    let mut rest = buffer;
    for tensor in tensors() {
        let slot = rest.split_off_mut(..tensor.data.as_bytes().len()).unwrap_or_default();
        slot.copy_from_slice(tensor.data.as_bytes());
    }
    Ok(Placed::Ragged { dtype, shapes: tensors().map(|tensor| tensor.shape.clone()).collect() })
}

fn image_into(image: &Image, slot: &mut [u8]) {
    let channels = usize::from(image.channels);
    match &image.data {
        Data::U16(values) => to_planes(
            bytemuck::cast_slice::<u16, [u8; 2]>(values),
            channels,
            slot.as_chunks_mut::<2>().0,
        ),
        data => to_planes(data.as_bytes(), channels, slot),
    }
}
