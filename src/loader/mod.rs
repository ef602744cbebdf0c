//! [`Loader`]: runs a recipe on every lane of a rank, hands out batches in an order that depends on nothing but the data, and can say
//! at any moment what is settled.

mod builder;
mod epoch;
mod lane;
mod legacy;
mod on_error;
mod stats;
#[cfg(feature = "cli")]
pub(crate) mod travel;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::stream::{BoxStream, FusedStream, Stream};

pub use builder::Builder;
pub use epoch::Epoch;
pub use lane::Lane;
pub use on_error::OnError;
pub use stats::Stats;

use crate::checkpoint::{Checkpoint, Identity};
use crate::error::{Error, Result, Scope};
use crate::memory::LaneMemory;
use crate::progress::LaneProgress;
use crate::sample::Heads;
use crate::shard::{Manifest, Tail};
use crate::stages::Pump;

/// A lane that rolls over gives up after so many epochs in a row without a batch: it would go round for ever.
const EMPTY_ROUNDS: u32 = 100;

/// Builds the stream of a lane.
type Recipe<B> = dyn Fn(&Lane) -> BoxStream<'static, Result<B>> + Send + Sync;

/// Batches of a run. See [`Loader::builder`].
///
/// Each lane runs in a task of its own, some batches ahead; the loader takes one batch from each of its lanes in turn and passes over a
/// lane that has ended. As a `Stream` it yields the batches of all epochs; [`epoch`](Self::epoch) yields those of one.
///
/// Order: a function of manifest, seed, epoch, number of lanes and recipe. Memory: for each lane the batches ahead, and what the stages hold.
///
/// # Cancel safety
/// A future of `next` that is dropped loses nothing. Dropping the loader ends all its tasks.
pub struct Loader<B> {
    lanes: Vec<LaneRun<B>>,
    identity: Identity,
    manifest: Manifest,
    on_error: OnError,
    /// One past the last epoch; `None` for ever.
    epochs: Option<u64>,
    /// Batches in a rank's epoch, where lanes roll over into the next one on their own.
    with_epoch: Option<u64>,
    batch: Option<(usize, bool)>,
    tail: Tail,
    epoch: u64,
    stats: Stats,
    /// Since when the trainer has been waiting.
    waiting: Option<Instant>,
    first_skip: Option<String>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// An epoch's last batch is out; the next poll begins the next one.
    Between,
    Ended,
}

/// A lane of this rank.
struct LaneRun<B> {
    id: u32,
    pump: Pump<lane::Item<B>>,
    progress: LaneProgress,
    memory: Option<Arc<LaneMemory>>,
    /// Epochs in a row that gave nothing, where lanes roll over on their own.
    empty_rounds: u32,
    /// Place of the first sample that was skipped since the last batch.
    skipping_since: Option<u64>,
}

/// What the loader has to say next.
enum Step<B> {
    Batch(B),
    EpochEnd,
}

