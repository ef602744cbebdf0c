//! What an epoch has kept for the next one: samples that are owed although the epoch has ended.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Digest, ShardState, SourceProgress, is_one, one};
use crate::error::{Error, Result};
use crate::position::{Mark, Position};

/// Samples of an epoch that has ended, kept for the one that follows. Everything else of that epoch is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The epoch in which they were read.
    pub epoch: u64,
    /// The shards that hold them, by source and place.
    pub shards: Vec<KeptShard>,
}

/// Samples of one shard that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptShard {
    /// Which source of the lane.
    #[serde(default, skip_serializing_if = "is_first")]
    pub source: u16,
    /// Its place in the epoch's order.
    pub place: u64,
    /// Ordinal of its first sample.
    pub first: u64,
    /// Step from one of its samples' ordinals to the next.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub stride: u64,
    /// Which of its samples are owed, ascending.
    pub owed: Vec<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
const fn is_first(source: &u16) -> bool {
    *source == 0
}

impl KeptShard {
    /// The ordinals that are owed; `None` if there are none, or some are larger than any could be.
    fn ordinals(&self) -> Option<Vec<u64>> {
        let ordinal = |&index: &u64| {
            let ordinal = self.first.checked_add(index.checked_mul(self.stride)?)?;
            // As far as half the numbers there are nobody who adds to one runs over.
            (index < u64::MAX / 2 && ordinal < u64::MAX / 2).then_some(ordinal)
        };
        self.owed.iter().map(ordinal).collect::<Option<Vec<_>>>().filter(|owed| !owed.is_empty())
    }
}

impl Kept {
    /// These samples of an epoch; `None` if there are none.
    #[must_use]
    pub fn new(epoch: u64, samples: &[(Position, Mark)]) -> Option<Self> {
        let mut samples: Vec<_> = samples.iter().filter(|(p, _)| p.epoch == epoch).collect();
        samples.sort_by_key(|(p, _)| (p.source, p.place, p.index));
        let mut shards: Vec<KeptShard> = Vec::new();
        for (position, mark) in samples {
            let &Position { source, place, index, .. } = position;
            match shards.last_mut() {
                Some(shard) if (shard.source, shard.place) == (source, place) => {
                    shard.owed.push(index);
                }
                _ => shards.push(KeptShard {
                    source,
                    place,
                    first: mark.first(),
                    stride: mark.stride.into(),
                    owed: vec![index],
                }),
            }
        }
        (!shards.is_empty()).then_some(Self { epoch, shards })
    }

