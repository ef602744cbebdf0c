//! Stores: the laws that all of them keep, and what each adds.
#![allow(clippy::unwrap_used)]

mod cache;
mod conformance;
mod decompress;
#[cfg(feature = "http")]
mod http;
mod plain;
#[cfg(all(unix, feature = "cli", feature = "http"))]
mod processes;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "http")]
mod server;
mod simulation;
#[cfg(feature = "s3")]
mod upload;
