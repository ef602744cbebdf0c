//! Async streaming of training batches from tar shards.

#[cfg(feature = "cli")]
pub mod cli;
pub mod decode;
pub mod error;
pub mod position;
pub mod random;
pub mod sample;
pub mod shard;
pub mod stages;
pub mod store;
pub mod tar;
pub mod topology;

pub use error::{Error, Result};
