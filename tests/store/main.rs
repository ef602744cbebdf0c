//! Stores: the laws that all of them keep, and what each adds.
#![allow(clippy::unwrap_used)]

mod conformance;
mod decompress;
mod plain;
