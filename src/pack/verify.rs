//! [`verify`]: everything that is wrong with a data set, found in one pass.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::leaves::{self, LeafFolder};
use super::manifest;
use super::parallel;
use super::progress::{PackControl, Phase};
use super::twins::TwinFacts;
use super::verify_shard::{Check, Checked};
use crate::error::{Error, Result};
use crate::store::Stores;

/// What [`verify`] is to look at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// A data set: a folder, or a URL in a store, with `wdinfo.json` in it or below it, or such a file. Or a single tar.
    pub path: PathBuf,
    /// What reaches URLs. If `None`: with settings from the environment alone.
    pub stores: Option<Stores>,
    /// Whether to compare checksums, where the manifest has them.
    pub checksums: bool,
    /// Whether to decode every field.
    pub decode: bool,
    /// Shards that are read at the same time.
    pub num_workers: usize,
    /// Whether to write manifests anew from what is there. Shards whose twins are broken or differ are left out.
    pub fix_manifest: bool,
}

impl VerifyOptions {
    /// Checks all but decoding, on all cores.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let path = path.into();
        Self {
            path,
            stores: None,
            checksums: true,
            decode: false,
            num_workers: cores,
            fix_manifest: false,
        }
    }
}

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// There is no manifest, or it can't be used.
    Manifest,
    /// A shard is there and not listed, or a modality is.
    Unlisted,
    /// A shard is listed, and no modality has it.
    Gone,
    /// A twin is not there.
    Missing,
    /// A tar is cut off, broken, or no tar.
    Tar,
    /// The twins have different numbers of samples.
    Count,
    /// A key is in some of the twins only, comes twice, or in another order.
    Keys,
    /// The manifest states another number of samples.
    ListedCount,
    /// The manifest states another size.
    ListedBytes,
    /// The manifest states another checksum, and another size: the tar was written anew.
    ListedChecksum,
    /// The manifest states another checksum for a tar that has the stated size: some of its bytes are not what they were.
    Changed,
    /// A member that no reader takes for data.
    Member,
    /// A field that can't be decoded.
    Decode,
}

impl FaultKind {
    pub(crate) const fn of_manifest(self) -> bool {
        matches!(
            self,
            Self::Manifest
                | Self::Unlisted
                | Self::Gone
                | Self::ListedCount
                | Self::ListedBytes
                | Self::ListedChecksum
        )
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// Where: the folder and the shard.
    pub place: String,
    /// What kind of thing.
    pub kind: FaultKind,
    /// What it is, in words.
    pub detail: String,
    /// Whether `fix_manifest` has mended it.
    pub fixed: bool,
}

/// What [`verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Folders with shards.
    pub folders: u64,
    /// Shards, over all modalities one.
    pub shards: u64,
    /// Samples that all twins have.
    pub samples: u64,
    /// Bytes of all tars.
    pub bytes: u64,
    /// Everything that is wrong, in order of place.
    pub faults: Vec<Fault>,
    /// Manifests that were written anew.
    pub fixed: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong (any more).
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.iter().all(|fault| fault.fixed)
    }
}

/// Checks the twins of every shard against each other and against `wdinfo.json`. Finds everything in one pass.
///
/// # Errors
/// If there is no data set, or a manifest can't be written. What is wrong with the data is in the report.
pub async fn verify(options: VerifyOptions, control: Arc<PackControl>) -> Result<VerifyReport> {
    super::blocking(control, move |control| run(&options, control)).await
}

