//! The bytes that were pushed and not yet used.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::header::{BLOCK, Block};
use crate::recycled;

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
            return recycled::bytes(recycled::copy(piece));
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
    /// What is left of the first chunk: no bytes only if nothing waits behind it.
    front: Bytes,
    /// How long that chunk was at first.
    front_length: usize,
    behind: VecDeque<Bytes>,
    /// Bytes in those.
    behind_length: usize,
    /// Where in the archive they end.
    end: u64,
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
        Self { end: offset, ..Self::default() }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.end += chunk.len() as u64;
        if self.front.is_empty() {
            self.front_length = chunk.len();
            self.front = chunk;
        } else if !chunk.is_empty() {
            self.behind_length += chunk.len();
            self.behind.push_back(chunk);
        }
    }

    /// How many bytes wait.
    pub(super) const fn len(&self) -> usize {
        self.gathered.len() + self.front.len() + self.behind_length
    }

    /// Where in the archive the next byte stands.
    pub(super) const fn offset(&self) -> u64 {
        self.end - self.len() as u64
    }

    /// Whether the next `n` bytes lie in one chunk.
    fn in_front(&self, n: usize) -> bool {
        self.gathered.is_empty() && self.front.len() >= n
    }

    /// The next `n` bytes in one piece, if they are there. They stay.
    pub(super) fn peek(&mut self, n: usize) -> Option<&[u8]> {
        if self.in_front(n) { Some(&self.front[..n]) } else { self.peek_across(n) }
    }

    #[cold]
    fn peek_across(&mut self, n: usize) -> Option<&[u8]> {
        self.ungather();
        if self.len() < n {
            return None;
        }
        self.scratch.clear();
        for chunk in std::iter::once(&self.front).chain(&self.behind) {
            let more = chunk.len().min(n - self.scratch.len());
            self.scratch.extend_from_slice(&chunk[..more]);
        }
        Some(&self.scratch)
    }

    /// The next block, if it is there. It stays.
    pub(super) fn block(&mut self) -> Option<&Block> {
        self.peek(BLOCK)?.first_chunk()
    }

    /// Drops up to `n` bytes, says how many.
    pub(super) fn skip(&mut self, n: u64) -> u64 {
        match usize::try_from(n) {
            Ok(few) if self.in_front(few) && few < self.front.len() => {
                self.front.advance(few);
                n
            }
            _ => self.skip_across(n),
        }
    }

    #[cold]
    fn skip_across(&mut self, n: u64) -> u64 {
        self.ungather();
        let dropped = usize::try_from(n).map_or(self.len(), |n| n.min(self.len()));
        let mut left = dropped;
        while left > 0 {
            let step = left.min(self.front.len());
            self.advance(step);
            left -= step;
        }
        dropped as u64
    }

    /// Drops bytes of the first chunk; the next one follows it.
    fn advance(&mut self, n: usize) {
        self.front.advance(n);
        if self.front.is_empty() {
            self.front = self.behind.pop_front().unwrap_or_default();
            self.front_length = self.front.len();
            self.behind_length -= self.front_length;
        }
    }

    /// Takes the next `n` bytes out, all that it is asked for until they are there: as a slice if they fill at least half of their
    /// chunk, else as a copy. `None` if they aren't there.
    pub(super) fn take(&mut self, n: usize, copies: &mut Copies) -> Option<Bytes> {
        if !self.in_front(n) {
            return self.take_across(n);
        }
        let taken = if n >= self.front_length.div_ceil(2) {
            self.front.slice(..n)
        } else {
            copies.copy(&self.front[..n])
        };
        self.skip(n as u64);
        Some(taken)
    }

    #[cold]
    fn take_across(&mut self, n: usize) -> Option<Bytes> {
        if !self.gathered.is_empty() || n > LARGE {
            return self.gather(n);
        }
        if self.len() < n {
            return None;
        }
        let mut whole = recycled::room(n);
        while whole.len() < n {
            let step = self.front.len().min(n - whole.len());
            whole.extend_from_slice(&self.front[..step]);
            self.advance(step);
        }
        Some(recycled::bytes(whole))
    }

    /// Moves what is there of the next `n` bytes into one piece, and takes it out once it is whole.
    fn gather(&mut self, n: usize) -> Option<Bytes> {
        // Memory that nothing was written to costs nothing, should far less come than a header says. Without room it grows.
        let _ = self.gathered.try_reserve_exact(n.saturating_sub(self.gathered.len()));
        while self.gathered.len() < n {
            if self.front.is_empty() {
                return None;
            }
            let step = self.front.len().min(n - self.gathered.len());
            self.gathered.extend_from_slice(&self.front[..step]);
            self.advance(step);
        }
        Some(std::mem::take(&mut self.gathered).into())
    }

    /// Puts back what was gathered of a piece that is not wanted any more.
    fn ungather(&mut self) {
        if !self.gathered.is_empty() {
            let gathered = Bytes::from(std::mem::take(&mut self.gathered));
            let front = std::mem::replace(&mut self.front, gathered);
            self.front_length = self.front.len();
            if !front.is_empty() {
                self.behind_length += front.len();
                self.behind.push_front(front);
            }
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
            assert!(input.front.is_empty() && input.behind.is_empty(), "nothing is there twice");
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
