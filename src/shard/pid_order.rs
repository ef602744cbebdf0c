//! The shard order of PiD's finite mode, and its way to say where to go on.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::epoch_order::{EpochOrder, Order, Tail};
use super::manifest::Manifest;
use super::mt19937::PythonRandom;
use crate::error::{Error, Result};
use crate::topology::{places_of_lane, rank_of_lane, worker_of_lane};

/// Each worker's list is `list[r::R][k::K]`, shuffled as Python does with the seed `r * K + k`.
#[derive(Clone)]
pub(super) struct PidOrder {
    world_size: u32,
    num_workers: u32,
    places: u64,
    /// For each lane where the shards of its list come from; filled when the lane is first asked for. None without shuffling.
    shuffled: Option<Arc<[OnceLock<Vec<u32>>]>>,
}

impl PidOrder {
    pub(super) fn new(
        world_size: u32,
        num_workers: u32,
        shuffle: bool,
        places: u64,
        lanes: u32,
    ) -> Result<Self> {
        if world_size.checked_mul(num_workers) != Some(lanes) {
            return Err(Error::config(format!(
                "PiD's order of {world_size} ranks with {num_workers} workers needs as many lanes, not {lanes}"
            )));
        }
        if u32::try_from(places.div_ceil(lanes.into())).is_err() {
            return Err(Error::config("PiD's order: a worker has more than four billion shards"));
        }
        let shuffled = shuffle.then(|| (0..lanes).map(|_| OnceLock::new()).collect());
        Ok(Self { world_size, num_workers, places, shuffled })
    }

    /// The place in the order without shuffling that has the shard of this place.
    pub(super) fn listed_place(&self, place: u64) -> u64 {
        let Some(shuffled) = &self.shuffled else { return place };
        let lanes = shuffled.len() as u64;
        let (lane, turn) = (place % lanes, place / lanes);
        let list = shuffled[lane as usize]
            .get_or_init(|| self.shuffle(lane as u32, shuffled.len() as u32));
        u64::from(list[turn as usize]) * lanes + lane
    }

    fn shuffle(&self, lane: u32, lanes: u32) -> Vec<u32> {
        let rank = u64::from(rank_of_lane(lane, self.world_size));
        let worker = u64::from(worker_of_lane(lane, self.world_size, self.num_workers));
        // A lane has at most u32::MAX places, as checked.
        let mut list: Vec<u32> = (0..places_of_lane(self.places, lane, lanes) as u32).collect();
        PythonRandom::seeded(rank * u64::from(self.num_workers) + worker).shuffle(&mut list);
        list
    }
}

impl fmt::Debug for PidOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PidOrder")
            .field("world_size", &self.world_size)
            .field("num_workers", &self.num_workers)
            .finish_non_exhaustive()
    }
}

/// Where PiD would go on: the environment variables `WDS_EPOCH_NUM` and `WDS_START_INDEX`. Coarse, since it counts whole
/// shards by their mean size; a checkpoint is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LegacyStart {
    /// The epoch.
    pub epoch: u64,
    /// Samples that each rank has seen in it.
    pub start_index: u64,
}

/// What [`LegacyStart`] comes to for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LegacySkip {
    /// How many shards are left out at the head of each lane.
    pub shards_of_lane: u64,
    /// How many samples each rank sees again, by the mean size of a shard.
    pub repeated_samples: u64,
    /// That mean size.
    pub chunk_size: u64,
}

impl LegacyStart {
    /// From the environment of this process; `None` if neither variable is set.
    ///
    /// # Errors
    /// If a value is no number; the error names the variable.
    pub fn from_env() -> Result<Option<Self>> {
        Self::from_vars(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// As [`LegacyStart::from_env`], with the variables from anywhere.
    ///
    /// # Errors
    /// As [`LegacyStart::from_env`].
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let number = |name: &str| {
            var(name)
                .map(|value| {
                    value.trim().parse::<u64>().map_err(|e| {
                        Error::config(format!("{name}={value:?} is no count")).with_source(e)
                    })
                })
                .transpose()
        };
        let (epoch, start_index) = (number("WDS_EPOCH_NUM")?, number("WDS_START_INDEX")?);
        if epoch.is_none() && start_index.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { epoch: epoch.unwrap_or(0), start_index: start_index.unwrap_or(0) }))
    }

    /// What is left out of a run over a manifest, with so many lanes on so many ranks.
    ///
    /// # Errors
    /// If the manifest has several data sets, no counts or no shards, or nothing of the epoch would be left.
    pub fn of_run(
        self,
        manifest: &Manifest,
        tail: Tail,
        lanes: u32,
        ranks: u32,
    ) -> Result<LegacySkip> {
        if manifest.sources().len() > 1 {
            return Err(Error::config(
                "WDS_START_INDEX: several data sets are read, and it does not say how far each has come",
            ));
        }
        let Some(total) = manifest.total_samples() else {
            return Err(Error::config(
                "WDS_START_INDEX: the manifest does not count the samples of its shards",
            ));
        };
        let chunk_size = total.checked_div(manifest.len()).unwrap_or_default();
        let places = EpochOrder::new(Order::Listed, tail, manifest.len(), lanes, 0, 0)?.places();
        // The last lane is the shortest.
        let shards = places_of_lane(places, lanes - 1, lanes);
        self.skip(chunk_size, lanes.div_ceil(ranks.max(1)), shards)
    }

    /// What is left out, when a shard has `chunk_size` samples on average and each rank `num_workers` workers, each of them one
    /// lane of `shards_of_lane` shards.
    ///
    /// # Errors
    /// If `chunk_size` or `num_workers` is 0, or nothing of the epoch would be left.
    pub fn skip(
        self,
        chunk_size: u64,
        num_workers: u32,
        shards_of_lane: u64,
    ) -> Result<LegacySkip> {
        if chunk_size == 0 || num_workers == 0 {
            return Err(Error::config(
                "WDS_START_INDEX needs the mean number of samples in a shard, and at least one worker",
            ));
        }
        let workers = u64::from(num_workers);
        let skipped = self.start_index / chunk_size / workers;
        if skipped > 0 && skipped >= shards_of_lane {
            return Err(Error::config(format!(
                "WDS_START_INDEX={}: nothing is left of the epoch, which has {shards_of_lane} shards of about {chunk_size} samples for each of \
                 {num_workers} workers",
                self.start_index
            )));
        }
        Ok(LegacySkip {
            shards_of_lane: skipped,
            repeated_samples: self.start_index - skipped * workers * chunk_size,
            chunk_size,
        })
    }
}

impl LegacySkip {
    /// What to tell people, if anything is seen again.
    #[must_use]
    pub fn warning(self) -> Option<String> {
        let Self { shards_of_lane, repeated_samples, .. } = self;
        (repeated_samples > 0).then(|| {
            format!(
                "WDS_START_INDEX counts whole shards: each worker leaves out its first {shards_of_lane}, so that each rank sees about \
                 {repeated_samples} samples again. A checkpoint is exact."
            )
        })
    }
}
