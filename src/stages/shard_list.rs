//! `shard_list`: the source of a chain.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use futures::Stream;
use futures::stream::FusedStream;

use crate::error::Result;
use crate::memory::LaneMemory;
use crate::progress::SourceProgress;
use crate::recipe;
use crate::shard::{Context, EpochOrder, Manifest, Order, Round, Shard, Tail};
use crate::topology::{Rank, Worker, places_of_lane};

/// The shards of a manifest in its order, as rank 0 of 1, in epoch 0 with seed 0, until told otherwise.
///
/// `shuffle_shards`, `split_by_rank` and `split_by_worker` on this type compute places and skip what belongs to others without
/// looking at it, so that a million shards cost nothing.
///
/// Order: as listed, or permuted by (seed, epoch). Memory: constant.
///
/// # Examples
/// ```
/// use futures::TryStreamExt;
/// use shardstream::prelude::*;
/// # tokio_test::block_on(async {
/// let manifest = Manifest::of_shards(["a.tar", "b.tar", "c.tar"])?;
/// let mine = shard_list(&manifest).rank(Rank::new(1, 2)?).tail(Tail::Uneven).split_by_rank();
/// let paths: Vec<_> = mine.map_ok(|shard| shard.path).try_collect().await?;
/// assert_eq!(paths, ["b.tar"]);
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
pub fn shard_list(manifest: &Manifest) -> ShardList {
    ShardList {
        manifest: manifest.clone(),
        shards: 0..manifest.len(),
        context: Context { lanes: 1, ..Context::default() },
        rank: Rank::SINGLE,
        worker: Worker::SINGLE,
        lane: None,
        order: None,
        by_rank: false,
        by_worker: false,
        tail: Tail::default(),
        repeat: false,
        run: None,
    }
}

/// Stream for [`shard_list`].
#[must_use = "streams do nothing unless polled"]
#[derive(Clone)]
pub struct ShardList {
    manifest: Manifest,
    /// Which shards of the manifest.
    shards: Range<u64>,
    context: Context,
    rank: Rank,
    worker: Worker,
    /// Set by a loader: which lane of how many this list is for, in place of rank and worker.
    lane: Option<(u32, u32)>,
    /// As listed, unless told otherwise.
    order: Option<Order>,
    by_rank: bool,
    by_worker: bool,
    tail: Tail,
    repeat: bool,
    run: Option<Run>,
}

/// What is fixed at the first poll.
#[derive(Clone)]
struct Run {
    context: Arc<Context>,
    /// Of the round in which the next place is.
    order: EpochOrder,
    round: u64,
    next: u64,
    step: u64,
    first: Option<u64>,
}

impl Run {
    /// The round of the next place, and the place inside it: each round the lane has as many shards, and its places go on counting.
    fn inside(&self) -> (u64, u64) {
        let Some(round) = &self.context.round else { return (0, self.next) };
        let (number, lane) = (self.next / self.step, self.next % self.step);
        (number / round.shards, number % round.shards * self.step + lane)
    }
}

