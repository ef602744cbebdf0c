//! What of a lane is settled (delivered or skipped): a floor, and what is settled above it.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::position::{Mark, Position};
use crate::random;

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

/// A shard of which something is settled, and something may be owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardState {
    /// Its place in the epoch's order.
    pub place: u64,
    /// Ordinal of its first sample.
    pub first: u64,
    /// Step from one of its samples' ordinals to the next: more than 1 where shards are interleaved.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub stride: u64,
    /// How many samples it has, once that was seen, or at which sample it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
const fn is_one(n: &u64) -> bool {
    *n == 1
}

impl ShardState {
    /// One past the ordinal of the last sample, where the end is known.
    #[must_use]
    pub fn past(&self) -> Option<u64> {
        self.end.map(|end| {
            self.first
                .saturating_add(end.saturating_sub(1).saturating_mul(self.stride))
                .saturating_add(u64::from(end > 0))
        })
    }

    /// Which interleaved group it belongs to (each shard is its own without interleaving), counted by places in the lane.
    const fn group(&self, lanes: u64) -> u64 {
        self.place / lanes / self.stride
    }

    /// The place of the first shard of its group, in a lane of so many.
    const fn group_start(&self, lanes: u64) -> u64 {
        self.place % lanes + self.group(lanes) * self.stride * lanes
    }
}

/// An order-insensitive digest of settled positions: equal sums over equal sets, whoever settled them in which order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How many positions were folded in.
    pub count: u64,
    /// Sum of their hashes, modulo 2^64, twice with different keys.
    pub sum: [u64; 2],
}

impl Digest {
    /// Folds in the sample at `index` of the shard at `place` of epoch `epoch`.
    pub fn add(&mut self, epoch: u64, source: u16, place: u64, index: u64) {
        let word = random::hash(&[epoch, u64::from(source), place, index]);
        self.count += 1;
        self.sum[0] = self.sum[0].wrapping_add(word);
        self.sum[1] = self.sum[1].wrapping_add(random::hash(&[word, 1]));
    }

    /// Folds in another digest.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum[0] = self.sum[0].wrapping_add(other.sum[0]);
        self.sum[1] = self.sum[1].wrapping_add(other.sum[1]);
    }
}

/// Why something was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Place of the shard.
    pub place: u64,
    /// Which of its samples.
    pub index: u64,
    /// Whether all that follows in the shard is lost too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
    /// In words.
    pub reason: String,
}

/// Most skips that are kept with their reasons, for each source; beyond them only the count grows.
const SKIPS: usize = 100;
/// Longest reason that is kept, in characters.
const REASON: usize = 200;

