//! From finished shards to `wdinfo.json`.

use std::path::Path;

use super::root::Root;
use super::twins::TwinFacts;
use crate::error::{Error, Result};
use crate::shard::wdinfo::{FILE_NAME, VERSION, Wdinfo};

/// The manifest of one folder: its shards (path, samples, facts in the order of the modalities), in order.
pub(crate) fn wdinfo(
    folder: &Root,
    root: Option<&str>,
    modalities: &[String],
    shards: &[(String, u32, Vec<TwinFacts>)],
) -> Result<Wdinfo> {
    let root = match root {
        Some(root) => root.to_owned(),
        None => folder.absolute()?,
    };
    let column = |at: usize| shards.iter().map(move |(_, _, facts)| &facts[at]);
    Ok(Wdinfo {
        data_keys: modalities.to_vec(),
        data_list: shards.iter().map(|(shard, _, _)| shard.clone()).collect(),
        data_list_key_count: Some(shards.iter().map(|(_, samples, _)| *samples).collect()),
        root: Some(root),
        total_key_count: Some(shards.iter().map(|(_, samples, _)| u64::from(*samples)).sum()),
        chunk_size: None,
        version: Some(VERSION),
        bytes: modalities
            .iter()
            .enumerate()
            .map(|(at, m)| (m.clone(), column(at).map(|twin| twin.bytes).collect()))
            .collect(),
        sha256: modalities
            .iter()
            .enumerate()
            .map(|(at, m)| (m.clone(), column(at).map(|twin| twin.sha256.clone()).collect()))
            .collect(),
    })
}

/// Writes `wdinfo.json` so that nobody sees a part of it.
pub(crate) fn write(folder: &Root, wdinfo: &Wdinfo) -> Result<()> {
    folder.write(FILE_NAME, wdinfo.to_text())
}

/// The absolute path, as PiD writes it into `root`.
pub(crate) fn absolute(folder: &Path) -> Result<String> {
    let path = std::path::absolute(folder).map_err(|e| {
        Error::pack("no absolute path").with_source(e).in_shard(folder.to_string_lossy())
    })?;
    path.into_os_string().into_string().map_err(|path| {
        Error::config(format!("{} is not UTF-8: it can't stand in wdinfo.json", path.display()))
    })
}
