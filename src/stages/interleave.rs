//! `interleave`: shards are read several at a time, one sample from each in turn.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::{self, BoxStream, Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;

use crate::error::Result;
use crate::recipe;
use crate::sample::Sample;
use crate::shard::Shard;

/// What reads one shard: a chain from shards to samples.
type Read<T> = Box<
    dyn FnMut(BoxStream<'static, Result<Shard>>) -> BoxStream<'static, Result<Sample<T>>> + Send,
>;

pin_project! {
    /// Stream for the [`interleave`](super::ShardStream::interleave) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Interleave<St, T> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        read: Read<T>,
        group: Group<T>,
        // The first shard of the next group, and errors of the stream before it.
        next: Option<Shard>,
        errors: VecDeque<crate::error::Error>,
        // The group whose shards are being gathered.
        gathering: Vec<Shard>,
    }
}

/// The shards that are read together.
struct Group<T> {
    width: u64,
    /// Its number in the lane; none before the first group.
    number: Option<u64>,
    /// Ordinal of the first sample of its first shard.
    base: u64,
    /// How many samples the longest of its shards has, as far as known.
    longest: u64,
    slots: Vec<Slot<T>>,
}

struct Slot<T> {
    /// Which of the group's shards it is.
    s: u64,
    stream: BoxStream<'static, Result<Sample<T>>>,
    /// What it gives next, once that is known.
    head: Option<Result<Sample<T>>>,
    ended: bool,
}

impl<St: Stream, T> fmt::Debug for Interleave<St, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interleave").field("width", &self.group.width).finish_non_exhaustive()
    }
}

impl<St: Stream, T: Send + 'static> Interleave<St, T> {
    pub(super) fn new<S>(
        stream: St,
        width: u32,
        mut read: impl FnMut(BoxStream<'static, Result<Shard>>) -> S + Send + 'static,
    ) -> Self
    where
        S: Stream<Item = Result<Sample<T>>> + Send + 'static,
    {
        assert!(width > 0, "interleave(0): nothing would ever be read");
        recipe::note(|| format!("interleave({width})"));
        let read: Read<T> = Box::new(move |shards| read(shards).boxed());
        // Let the stages inside be noted too.
        let group =
            Group { width: width.into(), number: None, base: 0, longest: 0, slots: Vec::new() };
        let mut this = Self {
            stream: stream.fuse(),
            read,
            group,
            next: None,
            errors: VecDeque::new(),
            gathering: Vec::new(),
        };
        drop((this.read)(stream::empty().boxed()));
        this
    }
}

/// Number of a shard among those of its lane.
fn number(shard: &Shard) -> u64 {
    shard.place / u64::from(shard.context.lanes.max(1))
}

impl<T> Group<T> {
    /// Begins to read the shards of the next group.
    fn open(&mut self, shards: Vec<Shard>, read: &mut Read<T>) {
        let Some(first) = shards.first() else { return };
        let width = self.width;
        let (context, group) = (Arc::clone(&first.context), number(first) / width);
        // What an earlier part of the run saw of a group: its base and its longest shard, those that are settled and are not read
        // again included.
        let seen = |group: u64| {
            let lanes = u64::from(context.lanes.max(1));
            let place = |s: u64| u64::from(context.lane) + (group * width + s) * lanes;
            let state = |s| Some((s, context.progress.as_ref()?.shard(place(s))?));
            let states: Vec<_> = (0..width).filter_map(state).collect();
            let longest = states.iter().filter_map(|(_, state)| state.end).max().unwrap_or(0);
            states.first().map(|(s, state)| (state.first - s, longest))
        };
        // It follows the group before it: the one that was just read, or one that is settled and was passed over.
        let before = match (self.number, group.checked_sub(1)) {
            (Some(number), Some(before)) if number == before => Some((self.base, self.longest)),
            (_, Some(before)) => seen(before),
            (_, None) => None,
        };
        let follows = before.map(|(base, longest)| base + longest * width).or(first.first);
        let (base, longest) = seen(group).unwrap_or((follows.unwrap_or(0), 0));
        (self.number, self.base, self.longest) = (Some(group), base, longest);
        self.slots = shards
            .into_iter()
            .map(|mut shard| {
                let s = number(&shard) % width;
                (shard.first, shard.stride) = (Some(base + s), width);
                self.longest = self.longest.max(shard.samples.unwrap_or(0));
                Slot {
                    s,
                    stream: read(stream::iter([Ok(shard)]).boxed()),
                    head: None,
                    ended: false,
                }
            })
            .collect();
    }

