//! What is settled of a lane after so many samples, without reading them: the order of a shuffled lane is a function of counts and hashes.

use crate::position::{Mark, Position, TICKS};
use crate::progress::{LaneProgress, SourceProgress};
use crate::random::{delay, hash};
use crate::sample::Origin;
use crate::shard::{EpochOrder, Manifest};

/// A lane in an epoch whose chain is at most one `shuffle` behind the grouping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) lane: u32,
    pub(crate) shuffle: Option<u64>,
}

/// The lane as it is when its first `samples` samples have been delivered, none of them faulty. `None` where the manifest has no counts.
///
/// Computes the due times of a window of 16 times the shuffle's mean; of what lies before it only the shards are counted.
pub(crate) fn after(
    manifest: &Manifest,
    order: &EpochOrder,
    chain: Chain,
    samples: u64,
) -> Option<LaneProgress> {
    let Chain { seed, epoch, lane, shuffle } = chain;
    let origin = Origin { seed, epoch, lane, ..Origin::default() };
    // No delay is longer than 8 times the mean: what is so far below is settled, what is so far above is not.
    let reach = shuffle.unwrap_or(0).saturating_mul(8) + 1;
    let (from, to) = (samples.saturating_sub(reach), samples + reach);
    let mut window = Vec::new();
    let mut first = 0;
    let mut starts = Vec::new();
    for place in order.places_of(lane) {
        let count = manifest.samples(order.shard_at(place).0)?;
        let past = first + count;
        if past > from && first < to {
            starts.push((place, first, count));
            window.extend((first.max(from)..past.min(to)).map(|ordinal| {
                let delay =
                    shuffle.map_or(0, |mean| delay(hash(&[origin.random_key(ordinal), 0]), mean));
                (ordinal * TICKS + delay, ordinal)
            }));
        }
        first = past;
        if first >= to {
            break;
        }
    }
    window.sort_unstable();
    window.truncate(usize::try_from(samples - from).unwrap_or(usize::MAX));
    let mut source = SourceProgress::default();
    // Everything below the window counts as delivered.
    source.settled.raise(from);
    let lanes = u64::from(order.lanes());
    for &(_, ordinal) in &window {
        let &(place, first, count) = starts.iter().rev().find(|(_, first, _)| *first <= ordinal)?;
        let index = ordinal - first;
        let position = Position { epoch, lane, source: 0, ordinal, place, index };
        source.settle(&position, &Mark { last: index + 1 == count, ..Mark::read(ordinal, index) });
    }
    // Where reading begins, even if nothing of that shard is settled yet.
    let &(place, first, _) = starts.first()?;
    source.begin_at(place, first);
    source.delivered = samples;
    source.raise(source.settled.floor(), lanes);
    Some(LaneProgress { sources: vec![source], ..LaneProgress::at(epoch, 0) })
}
