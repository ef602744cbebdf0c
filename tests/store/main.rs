//! Stores: the laws that all of them keep, and what each adds.
#![allow(clippy::unwrap_used)]

mod conformance;
mod decompress;
#[cfg(feature = "http")]
mod http;
mod plain;
#[cfg(feature = "http")]
mod server;
