//! Which members of the twins belong together: by key, with a bounded look-ahead where the keys differ. Plain functions on values.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::error::Error;
use crate::sample::key;
use crate::tar;

/// How far ahead a common key is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookAhead {
    /// Members of one twin.
    pub members: usize,
    /// Bytes over all twins.
    pub bytes: usize,
}

impl Default for LookAhead {
    fn default() -> Self {
        Self { members: 1000, bytes: 64 << 20 }
    }
}

/// A member with a key.
#[derive(Debug)]
pub(crate) struct Keyed {
    pub(crate) member: tar::Member,
    /// How many bytes of its name are the key.
    pub(crate) key: usize,
    /// The broken place in front of it, until that was told.
    pub(crate) gap: Option<Error>,
    /// Whether there is a broken place in front of it.
    pub(crate) behind_gap: bool,
}

impl Keyed {
    pub(crate) fn key(&self) -> &[u8] {
        &self.member.name[..self.key]
    }
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Read a member of this side.
    Read(usize),
    /// Hand out a member of this side.
    Take(usize, Keyed),
    /// Tell of a broken place in a side. What was handed out before it may lack members.
    Gap(Error),
    /// A key that is not in every twin: the side that lacks it, and what to say.
    Lost { key: Bytes, lacks: usize, message: String },
    /// No common key within the look-ahead: give the shard up.
    TooFar { message: String },
    /// All sides have ended.
    End,
}

/// The twins of one shard, side by side.
#[derive(Debug)]
pub(crate) struct Align {
    sides: Vec<Side>,
    look_ahead: LookAhead,
    /// The side from which a key is being handed out.
    current: Option<usize>,
    /// That key.
    key: Vec<u8>,
    /// Keys found to be incomplete, still to be told.
    lost: VecDeque<(Bytes, usize, String)>,
    /// Broken places in front of members that were given up.
    gaps: VecDeque<Error>,
    bytes: usize,
    /// While the heads differ: the side whose last member has not been looked for in the others yet.
    searching: Option<usize>,
}

#[derive(Debug)]
struct Side {
    name: String,
    waiting: VecDeque<Keyed>,
    ended: bool,
}

impl Align {
    pub(crate) fn new(names: impl IntoIterator<Item = String>, look_ahead: LookAhead) -> Self {
        let sides = names
            .into_iter()
            .map(|name| Side { name, waiting: VecDeque::new(), ended: false })
            .collect();
        Self {
            sides,
            look_ahead,
            current: None,
            key: Vec::new(),
            lost: VecDeque::new(),
            gaps: VecDeque::new(),
            bytes: 0,
            searching: None,
        }
    }

    /// A member of a side was read.
    pub(crate) fn push(&mut self, side: usize, keyed: Keyed) {
        self.bytes += keyed.member.data.len();
        self.sides[side].waiting.push_back(keyed);
    }

    /// A side has no more members.
    pub(crate) fn end(&mut self, side: usize) {
        self.sides[side].ended = true;
    }

    /// Whether some members of a key have been handed out, and others may follow.
    pub(crate) fn is_inside_a_key(&self) -> bool {
        self.current.is_some()
    }

    pub(crate) fn next(&mut self) -> Next {
        if let Some((key, lacks, message)) = self.lost.pop_front() {
            return Next::Lost { key, lacks, message };
        }
        if let Some(error) = self.gaps.pop_front() {
            return Next::Gap(error);
        }
        // Hand out the current key: all its members of one side, then of the next.
        while let Some(side) = &mut self.current {
            let from = &mut self.sides[*side];
            match from.waiting.front_mut() {
                None if !from.ended => return Next::Read(*side),
                Some(head) if head.key() == self.key => {
                    let side = *side;
                    return match head.gap.take() {
                        Some(error) => Next::Gap(error),
                        None => self.take(side),
                    };
                }
                _ => *side += 1,
            }
            if *side == self.sides.len() {
                self.current = None;
            }
        }
        // Each side needs a head, unless it has ended.
        if let Some(side) =
            self.sides.iter().position(|side| side.waiting.is_empty() && !side.ended)
        {
            return Next::Read(side);
        }
        // A broken place is told before anything of a key behind it.
        for side in &mut self.sides {
            if let Some(error) = side.waiting.front_mut().and_then(|head| head.gap.take()) {
                return Next::Gap(error);
            }
        }
        let Some(first) = self.sides.iter().find_map(|side| side.waiting.front()) else {
            return Next::End;
        };
        if self
            .sides
            .iter()
            .all(|side| side.waiting.front().is_some_and(|head| head.key() == first.key()))
        {
            self.key.clear();
            self.key.extend_from_slice(first.key());
            self.current = Some(0);
            return self.next();
        }
        self.resync()
    }

