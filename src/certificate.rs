//! Whether an epoch was covered exactly once: the proof, from the parts of a checkpoint taken at its end.

use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::progress::{Digest, Kept, Late, Skip, SourceProgress};
use crate::shard::{EpochOrder, Manifest, Tail};

/// What became of the samples of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// The epoch of the lanes; the lowest, if they are in different ones.
    pub epoch: u64,
    /// Whether every lane has ended in it.
    pub ended: bool,
    /// Lanes that have not ended, or are in another epoch.
    pub lanes_open: Vec<u32>,
    /// Samples handed out.
    pub delivered: u64,
    /// Of these, samples of shards that padding gave out a second time.
    pub repeated: u64,
    /// Samples given up with a reason, filtered ones included.
    pub skipped: u64,
    /// Samples that an adapter dropped without a word.
    pub silent: u64,
    /// Samples kept in buckets for the epoch that follows: its certificate says what became of them.
    pub kept: u64,
    /// What became of the samples that the epoch before had kept for this one. They are of that epoch's positions, not of this one's.
    pub late: Late,
    /// Shards that the tail policy left out.
    pub shards_dropped: Option<u64>,
    /// The first skips of each lane, with their reasons.
    pub skips: Vec<Skip>,
    /// Of everything that was settled, or kept for the next epoch.
    pub digest: Digest,
    /// Of everything that should have been, where the manifest has counts.
    pub expected: Option<Digest>,
}

impl Certificate {
    /// Whether the epoch was covered exactly once: all lanes have ended, nothing was dropped without a word, and, where the manifest has
    /// counts, exactly the positions of the epoch were settled or are kept for the next one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended
            && self.silent == 0
            && self.late.silent == 0
            && self.expected.is_none_or(|expected| expected == self.digest)
    }
}

/// Draws up the certificate of the epoch in which the lanes are. With a manifest that has counts, what was settled is compared with what
/// should have been.
///
/// # Errors
/// If the parts don't make up a whole, or the manifest is another one.
pub fn certify(
    parts: impl IntoIterator<Item = Checkpoint>,
    manifest: Option<&Manifest>,
) -> Result<Certificate> {
    let whole = Checkpoint::join(parts)?;
    let identity = whole.identity();
    if let Some(manifest) = manifest
        && manifest.hash() != identity.manifest
    {
        return Err(Error::checkpoint(format!(
            "it belongs to another manifest: {}, and not {}",
            identity.manifest,
            manifest.hash()
        )));
    }
    let epoch = whole.lanes().map(|(_, lane)| lane.epoch).min().unwrap_or(0);
    let lanes_open: Vec<_> = whole
        .lanes()
        .filter(|(_, lane)| !lane.ended || lane.epoch != epoch)
        .map(|(id, _)| id)
        .collect();
    let sources = || whole.lanes().flat_map(|(_, lane)| &lane.sources);
    let sum = |what: fn(&SourceProgress) -> u64| sources().map(what).sum();
    let mut digest = Digest::default();
    sources().for_each(|source| digest.merge(&source.digest));
    // What the epoch before has kept is not of this one.
    let kept = || {
        whole
            .lanes()
            .filter_map(|(_, lane)| lane.kept.as_ref().filter(|kept| kept.epoch == lane.epoch))
    };
    kept().for_each(|kept| digest.merge(&kept.digest()));
    let mut late = Late::default();
    whole.lanes().for_each(|(_, lane)| late.merge(&lane.late));
    let skips: Vec<_> = sources().flat_map(|source| &source.skips).cloned().collect();
    let order = manifest.and_then(|manifest| {
        let tail = [Tail::Pad, Tail::Drop, Tail::Uneven]
            .into_iter()
            .find(|tail| format!("{tail:?}").to_lowercase() == identity.tail)?;
        Some((manifest, identity.epoch_order(manifest, tail, epoch)?))
    });
    Ok(Certificate {
        epoch,
        ended: lanes_open.is_empty(),
        lanes_open,
        delivered: sum(|s| s.delivered),
        repeated: sum(|s| s.repeated),
        skipped: sum(|s| s.skipped),
        silent: sum(|s| s.silent),
        kept: kept().map(Kept::count).sum(),
        late,
        shards_dropped: order.as_ref().map(|(_, order)| order.dropped().count() as u64),
        expected: order.and_then(|(manifest, order)| expected(manifest, &order, epoch, &skips)),
        digest,
        skips,
    })
}

/// The digest of all positions of an epoch. A shard that was given up ends where that happened.
fn expected(manifest: &Manifest, order: &EpochOrder, epoch: u64, skips: &[Skip]) -> Option<Digest> {
    let mut digest = Digest::default();
    for place in 0..order.places() {
        let counted = manifest.samples(order.shard_at(place).0)?;
        let given_up =
            skips.iter().find(|skip| skip.rest && skip.place == place).map(|skip| skip.index + 1);
        (0..given_up.map_or(counted, |end| end.min(counted)))
            .for_each(|index| digest.add(epoch, 0, place, index));
    }
    Some(digest)
}
