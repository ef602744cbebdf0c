//! One number of bytes for all that is held ahead, and one number of connections. Clones share it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes may be held ahead, all in all. Whoever buffers takes a [`Reservation`] first and gives it back as the bytes are handed on.
///
/// ```
/// use shardstream::store::Budget;
/// let budget = Budget::new(100);
/// let mut held = budget.try_reserve(80).unwrap();
/// assert!(budget.try_reserve(30).is_none());
/// held.give_back(50);
/// assert!(budget.try_reserve(30).is_some());
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    room: Arc<Semaphore>,
    total: u32,
}

/// Bytes taken from a [`Budget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Reservation(Option<OwnedSemaphorePermit>);

impl Budget {
    /// Of so many bytes, at most 4 GiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { room: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Waits until there is room; first come, first served. More than the whole budget counts as the whole budget.
    pub async fn reserve(&self, bytes: u64) -> Reservation {
        // The semaphore is never closed.
        Reservation(Arc::clone(&self.room).acquire_many_owned(self.capped(bytes)).await.ok())
    }

    /// As [`Budget::reserve`], if there is room now.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        Arc::clone(&self.room)
            .try_acquire_many_owned(self.capped(bytes))
            .ok()
            .map(|permit| Reservation(Some(permit)))
    }

    /// Bytes that are reserved now.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        (self.total as usize - self.room.available_permits()) as u64
    }

    fn capped(&self, bytes: u64) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.total)
    }
}

impl Reservation {
    /// That of something that is allowed beyond the budget.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Gives back a part, or what is left of it.
    pub fn give_back(&mut self, bytes: u64) {
        if let Some(permit) = &mut self.0 {
            drop(
                permit
                    .split(usize::try_from(bytes).unwrap_or(usize::MAX).min(permit.num_permits())),
            );
        }
    }
}

/// How many connections may be open at once.
#[derive(Debug, Clone)]
pub struct Limit(Arc<Semaphore>);

impl Limit {
    /// So many, at least one.
    #[must_use]
    pub fn new(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new(connections.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Waits until one more may be opened, which is until the returned value is dropped.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }

    /// How many may still be opened.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(10);
        let mut a = budget.try_reserve(6).unwrap();
        let b = budget.reserve(4).now_or_never().unwrap();
        assert!(budget.reserve(1).now_or_never().is_none());
        a.give_back(2);
        assert_eq!(budget.reserved(), 8);
        a.give_back(u64::MAX);
        drop(b);
        assert_eq!(budget.reserved(), 0);
        a.give_back(1);
        assert_eq!(budget.reserved(), 0);
        // More than there is: all of it, and no wait for ever.
        let all = budget.reserve(1000).now_or_never().unwrap();
        assert_eq!(budget.reserved(), 10);
        drop(all);
        let mut none = Reservation::none();
        none.give_back(5);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn connections_are_counted() {
        let limit = Limit::new(0);
        let one = limit.acquire().now_or_never().unwrap();
        assert!(limit.acquire().now_or_never().is_none());
        drop(one);
        assert_eq!(limit.free(), 1);
    }
}
