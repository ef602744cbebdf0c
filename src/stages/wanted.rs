//! Joining by a key index: the list says which keys are wanted and in which order. Plain functions on values.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::align::{Keyed, LookAhead, Next};
use crate::error::Error;
use crate::sample::key::{Key, KeyRule};
use crate::shard::KeyIndex;

/// The twins of one shard, side by side, with the keys that are wanted of it.
#[derive(Debug)]
pub(super) struct Wanted {
    index: Arc<KeyIndex>,
    rule: KeyRule,
    look_ahead: LookAhead,
    sides: Vec<Side>,
    /// Place in the index of the key that is due.
    target: usize,
    /// Members that are on their way out.
    out: VecDeque<(usize, Keyed)>,
    /// Broken places, still to be told.
    gaps: VecDeque<Error>,
    bytes: usize,
}

#[derive(Debug)]
struct Side {
    name: String,
    /// Members that wait, by their key's place in the index.
    waiting: HashMap<usize, Vec<Keyed>>,
    members: usize,
    /// The place whose members are being read.
    open: Option<usize>,
    /// The place whose members may lack some that a broken place swallowed: none of them is used.
    torn: Option<usize>,
    /// What was warned of last: once for all members of a key that stand together.
    told: Option<String>,
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
        rule: KeyRule,
        look_ahead: LookAhead,
    ) -> Self {
        let side = |name| Side {
            name,
            waiting: HashMap::new(),
            members: 0,
            open: None,
            torn: None,
            told: None,
            ended: false,
        };
        Self {
            index,
            rule,
            look_ahead,
            sides: names.into_iter().map(side).collect(),
            target: 0,
            out: VecDeque::new(),
            gaps: VecDeque::new(),
            bytes: 0,
        }
    }

    /// A member of a side was read. Returns what to warn of, if it is not wanted (any more).
    pub(super) fn push(&mut self, at: usize, mut keyed: Keyed) -> Option<String> {
        let name = keyed.member.name.clone();
        let key = self.rule.key(&name[..keyed.key]);
        let place = self.index.place(&key);
        let side = &mut self.sides[at];
        if let Some(error) = keyed.gap.take() {
            // The key before it and the one behind it may lack members.
            self.gaps.push_back(error);
            let before = side.open.and_then(|place| side.waiting.remove(&place));
            self.bytes -= side.forget(&before.unwrap_or_default());
            side.torn = place;
        } else if side.torn != place {
            side.torn = None;
        }
        side.open = place;
        let shown = || Key::from(Bytes::copy_from_slice(&key));
        let warning = match place {
            None => {
                Some(format!("{}: key {} is not in the index, and left out", side.name, shown()))
            }
            Some(_) if side.torn == place => Some(format!(
                "{}: key {} stands behind a broken place, where members of it may have been lost: left out",
                side.name,
                shown()
            )),
            Some(place) if place < self.target => Some(format!(
                "{}: key {} comes too far behind its place in the index, and is lost",
                side.name,
                shown()
            )),
            Some(place) => {
                side.members += 1;
                self.bytes += keyed.member.data.len();
                side.waiting.entry(place).or_default().push(keyed);
                None
            }
        };
        if warning == side.told {
            return None;
        }
        side.told.clone_from(&warning);
        warning
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
            if let Some(error) = self.gaps.pop_front() {
                return Next::Gap(error);
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
                self.bytes -= side.forget(&members);
                if whole {
                    self.out.extend(members.into_iter().map(|member| (at, member)));
                }
            }
            self.target += 1;
        }
    }
}

impl Side {
    /// Members that no longer wait: how many bytes they are.
    fn forget(&mut self, members: &[Keyed]) -> usize {
        self.members -= members.len();
        members.iter().map(|keyed| keyed.member.data.len()).sum()
    }

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
    use crate::stages::join::join_texts;

    fn join(index: &[&str], twins: &[&[&str]], members: usize) -> (Vec<String>, Vec<String>) {
        join_texts(twins, Some(index), members)
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
    fn a_key_is_told_once_for_all_its_members() {
        let (_, warned) = join(&["a"], &[&["x.j", "x.k", "x.l", "a.j", "y.j", "y.k"]], 10);
        assert_eq!(warned.len(), 2, "{warned:?}");
        assert!(warned[0].contains("key x") && warned[1].contains("key y"), "{warned:?}");
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
    #[test]
    fn keys_at_both_sides_of_a_broken_place_are_not_used() {
        let (out, warned) =
            join(&["a", "b", "c", "d"], &[&["d.j", "a.j", "!b.j", "b.k", "c.j"]], 10);
        assert_eq!(out, ["gap", "0:c.j", "0:d.j"]);
        assert_eq!(warned.len(), 3, "both members of b in one: {warned:?}");
        assert!(warned[1].contains("key a of the index is missing in m0"), "{warned:?}");
        assert!(warned[0].contains("key b stands behind a broken place"), "{warned:?}");
    }
}
