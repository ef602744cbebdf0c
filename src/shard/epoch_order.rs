//! Which shard stands at which place of an epoch: [`Order`], [`Tail`], [`EpochOrder`]. Pure, computed place by place.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pid_order::PidOrder;
use crate::error::{Error, Result};
use crate::random::{Permutation, Rng, hash_bytes};
use crate::topology::lane_of_place;

/// What is kept for each lane must fit into memory.
const MAX_LANES: u32 = 1 << 24;

/// How the shards of an epoch are ordered before they are dealt out to the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Order {
    /// As the manifest lists them, in every epoch.
    Listed,
    /// Permuted by (seed, epoch, source), so that who reads what changes with every epoch.
    Shuffled {
        /// The seed.
        seed: u64,
    },
    /// A shard is drawn for each place by (seed, epoch, source, place), with replacement: in an epoch some come twice, some not
    /// at all.
    Resampled {
        /// The seed.
        seed: u64,
    },
    /// As PiD's finite mode orders them, bit for bit, the same in every epoch. With its parallel-sync distributor the ranks are
    /// the data-parallel groups.
    Pid {
        /// How many ranks (or groups) the run has.
        world_size: u32,
        /// How many workers each has; lanes are ranks times workers.
        num_workers: u32,
        /// Whether each worker's list is shuffled.
        shuffle: bool,
    },
}

/// What happens to the last shards when they don't fill a round of the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    /// The round is filled with shards from the head of the order, which are read twice.
    #[default]
    Pad,
    /// The round is left out: its shards are not read in this epoch.
    Drop,
    /// Some lanes get a shard more than others.
    Uneven,
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pad => "pad",
            Self::Drop => "drop",
            Self::Uneven => "uneven",
        })
    }
}

/// Which shard stands at which place of one epoch. The shard at place `p` belongs to lane `p mod lanes`.
///
/// ```
/// use shardstream::shard::{EpochOrder, Order, Tail};
/// let epoch = EpochOrder::new(Order::Shuffled { seed: 7 }, Tail::Pad, 10, 4, 0, 0)?;
/// assert_eq!(epoch.places(), 12);
/// assert_eq!(epoch.shard_at(11), (epoch.shard_at(1).0, true));
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EpochOrder {
    shards: u64,
    lanes: u32,
    places: u64,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Listed,
    Shuffled(Permutation),
    Resampled([u64; 4]),
    Pid(PidOrder),
}

impl EpochOrder {
    /// The order of `epoch` for `shards` shards (those of the data set number `source`) on `lanes` lanes.
    ///
    /// # Errors
    /// If there are no lanes or too many, `Order::Pid` is given other than ranks times workers of them, or more places than can be counted.
    pub fn new(
        order: Order,
        tail: Tail,
        shards: u64,
        lanes: u32,
        epoch: u64,
        source: u16,
    ) -> Result<Self> {
        if lanes == 0 || lanes > MAX_LANES {
            return Err(Error::config(format!("{lanes} lanes: there are from 1 to {MAX_LANES}")));
        }
        let rounds = match tail {
            Tail::Pad => shards.div_ceil(lanes.into()),
            Tail::Drop | Tail::Uneven => shards / u64::from(lanes),
        };
        let places =
            if tail == Tail::Uneven { Some(shards) } else { rounds.checked_mul(lanes.into()) };
        let places = places.ok_or_else(|| Error::config("more places than can be counted"))?;
        let source = u64::from(source);
        let rule = match order {
            Order::Listed => Rule::Listed,
            Order::Shuffled { seed } => Rule::Shuffled(Permutation::keyed(
                shards,
                &[seed, hash_bytes(b"shards"), epoch, source],
            )),
            Order::Resampled { seed } => {
                Rule::Resampled([seed, hash_bytes(b"resampled"), epoch, source])
            }
            Order::Pid { world_size, num_workers, shuffle } => {
                Rule::Pid(PidOrder::new(world_size, num_workers, shuffle, places, lanes)?)
            }
        };
        Ok(Self { shards, lanes, places, rule })
    }

    /// How many shards there are.
    #[must_use]
    pub const fn shards(&self) -> u64 {
        self.shards
    }

    /// How many lanes there are.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// How many places the epoch has, over all lanes: the shards, and what the tail policy adds or takes away.
    #[must_use]
    pub const fn places(&self) -> u64 {
        self.places
    }

    /// The shard at a place, and whether padding repeats it there.
    ///
    /// # Panics
    /// If `place` is not below [`EpochOrder::places`].
    #[must_use]
    pub fn shard_at(&self, place: u64) -> (u64, bool) {
        assert!(place < self.places, "place {place} of {}", self.places);
        let place = match &self.rule {
            Rule::Pid(order) => order.listed_place(place),
            _ => place,
        };
        // Places behind the last shard start again at the head.
        let (head, repeat) = (place % self.shards, place >= self.shards);
        match &self.rule {
            Rule::Listed | Rule::Pid(_) => (head, repeat),
            Rule::Shuffled(permutation) => (permutation.get(head), repeat),
            Rule::Resampled([seed, stage, epoch, source]) => {
                (Rng::keyed(&[*seed, *stage, *epoch, *source, place]).below(self.shards), false)
            }
        }
    }

    /// The lane of a place.
    #[must_use]
    pub const fn lane_of(&self, place: u64) -> u32 {
        lane_of_place(place, self.lanes)
    }

    /// The places of a lane, in order.
    pub fn places_of(&self, lane: u32) -> impl Iterator<Item = u64> + Clone + Send + use<> {
        (u64::from(lane)..self.places).step_by(self.lanes as usize)
    }

    /// The shards that are not read in this epoch because the tail is dropped.
    pub fn dropped(&self) -> impl Iterator<Item = u64> + '_ {
        (self.places..self.shards).map(|place| match &self.rule {
            Rule::Shuffled(permutation) => permutation.get(place),
            _ => place,
        })
    }
}
