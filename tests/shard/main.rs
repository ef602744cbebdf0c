//! Manifests, data sets, topology and plans.
#![allow(clippy::unwrap_used)]

mod arguments;
mod broadcast;
mod catalog;
mod epoch_order;
mod files;
mod legacy;
mod manifest;
mod plan;
#[cfg(feature = "cli")]
mod plan_cli;
mod processes;
mod topology;
