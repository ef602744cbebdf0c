//! Packing, and checking what was packed: the library and the command line.

#![allow(clippy::unwrap_used)]

mod crash;
mod defects;
mod faults;
mod inputs;
mod look;
mod python;
mod round_trip;
mod stores;
mod support;
mod validator;
