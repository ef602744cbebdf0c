//! Memory of batches, used again: fresh memory costs a page fault for every 4 KiB, which for large batches is a good part of all work.

use std::sync::{Mutex, PoisonError};

use super::tensor::Data;

/// What is smaller is left to the allocator, in bytes.
const LEAST: usize = 1 << 20;
/// Most bytes that are kept while nobody uses them.
const KEPT: usize = 512 << 20;

static FLOATS: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());
static BYTES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Room for `n` numbers: that of a batch that was dropped, if it has about that size.
pub(super) fn floats(n: usize) -> Vec<f32> {
    take(&FLOATS, n)
}

/// Room for `n` bytes, likewise.
pub(super) fn bytes(n: usize) -> Vec<u8> {
    take(&BYTES, n)
}

/// Keeps the memory of an array that is not needed any more, if it is worth it.
pub(super) fn keep(data: Data) {
    match data {
        Data::F32(numbers) => put(&FLOATS, numbers),
        Data::U8(bytes) => put(&BYTES, bytes),
        _ => {}
    }
}

fn size<T>(room: &Vec<T>) -> usize {
    room.capacity() * size_of::<T>()
}

fn take<T>(pool: &Mutex<Vec<Vec<T>>>, n: usize) -> Vec<T> {
    if n * size_of::<T>() >= LEAST {
        let mut kept = pool.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |room: &Vec<T>| room.capacity() >= n && room.capacity() / 2 <= n;
        if let Some(at) = kept.iter().position(fits) {
            return kept.swap_remove(at);
        }
    }
    Vec::with_capacity(n)
}

fn put<T>(pool: &Mutex<Vec<Vec<T>>>, mut room: Vec<T>) {
    let bytes = size(&room);
    if (LEAST..=KEPT).contains(&bytes) {
        room.clear();
        let mut kept = pool.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(room);
        // The oldest go: batches may have another size by now.
        let mut sum: usize = kept.iter().map(size).sum();
        while sum > KEPT {
            sum -= size(&kept.remove(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_taken_again_if_it_fits() {
        let pool: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let mut room = take(&pool, 3 * LEAST);
        room.extend([1, 2, 3]);
        let at = room.as_ptr();
        put(&pool, room);
        for (n, why) in [(4 * LEAST, "too small"), (LEAST, "far too large")] {
            assert_eq!(take(&pool, n).capacity(), n);
            assert_eq!(pool.lock().unwrap().len(), 1, "{why}");
        }
        let again = take(&pool, 2 * LEAST);
        assert!(again.as_ptr() == at && again.is_empty());
        assert!(pool.lock().unwrap().is_empty());
    }

    #[test]
    fn little_is_kept() {
        let pool: Mutex<Vec<Vec<f32>>> = Mutex::default();
        put(&pool, Vec::with_capacity(LEAST / 4 - 1));
        put(&pool, Vec::with_capacity(KEPT / 4 + 1));
        assert!(pool.lock().unwrap().is_empty());
        for n in 0..60 {
            put(&pool, Vec::with_capacity((10 << 20) / 4 + n));
        }
        let kept = pool.lock().unwrap();
        assert_eq!(kept.len(), 51);
        assert!(kept.iter().all(|room| room.capacity() >= (10 << 20) / 4 + 9), "the newest");
    }
}
