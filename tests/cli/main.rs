//! The command line, run as a program.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[allow(dead_code)]
#[path = "../tar/archive.rs"]
mod archive;
mod bench;
mod cat;
mod index;
