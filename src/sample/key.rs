//! Member names, split into the key of a sample and the name of a field.

use std::borrow::Cow;
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

/// Whether a member belongs to a sample at all. Not data: names without an extension ([`split`] finds nothing: README, `._photo.jpg`,
/// `.DS_Store`), what macOS packs below `__MACOSX/`, and the WebDataset format's own notes (`__meta__`, `__meta__/info.json`).
///
/// ```
/// use shardstream::sample::key::is_data;
/// assert!(is_data(b"dir/id_0.jpg"));
/// assert!(!is_data(b"dir/._id_0.jpg"));
/// assert!(!is_data(b"__MACOSX/id_0.jpg"));
/// assert!(!is_data(b"__meta__/info.json"));
/// ```
#[must_use]
pub fn is_data(name: &[u8]) -> bool {
    KeyRule::WebDataset.key_length(name).is_some()
}

/// Whether a member is a note of the format (`__meta__/info.json`) or what macOS packs below `__MACOSX/`.
fn is_note(name: &[u8]) -> bool {
    let below = name.strip_prefix(b"./").unwrap_or(name);
    if !below.starts_with(b"__") {
        return false;
    }
    let first = below.split(|&b| b == b'/').next().unwrap_or_default();
    (first.len() >= 4 && first.ends_with(b"__")) || first == b"__MACOSX"
}

/// Where the key ends in a member's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRule {
    /// At the first dot of the last path part ([`split`]): `v1.0/x.seg.png` has key `v1.0/x` and field `seg.png`.
    #[default]
    WebDataset,
    /// As the loader `PiD` renames ([`pid_rename`]): at the last dot, and dots in the key become dashes: `v1.0/x.seg.png` has key
    /// `v1-0/x-seg` and field `png`. Two names that become one key so (`a.b.png`, `a-b.png`) are never taken for one sample.
    Pid,
}

impl KeyRule {
    /// How many bytes of a member's name are the key; the extension stands behind the dot that follows. `None` for what is no data
    /// (see [`is_data`]).
    ///
    /// ```
    /// use shardstream::sample::key::KeyRule;
    /// assert_eq!(KeyRule::WebDataset.key_length(b"x.v1.0.jpg"), Some(1));
    /// assert_eq!(KeyRule::Pid.key_length(b"x.v1.0.jpg"), Some(6));
    /// ```
    #[must_use]
    pub fn key_length(self, name: &[u8]) -> Option<usize> {
        let length = match self {
            Self::WebDataset => split(name)?.0.len(),
            Self::Pid => {
                let stem = pid_stem(name)?;
                // The dot must stand in the last path part and have something in front of it, that is not what macOS leaves.
                let last = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
                let above = name.len() - last.len();
                (stem.len() > above && !last.starts_with(b"._")).then_some(stem.len())?
            }
        };
        (!is_note(name)).then_some(length)
    }

    /// The key of a sample, made of that part of the name.
    ///
    /// ```
    /// use shardstream::sample::key::KeyRule;
    /// assert_eq!(KeyRule::WebDataset.key(b"v1.0/x")[..], b"v1.0/x"[..]);
    /// assert_eq!(KeyRule::Pid.key(b"v1.0/x.1")[..], b"v1-0/x-1"[..]);
    /// ```
    #[must_use]
    pub fn key(self, part: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Pid if part.contains(&b'.') => Cow::Owned(with_dashes(part).collect()),
            _ => Cow::Borrowed(part),
        }
    }
}

fn with_dashes(stem: &[u8]) -> impl Iterator<Item = u8> {
    stem.iter().map(|&b| if b == b'.' { b'-' } else { b })
}

/// A member's name as the loader PiD renames it: everything in front of the last dot, with dashes in place of its other dots, then
/// the modality (with `_` for `/`), then the extension. `None` for a name without any dot, which has no key.
///
/// Two names of one modality may become one (`a.b.jpg` and `a-b.jpg`): the caller compares [`pid_stem`] where keys are equal.
///
/// ```
/// use shardstream::sample::key::pid_rename;
/// assert_eq!(pid_rename(b"x.v1.0.jpg", "image").as_deref(), Some(&b"x-v1-0.image.jpg"[..]));
/// assert_eq!(pid_rename(b"Z.JPG", "Img/HD").as_deref(), Some(&b"Z.Img_HD.JPG"[..]));
/// ```
#[must_use]
pub fn pid_rename(name: &[u8], modality: &str) -> Option<Vec<u8>> {
    let stem = pid_stem(name)?;
    let mut renamed = Vec::with_capacity(name.len() + modality.len() + 1);
    renamed.extend(with_dashes(stem));
    renamed.push(b'.');
    renamed.extend(modality.bytes().map(|b| if b == b'/' { b'_' } else { b }));
    renamed.extend_from_slice(&name[stem.len()..]);
    Some(renamed)
}

