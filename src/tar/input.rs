//! The bytes that were pushed and not yet used.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::header::{BLOCK, Block};
use crate::recycled;

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
    /// The first of the bytes that wait, where they belong to a piece that is larger than what has come of it.
    gathered: Vec<u8>,
}

/// A piece of more bytes is gathered as its chunks come, so that it is not there twice at the end.
pub(super) const LARGE: usize = 8 << 20;

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
        self.ungather();
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
        self.ungather();
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

    /// Takes the next `n` bytes out, all that it is asked for until they are there: as a slice if they fill at least half of their
    /// chunk, else as a copy. `None` if they aren't there.
    pub(super) fn take(&mut self, n: usize, copies: &mut Copies) -> Option<Bytes> {
        let in_one = self.chunks.front().is_some_and(|front| front.rest.len() >= n);
        if !self.gathered.is_empty() || (n > LARGE && !in_one) {
            return self.gather(n);
        }
        if self.length < n {
            return None;
        }
        let taken = match self.chunks.front() {
            None => Bytes::new(),
            Some(front) if front.rest.len() < n => {
                let mut whole = recycled::room(n);
                for chunk in &self.chunks {
                    let more = chunk.rest.len().min(n - whole.len());
                    whole.extend_from_slice(&chunk.rest[..more]);
                }
                recycled::bytes(whole)
            }
            Some(front) if n >= front.length.div_ceil(2) => front.rest.slice(..n),
            Some(front) => copies.copy(&front.rest[..n]),
        };
        self.skip(n as u64);
        Some(taken)
    }

    /// Moves what is there of the next `n` bytes into one piece, and takes it out once it is whole.
    fn gather(&mut self, n: usize) -> Option<Bytes> {
        // Memory that nothing was written to costs nothing, should far less come than a header says. Without room it grows.
        let _ = self.gathered.try_reserve_exact(n.saturating_sub(self.gathered.len()));
        while self.gathered.len() < n {
            let front = self.chunks.front_mut()?;
            let step = front.rest.len().min(n - self.gathered.len());
            self.gathered.extend_from_slice(&front.rest[..step]);
            front.rest.advance(step);
            if front.rest.is_empty() {
                self.chunks.pop_front();
            }
        }
        self.length -= n;
        self.offset += n as u64;
        Some(std::mem::take(&mut self.gathered).into())
    }

    /// Puts back what was gathered of a piece that is not wanted any more.
    fn ungather(&mut self) {
        if !self.gathered.is_empty() {
            let rest = Bytes::from(std::mem::take(&mut self.gathered));
            self.chunks.push_front(Chunk { length: rest.len(), rest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 1 << 20;

    /// Chunks of numbered bytes, of which some are pushed.
    fn pushed(chunks: usize) -> (Input, Vec<u8>) {
        let all: Vec<u8> = (0..chunks * CHUNK).map(|at| (at / 7) as u8).collect();
        let mut input = Input::from(1000);
        all.chunks(CHUNK).for_each(|chunk| input.push(Bytes::copy_from_slice(chunk)));
        (input, all)
    }

    #[test]
    fn a_large_piece_is_gathered_as_it_comes() {
        let all: Vec<u8> = (0..LARGE + 2 * CHUNK).map(|at| (at / 7) as u8).collect();
        let (mut input, mut copies) = (Input::default(), Copies::default());
        for (at, chunk) in all.chunks(CHUNK).enumerate() {
            assert!(input.take(LARGE + CHUNK, &mut copies).is_none());
            assert!(input.chunks.is_empty(), "nothing is there twice");
            assert_eq!((input.len(), input.offset()), (at * CHUNK, 0));
            input.push(Bytes::copy_from_slice(chunk));
            if at * CHUNK == LARGE {
                break;
            }
        }
        input.push(Bytes::copy_from_slice(&all[LARGE + CHUNK..]));
        let piece = input.take(LARGE + CHUNK, &mut copies).unwrap();
        assert!(piece == all[..LARGE + CHUNK]);
        assert_eq!((input.len(), input.offset()), (CHUNK, (LARGE + CHUNK) as u64));
        assert!(input.peek(CHUNK).unwrap() == &all[LARGE + CHUNK..]);
    }

    #[test]
    fn what_was_gathered_of_a_piece_that_never_comes_is_there_as_before() {
        let (mut input, all) = pushed(3);
        assert!(input.take(LARGE + 1, &mut Copies::default()).is_none());
        assert_eq!((input.len(), input.offset()), (all.len(), 1000));
        assert_eq!(input.skip(5), 5);
        assert_eq!((input.len(), input.offset()), (all.len() - 5, 1005));
        assert!(input.peek(all.len() - 5).unwrap() == &all[5..]);
    }

    #[test]
    fn a_large_piece_in_one_chunk_is_a_slice() {
        let mut input = Input::default();
        let chunk = Bytes::from(vec![1; LARGE + 10]);
        let at = chunk.as_ptr();
        input.push(chunk);
        assert_eq!(input.take(LARGE + 1, &mut Copies::default()).unwrap().as_ptr(), at);
    }
}
