//! Arguments that several commands share: which shards, from where.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::shard::{Catalog, DataSet, Manifest};
use crate::store::{CacheOptions, StoreOptions, Stores, parse_duration, parse_size};

/// Which shards.
#[derive(Debug, Clone, Args)]
pub(crate) struct Data {
    /// Shards: paths, URLs, brace patterns, `a::b` lists, `@file` lists, folders. A wdinfo.json, or a folder that holds some, is a whole
    /// data set. With --catalog: names of sources or sets.
    #[arg(required = true, value_name = "SHARD")]
    shards: Vec<String>,
    /// Folder that holds the modalities; SHARD is relative to DIR/<modality>.
    #[arg(long, value_name = "DIR")]
    root: Option<String>,
    /// Modalities of twin tars, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    modalities: Vec<String>,
    /// Catalog (JSON) of sources, each with its folders or URLs, and of sets of sources.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "modalities"])]
    catalog: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// How patiently remote shards are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Remote {
    /// How long to go on trying without a single new byte (3m).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    retry_deadline: Option<Duration>,
    /// A connection that is silent for so long is opened again (10s).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stall_timeout: Option<Duration>,
    /// Keep remote shards in this folder, which any number of processes may share.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// How large the folder may grow; what was used longest ago goes first.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "100GiB", requires = "cache_dir")]
    cache_size: u64,
}

fn size(text: &str) -> Result<u64> {
    parse_size(text)
}

fn duration(text: &str) -> Result<Duration> {
    parse_duration(text)
}

impl Data {
    /// The store, and the manifest read through it.
    pub(crate) async fn load(&self) -> Result<(Stores, Manifest)> {
        let mut options = StoreOptions::default();
        if let Some(deadline) = self.remote.retry_deadline {
            options.remote.retry.deadline = deadline;
        }
        if let Some(timeout) = self.remote.stall_timeout {
            options.remote.retry.stall_timeout = timeout;
        }
        if let Some(folder) = &self.remote.cache_dir {
            options.cache = Some(CacheOptions::new(folder, self.remote.cache_size));
        }
        let stores = Stores::new(options)?;
        let manifest = self.manifest(&stores).await?;
        if manifest.is_empty() {
            return Err(Error::config(format!("no shards: {}", self.shards.join(" "))));
        }
        Ok((stores, manifest))
    }

    async fn manifest(&self, stores: &Stores) -> Result<Manifest> {
        if let Some(file) = &self.catalog {
            let catalog = Catalog::load(stores, file).await?;
            let mut sources = Vec::new();
            for name in &self.shards {
                sources.extend(catalog.data_sets(name)?);
            }
            return Manifest::of_data_sets(stores, &sources).await;
        }
        let mut data_set = DataSet::at_all(&self.shards);
        if let Some(root) = &self.root {
            data_set = data_set.root(root);
        }
        if !self.modalities.is_empty() {
            data_set = data_set.modalities(&self.modalities);
        }
        data_set.load(stores).await
    }
}
