//! Memory for chunks, used again: fresh memory costs a page fault for every 4 KiB, which is more than the reading itself.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Size of a buffer.
pub(super) const CHUNK: usize = 1 << 20;
/// Most buffers that are kept while nobody uses them.
const KEPT: usize = 16;

static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// [`CHUNK`] bytes to be overwritten. Free for others when it is dropped.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// One that was used before, or a new one.
    pub(super) fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(free.unwrap_or_else(|| vec![0; CHUNK]))
    }

    /// Its bytes: zeros, or what an earlier user left.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Its first `filled` bytes; the buffer is free again when the last slice of them is dropped. Few are copied instead, so that no
    /// slice keeps far more memory than it shows.
    pub(super) fn freeze(self, filled: usize) -> Bytes {
        let filled = Filled { buffer: self, filled: filled.min(CHUNK) };
        if filled.filled < CHUNK / 2 {
            Bytes::copy_from_slice(filled.as_ref())
        } else {
            Bytes::from_owner(filled)
        }
    }
}

struct Filled {
    buffer: Buffer,
    filled: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.0[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let room = std::mem::take(&mut self.0);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_free_when_its_last_slice_is_dropped() {
        let mut buffer = Buffer::take();
        buffer.room().fill(7);
        let at = buffer.0.as_ptr();
        let whole = buffer.freeze(CHUNK);
        assert_eq!(whole.len(), CHUNK);
        let slice = whole.slice(3..5);
        let is_free = || FREE.lock().unwrap().iter().any(|free| free.as_ptr() == at);
        drop(whole);
        assert!(!is_free());
        assert_eq!(slice, [7, 7][..]);
        drop(slice);
        // Another test may have taken it at once; it is whole all the same.
        assert_eq!(Buffer::take().room().len(), CHUNK);
    }

    #[test]
    fn a_buffer_that_nothing_was_read_into_is_free_again() {
        // Another test may take it at once, but not every time.
        assert!((0..1000).any(|_| {
            let buffer = Buffer::take();
            let at = buffer.0.as_ptr();
            drop(buffer);
            FREE.lock().unwrap().iter().any(|free| free.as_ptr() == at)
        }));
    }

    #[test]
    fn few_bytes_do_not_keep_a_buffer() {
        let mut buffer = Buffer::take();
        buffer.room()[..10].copy_from_slice(b"0123456789");
        let few = buffer.freeze(10);
        assert_eq!(few, b"0123456789"[..]);
        assert!(few.try_into_mut().is_ok_and(|alone| alone.capacity() < CHUNK));
    }
}
