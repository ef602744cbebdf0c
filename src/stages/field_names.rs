//! Names of fields, from the modality and extension of a member.

use std::sync::Arc;

use bytes::Bytes;

use crate::sample::Name;
use crate::sample::key::Key;

/// `umt5/xxl` -> `umt5_xxl.`: the modality as field names begin with it.
pub(super) fn modality_prefix(modality: &str) -> String {
    let mut prefix = modality.replace('/', "_").to_lowercase();
    prefix.push('.');
    prefix
}

/// Field names, made once and shared.
#[derive(Default)]
pub(super) struct Names(Vec<Spelling>);

/// Modality, extension as it stands in the tar, and the name of the field.
type Spelling = (Option<Box<str>>, Box<[u8]>, Name);

impl Names {
    /// More different names than any sample has: then they are made anew instead of growing the list.
    const MOST: usize = 256;

    /// The name of the field of a member.
    pub(super) fn get(&mut self, modality: Option<&str>, extension: &[u8]) -> Name {
        let known = self.0.iter().find(|(m, e, _)| m.as_deref() == modality && **e == *extension);
        if let Some((_, _, name)) = known {
            return Arc::clone(name);
        }
        let mut text = modality.map(modality_prefix).unwrap_or_default();
        text.push_str(&Key::from(Bytes::copy_from_slice(extension)).to_string().to_lowercase());
        // Two spellings of one name (JPG, jpg) share it.
        let name = self
            .0
            .iter()
            .find(|(.., name)| **name == *text)
            .map_or_else(|| text.into(), |(.., name)| Arc::clone(name));
        if self.0.len() < Self::MOST {
            self.0.push((modality.map(Into::into), extension.into(), Arc::clone(&name)));
        }
        name
    }
}
