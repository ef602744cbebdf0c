//! [`add_modality`]: a new twin for every shard of a data set that exists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::folders;
use super::layout;
use super::leaves::{self, LeafFolder};
use super::manifest;
use super::options::PackOptions;
use super::parallel;
use super::progress::{PackControl, Phase};
use super::report::{Finding, PackReport, Reason};
use super::scan::{Raw, Samples};
use super::twins::{NewMember, TwinFacts, TwinWriter};
use super::walk::walk;
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::sample::key::{is_data, pid_stem};
use crate::shard::wdinfo::{VERSION, Wdinfo};
use crate::store::Stores;

/// Missing keys that are named; more are counted.
const NAMED: usize = 5;

/// What [`add_modality`] is to do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AddOptions {
    /// The data set: a folder, or a URL in a store, with `wdinfo.json` in it or below it.
    pub data_set: PathBuf,
    /// What reaches URLs. If `None`: with settings from the environment alone.
    pub stores: Option<Stores>,
    /// A folder with a sub-folder of files for each new modality.
    pub input: PathBuf,
    /// The new modalities. If empty: those known by name that have files and are not in the data set.
    pub modalities: Vec<String>,
    /// What the keys of the data set begin with, before `__`. If `None`: the name of the input folder.
    pub dataset_name: Option<String>,
    /// Shards that are written at the same time.
    pub num_workers: usize,
}

