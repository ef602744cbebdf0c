//! What may follow a stream of samples.

use std::hash::Hash;
use std::ops::RangeBounds;

use bytes::Bytes;
use futures::Stream;

use super::assert_stream;
use super::batch::{Batches, Batching};
use super::batch_by::{BatchBy, Bucketing};
use super::decode::Decode;
use super::map_body::{Condition, FilterSamples, MapBody};
use super::offload::Offload;
use super::prefetch::Prefetch;
use super::shuffle::{Shuffle, Shuffling};
use super::slice::Slice;
use crate::decode::Decoder;
use crate::error::Result;
use crate::random::Rng;
use crate::recipe;
use crate::sample::{Batch, Collate, Fields, Sample, Value};

impl<St: Stream<Item = Result<Sample<T>>>, T> SampleStream<T> for St {}
impl<St: Stream<Item = Result<Sample<Fields<Bytes>>>>> EncodedStream for St {}

/// Combinators on a stream of [`Sample`]s whose fields are bytes.
pub trait EncodedStream: Stream<Item = Result<Sample<Fields<Bytes>>>> {
    /// Decodes the fields on blocking threads, in groups, so that small samples cost no hand-over each.
    ///
    /// Order: kept. Memory: two groups (up to 64 samples, or a millisecond of work) for each core.
    ///
    /// # Resuming
    /// Nothing to do.
    ///
    /// # Errors
    /// A field that can't be decoded, with its sample: the sample is lost, the stream goes on.
    ///
    /// # Panics
    /// When polled outside a tokio runtime. A panic of a decoder comes out of `poll_next`.
    ///
    /// # Cancel safety
    /// The stream holds everything. Dropping it stops the threads at the next sample.
    fn decode(self, decoder: Decoder) -> Decode<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Sample<Fields<Value>>>, _>(Decode::new(self, decoder))
    }
}

/// Combinators on a stream of [`Sample`]s.
pub trait SampleStream<T>: Stream<Item = Result<Sample<T>>> {
    /// Mixes samples: each is delayed by a random time with a mean of `n` samples, and leaves when it is due.
    ///
    /// The delay is a hash of the sample's identity, so the order is fixed by (seed, epoch) and does not depend on which samples are
    /// missing. It mixes as well as a classical buffer of `n` samples. Takes a number or [`Shuffling`].
    ///
    /// Order: by due time. Memory: `n` samples on average.
    ///
    /// # Resuming
    /// Lowers the floor to the oldest sample held. Nothing is saved.
    ///
    /// # Errors
    /// None of its own; an error about a sample takes the sample's place in the order.
    fn shuffle(self, n: impl Into<Shuffling>) -> Shuffle<Self, T>
    where
        Self: Sized,
    {
        assert_stream::<Result<Sample<T>>, _>(Shuffle::new(self, n.into()))
    }

    /// Changes each body on blocking threads, with a random generator of the sample's own: in another epoch it draws differently, in the
    /// same epoch it never does, whoever computes it and however often. Directly behind [`decode`](EncodedStream::decode) or another `augment`
    /// it runs in the same hand-over.
    ///
    /// To leave a sample out on purpose return `Err(Error::filter("why"))`.
    ///
    /// Order: kept. Memory: two groups for each core.
    ///
    /// # Resuming
    /// Nothing to do: the generator is keyed by the sample's place.
    ///
    /// # Errors
    /// What `f` returns, with the sample added: the sample is lost, the stream goes on.
    ///
    /// # Panics
    /// When polled outside a tokio runtime. A panic in `f` comes out of `poll_next`.
    ///
    /// # Cancel safety
    /// The stream holds everything.
    fn augment<U, F>(self, f: F) -> Offload<Self, T, U>
    where
        Self: Sized,
        T: Send + 'static,
        U: Send + 'static,
        F: Fn(T, &mut Rng) -> Result<U> + Send + Sync + 'static,
    {
        assert_stream::<Result<Sample<U>>, _>(Offload::augmenting(self, f))
    }

