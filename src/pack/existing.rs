//! What lies in the output folder already.

use std::collections::{HashMap, HashSet};

use super::journal::{self, DoneShard, FOLDER, Making};
use super::options::Part;
use super::report::Finding;
use super::root::Root;
use crate::error::{Error, Result};
use crate::shard::wdinfo::FILE_NAME;

/// Name of the report in the output folder.
pub(crate) const REPORT: &str = "pack_report.jsonl";

/// Files of an earlier data set, by kind.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// `wdinfo.json` files.
    manifests: Vec<String>,
    /// Tars, and their sizes.
    pub(crate) shards: HashMap<String, u64>,
    /// Records and the report.
    records: Vec<String>,
    /// What was being written by a process that was killed: nobody misses it.
    leftovers: Vec<String>,
    /// Anything else.
    others: Vec<String>,
}

impl Found {
    fn first(&self) -> Option<&String> {
        let shard = || self.shards.keys().min();
        let first = self.manifests.first().or_else(shard);
        first.or_else(|| self.records.first()).or_else(|| self.others.first())
    }

    /// Whether there is a record of this name.
    pub(crate) fn has_record(&self, name: &str) -> bool {
        self.records.iter().any(|record| record == name)
    }
}

/// Lists the folder, recursively; a folder that isn't there is empty.
pub(crate) fn look(output: &Root) -> Result<Found> {
    let mut found = Found::default();
    for file in output.list()? {
        let path = file.name;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if path.contains('\u{fffd}') {
            found.others.push(path);
        } else if name.starts_with('.') && name.ends_with(".tmp") {
            found.leftovers.push(path);
        } else if name == FILE_NAME {
            found.manifests.push(path);
        } else if name.ends_with(".tar") {
            found.shards.insert(path, file.size);
        } else if name == REPORT || folder == FOLDER || folder.starts_with(&format!("{FOLDER}/")) {
            found.records.push(path);
        } else {
            found.others.push(path);
        }
    }
    Ok(found)
}

/// Fails if there is anything, unless it belongs to other parts of the same run.
pub(crate) fn refuse(output: &Root, found: &Found, part: Option<Part>) -> Result<()> {
    let Some(first) = found.first() else { return Ok(()) };
    if let Some(part) = part {
        // Looked up now: another part may have begun since the folder was listed, and its record is older than its shards.
        let (mine, records) = (journal::name(part), records(output)?);
        if found.manifests.is_empty()
            && found.others.is_empty()
            && !records.is_empty()
            && !records.iter().any(|name| mine.ends_with(name))
        {
            return same_parts(output, part);
        }
    }
    Err(Error::config(format!(
        "{} is not empty (there is {}): --resume goes on with an interrupted run, --overwrite and --clean replace a data set",
        output.shown(""),
        first
    )))
}

/// Fails if there are records of a run in another number of parts.
pub(crate) fn same_parts(output: &Root, part: Part) -> Result<()> {
    let suffix = format!("-of-{}.jsonl", part.parts);
    match records(output)?.into_iter().find(|name| !name.ends_with(&suffix)) {
        None => Ok(()),
        Some(other) => Err(Error::config(format!(
            "{} holds {other}, of a run in another number of parts",
            output.shown("")
        ))),
    }
}

/// Names of the records that are there, without their folder.
pub(crate) fn records(output: &Root) -> Result<Vec<String>> {
    let names = output.child(FOLDER).list()?.into_iter().map(|found| found.name);
    Ok(names
        .filter(|name| name.starts_with("part-") && name.ends_with(".jsonl") && !name.contains('/'))
        .collect())
}

/// Removes an earlier data set, and nothing else.
pub(crate) fn remove(output: &Root, found: &Found) -> Result<()> {
    if let Some(other) = found.others.first() {
        return Err(Error::config(format!(
            "{} is no part of a data set: --clean leaves the folder alone",
            output.shown(other)
        )));
    }
    unlist(output, found)?;
    found.shards.keys().try_for_each(|name| output.remove(name))?;
    output.remove_empty_folders()
}

/// Removes the manifests and records of an earlier data set, so that nobody takes the mixture for one while its shards are replaced.
pub(crate) fn unlist(output: &Root, found: &Found) -> Result<()> {
    remove_leftovers(output, found)?;
    found.manifests.iter().chain(&found.records).try_for_each(|name| output.remove(name))
}

/// Removes what a process that was killed left under temporary names. Not while others are at work.
pub(crate) fn remove_leftovers(output: &Root, found: &Found) -> Result<()> {
    found.leftovers.iter().try_for_each(|name| output.remove(name))
}

/// Removes shards of an earlier data set that were not replaced.
pub(crate) fn remove_stale(
    output: &Root,
    found: &Found,
    making: &Making,
    done: &[DoneShard],
) -> Result<()> {
    let fresh: HashSet<String> = done
        .iter()
        .filter(|shard| shard.samples > 0)
        .flat_map(|shard| making.modalities.iter().map(|modality| shard.twin(modality)))
        .collect();
    let stale = found.shards.keys().filter(|name| !fresh.contains(*name));
    stale.into_iter().try_for_each(|name| output.remove(name))?;
    output.remove_empty_folders()
}

/// Writes the findings, one JSON object a line; removes an old report if there are none.
pub(crate) fn report(output: &Root, findings: &[Finding]) -> Result<()> {
    if findings.is_empty() {
        return output.remove(REPORT);
    }
    let lines: String = findings
        .iter()
        .map(|finding| serde_json::to_string(finding).unwrap_or_default() + "\n")
        .collect();
    output.write(REPORT, lines)
}
