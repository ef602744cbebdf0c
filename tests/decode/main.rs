//! Bytes to values, transforms, batches.
#![allow(clippy::unwrap_used)]

mod cases;
mod collate;
mod fields;
mod fixtures;
mod mutations;
mod options;
mod pid;
mod pipeline;
mod recycled;
mod scaled;
mod support;
mod torchvision;
mod transforms;
