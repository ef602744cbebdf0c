#![doc = include_str!("../README.md")]
//! # Map
//!
//! A module uses only what stands above it in this list.
//!
//! | module | holds |
//! |---|---|
//! | [`position`], [`progress`] | where a sample stands in the order; which samples are settled |
//! | [`random`] | keyed hashes: every random choice, with no generator that has a history |
//! | [`error`] | the one error type |
//! | [`topology`] | rank, worker, lane |
//! | [`sample`] | head and body; fields, values, tensors, batches |
//! | [`tar`] | bytes in, members out |
//! | [`store`] | bytes from files, memory, http, object stores |
//! | [`decode`], [`broadcast`] | fields to values; what one rank has read, for all |
//! | [`augment`] | values to what the model wants |
//! | [`shard`] | manifests, data sets, orders, plans |
//! | [`stages`] | the combinators, one file each |
//! | [`checkpoint`], [`certificate`] | what is settled, as a file; whether an epoch was covered exactly once |
//! | [`loader`] | runs a recipe on lanes |
//! | [`pack`], `adapters` | making data sets; batches as tensors of other crates |
//! | [`testing`] | small data sets in memory, and `assert_resumes` |
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `cli` | yes | the program `shardstream` |
//! | `http` | yes | shards behind `http://` and `https://` |
//! | `s3` | yes | `s3://` |
//! | `gcs`, `azure` | no | `gs://`, `az://` |
//! | `compression` | yes | shards in gzip, zstd, bzip2, xz, recognised by content |
//! | `turbojpeg` | no | JPEG by libjpeg-turbo, built from source: needs cmake and nasm |
//! | `ndarray`, `candle`, `burn` | no | tensors of these crates: `adapters` |
//! | `mpi` | no | [`broadcast`] by MPI: needs an MPI and libclang |
//!
//! # Tasks and cancellation
//!
//! A tokio runtime is needed from `open_twins` on, and by the loader. A stage owns the tasks it starts: dropping the stream ends them, and a
//! panic in one comes out of `poll_next`. Work on a blocking thread can't be interrupted; it stops at the next sample.
//!
//! `next` and `try_next` are cancel safe on every stage and on the loader: the stream holds everything, the future nothing. So they may stand in
//! `tokio::select!`.
//!
//! # Which runtime
//!
//! The multi-threaded one. What a trainer computes without awaiting blocks the thread it runs on, and with it the tasks that wait there. The
//! future given to `block_on` (that of `#[tokio::main]`) has a thread of its own beside the workers, so a loop there holds nothing up. A loop
//! in `tokio::spawn` does: put the computation into `spawn_blocking` or `block_in_place`, or the loader on a runtime of its own. On a current-thread
//! runtime the loader only advances while the trainer awaits.

#[cfg(any(feature = "ndarray", feature = "candle", feature = "burn"))]
pub mod adapters;
pub mod augment;
pub mod broadcast;
pub mod certificate;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod decode;
pub mod error;
pub mod loader;
pub mod memory;
pub mod pack;
pub mod position;
pub mod progress;
pub mod random;
pub mod recipe;
mod recycled;
mod redact;
pub mod sample;
pub mod shard;
mod shelf;
pub mod stages;
pub mod store;
pub mod tar;
pub mod testing;
pub mod topology;

pub use error::{Error, Result};

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

/// Everything that a chain needs.
pub mod prelude {
    pub use crate::checkpoint::Checkpoint;
    pub use crate::decode::Decoder;
    pub use crate::error::{Error, Result};
    pub use crate::loader::{Lane, Loader, OnError};
    pub use crate::random::Rng;
    pub use crate::sample::{Batch, Collate, Column, Columns, Fields, Sample, Tensor, Value};
    pub use crate::shard::{Manifest, Order, Tail};
    pub use crate::stages::{
        BatchStream, Batching, Bucketing, EncodedStream, FieldStream, MemberStream, SampleStream,
        ShardStream, Shuffling, TwinStream, shard_list,
    };
    pub use crate::store::{Local, Memory, Store};
    pub use crate::topology::{Rank, Worker};
}
