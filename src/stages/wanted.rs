//! Joining by a key index: the list says which keys are wanted and in which order. Plain functions on values.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::align::{LookAhead, Next};
use crate::sample::key::{self, Key};
use crate::shard::KeyIndex;
use crate::tar;

/// The twins of one shard, side by side, with the keys that are wanted of it.
#[derive(Debug)]
pub(super) struct Wanted {
    index: Arc<KeyIndex>,
    look_ahead: LookAhead,
    sides: Vec<Side>,
    /// Place in the index of the key that is due.
    target: usize,
    /// Members that are on their way out.
    out: VecDeque<(usize, tar::Member)>,
    bytes: usize,
}

#[derive(Debug)]
struct Side {
    name: String,
    /// Members that wait, by their key's place in the index.
    waiting: HashMap<usize, Vec<tar::Member>>,
    members: usize,
    /// The place whose members are being read.
    open: Option<usize>,
    ended: bool,
}

/// Whether a side has the key that is due.
enum Has {
    Whole,
    No,
    NotYet,
}

impl Wanted {
    pub(super) fn new(
        names: impl IntoIterator<Item = String>,
        index: Arc<KeyIndex>,
        look_ahead: LookAhead,
    ) -> Self {
        let side =
            |name| Side { name, waiting: HashMap::new(), members: 0, open: None, ended: false };
        Self {
            index,
            look_ahead,
            sides: names.into_iter().map(side).collect(),
            target: 0,
            out: VecDeque::new(),
            bytes: 0,
        }
    }

    /// A member of a side was read. Returns what to warn of, if it is not wanted (any more).
    pub(super) fn push(&mut self, side: usize, member: tar::Member) -> Option<String> {
        let key = key::split(&member.name).map_or(&member.name[..], |(key, _)| key);
        let place = self.index.place(key);
        let side = &mut self.sides[side];
        side.open = place;
        let shown = || Key::from(member.name.slice(..key.len()));
        match place {
            None => {
                Some(format!("{}: key {} is not in the index, and left out", side.name, shown()))
            }
            Some(place) if place < self.target => Some(format!(
                "{}: key {} comes too far behind its place in the index, and is lost",
                side.name,
                shown()
            )),
            Some(place) => {
                side.members += 1;
                self.bytes += member.data.len();
                side.waiting.entry(place).or_default().push(member);
                None
            }
        }
    }

    /// A side has no more members.
    pub(super) fn end(&mut self, side: usize) {
        self.sides[side].ended = true;
        self.sides[side].open = None;
    }

    /// What to do next. What is wanted and not there is told through `warn`.
    pub(super) fn next(&mut self, mut warn: impl FnMut(String)) -> Next {
        loop {
            if let Some((side, member)) = self.out.pop_front() {
                return Next::Take(side, member);
            }
            if self.target == self.index.len() {
                // Read on to the end: what is not in the index is told, and a broken tar is noticed.
                return self
                    .sides
                    .iter()
                    .position(|side| !side.ended)
                    .map_or(Next::End, Next::Read);
            }
            let full = self.bytes > self.look_ahead.bytes;
            let has: Vec<_> = self
                .sides
                .iter()
                .map(|side| side.has(self.target, full, self.look_ahead.members))
                .collect();
            if let Some(side) = has.iter().position(|has| matches!(has, Has::NotYet)) {
                return Next::Read(side);
            }
            let lacks: Vec<_> = has
                .iter()
                .zip(&self.sides)
                .filter(|(has, _)| matches!(has, Has::No))
                .map(|(_, side)| side.name.as_str())
                .collect();
            if !lacks.is_empty()
                && let Some(key) = self.index.key(self.target)
            {
                let names: Vec<_> = lacks.into_iter().filter(|name| !name.is_empty()).collect();
                let place = if names.is_empty() {
                    String::new()
                } else {
                    format!(" in {}", names.join(", "))
                };
                warn(format!("key {key} of the index is missing{place}"));
            }
            let whole = !has.iter().any(|has| matches!(has, Has::No));
            for (at, side) in self.sides.iter_mut().enumerate() {
                let members = side.waiting.remove(&self.target).unwrap_or_default();
                side.members -= members.len();
                self.bytes -= members.iter().map(|member| member.data.len()).sum::<usize>();
                if whole {
                    self.out.extend(members.into_iter().map(|member| (at, member)));
                }
            }
            self.target += 1;
        }
    }
}

