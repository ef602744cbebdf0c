//! [`DistributedSampler`]: which rank reads which loose file.

use super::epoch_order::{EpochOrder, Order, Tail};
use crate::error::{Error, Result};
use crate::topology::Rank;

/// Deals the numbers `0..len` out to ranks: number `i` of an epoch's order goes to rank `i mod R`. Works as PyTorch's sampler of
/// the same name: permuted by (seed, epoch) or not, padded from the head to the same number for each rank or cut to it. (The permutation itself is ours.)
///
/// ```
/// use shardstream::shard::DistributedSampler;
/// use shardstream::topology::Rank;
/// let mut sampler = DistributedSampler::new(5, Rank::new(1, 2)?)?.in_order();
/// assert_eq!(sampler.iter().collect::<Vec<_>>(), [1, 3, 0]);
/// sampler = sampler.drop_last();
/// assert_eq!(sampler.iter().collect::<Vec<_>>(), [1, 3]);
/// sampler.set_epoch(1);
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DistributedSampler {
    len: u64,
    rank: Rank,
    seed: u64,
    epoch: u64,
    shuffle: bool,
    tail: Tail,
}

impl DistributedSampler {
    /// For `len` things, shuffled with seed 0, padded.
    ///
    /// # Errors
    /// If there is nothing to deal out, or more than can be padded.
    pub fn new(len: usize, rank: Rank) -> Result<Self> {
        let len = len as u64;
        if len == 0 {
            return Err(Error::config("a sampler of nothing"));
        }
        if len > u64::MAX - u64::from(rank.world_size()) {
            return Err(Error::config("more than can be counted"));
        }
        Ok(Self { len, rank, seed: 0, epoch: 0, shuffle: true, tail: Tail::Pad })
    }

    /// The seed of the permutation.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Leaves things in their order.
    #[must_use]
    pub const fn in_order(mut self) -> Self {
        self.shuffle = false;
        self
    }

    /// Leaves out what does not fill a round of the ranks, in place of repeating the first ones.
    #[must_use]
    pub const fn drop_last(mut self) -> Self {
        self.tail = Tail::Drop;
        self
    }

    /// Goes to another epoch, with another permutation.
    pub const fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The rank it deals to.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// The seed that was given.
    #[must_use]
    pub const fn seed_given(&self) -> u64 {
        self.seed
    }

    /// How many each rank gets.
    #[must_use]
    pub const fn len(&self) -> u64 {
        let ranks = self.rank.world_size() as u64;
        match self.tail {
            Tail::Drop => self.len / ranks,
            Tail::Pad | Tail::Uneven => self.len.div_ceil(ranks),
        }
    }

    /// Whether ranks get nothing: there are fewer things than ranks, and what does not fill a round is left out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What this rank gets in this epoch: the numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Send + use<> {
        self.places().map(|(_, number, _)| number)
    }

    /// Place in the order over all ranks, number, and whether padding repeats it.
    pub fn places(&self) -> impl Iterator<Item = (u64, usize, bool)> + Send + use<> {
        let order = if self.shuffle { Order::Shuffled { seed: self.seed } } else { Order::Listed };
        // Checked when the sampler was made: there are ranks, and what is padded can be counted.
        let order =
            EpochOrder::new(order, self.tail, self.len, self.rank.world_size(), self.epoch, 0).ok();
        let rank = self.rank.rank();
        order.into_iter().flat_map(move |order| {
            order.places_of(rank).map(move |place| {
                let (number, repeat) = order.shard_at(place);
                (place, number as usize, repeat)
            })
        })
    }
}
