//! Which keys of a shard have come so far.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::random::hash_bytes;
use crate::sample::key::KeyRule;

/// The keys of a shard so far. As long as they come sorted, as good packers write them, the newest is enough to know that none came twice.
#[derive(Default)]
pub(super) struct Seen {
    hashes: Vec<u64>,
    set: HashSet<u64>,
    newest: Vec<u8>,
    sorted: bool,
    /// With renamed keys: which part of a member's name each was made of.
    renamed: HashMap<Bytes, Bytes>,
}

/// Whether a key was there before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    First,
    Again,
    /// It was made of another part of a name: this one.
    Collides(Bytes),
}

impl Seen {
    /// Adds a key, and what it was made of.
    pub(super) fn add(&mut self, key: &Bytes, stem: &Bytes, rule: KeyRule) -> Came {
        let came = if self.insert(key) {
            Came::First
        } else {
            match self.renamed.get(key).filter(|other| *other != stem) {
                Some(other) => Came::Collides(other.clone()),
                None => Came::Again,
            }
        };
        if rule != KeyRule::WebDataset {
            self.renamed.entry(key.clone()).or_insert_with(|| stem.clone());
        }
        came
    }

    /// Adds a key; whether it is new.
    fn insert(&mut self, key: &Bytes) -> bool {
        let hash = hash_bytes(key);
        if self.hashes.is_empty() {
            self.sorted = true;
        } else if self.sorted && key[..] <= self.newest[..] {
            self.sorted = false;
            self.set = self.hashes.iter().copied().collect();
        }
        let new = self.sorted || self.set.insert(hash);
        if self.sorted {
            self.newest.clear();
            self.newest.extend_from_slice(key);
            self.hashes.push(hash);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(seen: &mut Seen, key: &'static str, stem: &'static str, rule: KeyRule) -> Came {
        seen.add(&Bytes::from_static(key.as_bytes()), &Bytes::from_static(stem.as_bytes()), rule)
    }

    #[test]
    fn a_key_comes_first_or_again() {
        let mut seen = Seen::default();
        // Sorted at first, then not.
        for key in ["a", "b", "d", "c"] {
            assert_eq!(add(&mut seen, key, key, KeyRule::WebDataset), Came::First);
        }
        for key in ["a", "c", "d"] {
            assert_eq!(add(&mut seen, key, key, KeyRule::WebDataset), Came::Again);
        }
        assert_eq!(add(&mut seen, "e", "e", KeyRule::WebDataset), Came::First);
    }

    #[test]
    fn renaming_makes_one_key_of_two() {
        let mut seen = Seen::default();
        assert_eq!(add(&mut seen, "a-b", "a.b", KeyRule::Pid), Came::First);
        assert_eq!(add(&mut seen, "a-b", "a.b", KeyRule::Pid), Came::Again);
        assert_eq!(add(&mut seen, "a-b", "a-b", KeyRule::Pid), Came::Collides("a.b".into()));
    }
}
