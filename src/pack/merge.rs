//! Puts the parts of a run together.

use std::path::Path;

use super::existing;
use super::journal;
use super::options::Part;
use super::report::PackReport;
use super::root::Root;
use super::run;
use crate::error::{Error, Result};
use crate::store::Stores;

/// Checks that all parts of a run in `output` (a folder, or a URL) are finished, and writes the manifests for all of them. Afterwards the
/// folder is, byte for byte, what a run in one part would have made. Blocks: inside a runtime, call it from a thread that may.
///
/// # Errors
/// If a part is missing or not finished, or if parts were made from different inputs or options.
pub fn merge(output: &Path) -> Result<PackReport> {
    merge_in(output, None)
}

/// As [`merge`], with what reaches URLs.
///
/// # Errors
/// As [`merge`].
pub fn merge_in(output: &Path, stores: Option<&Stores>) -> Result<PackReport> {
    let output = &Root::open(output, stores)?;
    let records = existing::records(output)?;
    let Some(parts) = records.first().and_then(|name| parts(name)) else {
        return Err(Error::config(format!("{} holds no parts to merge", output.shown(""))));
    };
    existing::same_parts(output, Part { index: 0, parts })?;
    let mut all = Vec::new();
    let mut making = None;
    for index in 0..parts {
        let name = journal::name(Part { index, parts });
        let there = records.iter().any(|record| name.ends_with(record));
        let Some((this, mut done)) = journal::read(output, &name, there)? else {
            return Err(Error::pack(format!("part {index} of {parts} is missing"))
                .in_shard(output.shown("")));
        };
        let first = making.get_or_insert_with(|| this.clone());
        if *first != this {
            return Err(Error::pack(format!(
                "parts 0 and {index} were made from different inputs or options"
            ))
            .in_shard(output.shown("")));
        }
        let mine = (0..this.shards)
            .filter(|number| *number as u64 % u64::from(parts) == u64::from(index))
            .count();
        if done.len() != mine {
            return Err(Error::pack(format!(
                "part {index} of {parts} has finished {} of {mine} shards",
                done.len()
            ))
            .in_shard(output.shown("")));
        }
        all.append(&mut done);
    }
    let Some(making) = making else { return Err(Error::config("0 parts")) };
    all.sort_by_key(|shard| shard.number);
    // All parts are finished: nobody is at work any more.
    existing::remove_leftovers(output, &existing::look(output)?)?;
    run::finish(output, &making, &all)?;
    journal::write(output, &journal::name(Part { index: 0, parts: 1 }), &making, &all)?;
    for name in records.iter().filter(|_| parts > 1) {
        output.remove(&format!("{}/{name}", journal::FOLDER))?;
    }
    Ok(run::summary(&making, &all))
}

/// The number of parts in `part-0-of-3.jsonl`.
fn parts(name: &str) -> Option<u32> {
    name.strip_suffix(".jsonl")?.rsplit('-').next()?.parse().ok().filter(|&parts| parts > 0)
}
