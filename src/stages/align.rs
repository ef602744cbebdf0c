//! Which members of the twins belong together: by key, with a bounded look-ahead where the keys differ. Plain functions on values.

use std::collections::VecDeque;

use bytes::Bytes;

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

/// A member that waits, and how long its key is.
#[derive(Debug)]
struct Waiting {
    member: tar::Member,
    key: usize,
}

impl Waiting {
    fn key(&self) -> &[u8] {
        &self.member.name[..self.key]
    }
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Read a member of this side.
    Read(usize),
    /// Hand out a member of this side.
    Take(usize, tar::Member),
    /// A key that is not in every twin: the side that lacks it, and what to say.
    Lost { key: Bytes, lacks: usize, message: String },
    /// No common key within the look-ahead: give the shard up.
    TooFar { message: String },
    /// All sides have ended.
    End,
}

/// The twins of one shard, side by side.
#[derive(Debug)]
pub(super) struct Align {
    sides: Vec<Side>,
    look_ahead: LookAhead,
    /// The key that is being handed out, and from which side.
    current: Option<(Bytes, usize)>,
    /// Keys found to be incomplete, still to be told.
    lost: VecDeque<(Bytes, usize, String)>,
    bytes: usize,
    /// While the heads differ: the side whose last member has not been looked for in the others yet.
    searching: Option<usize>,
}

#[derive(Debug)]
struct Side {
    name: String,
    waiting: VecDeque<Waiting>,
    ended: bool,
}

impl Align {
    pub(super) fn new(names: impl IntoIterator<Item = String>, look_ahead: LookAhead) -> Self {
        let sides = names
            .into_iter()
            .map(|name| Side { name, waiting: VecDeque::new(), ended: false })
            .collect();
        Self { sides, look_ahead, current: None, lost: VecDeque::new(), bytes: 0, searching: None }
    }

    /// A member of a side was read. One without a key has been left out before.
    pub(super) fn push(&mut self, side: usize, member: tar::Member) {
        let key = key::split(&member.name).map_or(member.name.len(), |(key, _)| key.len());
        self.bytes += member.data.len();
        self.sides[side].waiting.push_back(Waiting { member, key });
    }

    /// A side has no more members.
    pub(super) fn end(&mut self, side: usize) {
        self.sides[side].ended = true;
    }

    /// Whether some members of a key have been handed out, and others may follow.
    pub(super) fn is_inside_a_key(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn next(&mut self) -> Next {
        if let Some((key, lacks, message)) = self.lost.pop_front() {
            return Next::Lost { key, lacks, message };
        }
        // Hand out the current key: all its members of one side, then of the next.
        while let Some((key, side)) = &mut self.current {
            let from = &mut self.sides[*side];
            match from.waiting.front() {
                None if !from.ended => return Next::Read(*side),
                Some(head) if head.key() == &key[..] => {
                    let side = *side;
                    return self.take(side);
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
        let Some(first) = self.sides.iter().find_map(|side| side.waiting.front()) else {
            return Next::End;
        };
        if self
            .sides
            .iter()
            .all(|side| side.waiting.front().is_some_and(|head| head.key() == first.key()))
        {
            let member = &first.member.name;
            self.current = Some((member.slice(..first.key), 0));
            return self.next();
        }
        self.resync()
    }

    fn take(&mut self, side: usize) -> Next {
        match self.sides[side].waiting.pop_front() {
            Some(waiting) => {
                self.bytes -= waiting.member.data.len();
                Next::Take(side, waiting.member)
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
        let others = |waiting: &Waiting| {
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
                self.sides[at].waiting.pop_front();
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
    use super::*;

    /// Runs the join over lists of member names; keys handed out and keys lost.
    fn join(sides: &[&[&str]]) -> (Vec<String>, Vec<String>) {
        let mut align = Align::new(
            (0..sides.len()).map(|i| format!("m{i}")),
            LookAhead { members: 4, bytes: 1 << 20 },
        );
        let mut at = vec![0; sides.len()];
        let (mut out, mut lost) = (Vec::new(), Vec::new());
        loop {
            match align.next() {
                Next::Read(side) => match sides[side].get(at[side]) {
                    Some(name) => {
                        at[side] += 1;
                        let name = Bytes::copy_from_slice(name.as_bytes());
                        align.push(
                            side,
                            tar::Member {
                                name,
                                data: Bytes::new(),
                                header_offset: 0,
                                data_offset: 0,
                            },
                        );
                    }
                    None => align.end(side),
                },
                Next::Take(side, member) => {
                    out.push(format!("{side}:{}", String::from_utf8_lossy(&member.name)))
                }
                Next::Lost { key, .. } => lost.push(String::from_utf8_lossy(&key).into_owned()),
                Next::TooFar { message } => {
                    lost.push(message);
                    return (out, lost);
                }
                Next::End => return (out, lost),
            }
        }
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
