//! `open_twins`: the tars of a shard, opened together.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::{self, Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;

use super::pump::Pump;
use super::seek::{Start, seek};
use crate::error::{Error, Result};
use crate::memory::Charge;
use crate::shard::Shard;
use crate::store::decompress::decompress;
use crate::store::{ByteRange, ByteStream, Store};

/// Chunks of one tar that wait for the parser, beside those that the store itself reads ahead.
const CHUNKS: usize = 1;

/// What is on its way to the parser of a tar: of a file three chunks in the store, and two here. What a store reads ahead over a
/// network has a budget of its own.
const ON_ITS_WAY: u64 = 5 << 20;

/// An opened tar.
pub struct Tar {
    /// Its modality; none for a single tar.
    pub modality: Option<Arc<str>>,
    /// Its path in the store.
    pub path: String,
    /// Its bytes, decompressed, read ahead in a task.
    pub bytes: ByteStream,
    /// Where in the tar they begin: at the first byte, or at a member, if what comes before is settled.
    pub start: u64,
    /// What is on its way to the parser, where a loader has a budget of bytes.
    pub(super) charge: Charge,
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
    /// Whether settled samples may have been passed over with a sample index.
    pub indexed: bool,
}

pin_project! {
    /// Stream for the [`open_twins`](super::ShardStream::open_twins) method.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct OpenTwins<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        store: Arc<dyn Store>,
        ahead: Ahead,
        index: Option<Index>,
        opened: VecDeque<Opened>,
    }
}

/// How many shards are opened ahead.
#[derive(Debug, Clone, Copy)]
enum Ahead {
    Told(usize),
    /// What the store of the newest shard advises.
    Advised(usize),
}

impl Ahead {
    const fn shards(self) -> usize {
        let (Self::Told(shards) | Self::Advised(shards)) = self;
        shards
    }

    fn ask(&mut self, store: &Arc<dyn Store>, shard: &Shard) {
        if let (Self::Advised(shards), Some((_, path))) = (self, shard.tars().first()) {
            *shards = shard.leaf.store().unwrap_or(store).ahead(path);
        }
    }
}

/// Where the indexes of samples lie; none for the place where `shardstream index` writes them.
#[derive(Debug, Clone)]
struct Index(Option<Arc<str>>);

#[derive(Debug)]
enum Opened {
    Ready(Box<Result<Twins>>),
    /// Its sample index is being asked where to begin.
    Seeking(Pump<Twins>),
}

impl<St: Stream> OpenTwins<St> {
    pub(super) fn new(stream: St, store: Arc<dyn Store>) -> Self {
        Self {
            stream: stream.fuse(),
            store,
            ahead: Ahead::Advised(1),
            index: None,
            opened: VecDeque::new(),
        }
    }

    /// How many shards are opened beyond the one that is being read; 0 opens each when its turn comes. Unless told otherwise the store
    /// advises ([`Store::ahead`]): 1 on this machine, 8 over a network. Memory grows by a few chunks a tar; order does not change.
    pub fn ahead(mut self, shards: usize) -> Self {
        self.ahead = Ahead::Told(shards);
        self
    }

    /// Passes over the settled samples at the head of a shard without reading them when a run is resumed, where there is an index of
    /// its samples: below `folder`, or with `None` where `shardstream index` writes it by default (`index` below the data set's root).
    ///
    /// Only what is read changes, never the data: an index that is missing, broken, or older than its tars is warned of, and the shard is
    /// read from its beginning. Not with a key index, [`KeyRule::Pid`](crate::sample::key::KeyRule::Pid) or
    /// [`resync`](super::Expand::resync), which count samples otherwise.
    pub fn sample_index(mut self, folder: Option<&str>) -> Self {
        self.index = Some(Index(folder.map(Arc::from)));
        self
    }
}

/// Opens a shard, from its first byte or from where the index says.
fn open(store: &Arc<dyn Store>, shard: Shard, index: Option<&Index>) -> Opened {
    // A data set may have a store of its own.
    let store = Arc::clone(shard.leaf.store().unwrap_or(store));
    let Some(Index(folder)) = index.filter(|_| shard.context.progress.is_some()).cloned() else {
        return Opened::Ready(Box::new(Ok(open_from(&*store, shard, None, index.is_some()))));
    };
    let sought = async move {
        let start = seek(&*store, &shard, folder.as_deref()).await;
        open_from(&*store, shard, start, true)
    };
    Opened::Seeking(Pump::spawn(stream::once(sought), 1))
}

fn open_from(store: &dyn Store, mut shard: Shard, start: Option<Start>, indexed: bool) -> Twins {
    let Start { samples, offsets } = start.unwrap_or_default();
    shard.passed = samples;
    let open = |(number, (modality, path)): (usize, (_, String))| {
        let start = offsets.get(number).copied().unwrap_or(0);
        let bytes = store.read(&path, ByteRange { start, end: None });
        // What begins inside a tar is not compressed.
        let bytes = if start == 0 { decompress(bytes) } else { bytes };
        let charge = Charge::new(shard.context.memory.as_ref(), ON_ITS_WAY);
        Tar { modality, path, bytes: Pump::spawn(bytes, CHUNKS).boxed(), start, charge }
    };
    let tars = shard.tars().into_iter().enumerate().map(open).collect();
    Twins { shard: Arc::new(shard), tars, indexed }
}

impl<St: Stream<Item = Result<Shard>>> Stream for OpenTwins<St> {
    type Item = Result<Twins>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        // Open the shard whose turn it is and those ahead of it.
        while this.opened.len() <= this.ahead.shards() && !this.stream.is_terminated() {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(shard))) => {
                    this.ahead.ask(this.store, &shard);
                    this.opened.push_back(open(this.store, shard, this.index.as_ref()));
                }
                Poll::Ready(Some(Err(error))) => {
                    this.opened.push_back(Opened::Ready(Box::new(Err(error))));
                }
                Poll::Ready(None) => break,
                Poll::Pending if this.opened.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if let Some(Opened::Seeking(sought)) = this.opened.front_mut()
            && let Some(twins) = ready!(sought.poll_next_unpin(cx))
        {
            this.opened.pop_front();
            return Poll::Ready(Some(Ok(twins)));
        }
        Poll::Ready(match this.opened.pop_front() {
            Some(Opened::Ready(twins)) => Some(*twins),
            Some(Opened::Seeking(_)) => Some(Err(Error::task("the runtime is shutting down"))),
            None => None,
        })
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
