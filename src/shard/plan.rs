//! [`Plan`]: what an epoch will be, before anything is read: who reads which shard, and whether all ranks end at the same step.

use super::epoch_order::{EpochOrder, Order, Tail};
use super::manifest::Manifest;
use crate::error::{Error, Result};
use crate::topology::{Rank, Worker, places_of_lane};

/// What a [`Plan`] is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanParams {
    /// How many ranks there are.
    pub world_size: u32,
    /// How many workers each of them has.
    pub num_workers: u32,
    /// How many lanes; ranks times workers if not given.
    pub lanes: Option<u32>,
    /// How shards are ordered.
    pub order: Order,
    /// What happens to the last shards.
    pub tail: Tail,
    /// The epoch.
    pub epoch: u64,
    /// Samples in a batch.
    pub batch: Option<u64>,
    /// Whether a lane's last batch is left out if it is short.
    pub drop_last: bool,
    /// Steps in an epoch, if they are fixed (`with_epoch`) and so the same for all ranks.
    pub steps: Option<u64>,
    /// Allows that ranks end at different steps.
    pub allow_uneven: bool,
}

impl PlanParams {
    /// For `world_size` ranks with `num_workers` workers: shuffled with seed 0, padded, epoch 0.
    #[must_use]
    pub const fn new(world_size: u32, num_workers: u32) -> Self {
        Self {
            world_size,
            num_workers,
            lanes: None,
            order: Order::Shuffled { seed: 0 },
            tail: Tail::Pad,
            epoch: 0,
            batch: None,
            drop_last: false,
            steps: None,
            allow_uneven: false,
        }
    }
}

/// Who reads which shard in an epoch, and how far everybody gets. Pure: two processes that ask the same get the same.
///
/// ```
/// use shardstream::shard::{Manifest, Order, Plan, PlanParams};
/// use shardstream::topology::{Rank, Worker};
/// let manifest = Manifest::of_pattern("{0..4}.tar", Some(10))?;
/// let mut params = PlanParams::new(2, 1);
/// params.order = Order::Listed;
/// params.batch = Some(4);
/// let plan = Plan::new(&manifest, params)?;
/// let shards: Vec<u64> = plan.shards(Rank::new(1, 2)?, Worker::SINGLE).map(|planned| planned.shard).collect();
/// assert_eq!(shards, [1, 3, 0]); // the last one repeats the first shard
/// assert_eq!(plan.steps(), Some(8));
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    params: PlanParams,
    order: EpochOrder,
    lanes: Vec<Share>,
    uneven: Vec<String>,
}

/// One place of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// The place in the epoch's order.
    pub place: u64,
    /// The shard that stands there.
    pub shard: u64,
    /// Whether it is padding.
    pub repeat: bool,
}

/// What a lane, a worker or a rank gets in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Share {
    /// Shards, those that are repeated included.
    pub shards: u64,
    /// Shards that are repeated.
    pub repeats: u64,
    /// Samples, if the manifest counts them.
    pub samples: Option<u64>,
    /// Batches, if samples and batch size are known.
    pub steps: Option<u64>,
}

impl Share {
    const NOTHING: Self = Self { shards: 0, repeats: 0, samples: Some(0), steps: Some(0) };

    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a?.checked_add(b?);
        Self {
            shards: self.shards + other.shards,
            repeats: self.repeats + other.repeats,
            samples: sum(self.samples, other.samples),
            steps: sum(self.steps, other.steps),
        }
    }
}

impl Plan {
    /// Plans an epoch.
    ///
    /// # Errors
    /// If nothing is left to read, or ranks could end at different steps and that is not allowed; the error says why and what
    /// would help.
    pub fn new(manifest: &Manifest, params: PlanParams) -> Result<Self> {
        let PlanParams { world_size, num_workers, .. } = params;
        let (_, _) = (Rank::new(0, world_size)?, Worker::new(0, num_workers)?);
        let lanes = match params.lanes {
            Some(lanes) => lanes,
            None => world_size.checked_mul(num_workers).ok_or_else(|| {
                Error::config(format!("{world_size} ranks with {num_workers} workers are too many"))
            })?,
        };
        if lanes < world_size {
            return Err(Error::config(format!(
                "{lanes} lanes for {world_size} ranks: a rank without a lane has nothing to read"
            )));
        }
        let order =
            EpochOrder::new(params.order, params.tail, manifest.len(), lanes, params.epoch, 0)?;
        if order.places() == 0 {
            return Err(Error::config(format!(
                "{} shards for {lanes} lanes and tail drop: nothing is left to read; take fewer ranks or workers, more and smaller \
                 shards, or tail pad",
                manifest.len()
            )));
        }
        let mut plan = Self { params, order, lanes: Vec::new(), uneven: Vec::new() };
        plan.lanes = (0..lanes).map(|lane| plan.share(manifest, lane)).collect();
        plan.uneven = plan.find_uneven();
        if let Some(reason) = plan.uneven.first().filter(|_| !plan.params.allow_uneven) {
            return Err(Error::config(format!(
                "ranks could end at different steps: {reason}; fix the steps of an epoch, or allow uneven ranks"
            )));
        }
        Ok(plan)
    }

