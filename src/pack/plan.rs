//! Which sample goes into which shard: a pure function of the samples and the options.

use std::collections::BTreeMap;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::group;
use super::layout;
use super::options::PackOptions;
use super::scan::{Entry, Samples};
use crate::error::{Error, Result};
use crate::random::{Permutation, hash_bytes};

/// One shard to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedShard {
    /// Folder below the output: a bucket, or empty.
    pub(crate) bucket: String,
    /// Path below the folder of a modality.
    pub(crate) path: String,
    /// Places in [`Plan::order`].
    pub(crate) samples: Range<usize>,
}

/// All shards of a data set.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Indices of samples, bucket by bucket in the order in which they are written.
    pub(crate) order: Vec<usize>,
    /// In order of bucket and number.
    pub(crate) shards: Vec<PlannedShard>,
}

/// Makes the plan. `buckets` has the bucket of each sample.
pub(crate) fn plan(samples: &Samples, buckets: &[String], options: &PackOptions) -> Result<Plan> {
    let sizing = match &options.size_based_on {
        None => None,
        Some(modality) => {
            Some(samples.modalities.iter().position(|m| m == modality).ok_or_else(|| {
                Error::config(format!(
                    "the size of shards can't go by {modality}: the input has {}",
                    samples.modalities.join(", ")
                ))
            })?)
        }
    };
    let mut by_bucket: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, bucket) in buckets.iter().enumerate() {
        by_bucket.entry(bucket).or_default().push(at);
    }
    let mut plan = Plan::default();
    for (bucket, members) in by_bucket {
        let begin = plan.order.len();
        if options.shuffle {
            let words = [hash_bytes(b"pack"), options.seed, hash_bytes(bucket.as_bytes())];
            let permutation = Permutation::keyed(members.len() as u64, &words);
            plan.order.extend(
                (0..members.len()).map(|place| members[permutation.get(place as u64) as usize]),
            );
        } else {
            plan.order.extend(members);
        }
        let sizes = plan.order[begin..].iter().map(|&at| size(&samples.entries[at], sizing));
        let mut next = begin;
        for (id, count) in group::cut(sizes, options.limit).into_iter().enumerate() {
            // Both count samples that are in memory.
            let samples = next..next + count as usize;
            next = samples.end;
            plan.shards.push(PlannedShard {
                bucket: bucket.to_owned(),
                path: layout::shard_path(id as u64, options.part_size),
                samples,
            });
        }
    }
    Ok(plan)
}

/// The bytes of a sample that count for the size of its shard.
fn size(entry: &Entry, sizing: Option<usize>) -> u64 {
    entry
        .pieces
        .iter()
        .filter(|piece| sizing.is_none_or(|modality| piece.modality == modality))
        .map(|piece| piece.content.size())
        .sum()
}

impl Plan {
    /// What all parts and all runs of one plan have in common: names, sizes and order of all members in all shards.
    pub(crate) fn fingerprint(&self, samples: &Samples) -> String {
        let mut hash = Sha256::new();
        let mut word = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for modality in &samples.modalities {
            word(modality.as_bytes());
        }
        for shard in &self.shards {
            word(shard.bucket.as_bytes());
            word(shard.path.as_bytes());
            for &at in &self.order[shard.samples.clone()] {
                let entry = &samples.entries[at];
                word(entry.key.as_bytes());
                for piece in &entry.pieces {
                    word(&piece.modality.to_le_bytes());
                    word(&piece.extension);
                    word(&piece.content.size().to_le_bytes());
                }
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
