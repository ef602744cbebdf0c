//! Where one shard ends and the next begins.

/// How much goes into a shard. A shard takes at least one sample, however large that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLimit {
    /// At most so many bytes of members (of one modality or of all, as the packer was told).
    pub bytes: Option<u64>,
    /// At most so many samples.
    pub samples: Option<u64>,
}

impl ShardLimit {
    /// At most so many samples.
    #[must_use]
    pub const fn samples(samples: u64) -> Self {
        Self { bytes: None, samples: Some(samples) }
    }

    /// At most so many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes: Some(bytes), samples: None }
    }
}

/// 500 MiB, as in PiD.
impl Default for ShardLimit {
    fn default() -> Self {
        Self::bytes(500 << 20)
    }
}

/// What the shard at hand holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    samples: u64,
    bytes: u64,
}

impl Load {
    /// Takes a sample in. True if it is the first of a new shard.
    pub(crate) fn add(&mut self, size: u64, limit: ShardLimit) -> bool {
        let full = limit.samples.is_some_and(|most| self.samples >= most)
            || limit.bytes.is_some_and(|most| self.bytes.saturating_add(size) > most);
        let new = self.samples == 0 || full;
        if new {
            *self = Self::default();
        }
        self.samples += 1;
        self.bytes = self.bytes.saturating_add(size);
        new
    }
}

/// Cuts samples of these sizes, in order, into shards: the number of samples in each. No shard is left with a single sample if that
/// can be helped (PiD's loader fails on those): it joins the shard after it, or the last but one.
pub(crate) fn cut(sizes: impl Iterator<Item = u64>, limit: ShardLimit) -> Vec<u64> {
    let mut load = Load::default();
    let mut shards: Vec<u64> = Vec::new();
    for size in sizes {
        if load.add(size, limit) {
            shards.push(0);
        }
        if let Some(last) = shards.last_mut() {
            *last += 1;
        }
    }
    if limit.samples == Some(1) {
        return shards;
    }
    let mut joined: Vec<u64> = Vec::with_capacity(shards.len());
    for samples in shards {
        match joined.last_mut() {
            Some(last) if *last == 1 => *last += samples,
            _ => joined.push(samples),
        }
    }
    if joined.len() > 1 && joined.last() == Some(&1) {
        joined.pop();
        if let Some(last) = joined.last_mut() {
            *last += 1;
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_bytes(sizes: &[u64], limit: u64) -> Vec<u64> {
        cut(sizes.iter().copied(), ShardLimit::bytes(limit))
    }

    #[test]
    fn a_shard_ends_before_the_sample_that_would_not_fit() {
        assert_eq!(by_bytes(&[4, 4, 4, 4, 4], 8), [2, 3]);
        assert_eq!(by_bytes(&[4, 4, 4, 4], 8), [2, 2]);
        assert_eq!(by_bytes(&[0, 0, 0], 1), [3]);
        assert_eq!(by_bytes(&[], 1), [0; 0]);
    }

    #[test]
    fn single_samples_join_a_neighbour() {
        // The large one would be alone.
        assert_eq!(by_bytes(&[4, 4, 100, 4, 4], 8), [2, 3]);
        assert_eq!(by_bytes(&[100, 4, 4], 8), [3]);
        assert_eq!(by_bytes(&[100], 8), [1]);
        assert_eq!(by_bytes(&[9, 9, 9], 8), [3]);
        // Not all into one.
        assert_eq!(by_bytes(&[9; 7], 8), [2, 2, 3]);
    }

    #[test]
    fn counts() {
        assert_eq!(cut([1; 7].into_iter(), ShardLimit::samples(3)), [3, 4]);
        assert_eq!(cut([1; 8].into_iter(), ShardLimit::samples(3)), [3, 3, 2]);
        assert_eq!(cut([1; 3].into_iter(), ShardLimit::samples(1)), [1, 1, 1]);
        assert_eq!(
            cut([5; 8].into_iter(), ShardLimit { bytes: Some(10), samples: Some(3) }),
            [2, 2, 2, 2]
        );
    }
}
