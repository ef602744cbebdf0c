//! The tar parser (a first sketch of its interface).

use std::collections::VecDeque;

use bytes::Bytes;

use super::Step;
use crate::error::Result;

/// Walks an archive: push chunks, take members.
///
/// After an `Err` the archive is given up: `next` returns the end.
#[derive(Debug, Default)]
pub struct Parser {
    chunks: VecDeque<Bytes>,
    finished: bool,
}

impl Parser {
    /// A parser at the first byte.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// More bytes.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunks.push_back(chunk);
    }

    /// There are no more bytes.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The next member, or what is missing.
    ///
    /// # Errors
    /// The archive is broken: with byte offset and member, as far as known.
    pub fn next(&mut self) -> Result<Step> {
        Ok(Step::End { clean: true })
    }
}