impl AddOptions {
    /// Adds what is in `input` to `data_set`.
    #[must_use]
    pub fn new(data_set: impl Into<PathBuf>, input: impl Into<PathBuf>) -> Self {
        Self {
            data_set: data_set.into(),
            stores: None,
            input: input.into(),
            modalities: Vec::new(),
            dataset_name: None,
            num_workers: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Files of one modality, by key with hyphens for its dots: the data set may have the ones or the others.
type Files = BTreeMap<Key, Raw>;

fn plain(key: &Key) -> Key {
    bytes::Bytes::from(layout::renamed(key.as_bytes())).into()
}

/// Writes the twins of one or more new modalities for every shard, with the same keys in the same order, and lists them in `wdinfo.json`. Old
/// tars are not touched, and the manifests change last: a run that is interrupted is simply started again.
///
/// # Errors
/// If a key of the data set has no file in a new modality: then nothing is written. If the data set has the modality already, or no manifest.
pub async fn add_modality(options: AddOptions, control: Arc<PackControl>) -> Result<PackReport> {
    super::blocking(control, move |control| run(&options, control)).await
}

fn run(options: &AddOptions, control: &PackControl) -> Result<PackReport> {
    control.enter(Phase::Listing, 0);
    let leaves = leaves::find(&options.data_set, options.stores.as_ref())?;
    let mut report = PackReport::default();
    let files = list(options, &leaves, &mut report)?;
    report.modalities = files.keys().cloned().collect();
    let shards: Vec<(&LeafFolder, &str)> = leaves
        .iter()
        .map(|leaf| Ok((leaf, listed(leaf)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flat_map(|(leaf, wdinfo)| wdinfo.data_list.iter().map(move |shard| (leaf, shard.as_str())))
        .collect();
    // First all keys, so that nothing is written if one has no file.
    control.enter(Phase::Checking, shards.len() as u64);
    let keys = parallel::each(options.num_workers, shards.len(), |at| {
        control.go_on()?;
        let keys = keys(shards[at].0, shards[at].1);
        control.add(1, 0);
        keys
    })?;
    complete(&keys, &files, &mut report)?;
    control.enter(Phase::Writing, keys.iter().map(|keys| keys.len() as u64).sum());
    let modalities: Vec<String> = files.keys().cloned().collect();
    let facts = parallel::each(options.num_workers, shards.len(), |at| {
        let mut writer = TwinWriter::create(&shards[at].0.root, shards[at].1, &modalities)?;
        for key in &keys[at] {
            control.go_on()?;
            let raw: Vec<(&Raw, Vec<u8>)> = files
                .values()
                .filter_map(|files| files.get(&plain(key)))
                .map(|raw| (raw, [key.as_bytes(), b".", &raw.extension].concat()))
                .collect();
            let members: Vec<NewMember<'_>> = raw
                .iter()
                .enumerate()
                .map(|(twin, (raw, name))| NewMember { twin, name, content: &raw.content })
                .collect();
            writer.append(key, &members)?;
            control.add(1, raw.iter().map(|(raw, _)| raw.content.size()).sum());
        }
        writer.finish()
    })?;
    control.enter(Phase::Finishing, 0);
    report.shards = shards.len() as u64;
    report.samples = keys.iter().map(|keys| keys.len() as u64).sum();
    report.bytes = facts.iter().flatten().map(|twin| twin.bytes).sum();
    let mut facts = facts.into_iter();
    for leaf in &leaves {
        let mut wdinfo = listed(leaf)?.clone();
        let here: Vec<Vec<TwinFacts>> = facts.by_ref().take(wdinfo.data_list.len()).collect();
        for (at, modality) in modalities.iter().enumerate() {
            let column = || here.iter().filter_map(move |twins| twins.get(at));
            wdinfo.data_keys.push(modality.clone());
            wdinfo.bytes.insert(modality.clone(), column().map(|twin| twin.bytes).collect());
            let sums = column().map(|twin| twin.sha256.clone()).collect();
            wdinfo.sha256.insert(modality.clone(), sums);
        }
        wdinfo.data_keys.sort();
        wdinfo.version = Some(VERSION);
        manifest::write(&leaf.root, &wdinfo)?;
    }
    Ok(report)
}

/// The manifest of a folder.
fn listed(leaf: &LeafFolder) -> Result<&Wdinfo> {
    match &leaf.manifest {
        Some(Ok(wdinfo)) if !wdinfo.data_keys.is_empty() => Ok(wdinfo),
        Some(Err(error)) => Err(Error::manifest(error.to_string())),
        _ => Err(Error::manifest(
            "no wdinfo.json that names its modalities; verify --fix-manifest writes one",
        )
        .in_shard(leaf.root.shown(""))),
    }
}

/// The files of the new modalities.
fn list(
    options: &AddOptions,
    leaves: &[LeafFolder],
    report: &mut PackReport,
) -> Result<BTreeMap<String, Files>> {
    let there = |modality: &String| leaves.iter().any(|leaf| leaf.modalities().contains(modality));
    if let Some(old) = options.modalities.iter().find(|modality| there(modality)) {
        return Err(Error::config(format!("the data set has modality {old} already")));
    }
    let mut pack = PackOptions::new(&options.input, &options.data_set);
    pack.modalities.clone_from(&options.modalities);
    pack.dataset_name.clone_from(&options.dataset_name);
    let (mut found, mut samples) = (Vec::new(), Samples::default());
    folders::list(&options.input, &pack, &mut found, &mut samples)?;
    report.findings.append(&mut samples.findings);
    let mut files: BTreeMap<String, Files> = BTreeMap::new();
    for raw in found {
        let modality = raw.modality.to_string();
        if there(&modality) {
            continue;
        }
        if let Some(other) = files.entry(modality.clone()).or_default().insert(plain(&raw.key), raw)
        {
            return Err(Error::config(format!("two files for one key in {modality}"))
                .of_key(other.key.to_string()));
        }
    }
    let none = options.modalities.iter().find(|modality| !files.contains_key(*modality));
    match none {
        Some(none) => Err(Error::config(format!("the input has no file for modality {none}"))),
        None if files.is_empty() => Err(Error::config("the input has no file of a new modality")),
        None => Ok(files),
    }
}

/// The keys of a shard in order, from the first of its twins.
fn keys(leaf: &LeafFolder, shard: &str) -> Result<Vec<Key>> {
    let modalities = leaf.modalities();
    let first = modalities.first().map(String::as_str).unwrap_or_default();
    let mut keys: Vec<Key> = Vec::new();
    walk(&leaf.root, &leaf.twin(first, shard), false, |member| {
        if let Some(stem) = pid_stem(&member.name).filter(|_| is_data(&member.name)) {
            keys.push(bytes::Bytes::copy_from_slice(stem).into());
        }
        Ok(())
    })?;
    Ok(keys)
}

/// Fails if a key has no file; reports files that have no key.
fn complete(
    keys: &[Vec<Key>],
    files: &BTreeMap<String, Files>,
    report: &mut PackReport,
) -> Result<()> {
    let all: std::collections::BTreeSet<Key> = keys.iter().flatten().map(plain).collect();
    for (modality, files) in files {
        let missing: Vec<String> =
            all.iter().filter(|key| !files.contains_key(*key)).map(ToString::to_string).collect();
        if !missing.is_empty() {
            let n = missing.len();
            let named = missing.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
            return Err(Error::pack(format!(
                "{n} keys of the data set have no file, such as {named}"
            ))
            .in_modality(modality.as_str()));
        }
        let strange = files.keys().filter(|key| !all.contains(*key));
        report.findings.extend(strange.map(|key| {
            Finding::new(
                Reason::Unknown,
                key.to_string(),
                format!("is in {modality} and not in the data set"),
            )
        }));
    }
    Ok(())
}
