//! `open_twins`: the tars of a shard, opened together.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::pump::Pump;
use crate::error::Result;
use crate::shard::Shard;
use crate::store::decompress::decompress;
use crate::store::{ByteRange, ByteStream, Store};

/// Chunks of one tar that wait for the parser, beside those that the store itself reads ahead.
const CHUNKS: usize = 1;

/// An opened tar.
pub struct Tar {
    /// Its modality; none for a single tar.
    pub modality: Option<Arc<str>>,
    /// Its path in the store.
    pub path: String,
    /// Its bytes, decompressed, read ahead in a task.
    pub bytes: ByteStream,
}

impl fmt::Debug for Tar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tar")
            .field("modality", &self.modality)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A shard with its tars opened.
#[derive(Debug)]
pub struct Twins {
    /// The shard.
    pub shard: Arc<Shard>,
    /// One tar for each modality, in the order in which the manifest names them.
    pub tars: Vec<Tar>,
}

pin_project! {
    /// Stream for the [`open_twins`](super::ShardStream::open_twins) method.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct OpenTwins<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        store: Arc<dyn Store>,
        ahead: usize,
        opened: VecDeque<Result<Twins>>,
    }
}

impl<St: Stream> OpenTwins<St> {
    pub(super) fn new(stream: St, store: Arc<dyn Store>) -> Self {
        Self { stream: stream.fuse(), store, ahead: 1, opened: VecDeque::new() }
    }

    /// How many shards are opened beyond the one that is being read (1 unless told otherwise; 0 opens each when its turn comes).
    /// Memory grows by a few chunks a tar; order does not change.
    pub fn ahead(mut self, shards: usize) -> Self {
        self.ahead = shards;
        self
    }
}

fn open(store: &dyn Store, shard: Shard) -> Twins {
    // A data set may have a store of its own.
    let own = shard.leaf.store().cloned();
    let store = own.as_deref().unwrap_or(store);
    let tars = shard.tars().into_iter().map(|(modality, path)| {
        let bytes = Pump::spawn(decompress(store.read(&path, ByteRange::ALL)), CHUNKS).boxed();
        Tar { modality, path, bytes }
    });
    let tars = tars.collect();
    Twins { shard: Arc::new(shard), tars }
}

impl<St: Stream<Item = Result<Shard>>> Stream for OpenTwins<St> {
    type Item = Result<Twins>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        // Open the shard whose turn it is and those ahead of it.
        while this.opened.len() <= *this.ahead && !this.stream.is_terminated() {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(shard)) => {
                    this.opened.push_back(shard.map(|shard| open(&**this.store, shard)))
                }
                Poll::Ready(None) => break,
                Poll::Pending if this.opened.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(this.opened.pop_front())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (low, high) = self.stream.size_hint();
        (
            low.saturating_add(self.opened.len()),
            high.and_then(|high| high.checked_add(self.opened.len())),
        )
    }
}

impl<St: Stream<Item = Result<Shard>>> FusedStream for OpenTwins<St> {
    fn is_terminated(&self) -> bool {
        self.opened.is_empty() && self.stream.is_terminated()
    }
}
