//! All inputs -> samples: what has the same key is joined.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::content::Content;
use super::folders;
use super::layout;
use super::list;
use super::old_shards;
use super::options::{Input, PackOptions};
use super::report::{Finding, Reason};
use super::spool::Spool;
use crate::error::{Error, Result};
use crate::sample::Key;

/// A file that was found, not yet joined with others of its sample.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) key: Key,
    pub(crate) modality: Arc<str>,
    pub(crate) extension: Box<[u8]>,
    pub(crate) content: Content,
}

/// One file of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// Index into [`Samples::modalities`].
    pub(crate) modality: usize,
    /// What follows the key and a dot in the name of the member.
    pub(crate) extension: Box<[u8]>,
    pub(crate) content: Content,
}

/// A sample to be packed.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// In the order of the modalities.
    pub(crate) pieces: Vec<Piece>,
}

/// All samples of the input, in order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) modalities: Vec<String>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) other_folders: Vec<String>,
    pub(crate) not_wanted: u64,
    /// Compressed shards, unpacked: kept as long as samples are read from them.
    pub(crate) spools: Vec<Spool>,
}

/// Lists all inputs and joins them.
pub(crate) fn scan(options: &PackOptions) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut found: Vec<Raw> = Vec::new();
    for input in &options.inputs {
        match input {
            Input::Folders(folder) => folders::list(folder, options, &mut found, &mut samples)?,
            Input::List(file) => list::list(file, options, &mut found, &mut samples)?,
            Input::Shards(folder) => old_shards::list(folder, options, &mut found, &mut samples)?,
        }
    }
    let mut modalities: Vec<String> = found.iter().map(|raw| raw.modality.to_string()).collect();
    modalities.sort();
    modalities.dedup();
    if modalities.is_empty() {
        let first = samples.findings.first();
        let why = first.map(|f| format!("; {}: {}", f.key, f.detail)).unwrap_or_default();
        return Err(Error::config(format!("the input has no file to pack{why}")));
    }
    if let Some(none) = options.modalities.iter().find(|m| modalities.binary_search(m).is_err()) {
        return Err(Error::config(format!("the input has no file for modality {none}")));
    }
    let mut pieces: Vec<(Key, Piece)> = found
        .into_iter()
        .map(|Raw { key, modality, extension, content }| {
            let modality = modalities.iter().position(|m| **m == *modality).unwrap_or_default();
            (key, Piece { modality, extension, content })
        })
        .collect();
    pieces.sort_by(|(ka, a), (kb, b)| {
        (ka, a.modality, &a.extension).cmp(&(kb, b.modality, &b.extension))
    });
    samples.modalities = modalities;
    join(pieces, options, &mut samples)?;
    Ok(samples)
}

/// Puts sorted pieces with the same key together; leaves out and reports what makes no sample.
fn join(pieces: Vec<(Key, Piece)>, options: &PackOptions, samples: &mut Samples) -> Result<()> {
    let mut unwanted = unwanted(options)?;
    let usual = samples.modalities.len();
    samples.entries.reserve(pieces.len() / usual.max(1));
    let mut pieces = pieces.into_iter().peekable();
    while let Some((key, first)) = pieces.next() {
        let mut entry = Entry { key, pieces: Vec::with_capacity(usual) };
        entry.pieces.push(first);
        while let Some((_, piece)) = pieces.next_if(|(key, _)| *key == entry.key) {
            entry.pieces.push(piece);
        }
        if !unwanted.is_empty() && is_unwanted(&entry.key, &mut unwanted) {
            samples.not_wanted += 1;
            continue;
        }
        match refuse(&entry, &samples.modalities, options.max_file_size) {
            None => samples.entries.push(entry),
            Some((reason, detail)) => {
                samples.findings.push(Finding::new(reason, entry.key.to_string(), detail))
            }
        }
    }
    for (key, _) in unwanted.into_iter().filter(|(_, met)| !met) {
        samples.findings.push(Finding::new(
            Reason::Unknown,
            key,
            "is to be left out, and is not in the input",
        ));
    }
    rename(samples);
    if let Some(limit) = options.limit_samples {
        let keep = samples.entries.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        samples.not_wanted += (samples.entries.len() - keep) as u64;
        samples.entries.truncate(keep);
    }
    Ok(())
}

