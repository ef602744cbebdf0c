//! [`RemoteOptions`]: how remote objects are read.

use super::budget::{Budget, Limit};
use super::retry::RetryOptions;
use crate::error::{Error, Result};

/// How remote objects are read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Patience.
    pub retry: RetryOptions,
    /// Bytes of one request. The least that a stream holds, whatever the budget.
    pub part: u64,
    /// Ranges of one object that are read at once, at most. How many are, depends on what helps.
    pub ranges: usize,
    /// Bytes held ahead, over all streams.
    pub budget: Budget,
    /// Connections, over all streams.
    pub limit: Limit,
}

impl Default for RemoteOptions {
    /// Parts of 8 MiB, up to 32 ranges of an object, 512 MiB ahead, 64 connections.
    fn default() -> Self {
        Self {
            retry: RetryOptions::default(),
            part: 8 << 20,
            ranges: 32,
            budget: Budget::new(512 << 20),
            limit: Limit::new(64),
        }
    }
}

impl RemoteOptions {
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=1 << 30).contains(&self.part) || self.ranges == 0 {
            return Err(Error::config("a part has 1 B to 1 GiB, and at least one range is read"));
        }
        if self.retry.attempts == 0 || self.retry.stall_timeout.is_zero() {
            return Err(Error::config(
                "at least one attempt is made, and the stall timeout is above zero",
            ));
        }
        Ok(())
    }
}