    /// How many are owed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.owed.len() as u64).sum()
    }

    /// The digest of their positions.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for shard in &self.shards {
            let owed = shard.owed.iter();
            owed.for_each(|&index| digest.add(self.epoch, shard.source, shard.place, index));
        }
        digest
    }

    /// Settles one of them, or, with `rest`, all that are owed of its shard from there on; how many these were.
    pub(super) fn settle(&mut self, position: &Position, rest: bool) -> u64 {
        let place = (position.source, position.place);
        let at = self.shards.binary_search_by_key(&place, |shard| (shard.source, shard.place));
        let Ok(at) = at else { return 0 };
        let owed = &mut self.shards[at].owed;
        let before = owed.len();
        owed.retain(|&index| index < position.index || (!rest && index > position.index));
        let settled = before - owed.len();
        if owed.is_empty() {
            self.shards.remove(at);
        }
        settled as u64
    }

    /// Progress with which the recipe reads these samples again and nothing else, for so many sources.
    pub(crate) fn sources(&self, sources: usize) -> Vec<SourceProgress> {
        let none = || SourceProgress { only: Some(BTreeSet::new()), ..SourceProgress::default() };
        let mut all: Vec<_> = std::iter::repeat_with(none).take(sources).collect();
        for shard in &self.shards {
            let Some(source) = all.get_mut(usize::from(shard.source)) else { continue };
            let (Some(ordinals), Some(last)) = (shard.ordinals(), shard.owed.last()) else {
                continue;
            };
            source.only.get_or_insert_default().extend(ordinals);
            let KeptShard { place, first, stride, .. } = *shard;
            source.shards.push(ShardState { place, first, stride, end: Some(last + 1) });
        }
        // A mix that ends with its first source must not think so of one of which nothing is read.
        all.iter_mut().for_each(|source| source.mixed = u64::MAX);
        all
    }

    /// Refuses what no run can have kept.
    pub(super) fn check(&self, sources: usize) -> Result<()> {
        let wrong =
            |what: String| Err(Error::checkpoint(format!("kept of epoch {}: {what}", self.epoch)));
        let mut before = None;
        for shard in &self.shards {
            let KeptShard { source, place, stride, .. } = *shard;
            if usize::from(source) >= sources {
                return wrong(format!("source {source} of {sources}"));
            }
            if before.replace((source, place)).is_some_and(|before| before >= (source, place)) {
                return wrong(format!("the shard at place {place} is out of order"));
            }
            let ascending = shard.owed.is_sorted_by(|a, b| a < b);
            if shard.ordinals().is_none() || !ascending || !(1..=u32::MAX.into()).contains(&stride)
            {
                return wrong(format!("the samples of the shard at place {place} can't be"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(source: u16, place: u64, first: u64, stride: u32, index: u64) -> (Position, Mark) {
        let ordinal = first + index * u64::from(stride);
        let position = Position { epoch: 5, lane: 0, source, ordinal, place, index };
        (position, Mark { stride, ..Mark::read(ordinal, index) })
    }

    fn some() -> Kept {
        let samples = [
            sample(0, 6, 40, 1, 3),
            sample(1, 2, 9, 4, 2),
            sample(0, 2, 10, 1, 7),
            sample(0, 6, 40, 1, 0),
            sample(0, 6, 40, 1, 8),
        ];
        Kept::new(5, &samples).unwrap()
    }

    #[test]
    fn shards_with_their_samples_in_order() {
        let kept = some();
        assert_eq!(
            serde_json::to_string(&kept).unwrap(),
            r#"{"epoch":5,"shards":[{"place":2,"first":10,"owed":[7]},{"place":6,"first":40,"owed":[0,3,8]},{"source":1,"place":2,"first":9,"stride":4,"owed":[2]}]}"#
        );
        assert_eq!((kept.count(), kept.digest().count), (5, 5));
        assert!(kept.check(2).is_ok());
        assert_eq!(Kept::new(4, &[sample(0, 1, 0, 1, 0)]), None, "of another epoch");
    }

    #[test]
    fn one_after_the_other_is_settled() {
        let mut kept = some();
        assert_eq!(kept.settle(&sample(0, 6, 40, 1, 3).0, false), 1);
        assert_eq!(kept.settle(&sample(0, 6, 40, 1, 3).0, false), 0, "only once");
        assert_eq!(kept.settle(&sample(0, 2, 10, 1, 9).0, true), 0, "the rest begins behind it");
        assert_eq!(kept.settle(&sample(0, 6, 40, 1, 0).0, true), 2);
        assert_eq!(
            kept.shards.iter().map(|s| (s.source, s.place)).collect::<Vec<_>>(),
            [(0, 2), (1, 2)]
        );
        assert_eq!(kept.count(), 2);
    }

    #[test]
    fn nothing_but_what_is_kept_is_read_again() {
        let sources = some().sources(3);
        let owed =
            |source: &SourceProgress| (0..100).filter(|&o| source.owes(o)).collect::<Vec<_>>();
        assert_eq!(
            sources.iter().map(owed).collect::<Vec<_>>(),
            [vec![17, 40, 43, 48], vec![17], vec![]]
        );
        let shards = sources[0].shards.iter().map(|shard| (shard.place, shard.end));
        assert_eq!(shards.collect::<Vec<_>>(), [(2, Some(8)), (6, Some(9))]);
    }

    #[test]
    fn nonsense_is_refused() {
        for (shards, what) in [
            (r#"[{"source":2,"place":1,"first":0,"owed":[0]}]"#, "source 2 of 2"),
            (
                r#"[{"place":1,"first":0,"owed":[0]},{"place":1,"first":0,"owed":[1]}]"#,
                "out of order",
            ),
            (r#"[{"place":1,"first":0,"owed":[]}]"#, "can't be"),
            (r#"[{"place":1,"first":0,"owed":[3,3]}]"#, "can't be"),
            (r#"[{"place":1,"first":0,"stride":0,"owed":[3]}]"#, "can't be"),
            (r#"[{"place":1,"first":18446744073709551615,"owed":[1]}]"#, "can't be"),
            (r#"[{"place":1,"first":0,"owed":[18446744073709551615]}]"#, "can't be"),
        ] {
            let kept = format!(r#"{{"epoch":5,"shards":{shards}}}"#);
            let kept: Kept = serde_json::from_str(&kept).unwrap();
            let error = kept.check(2).unwrap_err();
            assert!(error.is_checkpoint() && error.to_string().contains(what), "{what}: {error}");
        }
    }
}
