//! One lane of a run: what a recipe is built for, and the stream that its task runs.

use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt};

use super::Recipe;
use crate::error::{Error, Result};
use crate::memory::LaneMemory;
use crate::progress::SourceProgress;
use crate::shard::{Manifest, Tail};
use crate::stages::{ShardList, shard_list};

/// What a recipe is built for: one lane in one epoch. Its [`shard_list`](Self::shard_list) begins at what is still owed.
#[derive(Debug, Clone)]
pub struct Lane {
    pub(super) manifest: Manifest,
    pub(super) seed: u64,
    pub(super) tail: Tail,
    /// Which lane, from 0.
    pub(super) lane: u32,
    /// Of how many.
    pub(super) lanes: u32,
    /// Pass over the data, from 0.
    pub(super) epoch: u64,
    /// What is settled; empty if nothing is.
    pub(super) progress: Vec<SourceProgress>,
    /// Where what it holds is counted, if there is a budget.
    pub(super) memory: Option<Arc<LaneMemory>>,
}

impl Lane {
    /// The shards of the loader's manifest, set up for this lane: like [`shard_list(&manifest)`](shard_list), with seed, epoch and lane.
    pub fn shard_list(&self) -> ShardList {
        let list = shard_list(&self.manifest)
            .seed(self.seed)
            .epoch(self.epoch)
            .tail(self.tail)
            .for_lane(self.lane, self.lanes)
            .counted(self.memory.as_ref());
        match self.progress.first() {
            Some(progress) => list.resume(progress.clone()),
            None => list,
        }
    }

    /// The shards of one data set of the manifest, as a source of its own: for mixing. `source` counts
    /// [`Manifest::sources`] from 0.
    ///
    /// # Errors
    /// If the manifest has no such source.
    pub fn source(&self, source: u16) -> Result<ShardList> {
        let known = self.manifest.sources();
        let found = known.get(usize::from(source)).ok_or_else(|| {
            Error::config(format!("source {source} of a manifest with {} data sets", known.len()))
        })?;
        let list = shard_list(&self.manifest)
            .seed(self.seed)
            .epoch(self.epoch)
            .tail(self.tail)
            .for_lane(self.lane, self.lanes)
            .counted(self.memory.as_ref());
        let list = list.for_source(source, found.shards.clone());
        Ok(match self.progress.get(usize::from(source)) {
            Some(progress) => list.resume(progress.clone()),
            None => list,
        })
    }

    /// What is settled of each source; empty at the beginning of an epoch. For [`Mix::first_exhausted`](crate::stages::Mix::first_exhausted).
    #[must_use]
    pub fn progress(&self) -> &[SourceProgress] {
        &self.progress
    }

    /// Pass over the data, from 0.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Which lane, from 0.
    #[must_use]
    pub const fn lane(&self) -> u32 {
        self.lane
    }

    /// How many lanes the run has.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Seed of the run.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }
}

/// What a lane's task hands over.
pub(super) enum Item<B> {
    Batch(B),
    Error(Error),
    /// The lane has ended in an epoch.
    End,
}

/// A lane from where it is to the end of the last epoch, epoch by epoch. `ended` is whether it has ended in its epoch already.
pub(super) fn run<B: Send + 'static>(
    first: Lane,
    ended: bool,
    epochs: Option<u64>,
    recipe: Arc<Recipe<B>>,
) -> impl Stream<Item = Item<B>> + Send + 'static {
    let start = first.epoch + u64::from(ended);
    let all = stream::unfold(start, move |epoch| {
        std::future::ready(epochs.is_none_or(|end| epoch < end).then_some((epoch, epoch + 1)))
    });
    all.flat_map(move |epoch| {
        let mut lane = first.clone();
        if epoch != first.epoch {
            lane.epoch = epoch;
            lane.progress.clear();
        }
        let stream: BoxStream<'static, Result<B>> = recipe(&lane);
        let items = stream.map(|item| match item {
            Ok(batch) => Item::Batch(batch),
            Err(error) => Item::Error(error),
        });
        items.chain(stream::once(std::future::ready(Item::End)))
    })
}