impl Side {
    fn has(&self, place: usize, full: bool, most: usize) -> Has {
        if self.open == Some(place) {
            // More members of the key may follow.
            return Has::NotYet;
        }
        if self.waiting.contains_key(&place) {
            return Has::Whole;
        }
        if self.ended || full || self.members >= most { Has::No } else { Has::NotYet }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn join(index: &[&str], sides: &[&[&str]], members: usize) -> (Vec<String>, Vec<String>) {
        let index = Arc::new(KeyIndex::of(index).unwrap_or_default());
        let mut wanted = Wanted::new(
            (0..sides.len()).map(|i| format!("m{i}")),
            index,
            LookAhead { members, bytes: 1 << 20 },
        );
        let mut at = vec![0; sides.len()];
        let (mut out, mut warned) = (Vec::new(), Vec::new());
        loop {
            match wanted.next(|warning| warned.push(warning)) {
                Next::Read(side) => match sides[side].get(at[side]) {
                    Some(name) => {
                        at[side] += 1;
                        let name = Bytes::copy_from_slice(name.as_bytes());
                        warned.extend(wanted.push(
                            side,
                            tar::Member {
                                name,
                                data: Bytes::new(),
                                header_offset: 0,
                                data_offset: 0,
                            },
                        ));
                    }
                    None => wanted.end(side),
                },
                Next::Take(side, member) => {
                    out.push(format!("{side}:{}", String::from_utf8_lossy(&member.name)))
                }
                _ => return (out, warned),
            }
        }
    }

    #[test]
    fn the_order_is_that_of_the_index() {
        let (out, warned) =
            join(&["a", "b", "c"], &[&["b.j", "a.j", "c.j"], &["c.c", "b.c", "a.c"]], 10);
        assert_eq!(out, ["0:a.j", "1:a.c", "0:b.j", "1:b.c", "0:c.j", "1:c.c"]);
        assert!(warned.is_empty(), "{warned:?}");
    }

    #[test]
    fn what_is_missing_or_not_wanted_is_told() {
        let (out, warned) = join(&["a", "b", "ghost"], &[&["a.j", "x.j", "b.j"], &["a.c"]], 10);
        assert_eq!(out, ["0:a.j", "1:a.c"]);
        assert_eq!(warned.len(), 3, "{warned:?}");
        assert!(warned.iter().any(|w| w.contains("key b") && w.contains("m1")), "{warned:?}");
        assert!(
            warned.iter().any(|w| w.contains("ghost"))
                && warned.iter().any(|w| w.contains("key x")),
            "{warned:?}"
        );
    }

    #[test]
    fn the_buffer_is_bounded() {
        let (out, warned) =
            join(&["z", "a", "b", "c", "d"], &[&["a.j", "b.j", "c.j", "d.j", "z.j"]], 3);
        assert_eq!(out, ["0:a.j", "0:b.j", "0:c.j", "0:d.j"]);
        assert!(warned.iter().any(|w| w.contains("key z of the index is missing")), "{warned:?}");
        assert!(warned.iter().any(|w| w.contains("key z comes too far behind")), "{warned:?}");
    }

    #[test]
    fn several_members_of_a_key_stay_together() {
        let (out, _) = join(&["b", "a"], &[&["a.j", "a.k", "b.j"]], 10);
        assert_eq!(out, ["0:b.j", "0:a.j", "0:a.k"]);
    }
}
