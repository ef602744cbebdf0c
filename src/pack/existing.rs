//! What lies in the output folder already.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{self, DoneShard, FOLDER, Making};
use super::options::Part;
use super::report::Finding;
use crate::error::{Error, Result};
use crate::shard::wdinfo::FILE_NAME;
use crate::store::local::write_atomically;

/// Name of the report in the output folder.
pub(crate) const REPORT: &str = "pack_report.jsonl";

/// Files of an earlier data set, by kind.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// `wdinfo.json` files.
    manifests: Vec<PathBuf>,
    /// Tars.
    shards: Vec<PathBuf>,
    /// Records and the report.
    records: Vec<PathBuf>,
    /// What was being written by a process that was killed: nobody misses it.
    leftovers: Vec<PathBuf>,
    /// Anything else.
    others: Vec<PathBuf>,
}

impl Found {
    fn first(&self) -> Option<&PathBuf> {
        [&self.manifests, &self.shards, &self.records, &self.others]
            .into_iter()
            .find_map(|files| files.first())
    }
}

/// Lists the folder, recursively; a folder that isn't there is empty.
pub(crate) fn look(output: &Path) -> Result<Found> {
    let mut found = Found::default();
    if output.exists() {
        walk(output, &mut found).map_err(|e| super::scan::failed(output, e))?;
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Found) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            walk(&path, found)?;
        } else if name.starts_with('.') && name.ends_with(".tmp") {
            found.leftovers.push(path);
        } else if name == FILE_NAME {
            found.manifests.push(path);
        } else if name.ends_with(".tar") {
            found.shards.push(path);
        } else if name == REPORT || folder.ends_with(FOLDER) {
            found.records.push(path);
        } else {
            found.others.push(path);
        }
    }
    Ok(())
}

/// Fails if there is anything, unless it belongs to other parts of the same run.
pub(crate) fn refuse(output: &Path, found: &Found, part: Option<Part>) -> Result<()> {
    let Some(first) = found.first() else { return Ok(()) };
    if let Some(part) = part {
        // Looked up now: another part may have begun since the folder was listed, and its record is older than its shards.
        let mine = journal::path(output, part);
        if found.manifests.is_empty()
            && found.others.is_empty()
            && !mine.exists()
            && !records(output)?.is_empty()
        {
            return same_parts(output, part);
        }
    }
    Err(Error::config(format!(
        "{} is not empty (there is {}): --resume goes on with an interrupted run, --overwrite and --clean replace a data set",
        output.display(),
        first.strip_prefix(output).unwrap_or(first).display()
    )))
}

/// Fails if there are records of a run in another number of parts.
pub(crate) fn same_parts(output: &Path, part: Part) -> Result<()> {
    let suffix = format!("-of-{}.jsonl", part.parts);
    match records(output)?.into_iter().find(|name| !name.ends_with(&suffix)) {
        None => Ok(()),
        Some(other) => Err(Error::config(format!(
            "{} holds {other}, of a run in another number of parts",
            output.display()
        ))),
    }
}

/// Names of the records that are there.
pub(crate) fn records(output: &Path) -> Result<Vec<String>> {
    let folder = output.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| super::scan::failed(&folder, e))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry
            .map_err(|e| super::scan::failed(&folder, e))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("part-") && name.ends_with(".jsonl") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Removes an earlier data set, and nothing else.
pub(crate) fn remove(output: &Path, found: &Found) -> Result<()> {
    if let Some(other) = found.others.first() {
        return Err(Error::config(format!(
            "{} is no part of a data set: --clean leaves the folder alone",
            other.display()
        )));
    }
    remove_leftovers(found)?;
    for path in found.manifests.iter().chain(&found.shards).chain(&found.records) {
        fs::remove_file(path).map_err(|e| super::scan::failed(path, e))?;
    }
    remove_empty_folders(output).map_err(|e| super::scan::failed(output, e))
}

/// Removes the manifests and records of an earlier data set, so that nobody takes the mixture for one while its shards are replaced.
pub(crate) fn unlist(found: &Found) -> Result<()> {
    remove_leftovers(found)?;
    for path in found.manifests.iter().chain(&found.records) {
        fs::remove_file(path).map_err(|e| super::scan::failed(path, e))?;
    }
    Ok(())
}

/// Removes what a process that was killed left under temporary names. Not while others are at work.
pub(crate) fn remove_leftovers(found: &Found) -> Result<()> {
    for path in &found.leftovers {
        fs::remove_file(path).map_err(|e| super::scan::failed(path, e))?;
    }
    Ok(())
}

/// Removes shards of an earlier data set that were not replaced.
pub(crate) fn remove_stale(
    output: &Path,
    found: &Found,
    making: &Making,
    done: &[DoneShard],
) -> Result<()> {
    let fresh: HashSet<PathBuf> = done
        .iter()
        .filter(|shard| shard.samples > 0)
        .flat_map(|shard| {
            making
                .modalities
                .iter()
                .map(|modality| output.join(&shard.bucket).join(modality).join(&shard.path))
        })
        .collect();
    for path in found.shards.iter().filter(|path| !fresh.contains(*path) && path.exists()) {
        fs::remove_file(path).map_err(|e| super::scan::failed(path, e))?;
    }
    remove_empty_folders(output).map_err(|e| super::scan::failed(output, e))
}

fn remove_empty_folders(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_empty_folders(&path)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        }
    }
    Ok(())
}

/// Writes the findings, one JSON object a line; removes an old report if there are none.
pub(crate) fn report(output: &Path, findings: &[Finding]) -> Result<()> {
    let path = output.join(REPORT);
    if findings.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(super::scan::failed(&path, error))
            }
            _ => Ok(()),
        };
    }
    let lines: String = findings
        .iter()
        .map(|finding| serde_json::to_string(finding).unwrap_or_default() + "\n")
        .collect();
    write_atomically(&path, lines.as_bytes())
        .map_err(|e| Error::pack("can't write").with_source(e).in_shard(path.to_string_lossy()))
}
