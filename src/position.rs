//! Where a sample stands in the order of its lane: [`Position`] and [`Mark`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// Ticks of virtual time in one sample: times are integers, and a delay or a weight may move a sample by less than one place.
pub const TICKS: u64 = 1 << 16;

/// The identity of a sample in a run: every random choice and every order follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Pass over the data, from 0.
    pub epoch: u64,
    /// Lane that reads it, from 0.
    pub lane: u32,
    /// Source inside the lane (more than one when data sets are mixed), from 0.
    pub source: u16,
    /// How many samples the lane's source read before it in this epoch.
    pub ordinal: u64,
    /// Place of its shard in the epoch's order over all lanes.
    pub place: u64,
    /// How many samples of its shard come before it.
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, lane, source, ordinal, place, index } = self;
        write!(
            f,
            "epoch {epoch} lane {lane} source {source} ordinal {ordinal} (shard at place {place}, sample {index})"
        )
    }
}

/// What travels with a sample through the stages: its place in the order, the oldest ordinal that may still be held
/// behind it, and its virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// See [`Position::ordinal`].
    pub ordinal: u64,
    /// See [`Position::index`].
    pub index: u64,
    /// Every ordinal below is settled or held by nobody. A stage that lets a later sample overtake an earlier one
    /// lowers it to the oldest ordinal that it still holds.
    pub floor: u64,
    /// Virtual time in [`TICKS`]: samples leave every stage in the order of (time, source, ordinal).
    pub time: u64,
    /// How many stages that draw random numbers the sample has passed: the stage number of the next one.
    pub stage: u16,
    /// Step from one ordinal of the shard to the next: more than 1 where shards are interleaved.
    pub stride: u32,
    /// Whether nothing follows in its shard.
    pub last: bool,
    /// Its time when it left a [`mix`](crate::stages::mix); 0 if it passed none.
    pub mixed: u64,
    /// A hash of seed, epoch, lane, source and ordinal: every random choice about the sample is keyed by it and the stage.
    pub key: u64,
}

impl Mark {
    /// The mark of a sample as it is read: its time is its ordinal, and nothing older is held.
    #[must_use]
    pub const fn read(ordinal: u64, index: u64) -> Self {
        Self {
            ordinal,
            index,
            floor: ordinal,
            time: ordinal.saturating_mul(TICKS),
            stage: 0,
            stride: 1,
            last: false,
            mixed: 0,
            key: 0,
        }
    }

    /// The ordinal of the first sample of the same shard.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.ordinal.saturating_sub(self.index.saturating_mul(self.stride as u64))
    }
}