    fn take(&mut self, side: usize) -> Next {
        match self.sides[side].waiting.pop_front() {
            Some(waiting) => {
                self.bytes -= waiting.member.data.len();
                Next::Take(side, waiting)
            }
            None => Next::Read(side),
        }
    }

    /// The heads differ: find the next key that all sides have, reading on where it is not there yet.
    fn resync(&mut self) -> Next {
        // What was read before is known to have nothing in common: only the member read last can change that.
        let from =
            self.searching.map_or(0, |side| self.sides[side].waiting.len().saturating_sub(1));
        if let Some(key) = self.common_key(self.searching.unwrap_or(0), from) {
            self.drop_before(Some(&key));
            return self.next();
        }
        let open = |side: &&Side| !side.ended;
        let Some(fewest) = self.sides.iter().filter(open).map(|side| side.waiting.len()).min()
        else {
            self.drop_before(None);
            return self.next();
        };
        // A side that has ended lacks whatever the others still hold: no need to wait for a common key.
        if self.sides.iter().any(|side| side.ended && side.waiting.is_empty()) {
            self.drop_before(None);
            return self.next();
        }
        if fewest >= self.look_ahead.members || self.bytes > self.look_ahead.bytes {
            let heads: Vec<_> = self.sides.iter().map(|side| side.head_says("is at")).collect();
            let message = format!(
                "no common key within the next {fewest} members ({} bytes): {}",
                self.bytes,
                heads.join(", ")
            );
            return Next::TooFar { message };
        }
        self.searching =
            self.sides.iter().position(|side| !side.ended && side.waiting.len() == fewest);
        self.searching.map_or(Next::End, Next::Read)
    }

    /// The key that all sides hold and that costs the fewest members to get to, among those of a side from a place on.
    fn common_key(&self, side: usize, from: usize) -> Option<Bytes> {
        let others = |waiting: &Keyed| {
            let others = self.sides.iter().enumerate().filter(|(other, _)| *other != side);
            others
                .map(|(_, side)| side.waiting.iter().position(|w| w.key() == waiting.key()))
                .sum::<Option<usize>>()
        };
        let mine = self.sides[side].waiting.iter().enumerate().skip(from);
        let best = mine.filter_map(|(at, waiting)| Some((others(waiting)? + at, at))).min()?;
        let waiting = &self.sides[side].waiting[best.1];
        Some(waiting.member.name.slice(..waiting.key))
    }

    /// Gives up what stands before a key (everything, if there is none), and remembers each key for a report.
    fn drop_before(&mut self, key: Option<&[u8]>) {
        self.searching = None;
        let heads: Vec<_> = self.sides.iter().map(|side| side.head_says("has")).collect();
        for at in 0..self.sides.len() {
            while let Some(head) =
                self.sides[at].waiting.front().filter(|head| Some(head.key()) != key)
            {
                let name = head.member.name.slice(..head.key);
                self.bytes -= head.member.data.len();
                let given_up = self.sides[at].waiting.pop_front();
                self.gaps.extend(given_up.and_then(|keyed| keyed.gap));
                if self.lost.iter().any(|(known, ..)| *known == name) {
                    continue;
                }
                let lacks = (0..self.sides.len()).find(|&other| {
                    other != at && !self.sides[other].waiting.iter().any(|w| w.key() == &name[..])
                });
                let lacks = lacks.unwrap_or_else(|| usize::from(at == 0));
                self.lost.push_back((
                    name,
                    lacks,
                    format!("not in every twin, or not in the same order: {}", heads.join(", ")),
                ));
            }
        }
    }
}

