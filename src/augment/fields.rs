//! Which fields a sample has, and their names.

use super::{Augment, Needs};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Fields, Value};

/// Gives fields other names. Those that a sample doesn't have are left alone.
#[derive(Debug, Clone)]
pub struct Rename(Vec<(String, String)>);

impl Rename {
    /// Pairs of old and new names; an old one may be several alternatives (`jpg;png`), of which a sample has one.
    #[must_use]
    pub fn new<A: Into<String>, B: Into<String>>(pairs: impl IntoIterator<Item = (A, B)>) -> Self {
        Self(pairs.into_iter().map(|(old, new)| (old.into(), new.into())).collect())
    }
}

impl Augment for Rename {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        fields.rename(&self.0)
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

/// Drops the last extension of each name: `image.jpg` becomes `image`, `seg.mask.png` becomes `seg.mask`. Names without a dot stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct StripExtensions;

impl Augment for StripExtensions {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        fields.rename_by(|name| name.rsplit_once('.').map(|(stem, _)| stem.into()))
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

/// Keeps only these fields, in this order; a sample that lacks one is an error.
#[derive(Debug, Clone)]
pub struct Keep(Vec<String>);

impl Keep {
    /// The names. Alternatives are separated by semicolons (`jpg;png`): the first that the sample has is kept.
    #[must_use]
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Augment for Keep {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        fields.keep(&self.0)
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

/// Lets these fields have another shape in each sample of a batch: see [`Value::Ragged`]. Put it last, behind
/// [`Normalize`](super::Normalize).
///
/// ```
/// use shardstream::augment::{Augment, Ragged};
/// use shardstream::random::Rng;
/// use shardstream::sample::{Collate, Column, Data, Fields, Tensor, Value};
///
/// let tokens = |n| Value::Tensor(Tensor::new(vec![n, 2], Data::U16(vec![7; n * 2])).unwrap());
/// let mut samples = vec![Fields::from_iter([("tokens".into(), tokens(3))]), Fields::from_iter([("tokens".into(), tokens(5))])];
/// for sample in &mut samples {
///     Ragged::new(["tokens"]).apply(sample, &mut Rng::keyed(&[]))?;
/// }
/// let Some(Column::Ragged(column)) = Fields::collate(samples)?.remove("tokens") else { panic!() };
/// assert_eq!(column.shapes, [[3, 2], [5, 2]]);
/// assert_eq!((column.offsets(), column.data.len()), (vec![0, 6, 16], 16));
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ragged(Vec<String>);

impl Ragged {
    /// The names; a sample that lacks one is an error. Alternatives are separated by semicolons.
    #[must_use]
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Augment for Ragged {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        self.0.iter().try_for_each(|names| {
            fields.map_field(names, |value| match value {
                Value::Tensor(tensor) | Value::Ragged(tensor) => Ok(Value::Ragged(tensor)),
                Value::Normalized(picture) => Ok(Value::Ragged(picture.to_tensor())),
                Value::Image(image) => Ok(Value::Ragged(image.to_tensor())),
                other => Err(Error::augment(format!(
                    "{} has no shape that could differ: only tensors and pictures have",
                    other.kind()
                ))),
            })
        })
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
