//! The loader: order, resuming, errors.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod catalogue;
mod damage;
mod kept;
mod kill;
mod memory;
mod order;
mod resume;
mod sample_index;
mod simulation;
