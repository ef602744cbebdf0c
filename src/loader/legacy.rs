//! Where a run begins that PiD's variables say.

use crate::error::Result;
use crate::progress::{LaneProgress, ShardState};
use crate::shard::{LegacyStart, Manifest, Tail};

/// What the lanes have behind them: the first shards of each, whole.
#[derive(Debug)]
pub(super) struct LegacyProgress {
    epoch: u64,
    lanes: u32,
    chunk_size: u64,
    skipped: u64,
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
        let chunk_size = manifest.total_samples().unwrap_or_default() / manifest.len();
        if let Some(warning) = skip.warning() {
            tracing::warn!("{warning}");
        }
        Ok(Self { epoch: start.epoch, lanes, chunk_size, skipped: skip.shards_of_lane })
    }

    /// The progress of a lane. Its ordinals begin where shards of the mean size would end.
    pub(super) fn of_lane(&self, lane: u32) -> LaneProgress {
        let mut progress = LaneProgress::at(self.epoch, 1);
        let Some(last) = self.skipped.checked_sub(1) else { return progress };
        if let Some(source) = progress.sources.first_mut() {
            source.settled.raise(self.skipped * self.chunk_size);
            source.shards.push(ShardState {
                place: last * u64::from(self.lanes) + u64::from(lane),
                first: last * self.chunk_size,
                stride: 1,
                end: Some(self.chunk_size),
            });
        }
        progress
    }
}
