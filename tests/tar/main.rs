//! The tar parser: every header form, every way to cut the input, real archives, broken ones.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod archive;
mod chunks;
mod damage;
mod differential;
mod fixtures;
mod forms;