/// What is settled of one source in one lane in one epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// Ordinals.
    pub settled: Settled,
    /// Shards between the floor and the newest sample settled, by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardState>,
    /// Samples handed out.
    #[serde(default)]
    pub delivered: u64,
    /// Samples given up with a reason, filtered ones included.
    #[serde(default)]
    pub skipped: u64,
    /// Samples that somebody between the stages dropped without a word.
    #[serde(default)]
    pub silent: u64,
    /// Of the samples handed out, those of shards that a tail policy gave out a second time.
    #[serde(default)]
    pub repeated: u64,
    /// What was given up, with the reasons: the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Skip>,
    /// Everything that was settled with a position.
    #[serde(default)]
    pub digest: Digest,
    /// The latest time at which something that is settled left a mix: where a source that has ended came to its end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mixed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl SourceProgress {
    /// Whether a sample is still to be delivered.
    #[must_use]
    pub fn owes(&self, ordinal: u64) -> bool {
        !self.settled.has(ordinal)
    }

    /// What is known of the shard at a place.
    #[must_use]
    pub fn shard(&self, place: u64) -> Option<&ShardState> {
        self.shards.binary_search_by_key(&place, |shard| shard.place).ok().map(|i| &self.shards[i])
    }

    /// Where reading begins again: the place, and the ordinal of the first sample of the shard there, if it is known. `lanes` is the
    /// number of lanes of the run.
    #[must_use]
    pub fn start(&self, lane: u64, lanes: u64) -> (u64, Option<u64>) {
        let begins = self.shards.partition_point(|s| s.first <= self.settled.floor());
        let Some(shard) = begins.checked_sub(1).map(|at| self.shards[at]) else {
            return (lane, Some(0));
        };
        if shard.stride > 1 {
            return (shard.group_start(lanes), None);
        }
        match shard.past() {
            Some(past) if self.is_settled(&shard) => (shard.place + lanes, Some(past)),
            _ => (shard.place, Some(shard.first)),
        }
    }

    /// Whether everything in a shard is settled.
    #[must_use]
    pub fn is_settled(&self, shard: &ShardState) -> bool {
        shard.end.is_some_and(|end| {
            (0..end).map(|i| shard.first + i * shard.stride).all(|o| self.settled.has(o))
        })
    }

    /// Settles a sample; false if it had been settled before.
    pub fn settle(&mut self, position: &Position, mark: &Mark) -> bool {
        let new = self.settled.settle(mark.ordinal);
        if new {
            self.digest.add(position.epoch, position.source, position.place, position.index);
        }
        self.mixed = self.mixed.max(mark.mixed);
        let end = mark.last.then_some(mark.index + 1);
        match self.shards.binary_search_by_key(&position.place, |s| s.place) {
            Ok(i) => self.shards[i].end = self.shards[i].end.or(end),
            Err(i) => self.shards.insert(
                i,
                ShardState {
                    place: position.place,
                    first: mark.first(),
                    stride: mark.stride.into(),
                    end,
                },
            ),
        }
        new
    }

    /// Says where a shard begins of which nothing is settled yet.
    pub(crate) fn begin_at(&mut self, place: u64, first: u64) {
        if let Err(at) = self.shards.binary_search_by_key(&place, |shard| shard.place) {
            self.shards.insert(at, ShardState { place, first, stride: 1, end: None });
        }
    }

    /// Settles something that is given up; false if it had been settled before.
    pub fn skip(&mut self, position: &Position, mark: &Mark, rest: bool, reason: &str) -> bool {
        let new = self.settle(position, mark);
        if new {
            self.skipped += 1;
            if self.skips.len() < SKIPS {
                let reason = reason.chars().take(REASON).collect();
                self.skips.push(Skip {
                    place: position.place,
                    index: position.index,
                    rest,
                    reason,
                });
            }
        }
        new
    }

    /// Whether every ordinal is a sample: interleaved shards of different lengths leave gaps.
    fn is_dense(&self) -> bool {
        self.shards.iter().all(|shard| shard.stride == 1)
    }

    /// The lane has ended in this epoch: what was not settled was dropped without a word.
    pub fn finish(&mut self) {
        if self.is_dense() {
            self.silent += self.settled.holes();
        }
    }

    /// Raises the floor to what a stage vouches for. `lanes` is the number of lanes of the run.
    pub fn raise(&mut self, floor: u64, lanes: u64) {
        let silent = self.settled.raise(floor);
        if self.is_dense() {
            self.silent += silent;
        }
        let floor = self.settled.floor();
        // Reading begins at the last shard that begins at or below the floor (and those interleaved with it): what lies before is settled.
        let begins = self.shards.partition_point(|s| s.first <= floor);
        if let Some(at) = begins.checked_sub(1) {
            let group = self.shards[at].group(lanes);
            let keep = self.shards.partition_point(|s| s.group(lanes) < group);
            self.shards.drain(..keep);
        }
    }
}

/// What is settled of one lane, and how far it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneProgress {
    /// Epoch in which the lane is.
    pub epoch: u64,
    /// Batches handed out in this epoch.
    pub batches: u64,
    /// Batches handed out since all lanes last began together: whose turn it is follows from it.
    pub turns: u64,
    /// Whether the lane has ended in this epoch.
    #[serde(default)]
    pub ended: bool,
    /// One for each source.
    pub sources: Vec<SourceProgress>,
}

impl LaneProgress {
    /// A lane at the beginning of an epoch.
    #[must_use]
    pub fn at(epoch: u64, sources: usize) -> Self {
        Self { epoch, sources: vec![SourceProgress::default(); sources], ..Self::default() }
    }

    /// The source with this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn source(&mut self, source: u16) -> Result<&mut SourceProgress> {
        let known = self.sources.len();
        self.sources.get_mut(usize::from(source)).ok_or_else(|| {
            Error::config(format!(
                "a sample of source {source} came from a lane with {known} sources"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A plain set is the model.
        #[test]
        fn settled_equals_a_plain_set(actions in prop::collection::vec((0u64..20_000, prop::bool::weighted(0.1)), 1..400)) {
            let mut set = Settled::default();
            let mut model = BTreeSet::new();
            for (n, raise) in actions {
                if raise {
                    let floor = n / 4;
                    let silent = (0..floor).filter(|o| model.insert(*o)).count() as u64;
                    prop_assert_eq!(set.raise(floor), silent);
                } else {
                    prop_assert_eq!(set.settle(n), model.insert(n));
                }
                let floor = (0..).find(|o| !model.contains(o)).unwrap();
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
