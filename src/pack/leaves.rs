//! The folders of a data set that hold shards, and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::root::Root;
use crate::error::{Error, Result};
use crate::shard::arguments::is_tar;
use crate::shard::leaf::without_query;
use crate::shard::wdinfo::{FILE_NAME, Wdinfo};
use crate::store::Stores;

/// A folder with modalities below it.
#[derive(Debug)]
pub(crate) struct LeafFolder {
    pub(crate) root: Root,
    /// Path below what was asked for; empty if it is that.
    pub(crate) name: String,
    /// `None` if there is no `wdinfo.json`; an error if it can't be used.
    pub(crate) manifest: Option<Result<Wdinfo>>,
    /// Shards that are there, by modality; that of a single tar has no name.
    pub(crate) tars: BTreeMap<String, BTreeSet<String>>,
}

impl LeafFolder {
    /// The modalities: as listed, otherwise as found.
    pub(crate) fn modalities(&self) -> Vec<String> {
        match &self.manifest {
            Some(Ok(wdinfo)) if !wdinfo.data_keys.is_empty() => {
                let mut modalities = wdinfo.data_keys.clone();
                modalities.sort();
                modalities
            }
            _ => self.tars.keys().cloned().collect(),
        }
    }

    /// All shards, listed or found, in order.
    pub(crate) fn shards(&self) -> Vec<String> {
        let mut shards: BTreeSet<&String> = self.tars.values().flatten().collect();
        if let Some(Ok(wdinfo)) = &self.manifest {
            shards.extend(&wdinfo.data_list);
        }
        shards.into_iter().cloned().collect()
    }

    /// The name of one twin below the root.
    pub(crate) fn twin(&self, modality: &str, shard: &str) -> String {
        if modality.is_empty() { shard.to_owned() } else { format!("{modality}/{shard}") }
    }

    /// The path of a shard as a person knows it.
    pub(crate) fn shard_name(&self, shard: &str) -> String {
        match &*self.name {
            "" if self.is_single() => self.root.shown(shard),
            "" => shard.to_owned(),
            name => format!("{name}/{shard}"),
        }
    }

    /// Whether this is one tar that stands alone.
    pub(crate) fn is_single(&self) -> bool {
        self.tars.contains_key("")
    }
}

/// A path or URL of one tar, as a leaf of nothing else; `None` for what is no tar by its name, and for folders.
pub(crate) fn single(path: &Path, stores: Option<&Stores>) -> Result<Option<LeafFolder>> {
    let Some(text) = path.to_str().filter(|text| is_tar(without_query(text)) && !path.is_dir())
    else {
        return Ok(None);
    };
    let (folder, tar) = match without_query(text).rfind('/') {
        Some(slash) => (if slash == 0 { "/" } else { &text[..slash] }, &text[slash + 1..]),
        None => (".", text),
    };
    let root = Root::open(Path::new(folder), stores)?;
    let tars = BTreeMap::from([(String::new(), BTreeSet::from([tar.to_owned()]))]);
    Ok(Some(LeafFolder { root, name: String::new(), manifest: None, tars }))
}

/// Finds the leaves at or below a folder or URL (or at a `wdinfo.json`), in order of their paths.
pub(crate) fn find(path: &Path, stores: Option<&Stores>) -> Result<Vec<LeafFolder>> {
    let top = if path.file_name().is_some_and(|name| name == FILE_NAME) {
        path.parent().unwrap_or(Path::new(""))
    } else {
        path
    };
    let top = Root::open(top, stores)?;
    let (mut listed, mut tars) = (Vec::new(), Vec::new());
    for name in top.list()?.into_iter().map(|found| found.name) {
        if name.split('/').any(|part| part.starts_with('.')) {
            continue;
        }
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", &name));
        if file == FILE_NAME {
            listed.push(folder.to_owned());
        } else if is_tar(file) {
            tars.push(name);
        }
    }
    let has_manifests = !listed.is_empty();
    if !has_manifests {
        // Without manifests: <leaf>/<modality>/part_000000/000000.tar, or without parts.
        listed
            .extend(tars.iter().map(|tar| unlisted_leaf(tar).to_owned()).collect::<BTreeSet<_>>());
    }
    if listed.is_empty() {
        return Err(
            Error::config("there is neither a wdinfo.json nor a tar").in_shard(top.shown(""))
        );
    }
    let mut leaves = Vec::with_capacity(listed.len());
    for name in listed {
        let root = top.child(&name);
        let text = if has_manifests { root.read(FILE_NAME)? } else { None };
        let manifest = text.map(|text| Wdinfo::parse(&text, &root.shown(FILE_NAME)));
        leaves.push(LeafFolder { root, name, manifest, tars: BTreeMap::new() });
    }
    for tar in tars {
        // The leaf that is nearest above it.
        let inside = |leaf: &LeafFolder| below(&tar, &leaf.name).is_some();
        let Some(leaf) =
            leaves.iter_mut().filter(|leaf| inside(leaf)).max_by_key(|leaf| leaf.name.len())
        else {
            continue;
        };
        let rest = below(&tar, &leaf.name).unwrap_or_default();
        let known = match &leaf.manifest {
            // A modality may have slashes in it.
            Some(Ok(wdinfo)) => wdinfo.data_keys.iter().find(|m| below(rest, m).is_some()).cloned(),
            _ => None,
        };
        let modality =
            known.or_else(|| rest.split_once('/').map(|(modality, _)| modality.to_owned()));
        if let Some((modality, shard)) =
            modality.and_then(|m| below(rest, &m).map(|shard| (m.clone(), shard.to_owned())))
        {
            leaf.tars.entry(modality).or_default().insert(shard);
        }
    }
    Ok(leaves)
}

/// What of a path lies below a folder.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

/// The leaf of a tar that no manifest speaks of.
fn unlisted_leaf(tar: &str) -> &str {
    let mut parts: Vec<&str> = tar.split('/').collect();
    parts.pop();
    if parts.last().is_some_and(|part| part.starts_with("part_")) {
        parts.pop();
    }
    parts.pop();
    let length = parts.iter().map(|part| part.len() + 1).sum::<usize>();
    &tar[..length.saturating_sub(1)]
}
