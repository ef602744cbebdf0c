//! Sets of ordinals: everything below a floor, and some above it.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

/// Ordinals in one chunk of a [`Settled`] set.
const CHUNK: u64 = 4096;
/// The widest window above a floor that is accepted from a file: far beyond any real one, and small in memory.
const WIDEST: u64 = 1 << 36;

/// A set of ordinals: everything below a floor, and some above it. Kept in chunks of 4096, of which full and empty ones take no memory.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    floor: u64,
    /// Chunk 0 is the one that holds the floor.
    chunks: VecDeque<Chunk>,
}

#[derive(Debug, Clone)]
enum Chunk {
    Empty,
    Full,
    Some { count: u16, bits: Box<[u64; 64]> },
}

impl Chunk {
    fn has(&self, at: u64) -> bool {
        match self {
            Self::Empty => false,
            Self::Full => true,
            Self::Some { bits, .. } => bits[(at / 64) as usize] >> (at % 64) & 1 == 1,
        }
    }

    /// Sets a bit; whether it was not set before.
    fn set(&mut self, at: u64) -> bool {
        if let Self::Empty = self {
            *self = Self::Some { count: 0, bits: Box::new([0; 64]) };
        }
        let Self::Some { count, bits } = self else { return false };
        let word = &mut bits[(at / 64) as usize];
        let bit = 1 << (at % 64);
        let new = *word & bit == 0;
        *word |= bit;
        *count += u16::from(new);
        if u64::from(*count) == CHUNK {
            *self = Self::Full;
        }
        new
    }

    /// The first place at or after `at` that is not set.
    fn first_unset(&self, at: u64) -> Option<u64> {
        match self {
            Self::Empty => Some(at),
            Self::Full => None,
            Self::Some { bits, .. } => {
                let mut word = (at / 64) as usize;
                let mut unset = !bits[word] & (u64::MAX << (at % 64));
                while unset == 0 {
                    word += 1;
                    unset = !*bits.get(word)?;
                }
                Some(word as u64 * 64 + u64::from(unset.trailing_zeros()))
            }
        }
    }
}

impl Settled {
    /// Every ordinal below is settled; this one is not.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// How many ordinals are owed below the highest that is settled.
    #[must_use]
    pub fn holes(&self) -> u64 {
        // Runs alternate, owed first, and end with a settled one.
        self.runs().iter().step_by(2).sum()
    }

    /// Whether an ordinal is settled.
    #[must_use]
    pub fn has(&self, ordinal: u64) -> bool {
        if ordinal < self.floor {
            return true;
        }
        let chunk = ordinal / CHUNK - self.floor / CHUNK;
        usize::try_from(chunk)
            .ok()
            .and_then(|i| self.chunks.get(i))
            .is_some_and(|chunk| chunk.has(ordinal % CHUNK))
    }

    /// Settles an ordinal; whether it was owed until now.
    pub fn settle(&mut self, ordinal: u64) -> bool {
        if ordinal < self.floor || ordinal - self.floor > WIDEST {
            return false;
        }
        let index = (ordinal / CHUNK - self.floor / CHUNK) as usize;
        while self.chunks.len() <= index {
            self.chunks.push_back(Chunk::Empty);
        }
        let new = self.chunks[index].set(ordinal % CHUNK);
        if ordinal == self.floor {
            self.advance();
        }
        new
    }

    /// Settles everything below a floor; how many of these had not been settled.
    pub fn raise(&mut self, floor: u64) -> u64 {
        if floor <= self.floor {
            return 0;
        }
        let mut silent = 0;
        while self.floor < floor {
            if self.chunks.is_empty() {
                silent += floor - self.floor;
                self.floor = floor;
                break;
            }
            // The floor itself is never settled: it counts, and then whatever follows it is passed.
            silent += 1;
            self.step();
        }
        silent
    }

    /// Passes the floor and what is settled right behind it.
    fn step(&mut self) {
        self.floor += 1;
        if self.floor.is_multiple_of(CHUNK) {
            self.chunks.pop_front();
        }
        self.advance();
    }

    fn advance(&mut self) {
        while let Some(chunk) = self.chunks.front() {
            let start = self.floor / CHUNK * CHUNK;
            if let Some(unset) = chunk.first_unset(self.floor - start) {
                self.floor = start + unset;
                return;
            }
            self.floor = start + CHUNK;
            self.chunks.pop_front();
        }
    }

