//! `shuffle_shards` on any stream of shards.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use crate::error::Result;
use crate::recipe;
use crate::shard::{EpochOrder, Order, Shard, Tail};

pin_project! {
    /// Stream for the [`shuffle_shards`](super::ShardStream::shuffle_shards) method.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct ShuffleShards<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        shards: Vec<Shard>,
        next: Option<(u64, EpochOrder)>,
    }
}

impl<St: Stream> ShuffleShards<St> {
    pub(super) fn new(stream: St) -> Self {
        recipe::note(|| "shuffle_shards".into());
        Self { stream: stream.fuse(), shards: Vec::new(), next: None }
    }
}

impl<St: Stream<Item = Result<Shard>>> Stream for ShuffleShards<St> {
    type Item = Result<Shard>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        // A permutation needs all of them.
        while !this.stream.is_terminated() {
            match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(Ok(shard)) => this.shards.push(shard),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {}
            }
        }
        let shards = &*this.shards;
        let Some(first) = shards.first() else { return Poll::Ready(None) };
        if this.next.is_none() {
            // The same rule as `ShardList`'s.
            let (context, n) = (&first.context, shards.len() as u64);
            let order = Order::Shuffled { seed: context.seed };
            match EpochOrder::new(order, Tail::Uneven, n, 1, context.epoch, context.source) {
                Ok(order) => *this.next = Some((0, order)),
                Err(error) => {
                    this.shards.clear();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let Some((place, order)) = this.next else { return Poll::Ready(None) };
        if *place == shards.len() as u64 {
            return Poll::Ready(None);
        }
        let shard = Shard { place: *place, ..shards[order.shard_at(*place).0 as usize].clone() };
        *place += 1;
        Poll::Ready(Some(Ok(shard)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let passed = self
            .next
            .as_ref()
            .map_or(0, |(place, _)| usize::try_from(*place).unwrap_or(usize::MAX));
        let here = self.shards.len() - passed;
        let (low, high) = self.stream.size_hint();
        (low.saturating_add(here), high.and_then(|high| high.checked_add(here)))
    }
}

impl<St: Stream<Item = Result<Shard>>> FusedStream for ShuffleShards<St> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
            && self
                .next
                .as_ref()
                .map_or(self.shards.is_empty(), |(place, _)| *place == self.shards.len() as u64)
    }
}
