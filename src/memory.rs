//! A number of bytes for all that a lane holds. Only reading waits for it, so that it can't change what is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// What a lane holds, and how much it should be.
#[derive(Debug)]
pub struct LaneMemory {
    budget: u64,
    held: AtomicU64,
    /// Whether the trainer waits for this lane: then it reads on, whatever is held.
    awaited: AtomicBool,
    /// Told when there is room again, and when somebody has begun to wait.
    room: Notify,
}

/// Bytes that are held; dropping it gives them back. A clone holds nothing, since the bytes are there once.
#[derive(Debug, Default)]
pub struct Charge {
    lane: Option<Arc<LaneMemory>>,
    bytes: u64,
}

impl LaneMemory {
    /// Of so many bytes.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            held: AtomicU64::new(0),
            awaited: AtomicBool::new(false),
            room: Notify::new(),
        }
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    fn take(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    fn give_back(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::SeqCst);
        if before >= self.budget && before - bytes < self.budget {
            self.room.notify_waiters();
        }
    }

    /// Says whether the trainer waits for this lane.
    pub fn set_awaited(&self, awaited: bool) {
        if !self.awaited.swap(awaited, Ordering::SeqCst) && awaited {
            self.room.notify_waiters();
        }
    }

    /// Waits until more may be read: until less than the budget is held, or the trainer waits for this lane.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub async fn room(&self) {
        loop {
            let mut told = std::pin::pin!(self.room.notified());
            // From here on nothing is missed.
            told.as_mut().enable();
            if self.held() < self.budget || self.awaited.load(Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }
}

impl Charge {
    /// So many bytes are held by what this lane has read. Never waits; without a budget nothing is counted.
    #[must_use]
    pub fn new(lane: Option<&Arc<LaneMemory>>, bytes: u64) -> Self {
        let lane = lane.cloned();
        if let Some(lane) = &lane {
            lane.take(bytes);
        }
        Self { bytes: if lane.is_some() { bytes } else { 0 }, lane }
    }

    /// Whether anybody counts.
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.lane.is_some()
    }

    /// So many of them are held no longer.
    pub fn give_back(&mut self, bytes: u64) {
        self.set(self.bytes.saturating_sub(bytes));
    }

    /// It is so many bytes now.
    pub fn set(&mut self, bytes: u64) {
        let Some(lane) = &self.lane else { return };
        if bytes > self.bytes {
            lane.take(bytes - self.bytes);
        } else {
            lane.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Clone for Charge {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_is_held_is_counted_once() {
        let lane = Arc::new(LaneMemory::new(100));
        let mut one = Charge::new(Some(&lane), 30);
        let two = Charge::new(Some(&lane), 50);
        drop(two.clone());
        assert_eq!(lane.held(), 80);
        one.set(10);
        assert_eq!(lane.held(), 60);
        one.give_back(4);
        assert_eq!(lane.held(), 56);
        one.set(200);
        drop(two);
        assert_eq!(lane.held(), 200);
        drop(one);
        assert_eq!(lane.held(), 0);
        let mut nobody = Charge::new(None, 7);
        nobody.set(9);
        assert!(!nobody.counts());
    }

    #[test]
    fn reading_waits_for_room_or_until_it_is_awaited() {
        let lane = Arc::new(LaneMemory::new(100));
        let mut held = Charge::new(Some(&lane), 99);
        assert!(lane.room().now_or_never().is_some());
        held.set(100);
        let mut waits = Box::pin(lane.room());
        assert!(waits.as_mut().now_or_never().is_none());
        lane.set_awaited(true);
        assert!(waits.now_or_never().is_some());
        lane.set_awaited(false);
        let mut waits = Box::pin(lane.room());
        assert!(waits.as_mut().now_or_never().is_none());
        drop(held);
        assert!(waits.now_or_never().is_some());
    }
}
