//! Where a run begins that PiD's variables say.

use crate::error::Result;
use crate::progress::{LaneProgress, ShardState};
use crate::shard::{LegacySkip, LegacyStart, Manifest, Tail};

/// What the lanes have behind them: the first shards of each, whole.
#[derive(Debug)]
pub(super) struct LegacyProgress {
    epoch: u64,
    lanes: u32,
    skip: LegacySkip,
}

impl LegacyProgress {
    pub(super) fn new(
        start: LegacyStart,
        manifest: &Manifest,
        tail: Tail,
        lanes: u32,
        ranks: u32,
    ) -> Result<Self> {
        let skip = start.of_run(manifest, tail, lanes, ranks)?;
        if let Some(warning) = skip.warning() {
            tracing::warn!("{warning}");
        }
        Ok(Self { epoch: start.epoch, lanes, skip })
    }

    /// The progress of a lane. Its ordinals begin where shards of the mean size would end.
    pub(super) fn of_lane(&self, lane: u32) -> LaneProgress {
        let mut progress = LaneProgress::at(self.epoch, 1);
        let LegacySkip { shards_of_lane, chunk_size, .. } = self.skip;
        let Some(last) = shards_of_lane.checked_sub(1) else { return progress };
        if let Some(source) = progress.sources.first_mut() {
            source.settled.raise(shards_of_lane * chunk_size);
            source.shards.push(ShardState {
                place: last * u64::from(self.lanes) + u64::from(lane),
                first: last * chunk_size,
                stride: 1,
                end: Some(chunk_size),
            });
        }
        progress
    }
}
