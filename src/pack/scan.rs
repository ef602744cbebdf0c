//! Folders of files -> samples: files with the same stem are joined.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::content::Content;
use super::layout;
use super::options::{Input, PackOptions};
use super::report::{Finding, Reason};
use crate::error::{Error, Result};
use crate::sample::Key;

/// Modalities that are packed without being named, as in PiD, with their extensions.
const KNOWN: [(&str, &[&str]); 4] = [
    ("video", &["mp4", "m4v", "mov", "webm", "mkv"]),
    ("image", &["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"]),
    ("caption", &["json", "txt"]),
    ("umt5", &["pkl", "pickle", "npy", "npz", "safetensors"]),
];

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
}

/// Lists all inputs and joins them.
pub(crate) fn scan(options: &PackOptions) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut found: Vec<(Key, String, Box<[u8]>, Content)> = Vec::new();
    for input in &options.inputs {
        match input {
            Input::Folders(folder) => folders(folder, options, &mut found, &mut samples)?,
        }
    }
    let mut modalities: Vec<String> =
        found.iter().map(|(_, modality, _, _)| modality.clone()).collect();
    modalities.sort();
    modalities.dedup();
    if modalities.is_empty() {
        return Err(Error::config("the input has no file to pack"));
    }
    if let Some(none) =
        options.modalities.iter().find(|wanted| modalities.binary_search(wanted).is_err())
    {
        return Err(Error::config(format!("the input has no file for modality {none}")));
    }
    let mut pieces: Vec<(Key, Piece)> = found
        .into_iter()
        .map(|(key, modality, extension, content)| {
            let modality = modalities.binary_search(&modality).unwrap_or_default();
            (key, Piece { modality, extension, content })
        })
        .collect();
    pieces.sort_by(|(ka, a), (kb, b)| {
        (ka, a.modality, &a.extension).cmp(&(kb, b.modality, &b.extension))
    });
    samples.modalities = modalities;
    join(pieces, options, &mut samples);
    Ok(samples)
}

/// Puts sorted pieces with the same key together; leaves out and reports what makes no sample.
fn join(pieces: Vec<(Key, Piece)>, options: &PackOptions, samples: &mut Samples) {
    let mut pieces = pieces.into_iter().peekable();
    while let Some((key, first)) = pieces.next() {
        let mut entry = Entry { key, pieces: vec![first] };
        while let Some((_, piece)) = pieces.next_if(|(key, _)| *key == entry.key) {
            entry.pieces.push(piece);
        }
        match refuse(&entry, &samples.modalities, options.max_file_size) {
            None => samples.entries.push(entry),
            Some((reason, detail)) => {
                samples.findings.push(Finding::new(reason, entry.key.to_string(), detail))
            }
        }
    }
    // Keys that PiD's renaming makes equal: the first stays.
    let mut order: Vec<(Vec<u8>, usize)> = samples
        .entries
        .iter()
        .enumerate()
        .map(|(at, e)| (layout::renamed(e.key.as_bytes()), at))
        .collect();
    order.sort_unstable();
    let mut lost: Vec<usize> =
        order.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
    lost.sort_unstable();
    for &at in &lost {
        let key = samples.entries[at].key.to_string();
        let name = String::from_utf8_lossy(&layout::renamed(samples.entries[at].key.as_bytes()))
            .into_owned();
        samples.findings.push(Finding::new(
            Reason::Collision,
            key,
            format!("another key is {name} too once its dots are hyphens"),
        ));
    }
    let mut at = 0;
    samples.entries.retain(|_| {
        at += 1;
        lost.binary_search(&(at - 1)).is_err()
    });
    if let Some(limit) = options.limit_samples {
        let keep = samples.entries.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        samples.not_wanted += (samples.entries.len() - keep) as u64;
        samples.entries.truncate(keep);
    }
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

/// Lists the sub-folders of one folder.
fn folders(
    folder: &Path,
    options: &PackOptions,
    found: &mut Vec<(Key, String, Box<[u8]>, Content)>,
    samples: &mut Samples,
) -> Result<()> {
    let prefix = dataset_name(folder, options)?;
    for name in subfolders(folder)? {
        let wanted = if options.modalities.is_empty() {
            KNOWN.iter().any(|(m, _)| *m == name)
        } else {
            options.modalities.contains(&name)
        };
        if !wanted {
            samples.other_folders.push(name);
            continue;
        }
        let extensions: Option<Vec<&str>> = match options.extensions.get(&name) {
            Some(own) => Some(own.iter().map(String::as_str).collect()),
            None => KNOWN.iter().find(|(m, _)| *m == name).map(|(_, usual)| usual.to_vec()),
        };
        for (file, path, size) in files(&folder.join(&name))? {
            let Some((stem, extension)) = stem_and_extension(&file) else {
                samples.findings.push(Finding::new(
                    Reason::Extension,
                    path.to_string_lossy(),
                    "has no extension",
                ));
                continue;
            };
            let lower = String::from_utf8_lossy(extension).to_ascii_lowercase();
            if extensions.as_ref().is_some_and(|known| !known.contains(&lower.as_str())) {
                samples.findings.push(Finding::new(
                    Reason::Extension,
                    path.to_string_lossy(),
                    format!("{lower} is no extension of {name}"),
                ));
                continue;
            }
            let key = Bytes::from([prefix.as_bytes(), b"__", stem].concat());
            found.push((key.into(), name.clone(), extension.into(), Content::File { path, size }));
        }
    }
    Ok(())
}

/// What the keys of a folder begin with: as told, or the folder's name with hyphens for what a key can't have.
fn dataset_name(folder: &Path, options: &PackOptions) -> Result<String> {
    if let Some(name) = &options.dataset_name {
        return Ok(name.clone());
    }
    let absolute = fs::canonicalize(folder).map_err(|e| failed(folder, e))?;
    let name = absolute
        .file_name()
        .map_or_else(|| "data".into(), OsStr::to_string_lossy)
        .replace('.', "-");
    layout::check_dataset_name(&name)?;
    Ok(name)
}

fn subfolders(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, e))? {
        let entry = entry.map_err(|e| failed(folder, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_dir() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Name, path and size of each regular file; hidden ones are passed over.
fn files(folder: &Path) -> Result<Vec<(Vec<u8>, PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, e))? {
        let entry = entry.map_err(|e| failed(folder, e))?;
        let name = entry.file_name().as_bytes().to_vec();
        let path = entry.path();
        // Follows links.
        let found = fs::metadata(&path).map_err(|e| failed(&path, e))?;
        if found.is_file() && !name.starts_with(b".") {
            files.push((name, path, found.len()));
        }
    }
    Ok(files)
}

/// Splits a file name at its last dot.
fn stem_and_extension(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().rposition(|&b| b == b'.')?;
    (dot > 0 && dot + 1 < name.len()).then(|| (&name[..dot], &name[dot + 1..]))
}

pub(crate) fn failed(path: &Path, error: io::Error) -> Error {
    Error::pack("can't read").with_source(error).in_shard(path.to_string_lossy())
}
