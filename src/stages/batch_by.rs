//! `batch_by`: samples of one kind (a shape, an aspect ratio, a length class) make up a batch.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::batch::{Out, collate, overtaking, poll_front};
use super::held::Held;
use crate::error::{Error, Result};
use crate::recipe;
use crate::sample::{Batch, Collate, Head, Sample};

/// What happens to samples that don't fill a batch by the end of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rest {
    /// They make short batches, the one with the oldest sample first.
    #[default]
    Short,
    /// They are dropped, and counted.
    Drop,
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
        buckets: HashMap<K, Bucket<T>>,
        // Samples and bytes in all buckets, and how many samples ever came in: age, for ties.
        holds: usize,
        bytes: usize,
        came: u64,
        held: Held,
        out: VecDeque<Out<T::Output>>,
    }
}

struct Bucket<T> {
    heads: Vec<Head>,
    bodies: Vec<T>,
    bytes: usize,
    /// When its first sample came.
    since: u64,
}

impl<St: Stream, T: Collate, K, F> fmt::Debug for BatchBy<St, T, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBy")
            .field("bucketing", &self.bucketing)
            .field("holds", &self.holds)
            .finish_non_exhaustive()
    }
}

impl<St: Stream, T: Collate, K: Eq + Hash, F> BatchBy<St, T, K, F> {
    pub(super) fn new(stream: St, key: F, bucketing: Bucketing) -> Self {
        assert!(bucketing.size > 0, "batch_by(0): a batch has at least one sample");
        recipe::note(|| format!("batch_by({bucketing:?})"));
        Self {
            stream: stream.fuse(),
            bucketing,
            key,
            size: None,
            buckets: HashMap::new(),
            holds: 0,
            bytes: 0,
            came: 0,
            held: Held::default(),
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
    K: Eq + Hash + Clone,
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
                        if let Some(Err(error)) = this
                            .buckets
                            .get(&key)
                            .and_then(|b| b.bodies.first())
                            .map(|first| body.check(first))
                        {
                            this.out
                                .push_back(Out::Error(overtaking(this.held, head.explain(error))));
                            continue;
                        }
                        this.held.hold(&head.position(), &head.mark);
                        *this.came += 1;
                        *this.holds += 1;
                        let since = *this.came;
                        let bucket = this.buckets.entry(key.clone()).or_insert_with(|| Bucket {
                            heads: Vec::new(),
                            bodies: Vec::new(),
                            bytes: 0,
                            since,
                        });
                        let bytes = body.bytes();
                        bucket.bytes += bytes;
                        *this.bytes += bytes;
                        bucket.heads.push(head);
                        bucket.bodies.push(body);
                        let mut leaves = (bucket.heads.len() >= size).then_some(key);
                        loop {
                            let too_many = *this.holds > this.bucketing.hold;
                            let too_large = *this.bytes > this.bucketing.bytes;
                            let key = leaves
                                .take()
                                .or_else(|| leaves_early(this.buckets, too_many, too_large));
                            let bucket = key.and_then(|key| this.buckets.remove(&key));
                            let Some(bucket) = bucket else { break };
                            *this.holds -= bucket.heads.len();
                            *this.bytes -= bucket.bytes;
                            this.out.push_back(bucket.leave(this.held));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => {
                        this.out.push_back(Out::Error(overtaking(this.held, error)))
                    }
                    Poll::Ready(None) => {}
                }
                if FusedStream::is_terminated(&this.stream) {
                    let mut rests: Vec<_> =
                        this.buckets.drain().map(|(_, bucket)| bucket).collect();
                    rests.sort_by_key(|bucket| bucket.since);
                    (*this.holds, *this.bytes) = (0, 0);
                    for bucket in rests {
                        if this.bucketing.rest == Rest::Short {
                            this.out.push_back(bucket.leave(this.held));
                        } else {
                            let left = || {
                                Error::filter(
                                    "left over at the end of the epoch: its bucket had fewer than a batch",
                                )
                            };
                            this.out.extend(bucket.heads.iter().map(|head| {
                                Out::Error(overtaking(this.held, head.explain(left())))
                            }));
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
        (0, high.and_then(|high| high.checked_add(self.holds)?.checked_add(self.out.len())))
    }
}

/// The bucket that comes out short when too much is held: the fullest or the largest one, the oldest of several.
fn leaves_early<K: Clone, T>(
    buckets: &HashMap<K, Bucket<T>>,
    too_many: bool,
    too_large: bool,
) -> Option<K> {
    let size = |bucket: &Bucket<T>| if too_many { bucket.heads.len() } else { bucket.bytes };
    let largest = || buckets.iter().max_by_key(|(_, b)| (size(b), u64::MAX - b.since));
    if too_many || too_large { largest().map(|(key, _)| key.clone()) } else { None }
}

impl<T: Collate + Send + 'static> Bucket<T>
where
    T::Output: Send + 'static,
{
    fn leave(mut self, held: &mut Held) -> Out<T::Output> {
        for head in &self.heads {
            held.release(&head.position(), &head.mark);
        }
        for head in &mut self.heads {
            let position = head.position();
            held.stamp(&position, &mut head.mark);
        }
        collate(self.heads, self.bodies)
    }
}

impl<St, T, K, F> FusedStream for BatchBy<St, T, K, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Collate + Send + 'static,
    T::Output: Send + 'static,
    K: Eq + Hash + Clone,
    F: FnMut(&T) -> K,
{
    fn is_terminated(&self) -> bool {
        self.out.is_empty() && self.holds == 0 && FusedStream::is_terminated(&self.stream)
    }
}
