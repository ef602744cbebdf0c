//! What can be sent to another thread, and what can be shared. A stage that loses `Send` could not run in a lane's task.
#![allow(missing_docs)]

use bytes::Bytes;
use shardstream::augment::Pipeline;
use shardstream::checkpoint::Checkpoint;
use shardstream::decode::Decoder;
use shardstream::loader::{Builder, Epoch, Lane, Loader, OnError, Stats};
use shardstream::pack::{PackControl, PackOptions, PackReport, ShardWriter};
use shardstream::progress::LaneProgress;
use shardstream::random::Rng;
use shardstream::sample::{
    Batch, Columns, Fields, Head, Image, Key, Origin, Sample, Tensor, Value,
};
use shardstream::shard::{DataSet, EpochOrder, KeyIndex, Manifest, Plan, Shard};
use shardstream::stages::{
    Batches, Condition, Decode, Entry, Expand, FieldFn, FilterSamples, GroupByKeys, MapBody,
    Member, Offload, OpenTwins, Prefetch, ShardList, Shuffle, ShuffleShards, Slice, Split, Tar,
    Twins, Unbatch,
};
use shardstream::store::{ByteStream, Local, Memory, Store};
use shardstream::tar::Parser;
use shardstream::topology::{Rank, Worker};
use shardstream::{Error, Result};

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}
const fn unpin<T: Unpin>() {}
const fn lasting<T: 'static>() {}

/// `Send`, `Sync` and free of borrows.
const fn shared<T: Send + Sync + 'static>() {
    send::<T>();
    sync::<T>();
    lasting::<T>();
}

type Shards = ShardList;
type Opened = OpenTwins<Shards>;
type Members = Expand<Opened>;
type Encoded = Fields<Bytes>;
type Samples = GroupByKeys<Members>;
type Decoded = Decode<Shuffle<Samples, Encoded>>;
type Augmented = Offload<Shuffle<Samples, Encoded>, Encoded, Tensor>;
type Whole = Batches<Augmented, Tensor>;

#[test]
fn stages_can_run_in_a_task() {
    shared::<Shards>();
    shared::<Split<ShuffleShards<Shards>>>();
    // An opened tar holds a stream of bytes, which only one task reads.
    send::<Opened>();
    send::<Members>();
    send::<Samples>();
    send::<Shuffle<Samples, Encoded>>();
    send::<Decoded>();
    send::<Augmented>();
    send::<MapBody<Samples, fn(Encoded) -> Result<u64>>>();
    send::<FilterSamples<Samples, fn(&Sample<Encoded>) -> bool>>();
    send::<MapBody<Samples, FieldFn<Bytes, Encoded>>>();
    send::<FilterSamples<Samples, Condition<Encoded>>>();
    send::<Slice<Samples>>();
    send::<Unbatch<Whole, Tensor>>();
    send::<Whole>();
    send::<Prefetch<Samples, Sample<Encoded>>>();
    lasting::<Whole>();
}

#[test]
fn stages_can_be_polled_without_pinning() {
    unpin::<Whole>();
    unpin::<Decoded>();
    unpin::<Prefetch<Samples, Sample<Encoded>>>();
    unpin::<Loader<Batch<Tensor>>>();
    unpin::<Epoch<'_, Batch<Tensor>>>();
}

#[test]
fn what_passes_between_stages() {
    shared::<Shard>();
    send::<Tar>();
    send::<Twins>();
    send::<ByteStream>();
    shared::<Member>();
    shared::<Entry>();
    shared::<Sample<Encoded>>();
    shared::<Sample<Fields<Value>>>();
    shared::<Batch<Columns>>();
    shared::<(Head, Origin, Key, Image, Tensor, Value)>();
}

#[test]
fn the_loader_and_its_parts() {
    send::<Loader<Batch<Tensor>>>();
    send::<Builder<Batch<Tensor>>>();
    shared::<Lane>();
    shared::<(Stats, OnError, LaneProgress)>();
    shared::<Checkpoint>();
    shared::<Error>();
    // One word, so that a `Result` of it is cheap to hand on.
    assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
}

#[test]
fn everything_else() {
    shared::<(Manifest, DataSet, EpochOrder, Plan, KeyIndex)>();
    shared::<(Rank, Worker, Rng)>();
    shared::<(Decoder, Pipeline)>();
    shared::<(Local, Memory, Box<dyn Store>)>();
    shared::<Parser>();
    shared::<(PackOptions, PackControl, PackReport)>();
    send::<ShardWriter>();
}
