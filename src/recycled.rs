//! Memory of batches, of pictures, and of members that are copied out of their chunks, used again: fresh memory costs a page fault for every 4 KiB, which is a good part of all work.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// What is smaller is left to the allocator, in bytes.
const LEAST: usize = 64 << 10;
/// Most bytes that are kept while nobody uses them.
const KEPT: usize = 512 << 20;
/// Once all that was lent at the peak has come back, the peak is lower by about half of this part.
const FORGET: u128 = 16;
/// How many are looked at for one that fits, the newest first.
const LOOKED_AT: usize = 64;

/// A type of which arrays are kept.
pub(crate) trait Recycled: Copy + Default + 'static {
    /// Where they are.
    fn pool() -> &'static Pool<Self>;
}

macro_rules! recycled {
    ($($t:ty)*) => {$(
        impl Recycled for $t {
            fn pool() -> &'static Pool<Self> {
                static POOL: Pool<$t> = Pool::new();
                &POOL
            }
        }
    )*};
}

recycled!(u8 u16 f32);

/// Room for `n` elements: that of an array that was dropped, if one of about that size was.
pub(crate) fn room<T: Recycled>(n: usize) -> Vec<T> {
    T::pool().room(n)
}

/// `n` elements, each of them to be overwritten.
pub(crate) fn to_fill<T: Recycled>(n: usize) -> Vec<T> {
    T::pool().to_fill(n)
}

/// `n` elements of this value.
pub(crate) fn filled<T: Recycled>(n: usize, value: T) -> Vec<T> {
    let mut filled = room(n);
    filled.resize(n, value);
    filled
}

/// A copy of some elements.
pub(crate) fn copy<T: Recycled>(of: &[T]) -> Vec<T> {
    let mut copy = room(of.len());
    copy.extend_from_slice(of);
    copy
}

/// Keeps the memory of an array that is not needed any more, if it was taken here.
pub(crate) fn keep<T: Recycled>(array: Vec<T>) {
    T::pool().put(array);
}

/// That an array is somebody else's from now on.
pub(crate) fn give_away<T: Recycled>(array: &Vec<T>) {
    T::pool().give_away(array);
}

/// Bytes whose memory is kept when the last slice of them is dropped.
pub(crate) fn bytes(array: Vec<u8>) -> Bytes {
    if array.capacity() < LEAST { array.into() } else { Bytes::from_owner(Lent(array)) }
}

struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.0));
    }
}

/// Arrays that nobody uses, as they were left.
pub(crate) struct Pool<T>(Mutex<Rooms<T>>);

struct Rooms<T> {
    /// The oldest first.
    kept: VecDeque<Vec<T>>,
    kept_bytes: usize,
    /// Bytes that were taken and have not come back.
    lent_bytes: usize,
    /// The most of them; comes down slowly. Little more is there, lent and kept: what isn't needed any more is given back.
    peak_bytes: usize,
}

fn size<T>(room: &Vec<T>) -> usize {
    room.capacity() * size_of::<T>()
}

impl<T: Copy + Default> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(Rooms {
            kept: VecDeque::new(),
            kept_bytes: 0,
            lent_bytes: 0,
            peak_bytes: 0,
        }))
    }

    fn room(&self, n: usize) -> Vec<T> {
        let mut room = self.take(n, Vec::with_capacity);
        room.clear();
        room
    }

    fn to_fill(&self, n: usize) -> Vec<T> {
        // Memory that is new is zero as it comes from the system: nothing writes to it twice.
        let mut room = self.take(n, |n| vec![T::default(); n]);
        room.resize(n, T::default());
        room
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, n: usize, new: impl FnOnce(usize) -> Vec<T>) -> Vec<T> {
        if n * size_of::<T>() < LEAST {
            return new(n);
        }
        let again = self.rooms().take(n);
        again.unwrap_or_else(|| {
            let new = new(n);
            // What goes is freed when nobody waits for the lock any more.
            let _gone = self.rooms().lend_new(size(&new));
            new
        })
    }

    fn put(&self, room: Vec<T>) {
        if size(&room) >= LEAST {
            // What goes is freed when nobody waits for the lock any more.
            let _gone = self.rooms().put(room);
        }
    }

    fn give_away(&self, room: &Vec<T>) {
        if size(room) >= LEAST {
            let mut rooms = self.rooms();
            rooms.lent_bytes = rooms.lent_bytes.saturating_sub(size(room));
        }
    }
}

