//! [`Leaf`]: shards that share root and modalities.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::braces::Braces;
use super::path_list::PathList;
use crate::store::Store;

/// Shards that share root and modalities: those of one `wdinfo.json`, one pattern, or one list.
#[derive(Clone, Serialize, Deserialize)]
pub struct Leaf {
    pub(super) root: String,
    pub(super) modalities: Vec<Arc<str>>,
    pub(super) aspect_ratio: Option<String>,
    #[serde(skip)]
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) paths: Paths,
    pub(super) counts: Counts,
    pub(super) total: Option<u64>,
}

/// The paths of a leaf's shards.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Paths {
    Listed(PathList),
    /// Never written out: the i-th path is computed.
    Pattern(Braces),
}

/// How many samples each shard of a leaf has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counts {
    Unknown,
    Same(u64),
    Each(Vec<u32>),
}

impl Leaf {
    /// Single tars of which nothing else is known.
    pub(super) const fn new(paths: Paths) -> Self {
        Self {
            root: String::new(),
            modalities: Vec::new(),
            aspect_ratio: None,
            store: None,
            paths,
            counts: Counts::Unknown,
            total: None,
        }
    }

    /// The folder of the modalities; empty if the paths stand alone.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The modalities; none if each shard is a single tar.
    #[must_use]
    pub fn modalities(&self) -> &[Arc<str>] {
        &self.modalities
    }

    /// The class of pictures that the leaf's folder names: `16,9` for `aspect_ratio_16_9`.
    #[must_use]
    pub fn aspect_ratio(&self) -> Option<&str> {
        self.aspect_ratio.as_deref()
    }

    /// The store that these shards are in, if it was given with their source.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// The tars of a shard, given its path as listed: modality (none for a single tar) and path.
    #[must_use]
    pub fn tars(&self, shard: &str) -> Vec<(Option<Arc<str>>, String)> {
        if self.modalities.is_empty() {
            return vec![(None, self.tar_path(shard))];
        }
        let twin = |m: &Arc<str>| (Some(Arc::clone(m)), self.twin_path(m, shard));
        self.modalities.iter().map(twin).collect()
    }

    /// Where the tar of a shard lies, for one modality; `path` as in [`Manifest::path`](super::Manifest::path).
    #[must_use]
    pub fn twin_path(&self, modality: &str, path: &str) -> String {
        join(&join(&self.root, modality), path)
    }

    /// Where a single tar lies.
    #[must_use]
    pub fn tar_path(&self, path: &str) -> String {
        join(&self.root, path)
    }

    pub(super) fn len(&self) -> u64 {
        match &self.paths {
            Paths::Listed(list) => list.len() as u64,
            Paths::Pattern(pattern) => pattern.len(),
        }
    }

    pub(super) fn path(&self, place: u64) -> String {
        match &self.paths {
            // A place is below the length, which is a usize here.
            Paths::Listed(list) => list.get(place as usize),
            Paths::Pattern(pattern) => pattern.get(place),
        }
    }

    pub(super) fn samples(&self, place: u64) -> Option<u64> {
        match &self.counts {
            Counts::Unknown => None,
            Counts::Same(count) => Some(*count),
            Counts::Each(counts) => counts.get(place as usize).map(|&count| count.into()),
        }
    }

    /// The paths that stand for the leaf in the manifest's hash: all of them, or the pattern if it has too many.
    pub(super) fn hashed_paths(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match &self.paths {
            Paths::Listed(list) => Box::new(list.iter()),
            Paths::Pattern(pattern) if pattern.len() <= HASHED_NAMES => Box::new(pattern.iter()),
            Paths::Pattern(pattern) => Box::new(std::iter::once(pattern.to_string())),
        }
    }

    /// Adds to a hash what the leaf holds, wherever its data lies: without the first `shared` bytes of each path.
    pub(super) fn add_to_hash(&self, shared: usize, hash: &mut Sha256) {
        for modality in &self.modalities {
            add_str(modality, hash);
        }
        for path in self.hashed_paths() {
            let path = without_query(&path);
            add_str(path.get(shared..).unwrap_or(path), hash);
        }
        match &self.counts {
            Counts::Unknown => {}
            Counts::Same(count) => hash.update(count.to_le_bytes()),
            Counts::Each(counts) => {
                counts.iter().for_each(|count| hash.update(count.to_le_bytes()))
            }
        }
        hash.update(self.total.unwrap_or(u64::MAX).to_le_bytes());
        hash.update(self.len().to_le_bytes());
    }
}

/// A pattern of more names is hashed as it is written.
const HASHED_NAMES: u64 = 100_000;

fn add_str(text: &str, hash: &mut Sha256) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

/// A path without the query of a URL: signatures change, the data does not.
pub(crate) fn without_query(path: &str) -> &str {
    if is_web_url(path) { path.split(['?', '#']).next().unwrap_or(path) } else { path }
}

pub(super) fn is_web_url(path: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        path.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Joins two parts of a path with one slash. An empty one leaves the other as it is.
pub(super) fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", only) | (only, "") => only.to_owned(),
        _ if folder.ends_with('/') => [folder, name].concat(),
        _ => [folder, "/", name].concat(),
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf")
            .field("root", &self.root)
            .field("modalities", &self.modalities)
            .field("aspect_ratio", &self.aspect_ratio)
            .field("shards", &self.len())
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
