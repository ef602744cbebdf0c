//! Names: of shards in their folders, of members in their shards.

use crate::error::{Error, Result};
use crate::sample::key::is_data;

/// Path of a shard below the folder of its modality: `part_000000/000000.tar`, or `00000000.tar` if `part_size` is 0.
pub(crate) fn shard_path(id: u64, part_size: u64) -> String {
    match id.checked_div(part_size) {
        Some(part) => format!("part_{part:06}/{id:06}.tar"),
        None => format!("{id:08}.tar"),
    }
}

/// Says why a name can't be the name of a member, if it can't.
pub(crate) fn refuse_member(name: &[u8]) -> Option<&'static str> {
    let last = name.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if name.contains(&0) {
        Some("the name holds a zero byte")
    } else if name.starts_with(b"/")
        || name.split(|&b| b == b'/').any(|part| part == b".." || part == b"." || part.is_empty())
    {
        Some("the name is no clean path inside an archive")
    } else if last.starts_with(b".") {
        Some("the name begins with a dot, so that it has no key")
    } else if !last.contains(&b'.') {
        Some("the name has no extension")
    } else if !is_data(name) {
        Some("readers take it for metadata and pass over it")
    } else {
        None
    }
}

/// The name of a modality: folders below the root, so no more than a clean relative path.
pub(crate) fn check_modality(modality: &str) -> Result<()> {
    if modality.is_empty()
        || modality.split('/').any(|part| part.is_empty() || part.starts_with('.'))
        || modality.contains('\0')
    {
        return Err(Error::config(format!(
            "{modality:?} can't be the name of a modality: expected a folder below the data set"
        )));
    }
    Ok(())
}

/// The front part of every key. A dot would end the key there, `__` in front would make metadata of all members.
pub(crate) fn check_dataset_name(name: &str) -> Result<()> {
    if name.is_empty() || name.starts_with("__") || name.contains(['.', '/', '\0']) {
        return Err(Error::config(format!(
            "{name:?} can't be the name of a data set: no dot, no slash, not empty, no __ in front"
        )));
    }
    Ok(())
}

/// The part of a member name before its last dot as PiD reads it: dots become hyphens, those of folders too. Two names that end up the
/// same are one sample to it.
pub(crate) fn renamed(stem: &[u8]) -> Vec<u8> {
    stem.iter().map(|&b| if b == b'.' { b'-' } else { b }).collect()
}

/// A key that every reader takes whole: hyphens for dots, but for those of folders, at which no reader ends it.
pub(crate) fn without_dots(key: &[u8]) -> Vec<u8> {
    let name = key.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    [&key[..name], &renamed(&key[name..])].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_of_folders_stay() {
        let got = [&b"ds__a.b.c"[..], b"v1.0/x", b"v1.0/x.y", b"plain"].map(without_dots);
        assert_eq!(got, [&b"ds__a-b-c"[..], b"v1.0/x", b"v1.0/x-y", b"plain"]);
    }

    #[test]
    fn shards_are_named_as_in_pid() {
        assert_eq!(shard_path(0, 1000), "part_000000/000000.tar");
        assert_eq!(shard_path(12_345, 1000), "part_000012/012345.tar");
        assert_eq!(shard_path(12_345, 0), "00012345.tar");
    }

    #[test]
    fn names_that_no_reader_would_take_are_refused() {
        for good in [
            "a.jpg",
            "ds__a.v1.jpg",
            "dir/a.jpg",
            "__a.jpg",
            "__x__.jpg",
            "a__b__c.jpg",
            "é\u{1F600}.jpg",
        ] {
            assert_eq!(refuse_member(good.as_bytes()), None, "{good}");
        }
        for bad in [
            "a",
            "/a.jpg",
            "a//b.jpg",
            "../a.jpg",
            ".jpg",
            "d/.jpg",
            "__x__/a.jpg",
            "__MACOSX/a.jpg",
            "a\0.jpg",
            "./a.jpg",
        ] {
            assert!(refuse_member(bad.as_bytes()).is_some(), "{bad}");
        }
    }
}
