//! [`verify`]: everything that is wrong with a data set, found in one pass.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::leaves::{self, LeafFolder};
use super::manifest;
use super::parallel;
use super::progress::{PackControl, Phase};
use super::twins::TwinFacts;
use super::walk::walk;
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::sample::key::{self, is_data, pid_rename};
use crate::shard::wdinfo::Wdinfo;

/// Differences between twins that are named one by one; more are counted.
const NAMED: usize = 5;

/// What [`verify`] is to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// A data set: a folder with `wdinfo.json` in it or below it, or such a file.
    pub path: PathBuf,
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
        Self { path, checksums: true, decode: false, num_workers: cores, fix_manifest: false }
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
    /// The manifest states another checksum.
    ListedChecksum,
    /// A member that no reader takes for data.
    Member,
    /// A field that can't be decoded.
    Decode,
}

impl FaultKind {
    const fn of_manifest(self) -> bool {
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
    let leaves = leaves::find(&options.path)?;
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
        let mut faults = leaf_faults(leaf);
        faults
            .extend(shards.iter_mut().flat_map(|(_, checked)| std::mem::take(&mut checked.faults)));
        if options.fix_manifest && faults.iter().any(|fault| fault.kind.of_manifest()) {
            fix(leaf, shards)?;
            report.fixed.push(leaf.path.to_string_lossy().into_owned());
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
        return Err(Error::manifest("no shard is sound: nothing to list")
            .in_shard(leaf.path.to_string_lossy()));
    }
    let root = match &leaf.manifest {
        Some(Ok(wdinfo)) => wdinfo.root.clone(),
        _ => None,
    };
    manifest::write(
        &leaf.path,
        &manifest::wdinfo(&leaf.path, root.as_deref(), &modalities, &sound)?,
    )
}

/// What is known of one shard afterwards.
#[derive(Debug, Default)]
struct Checked {
    faults: Vec<Fault>,
    /// Samples, if the twins agree on it.
    samples: Option<u32>,
    /// In the order of the modalities; `None` for a twin that can't be read.
    facts: Vec<Option<TwinFacts>>,
    /// Whether nothing but the manifest is wrong.
    sound: bool,
}

/// What was read of one twin: its keys in order, a run of equal ones once, and its facts.
type TwinRead = (Vec<Vec<u8>>, TwinFacts);

/// Checks one shard.
struct Check<'a> {
    leaf: &'a LeafFolder,
    shard: &'a str,
    options: &'a VerifyOptions,
    modalities: Vec<String>,
    faults: Vec<Fault>,
}

impl<'a> Check<'a> {
    fn new(leaf: &'a LeafFolder, shard: &'a str, options: &'a VerifyOptions) -> Self {
        Self { leaf, shard, options, modalities: leaf.modalities(), faults: Vec::new() }
    }

    fn fault(&mut self, kind: FaultKind, detail: String) {
        let place = self.leaf.shard_name(self.shard);
        self.faults.push(Fault { place, kind, detail, fixed: false });
    }

    fn run(mut self) -> Checked {
        if !self.leaf.tars.values().any(|tars| tars.contains(self.shard)) {
            self.fault(FaultKind::Gone, "is in data_list and in none of the modalities".to_owned());
            return Checked { faults: self.faults, ..Checked::default() };
        }
        let modalities = self.modalities.clone();
        let twins: Vec<Option<TwinRead>> =
            modalities.iter().map(|modality| self.twin(modality)).collect();
        let samples = self.compare(&modalities, &twins);
        let facts: Vec<_> = twins.into_iter().map(|twin| twin.map(|(_, facts)| facts)).collect();
        if let Some(Ok(wdinfo)) = &self.leaf.manifest {
            self.listed(wdinfo, samples, &facts);
        }
        let sound = self.faults.iter().all(|fault| fault.kind.of_manifest());
        Checked { faults: self.faults, samples, facts, sound }
    }

    /// Reads one twin: its keys in order, without repeats of neighbours, and its facts.
    fn twin(&mut self, modality: &str) -> Option<TwinRead> {
        if !self.leaf.tars.get(modality).is_some_and(|tars| tars.contains(self.shard)) {
            self.fault(FaultKind::Missing, format!("there is no tar in {modality}"));
            return None;
        }
        let path = self.leaf.twin(modality, self.shard);
        let single = self.modalities.len() == 1;
        let decoder = self.options.decode.then(Decoder::new);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut faults = Vec::new();
        let walked = walk(&path, self.options.checksums || self.options.fix_manifest, |member| {
            let name = String::from_utf8_lossy(&member.name).into_owned();
            let renamed = if single {
                Some(member.name.to_vec())
            } else {
                pid_rename(&member.name, modality)
            };
            let split = renamed.as_deref().filter(|_| is_data(&member.name)).and_then(key::split);
            let Some((key, field)) = split else {
                faults.push((
                    FaultKind::Member,
                    format!("{modality}: {name} has no key: readers pass over it"),
                ));
                return Ok(());
            };
            if keys.last().is_none_or(|last| last != key) {
                keys.push(key.to_vec());
            } else if !single {
                faults.push((
                    FaultKind::Keys,
                    format!(
                        "{modality}: key {} comes twice in a row",
                        String::from_utf8_lossy(key)
                    ),
                ));
            }
            if let Some(decoder) = &decoder {
                let field = String::from_utf8_lossy(field).to_ascii_lowercase();
                if let Err(error) = decoder.decode_field(&field, member.data.clone()) {
                    faults.push((
                        FaultKind::Decode,
                        format!("{modality}: {}", error.in_member(name).at(member.data_offset)),
                    ));
                }
            }
            Ok(())
        });
        for (kind, detail) in faults {
            self.fault(kind, detail);
        }
        match walked {
            Ok(walked) => {
                for warning in walked.warnings {
                    self.fault(FaultKind::Member, format!("{modality}: {warning}"));
                }
                if !walked.clean {
                    self.fault(
                        FaultKind::Tar,
                        format!("{modality}: no end mark: the archive may be cut off"),
                    );
                }
                Some((keys, walked.facts))
            }
            Err(error) => {
                self.fault(FaultKind::Tar, error.to_string());
                None
            }
        }
    }

