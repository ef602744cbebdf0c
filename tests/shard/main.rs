//! Manifests, data sets, topology and plans.
#![allow(clippy::unwrap_used)]

mod epoch_order;
mod manifest;
mod topology;
