//! The record of finished shards, by which a run that was killed goes on.
//!
//! A file of JSON lines in the hidden folder `.shardstream` of the output: first what is being made, then a line for each shard, written
//! when its tars have their names. A last line that is cut off does not count.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::options::Part;
use super::report::Finding;
use super::twins::TwinFacts;
use crate::error::{Error, Result};
use crate::store::local::write_atomically;

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

/// The file of one part.
pub(crate) fn path(output: &Path, part: Part) -> PathBuf {
    output.join(FOLDER).join(format!("part-{}-of-{}.jsonl", part.index, part.parts))
}

/// Reads a record, as far as it is whole. `None` if there is no such file, or not even its first line.
pub(crate) fn read(path: &Path) -> Result<Option<(Making, Vec<DoneShard>)>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(super::scan::failed(path, error)),
    };
    let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].split_inclusive(|&b| b == b'\n');
    let Some(first) = lines.next() else { return Ok(None) };
    let wrong = |line: usize, error| {
        Error::pack(format!("line {line} is no record"))
            .with_source(error)
            .in_shard(path.to_string_lossy())
    };
    let making: Making = serde_json::from_slice(first).map_err(|e| wrong(1, e))?;
    if making.version != 1 {
        return Err(Error::pack(format!("is of version {}, known is 1", making.version))
            .in_shard(path.to_string_lossy()));
    }
    let mut done = Vec::new();
    for (at, line) in lines.enumerate() {
        done.push(serde_json::from_slice(line).map_err(|e| wrong(at + 2, e))?);
    }
    Ok(Some((making, done)))
}

/// Writes a whole record at once.
pub(crate) fn write(path: &Path, making: &Making, done: &[DoneShard]) -> Result<()> {
    let mut text = line(making);
    for shard in done {
        text.extend_from_slice(&line(shard));
    }
    write_atomically(path, &text).map_err(|e| failed(path, e))
}

/// A record that grows.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begins a record with what is known to be done already, and keeps it open.
    pub(crate) fn begin(path: PathBuf, making: &Making, done: &[DoneShard]) -> Result<Self> {
        write(&path, making, done)?;
        let file = File::options().append(true).open(&path).map_err(|e| failed(&path, e))?;
        Ok(Self { path, file })
    }

    /// Adds a shard, down to the disk.
    pub(crate) fn add(&mut self, shard: &DoneShard) -> Result<()> {
        self.file
            .write_all(&line(shard))
            .and_then(|()| self.file.sync_data())
            .map_err(|e| failed(&self.path, e))
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers only: this can't fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::pack("can't write").with_source(error).in_shard(path.to_string_lossy())
}