    /// Compares the keys of all twins that can be read; the number of samples if they are the same.
    fn compare(&mut self, modalities: &[String], twins: &[Option<TwinRead>]) -> Option<u32> {
        for (modality, twin) in modalities.iter().zip(twins) {
            let Some((keys, _)) = twin else { continue };
            let mut seen: HashMap<&[u8], usize> = HashMap::new();
            let mut repeats = Vec::new();
            for key in keys {
                let times = seen.entry(key).or_default();
                *times += 1;
                if *times == 2 {
                    repeats.push(format!(
                        "{modality}: key {} comes again after other keys",
                        String::from_utf8_lossy(key)
                    ));
                }
            }
            self.some(repeats);
        }
        let mut readable =
            modalities.iter().zip(twins).filter_map(|(m, twin)| Some((m, &twin.as_ref()?.0)));
        let (reference, keys) = readable.next()?;
        let mut same = twins.iter().all(Option::is_some);
        for (modality, others) in readable {
            same &= keys == others;
            if keys.len() != others.len() {
                let (a, b) = (keys.len(), others.len());
                self.fault(
                    FaultKind::Count,
                    format!("{reference} has {a} samples, {modality} has {b}"),
                );
            }
            self.some(differences(reference, keys, modality, others));
        }
        u32::try_from(keys.len()).ok().filter(|_| same)
    }

    /// Reports the first few, and how many more there are.
    fn some(&mut self, details: Vec<String>) {
        let more = details.len().saturating_sub(NAMED);
        for detail in details.into_iter().take(NAMED) {
            self.fault(FaultKind::Keys, detail);
        }
        if more > 0 {
            self.fault(FaultKind::Keys, format!("and {more} more of the kind"));
        }
    }

    /// Compares with what the manifest says.
    fn listed(&mut self, wdinfo: &Wdinfo, samples: Option<u32>, facts: &[Option<TwinFacts>]) {
        let Some(at) = wdinfo.data_list.iter().position(|listed| listed == self.shard) else {
            self.fault(FaultKind::Unlisted, "is not in data_list".to_owned());
            return;
        };
        let count = wdinfo.data_list_key_count.as_ref().and_then(|counts| counts.get(at));
        if let (Some(&count), Some(samples)) = (count, samples)
            && count != samples
        {
            self.fault(
                FaultKind::ListedCount,
                format!("data_list_key_count says {count} samples, there are {samples}"),
            );
        }
        for (modality, facts) in self.modalities.clone().iter().zip(facts) {
            let Some(facts) = facts else { continue };
            let bytes = wdinfo.bytes.get(modality).and_then(|sizes| sizes.get(at));
            if let Some(&bytes) = bytes.filter(|&&bytes| bytes != facts.bytes) {
                self.fault(
                    FaultKind::ListedBytes,
                    format!(
                        "{modality}: the manifest says {bytes} bytes, there are {}",
                        facts.bytes
                    ),
                );
            }
            let sum = wdinfo.sha256.get(modality).and_then(|sums| sums.get(at));
            if let Some(sum) = sum
                .filter(|sum| !facts.sha256.is_empty() && !sum.eq_ignore_ascii_case(&facts.sha256))
            {
                self.fault(
                    FaultKind::ListedChecksum,
                    format!("{modality}: the manifest says SHA-256 {sum}, it is {}", facts.sha256),
                );
            }
        }
    }
}

/// What differs between the keys of two twins: keys that one lacks, otherwise places where the order differs.
fn differences(a: &str, keys_a: &[Vec<u8>], b: &str, keys_b: &[Vec<u8>]) -> Vec<String> {
    if keys_a == keys_b {
        return Vec::new();
    }
    let mut in_twins: BTreeMap<&[u8], (bool, bool)> = BTreeMap::new();
    keys_a.iter().for_each(|key| in_twins.entry(key).or_default().0 = true);
    keys_b.iter().for_each(|key| in_twins.entry(key).or_default().1 = true);
    let show = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let lacking: Vec<String> = in_twins
        .iter()
        .filter_map(|(key, in_twin)| match in_twin {
            (true, false) => Some(format!("key {} is in {a} and not in {b}", show(key))),
            (false, true) => Some(format!("key {} is in {b} and not in {a}", show(key))),
            _ => None,
        })
        .collect();
    if !lacking.is_empty() {
        return lacking;
    }
    let pairs = keys_a.iter().zip(keys_b).enumerate().filter(|(_, (x, y))| x != y);
    pairs
        .map(|(at, (x, y))| format!("sample {at} is {} in {a} and {} in {b}", show(x), show(y)))
        .collect()
}
