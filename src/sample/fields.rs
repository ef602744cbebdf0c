//! The fields of a sample: a small ordered map from name to value.

use std::sync::Arc;

/// Name of a field (`jpg`, `image.jpg`). Names repeat in every sample, so they are shared.
pub type Name = Arc<str>;

/// The fields of a sample in the order in which they were read. Few, so a list is the fastest map.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields<V>(Vec<(Name, V)>);

impl<V> Default for Fields<V> {
    fn default() -> Self {
        Self(Vec::new())
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
        Self(Vec::with_capacity(n))
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

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &V)> {
        self.0.iter().map(|(n, v)| (n, v))
    }

    /// Names and values in order, the values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Name, &mut V)> {
        self.0.iter_mut().map(|(n, v)| (&*n, v))
    }
}

impl<V> IntoIterator for Fields<V> {
    type Item = (Name, V);
    type IntoIter = std::vec::IntoIter<(Name, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
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
