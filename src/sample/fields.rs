//! The fields of a sample: a small ordered map from name to value.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// Name of a field (`jpg`, `image.jpg`). Names repeat in every sample, so they are shared.
pub type Name = Arc<str>;

/// As many fields as most samples have: they need no memory of their own.
const FEW: usize = 3;

/// The fields of a sample in the order in which they were read. Few, so a list is the fastest map.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields<V>(SmallVec<[(Name, V); FEW]>);

impl<V> Default for Fields<V> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<V> Fields<V> {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `n` fields.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        Self(SmallVec::with_capacity(n))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }

    /// The value of a field, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.0.iter_mut().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }

    /// Sets a field and returns what it held before.
    pub fn insert(&mut self, name: impl Into<Name>, value: V) -> Option<V> {
        let name = name.into();
        match self.get_mut(&name) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Adds a field that is known not to be there yet.
    pub fn push(&mut self, name: Name, value: V) {
        self.0.push((name, value));
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let at = self.0.iter().position(|(n, _)| &**n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes out the first of several alternatives that is there: `jpg;png;webp`.
    ///
    /// # Errors
    /// If there is none of them.
    pub fn take(&mut self, names: &str) -> Result<(Name, V)> {
        let at = self.find(names).ok_or_else(|| missing(names))?;
        Ok(self.0.remove(at))
    }

    /// Keeps only these fields, in this order. Each may be several alternatives: `jpg;png`.
    ///
    /// # Errors
    /// If one is missing.
    pub fn keep<S: AsRef<str>>(&mut self, names: &[S]) -> Result<()> {
        let mut kept = Self::with_capacity(names.len());
        for names in names {
            let (name, value) = self.take(names.as_ref())?;
            kept.push(name, value);
        }
        *self = kept;
        Ok(())
    }

    /// Gives fields other names, in place: pairs of old and new ones. An old name may be several alternatives (`jpg;png`); those that
    /// are not there are left alone.
    ///
    /// # Errors
    /// If two fields would have one name.
    pub fn rename<A: AsRef<str>, B: AsRef<str>>(&mut self, pairs: &[(A, B)]) -> Result<()> {
        self.rename_by(|name| {
            let mut pairs = pairs.iter();
            let (_, new) = pairs.find(|(old, _)| old.as_ref().split(';').any(|old| old == name))?;
            Some(new.as_ref().into())
        })
    }

    /// Gives fields other names by a rule; `None` leaves one as it is.
    ///
    /// # Errors
    /// If two fields would have one name.
    pub fn rename_by(&mut self, mut new: impl FnMut(&str) -> Option<Name>) -> Result<()> {
        let renamed = self.0.iter().map(|(name, _)| new(name).unwrap_or_else(|| Name::clone(name)));
        let renamed: Vec<Name> = renamed.collect();
        for (at, ((old, _), to)) in self.0.iter().zip(&renamed).enumerate() {
            if renamed[..at].contains(to) {
                let wrong = Error::augment(format!("two fields would be named {to}"));
                return Err(wrong.in_field(&**old));
            }
        }
        self.0.iter_mut().zip(renamed).for_each(|((name, _), to)| *name = to);
        Ok(())
    }

    /// Changes the first of several alternatives (`jpg;png`) that is there.
    ///
    /// # Errors
    /// If there is none of them; what `f` returns, with the field's name. The field is lost then.
    pub fn map_field(&mut self, names: &str, f: impl FnOnce(V) -> Result<V>) -> Result<()> {
        let at = self.find(names).ok_or_else(|| missing(names))?;
        let (name, value) = self.0.remove(at);
        let value = f(value).map_err(|error| error.in_field(&*name))?;
        self.0.insert(at, (name, value));
        Ok(())
    }

    /// Where the first of several alternatives stands.
    fn find(&self, names: &str) -> Option<usize> {
        names.split(';').find_map(|name| self.0.iter().position(|(n, _)| &**n == name))
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &V)> {
        self.0.iter().map(|(n, v)| (n, v))
    }

    /// Names and values in order, the values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Name, &mut V)> {
        self.0.iter_mut().map(|(n, v)| (&*n, v))
    }
}

/// A field that a sample should have.
pub(crate) fn missing(field: &str) -> Error {
    Error::augment("the sample has no such field").in_field(field)
}

impl<V> IntoIterator for Fields<V> {
    type Item = (Name, V);
    type IntoIter = IntoIter<V>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self.0.into_iter())
    }
}

/// Names and values of [`Fields`], in order.
pub struct IntoIter<V>(smallvec::IntoIter<[(Name, V); FEW]>);

impl<V> Iterator for IntoIter<V> {
    type Item = (Name, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V> ExactSizeIterator for IntoIter<V> {}

impl<V> fmt::Debug for IntoIter<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("left", &self.0.len()).finish()
    }
}

impl<V> FromIterator<(Name, V)> for Fields<V> {
    fn from_iter<I: IntoIterator<Item = (Name, V)>>(iter: I) -> Self {
        let mut fields = Self::new();
        for (name, value) in iter {
            fields.insert(name, value);
        }
        fields
    }
}