fn run(options: &VerifyOptions, control: &PackControl) -> Result<VerifyReport> {
    control.enter(Phase::Listing, 0);
    let stores = options.stores.as_ref();
    let leaves = match leaves::single(&options.path, stores)? {
        Some(_) if options.fix_manifest => {
            return Err(Error::config("a single tar has no wdinfo.json: name its data set"));
        }
        Some(tar) => vec![tar],
        None => leaves::find(&options.path, stores)?,
    };
    let shards: Vec<(usize, String)> = leaves
        .iter()
        .enumerate()
        .flat_map(|(at, leaf)| leaf.shards().into_iter().map(move |shard| (at, shard)))
        .collect();
    control.enter(Phase::Checking, shards.len() as u64);
    let checked = parallel::each(options.num_workers, shards.len(), |at| {
        control.go_on()?;
        let (leaf, shard) = &shards[at];
        let checked = Check::new(&leaves[*leaf], shard, options).run();
        control.add(1, checked.facts.iter().flatten().map(|facts| facts.bytes).sum());
        Ok(checked)
    })?;
    let mut report = VerifyReport { folders: leaves.len() as u64, ..VerifyReport::default() };
    let mut of_leaf: Vec<Vec<(String, Checked)>> = leaves.iter().map(|_| Vec::new()).collect();
    for ((leaf, shard), checked) in shards.into_iter().zip(checked) {
        report.shards += 1;
        report.samples += u64::from(checked.samples.unwrap_or(0));
        report.bytes += checked.facts.iter().flatten().map(|facts| facts.bytes).sum::<u64>();
        of_leaf[leaf].push((shard, checked));
    }
    for (leaf, mut shards) in leaves.iter().zip(of_leaf) {
        let mut faults = if leaf.is_single() { Vec::new() } else { leaf_faults(leaf) };
        faults
            .extend(shards.iter_mut().flat_map(|(_, checked)| std::mem::take(&mut checked.faults)));
        if options.fix_manifest && faults.iter().any(|fault| fault.kind.of_manifest()) {
            fix(leaf, shards)?;
            report.fixed.push(leaf.root.shown(""));
            for fault in faults.iter_mut().filter(|fault| fault.kind.of_manifest()) {
                fault.fixed = true;
            }
        }
        report.faults.append(&mut faults);
    }
    report.faults.sort();
    Ok(report)
}

/// What is wrong with a folder as a whole.
fn leaf_faults(leaf: &LeafFolder) -> Vec<Fault> {
    let place = if leaf.name.is_empty() { ".".to_owned() } else { leaf.name.clone() };
    let fault = |kind, detail: String| Fault { place: place.clone(), kind, detail, fixed: false };
    match &leaf.manifest {
        None => vec![fault(FaultKind::Manifest, "there is no wdinfo.json".to_owned())],
        Some(Err(error)) => vec![fault(FaultKind::Manifest, error.to_string())],
        Some(Ok(_)) => {
            let modalities = leaf.modalities();
            let stray = leaf.tars.iter().filter(|(modality, _)| !modalities.contains(modality));
            stray
                .map(|(modality, tars)| {
                    let n = tars.len();
                    fault(
                        FaultKind::Unlisted,
                        format!(
                            "folder {modality} holds {n} tars and is no modality of wdinfo.json"
                        ),
                    )
                })
                .collect()
        }
    }
}

/// Writes a manifest of the shards that are sound.
fn fix(leaf: &LeafFolder, shards: Vec<(String, Checked)>) -> Result<()> {
    let mut modalities = leaf.modalities();
    modalities.retain(|modality| leaf.tars.contains_key(modality));
    let sound: Vec<(String, u32, Vec<TwinFacts>)> = shards
        .into_iter()
        .filter_map(|(shard, checked)| {
            let facts: Option<Vec<TwinFacts>> = checked.facts.into_iter().collect();
            Some((shard, checked.samples.filter(|&n| n > 0 && checked.sound)?, facts?))
        })
        .collect();
    if sound.is_empty() {
        return Err(
            Error::manifest("no shard is sound: nothing to list").in_shard(leaf.root.shown(""))
        );
    }
    let root = match &leaf.manifest {
        Some(Ok(wdinfo)) => wdinfo.root.clone(),
        _ => None,
    };
    manifest::write(
        &leaf.root,
        &manifest::wdinfo(&leaf.root, root.as_deref(), &modalities, &sound)?,
    )
}
