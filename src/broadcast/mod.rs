//! One rank reads, all ranks know: [`Broadcast`].

mod meeting;

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use meeting::Meeting;

use crate::error::Result;
use crate::topology::Rank;

/// How rank 0 shares what it found out with all other ranks: [`Alone`] for a single process, [`Meeting`] for processes that see
/// the same store.
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
