//! Member names, split into the key of a sample and the name of a field.

use std::fmt;

use bytes::Bytes;

/// The part of the member names that the members of a sample share. Bytes: tar names need not be UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(Bytes);

impl Key {
    /// The key as it stands in the tar.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<Bytes> for Key {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// As text; bytes that are not UTF-8 are shown as `\xNN`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Splits a member name at the first dot of its last path part, which must not be the first character of that part: the WebDataset
/// rule. `None` if there is no such dot.
///
/// ```
/// use shardstream::sample::key::split;
/// assert_eq!(split(b"v1.0/cat.seg.png"), Some((&b"v1.0/cat"[..], &b"seg.png"[..])));
/// assert_eq!(split(b"v1.0/README"), None);
/// ```
#[must_use]
pub fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = name.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let dot = start + name[start..].iter().position(|&b| b == b'.')?;
    (dot > start).then(|| (&name[..dot], &name[dot + 1..]))
}
