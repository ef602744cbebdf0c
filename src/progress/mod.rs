//! What of a lane is settled (delivered or skipped): a floor, and what is settled above it.

mod kept;
mod lane;
mod settled;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::position::{Mark, Position};
use crate::random;

pub use kept::{Kept, KeptShard};
pub use lane::{LaneProgress, Late};
pub use settled::Settled;

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

/// Notes something that is given up.
fn skip(skips: &mut Vec<Skip>, position: &Position, rest: bool, reason: &str) {
    if skips.len() < SKIPS {
        let reason = reason.chars().take(REASON).collect();
        skips.push(Skip { place: position.place, index: position.index, rest, reason });
    }
}

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
    /// If nothing else is owed than these ordinals: what an epoch that has ended keeps for the next. Only the [`shards`](Self::shards) hold some.
    #[serde(skip)]
    pub only: Option<BTreeSet<u64>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl SourceProgress {
    /// Whether a sample is still to be delivered.
    #[must_use]
    pub fn owes(&self, ordinal: u64) -> bool {
        match &self.only {
            Some(only) => only.contains(&ordinal),
            None => !self.settled.has(ordinal),
        }
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
        self.only.is_none()
            && shard.end.is_some_and(|end| {
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
    #[cfg(feature = "cli")]
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
            skip(&mut self.skips, position, rest, reason);
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
