//! One rank reads, all ranks know: [`Broadcast`].

mod meeting;
#[cfg(feature = "mpi")]
mod mpi;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use meeting::Meeting;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;

use crate::error::{Error, Result};
use crate::topology::Rank;

/// How long ranks wait for each other unless told otherwise.
const DEADLINE: Duration = Duration::from_secs(600);

/// How rank 0 shares what it found out with all other ranks: [`Alone`] for a single process, [`Meeting`] for processes that see
/// the same store, `Mpi` (feature `mpi`) for those that MPI connects.
pub trait Broadcast: fmt::Debug + Send + Sync {
    /// The rank of this process.
    fn rank(&self) -> Rank;

    /// Runs `make` on rank 0 and gives its result to every rank; all ranks call it with the same `name`. It returns when all
    /// have come. If `make` fails, or a rank does not come in time, every rank that came gets the same error.
    fn share<'a>(
        &'a self,
        name: &'a str,
        make: BoxFuture<'a, Result<Bytes>>,
    ) -> BoxFuture<'a, Result<Bytes>>;
}

/// A single process, which has nobody to share with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Broadcast for Alone {
    fn rank(&self) -> Rank {
        Rank::SINGLE
    }

    fn share<'a>(
        &'a self,
        _: &'a str,
        make: BoxFuture<'a, Result<Bytes>>,
    ) -> BoxFuture<'a, Result<Bytes>> {
        make
    }
}

/// The same error on every rank.
fn failed(why: &str) -> Error {
    Error::task(format!("shared by rank 0: {why}"))
}

/// Who has not come, in words; empty if all have.
fn in_words(rank: Rank, came: impl Fn(u32) -> bool) -> String {
    let size = rank.world_size();
    let missing: Vec<u32> = (0..size).filter(|&rank| !came(rank)).collect();
    let named: Vec<String> = missing.iter().take(16).map(ToString::to_string).collect();
    let more = match missing.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match missing.as_slice() {
        [] => String::new(),
        [one] => format!("rank {one} of {size}"),
        _ => format!("ranks {}{more} of {size}", named.join(", ")),
    }
}
