//! One shard, checked: its twins against each other and against the manifest.

use std::collections::{BTreeMap, HashMap};

use super::leaves::LeafFolder;
use super::twins::TwinFacts;
use super::verify::{Fault, FaultKind, VerifyOptions};
use super::walk::walk;
use crate::decode::Decoder;
use crate::sample::key::KeyRule;
use crate::shard::wdinfo::Wdinfo;

/// Differences between twins that are named one by one; more are counted.
const NAMED: usize = 5;

/// What is known of one shard afterwards.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) faults: Vec<Fault>,
    /// Samples, if the twins agree on it.
    pub(crate) samples: Option<u32>,
    /// In the order of the modalities; `None` for a twin that can't be read.
    pub(crate) facts: Vec<Option<TwinFacts>>,
    /// Whether nothing but the manifest is wrong.
    pub(crate) sound: bool,
}

/// What was read of one twin: its keys in order, a run of equal ones once, and its facts.
type TwinRead = (Vec<Vec<u8>>, TwinFacts);

/// Checks one shard.
pub(crate) struct Check<'a> {
    leaf: &'a LeafFolder,
    shard: &'a str,
    options: &'a VerifyOptions,
    modalities: Vec<String>,
    faults: Vec<Fault>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(leaf: &'a LeafFolder, shard: &'a str, options: &'a VerifyOptions) -> Self {
        Self { leaf, shard, options, modalities: leaf.modalities(), faults: Vec::new() }
    }

    fn fault(&mut self, kind: FaultKind, detail: String) {
        let place = self.leaf.shard_name(self.shard);
        self.faults.push(Fault { place, kind, detail, fixed: false });
    }

    pub(crate) fn run(mut self) -> Checked {
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
        let (root, twin) = (&self.leaf.root, self.leaf.twin(modality, self.shard));
        let single = self.modalities.len() == 1;
        // Twins as PiD pairs them, which is stricter: one member a key. A tar that stands alone holds samples of several.
        let (rule, of) = (if single { KeyRule::WebDataset } else { KeyRule::Pid }, of(modality));
        let decoder = self.options.decode.then(Decoder::new);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut faults = Vec::new();
        let sums = self.options.checksums || self.options.fix_manifest;
        let walked = walk(root, &twin, sums, |member| {
            let name = String::from_utf8_lossy(&member.name).into_owned();
            let Some(length) = rule.key_length(&member.name) else {
                let detail = format!("{of}{name} has no key: readers pass over it");
                faults.push((FaultKind::Member, detail));
                return Ok(());
            };
            let key = rule.key(&member.name[..length]);
            if keys.last().is_none_or(|last| last[..] != key[..]) {
                keys.push(key.into_owned());
            } else if !single {
                let key = String::from_utf8_lossy(&key);
                faults.push((FaultKind::Keys, format!("{of}key {key} comes twice in a row")));
            }
            if let Some(decoder) = &decoder {
                let field =
                    String::from_utf8_lossy(&member.name[length + 1..]).to_ascii_lowercase();
                if let Err(error) = decoder.decode_field(&field, member.data.clone()) {
                    let error = error.in_member(name).at(member.data_offset);
                    faults.push((FaultKind::Decode, format!("{of}{error}")));
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
                    self.fault(FaultKind::Member, format!("{of}{warning}"));
                }
                if !walked.clean {
                    self.fault(
                        FaultKind::Tar,
                        format!("{of}no end mark: the archive may be cut off"),
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
                    let key = String::from_utf8_lossy(key);
                    repeats.push(format!("{}key {key} comes again after other keys", of(modality)));
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
            let other_size = bytes.filter(|&&bytes| bytes != facts.bytes);
            if let Some(&bytes) = other_size {
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
                let (kind, hint) = match other_size {
                    Some(_) => (FaultKind::ListedChecksum, ""),
                    None => (
                        FaultKind::Changed,
                        ": bytes of the tar have changed. Copy it anew; if it is right as it is, take sha256 out of the manifest",
                    ),
                };
                let is = &facts.sha256;
                self.fault(
                    kind,
                    format!("{modality}: the manifest says SHA-256 {sum}, it is {is}{hint}"),
                );
            }
        }
    }
}

/// What a detail about one twin begins with.
fn of(modality: &str) -> String {
    if modality.is_empty() { String::new() } else { format!("{modality}: ") }
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
