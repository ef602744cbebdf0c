//! Manifests, data sets, topology and plans.
#![allow(clippy::unwrap_used)]

mod manifest;
mod topology;