impl<T> Rooms<T> {
    fn lend(&mut self, bytes: usize) {
        self.lent_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.lent_bytes);
    }

    /// Lends what was not kept here, and says which ones are not kept any more.
    fn lend_new(&mut self, bytes: usize) -> Vec<Vec<T>> {
        self.lend(bytes);
        self.too_many()
    }

    fn take(&mut self, n: usize) -> Option<Vec<T>> {
        let fits = |room: &Vec<T>| room.capacity() >= n && room.capacity() - n <= n / 4;
        let mut newest = self.kept.iter().enumerate().rev().take(LOOKED_AT);
        let (at, _) = newest.find(|(_, room)| fits(room))?;
        let room = self.kept.remove(at)?;
        self.kept_bytes -= size(&room);
        self.lend(size(&room));
        Some(room)
    }

    /// Keeps a room that was taken here, and says which ones are not kept any more.
    fn put(&mut self, room: Vec<T>) -> Vec<Vec<T>> {
        let bytes = size(&room);
        if bytes > self.lent_bytes {
            return vec![room];
        }
        self.lent_bytes -= bytes;
        let idle = (self.peak_bytes - self.lent_bytes) as u128;
        self.peak_bytes -= (idle * bytes as u128 / (FORGET * self.peak_bytes as u128)) as usize;
        self.kept_bytes += bytes;
        self.kept.push_back(room);
        self.too_many()
    }

    /// Takes out what is more than was needed at once.
    fn too_many(&mut self) -> Vec<Vec<T>> {
        let mut gone = Vec::new();
        // The peak is never below what is lent.
        let most = (self.peak_bytes + self.peak_bytes / 4 - self.lent_bytes).min(KEPT);
        while self.kept_bytes > most
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= size(&oldest);
            gone.push(oldest);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<T: Copy + Default>(pool: &Pool<T>) -> usize {
        let rooms = pool.rooms();
        assert_eq!(rooms.kept_bytes, rooms.kept.iter().map(size).sum::<usize>());
        rooms.kept.len()
    }

    #[test]
    fn what_is_dropped_is_taken_again_if_it_fits() {
        let pool = Pool::<u8>::new();
        // So much was needed at once.
        pool.give_away(&pool.room(40 * LEAST));
        let mut room = pool.room(3 * LEAST);
        room.extend([1, 2, 3]);
        let at = room.as_ptr();
        pool.put(room);
        for (n, why) in [(4 * LEAST, "too small"), (2 * LEAST, "far too large")] {
            assert_eq!(pool.room(n).capacity(), n);
            assert_eq!(kept(&pool), 1, "{why}");
        }
        let again = pool.room(5 * LEAST / 2);
        assert!(again.as_ptr() == at && again.is_empty());
        assert_eq!(kept(&pool), 0);
        pool.put(again);
        let again = pool.to_fill(5 * LEAST / 2);
        assert!(again.as_ptr() == at && again.len() == 5 * LEAST / 2);
    }

    #[test]
    fn bytes_come_back_with_their_last_slice() {
        // A size that no other test takes.
        let mut array = room(3_000_017);
        array.resize(3_000_017, 7);
        let at = array.as_ptr();
        let whole = bytes(array);
        let slice = whole.slice(5..9);
        drop(whole);
        let other: Vec<u8> = room(3_000_017);
        assert_ne!(other.as_ptr(), at);
        drop(bytes(other));
        assert_eq!(slice, [7; 4][..]);
        drop(slice);
        let again: Vec<u8> = room(2_900_000);
        assert_eq!(again.as_ptr(), at);
        assert_eq!(bytes(vec![1, 2]), [1, 2][..]);
    }

    #[test]
    fn the_newest_one_is_taken_first() {
        let pool = Pool::<u8>::new();
        let mut rooms = [(); 3].map(|()| pool.to_fill(LEAST));
        rooms.iter_mut().zip(1..).for_each(|(room, filled)| room.fill(filled));
        rooms.into_iter().for_each(|room| pool.put(room));
        assert_eq!([(); 3].map(|()| pool.to_fill(LEAST)[0]), [3, 2, 1]);
    }

    #[test]
    fn only_what_was_taken_is_kept() {
        let pool = Pool::<f32>::new();
        pool.put(vec![0.0; LEAST]);
        assert_eq!(kept(&pool), 0, "from elsewhere");
        let (small, given) = (pool.room(LEAST / 4 - 1), pool.room(LEAST));
        pool.put(small);
        pool.give_away(&given);
        pool.put(given);
        assert_eq!(kept(&pool), 0, "too small, or given away");
        // As many as were there at once, but not more than the limit.
        let rooms: Vec<_> = (0..60).map(|n| pool.room((10 << 20) / 4 + n)).collect();
        rooms.into_iter().for_each(|room| pool.put(room));
        assert_eq!(kept(&pool), 51);
        let smallest = pool.rooms().kept.iter().map(Vec::capacity).min();
        assert!(smallest.is_some_and(|smallest| smallest >= (10 << 20) / 4 + 9), "the newest");
    }

    #[test]
    fn what_does_not_fit_makes_room_for_what_is_needed() {
        let pool = Pool::<u8>::new();
        let small: Vec<_> = (0..100).map(|_| pool.room(LEAST)).collect();
        small.into_iter().for_each(|room| pool.put(room));
        let _large: Vec<_> = (0..40).map(|_| pool.room(2 * LEAST)).collect();
        let rooms = pool.rooms();
        let all = rooms.kept_bytes + rooms.lent_bytes;
        assert!(all <= 125 * LEAST, "{} in place of 100", all / LEAST);
    }

    #[test]
    fn what_is_not_needed_any_more_is_given_back() {
        let pool = Pool::<u8>::new();
        let many: Vec<_> = (0..100).map(|_| pool.room(LEAST)).collect();
        many.into_iter().for_each(|room| pool.put(room));
        assert!(kept(&pool) > 50);
        for _ in 0..10_000 {
            pool.put(pool.room(LEAST));
        }
        assert!((1..5).contains(&kept(&pool)), "{}", kept(&pool));
    }
}
