//! What may follow a stream of shards.

use std::sync::Arc;

use futures::Stream;
use futures::stream::BoxStream;

use super::assert_stream;
use super::interleave::Interleave;
use super::open_twins::{OpenTwins, Twins};
use super::shuffle_shards::ShuffleShards;
use super::split::Split;
use crate::error::Result;
use crate::sample::Sample;
use crate::shard::Shard;
use crate::store::Store;
use crate::topology::{Rank, Worker};

impl<St: Stream<Item = Result<Shard>>> ShardStream for St {}

/// Combinators on a stream of [`Shard`]s. [`ShardList`](super::ShardList) has methods of the same names that cost nothing for shards of others.
pub trait ShardStream: Stream<Item = Result<Shard>> {
    /// Permutes the shards by (seed, epoch) of the first one, and numbers their places anew. Use it before any split.
    ///
    /// Order: a keyed permutation. Memory: all shards of the stream; [`ShardList`](super::ShardList)'s own method needs none.
    ///
    /// # Resuming
    /// In a loader use the list's own method, directly behind it: a list that resumes yields only what is left, and here that alone would be
    /// permuted.
    ///
    /// # Cancel safety
    /// The stream holds everything.
    fn shuffle_shards(self) -> ShuffleShards<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Shard>, _>(ShuffleShards::new(self))
    }

    /// Keeps the shards of one rank: those with `place mod world_size == rank`.
    ///
    /// Order: kept. Memory: nothing.
    ///
    /// # Resuming
    /// Nothing to do: a shard's place decides.
    fn split_by_rank(self, rank: Rank) -> Split<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Shard>, _>(Split::by_rank(self, rank))
    }

    /// Keeps the shards of one worker of a rank: those with `place div world_size mod num_workers == worker`.
    ///
    /// Order: kept. Memory: nothing.
    ///
    /// # Resuming
    /// Nothing to do: a shard's place decides.
    fn split_by_worker(self, rank: Rank, worker: Worker) -> Split<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Shard>, _>(Split::by_worker(self, rank, worker))
    }

    /// Opens the tars of each shard, all modalities together, and reads ahead in tasks: the twins of the shard whose turn it is, and
    /// of the next one (see [`OpenTwins::ahead`]).
    ///
    /// Order: kept. Memory: a few chunks (1 MiB for files) for each open tar.
    ///
    /// # Resuming
    /// Nothing to do.
    ///
    /// # Errors
    /// A tar that can't be opened is reported by [`expand`](super::TwinStream::expand), as its first bytes are wanted there.
    ///
    /// # Panics
    /// When polled outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the stream ends its tasks.
    fn open_twins(self, store: impl Store) -> OpenTwins<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Twins>, _>(OpenTwins::new(self, Arc::new(store)))
    }

    /// Reads `width` shards at a time, one sample from each in turn, so that a batch draws on as many more shards for the same memory.
    /// `read` is the chain that reads one of them: `|shards| shards.open_twins(store.clone()).expand().group_by_keys()`.
    ///
    /// Order: sample `i` of the `s`-th shard of a group has the time `base + i * width + s`. Shards that end early leave gaps. Memory: one
    /// sample and the open twins of each shard.
    ///
    /// # Resuming
    /// Nothing to do: a sample's ordinal follows from its shard's place and its index.
    ///
    /// # Errors
    /// Those of the chain inside.
    ///
    /// # Panics
    /// If `width` is 0.
    fn interleave<S, T>(
        self,
        width: u32,
        read: impl FnMut(BoxStream<'static, Result<Shard>>) -> S + Send + 'static,
    ) -> Interleave<Self, T>
    where
        Self: Sized,
        S: Stream<Item = Result<Sample<T>>> + Send + 'static,
        T: Send + 'static,
    {
        assert_stream::<Result<Sample<T>>, _>(Interleave::new(self, width, read))
    }
}
