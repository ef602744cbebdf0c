//! What exists: manifests, data sets, shards, and who reads which.

pub(crate) mod arguments;
mod braces;
mod catalog;
mod data_set;
mod epoch_order;
mod file_list;
mod glob;
mod key_index;
pub(crate) mod leaf;
mod manifest;
mod mt19937;
pub(crate) mod parquet_guard;
mod parquet_layout;
mod path_list;
mod pid_order;
mod plan;
mod sample_index;
mod sample_index_file;
mod sampler;
mod share;
pub mod wdinfo;
mod wdinfo_leaf;

pub use braces::Braces;
pub use catalog::Catalog;
pub use data_set::DataSet;
pub use epoch_order::{EpochOrder, Order, Tail};
pub use file_list::{FileList, file_list, image_folder};
pub use key_index::KeyIndex;
pub use leaf::Leaf;
pub use manifest::{Manifest, Source};
pub use pid_order::{LegacySkip, LegacyStart};
pub use plan::{Plan, PlanParams, Planned, Share};
pub use sample_index::{IndexedTwin, Places, SampleIndex};
pub use sampler::DistributedSampler;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::LaneMemory;
use crate::progress::{ShardState, SourceProgress};
use crate::store::redact;

/// What the shards of one source in one lane of a run have in common.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Seed of the run.
    pub seed: u64,
    /// Pass over the data, from 0.
    pub epoch: u64,
    /// The lane that reads, from 0.
    pub lane: u32,
    /// How many lanes there are.
    pub lanes: u32,
    /// Source inside the lane, from 0.
    pub source: u16,
    /// What is settled already; `None` if nothing is.
    pub progress: Option<Arc<SourceProgress>>,
    /// For a list that begins again without end: its rounds.
    pub round: Option<Arc<Round>>,
    /// Where what is held of them is counted, if the loader has a budget.
    pub memory: Option<Arc<LaneMemory>>,
}

/// One pass over the shards of a lane, in a list that begins again and again.
#[derive(Debug)]
pub struct Round {
    /// How many shards it has.
    pub shards: u64,
    /// Shards in a row that had no sample.
    barren: AtomicU64,
}

impl Round {
    pub(crate) const fn new(shards: u64) -> Self {
        Self { shards, barren: AtomicU64::new(0) }
    }

    /// Notes whether a shard had a sample. `false` if so many in a row had none that the list would be read for ever: two rounds, and a
    /// thousand at least, since a lane gets other shards each round.
    pub(crate) fn goes_on(&self, had_a_sample: bool) -> bool {
        if had_a_sample {
            self.barren.store(0, Ordering::Relaxed);
            return true;
        }
        self.barren.fetch_add(1, Ordering::Relaxed) + 1 < self.shards.saturating_mul(2).max(1000)
    }
}

impl Context {
    /// Whether a sample is still to be delivered.
    #[must_use]
    pub fn owes(&self, ordinal: u64) -> bool {
        self.progress.as_ref().is_none_or(|progress| progress.owes(ordinal))
    }
}

/// One tar name, over all modalities, at its place in an epoch's order.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Run, epoch and lane.
    pub context: Arc<Context>,
    /// Place in the epoch's order over all lanes.
    pub place: u64,
    /// Path below the modalities, or of the tar itself, as the manifest lists it.
    pub path: String,
    /// The data set: root and modalities.
    pub leaf: Arc<Leaf>,
    /// How many samples the manifest counts in it.
    pub samples: Option<u64>,
    /// Whether only some of its samples are asked for, by a key index: then fewer than the manifest counts are no fault.
    pub partial: bool,
    /// How many samples at its head are settled and stand before the bytes that are read, thanks to a sample index.
    pub passed: u64,
    /// Whether a tail policy gives it out a second time in this epoch.
    pub repeat: bool,
    /// What an earlier part of the run found out about it.
    pub state: Option<ShardState>,
    /// Ordinal of its first sample, where that is known without the shards before it.
    pub first: Option<u64>,
    /// Step from one of its samples' ordinals to the next: 1, or how many shards are interleaved.
    pub stride: u64,
}

impl Shard {
    /// The tars to be opened: modality (none for a single tar) and path.
    #[must_use]
    pub fn tars(&self) -> Vec<(Option<Arc<str>>, String)> {
        self.leaf.tars(&self.path)
    }

    /// The shard as a person knows it: the single tar's path, or the twins' common part below the root.
    #[must_use]
    pub fn name(&self) -> String {
        if self.leaf.modalities().is_empty() {
            return redact(&self.leaf.tar_path(&self.path)).into_owned();
        }
        self.path.clone()
    }
}