/// Puts hyphens for the dots of keys: a reader by webdataset's rule would end the key at the first one, and PiD's renames them so. What has
/// the key of another sample then is left out and reported; one that needs no other name stays.
fn rename(samples: &mut Samples) {
    // Most data have none.
    if !samples.entries.iter().any(|entry| entry.key.as_bytes().contains(&b'.')) {
        return;
    }
    let mut entries: Vec<(Vec<u8>, Vec<u8>, Entry)> = std::mem::take(&mut samples.entries)
        .into_iter()
        .map(|entry| {
            let key = entry.key.as_bytes();
            (layout::renamed(key), layout::without_dots(key), entry)
        })
        .collect();
    // By what PiD reads; of those that it takes for one sample the one that needs no other name.
    entries.sort_by_cached_key(|(pid, new, entry)| (pid.clone(), *new != entry.key.as_bytes()));
    let mut last = None;
    for (pid, new, mut entry) in entries {
        if last.as_ref() == Some(&pid) {
            let name = String::from_utf8_lossy(&pid);
            let why = format!("another key is {name} too once its dots are hyphens");
            samples.findings.push(Finding::new(Reason::Collision, entry.key.to_string(), why));
        } else {
            entry.key = Bytes::from(new).into();
            samples.entries.push(entry);
            last = Some(pid);
        }
    }
    samples.entries.sort_by(|a, b| a.key.cmp(&b.key));
}

/// The keys to leave out, each with whether it was met.
fn unwanted(options: &PackOptions) -> Result<HashMap<String, bool>> {
    let Some(path) = &options.drop_list else { return Ok(HashMap::new()) };
    let text = fs::read_to_string(path).map_err(|e| failed(path, e))?;
    let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(keys.map(|key| (key.to_owned(), false)).collect())
}

/// Whether a key, or what of it follows the name of the data set, is to be left out: as in the input, or as it is packed.
fn is_unwanted(key: &Key, unwanted: &mut HashMap<String, bool>) -> bool {
    let packed = Key::from(Bytes::from(layout::without_dots(key.as_bytes())));
    for key in [key, &packed].into_iter().filter_map(Key::as_str) {
        let short = key.split_once("__").map_or(key, |(_, short)| short);
        for name in [key, short] {
            if let Some(met) = unwanted.get_mut(name) {
                *met = true;
                return true;
            }
        }
    }
    false
}

fn refuse(entry: &Entry, modalities: &[String], max_file_size: u64) -> Option<(Reason, String)> {
    for (at, modality) in modalities.iter().enumerate() {
        let here: Vec<&Piece> = entry.pieces.iter().filter(|piece| piece.modality == at).collect();
        match here.as_slice() {
            [] => return Some((Reason::Incomplete, format!("has no file in {modality}"))),
            [one] => {
                let size = one.content.size();
                if size > max_file_size {
                    return Some((
                        Reason::Oversized,
                        format!("has {size} bytes in {modality}, allowed are {max_file_size}"),
                    ));
                }
                let name = member_name(&entry.key, one);
                if let Some(why) = layout::refuse_member(&name) {
                    return Some((
                        Reason::Name,
                        format!("{}: {why}", String::from_utf8_lossy(&name)),
                    ));
                }
            }
            // The shards that are packed anew may hold several for one key.
            several if several.iter().all(|piece| piece.content.is_member()) => {}
            several => {
                let names: Vec<_> =
                    several.iter().map(|p| String::from_utf8_lossy(&p.extension)).collect();
                return Some((
                    Reason::Ambiguous,
                    format!("has several files in {modality}: {}", names.join(", ")),
                ));
            }
        }
    }
    None
}

/// The name of a member.
pub(crate) fn member_name(key: &Key, piece: &Piece) -> Vec<u8> {
    [key.as_bytes(), b".", &piece.extension].concat()
}

pub(crate) fn failed(path: &Path, error: io::Error) -> Error {
    Error::pack("can't read").with_source(error).in_shard(path.to_string_lossy())
}
