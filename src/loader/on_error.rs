//! What the loader does about an error that concerns a sample or a shard: the only place where that is decided.

/// Stop, or skip within a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum OnError {
    /// The first error ends the run. What was not handed out stays owed.
    Stop,
    /// What is broken is settled as skipped, counted and logged, as long as the share of skipped samples stays within the budget.
    Skip {
        /// Highest share of samples skipped by faults, from 0 to 1. Samples that were filtered out do not count.
        at_most: f64,
        /// The share is not looked at before this many samples were settled.
        grace: u64,
    },
}

impl OnError {
    /// Skips whatever is broken, without a limit. An epoch in which no sample at all came out is an error all the same.
    #[must_use]
    pub const fn skip() -> Self {
        Self::Skip { at_most: 1.0, grace: 0 }
    }

    /// Skips up to a share of the samples, once `grace` samples were settled.
    #[must_use]
    pub const fn skip_at_most(share: f64, grace: u64) -> Self {
        Self::Skip { at_most: share, grace }
    }

    /// Whether another error may be skipped, with `skipped` counting it and `delivered` so far.
    pub(super) fn allows(self, skipped: u64, delivered: u64) -> bool {
        match self {
            Self::Stop => false,
            Self::Skip { at_most, grace } => {
                let settled = skipped + delivered;
                settled < grace || skipped as f64 <= at_most * settled as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget() {
        assert!(!OnError::Stop.allows(1, 1000));
        assert!(OnError::skip().allows(1, 0));
        let one_percent = OnError::skip_at_most(0.01, 100);
        assert!(one_percent.allows(50, 49), "within the grace");
        assert!(one_percent.allows(1, 99));
        assert!(!one_percent.allows(2, 98));
        assert!(one_percent.allows(10, 990));
        assert!(!one_percent.allows(11, 989));
    }
}
