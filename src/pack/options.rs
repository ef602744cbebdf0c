//! [`PackOptions`]: what to pack, where to, and how.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::classes::DurationBins;
use super::group::ShardLimit;
use crate::error::{Error, Result};
use crate::store::Stores;

/// Where samples come from. Several inputs are joined by key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A folder with a sub-folder of files for each modality (`image/`, `caption/`); files with the same stem are one sample.
    Folders(PathBuf),
    /// A list: a JSON object a line, or a parquet file. Fields named as modalities hold paths (relative to the list) or JSON objects;
    /// `prompt`, `prompt_medium` and `prompt_short` make up a caption; `key` names the sample.
    List(PathBuf),
    /// A data set of shards, which is packed anew: a folder, or its URL in a store. Keys stay as they are. Compressed shards are unpacked
    /// into the folder for temporary files first, since their samples are read in another order.
    Shards(PathBuf),
}

/// What to do with a data set that is in the output folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse to touch it.
    #[default]
    Refuse,
    /// Go on where an earlier run with the same input and options stopped.
    Resume,
    /// Replace it shard by shard; what is not replaced is removed at the end.
    Overwrite,
    /// Remove it first.
    Clean,
}

/// The share of one process in a run of several: the shards whose number, counted over all folders, is `index` modulo `parts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which part, from 0.
    pub index: u32,
    /// Of how many.
    pub parts: u32,
}

/// What [`pack`](super::pack) is to do.
///
/// ```
/// use shardstream::pack::{PackOptions, ShardLimit};
/// let options = PackOptions::new("photos", "shards").flat().limit(ShardLimit::samples(100)).seed(7);
/// assert!(!options.classify_aspect_ratio);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PackOptions {
    /// Where samples come from.
    pub inputs: Vec<Input>,
    /// The folder of the data set to make, or its URL in a store: shards are sent there in parts of 8 MiB as they are made.
    pub output: PathBuf,
    /// What reaches URLs. If `None`: with settings from the environment alone.
    pub stores: Option<Stores>,
    /// The modalities to pack. If empty: those of `video`, `image`, `caption`, `umt5` that have files.
    pub modalities: Vec<String>,
    /// Extensions of the files of a modality, in lower case, in place of the usual ones.
    pub extensions: BTreeMap<String, Vec<String>>,
    /// How much goes into a shard.
    pub limit: ShardLimit,
    /// The modality whose bytes count for the limit; `None` for all together.
    pub size_based_on: Option<String>,
    /// Whether to shuffle; otherwise samples stay in order of their keys.
    pub shuffle: bool,
    /// What the shuffled order depends on.
    pub seed: u64,
    /// At most so many samples: the first in order of their keys.
    pub limit_samples: Option<u64>,
    /// A file of keys, one a line, that are left out.
    pub drop_list: Option<PathBuf>,
    /// What every key begins with, before `__`. If `None`: the name of the input folder.
    pub dataset_name: Option<String>,
    /// Plan only; write nothing.
    pub dry_run: bool,
    /// A sample with a larger file is left out and reported.
    pub max_file_size: u64,
    /// Shards that are written at the same time.
    pub num_workers: usize,
    /// Pictures and videos whose sizes are read at the same time.
    pub metadata_workers: usize,
    /// Shards in a folder `part_NNNNNN`; 0 for no such folders.
    pub part_size: u64,
    /// Whether to make a folder for each aspect ratio.
    pub classify_aspect_ratio: bool,
    /// Whether the EXIF orientation of a picture counts for its aspect ratio.
    pub exif: bool,
    /// Folders by duration, for videos.
    pub duration_bins: DurationBins,
    /// What to do with a data set that is there already.
    pub existing: Existing,
    /// The share of this process.
    pub part: Option<Part>,
    /// What to write as `root` into the manifests, followed by the bucket, in place of the absolute path of the output folder.
    pub root: Option<String>,
    /// Whether a folder with a single sample is in order.
    pub allow_singletons: bool,
}

impl PackOptions {
    /// Packs the folder `input` into `output`, with the defaults of the command line.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            inputs: vec![Input::Folders(input.into())],
            output: output.into(),
            stores: None,
            modalities: Vec::new(),
            extensions: BTreeMap::new(),
            limit: ShardLimit::default(),
            size_based_on: None,
            shuffle: true,
            seed: 0,
            limit_samples: None,
            drop_list: None,
            dataset_name: None,
            dry_run: false,
            max_file_size: 1 << 30,
            num_workers: cores,
            metadata_workers: 2 * cores,
            part_size: 1000,
            classify_aspect_ratio: true,
            exif: false,
            duration_bins: DurationBins::default(),
            existing: Existing::Refuse,
            part: None,
            root: None,
            allow_singletons: false,
        }
    }

    /// One folder for all: no classes of aspect ratio.
    #[must_use]
    pub fn flat(mut self) -> Self {
        self.classify_aspect_ratio = false;
        self
    }

    /// Sets how much goes into a shard.
    #[must_use]
    pub fn limit(mut self, limit: ShardLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Sets what the shuffled order depends on.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets what to do with a data set that is there already.
    #[must_use]
    pub fn existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Refuses what can't work.
    pub(crate) fn check(&self) -> Result<()> {
        if self.inputs.is_empty() {
            return Err(Error::config("there is no input"));
        }
        for (name, zero) in [
            ("num_workers", self.num_workers == 0),
            ("metadata_workers", self.metadata_workers == 0),
            ("the samples in a shard", self.limit.samples == Some(0)),
            ("the bytes in a shard", self.limit.bytes == Some(0)),
        ] {
            if zero {
                return Err(Error::config(format!("{name} must not be 0")));
            }
        }
        if self.limit.samples.is_none() && self.limit.bytes.is_none() {
            return Err(Error::config("a shard needs a limit, in samples or bytes"));
        }
        if let Some(Part { index, parts }) = self.part.filter(|part| part.index >= part.parts) {
            return Err(Error::config(format!(
                "part {index} of {parts}: parts are counted from 0"
            )));
        }
        if let Some(name) = &self.dataset_name {
            super::layout::check_dataset_name(name)?;
        }
        for modality in self.modalities.iter().chain(self.extensions.keys()) {
            super::layout::check_modality(modality)?;
        }
        Ok(())
    }
}