    /// Changes each body on the spot: for what is cheaper than handing it to a thread.
    ///
    /// Order: kept. Memory: nothing.
    ///
    /// # Errors
    /// What `f` returns, with the sample added.
    fn map_body<U, F>(self, f: F) -> MapBody<Self, F>
    where
        Self: Sized,
        F: FnMut(T) -> Result<U>,
    {
        assert_stream::<Result<Sample<U>>, _>(MapBody::new(self, f))
    }

    /// Leaves samples out. They go on as marked items (see [`Error::is_filtered`](crate::Error::is_filtered)), so that they are counted and settled.
    ///
    /// Order: kept. Memory: nothing.
    fn filter_samples<F>(self, keep: F) -> FilterSamples<Self, F>
    where
        Self: Sized,
        F: FnMut(&Sample<T>) -> bool,
    {
        assert_stream::<Result<Sample<T>>, _>(FilterSamples::new(self, keep))
    }

    /// Leaves out samples by their bodies: [`filter_samples`](Self::filter_samples) for a condition that doesn't ask for the head.
    ///
    /// Order: kept. Memory: nothing.
    fn select<F>(self, keep: F) -> FilterSamples<Self, Condition<T>>
    where
        Self: Sized,
        F: Fn(&T) -> bool + Send + 'static,
    {
        let by_body: Condition<T> = Box::new(move |sample| keep(&sample.body));
        assert_stream::<Result<Sample<T>>, _>(FilterSamples::new(self, by_body))
    }