impl Side {
    fn head_says(&self, verb: &str) -> String {
        match self.waiting.front() {
            Some(head) => format!(
                "{} {verb} {}",
                self.name,
                key::Key::from(head.member.name.slice(..head.key))
            ),
            None => format!("{} has none", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stages::join::join_texts;

    fn join(twins: &[&[&str]]) -> (Vec<String>, Vec<String>) {
        join_texts(twins, None, 4)
    }

    #[test]
    fn equal_keys_go_together() {
        assert_eq!(
            join(&[&["a.j", "b.j"], &["a.c", "b.c"]]),
            (vec!["0:a.j".into(), "1:a.c".into(), "0:b.j".into(), "1:b.c".into()], vec![])
        );
        assert_eq!(join(&[&["a.j", "a.k"], &["a.c"]]).0, ["0:a.j", "0:a.k", "1:a.c"]);
    }

    #[test]
    fn a_missing_key_is_lost_alone() {
        let (out, lost) = join(&[&["a.j", "b.j", "c.j"], &["a.c", "c.c"]]);
        assert_eq!((out.len(), lost), (4, vec!["b".to_owned()]));
        let (out, lost) = join(&[&["a.j"], &["a.c", "b.c", "c.c"]]);
        assert_eq!((out.len(), lost), (2, vec!["b".to_owned(), "c".into()]));
    }

    #[test]
    fn reordered_keys_are_never_mixed() {
        let (out, lost) = join(&[&["a.j", "b.j", "c.j", "d.j"], &["a.c", "c.c", "b.c", "d.c"]]);
        assert_eq!(out.len() % 2, 0);
        for pair in out.chunks(2) {
            assert_eq!(pair[0][2..3], pair[1][2..3], "{out:?}");
        }
        assert!(!lost.is_empty());
    }

    #[test]
    fn a_broken_place_is_told_before_the_first_key_behind_it() {
        let (out, lost) = join(&[&["a.j", "!b.j"], &["a.c", "b.c"]]);
        assert_eq!(out, ["0:a.j", "1:a.c", "gap", "0:b.j", "1:b.c"]);
        assert!(lost.is_empty());
        // In the last side too, before any side hands out the key.
        assert_eq!(join(&[&["a.j", "b.j"], &["a.c", "!b.c"]]).0[2], "gap");
        // Inside a key.
        assert_eq!(join(&[&["a.j", "!a.k"], &["a.c"]]).0, ["0:a.j", "gap", "0:a.k", "1:a.c"]);
        // What is lost in it is told by the other side; a broken place in front of what is given up is told all the same.
        let (out, lost) = join(&[&["a.j", "!c.j", "d.j"], &["a.c", "b.c", "d.c"]]);
        assert_eq!(out, ["0:a.j", "1:a.c", "gap", "0:d.j", "1:d.c"]);
        assert_eq!(lost, ["c", "b"]);
        let (out, lost) = join(&[&["a.j", "x.j", "!y.j", "d.j"], &["a.c", "b.c", "d.c"]]);
        assert_eq!(out, ["0:a.j", "1:a.c", "gap", "0:d.j", "1:d.c"]);
        assert_eq!(lost, ["x", "y", "b"]);
    }

    #[test]
    fn the_look_ahead_is_bounded() {
        let many: Vec<String> = (0..20).map(|i| format!("x{i}.j")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let other: Vec<String> = (0..20).map(|i| format!("y{i}.j")).collect();
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        let (out, lost) = join(&[&many, &other]);
        assert!(out.is_empty());
        assert!(
            lost[0].contains("no common key") && lost[0].contains("x0") && lost[0].contains("y0"),
            "{lost:?}"
        );
    }
}
