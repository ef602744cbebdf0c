//! A sample is a head that travels untouched and a body that each stage replaces.

pub mod batch;
mod columns;
pub mod fields;
pub mod key;
mod normalized;
mod place;
mod split;
pub mod tensor;
pub mod value;

use std::sync::Arc;

pub use batch::{Batch, Collate, Column, Columns, Heads, Ragged};
pub use fields::{Fields, Name};
pub use key::Key;
pub use normalized::{Normalized, Tables};
pub use place::{Buffers, Loose, Placed, batch_into};
pub use split::Split;
pub use tensor::{Data, Element, Tensor};
pub use value::{Image, Value};

use crate::error::Error;
use crate::memory::Charge;
use crate::position::{Mark, Position};
use crate::random::{Rng, hash};

/// What all samples of one shard in one run have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Origin {
    /// Seed of the run.
    pub seed: u64,
    /// Pass over the data, from 0.
    pub epoch: u64,
    /// Lane that reads it.
    pub lane: u32,
    /// Source inside the lane.
    pub source: u16,
    /// Place of the shard in the epoch's order.
    pub place: u64,
    /// Whether a tail policy gave the shard out a second time in this epoch.
    pub repeat: bool,
    /// The shard as a person knows it: its path, or the path below the modalities, without secrets.
    pub shard: String,
}

impl Origin {
    /// What every random choice about a sample of this shard is keyed by, beside the stage: [`Mark::key`].
    #[must_use]
    pub fn random_key(&self, ordinal: u64) -> u64 {
        hash(&[self.seed, self.epoch, u64::from(self.lane), u64::from(self.source), ordinal])
    }
}

/// The head of a sample: identity and place, untouched by stages that replace the body.
#[derive(Debug, Clone)]
pub struct Head {
    /// The shared part of the member names.
    pub key: Key,
    /// Shard, lane, epoch and seed.
    pub origin: Arc<Origin>,
    /// Place in the order, floor and virtual time.
    pub mark: Mark,
    /// What its body holds, where a loader has a budget of bytes.
    pub(crate) charge: Charge,
}

impl Head {
    /// The head of a sample that no loader counts.
    #[must_use]
    pub fn new(key: Key, origin: Arc<Origin>, mark: Mark) -> Self {
        Self { key, origin, mark, charge: Charge::default() }
    }

    /// Counts what the body holds now; `bytes` is asked only where there is a budget.
    pub(crate) fn weigh(&mut self, bytes: impl FnOnce() -> usize) {
        if self.charge.counts() {
            self.charge.set((size_of::<Self>() + bytes()) as u64);
        }
    }

    /// The sample's identity in the run.
    #[must_use]
    pub fn position(&self) -> Position {
        let Origin { epoch, lane, source, place, .. } = *self.origin;
        Position { epoch, lane, source, place, ordinal: self.mark.ordinal, index: self.mark.index }
    }

    /// The sample's own generator at the stage numbered `stage`. The same sample never gets another one in the same epoch.
    #[must_use]
    pub fn rng(&self, stage: u16) -> Rng {
        Rng::keyed(&[self.mark.key, u64::from(stage)])
    }

    /// Adds shard, key and position to an error about this sample.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        error
            .in_shard(self.origin.shard.as_str())
            .of_key(self.key.to_string())
            .settling(self.position(), self.mark)
    }
}

/// One sample: [`Head`] and body.
#[derive(Debug, Clone)]
pub struct Sample<T> {
    /// Identity and place.
    pub head: Head,
    /// What the stages have made of it so far.
    pub body: T,
}

impl<T> Sample<T> {
    /// The shared part of the member names.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.head.key
    }

    /// Replaces the body.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Sample<U> {
        Sample { head: self.head, body: f(self.body) }
    }

    /// Replaces the body, or says why that can't be done, naming the sample.
    ///
    /// # Errors
    /// What `f` returns, with shard, key and position added.
    pub fn try_map<U>(self, f: impl FnOnce(T) -> Result<U, Error>) -> Result<Sample<U>, Error> {
        match f(self.body) {
            Ok(body) => Ok(Sample { head: self.head, body }),
            Err(error) => Err(self.head.explain(error)),
        }
    }
}