    /// The next sample: the one with the smallest ordinal over all shards of the group. `None` when all have ended.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample<T>>>> {
        let mut pending = false;
        for slot in self.slots.iter_mut().filter(|slot| slot.head.is_none() && !slot.ended) {
            match slot.stream.poll_next_unpin(cx) {
                Poll::Ready(Some(item)) => slot.head = Some(item),
                Poll::Ready(None) => slot.ended = true,
                Poll::Pending => pending = true,
            }
        }
        // An error without a place in the order is told at once.
        if let Some(slot) = self
            .slots
            .iter_mut()
            .find(|slot| slot.head.as_ref().is_some_and(|head| ordinal(head).is_none()))
        {
            return Poll::Ready(slot.head.take());
        }
        if pending {
            return Poll::Pending;
        }
        let heads = self.slots.iter().enumerate();
        let Some((_, at)) =
            heads.filter_map(|(at, slot)| Some((ordinal(slot.head.as_ref()?)?, at))).min()
        else {
            return Poll::Ready(None);
        };
        let (base, width, s) = (self.base, self.width, self.slots[at].s);
        let item = self.slots[at].head.take();
        Poll::Ready(item.map(|mut item| {
            if let Some(mark) = match &mut item {
                Ok(sample) => Some(&mut sample.head.mark),
                Err(error) => error.mark_mut(),
            } {
                self.longest = self.longest.max((mark.ordinal - base - s) / width + 1);
                // Samples come in the order of their ordinals, over all shards.
                mark.floor = mark.ordinal;
            }
            item
        }))
    }
}

fn ordinal<T>(item: &Result<Sample<T>>) -> Option<u64> {
    match item {
        Ok(sample) => Some(sample.head.mark.ordinal),
        Err(error) => error.mark().map(|(_, mark)| mark.ordinal),
    }
}

impl<St: Stream<Item = Result<Shard>>, T: Send + 'static> Stream for Interleave<St, T> {
    type Item = Result<Sample<T>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(error) = this.errors.pop_front() {
                return Poll::Ready(Some(Err(error)));
            }
            if !this.group.slots.is_empty() {
                if let Some(item) = ready!(this.group.poll_next(cx)) {
                    return Poll::Ready(Some(item));
                }
                this.group.slots.clear();
            }
            // Gather the shards of the next group.
            let width = this.group.width;
            while !FusedStream::is_terminated(&this.stream) && this.next.is_none() {
                match ready!(this.stream.as_mut().poll_next(cx)) {
                    Some(Ok(shard)) => match this.gathering.first() {
                        Some(first) if number(first) / width != number(&shard) / width => {
                            *this.next = Some(shard)
                        }
                        _ => this.gathering.push(shard),
                    },
                    Some(Err(error)) => this.errors.push_back(error),
                    None => {}
                }
            }
            if this.gathering.is_empty() && this.errors.is_empty() {
                return Poll::Ready(None);
            }
            this.group.open(std::mem::take(this.gathering), this.read);
            this.gathering.extend(this.next.take());
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl<St: Stream<Item = Result<Shard>>, T: Send + 'static> FusedStream for Interleave<St, T> {
    fn is_terminated(&self) -> bool {
        self.group.slots.is_empty()
            && self.gathering.is_empty()
            && self.errors.is_empty()
            && FusedStream::is_terminated(&self.stream)
    }
}
