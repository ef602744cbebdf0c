//! Folders of files: one sub-folder for each modality, files with the same stem are one sample.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::content::Content;
use super::layout;
use super::options::PackOptions;
use super::parallel;
use super::report::{Finding, Reason};
use super::scan::{Raw, Samples, failed};
use crate::error::Result;
use crate::sample::Key;

/// Modalities that are packed without being named, as in PiD, with their extensions.
const KNOWN: [(&str, &[&str]); 4] = [
    ("video", &["mp4", "m4v", "mov", "webm", "mkv"]),
    ("image", &["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"]),
    ("caption", &["json", "txt"]),
    ("umt5", &["pkl", "pickle", "npy", "npz", "safetensors"]),
];

/// Whether a modality is to be packed.
pub(crate) fn wanted(modality: &str, options: &PackOptions) -> bool {
    if options.modalities.is_empty() {
        KNOWN.iter().any(|(known, _)| *known == modality)
    } else {
        options.modalities.iter().any(|wanted| wanted == modality)
    }
}

/// The extensions of a modality; `None` if any will do.
pub(crate) fn extensions<'a>(modality: &str, options: &'a PackOptions) -> Option<Vec<&'a str>> {
    match options.extensions.get(modality) {
        Some(own) => Some(own.iter().map(String::as_str).collect()),
        None => KNOWN.iter().find(|(m, _)| *m == modality).map(|(_, usual)| usual.to_vec()),
    }
}

/// The key of a file.
pub(crate) fn key(dataset_name: &str, stem: &[u8]) -> Key {
    Bytes::from([dataset_name.as_bytes(), b"__", stem].concat()).into()
}

/// Lists the sub-folders of one folder.
pub(crate) fn list(
    folder: &Path,
    options: &PackOptions,
    found: &mut Vec<Raw>,
    samples: &mut Samples,
) -> Result<()> {
    let prefix = dataset_name(folder, options)?;
    for name in subfolders(folder)? {
        if !wanted(&name, options) {
            samples.other_folders.push(name);
            continue;
        }
        let extensions = extensions(&name, options);
        let modality: Arc<str> = name.as_str().into();
        let files = files(&folder.join(&name))?;
        let found_there = sizes(&files, options.num_workers)?;
        for ((file, path), size) in files.into_iter().zip(found_there) {
            let size = match size {
                Ok(Some(size)) => size,
                Ok(None) => continue,
                Err(error) => {
                    samples.findings.push(Finding::new(
                        Reason::Unreadable,
                        path.to_string_lossy(),
                        error.to_string(),
                    ));
                    continue;
                }
            };
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
            found.push(Raw {
                key: key(&prefix, stem),
                modality: Arc::clone(&modality),
                extension: extension.into(),
                content: Content::File { path, size },
            });
        }
    }
    Ok(())
}

/// What the keys of a folder or list begin with: as told, or its name with hyphens for what a key can't have.
pub(crate) fn dataset_name(input: &Path, options: &PackOptions) -> Result<String> {
    if let Some(name) = &options.dataset_name {
        return Ok(name.clone());
    }
    let absolute = fs::canonicalize(input).map_err(|e| failed(input, e))?;
    let name = if absolute.is_file() { absolute.file_stem() } else { absolute.file_name() };
    let name = name.map_or_else(|| "data".into(), OsStr::to_string_lossy).replace('.', "-");
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

/// Name and path of everything but hidden files.
fn files(folder: &Path) -> Result<Vec<(Vec<u8>, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, e))? {
        let entry = entry.map_err(|e| failed(folder, e))?;
        let name = entry.file_name().as_bytes().to_vec();
        if !name.starts_with(b".") {
            files.push((name, entry.path()));
        }
    }
    Ok(files)
}

/// Sizes of files, links followed; nothing for what is no file. On several threads: of many small files this is a good part of the work.
fn sizes(
    files: &[(Vec<u8>, PathBuf)],
    threads: usize,
) -> Result<Vec<std::io::Result<Option<u64>>>> {
    let size = |(_, path): &(Vec<u8>, PathBuf)| {
        let found = fs::metadata(path)?;
        Ok(found.is_file().then_some(found.len()))
    };
    let parts: Vec<_> = files.chunks(1024).collect();
    let sizes = parallel::each(threads, parts.len(), |at| {
        Ok(parts[at].iter().map(size).collect::<Vec<_>>())
    })?;
    Ok(sizes.into_iter().flatten().collect())
}

/// Splits a file name at its last dot.
pub(crate) fn stem_and_extension(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().rposition(|&b| b == b'.')?;
    (dot > 0 && dot + 1 < name.len()).then(|| (&name[..dot], &name[dot + 1..]))
}