impl fmt::Debug for ShardList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardList")
            .field("shards", &self.manifest.len())
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl ShardList {
    /// Seed of the run: it decides the order of shards and samples, and every random choice.
    pub fn seed(mut self, seed: u64) -> Self {
        self.context.seed = seed;
        if let Some(Order::Shuffled { seed: old }) = &mut self.order {
            *old = seed;
        }
        self
    }

    /// Pass over the data, from 0. Every epoch has an order of its own.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.context.epoch = epoch;
        self
    }

    /// The rank for which [`split_by_rank`](Self::split_by_rank) keeps shards.
    pub fn rank(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    /// The worker for which [`split_by_worker`](Self::split_by_worker) keeps shards.
    pub fn worker(mut self, worker: Worker) -> Self {
        self.worker = worker;
        self
    }

    /// What happens when the shards can't be dealt out evenly.
    pub fn tail(mut self, tail: Tail) -> Self {
        self.tail = tail;
        self
    }

    /// Continues where a run stopped: only what is still owed is read.
    pub fn resume(mut self, progress: SourceProgress) -> Self {
        self.context.progress = Some(Arc::new(progress));
        self
    }

    /// Makes this the list of one lane, whatever rank and worker run it.
    pub(crate) fn for_lane(mut self, lane: u32, lanes: u32) -> Self {
        self.lane = Some((lane, lanes));
        self
    }

    /// Counts what is held of its shards there.
    pub(crate) fn counted(mut self, memory: Option<&Arc<LaneMemory>>) -> Self {
        self.context.memory = memory.cloned();
        self
    }

    /// Keeps only the shards of one source (a data set of the manifest), which gets an order, ordinals and progress of its own.
    pub(crate) fn for_source(mut self, source: u16, shards: Range<u64>) -> Self {
        self.context.source = source;
        self.shards = shards;
        self
    }

    /// Permutes the shards by (seed, epoch), before any split.
    ///
    /// Order: a keyed bijection, computed place by place. Memory: constant.
    ///
    /// # Resuming
    /// Nothing to do: the order of an epoch is a function of seed and epoch.
    pub fn shuffle_shards(mut self) -> Self {
        recipe::note(|| "shuffle_shards".into());
        self.order = Some(Order::Shuffled { seed: self.context.seed });
        self
    }

    /// Orders the shards in another way: drawn with replacement, or as `PiD` does.
    ///
    /// # Resuming
    /// Nothing to do: every [`Order`] is a function of the place.
    pub fn order(mut self, order: Order) -> Self {
        recipe::note(|| format!("order({order:?})"));
        self.order = Some(order);
        self
    }

    /// Begins again behind the last shard, with the order of the next epoch, and so on without end: for sources of a
    /// [`mix()`](super::mix()) that never ends, in a loader with [`with_epoch`](crate::loader::Builder::with_epoch). Places and ordinals go on
    /// counting. Shards without end of which none has a sample end the run with an error.
    ///
    /// # Resuming
    /// Nothing to do: a place says in which round it is.
    pub fn repeat(mut self) -> Self {
        recipe::note(|| "repeat".into());
        self.repeat = true;
        self
    }

    /// Keeps the shards of this rank: every `world_size`-th place. In a loader the lane decides instead.
    pub fn split_by_rank(mut self) -> Self {
        recipe::note(|| "split_by_rank".into());
        self.by_rank = true;
        self
    }

    /// Keeps the shards of this worker: of those that the rank keeps, every `num_workers`-th. In a loader the lane decides instead.
    pub fn split_by_worker(mut self) -> Self {
        recipe::note(|| "split_by_worker".into());
        self.by_worker = true;
        self
    }

    /// Start and step of the places to keep, with the lane's number and the number of lanes.
    fn digits(&self) -> (u32, u32) {
        if let Some(lane) = self.lane {
            return lane;
        }
        let (r, world) =
            if self.by_rank { (self.rank.rank(), self.rank.world_size()) } else { (0, 1) };
        let (k, workers) =
            if self.by_worker { (self.worker.worker(), self.worker.num_workers()) } else { (0, 1) };
        (r + world * k, world * workers)
    }

    /// The order of a round: the epoch's own, or of one behind it.
    fn order_of(&self, round: u64) -> Result<EpochOrder> {
        let shards = self.shards.end - self.shards.start;
        let order = self.order.unwrap_or(Order::Listed);
        let (_, lanes) = self.digits();
        let Context { epoch, source, .. } = self.context;
        EpochOrder::new(order, self.tail, shards, lanes, epoch.saturating_add(round), source)
    }

    fn start(&self) -> Result<Run> {
        let (lane, lanes) = self.digits();
        let order = self.order_of(0)?;
        let shards = places_of_lane(order.places(), lane, lanes);
        let round = (self.repeat && shards > 0).then(|| Arc::new(Round::new(shards)));
        let context = Arc::new(Context { lane, lanes, round, ..self.context.clone() });
        let (mut next, step) = (u64::from(lane), u64::from(lanes));
        let mut first = Some(0);
        // Settled shards are not opened: begin at the first that may owe something.
        if let Some(progress) = &context.progress {
            (next, first) = progress.start(next, step);
        }
        Ok(Run { context, order, round: 0, next, step, first })
    }
}

impl Stream for ShardList {
    type Item = Result<Shard>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.run.is_none() {
            match this.start() {
                Ok(run) => this.run = Some(run),
                Err(error) => {
                    // What can't work is said once, and then there are no shards.
                    this.shards = 0..0;
                    this.order = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        loop {
            let Some(run) = &mut this.run else { return Poll::Ready(None) };
            if let Some(progress) = run.context.progress.as_ref().filter(|p| p.only.is_some()) {
                // An epoch that has ended: on to the next shard that holds what it has kept.
                let at = progress.shards.partition_point(|shard| shard.place < run.next);
                run.next = progress.shards.get(at).map_or(u64::MAX, |shard| shard.place);
                if run.next == u64::MAX {
                    return Poll::Ready(None);
                }
            }
            let place = run.next;
            let (round, inside) = run.inside();
            if round != run.round {
                let order = this.order_of(round)?;
                let Some(run) = &mut this.run else { return Poll::Ready(None) };
                (run.order, run.round) = (order, round);
                continue;
            }
            if inside >= run.order.places() {
                return Poll::Ready(None);
            }
            run.next += run.step;
            let (number, repeat) = run.order.shard_at(inside);
            let number = this.shards.start + number;
            let samples = this.manifest.samples(number);
            let state = run.context.progress.as_ref().and_then(|p| p.shard(place).copied());
            let first = state.map(|s| s.first).or(run.first);
            // Counts fix where the next shard begins; so does what the run has seen of this one.
            run.first =
                first.and_then(|first| Some(first + samples.or(state.and_then(|s| s.end))?));
            if let (Some(progress), Some(state)) = (&run.context.progress, &state)
                && progress.is_settled(state)
            {
                continue;
            }
            let context = Arc::clone(&run.context);
            let leaf = Arc::clone(this.manifest.leaf(number));
            let path = this.manifest.path(number);
            return Poll::Ready(Some(Ok(Shard {
                context,
                place,
                path,
                leaf,
                samples,
                partial: false,
                passed: 0,
                repeat,
                state,
                first,
                stride: 1,
            })));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let Some(run) = self.run.clone().map_or_else(|| self.start().ok(), Some) else {
            return (0, None);
        };
        if run.context.round.is_some() {
            return (usize::MAX, None);
        }
        let left = run.order.places().saturating_sub(run.next).div_ceil(run.step);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        // After a resume some of them may be settled.
        (if run.context.progress.is_some() { 0 } else { left }, Some(left))
    }
}

impl FusedStream for ShardList {
    fn is_terminated(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.context.round.is_none() && run.next >= run.order.places())
    }
}