    /// What one lane gets.
    fn share(&self, manifest: &Manifest, lane: u32) -> Share {
        let (places, lanes) = (self.order.places(), self.order.lanes());
        let shards = places_of_lane(places, lane, lanes);
        // Padding fills the last places.
        let repeats = match self.params.order {
            Order::Resampled { .. } => 0,
            _ => shards - places_of_lane(places.min(self.order.shards()), lane, lanes),
        };
        let samples = match manifest.samples_of_each() {
            Some(each) => shards.checked_mul(each),
            None if !manifest.has_counts() => None,
            None => self.order.places_of(lane).try_fold(0u64, |sum, place| {
                sum.checked_add(manifest.samples(self.order.shard_at(place).0)?)
            }),
        };
        let steps =
            samples.zip(self.params.batch.filter(|&batch| batch > 0)).map(|(samples, batch)| {
                match self.params.drop_last {
                    true => samples / batch,
                    false => samples.div_ceil(batch),
                }
            });
        Share { shards, repeats, samples, steps }
    }

    /// Why ranks could end at different steps; nothing if they can't.
    fn find_uneven(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let (ranks, lanes) = (self.params.world_size, self.order.lanes());
        if ranks == 1 || self.params.steps.is_some() {
            return reasons;
        }
        let shares: Vec<Share> =
            (0..ranks).map(|rank| self.lanes_of(rank).fold(Share::NOTHING, Share::plus)).collect();
        let span = |what: fn(&Share) -> Option<u64>| {
            let known: Option<Vec<u64>> = shares.iter().map(what).collect();
            known.and_then(|known| Some((*known.iter().min()?, *known.iter().max()?)))
        };
        if !lanes.is_multiple_of(ranks) {
            reasons.push(format!("{lanes} lanes can't be shared evenly by {ranks} ranks"));
        }
        if let Some((low, high)) =
            span(|share| Some(share.shards)).filter(|(low, high)| low != high)
        {
            let shards = self.order.shards();
            reasons.push(match shards < u64::from(lanes) {
                true => format!(
                    "{shards} shards for {lanes} lanes leave ranks with {low} to {high} shards (fewer ranks or workers, more and smaller \
                     shards, or tail pad would help)"
                ),
                false => format!("ranks get {low} to {high} shards (tail pad or drop would help)"),
            });
        }
        let differ = |(low, high): &(u64, u64)| low != high;
        match (self.params.batch, span(|share| share.steps), span(|share| share.samples)) {
            (_, _, None) => {
                reasons.push("the manifest does not count the samples of its shards".to_owned())
            }
            (Some(batch), Some(steps), _) => {
                reasons.extend(Some(steps).filter(differ).map(|(low, high)| {
                    format!("ranks take {low} to {high} steps of {batch} samples")
                }))
            }
            (_, _, Some(samples)) => reasons.extend(
                Some(samples)
                    .filter(differ)
                    .map(|(low, high)| format!("ranks read {low} to {high} samples")),
            ),
        }
        reasons
    }

    fn lanes_of(&self, rank: u32) -> impl Iterator<Item = Share> + '_ {
        (rank as usize..self.lanes.len())
            .step_by(self.params.world_size as usize)
            .map(|lane| self.lanes[lane])
    }

    /// What it was made for.
    #[must_use]
    pub const fn params(&self) -> &PlanParams {
        &self.params
    }

    /// Which shard stands where.
    #[must_use]
    pub const fn order(&self) -> &EpochOrder {
        &self.order
    }

    /// What a lane gets.
    ///
    /// # Panics
    /// If there is no such lane.
    #[must_use]
    pub fn of_lane(&self, lane: u32) -> Share {
        self.lanes[lane as usize]
    }

    /// What a rank gets; its steps are the fixed ones, if they are fixed.
    #[must_use]
    pub fn of_rank(&self, rank: Rank) -> Share {
        let share = rank
            .lanes(self.order.lanes())
            .map(|lane| self.of_lane(lane))
            .fold(Share::NOTHING, Share::plus);
        Share { steps: self.params.steps.or(share.steps), ..share }
    }

    /// What a worker gets.
    #[must_use]
    pub fn of_worker(&self, rank: Rank, worker: Worker) -> Share {
        worker
            .lanes(rank, self.order.lanes())
            .map(|lane| self.of_lane(lane))
            .fold(Share::NOTHING, Share::plus)
    }

    /// The shards of a worker, in the order of their places.
    pub fn shards(&self, rank: Rank, worker: Worker) -> impl Iterator<Item = Planned> + '_ {
        let (lanes, places) = (u64::from(self.order.lanes()), self.order.places());
        let rounds = (0..places.div_ceil(lanes)).map(move |round| round * lanes);
        rounds
            .flat_map(move |round| {
                worker.lanes(rank, self.order.lanes()).map(move |lane| round + u64::from(lane))
            })
            .filter(move |&place| place < places)
            .map(|place| {
                let (shard, repeat) = self.order.shard_at(place);
                Planned { place, shard, repeat }
            })
    }

    /// The steps of every rank, if they are known and the same.
    #[must_use]
    pub fn steps(&self) -> Option<u64> {
        let mut steps = (0..self.params.world_size).map(|rank| {
            self.params
                .steps
                .or_else(|| self.lanes_of(rank).fold(Share::NOTHING, Share::plus).steps)
        });
        let first = steps.next()??;
        steps.all(|steps| steps == Some(first)).then_some(first)
    }

    /// How many places repeat a shard that stands further up.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.repeats).sum()
    }

    /// Why ranks could end at different steps; nothing if they can't.
    #[must_use]
    pub fn uneven(&self) -> &[String] {
        &self.uneven
    }
}
