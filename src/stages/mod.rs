//! The combinators: one file each, named as in the chain.
//!
//! | stage | item in | item out | order | holds at most |
//! |---|---|---|---|---|
//! | [`shard_list()`] | a manifest | [`Shard`](crate::shard::Shard) | as listed | nothing |
//! | [`shuffle_shards`](ShardStream::shuffle_shards) | `Shard` | `Shard` | permuted by (seed, epoch) | nothing ([`ShardList`]), or all shards |
//! | [`split_by_rank`](ShardStream::split_by_rank), [`split_by_worker`](ShardStream::split_by_worker) | `Shard` | `Shard` | kept | nothing |
//! | [`open_twins`](ShardStream::open_twins) | `Shard` | [`Twins`] | kept | the shards opened ahead |
//! | [`expand`](TwinStream::expand) | `Twins` | [`Entry`] | kept | the look-ahead, where twins differ |
//! | [`group_by_keys`](MemberStream::group_by_keys) | `Entry` | [`Sample`](crate::sample::Sample) of bytes | kept | one sample |
//! | [`shuffle`](SampleStream::shuffle) | `Sample` | `Sample` | by due time | n samples on average |
//! | [`decode`](EncodedStream::decode) | `Sample` of bytes | `Sample` of values | kept | two groups a core |
//! | [`augment`](SampleStream::augment) | `Sample` | `Sample` | kept | two groups a core |
//! | [`filter_samples`](SampleStream::filter_samples), [`map_body`](SampleStream::map_body) | `Sample` | `Sample` | kept | nothing |
//! | [`map_field`](FieldStream::map_field), [`rename`](FieldStream::rename), [`keep`](FieldStream::keep), [`to_tuple`](FieldStream::to_tuple), [`select`](SampleStream::select) | `Sample` | `Sample` | kept | nothing |
//! | [`slice`](SampleStream::slice) | `Sample` | `Sample` | kept | nothing |
//! | [`batch`](SampleStream::batch) | `Sample` | [`Batch`](crate::sample::Batch) | kept | one batch, and two on their way |
//! | [`batch_by`](SampleStream::batch_by) | `Sample` | `Batch` | by the first full bucket | the samples of all buckets |
//! | [`unbatch`](BatchStream::unbatch) | `Batch` | `Sample` | kept | one batch |
//! | [`interleave`](ShardStream::interleave) | `Shard` | `Sample` | one of each shard in turn | one sample of each shard |
//! | [`mix()`] | `Sample`s of several sources | `Sample` | by time over weight | one sample of each source |
//! | [`prefetch`](SampleStream::prefetch) | anything | the same | kept | n items |
//! | [`read_files()`] | loose files | `Sample` of bytes | the sampler's | n files |
//!
//! By the names of Python's webdataset: `map` is [`map_body`](SampleStream::map_body), `map_dict` and `map_tuple` are
//! [`map_field`](FieldStream::map_field), `select` and `slice` are the same, `rename` and `to_tuple` too, `rename_keys` with the rest dropped is
//! [`keep`](FieldStream::keep), `shuffle`, `decode` and `compose` are the same, `batched` is [`batch`](SampleStream::batch), `unbatched` is
//! [`unbatch`](BatchStream::unbatch), `split_by_node` is [`split_by_rank`](ShardStream::split_by_rank).
//!
//! Laws of every stage: after an `Err` it goes on with the next sample; a sample that it loses goes on as an `Err` with its place, so
//! that the loader can settle it; what it emits out of order carries a floor (see [`Mark`](crate::position::Mark)).

mod align;
mod batch;
mod batch_by;
mod buckets;
mod crew;
mod decode;
mod expand;
mod field_names;
mod field_stream;
mod group_by_keys;
mod held;
mod interleave;
mod join;
mod map_body;
mod mix;
mod offload;
mod open_shard;
mod open_twins;
mod prefetch;
mod pump;
mod read_files;
mod sample_stream;
mod seek;
mod seen;
mod shard_list;
mod shard_stream;
mod shuffle;
mod shuffle_shards;
mod side;
mod slice;
mod split;
mod twin_stream;
mod unbatch;
mod wanted;

pub use align::LookAhead;
pub use batch::{Batches, Batching};
pub use batch_by::{BatchBy, Bucketing, Rest};
pub use decode::Decode;
pub use expand::{Entry, Expand, KeyList, Member};
pub use field_stream::{FieldFn, FieldStream};
pub use group_by_keys::GroupByKeys;
pub use interleave::Interleave;
#[doc(hidden)]
pub use join::{Joined, join_names};
pub use map_body::{Condition, FilterSamples, MapBody};
pub use mix::{Mix, mix};
pub use offload::Offload;
pub use open_twins::{OpenTwins, Tar, Twins};
pub use prefetch::Prefetch;
pub use read_files::read_files;
pub use sample_stream::{EncodedStream, SampleStream};
pub use shard_list::{ShardList, shard_list};
pub use shard_stream::ShardStream;
pub use shuffle::{Shuffle, Shuffling};
pub use shuffle_shards::ShuffleShards;
pub use slice::Slice;
pub use split::Split;
pub use twin_stream::{MemberStream, TwinStream};
pub use unbatch::{BatchStream, Unbatch};

pub(crate) use pump::Pump;

/// Makes a wrong item type fail where the combinator is defined, not where it is used.
fn assert_stream<T, S: futures::Stream<Item = T>>(stream: S) -> S {
    stream
}
