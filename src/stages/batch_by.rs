//! `batch_by`: samples of one kind (a shape, an aspect ratio, a length class) make up a batch.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::batch::{Out, overtaking, poll_front};
use super::buckets::{Buckets, Rests, keep};
use super::held::Held;
use crate::error::{Error, Result};
use crate::recipe;
use crate::sample::{Batch, Collate, Sample};
use crate::shelf::Slot;

/// What happens to samples that don't fill a batch by the end of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rest {
    /// They make short batches, the one with the oldest sample first.
    #[default]
    Short,
    /// They are dropped, and counted.
    Drop,
    /// They are kept, and are the first ones of their buckets in the next epoch: a batch of it may hold samples of this one, whose heads
    /// still say so. None is kept twice: a bucket that still holds a kept sample when that epoch ends comes out short.
    ///
    /// They count towards [`Bucketing::hold`] and [`Bucketing::bytes`] as others do. They were made by the recipe of their own epoch, so samples
    /// of one kind should be alike in all epochs.
    ///
    /// A [`Loader`](crate::loader::Loader) knows which epoch is the last one: its rests come out short. So they do in a stream without a loader,
    /// which has no next epoch.
    Keep,
}

/// How buckets are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucketing {
    /// Samples in a batch, where the bucket doesn't say otherwise.
    pub size: usize,
    /// Most samples held over all buckets: beyond it the fullest bucket comes out short.
    pub hold: usize,
    /// Most bytes held over all buckets, by [`Collate::bytes`]: beyond it the largest bucket comes out short.
    pub bytes: usize,
    /// What happens to samples that don't fill a batch by the end of the epoch.
    pub rest: Rest,
}

impl Bucketing {
    /// Batches of `size` samples; up to 64 times as many samples are held, and 1 GiB.
    #[must_use]
    pub const fn new(size: usize) -> Self {
        Self { size, hold: size.saturating_mul(64), bytes: 1 << 30, rest: Rest::Short }
    }

    /// The most samples that are held over all buckets.
    #[must_use]
    pub const fn hold(mut self, samples: usize) -> Self {
        self.hold = samples;
        self
    }

    /// The most bytes that are held over all buckets.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// What happens to samples that don't fill a batch by the end of the epoch.
    #[must_use]
    pub const fn rest(mut self, rest: Rest) -> Self {
        self.rest = rest;
        self
    }
}

impl From<usize> for Bucketing {
    fn from(size: usize) -> Self {
        Self::new(size)
    }
}

pin_project! {
    /// Stream for the [`batch_by`](super::SampleStream::batch_by) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct BatchBy<St, T, K, F> where St: Stream, T: Collate {
        #[pin]
        stream: Fuse<St>,
        bucketing: Bucketing,
        key: F,
        size: Option<Box<dyn Fn(&K) -> usize + Send>>,
        buckets: Buckets<K, T>,
        // What was kept by the epoch before is held by nobody upstream and has no part in it.
        held: Held,
        // Where rests are kept, if they are.
        slot: Option<Slot>,
        out: VecDeque<Out<T::Output>>,
    }
}

impl<St: Stream, T: Collate, K, F> fmt::Debug for BatchBy<St, T, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBy")
            .field("bucketing", &self.bucketing)
            .field("holds", &self.buckets.holds())
            .finish_non_exhaustive()
    }
}

impl<St, T, K, F> BatchBy<St, T, K, F>
where
    St: Stream,
    T: Collate + 'static,
    K: Eq + Hash + Clone + 'static,
{
    pub(super) fn new(stream: St, key: F, bucketing: Bucketing) -> Self {
        assert!(bucketing.size > 0, "batch_by(0): a batch has at least one sample");
        recipe::note(|| format!("batch_by({bucketing:?})"));
        let slot = if bucketing.rest == Rest::Keep { Slot::ask() } else { None };
        let kept: Option<Rests<K, T>> = slot.as_ref().and_then(Slot::take);
        Self {
            stream: stream.fuse(),
            bucketing,
            key,
            size: None,
            buckets: Buckets::with(kept.unwrap_or_default()),
            held: Held::default(),
            slot,
            out: VecDeque::new(),
        }
    }

    /// How many samples make up a batch of a bucket: for batches of about equal cost in pixels or tokens. 0 counts as 1.
    pub fn size_of(mut self, size: impl Fn(&K) -> usize + Send + 'static) -> Self {
        recipe::note(|| "size_of".into());
        self.size = Some(Box::new(size));
        self
    }
}

