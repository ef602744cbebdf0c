//! Folders of files: one sub-folder for each modality, files with the same stem are one sample.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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

/// Files that a thread looks at in one go.
const CHUNK: usize = 1024;

/// Lists the sub-folders of one folder.
pub(crate) fn list(
    folder: &Path,
    options: &PackOptions,
    found: &mut Vec<Raw>,
    samples: &mut Samples,
) -> Result<()> {
    let prefix = dataset_name(folder, options)?;
    let (packed, others): (Vec<_>, Vec<_>) =
        subfolders(folder)?.into_iter().partition(|name| wanted(name, options));
    samples.other_folders.extend(others);
    let threads = options.num_workers;
    let names = parallel::each(threads, packed.len(), |at| files(&folder.join(&packed[at])))?;
    for (modality, names) in packed.iter().zip(names) {
        let subfolder = Subfolder {
            path: folder.join(modality),
            modality: modality.as_str().into(),
            prefix: &prefix,
            extensions: extensions(modality, options),
        };
        // Of many small files this is a good part of the work.
        let chunks: Vec<_> = names.chunks(CHUNK).collect();
        let looked_at = parallel::each(threads, chunks.len(), |at| {
            Ok(chunks[at].iter().filter_map(|name| subfolder.look_at(name)).collect::<Vec<_>>())
        })?;
        found.reserve(names.len());
        for file in looked_at.into_iter().flatten() {
            match file {
                Ok(raw) => found.push(raw),
                Err(finding) => samples.findings.push(finding),
            }
        }
    }
    Ok(())
}

/// The files of one modality.
struct Subfolder<'a> {
    path: PathBuf,
    modality: Arc<str>,
    prefix: &'a str,
    extensions: Option<Vec<&'a str>>,
}

impl Subfolder<'_> {
    /// What is to be packed of a name, or why it can't be. Links are followed; `None` for what is no file.
    fn look_at(&self, name: &[u8]) -> Option<Result<Raw, Finding>> {
        let mut path = PathBuf::with_capacity(self.path.as_os_str().len() + 1 + name.len());
        path.push(&self.path);
        path.push(OsStr::from_bytes(name));
        let refuse =
            |reason, why: String| Some(Err(Finding::new(reason, path.to_string_lossy(), why)));
        let size = match fs::metadata(&path) {
            Ok(there) if there.is_file() => there.len(),
            Ok(_) => return None,
            Err(error) => return refuse(Reason::Unreadable, error.to_string()),
        };
        let Some((stem, extension)) = stem_and_extension(name) else {
            return refuse(Reason::Extension, "has no extension".to_owned());
        };
        let is = |known: &&str| extension.eq_ignore_ascii_case(known.as_bytes());
        if self.extensions.as_ref().is_some_and(|known| !known.iter().any(is)) {
            let lower = String::from_utf8_lossy(extension).to_ascii_lowercase();
            let why = format!("{lower} is no extension of {}", self.modality);
            return refuse(Reason::Extension, why);
        }
        Some(Ok(Raw {
            key: key(self.prefix, stem),
            modality: Arc::clone(&self.modality),
            extension: extension.into(),
            content: Content::File { path, size },
        }))
    }
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

/// Names of everything but hidden files, sorted: then little is left to do when the modalities are joined.
fn files(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, e))? {
        let name = entry.map_err(|e| failed(folder, e))?.file_name().into_vec();
        if !name.starts_with(b".") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Splits a file name at its last dot.
pub(crate) fn stem_and_extension(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().rposition(|&b| b == b'.')?;
    (dot > 0 && dot + 1 < name.len()).then(|| (&name[..dot], &name[dot + 1..]))
}
