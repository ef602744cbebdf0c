//! Memory of batches and pictures, used again: fresh memory costs a page fault for every 4 KiB, which is a good part of all work.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::tensor::Data;

/// What is smaller is left to the allocator, in bytes.
const LEAST: usize = 64 << 10;
/// Most bytes that are kept while nobody uses them.
const KEPT: usize = 512 << 20;
/// How many are looked at for one that fits, the newest first.
const LOOKED_AT: usize = 64;

static FLOATS: Pool<f32> = Pool::new();
static BYTES: Pool<u8> = Pool::new();

/// Room for `n` numbers: that of an array that was dropped, if one of about that size was.
pub(super) fn floats(n: usize) -> Vec<f32> {
    FLOATS.room(n)
}

/// Room for `n` bytes, likewise.
pub(crate) fn bytes(n: usize) -> Vec<u8> {
    BYTES.room(n)
}

/// `n` numbers, each of them to be overwritten.
pub(super) fn floats_to_fill(n: usize) -> Vec<f32> {
    FLOATS.to_fill(n)
}

/// `n` bytes, each of them to be overwritten.
pub(crate) fn bytes_to_fill(n: usize) -> Vec<u8> {
    BYTES.to_fill(n)
}

/// A copy of some bytes.
pub(crate) fn copy(of: &[u8]) -> Vec<u8> {
    let mut copy = bytes(of.len());
    copy.extend_from_slice(of);
    copy
}

/// Keeps the memory of an array that is not needed any more, if it is worth it.
pub(super) fn keep(data: Data) {
    match data {
        Data::F32(numbers) => FLOATS.put(numbers),
        Data::U8(bytes) => BYTES.put(bytes),
        _ => {}
    }
}

/// Arrays that nobody uses, as they were left.
struct Pool<T>(Mutex<Kept<T>>);

struct Kept<T> {
    /// The oldest first.
    rooms: VecDeque<Vec<T>>,
    bytes: usize,
}

fn size<T>(room: &Vec<T>) -> usize {
    room.capacity() * size_of::<T>()
}

impl<T: Copy + Default> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(Kept { rooms: VecDeque::new(), bytes: 0 }))
    }

    fn room(&self, n: usize) -> Vec<T> {
        let mut room = self.take(n);
        room.clear();
        room
    }

    fn to_fill(&self, n: usize) -> Vec<T> {
        let mut room = self.take(n);
        room.resize(n, T::default());
        room
    }

    fn take(&self, n: usize) -> Vec<T> {
        if n * size_of::<T>() >= LEAST {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |room: &Vec<T>| room.capacity() >= n && room.capacity() / 2 <= n;
            let mut newest = kept.rooms.iter().enumerate().rev().take(LOOKED_AT);
            let at = newest.find(|(_, room)| fits(room)).map(|(at, _)| at);
            if let Some(room) = at.and_then(|at| kept.rooms.remove(at)) {
                kept.bytes -= size(&room);
                return room;
            }
        }
        Vec::with_capacity(n)
    }

    fn put(&self, room: Vec<T>) {
        if (LEAST..=KEPT).contains(&size(&room)) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes += size(&room);
            kept.rooms.push_back(room);
            // The oldest go: what is needed may have another size by now.
            while kept.bytes > KEPT
                && let Some(oldest) = kept.rooms.pop_front()
            {
                kept.bytes -= size(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<T>(pool: &Pool<T>) -> usize {
        let kept = pool.0.lock().unwrap();
        assert_eq!(kept.bytes, kept.rooms.iter().map(size).sum::<usize>());
        kept.rooms.len()
    }

    #[test]
    fn what_is_dropped_is_taken_again_if_it_fits() {
        let pool = Pool::<u8>::new();
        let mut room = pool.room(3 * LEAST);
        room.extend([1, 2, 3]);
        let at = room.as_ptr();
        pool.put(room);
        for (n, why) in [(4 * LEAST, "too small"), (LEAST, "far too large")] {
            assert_eq!(pool.room(n).capacity(), n);
            assert_eq!(kept(&pool), 1, "{why}");
        }
        let again = pool.room(2 * LEAST);
        assert!(again.as_ptr() == at && again.is_empty());
        assert_eq!(kept(&pool), 0);
        pool.put(again);
        let again = pool.to_fill(2 * LEAST);
        assert!(again.as_ptr() == at && again.len() == 2 * LEAST);
    }

    #[test]
    fn the_newest_one_is_taken_first() {
        let pool = Pool::<u8>::new();
        let rooms = [1, 2, 3].map(|filled| vec![filled; LEAST]);
        rooms.into_iter().for_each(|room| pool.put(room));
        assert_eq!([(); 3].map(|()| pool.to_fill(LEAST)[0]), [3, 2, 1]);
    }

    #[test]
    fn little_is_kept() {
        let pool = Pool::<f32>::new();
        pool.put(Vec::with_capacity(LEAST / 4 - 1));
        pool.put(Vec::with_capacity(KEPT / 4 + 1));
        assert_eq!(kept(&pool), 0);
        for n in 0..60 {
            pool.put(Vec::with_capacity((10 << 20) / 4 + n));
        }
        assert_eq!(kept(&pool), 51);
        let smallest = |kept: &Kept<f32>| kept.rooms.iter().map(Vec::capacity).min();
        assert_eq!(smallest(&pool.0.lock().unwrap()), Some((10 << 20) / 4 + 9), "the newest");
    }
}
