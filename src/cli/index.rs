//! `shardstream index`: where each sample lies in its shard, as a file beside the data.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::StreamExt;

use super::data::Data;
use super::progress::Progress;
use super::{complain, output, units};
use crate::error::{Error, Result};
use crate::shard::{IndexedTwin, KeyIndex, Leaf, Places, SampleIndex};
use crate::store::decompress::Compression;
use crate::store::{ByteRange, Store, redact};
use crate::tar::{Parser, Step};

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

/// Walks the twins of one shard and writes its index.
async fn index_shard(
    store: &dyn Store,
    leaf: &Leaf,
    path: &str,
    output: Option<&str>,
) -> Result<SampleIndex> {
    let tars = match leaf.modalities() {
        [] => vec![(String::new(), leaf.tar_path(path))],
        modalities => modalities
            .iter()
            .map(|modality| (modality.to_string(), leaf.twin_path(modality, path)))
            .collect(),
    };
    let mut twins = Vec::new();
    for (modality, tar) in tars {
        let twin = IndexedTwin::new(modality, &store.head(&tar).await?)?;
        let places =
            walk(store, &tar, twin.size).await.map_err(|error| error.in_shard(redact(&tar)))?;
        // A tar that is being written while it is read.
        twin.check(&store.head(&tar).await?)?;
        twins.push((twin, places));
    }
    let index = SampleIndex::join(twins)?;
    let target = match (output, leaf.root()) {
        (Some(folder), _) => {
            KeyIndex::path_of(folder, path.rsplit_once("://").map_or(path, |(_, path)| path))
        }
        (None, "") => KeyIndex::path_of("", &beside(path)),
        (None, root) => KeyIndex::path_of(&format!("{}/index", root.trim_end_matches('/')), path),
    };
    store.put(&target, index.encode()?).await?;
    Ok(index)
}

/// For a tar that stands alone: the folder `index` in its own folder.
fn beside(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/index/{name}"),
        None => format!("index/{path}"),
    }
}

async fn walk(store: &dyn Store, tar: &str, size: u64) -> Result<Places> {
    let (mut parser, mut places) = (Parser::new(), Places::new());
    let mut stream = store.read(tar, ByteRange::ALL);
    let mut is_first = true;
    loop {
        match parser.next()? {
            Step::Member(member) => places.add(&member)?,
            Step::Warning(warning) => complain(&Error::from(warning).in_shard(redact(tar))),
            Step::End { .. } if parser.has_global_names() => {
                return Err(Error::index(
                    "a global PAX header names or sizes its members: they can't be read one by one",
                ));
            }
            Step::End { clean } => {
                if !clean {
                    complain(
                        &Error::tar("no end mark: members may be missing")
                            .at(size)
                            .in_shard(redact(tar)),
                    );
                }
                return Ok(places);
            }
            Step::NeedMore => match stream.next().await.transpose()? {
                Some(chunk) => {
                    if let Some(compression) =
                        std::mem::take(&mut is_first).then(|| Compression::of(&chunk)).flatten()
                    {
                        return Err(Error::index(format!(
                            "{compression} data: samples in it have no place of their own"
                        )));
                    }
                    parser.push(chunk);
                }
                None => parser.finish(),
            },
        }
    }
}
