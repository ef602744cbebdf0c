//! `shuffle`: each sample is delayed by a keyed random time and leaves when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::held::Held;
use crate::error::Result;
use crate::position::{Mark, Position, TICKS};
use crate::random::{delay, hash};
use crate::recipe;
use crate::sample::Sample;

/// How far samples are mixed: [`SampleStream::shuffle`](super::SampleStream::shuffle) takes a number, or this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shuffling {
    /// Mean delay in samples, and the number of samples held on average. Mixes as a classical buffer of this size.
    pub mean: u64,
    /// No sample leaves before this many were read (0: the first leaves as soon as it is due).
    pub initial: u64,
}

impl Shuffling {
    /// A mean delay of `mean` samples. 1 or less hardly mixes.
    #[must_use]
    pub const fn mean(mean: u64) -> Self {
        Self { mean, initial: 0 }
    }

    /// Holds the first samples back until this many were read.
    #[must_use]
    pub const fn initial(mut self, samples: u64) -> Self {
        self.initial = samples;
        self
    }

    /// When a sample is due: its time and a delay that follows from its identity alone.
    fn due(self, mark: &Mark) -> u64 {
        let due = mark.time.saturating_add(delay(hash(&[mark.key, mark.stage.into()]), self.mean));
        due.max(self.initial.saturating_mul(TICKS))
    }
}

impl From<u64> for Shuffling {
    fn from(mean: u64) -> Self {
        Self::mean(mean)
    }
}

pin_project! {
    /// Stream for the [`shuffle`](super::SampleStream::shuffle) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Shuffle<St, T> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        shuffling: Shuffling,
        buffer: Buffer<T>,
    }
}

impl<St: Stream, T> fmt::Debug for Shuffle<St, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shuffle")
            .field("shuffling", &self.shuffling)
            .field("holds", &self.buffer.due.len())
            .finish_non_exhaustive()
    }
}

impl<St: Stream, T> Shuffle<St, T> {
    pub(super) fn new(stream: St, shuffling: Shuffling) -> Self {
        recipe::note(|| format!("shuffle(mean {}, initial {})", shuffling.mean, shuffling.initial));
        Self { stream: stream.fuse(), shuffling, buffer: Buffer::new() }
    }
}

impl<St: Stream<Item = Result<Sample<T>>>, T> Stream for Shuffle<St, T> {
    type Item = Result<Sample<T>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            let ended = FusedStream::is_terminated(&this.stream);
            if let Some(item) = this.buffer.pop(ended) {
                return Poll::Ready(Some(item));
            }
            if ended {
                return Poll::Ready(None);
            }
            if let Some(item) = ready!(this.stream.as_mut().poll_next(cx)) {
                match place(&item) {
                    Some((position, mark)) => {
                        this.buffer.push(item, position, mark, this.shuffling.due(&mark))
                    }
                    // An error without a place in the order (the store is gone, a member came twice) is told at once.
                    None => return Poll::Ready(Some(item)),
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let held = self.buffer.due.len();
        let (low, high) = self.stream.size_hint();
        (low.saturating_add(held), high.and_then(|high| high.checked_add(held)))
    }
}

impl<St: Stream<Item = Result<Sample<T>>>, T> FusedStream for Shuffle<St, T> {
    fn is_terminated(&self) -> bool {
        self.buffer.due.is_empty() && FusedStream::is_terminated(&self.stream)
    }
}

/// Where an item stands in the order. An error takes the place that its sample would have had.
pub(super) fn place<T>(item: &Result<Sample<T>>) -> Option<(Position, Mark)> {
    match item {
        Ok(sample) => Some((sample.head.position(), sample.head.mark)),
        Err(error) => error.mark(),
    }
}

/// What is held, by due time.
struct Buffer<T> {
    /// Smallest first: due time, source, ordinal, slot.
    due: BinaryHeap<Reverse<(u64, u16, u64, usize)>>,
    slots: Vec<Option<(Result<Sample<T>>, Position)>>,
    free: Vec<usize>,
    held: Held,
    newest: u64,
}

impl<T> Buffer<T> {
    fn new() -> Self {
        Self {
            due: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            held: Held::default(),
            newest: 0,
        }
    }

    fn push(&mut self, item: Result<Sample<T>>, position: Position, mark: Mark, due: u64) {
        self.newest = self.newest.max(mark.time);
        self.held.hold(&position, &mark);
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some((item, position));
        self.due.push(Reverse((due, position.source, position.ordinal, slot)));
    }

    /// The item that is due: none still to come can be due before it.
    fn pop(&mut self, ended: bool) -> Option<Result<Sample<T>>> {
        let Reverse((due, .., slot)) = *self.due.peek()?;
        if due > self.newest && !ended {
            return None;
        }
        self.due.pop();
        let (mut item, position) = self.slots[slot].take()?;
        self.free.push(slot);
        let mark = match &mut item {
            Ok(sample) => &mut sample.head.mark,
            Err(error) => error.mark_mut()?,
        };
        self.held.release(&position, mark);
        self.held.stamp(&position, mark);
        mark.time = due;
        mark.stage += 1;
        Some(item)
    }
}
