//! What is settled of one lane, and what goes with it from epoch to epoch.

use serde::{Deserialize, Serialize};

use super::{Kept, Skip, SourceProgress, skip};
use crate::error::{Error, Result};
use crate::position::{Mark, Position};

/// What is settled of one lane, and how far it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneProgress {
    /// Epoch in which the lane is.
    pub epoch: u64,
    /// Batches handed out in this epoch.
    pub batches: u64,
    /// Batches handed out since all lanes last began together: whose turn it is follows from it.
    pub turns: u64,
    /// Whether the lane has ended in this epoch.
    #[serde(default)]
    pub ended: bool,
    /// One for each source.
    pub sources: Vec<SourceProgress>,
    /// What is kept in buckets and still owed: of this epoch if the lane has ended in it, else of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// What became in this epoch of the samples that the one before had kept.
    #[serde(default, skip_serializing_if = "Late::is_nothing")]
    pub late: Late,
}

/// What became of samples that an epoch had kept for the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Handed out.
    pub delivered: u64,
    /// Given up with a reason.
    pub skipped: u64,
    /// Dropped without a word, or not found again after a resume: known at the end of this epoch.
    pub silent: u64,
    /// What was given up, with the reasons: the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Skip>,
}

impl Late {
    /// Adds what became of those of another lane.
    pub fn merge(&mut self, other: &Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.silent = self.silent.saturating_add(other.silent);
        self.skips.extend_from_slice(&other.skips);
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl LaneProgress {
    /// A lane at the beginning of an epoch.
    #[must_use]
    pub fn at(epoch: u64, sources: usize) -> Self {
        Self { epoch, sources: vec![SourceProgress::default(); sources], ..Self::default() }
    }

    /// The source with this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn source(&mut self, source: u16) -> Result<&mut SourceProgress> {
        let known = self.sources.len();
        self.sources.get_mut(usize::from(source)).ok_or_else(|| {
            Error::config(format!(
                "a sample of source {source} came from a lane with {known} sources"
            ))
        })
    }

    /// The lane has ended in this epoch, and keeps these samples for the next one. What is neither settled nor kept was dropped without a word.
    /// Returns how many of those that the epoch before had kept have not come: none is kept twice.
    pub(crate) fn end(&mut self, kept: &[(Position, Mark)]) -> u64 {
        let lost = self.kept.take().map_or(0, |left| left.count());
        self.late.silent += lost;
        let epoch = self.epoch;
        self.kept = Kept::new(epoch, kept);
        for (position, mark) in kept.iter().filter(|(position, _)| position.epoch == epoch) {
            if let Ok(source) = self.source(position.source) {
                source.settled.settle(mark.ordinal);
            }
        }
        self.sources.iter_mut().for_each(SourceProgress::finish);
        self.ended = true;
        lost
    }

    /// The lane at the beginning of an epoch that follows: what it has kept goes with it.
    pub(crate) fn begin(&mut self, epoch: u64) {
        let kept = self.kept.take();
        *self = Self { kept, ..Self::at(epoch, self.sources.len()) };
    }

    /// The earlier epoch of which kept samples are owed in this one.
    pub(crate) fn late_epoch(&self) -> Option<u64> {
        self.kept.as_ref().map(|kept| kept.epoch).filter(|&epoch| epoch != self.epoch)
    }

    /// Settles a sample of [`late_epoch`](Self::late_epoch) that is handed out.
    pub(crate) fn deliver_late(&mut self, position: &Position) {
        self.late.delivered += self.with_kept(|kept| kept.settle(position, false));
    }

    /// Settles a sample of [`late_epoch`](Self::late_epoch) that is given up, or, with `rest`, all that are left of its shard.
    pub(crate) fn skip_late(&mut self, position: &Position, rest: bool, reason: &str) {
        let settled = self.with_kept(|kept| kept.settle(position, rest));
        self.late.skipped += settled;
        if settled > 0 {
            skip(&mut self.late.skips, position, rest, reason);
        }
    }

    /// Once none of them is owed any more they are forgotten.
    fn with_kept(&mut self, settle: impl FnOnce(&mut Kept) -> u64) -> u64 {
        let settled = self.kept.as_mut().map_or(0, settle);
        self.kept = self.kept.take().filter(|kept| !kept.shards.is_empty());
        settled
    }

    /// Refuses what no run can have left.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let ended = u64::from(self.ended);
        if kept.epoch.checked_add(1) != self.epoch.checked_add(ended) {
            return Err(Error::checkpoint(format!(
                "a lane in epoch {} can't have kept samples of epoch {}",
                self.epoch, kept.epoch
            )));
        }
        kept.check(self.sources.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(epoch: u64, ordinal: u64) -> (Position, Mark) {
        let position = Position { epoch, lane: 0, source: 0, ordinal, place: 0, index: ordinal };
        (position, Mark::read(ordinal, ordinal))
    }

    /// A lane that has ended in epoch 3: of six samples 0 and 3 were delivered, 4 was dropped without a word, 1 and 5 are kept; 2 as well.
    fn ended() -> LaneProgress {
        let mut lane = LaneProgress::at(3, 1);
        for ordinal in [0, 3] {
            let (position, mark) = sample(3, ordinal);
            assert!(lane.sources[0].settle(&position, &mark));
        }
        assert_eq!(lane.end(&[sample(3, 1), sample(3, 5), sample(3, 2)]), 0);
        lane
    }

    #[test]
    fn what_is_kept_is_neither_silent_nor_in_the_digest() {
        let lane = ended();
        assert!(lane.ended && lane.late_epoch().is_none());
        assert_eq!((lane.sources[0].silent, lane.sources[0].digest.count), (1, 2));
        let kept = lane.kept.as_ref().unwrap();
        assert_eq!((kept.epoch, &kept.shards[0].owed), (3, &vec![1, 2, 5]));
        assert!(lane.check().is_ok());
    }

    #[test]
    fn it_goes_along_and_goes_away() {
        let mut lane = ended();
        lane.begin(4);
        assert!((lane.epoch, lane.ended) == (4, false) && lane.check().is_ok());
        assert_eq!(lane.late_epoch(), Some(3));
        lane.deliver_late(&sample(3, 1).0);
        lane.deliver_late(&sample(3, 1).0);
        lane.skip_late(&sample(3, 5).0, false, "broken");
        lane.skip_late(&sample(3, 5).0, false, "broken");
        lane.deliver_late(&sample(3, 2).0);
        let counts = |late: &Late| [late.delivered, late.skipped, late.silent];
        assert_eq!(counts(&lane.late), [2, 1, 0]);
        assert!(lane.late.skips.len() == 1 && lane.late.skips[0].reason == "broken");
        assert_eq!((lane.late_epoch(), &lane.kept, lane.sources[0].digest.count), (None, &None, 0));
        lane.begin(5);
        assert!(lane.late.is_nothing());
    }

    #[test]
    fn what_was_not_handed_out_in_the_next_epoch_is_not_kept_again() {
        let mut lane = ended();
        lane.begin(4);
        lane.deliver_late(&sample(3, 2).0);
        assert_eq!(lane.end(&[sample(3, 1), sample(4, 0)]), 2);
        assert_eq!(lane.late, Late { delivered: 1, silent: 2, ..Late::default() });
        assert_eq!(lane.kept.unwrap().epoch, 4);
    }

    #[test]
    fn epochs_that_do_not_follow_each_other_are_refused() {
        for (epoch, is_ended) in [(3, false), (4, true), (5, false), (u64::MAX, true)] {
            let mut lane = ended();
            (lane.epoch, lane.ended) = (epoch, is_ended);
            assert!(lane.check().unwrap_err().is_checkpoint(), "{epoch} {is_ended}");
        }
    }

    #[test]
    fn a_lane_without_is_written_as_before() {
        let text = serde_json::to_string(&LaneProgress::at(1, 0)).unwrap();
        assert_eq!(text, r#"{"epoch":1,"batches":0,"turns":0,"ended":false,"sources":[]}"#);
        let mut lane = ended();
        lane.begin(4);
        lane.deliver_late(&sample(3, 2).0);
        let text = serde_json::to_string(&lane).unwrap();
        assert_eq!(serde_json::from_str::<LaneProgress>(&text).unwrap(), lane);
    }
}
