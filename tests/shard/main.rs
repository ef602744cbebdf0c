//! Manifests, data sets, topology and plans.
#![allow(clippy::unwrap_used)]

mod arguments;
mod broadcast;
mod epoch_order;
mod manifest;
mod plan;
mod topology;