    /// Lengths of alternating runs above the floor: owed, settled, owed, settled …
    fn runs(&self) -> Vec<u64> {
        let mut runs = Vec::new();
        let mut settled = false;
        let mut length = 0;
        let mut add = |value: bool, n: u64| {
            if value == settled {
                length += n;
            } else {
                runs.push(length);
                settled = value;
                length = n;
            }
        };
        let mut at = self.floor;
        for chunk in &self.chunks {
            let start = at / CHUNK * CHUNK;
            match chunk {
                // The floor lies inside the first chunk.
                Chunk::Empty => add(false, start + CHUNK - at),
                Chunk::Full => add(true, start + CHUNK - at),
                Chunk::Some { .. } => {
                    (at..start + CHUNK).for_each(|o| add(chunk.has(o - start), 1))
                }
            }
            at = start + CHUNK;
        }
        if settled {
            runs.push(length);
        }
        runs
    }
}

/// What is below the floor does not matter, however it came about.
impl PartialEq for Settled {
    fn eq(&self, other: &Self) -> bool {
        self.floor == other.floor && self.runs() == other.runs()
    }
}

impl Eq for Settled {}

/// How a set is written: the floor, and the runs above it as variable-length integers in base64.
#[derive(Serialize, Deserialize)]
struct Written {
    floor: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    above: String,
}

impl Serialize for Settled {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        for mut run in self.runs() {
            while run >= 128 {
                bytes.push((run & 127) as u8 | 128);
                run >>= 7;
            }
            bytes.push(run as u8);
        }
        Written { floor: self.floor, above: BASE64.encode(bytes) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Settled {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;

        let written = Written::deserialize(deserializer)?;
        let bytes = BASE64.decode(&written.above).map_err(D::Error::custom)?;
        let mut set = Self { floor: written.floor, chunks: VecDeque::new() };
        let (mut at, mut settled, mut run, mut shift) = (written.floor, false, 0u64, 0);
        for byte in bytes {
            if shift > 35 {
                return Err(D::Error::custom("above: a run is too long"));
            }
            run |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                let end = at
                    .checked_add(run)
                    .filter(|end| end - written.floor < WIDEST)
                    .ok_or_else(|| D::Error::custom("above: too wide"))?;
                if settled {
                    set.fill(at, end);
                }
                (at, settled, run, shift) = (end, !settled, 0, 0);
            }
        }
        if shift != 0 {
            return Err(D::Error::custom("above: ends inside a number"));
        }
        Ok(set)
    }
}

impl Settled {
    /// Settles `start..end`, which begins above the floor.
    fn fill(&mut self, start: u64, end: u64) {
        let first = self.floor / CHUNK;
        let mut at = start;
        while at < end {
            let index = (at / CHUNK - first) as usize;
            while self.chunks.len() <= index {
                self.chunks.push_back(Chunk::Empty);
            }
            let next = (at / CHUNK + 1) * CHUNK;
            if at.is_multiple_of(CHUNK) && next <= end {
                self.chunks[index] = Chunk::Full;
            } else {
                (at..next.min(end)).for_each(|o| {
                    self.chunks[index].set(o % CHUNK);
                });
            }
            at = next.min(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// A plain set is the model.
        #[test]
        fn settled_equals_a_plain_set(actions in prop::collection::vec((0u64..20_000, prop::bool::weighted(0.1)), 1..400)) {
            let mut set = Settled::default();
            let mut model = BTreeSet::new();
            let mut floor = 0;
            for (n, raise) in actions {
                if raise {
                    let below = n / 4;
                    let silent = (floor..below.max(floor)).filter(|o| model.insert(*o)).count() as u64;
                    prop_assert_eq!(set.raise(below), silent);
                } else {
                    prop_assert_eq!(set.settle(n), model.insert(n));
                }
                while model.contains(&floor) {
                    floor += 1;
                }
                prop_assert_eq!(set.floor(), floor);
            }
            for o in 0..20_100 {
                prop_assert_eq!(set.has(o), model.contains(&o));
            }
            let text = serde_json::to_string(&set).unwrap();
            let back: Settled = serde_json::from_str(&text).unwrap();
            for o in 0..20_100 {
                prop_assert_eq!(back.has(o), set.has(o), "{}: {}", o, text);
            }
            prop_assert_eq!(back.floor(), set.floor());
        }
    }

    #[test]
    fn full_chunks_are_passed() {
        let mut set = Settled::default();
        for o in 1..3 * CHUNK + 7 {
            set.settle(o);
        }
        assert_eq!(set.floor(), 0);
        assert!(set.settle(0));
        assert_eq!(set.floor(), 3 * CHUNK + 7);
        assert!(!set.settle(5));
    }

    #[test]
    fn nonsense_in_a_file_is_refused() {
        for above in ["!", "gA", "_____________w"] {
            let text = format!(r#"{{"floor":3,"above":"{above}"}}"#);
            assert!(serde_json::from_str::<Settled>(&text).is_err(), "{above}");
        }
    }
}