impl<St, T, K, F> Stream for BatchBy<St, T, K, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Collate + Send + 'static,
    T::Output: Send + 'static,
    K: Eq + Hash + Clone + Send + 'static,
    F: FnMut(&T) -> K,
{
    type Item = Result<Batch<T::Output>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            let mut pending = false;
            while this.out.len() < super::batch::COLLATING
                && !pending
                && !FusedStream::is_terminated(&this.stream)
            {
                match this.stream.as_mut().poll_next(cx) {
                    Poll::Pending => pending = true,
                    Poll::Ready(Some(Ok(sample))) => {
                        let key = (this.key)(&sample.body);
                        let size = this
                            .size
                            .as_ref()
                            .map_or(this.bucketing.size, |size| size(&key).max(1));
                        let Sample { head, body } = sample;
                        let first = this.buckets.first(&key);
                        if let Some(Err(error)) = first.map(|first| body.check(first)) {
                            let error = overtaking(this.held, head.explain(error));
                            this.out.push_back(Out::Error(error));
                            continue;
                        }
                        this.held.hold(&head.position(), &head.mark);
                        let there = this.buckets.push(&key, head, body);
                        let mut leaves = (there >= size).then_some(key);
                        let Bucketing { hold, bytes, .. } = *this.bucketing;
                        while let Some(bucket) = leaves
                            .take()
                            .or_else(|| this.buckets.leaves_early(hold, bytes))
                            .and_then(|key| this.buckets.remove(&key))
                        {
                            this.out.push_back(bucket.leave(this.held));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => {
                        this.out.push_back(Out::Error(overtaking(this.held, error)))
                    }
                    Poll::Ready(None) => {}
                }
                if FusedStream::is_terminated(&this.stream) {
                    let mut rests = this.buckets.rests();
                    if let Some(slot) = this.slot.as_ref().filter(|slot| slot.keeps()) {
                        let (kept, short) = keep(rests);
                        rests = short;
                        let heads = kept.iter().flat_map(|(_, bucket)| &bucket.heads);
                        let samples = heads.map(|head| (head.position(), head.mark)).collect();
                        slot.put::<Rests<K, T>>(kept, samples);
                    }
                    for (_, bucket) in rests {
                        if this.bucketing.rest == Rest::Drop {
                            let left = || {
                                Error::filter(
                                    "left over at the end of the epoch: its bucket had fewer than a batch",
                                )
                            };
                            this.out.extend(bucket.heads.iter().map(|head| {
                                Out::Error(overtaking(this.held, head.explain(left())))
                            }));
                        } else {
                            this.out.push_back(bucket.leave(this.held));
                        }
                    }
                }
            }
            match poll_front(this.out, cx) {
                Some(item) => return item.map(Some),
                None if pending => return Poll::Pending,
                None if FusedStream::is_terminated(&this.stream) => return Poll::Ready(None),
                None => {}
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (_, high) = self.stream.size_hint();
        (
            0,
            high.and_then(|high| {
                high.checked_add(self.buckets.holds())?.checked_add(self.out.len())
            }),
        )
    }
}

impl<St, T, K, F> FusedStream for BatchBy<St, T, K, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Collate + Send + 'static,
    T::Output: Send + 'static,
    K: Eq + Hash + Clone + Send + 'static,
    F: FnMut(&T) -> K,
{
    fn is_terminated(&self) -> bool {
        self.out.is_empty() && self.buckets.holds() == 0 && FusedStream::is_terminated(&self.stream)
    }
}
