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
    /// What it holds, and what is still to come of large members.
    expected: AtomicU64,
    /// Whether the trainer waits for this lane: then it reads on, whatever is held.
    awaited: AtomicBool,
}

/// Bytes that are held; dropping it gives them back. A clone holds nothing, since the bytes are there once.
#[derive(Debug, Default)]
pub struct Charge {
    lane: Option<Arc<LaneMemory>>,
    bytes: u64,
}

/// Bytes that are still to come of a large member; dropping it gives them back.
#[derive(Debug)]
pub struct Due {
    lane: Option<Arc<LaneMemory>>,
    bytes: u64,
    /// Whether they have their place in the budget.
    has_room: bool,
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
                expected: AtomicU64::new(0),
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

    /// It is to be so many bytes where it was so many before.
    fn expect(&self, before: u64, bytes: u64) {
        if bytes >= before {
            self.expected.fetch_add(bytes - before, Ordering::SeqCst);
            self.budget.expected.fetch_add(bytes - before, Ordering::SeqCst);
            return;
        }
        let sinks_below = |counter: &AtomicU64, limit: u64| {
            let from = counter.fetch_sub(before - bytes, Ordering::SeqCst);
            from >= limit && from - (before - bytes) < limit
        };
        let mine = sinks_below(&self.expected, self.share);
        if sinks_below(&self.budget.expected, self.budget.bytes) || mine {
            self.budget.room.notify_waiters();
        }
    }

    /// Says whether the trainer waits for this lane.
    pub fn set_awaited(&self, awaited: bool) {
        if !self.awaited.swap(awaited, Ordering::SeqCst) && awaited {
            self.budget.room.notify_waiters();
        }
    }

    /// Whether more may be read by one that has so much to take in. A large member whose bytes have their place in the budget may come,
    /// though its lane has more than its part then: the others lack it.
    fn has_room(&self, due: &mut Due) -> bool {
        let all = self.budget.expected.load(Ordering::SeqCst);
        let has_room = if due.bytes > 0 {
            due.has_room |= all <= self.budget.bytes;
            due.has_room
        } else {
            all < self.budget.bytes && self.expected.load(Ordering::SeqCst) < self.share
        };
        has_room || self.awaited.load(Ordering::SeqCst)
    }

    /// Waits until more may be read: until there is room, or the trainer waits for this lane. `due` is what this reader has to take in.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub async fn room(&self, due: &mut Due) {
        loop {
            let mut told = std::pin::pin!(self.budget.room.notified());
            // From here on nothing is missed.
            told.as_mut().enable();
            if self.has_room(due) {
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
        if bytes >= self.bytes {
            lane.held.fetch_add(bytes - self.bytes, Ordering::SeqCst);
        } else {
            lane.held.fetch_sub(self.bytes - bytes, Ordering::SeqCst);
        }
        lane.expect(self.bytes, bytes);
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

impl Due {
    /// Nothing yet of what this lane has to take in. Without a budget nothing is counted.
    #[must_use]
    pub fn new(lane: Option<&Arc<LaneMemory>>) -> Self {
        Self { lane: lane.cloned(), bytes: 0, has_room: false }
    }

    /// It is so many bytes now. With none the next large member asks for its place anew.
    pub fn set(&mut self, bytes: u64) {
        let Some(lane) = &self.lane else { return };
        lane.expect(self.bytes, bytes);
        self.bytes = bytes;
        self.has_room &= bytes > 0;
    }
}

impl Drop for Due {
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
        let mut nothing = [(); 4].map(|()| Due::new(Some(&lane)));
        let [one, two, three, four] = &mut nothing;
        let mut held = Charge::new(Some(&lane), 99);
        assert!(lane.room(one).now_or_never().is_some());
        held.set(100);
        let mut waits = Box::pin(lane.room(two));
        assert!(waits.as_mut().now_or_never().is_none());
        lane.set_awaited(true);
        assert!(waits.now_or_never().is_some());
        lane.set_awaited(false);
        let mut waits = Box::pin(lane.room(three));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(held);
        assert!(waits.now_or_never().is_some());
        assert!(lane.room(four).now_or_never().is_some());
    }

    #[test]
    fn who_waits_is_told_whoever_gives_back_last() {
        let [lane] = lanes();
        let rounds = 20_000;
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for bytes in [5, 96] {
                let (lane, barrier) = (&lane, &barrier);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let charge = Charge::new(Some(lane), bytes);
                        barrier.wait();
                        barrier.wait();
                        drop(charge);
                        barrier.wait();
                        barrier.wait();
                    }
                });
            }
            let mut missed = 0;
            for _ in 0..rounds {
                barrier.wait();
                let mut nothing = Due::new(Some(&lane));
                let mut waits = Box::pin(lane.room(&mut nothing));
                assert!(waits.as_mut().now_or_never().is_none());
                barrier.wait();
                barrier.wait();
                // It looks again only if it was told.
                missed += usize::from(waits.now_or_never().is_none());
                barrier.wait();
            }
            assert_eq!(missed, 0);
        });
    }

    #[test]
    fn what_a_large_member_needs_the_others_lack() {
        let [one, other] = lanes();
        let has_room = |lane: &LaneMemory, due: &mut Due| lane.room(due).now_or_never().is_some();
        let mut nothing = Due::new(Some(&one));
        let ahead = Charge::new(Some(&one), 60);
        // Of 200 bytes 160 are spoken for: the large member may come, and the other lane has 40.
        let mut due = Due::new(Some(&one));
        due.set(100);
        assert_eq!((one.held(), other.held()), (60, 0));
        assert!(has_room(&one, &mut due));
        assert!(!has_room(&one, &mut nothing), "its twin has no more than the lane's part");
        assert!(has_room(&other, &mut nothing));
        let held = Charge::new(Some(&other), 41);
        assert!(!has_room(&other, &mut nothing));
        assert!(has_room(&one, &mut due), "it had its place before");
        // Another one comes too late for that, until there is room.
        let mut late = Due::new(Some(&other));
        late.set(50);
        let mut waits = Box::pin(other.room(&mut late));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(due);
        assert!(waits.now_or_never().is_some());
        drop((ahead, held));
        // The next large member asks anew.
        late.set(0);
        late.set(201);
        assert!(!has_room(&other, &mut late));
    }
}