    /// Keeps the samples with these numbers: of each lane's epoch, counted from 0 as they are read. `slice(..100)` for a quick look,
    /// `slice(100..)` for the rest. Samples that a filter left out count too, so the slice does not depend on the filters in front of it.
    ///
    /// Order: kept. Memory: nothing. It ends as soon as nothing that is wanted can come; what lies behind stays unread, so the certificate of such an epoch
    /// is not complete. What was read beyond the slice counts as filtered.
    ///
    /// # Resuming
    /// Nothing to do: it looks at the sample's ordinal.
    ///
    /// # Examples
    /// ```
    /// use futures::TryStreamExt;
    /// use shardstream::prelude::*;
    /// # tokio_test::block_on(async {
    /// let (manifest, store) = shardstream::testing::shards(1000, 10);
    /// let samples = shard_list(&manifest).open_twins(store).expand().group_by_keys().slice(..3);
    /// let keys: Vec<_> = samples.map_ok(|sample| sample.key().to_string()).try_collect().await?;
    /// assert_eq!(keys, ["s0_k0", "s0_k1", "s0_k2"]);
    /// # Ok::<(), shardstream::Error>(()) }).unwrap();
    /// ```
    fn slice(self, ordinals: impl RangeBounds<u64>) -> Slice<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Sample<T>>, _>(Slice::new(self, ordinals))
    }

    /// Puts a stage of your own into the chain: a function from stream to stream. `name` says what it is and with which settings: a
    /// checkpoint of a recipe with another name is refused.
    ///
    /// An adapter that keeps the order and drops items or changes bodies needs nothing else. One that holds samples and lets later ones overtake
    /// has to follow the laws in [`stages`](crate::stages).
    ///
    /// # Examples
    /// ```
    /// use futures::{Stream, TryStreamExt};
    /// use shardstream::prelude::*;
    /// # tokio_test::block_on(async {
    /// /// A text twice as long.
    /// fn doubled(samples: impl Stream<Item = Result<Sample<String>>>) -> impl Stream<Item = Result<Sample<String>>> {
    ///     samples.map_ok(|sample| sample.map(|text| text.repeat(2)))
    /// }
    /// let (manifest, store) = shardstream::testing::shards(1, 2);
    /// let samples = shard_list(&manifest).open_twins(store).expand().group_by_keys();
    /// let texts = samples.map_body(|fields| Ok(String::from_utf8_lossy(&fields.get("txt").unwrap()[..]).into_owned()));
    /// let texts = texts.compose("doubled", doubled).map_ok(|sample| sample.body);
    /// assert_eq!(texts.try_collect::<Vec<_>>().await?, ["s0_k0s0_k0", "s0_k1s0_k1"]);
    /// # Ok::<(), shardstream::Error>(()) }).unwrap();
    /// ```
    fn compose<S>(self, name: impl Into<String>, stage: impl FnOnce(Self) -> S) -> S
    where
        Self: Sized,
        S: Stream,
    {
        let name = name.into();
        recipe::note(|| format!("compose({name})"));
        stage(self)
    }

    /// Puts `n` samples at a time into a batch: pictures and numbers as contiguous tensors, text as lists (see [`Collate`]). The last
    /// batch of an epoch may be shorter. Takes a number or [`Batching`].
    ///
    /// Order: kept. Memory: one batch that is being filled, and two that are being put together on blocking threads.
    ///
    /// # Resuming
    /// An error that passes samples which are held gets their floor. Fed with what is owed, it holds again what it held.
    ///
    /// # Errors
    /// A sample that doesn't fit the first one of its batch (another shape, a missing field) is lost, and named.
    ///
    /// # Panics
    /// If `n` is 0; when polled outside a tokio runtime.
    ///
    /// # Cancel safety
    /// The stream holds everything.
    fn batch(self, n: impl Into<Batching>) -> Batches<Self, T>
    where
        Self: Sized,
        T: Collate + Send + 'static,
        T::Output: Send + 'static,
    {
        assert_stream::<Result<Batch<T::Output>>, _>(Batches::new(self, n.into()))
    }

    /// Puts samples of one kind into a batch: `key` names the kind (a shape, an aspect ratio, a class of lengths). A bucket that is full
    /// leaves. Takes a number or [`Bucketing`], which says what becomes of rests too ([`Rest`](super::Rest)); see [`BatchBy::size_of`] for
    /// batches of equal cost.
    ///
    /// Order: a batch leaves when its last sample has come. Memory: the samples of all buckets, at most [`Bucketing::hold`] of them and [`Bucketing::bytes`].
    ///
    /// # Resuming
    /// Lowers the floor to the oldest sample held. Fed with what is owed, the buckets hold again what they held. Samples that an epoch has
    /// kept ([`Rest::Keep`](super::Rest::Keep)) are named one by one in the checkpoint; the shards that hold them are read again first, by the recipe
    /// of their epoch.
    ///
    /// # Errors
    /// A sample that doesn't fit the first one of its bucket is lost, and named.
    ///
    /// # Panics
    /// If the size is 0; when polled outside a tokio runtime.
    fn batch_by<K, F>(self, key: F, bucketing: impl Into<Bucketing>) -> BatchBy<Self, T, K, F>
    where
        Self: Sized,
        T: Collate + Send + 'static,
        T::Output: Send + 'static,
        K: Eq + Hash + Clone + Send + 'static,
        F: FnMut(&T) -> K,
    {
        assert_stream::<Result<Batch<T::Output>>, _>(BatchBy::new(self, key, bucketing.into()))
    }

    /// Runs everything before it in a task of its own, up to `n` items ahead. A [`Loader`](crate::loader::Loader) does this for each lane.
    ///
    /// Order: kept. Memory: `n` items, and one on its way.
    ///
    /// # Resuming
    /// Nothing to do: what is in the channel was not delivered.
    ///
    /// # Panics
    /// If `n` is 0; when polled outside a tokio runtime. A panic in the task comes out of `poll_next`.
    ///
    /// # Cancel safety
    /// Dropping the stream ends the task.
    fn prefetch(self, n: usize) -> Prefetch<Self, Sample<T>>
    where
        Self: Sized + Send + 'static,
        T: Send + 'static,
    {
        assert_stream::<Result<Sample<T>>, _>(Prefetch::new(self, n))
    }
}
