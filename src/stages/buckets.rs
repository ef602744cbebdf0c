//! Samples by kind, for `batch_by`: plain functions on values.

use std::collections::HashMap;
use std::hash::Hash;

use super::batch::{Out, collate};
use super::held::Held;
use crate::sample::{Collate, Head};

/// The buckets of a `batch_by`.
pub(super) struct Buckets<K, T> {
    buckets: HashMap<K, Bucket<T>>,
    holds: usize,
    bytes: usize,
    /// How many samples ever came in: age, for ties.
    came: u64,
}

/// Samples of one kind.
pub(super) struct Bucket<T> {
    pub(super) heads: Vec<Head>,
    bodies: Vec<T>,
    bytes: usize,
    /// When its first sample came.
    since: u64,
    /// How many at its head were kept by the epoch before.
    kept: usize,
}

/// What is left at the end of an epoch, the bucket with the oldest sample first.
pub(super) type Rests<K, T> = Vec<(K, Bucket<T>)>;

impl<K: Eq + Hash + Clone, T: Collate> Buckets<K, T> {
    /// Buckets that hold what the epoch before has kept.
    pub(super) fn with(rests: Rests<K, T>) -> Self {
        let mut this = Self { buckets: HashMap::new(), holds: 0, bytes: 0, came: 0 };
        for (key, bucket) in rests {
            this.came += 1;
            this.holds += bucket.heads.len();
            this.bytes += bucket.bytes;
            let kept = bucket.heads.len();
            this.buckets.insert(key, Bucket { since: this.came, kept, ..bucket });
        }
        this
    }

    /// The first sample of a kind that is held.
    pub(super) fn first(&self, key: &K) -> Option<&T> {
        self.buckets.get(key)?.bodies.first()
    }

    /// A sample came in; how many of its kind are held now.
    pub(super) fn push(&mut self, key: &K, head: Head, body: T) -> usize {
        self.came += 1;
        self.holds += 1;
        let since = self.came;
        let bucket = self.buckets.entry(key.clone()).or_insert_with(|| Bucket {
            heads: Vec::new(),
            bodies: Vec::new(),
            bytes: 0,
            since,
            kept: 0,
        });
        let bytes = body.bytes();
        bucket.bytes += bytes;
        self.bytes += bytes;
        bucket.heads.push(head);
        bucket.bodies.push(body);
        bucket.heads.len()
    }

    /// The samples of a kind leave.
    pub(super) fn remove(&mut self, key: &K) -> Option<Bucket<T>> {
        let bucket = self.buckets.remove(key)?;
        self.holds -= bucket.heads.len();
        self.bytes -= bucket.bytes;
        Some(bucket)
    }

    /// The kind that comes out short when more than so many samples or bytes are held: of which there is most, the oldest of several.
    pub(super) fn leaves_early(&self, hold: usize, bytes: usize) -> Option<K> {
        let (too_many, too_large) = (self.holds > hold, self.bytes > bytes);
        let size = |bucket: &Bucket<T>| if too_many { bucket.heads.len() } else { bucket.bytes };
        let largest = || self.buckets.iter().max_by_key(|(_, b)| (size(b), u64::MAX - b.since));
        if too_many || too_large { largest().map(|(key, _)| key.clone()) } else { None }
    }

    /// All that is held leaves.
    pub(super) fn rests(&mut self) -> Rests<K, T> {
        let mut rests: Vec<_> = self.buckets.drain().collect();
        rests.sort_by_key(|(_, bucket)| bucket.since);
        (self.holds, self.bytes) = (0, 0);
        rests
    }
}

impl<K, T> Buckets<K, T> {
    /// How many samples are held.
    pub(super) const fn holds(&self) -> usize {
        self.holds
    }
}

/// Which rests an epoch keeps for the next one, and which come out short: those with a sample that was kept before, so that none is kept twice.
pub(super) fn keep<K, T>(rests: Rests<K, T>) -> (Rests<K, T>, Rests<K, T>) {
    rests.into_iter().partition(|(_, bucket)| bucket.kept == 0)
}

