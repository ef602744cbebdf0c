//! The record of finished shards, by which a run that was killed goes on.
//!
//! A file of JSON lines in the hidden folder `.shardstream` of the output: first what is being made, then a line for each shard, written
//! when its tars have their names. A last line that is cut off does not count. Objects in a store can't grow: there each shard has one of its own
//! in a folder beside the file, until the run ends.

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::options::Part;
use super::report::Finding;
use super::root::Root;
use super::twins::TwinFacts;
use crate::error::{Error, Result};

/// Folder of the records, below the output.
pub(crate) const FOLDER: &str = ".shardstream";

/// What is being made. Equal in all parts but for `part`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Making {
    /// Version of this format.
    pub(crate) version: u32,
    /// Of the plan.
    pub(crate) fingerprint: String,
    pub(crate) modalities: Vec<String>,
    /// Shards of all parts.
    pub(crate) shards: usize,
    /// What `root` says in the manifests, before the bucket.
    pub(crate) root: String,
    /// Samples that were not wanted.
    pub(crate) not_wanted: u64,
    pub(crate) other_folders: Vec<String>,
    pub(crate) allow_singletons: bool,
    /// Findings about the input as a whole.
    pub(crate) findings: Vec<Finding>,
}

/// A finished shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoneShard {
    /// Number in the plan.
    pub(crate) number: usize,
    pub(crate) bucket: String,
    pub(crate) path: String,
    pub(crate) samples: u32,
    /// In the order of the modalities. Empty if there was no sample left to write.
    pub(crate) twins: Vec<TwinFacts>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
}

impl DoneShard {
    /// The name of one of its twins, below the output.
    pub(crate) fn twin(&self, modality: &str) -> String {
        let bucket =
            if self.bucket.is_empty() { String::new() } else { format!("{}/", self.bucket) };
        format!("{bucket}{modality}/{}", self.path)
    }
}

/// The file of one part.
pub(crate) fn name(part: Part) -> String {
    format!("{FOLDER}/part-{}-of-{}.jsonl", part.index, part.parts)
}

/// The object of one shard while a run is at work in a store.
fn piece(name: &str, shard: usize) -> String {
    format!("{}/{shard:09}.json", name.trim_end_matches(".jsonl"))
}

/// The shards that have an object of their own.
fn pieces(root: &Root, name: &str) -> Result<Vec<String>> {
    if root.disk().is_some() {
        return Ok(Vec::new());
    }
    let folder = name.trim_end_matches(".jsonl");
    let found = root.child(folder).list()?;
    Ok(found.into_iter().map(|found| format!("{folder}/{}", found.name)).collect())
}

/// Reads a record, as far as it is whole. `None` if there is no such file, or not even its first line.
pub(crate) fn read(
    root: &Root,
    name: &str,
    there: bool,
) -> Result<Option<(Making, Vec<DoneShard>)>> {
    let Some(text) = (if there { root.read(name)? } else { None }) else { return Ok(None) };
    let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].split_inclusive(|&b| b == b'\n');
    let Some(first) = lines.next() else { return Ok(None) };
    let wrong = |line: usize, error| {
        Error::pack(format!("line {line} is no record"))
            .with_source(error)
            .in_shard(root.shown(name))
    };
    let making: Making = serde_json::from_slice(first).map_err(|e| wrong(1, e))?;
    if making.version != 1 {
        return Err(Error::pack(format!("is of version {}, known is 1", making.version))
            .in_shard(root.shown(name)));
    }
    let mut done: Vec<DoneShard> = Vec::new();
    for (at, line) in lines.enumerate() {
        done.push(serde_json::from_slice(line).map_err(|e| wrong(at + 2, e))?);
    }
    for piece in pieces(root, name)? {
        let Some(text) = root.read(&piece)? else { continue };
        let shard: DoneShard = serde_json::from_slice(&text)
            .map_err(|e| Error::pack("is no record").with_source(e).in_shard(root.shown(&piece)))?;
        if done.iter().all(|known| known.number != shard.number) {
            done.push(shard);
        }
    }
    Ok(Some((making, done)))
}

/// Writes a whole record at once; what it was made of is removed.
pub(crate) fn write(root: &Root, name: &str, making: &Making, done: &[DoneShard]) -> Result<()> {
    let mut text = line(making);
    for shard in done {
        text.extend_from_slice(&line(shard));
    }
    root.write(name, text)?;
    pieces(root, name)?.iter().try_for_each(|piece| root.remove(piece))
}

/// A record that grows.
#[derive(Debug)]
pub(crate) struct Journal {
    root: Root,
    name: String,
    /// Open for appending, on the disk.
    file: Option<File>,
}

impl Journal {
    /// Begins a record with what is known to be done already, and keeps it open.
    pub(crate) fn begin(
        root: &Root,
        name: &str,
        making: &Making,
        done: &[DoneShard],
    ) -> Result<Self> {
        write(root, name, making, done)?;
        let file = root.disk().map(|folder| File::options().append(true).open(folder.join(name)));
        let file = file
            .transpose()
            .map_err(|e| Error::pack("can't write").with_source(e).in_shard(root.shown(name)))?;
        Ok(Self { root: root.clone(), name: name.to_owned(), file })
    }

    /// Adds a shard, down to the disk.
    pub(crate) fn add(&mut self, shard: &DoneShard) -> Result<()> {
        let Some(file) = &mut self.file else {
            return self.root.write(&piece(&self.name, shard.number), line(shard));
        };
        file.write_all(&line(shard)).and_then(|()| file.sync_data()).map_err(|e| {
            Error::pack("can't write").with_source(e).in_shard(self.root.shown(&self.name))
        })
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers only: this can't fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
