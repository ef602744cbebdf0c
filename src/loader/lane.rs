//! One lane of a run: what a recipe is built for, and the stream that its task runs.

use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt};

use super::Recipe;
use crate::error::{Error, Result};
use crate::memory::LaneMemory;
use crate::position::{Mark, Position};
use crate::progress::{Kept, SourceProgress};
use crate::shard::{Manifest, Tail};
use crate::shelf::Shelf;
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
    /// The lane has ended in an epoch, and keeps these samples for the next one.
    End(Vec<(Position, Mark)>),
}

/// A recipe that is run once.
struct Pass {
    lane: Lane,
    /// Whether it only reads again what its epoch has kept.
    again: bool,
    /// Whether an epoch follows.
    keeps: bool,
}

/// A lane from where it is to the end of the last epoch, epoch by epoch. `ended` is whether it has ended in its epoch already, `kept` what
/// an epoch has left to the one that comes now.
pub(super) fn run<B: Send + 'static>(
    first: Lane,
    ended: bool,
    kept: Option<&Kept>,
    epochs: Option<u64>,
    recipe: Arc<Recipe<B>>,
) -> impl Stream<Item = Item<B>> + Send + 'static {
    let goes_on = move |epoch| epochs.is_none_or(|end| epoch < end);
    let start = first.epoch + u64::from(ended);
    let again = kept.filter(|_| goes_on(start)).map(|kept| {
        let progress = kept.sources(first.progress.len());
        let lane = Lane { epoch: kept.epoch, progress, ..first.clone() };
        Pass { lane, again: true, keeps: true }
    });
    let all = stream::unfold(start, move |epoch| {
        let pass = goes_on(epoch).then(|| {
            let mut lane = first.clone();
            if epoch != first.epoch {
                lane.epoch = epoch;
                lane.progress.clear();
            }
            (Pass { lane, again: false, keeps: goes_on(epoch + 1) }, epoch + 1)
        });
        std::future::ready(pass)
    });
    let mut shelf = Arc::new(Shelf::default());
    // The stream of an epoch is built when the one before has ended and is gone.
    stream::iter(again).chain(all).flat_map(move |Pass { lane, again, keeps }| {
        shelf = Arc::new(shelf.next(keeps));
        let stream: BoxStream<'static, Result<B>> = shelf.build(|| recipe(&lane));
        let items = stream.map(|item| match item {
            Ok(batch) => Item::Batch(batch),
            Err(error) => Item::Error(error),
        });
        let shelf = Arc::clone(&shelf);
        // Asked when the stream has ended. That kept samples were read again is no end of an epoch.
        let end = async move { (!again).then(|| Item::End(shelf.samples())) };
        items.chain(stream::once(end).filter_map(std::future::ready))
    })
}