impl<T: Collate + Send + 'static> Bucket<T>
where
    T::Output: Send + 'static,
{
    /// Makes it a batch.
    pub(super) fn leave(mut self, held: &mut Held) -> Out<T::Output> {
        let (kept, new) = self.heads.split_at_mut(self.kept);
        for head in &*new {
            held.release(&head.position(), &head.mark);
        }
        for head in new {
            let position = head.position();
            held.stamp(&position, &mut head.mark);
        }
        // Samples of another epoch: their ordinals say nothing of what is held of this one.
        kept.iter_mut().for_each(|head| head.mark.floor = 0);
        collate(self.heads, self.bodies)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::position::Mark;
    use crate::sample::{Key, Origin};

    fn head(epoch: u64, ordinal: u64) -> Head {
        let origin = Arc::new(Origin { epoch, ..Origin::default() });
        Head::new(Key::default(), origin, Mark::read(ordinal, ordinal))
    }

    /// Kinds and ordinals of rests.
    fn told<T>(rests: &Rests<char, T>) -> Vec<(char, Vec<u64>)> {
        let ordinals = |b: &Bucket<T>| b.heads.iter().map(|h| h.mark.ordinal).collect::<Vec<_>>();
        rests.iter().map(|(kind, bucket)| (*kind, ordinals(bucket))).collect()
    }

    fn filled(buckets: &mut Buckets<char, String>, epoch: u64, kinds: &str) {
        for (ordinal, kind) in (0..).zip(kinds.chars()) {
            buckets.push(&kind, head(epoch, ordinal), String::new());
        }
    }

    #[test]
    fn a_sample_is_kept_once() {
        let mut buckets = Buckets::with(Vec::new());
        filled(&mut buckets, 0, "baba");
        let (kept, short) = keep(buckets.rests());
        assert_eq!(told(&kept), [('b', vec![0, 2]), ('a', vec![1, 3])]);
        assert!(short.is_empty() && buckets.holds() == 0);
        // The next epoch: one more for a, b leaves, and a new kind.
        let mut buckets = Buckets::with(kept);
        assert_eq!(buckets.holds(), 4);
        filled(&mut buckets, 1, "ac");
        assert_eq!(
            told(&buckets.remove(&'b').map(|b| ('b', b)).into_iter().collect()),
            [('b', vec![0, 2])]
        );
        assert_eq!(buckets.holds(), 4);
        buckets.push(&'b', head(1, 2), String::new());
        let (kept, short) = keep(buckets.rests());
        assert_eq!(told(&short), [('a', vec![1, 3, 0])]);
        assert_eq!(told(&kept), [('c', vec![1]), ('b', vec![2])]);
    }

    #[test]
    fn what_was_kept_counts_and_is_the_oldest() {
        let mut buckets = Buckets::with(Vec::new());
        filled(&mut buckets, 0, "ab");
        let mut buckets = Buckets::with(buckets.rests());
        filled(&mut buckets, 1, "cc");
        assert_eq!(buckets.leaves_early(3, usize::MAX), Some('c'));
        assert_eq!(buckets.leaves_early(4, usize::MAX), None);
        filled(&mut buckets, 1, "ba");
        assert_eq!(buckets.leaves_early(5, usize::MAX), Some('a'));
        let text = String::new().bytes();
        assert_eq!(buckets.leaves_early(6, 6 * text), None);
        assert_eq!(buckets.leaves_early(6, 6 * text - 1), Some('a'));
    }

    #[tokio::test]
    async fn a_sample_of_another_epoch_vouches_for_nothing() {
        let mut buckets = Buckets::with(Vec::new());
        filled(&mut buckets, 0, "bbbbba");
        buckets.remove(&'b');
        let mut buckets = Buckets::with(buckets.rests());
        let mut held = Held::default();
        for (ordinal, kind) in [(0, 'c'), (1, 'a')] {
            let head = head(1, ordinal);
            held.hold(&head.position(), &head.mark);
            buckets.push(&kind, head, String::new());
        }
        let Some(Out::Batch(Ok(batch))) = buckets.remove(&'a').map(|a| a.leave(&mut held)) else {
            panic!("texts are moved");
        };
        let floors: Vec<_> = batch.heads.iter().map(|h| (h.mark.ordinal, h.mark.floor)).collect();
        assert_eq!(floors, [(5, 0), (1, 0)]);
        let Some(Out::Batch(Ok(batch))) = buckets.remove(&'c').map(|c| c.leave(&mut held)) else {
            panic!("texts are moved");
        };
        assert_eq!(batch.heads[0].mark.floor, 1, "nothing is held");
    }
}