impl<B> fmt::Debug for Loader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("epoch", &self.epoch)
            .field("lanes", &self.lanes.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<B: Heads + Send + 'static> Loader<B> {
    /// A loader to be: `recipe` builds the chain of one lane.
    ///
    /// # Examples
    /// ```
    /// use futures::TryStreamExt;
    /// use shardstream::prelude::*;
    /// use shardstream::testing;
    /// # tokio_test::block_on(async {
    /// // Four shards of ten samples, in memory.
    /// let (manifest, store) = testing::shards(4, 10);
    /// let recipe = move |lane: &Lane| {
    ///     let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
    ///     shards.open_twins(store.clone()).expand().group_by_keys().shuffle(20).batch(8)
    /// };
    /// let mut loader = Loader::builder(&manifest, recipe.clone()).seed(7).workers(2).start()?;
    /// let first = loader.try_next().await?;
    /// let checkpoint = loader.checkpoint();
    /// let due: Vec<_> = loader.map_ok(|batch| batch.heads[0].key.clone()).try_collect().await?;
    ///
    /// let loader = Loader::builder(&manifest, recipe).workers(1).resume([checkpoint])?;
    /// let rest: Vec<_> = loader.map_ok(|batch| batch.heads[0].key.clone()).try_collect().await?;
    /// assert_eq!(rest, due);
    /// # Ok::<(), shardstream::Error>(()) }).unwrap();
    /// ```
    pub fn builder<S>(
        manifest: &Manifest,
        recipe: impl Fn(&Lane) -> S + Send + Sync + 'static,
    ) -> Builder<B>
    where
        S: Stream<Item = Result<B>> + Send + 'static,
    {
        Builder::new(manifest, recipe)
    }

    /// What is settled of this rank's lanes, to be continued from in another process, by any number of ranks and workers together with
    /// the parts of the other ranks. Take it between two batches, when the trainer has finished with the last one.
    ///
    /// Costs microseconds, and waits for nobody.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let lanes = self.lanes.iter().map(|lane| (lane.id, lane.progress.clone())).collect();
        Checkpoint::new(self.identity.clone(), lanes)
    }

    /// The epoch of the batch that comes next.
    #[must_use]
    pub const fn current_epoch(&self) -> u64 {
        self.epoch
    }

    /// Counters, and how long the trainer has waited.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes that count for [`Builder::memory`] and are held now; `None` without a budget.
    #[must_use]
    pub fn memory_held(&self) -> Option<u64> {
        self.lanes.iter().map(|lane| lane.memory.as_ref().map(|memory| memory.held())).sum()
    }

    /// Lane and number in the lane's epoch of the batch handed out last by a lane: `(lane, batches so far)`.
    pub fn lanes(&self) -> impl Iterator<Item = (u32, &LaneProgress)> {
        self.lanes.iter().map(|lane| (lane.id, &lane.progress))
    }

    /// The batches of the current epoch, or of the next one if it has ended; `None` after the last. Drop it in the middle and call again to go on.
    pub fn epoch(&mut self) -> Option<Epoch<'_, B>> {
        if self.state == State::Between {
            self.begin_epoch();
        }
        (self.state == State::Running).then_some(Epoch { loader: self })
    }

    /// Steps of this rank in an epoch, if they are known before the first batch: where `with_epoch` says so, or the manifest has counts
    /// and the recipe makes batches. Samples that are skipped or filtered out make them fewer.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A length that may be unknown.
    pub fn len(&self) -> Option<u64> {
        self.with_epoch.or_else(|| {
            let (size, drop_last) = self.batch?;
            let size = size as u64;
            let steps =
                |samples: u64| if drop_last { samples / size } else { samples.div_ceil(size) };
            let order = self.identity.epoch_order(&self.manifest, self.tail, self.epoch)?;
            let samples = |lane| {
                order
                    .places_of(lane)
                    .map(|place| self.manifest.samples(order.shard_at(place).0))
                    .sum::<Option<u64>>()
            };
            self.lanes.iter().map(|lane| samples(lane.id).map(steps)).sum()
        })
    }

    /// Whose turn it is: the lane that has handed out the fewest batches, the first of them. A lane that another rank had brought into
    /// a later epoch waits for the others.
    fn turn(&self) -> Option<usize> {
        let here = |lane: &LaneProgress| self.with_epoch.is_some() || lane.epoch == self.epoch;
        let running = |lane: &LaneProgress| !lane.ended && here(lane);
        let running = self.lanes.iter().enumerate().filter(|(_, lane)| running(&lane.progress));
        running.min_by_key(|(_, lane)| (lane.progress.turns, lane.id)).map(|(at, _)| at)
    }

    fn begin_epoch(&mut self) {
        self.state = State::Running;
        if self.with_epoch.is_none() {
            for progress in self.lanes.iter_mut().map(|lane| &mut lane.progress) {
                if progress.epoch < self.epoch {
                    progress.begin(self.epoch);
                }
            }
        }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Step<B>>>> {
        loop {
            match self.state {
                State::Ended => return Poll::Ready(None),
                State::Between => self.begin_epoch(),
                State::Running => {}
            }
            let Some(at) = self.turn() else {
                return Poll::Ready(Some(self.end_epoch()));
            };
            let lane = &mut self.lanes[at];
            let item = Pin::new(&mut lane.pump).poll_next(cx);
            if let Some(memory) = &lane.memory {
                memory.set_awaited(item.is_pending());
            }
            match ready!(item) {
                Some(lane::Item::Batch(batch)) => {
                    if let Err(error) =
                        settle(&mut lane.progress, &batch, self.identity.lanes, &mut self.stats)
                    {
                        self.state = State::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                    lane.empty_rounds = 0;
                    lane.skipping_since = None;
                    if self.with_epoch.is_some_and(|n| {
                        self.lanes.iter().map(|lane| lane.progress.turns).sum::<u64>() % n == 0
                    }) {
                        self.epoch += 1;
                        self.state = if self.epochs.is_some_and(|end| self.epoch >= end) {
                            State::Ended
                        } else {
                            State::Between
                        };
                    }
                    return Poll::Ready(Some(Ok(Step::Batch(batch))));
                }
                Some(lane::Item::Error(error)) => {
                    if let Some(error) = self.skip_or_stop(at, error) {
                        self.state = State::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Some(lane::Item::End(kept)) => {
                    let (lost, epoch) = (lane.progress.end(&kept), lane.progress.epoch);
                    if lost > 0 {
                        tracing::warn!(
                            "lane {}: {lost} samples that were kept for epoch {epoch} have not come",
                            lane.id
                        );
                    }
                    if self.with_epoch.is_some() {
                        let turns = lane.progress.turns;
                        lane.progress.begin(lane.progress.epoch + 1);
                        lane.progress.turns = turns;
                        lane.empty_rounds += 1;
                        if lane.empty_rounds > EMPTY_ROUNDS {
                            self.state = State::Ended;
                            return Poll::Ready(Some(Err(self.nothing_came())));
                        }
                    }
                }
                None => lane.progress.ended = true,
            }
        }
    }

    /// All lanes have ended.
    fn end_epoch(&mut self) -> Result<Step<B>> {
        let settled = |what: fn(&crate::progress::SourceProgress) -> u64| -> u64 {
            self.lanes.iter().flat_map(|lane| &lane.progress.sources).map(what).sum()
        };
        let passed_on = |lane: &LaneProgress| {
            lane.late.delivered + lane.kept.as_ref().map_or(0, crate::progress::Kept::count)
        };
        let passed_on: u64 = self.lanes.iter().map(|lane| passed_on(&lane.progress)).sum();
        let nothing = settled(|s| s.delivered) + passed_on == 0 && settled(|s| s.skipped) > 0;
        self.epoch += 1;
        if nothing && !matches!(self.on_error, OnError::Stop) && self.stats.faults > 0 {
            self.state = State::Ended;
            return Err(self.nothing_came());
        }
        self.state = if self.epochs.is_some_and(|end| self.epoch >= end) {
            State::Ended
        } else {
            State::Between
        };
        Ok(Step::EpochEnd)
    }

    fn nothing_came(&self) -> Error {
        let first = self.first_skip.as_deref().unwrap_or("no shard had a sample");
        Error::config(format!("no sample came out of a whole epoch; the first fault was: {first}"))
    }

    /// Decides about an error; `None` if it is skipped.
    fn skip_or_stop(&mut self, at: usize, error: Error) -> Option<Error> {
        let filtered = error.is_filtered();
        if !filtered {
            let skipped = self.stats.faults + 1;
            if error.scope() == Scope::Run || !self.on_error.allows(skipped, self.stats.samples) {
                return Some(match self.on_error {
                    OnError::Skip { at_most, .. } if error.scope() != Scope::Run => {
                        Error::config(format!("{skipped} faults in {} samples are more than the share of {at_most} that may be skipped; the last one", self.stats.samples))
                            .with_source(error)
                    }
                    _ => error,
                });
            }
            self.stats.faults = skipped;
            tracing::warn!("skipped: {error}");
            self.first_skip.get_or_insert_with(|| error.to_string());
        } else {
            self.stats.filtered += 1;
        }
        if let Some((position, mark)) = error.mark() {
            let (lanes, rest) = (self.identity.lanes, error.scope() != Scope::Sample);
            let progress = &mut self.lanes[at].progress;
            if progress.late_epoch() == Some(position.epoch) {
                progress.skip_late(&position, rest, &error.reason());
                return None;
            }
            match progress.source(position.source) {
                Ok(source) => {
                    source.skip(&position, &mark, rest, &error.reason());
                    source.raise(mark.floor, lanes.into());
                }
                Err(error) => return Some(error),
            }
            // A list that is repeated without end has no epoch's end at which this would show.
            let since = *self.lanes[at].skipping_since.get_or_insert(position.place);
            let round = self.manifest.len().max(lanes.into());
            if position.place.saturating_sub(since) > round.saturating_mul(EMPTY_ROUNDS.into()) {
                return Some(self.nothing_came());
            }
        }
        None
    }
}

/// Settles what is handed out.
fn settle(
    progress: &mut LaneProgress,
    batch: &impl Heads,
    lanes: u32,
    stats: &mut Stats,
) -> Result<()> {
    let late = progress.late_epoch();
    for head in batch.heads() {
        stats.samples += 1;
        stats.repeated += u64::from(head.origin.repeat);
        if late == Some(head.origin.epoch) {
            progress.deliver_late(&head.position());
            continue;
        }
        let source = progress.source(head.origin.source)?;
        if source.settle(&head.position(), &head.mark) {
            source.delivered += 1;
            source.repeated += u64::from(head.origin.repeat);
        }
    }
    // Only now: an item's floor holds once it and all in front of it are settled. Those of an earlier epoch have none.
    for head in batch.heads().iter().filter(|head| late != Some(head.origin.epoch)) {
        progress.source(head.origin.source)?.raise(head.mark.floor, lanes.into());
    }
    progress.batches += 1;
    progress.turns += 1;
    stats.batches += 1;
    Ok(())
}

impl<B: Heads + Send + 'static> Loader<B> {
    /// The next step, with the time that the trainer waits for it.
    fn poll_timed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Step<B>>>> {
        let step = self.poll_step(cx);
        match &step {
            Poll::Pending => {
                self.waiting.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => {
                if let Some(since) = self.waiting.take() {
                    self.stats.waited += since.elapsed();
                }
            }
        }
        step
    }
}

impl<B: Heads + Send + 'static> Stream for Loader<B> {
    type Item = Result<B>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.poll_timed(cx)) {
                Some(Ok(Step::Batch(batch))) => return Poll::Ready(Some(Ok(batch))),
                Some(Ok(Step::EpochEnd)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<B: Heads + Send + 'static> FusedStream for Loader<B> {
    fn is_terminated(&self) -> bool {
        self.state == State::Ended
    }
}

impl<B> Unpin for Loader<B> {}
