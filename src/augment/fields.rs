//! Which fields a sample has, and their names.

use super::{Augment, Needs};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Fields, Name, Value};

pub(super) fn missing(field: &str) -> Error {
    Error::augment("the sample has no such field").in_field(field)
}

/// Gives fields other names. Those that a sample doesn't have are left alone.
#[derive(Debug, Clone)]
pub struct Rename(Vec<(String, String)>);

impl Rename {
    /// Pairs of old and new names. Several old names may have one new name: a sample has one of them.
    #[must_use]
    pub fn new<A: Into<String>, B: Into<String>>(pairs: impl IntoIterator<Item = (A, B)>) -> Self {
        Self(pairs.into_iter().map(|(old, new)| (old.into(), new.into())).collect())
    }
}

impl Augment for Rename {
    fn apply(&self, fields: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        rename(fields, |name| {
            self.0.iter().find(|(old, _)| old == name).map(|(_, new)| new.as_str().into())
        })
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
        rename(fields, |name| name.rsplit_once('.').map(|(stem, _)| stem.into()))
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

/// Renames in place; two fields of one name are an error.
fn rename(fields: &mut Fields<Value>, new: impl Fn(&str) -> Option<Name>) -> Result<()> {
    let mut renamed = Fields::with_capacity(fields.len());
    for (name, value) in std::mem::take(fields) {
        let to = new(&name).unwrap_or_else(|| Name::clone(&name));
        if renamed.get(&to).is_some() {
            return Err(Error::augment(format!("two fields would be named {to}")).in_field(&*name));
        }
        renamed.push(to, value);
    }
    *fields = renamed;
    Ok(())
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
        let mut kept = Fields::with_capacity(self.0.len());
        for names in &self.0 {
            let (name, value) = names
                .split(';')
                .find_map(|name| Some((name, fields.remove(name)?)))
                .ok_or_else(|| missing(names))?;
            kept.insert(name, value);
        }
        *fields = kept;
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
