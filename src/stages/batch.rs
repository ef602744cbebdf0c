//! `batch`: so many samples in a row, collated.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;

use super::held::Held;
use crate::error::{Error, Result};
use crate::recipe;
use crate::sample::{Batch, Collate, Head, Sample};

/// Batches that are collated at once on blocking threads.
pub(super) const COLLATING: usize = 2;

/// How samples are put into batches: [`SampleStream::batch`](super::SampleStream::batch) takes a number, or this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batching {
    /// Samples in a batch.
    pub size: usize,
    /// Whether samples left over at the end of the epoch are dropped (and counted) instead of making a short batch.
    pub drop_last: bool,
}

impl Batching {
    /// Batches of `size` samples; the last one may be shorter.
    #[must_use]
    pub const fn new(size: usize) -> Self {
        Self { size, drop_last: false }
    }

    /// Drops (and counts) what is left over at the end of the epoch.
    #[must_use]
    pub const fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
}

impl From<usize> for Batching {
    fn from(size: usize) -> Self {
        Self::new(size)
    }
}

pin_project! {
    /// Stream for the [`batch`](super::SampleStream::batch) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Batches<St, T> where St: Stream, T: Collate {
        #[pin]
        stream: Fuse<St>,
        batching: Batching,
        heads: Vec<Head>,
        bodies: Vec<T>,
        held: Held,
        out: VecDeque<Out<T::Output>>,
    }
}

/// What comes next, in order.
pub(super) enum Out<C> {
    Collating(Collating<C>),
    Batch(Result<Batch<C>>),
    Error(Error),
}

/// A batch on its way; given up when nobody waits for it.
pub(super) struct Collating<C>(JoinHandle<Result<Batch<C>>>);

impl<C> Drop for Collating<C> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<St: Stream, T: Collate> fmt::Debug for Batches<St, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("batching", &self.batching)
            .field("holds", &self.heads.len())
            .finish_non_exhaustive()
    }
}

impl<St: Stream, T: Collate> Batches<St, T> {
    pub(super) fn new(stream: St, batching: Batching) -> Self {
        assert!(batching.size > 0, "batch(0): a batch has at least one sample");
        recipe::note_batch(batching.size, batching.drop_last);
        Self {
            stream: stream.fuse(),
            batching,
            heads: Vec::new(),
            bodies: Vec::new(),
            held: Held::default(),
            out: VecDeque::new(),
        }
    }
}

/// Makes a batch, on a blocking thread unless there is next to nothing to do. A sample that can't be collated after all ends the run: it was checked when it came in.
pub(super) fn collate<T: Collate + Send + 'static>(
    mut heads: Vec<Head>,
    bodies: Vec<T>,
) -> Out<T::Output>
where
    T::Output: Send + 'static,
{
    // For a moment both are there, the bodies and the batch.
    let mut batched = Vec::new();
    for (head, body) in heads.iter_mut().zip(&bodies).filter(|(head, _)| head.charge.counts()) {
        let then = body.batched();
        head.weigh(|| if T::MOVES { then } else { body.bytes() + then });
        batched.push(then);
    }
    let collate = move || {
        let data = T::collate(bodies)
            .map_err(|error| heads.first().map_or(Error::batch(""), |head| head.explain(error)))?;
        for (head, bytes) in heads.iter_mut().zip(batched) {
            head.weigh(|| bytes);
        }
        Ok(Batch { heads, data })
    };
    if T::MOVES {
        Out::Batch(collate())
    } else {
        Out::Collating(Collating(tokio::task::spawn_blocking(collate)))
    }
}

impl<St, T> Stream for Batches<St, T>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Collate + Send + 'static,
    T::Output: Send + 'static,
{
    type Item = Result<Batch<T::Output>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        {
            // Gather as long as there is room for another batch on its way.
            let mut pending = false;
            while this.out.len() < COLLATING
                && !pending
                && !FusedStream::is_terminated(&this.stream)
            {
                let item = match this.stream.as_mut().poll_next(cx) {
                    Poll::Pending => {
                        pending = true;
                        continue;
                    }
                    Poll::Ready(item) => item,
                };
                match item {
                    Some(Ok(Sample { head, body })) => {
                        match this.bodies.first().map_or(Ok(()), |first| body.check(first)) {
                            Ok(()) => {
                                this.held.hold(&head.position(), &head.mark);
                                this.heads.push(head);
                                this.bodies.push(body);
                            }
                            Err(error) => this
                                .out
                                .push_back(Out::Error(overtaking(this.held, head.explain(error)))),
                        }
                    }
                    Some(Err(error)) => {
                        this.out.push_back(Out::Error(overtaking(this.held, error)))
                    }
                    None => {}
                }
                let ended = FusedStream::is_terminated(&this.stream);
                if this.heads.len() == this.batching.size || (ended && !this.heads.is_empty()) {
                    let size = this.batching.size;
                    let mut heads = std::mem::replace(this.heads, Vec::with_capacity(size));
                    let bodies = std::mem::replace(this.bodies, Vec::with_capacity(size));
                    for head in &mut heads {
                        let position = head.position();
                        this.held.release(&position, &head.mark);
                        this.held.stamp(&position, &mut head.mark);
                    }
                    if heads.len() < this.batching.size && this.batching.drop_last {
                        let left = || {
                            Error::filter(
                                "left over at the end of the epoch: fewer than a batch (drop_last)",
                            )
                        };
                        this.out.extend(heads.iter().map(|head| Out::Error(head.explain(left()))));
                    } else {
                        this.out.push_back(collate(heads, bodies));
                    }
                }
            }
            match poll_front(this.out, cx) {
                Some(item) => item.map(Some),
                None if pending => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (_, high) = self.stream.size_hint();
        let size = self.batching.size;
        // An error takes a place of its own, so at most each sample makes an item.
        (
            0,
            high.and_then(|high| {
                high.checked_add(self.heads.len().div_ceil(size))?.checked_add(self.out.len())
            }),
        )
    }
}

impl<St, T> FusedStream for Batches<St, T>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Collate + Send + 'static,
    T::Output: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        self.out.is_empty() && self.heads.is_empty() && FusedStream::is_terminated(&self.stream)
    }
}

/// An error that passes samples which are held here: its floor must not vouch for them.
pub(super) fn overtaking(held: &mut Held, mut error: Error) -> Error {
    if let Some((position, _)) = error.mark()
        && let Some(mark) = error.mark_mut()
    {
        held.stamp(&position, mark);
    }
    error
}

/// What stands first in the queue, once it is there; `None` if nothing is on its way.
pub(super) fn poll_front<C>(
    out: &mut VecDeque<Out<C>>,
    cx: &mut Context<'_>,
) -> Option<Poll<Result<Batch<C>>>> {
    if let Out::Collating(batch) = out.front_mut()? {
        let Poll::Ready(done) = Pin::new(&mut batch.0).poll(cx) else { return Some(Poll::Pending) };
        out.pop_front();
        return Some(Poll::Ready(match done {
            Ok(batch) => batch,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::task("the runtime is shutting down")),
        }));
    }
    match out.pop_front()? {
        Out::Error(error) => Some(Poll::Ready(Err(error))),
        Out::Batch(batch) => Some(Poll::Ready(batch)),
        // Looked at above.
        Out::Collating(_) => None,
    }
}
