//! A number of bytes for all that the lanes of a loader hold. Only reading waits for it, so that it can't change what is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// What all lanes may hold together.
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
    /// What the lanes hold, and what they have to take in.
    expected: AtomicU64,
    /// Told when there is room again, and when somebody has begun to wait for a lane.
    room: Notify,
}

/// What a lane holds, and how much it should be.
#[derive(Debug)]
pub struct LaneMemory {
    budget: Arc<Budget>,
    /// Its part of the budget.
    share: u64,
    held: AtomicU64,
    /// What is still to come of large members.
    due: AtomicU64,
    /// Whether the trainer waits for this lane: then it reads on, whatever is held.
    awaited: AtomicBool,
}

/// Bytes that are held, or due; dropping it gives them back. A clone holds nothing, since the bytes are there once.
#[derive(Debug, Default)]
pub struct Charge {
    lane: Option<Arc<LaneMemory>>,
    bytes: u64,
    is_due: bool,
}

impl LaneMemory {
    /// For so many lanes, which have so many bytes together.
    #[must_use]
    pub fn of_lanes(lanes: usize, bytes: u64) -> Vec<Arc<Self>> {
        let budget = Arc::new(Budget { bytes, expected: AtomicU64::new(0), room: Notify::new() });
        let lane = |_| {
            Arc::new(Self {
                budget: Arc::clone(&budget),
                share: bytes / lanes as u64,
                held: AtomicU64::new(0),
                due: AtomicU64::new(0),
                awaited: AtomicBool::new(false),
            })
        };
        (0..lanes).map(lane).collect()
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    /// What it holds, and what it has to take in.
    fn expected(&self) -> u64 {
        self.held() + self.due.load(Ordering::SeqCst)
    }

    const fn counter(&self, is_due: bool) -> &AtomicU64 {
        if is_due { &self.due } else { &self.held }
    }

    fn take(&self, bytes: u64, is_due: bool) {
        self.counter(is_due).fetch_add(bytes, Ordering::SeqCst);
        self.budget.expected.fetch_add(bytes, Ordering::SeqCst);
    }

    fn give_back(&self, bytes: u64, is_due: bool) {
        let crosses = |before: u64, limit: u64| before >= limit && before - bytes < limit;
        self.counter(is_due).fetch_sub(bytes, Ordering::SeqCst);
        let mine = crosses(self.expected() + bytes, self.share);
        let all =
            crosses(self.budget.expected.fetch_sub(bytes, Ordering::SeqCst), self.budget.bytes);
        if mine || all {
            self.budget.room.notify_waiters();
        }
    }

    /// Says whether the trainer waits for this lane.
    pub fn set_awaited(&self, awaited: bool) {
        if !self.awaited.swap(awaited, Ordering::SeqCst) && awaited {
            self.budget.room.notify_waiters();
        }
    }

    /// Whether more may be read. A lane that has to take in a large member may have more than its part, which the others then lack.
    fn has_room(&self) -> bool {
        let some_is_left = self.budget.expected.load(Ordering::SeqCst) < self.budget.bytes;
        let in_its_part = self.expected() < self.share || self.due.load(Ordering::SeqCst) > 0;
        some_is_left && in_its_part || self.awaited.load(Ordering::SeqCst)
    }

    /// Waits until more may be read: until there is room, or the trainer waits for this lane.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub async fn room(&self) {
        loop {
            let mut told = std::pin::pin!(self.budget.room.notified());
            // From here on nothing is missed.
            told.as_mut().enable();
            if self.has_room() {
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
        let mut charge = Self { lane: lane.cloned(), ..Self::default() };
        charge.set(bytes);
        charge
    }

    /// Nothing yet of what this lane has to take in.
    #[must_use]
    pub fn due(lane: Option<&Arc<LaneMemory>>) -> Self {
        Self { lane: lane.cloned(), bytes: 0, is_due: true }
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
            lane.take(bytes - self.bytes, self.is_due);
        } else {
            lane.give_back(self.bytes - bytes, self.is_due);
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

    /// With 100 bytes each.
    fn lanes<const N: usize>() -> [Arc<LaneMemory>; N] {
        LaneMemory::of_lanes(N, 100 * N as u64).try_into().unwrap()
    }

    #[test]
    fn what_is_held_is_counted_once() {
        let [lane] = lanes();
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
        let [lane] = lanes();
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

    #[test]
    fn what_a_large_member_needs_the_others_lack() {
        let [one, other] = lanes();
        let _ahead = Charge::new(Some(&one), 60);
        let mut waits = Box::pin(one.room());
        assert!(waits.as_mut().now_or_never().is_some());
        // Of 200 bytes 160 are spoken for: the large member may come, and the other lane has 40.
        let mut due = Charge::due(Some(&one));
        due.set(100);
        assert_eq!((one.held(), other.held()), (60, 0));
        assert!(one.room().now_or_never().is_some());
        let held = Charge::new(Some(&other), 40);
        assert!(other.room().now_or_never().is_none());
        assert!(one.room().now_or_never().is_none(), "together they have all");
        let mut waits = Box::pin(other.room());
        assert!(waits.as_mut().now_or_never().is_none());
        drop(due);
        assert!(waits.now_or_never().is_some());
        drop(held);
        // One's own part is the limit for all that is not large.
        let _more = Charge::new(Some(&one), 40);
        assert!(one.room().now_or_never().is_none());
        assert!(other.room().now_or_never().is_some());
    }
}
