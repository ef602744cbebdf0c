//! What a loader counts.

use std::time::{Duration, Instant};

/// Counters of a loader since it was started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Batches handed out.
    pub batches: u64,
    /// Samples handed out.
    pub samples: u64,
    /// Of these, samples of shards that a tail policy gave out a second time.
    pub repeated: u64,
    /// Errors skipped.
    pub faults: u64,
    /// Samples left out on purpose.
    pub filtered: u64,
    /// How long the trainer has waited for batches.
    pub waited: Duration,
    /// When the loader was started.
    pub started: Instant,
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            batches: 0,
            samples: 0,
            repeated: 0,
            faults: 0,
            filtered: 0,
            waited: Duration::ZERO,
            started: Instant::now(),
        }
    }

    /// Share of the time since the start that the trainer has waited for batches, from 0 to 1.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        let total = self.started.elapsed().as_secs_f64();
        if total > 0.0 { self.waited.as_secs_f64() / total } else { 0.0 }
    }
}
