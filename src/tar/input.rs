//! The bytes that were pushed and not yet used.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::header::{BLOCK, Block};

/// A chunk: what is left of it, and how long it was at first.
#[derive(Debug)]
struct Chunk {
    rest: Bytes,
    length: usize,
}

/// Pieces of at most this many bytes share a block of memory.
const SMALL: usize = 1 << 10;
/// Size of a block that pieces share: it lives as long as the last of them.
const SHARED: usize = 32 << 10;

/// Where names and small members are copied to: a block for many, since to allocate one costs more than to copy one.
#[derive(Debug, Default)]
pub(super) struct Copies {
    room: BytesMut,
}

impl Copies {
    pub(super) fn copy(&mut self, piece: &[u8]) -> Bytes {
        if piece.len() > SMALL {
            return Bytes::copy_from_slice(piece);
        }
        if self.room.capacity() < piece.len() {
            self.room = BytesMut::with_capacity(SHARED);
        }
        self.room.extend_from_slice(piece);
        self.room.split().freeze()
    }
}

/// A queue of chunks with an offset.
#[derive(Debug, Default)]
pub(super) struct Input {
    chunks: VecDeque<Chunk>,
    /// Bytes in all chunks.
    length: usize,
    /// Bytes that were used before.
    offset: u64,
    /// Where bytes that lie in several chunks are put together.
    scratch: Vec<u8>,
}

impl Input {
    /// Bytes that begin somewhere in an archive.
    pub(super) fn from(offset: u64) -> Self {
        Self { offset, ..Self::default() }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.length += chunk.len();
            self.chunks.push_back(Chunk { length: chunk.len(), rest: chunk });
        }
    }

    /// How many bytes wait.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Where in the archive the next byte stands.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `n` bytes in one piece, if they are there. They stay.
    pub(super) fn peek(&mut self, n: usize) -> Option<&[u8]> {
        if self.length < n {
            return None;
        }
        if self.chunks.front().is_some_and(|chunk| chunk.rest.len() >= n) {
            return self.chunks.front().map(|chunk| &chunk.rest[..n]);
        }
        self.scratch.clear();
        for chunk in &self.chunks {
            let more = chunk.rest.len().min(n - self.scratch.len());
            self.scratch.extend_from_slice(&chunk.rest[..more]);
        }
        Some(&self.scratch)
    }

    /// The next block, if it is there. It stays.
    pub(super) fn block(&mut self) -> Option<&Block> {
        self.peek(BLOCK)?.first_chunk()
    }

    /// Drops up to `n` bytes, says how many.
    pub(super) fn skip(&mut self, n: u64) -> u64 {
        let dropped = usize::try_from(n).map_or(self.length, |n| n.min(self.length));
        let mut left = dropped;
        while left > 0 {
            let Some(front) = self.chunks.front_mut() else { break };
            let step = left.min(front.rest.len());
            front.rest.advance(step);
            left -= step;
            if front.rest.is_empty() {
                self.chunks.pop_front();
            }
        }
        self.length -= dropped;
        self.offset += dropped as u64;
        dropped as u64
    }

    /// Takes the next `n` bytes out: as a slice if they fill at least half of their chunk, else as a copy. `None` if they aren't there.
    pub(super) fn take(&mut self, n: usize, copies: &mut Copies) -> Option<Bytes> {
        if self.length < n {
            return None;
        }
        let taken = match self.chunks.front() {
            None => Bytes::new(),
            Some(front) if front.rest.len() < n => {
                let mut whole = Vec::with_capacity(n);
                for chunk in &self.chunks {
                    let more = chunk.rest.len().min(n - whole.len());
                    whole.extend_from_slice(&chunk.rest[..more]);
                }
                whole.into()
            }
            Some(front) if n >= front.length.div_ceil(2) => front.rest.slice(..n),
            Some(front) => copies.copy(&front.rest[..n]),
        };
        self.skip(n as u64);
        Some(taken)
    }
}
