//! `shardstream index`: where each sample lies in its shard, as a file beside the data.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

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
#[command(after_help = "\
Examples:
  shardstream index shards/                         shards/index/part_000000/000000.parquet and so on
  shardstream index shards/ --output indexes --json

Exit status: 0 every shard has its index, 1 some could not be read (they are named on stderr).")]
pub(crate) struct Index {
    #[command(flatten)]
    data: Data,
    /// Folder to write to [default: `index` below the root]
    #[arg(long, value_name = "DIR")]
    output: Option<String>,
    /// No progress, and nothing on stdout
    #[arg(long, short)]
    quiet: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Done {
    shards: u64,
    indexed: u64,
    samples: u64,
    /// Of the tars.
    bytes: u64,
}

impl Index {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (stores, manifest) = self.data.load().await?;
        let mut progress = Progress::new(self.quiet, None);
        let mut done = Done { shards: manifest.len(), ..Done::default() };
        for number in 0..manifest.len() {
            progress.update("indexing", "shard", number, manifest.len(), done.bytes);
            let (leaf, path) = (Arc::clone(manifest.leaf(number)), manifest.path(number));
            match index_shard(&stores, &leaf, &path, self.output.as_deref()).await {
                Ok(index) => {
                    done.indexed += 1;
                    done.bytes += index.twins().iter().map(|twin| twin.size).sum::<u64>();
                    done.samples += index.keys().len() as u64;
                }
                Err(error) => complain(&error),
            }
        }
        progress.finish();
        if self.json {
            output::say_json(&done)?;
        } else if !self.quiet {
            output::say(&format!(
                "{} of {} indexed, {}",
                units::count(done.indexed),
                units::plural(done.shards, "shard"),
                units::plural(done.samples, "sample")
            ))?;
        }
        Ok(if done.indexed == done.shards { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