/// What [`pid_rename`] makes the key of: everything in front of the last dot.
#[must_use]
pub fn pid_stem(name: &[u8]) -> Option<&[u8]> {
    name.iter().rposition(|&b| b == b'.').map(|dot| &name[..dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_dot_of_the_last_part_splits() {
        for (name, key, field) in [
            ("v1.0/set.a/id_0.jpg", "v1.0/set.a/id_0", "jpg"),
            ("id_0.left.seg.png", "id_0", "left.seg.png"),
            ("./id_0.jpg", "./id_0", "jpg"),
            ("id_0..jpg", "id_0", ".jpg"),
            ("id_1.", "id_1", ""),
            ("d../.x/id_4.jpg", "d../.x/id_4", "jpg"),
            ("a//id_3.jpg", "a//id_3", "jpg"),
            ("/data/id_0.jpg", "/data/id_0", "jpg"),
        ] {
            assert_eq!(split(name.as_bytes()), Some((key.as_bytes(), field.as_bytes())), "{name}");
            assert!(is_data(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_is_no_data() {
        for name in [
            "",
            ".",
            "..",
            "/",
            "a/",
            "README",
            "a.b/README",
            ".hidden",
            "dir/._x.jpg",
            "._x.jpg",
            "dir/.DS_Store",
            "__meta__",
            "__meta__/a.json",
            "__a.b__",
            "./__meta__/a.json",
            "__MACOSX/a.jpg",
            "./__MACOSX/d/a.jpg",
            "____/a.b",
        ] {
            assert!(!is_data(name.as_bytes()), "{name}");
        }
        for name in [
            "__key__.jpg",
            "__/a.jpg",
            "___/a.jpg",
            "dir/__meta__/a.json",
            "__MACOSX2/a.jpg",
            "_.b",
            "__a__b/c.d",
        ] {
            assert!(is_data(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn pid_renames() {
        for (name, modality, renamed) in [
            ("x.jpg", "image", Some("x.image.jpg")),
            ("x.v1.0.jpg", "image", Some("x-v1-0.image.jpg")),
            ("dir.v1/y.jpg", "image", Some("dir-v1/y.image.jpg")),
            ("Z.JPG", "Img/HD", Some("Z.Img_HD.JPG")),
            (".jpg", "image", Some(".image.jpg")),
            ("x.", "image", Some("x.image.")),
            ("README", "image", None),
            ("", "image", None),
        ] {
            let got = pid_rename(name.as_bytes(), modality);
            assert_eq!(got.as_deref(), renamed.map(str::as_bytes), "{name}");
        }
        assert_eq!(pid_rename(b"\xe9.a.jpg", "m").as_deref(), Some(&b"\xe9-a.m.jpg"[..]));
    }

    #[test]
    fn the_rules_name_samples_as_pid_and_webdataset_do() {
        // What PiD makes of a name, its modality taken away again, split as WebDataset does.
        for (name, webdataset, pid) in [
            ("x.jpg", Some("x"), Some("x")),
            ("x.v1.0.jpg", Some("x"), Some("x-v1-0")),
            ("dir.v1/y.jpg", Some("dir.v1/y"), Some("dir-v1/y")),
            ("dir.v1/y.seg.png", Some("dir.v1/y"), Some("dir-v1/y-seg")),
            ("x.", Some("x"), Some("x")),
            (".hidden.jpg", None, Some("-hidden")),
            ("dir/.jpg", None, None),
            (".jpg", None, None),
            ("dir.v1/README", None, None),
            ("README", None, None),
            ("", None, None),
            ("._x.jpg", None, None),
            ("d/._x.jpg", None, None),
            ("__MACOSX/x.jpg", None, None),
            ("__meta__/x.json", None, None),
            ("__meta__", None, None),
        ] {
            let key = |rule: KeyRule| {
                let length = rule.key_length(name.as_bytes())?;
                assert_eq!(name.as_bytes()[length], b'.');
                Some(String::from_utf8(rule.key(&name.as_bytes()[..length]).into()).unwrap())
            };
            assert_eq!(key(KeyRule::WebDataset).as_deref(), webdataset, "{name}");
            assert_eq!(key(KeyRule::Pid).as_deref(), pid, "{name}");
            if let Some(pid) = pid {
                let renamed = pid_rename(name.as_bytes(), "m").unwrap();
                assert_eq!(split(&renamed).unwrap().0, pid.as_bytes(), "{name}");
            }
        }
    }

    #[test]
    fn pid_collisions_show_in_the_stems() {
        let (a, b) = (&b"a.b.jpg"[..], &b"a-b.jpg"[..]);
        assert_eq!(pid_rename(a, "m"), pid_rename(b, "m"));
        assert_ne!(pid_stem(a), pid_stem(b));
    }
}
