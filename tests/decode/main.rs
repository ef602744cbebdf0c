//! Bytes to values, transforms, batches.
#![allow(clippy::unwrap_used)]

mod cases;
mod collate;
mod support;
