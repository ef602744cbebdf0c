//! How far a run is, to be looked at from another thread, and the wish to end it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Listing the input.
    Listing = 0,
    /// Reading sizes of pictures and videos.
    Measuring = 1,
    /// Writing shards.
    Writing = 2,
    /// Writing manifests.
    Finishing = 3,
    /// Reading shards.
    Checking = 4,
}

/// A window on a run of [`pack`](super::pack), and a switch to stop it.
#[derive(Debug, Default)]
pub struct PackControl {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

impl PackControl {
    /// What is being done.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Listing,
            1 => Phase::Measuring,
            2 => Phase::Writing,
            3 => Phase::Finishing,
            _ => Phase::Checking,
        }
    }

    /// Samples done in this phase.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Samples to do in this phase.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes of members written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the run at the next sample. Finished shards stay and are not made again by a run with [`Existing::Resume`](super::Existing).
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn enter(&self, phase: Phase, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, samples: u64, bytes: u64) {
        self.done.fetch_add(samples, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Fails if the run is to end.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::pack("interrupted")) } else { Ok(()) }
    }
}
