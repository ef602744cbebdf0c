//! Both joins of twins over plain lists of names: what their tests and the fuzzer look at.

use std::sync::Arc;

use bytes::Bytes;

use super::align::{Align, Keyed, LookAhead, Next};
use super::wanted::Wanted;
use crate::error::Error;
use crate::sample::key::KeyRule;
use crate::shard::KeyIndex;
use crate::tar;

/// What a join says of a list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// A member of this twin goes on.
    Member(usize, Bytes),
    /// A broken place is told.
    Gap,
    /// A key is lost.
    Lost(Bytes),
    /// The shard is given up: there is no common key within the look-ahead.
    TooFar(String),
    /// With an index: something to log.
    Warning(String),
}

/// Joins twins that have members with these names, all without contents; a `!` in front of a name stands for a broken place there. Names
/// without a key are passed over. With an index, by it.
#[must_use]
pub fn join_names(
    twins: &[Vec<&[u8]>],
    index: Option<Arc<KeyIndex>>,
    look_ahead: LookAhead,
) -> Vec<Joined> {
    let mut joined = Vec::new();
    let mut lists: Vec<_> =
        twins.iter().map(|names| names.iter().filter_map(|name| keyed(name))).collect();
    let names = (0..twins.len()).map(|twin| format!("m{twin}"));
    if let Some(index) = index {
        let mut wanted = Wanted::new(names, index, KeyRule::WebDataset, look_ahead);
        loop {
            let mut warnings = Vec::new();
            let next = wanted.next(|warning| warnings.push(warning));
            joined.extend(warnings.into_iter().map(Joined::Warning));
            match next {
                Next::Read(twin) => match lists[twin].next() {
                    Some(member) => {
                        joined.extend(wanted.push(twin, member).map(Joined::Warning));
                    }
                    None => wanted.end(twin),
                },
                next => match told(next) {
                    Some(told) => joined.push(told),
                    None => return joined,
                },
            }
        }
    }
    let mut align = Align::new(names, look_ahead);
    loop {
        match align.next() {
            Next::Read(twin) => match lists[twin].next() {
                Some(member) => align.push(twin, member),
                None => align.end(twin),
            },
            Next::TooFar { message } => {
                joined.push(Joined::TooFar(message));
                return joined;
            }
            next => match told(next) {
                Some(told) => joined.push(told),
                None => return joined,
            },
        }
    }
}

fn keyed(name: &[u8]) -> Option<Keyed> {
    let (name, behind_gap) = name.strip_prefix(b"!").map_or((name, false), |name| (name, true));
    let key = KeyRule::WebDataset.key_length(name)?;
    let (name, data) = (Bytes::copy_from_slice(name), Bytes::new());
    let member = tar::Member { name, data, header_offset: 0, data_offset: 0 };
    Some(Keyed { member, key, gap: behind_gap.then(|| Error::tar("broken")), behind_gap })
}

fn told(next: Next) -> Option<Joined> {
    match next {
        Next::Take(twin, keyed) => Some(Joined::Member(twin, keyed.member.name)),
        Next::Gap(_) => Some(Joined::Gap),
        Next::Lost { key, .. } => Some(Joined::Lost(key)),
        Next::Read(_) | Next::TooFar { .. } | Next::End => None,
    }
}

/// As [`join_names`] by key, as text: what is handed out, and what is lost or logged.
#[cfg(test)]
pub(super) fn join_texts(
    twins: &[&[&str]],
    index: Option<&[&str]>,
    members: usize,
) -> (Vec<String>, Vec<String>) {
    let twins: Vec<Vec<&[u8]>> =
        twins.iter().map(|names| names.iter().map(|name| name.as_bytes()).collect()).collect();
    let index = index.map(|keys| Arc::new(KeyIndex::of(keys).unwrap_or_default()));
    let (mut out, mut lost) = (Vec::new(), Vec::new());
    for joined in join_names(&twins, index, LookAhead { members, bytes: 1 << 20 }) {
        match joined {
            Joined::Member(twin, name) => {
                out.push(format!("{twin}:{}", String::from_utf8_lossy(&name)));
            }
            Joined::Gap => out.push("gap".into()),
            Joined::Lost(key) => lost.push(String::from_utf8_lossy(&key).into_owned()),
            Joined::TooFar(text) | Joined::Warning(text) => lost.push(text),
        }
    }
    (out, lost)
}
