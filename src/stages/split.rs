//! `split_by_rank`, `split_by_worker` on any stream of shards.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use crate::error::Result;
use crate::recipe;
use crate::shard::Shard;
use crate::topology::{Rank, Worker};

pin_project! {
    /// Stream for the [`split_by_rank`](super::ShardStream::split_by_rank) and
    /// [`split_by_worker`](super::ShardStream::split_by_worker) methods.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct Split<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        digit: Digit,
    }
}

/// The digit of a shard's place that decides: `place div below mod radix == keep`.
#[derive(Debug, Clone, Copy)]
struct Digit {
    below: u64,
    radix: u64,
    keep: u64,
}

impl<St: Stream> Split<St> {
    pub(super) fn by_rank(stream: St, rank: Rank) -> Self {
        recipe::note(|| "split_by_rank".into());
        Self {
            stream: stream.fuse(),
            digit: Digit { below: 1, radix: rank.world_size().into(), keep: rank.rank().into() },
        }
    }

    pub(super) fn by_worker(stream: St, rank: Rank, worker: Worker) -> Self {
        recipe::note(|| "split_by_worker".into());
        let digit = Digit {
            below: rank.world_size().into(),
            radix: worker.num_workers().into(),
            keep: worker.worker().into(),
        };
        Self { stream: stream.fuse(), digit }
    }
}

impl Digit {
    fn keeps(self, place: u64) -> bool {
        place / self.below % self.radix == self.keep
    }
}

impl<St: Stream<Item = Result<Shard>>> Stream for Split<St> {
    type Item = Result<Shard>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(Ok(shard)) if !this.digit.keeps(shard.place) => {}
                item => return Poll::Ready(item),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.stream.size_hint().1)
    }
}

impl<St: Stream<Item = Result<Shard>>> FusedStream for Split<St> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
