//! The loader: order, resuming, errors.
#![allow(clippy::unwrap_used, missing_docs)]

mod resume;
mod simulation;
