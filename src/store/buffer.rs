//! Memory for chunks, used again: fresh memory costs a page fault for every 4 KiB, which is more than the reading itself.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Size of a buffer.
pub(super) const CHUNK: usize = 1 << 20;
/// Most buffers that are kept while nobody uses them.
const KEPT: usize = 16;

static FREE: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

/// An empty vector of capacity [`CHUNK`].
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// One that was used before, or a new one.
    pub(super) fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Self(Vec::with_capacity(CHUNK)))
    }

    /// To be filled up to its capacity.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// What it was filled with; the buffer is free again when the last slice of that is dropped. Little is copied instead, so that no
    /// slice keeps far more memory than it shows.
    pub(super) fn freeze(self) -> Bytes {
        let filled = Filled(self.0);
        if filled.0.len() < CHUNK / 2 {
            Bytes::copy_from_slice(&filled.0)
        } else {
            Bytes::from_owner(filled)
        }
    }
}

struct Filled(Vec<u8>);

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT && buffer.capacity() == CHUNK {
            free.push(Buffer(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_free_when_its_last_slice_is_dropped() {
        let mut buffer = Buffer::take();
        buffer.room().resize(CHUNK, 7);
        let at = buffer.0.as_ptr();
        let whole = buffer.freeze();
        let slice = whole.slice(3..5);
        let is_free = || FREE.lock().unwrap().iter().any(|free| free.0.as_ptr() == at);
        drop(whole);
        assert!(!is_free());
        assert_eq!(slice, [7, 7][..]);
        drop(slice);
        // Another test may have taken it at once; it is empty all the same.
        assert!(Buffer::take().0.is_empty());
    }

    #[test]
    fn little_does_not_keep_a_buffer() {
        let mut buffer = Buffer::take();
        buffer.room().extend_from_slice(b"0123456789");
        let little = buffer.freeze();
        assert_eq!(little, b"0123456789"[..]);
        assert!(little.try_into_mut().is_ok_and(|alone| alone.capacity() < CHUNK));
    }
}
