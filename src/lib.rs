//! Async streaming of training batches from tar shards.

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
pub mod pack;
pub mod position;
pub mod progress;
pub mod random;
pub mod recipe;
pub mod sample;
pub mod shard;
pub mod stages;
pub mod store;
pub mod tar;
pub mod testing;
pub mod topology;

pub use error::{Error, Result};

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
        Batching, Bucketing, EncodedStream, MemberStream, SampleStream, ShardStream, Shuffling,
        TwinStream, shard_list,
    };
    pub use crate::store::{Local, Memory, Store};
    pub use crate::topology::{Rank, Worker};
}
