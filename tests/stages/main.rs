//! The laws of each stage, polled by hand.
#![allow(clippy::unwrap_used, missing_docs)]

mod augment;
mod batch;
mod batch_by;
mod decode;
mod expand;
mod filter;
mod group_by_keys;
mod key_rule;
mod mix;
mod open_twins;
mod operators;
mod prefetch;
mod resync;
mod shuffle;
mod shuffle_shards;
mod split;
mod support;
