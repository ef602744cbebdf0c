//! `shardstream index`: where each sample lies in its shard, as a file beside the data.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::data::Data;
use super::progress::Progress;
use super::{complain, output, units};
use crate::error::Result;
use crate::pack;
use crate::shard::{Leaf, SampleIndex};
use crate::store::Store;

/// Writes an index of samples for each shard: key, and offset and size in each twin.
///
/// With it a sample can be fetched by its range of bytes. The first column is the key, so it is a key index as well. An index belongs
/// to tars of one size and time of change; written anew it replaces the old one.
#[derive(Debug, Args)]
pub(crate) struct Index {
    #[command(flatten)]
    data: Data,
    /// Folder to write to [default: `index` below the root]
    #[arg(long, value_name = "DIR")]
    output: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl Index {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (stores, manifest) = self.data.load().await?;
        let mut progress = Progress::new(self.quiet, None);
        let (mut bytes, mut samples, mut failed) = (0, 0, 0);
        for number in 0..manifest.len() {
            progress.update("indexing", "shard", number, manifest.len(), bytes);
            let (leaf, path) = (Arc::clone(manifest.leaf(number)), manifest.path(number));
            match index_shard(&stores, &leaf, &path, self.output.as_deref()).await {
                Ok(index) => {
                    bytes += index.twins().iter().map(|twin| twin.size).sum::<u64>();
                    samples += index.keys().len() as u64;
                }
                Err(error) => {
                    complain(&error);
                    failed += 1;
                }
            }
        }
        progress.finish();
        let done = manifest.len() - failed;
        output::say(&format!(
            "{} of {} indexed, {}",
            units::count(done),
            units::plural(manifest.len(), "shard"),
            units::plural(samples, "sample")
        ))?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Indexes one shard and writes that down.
async fn index_shard(
    store: &dyn Store,
    leaf: &Leaf,
    path: &str,
    output: Option<&str>,
) -> Result<SampleIndex> {
    let index = pack::index_shard(store, leaf, path).await?;
    store.put(&SampleIndex::path_of(output, leaf, path), index.encode()?).await?;
    Ok(index)
}
