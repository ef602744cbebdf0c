//! Which ordinals a stage holds, for the floor of what it lets overtake them.

use std::collections::VecDeque;

use crate::position::{Mark, Position};

/// The ordinals that a stage holds, by source. They mostly come in ascending order, which costs a push at the end; one that is released
/// stays as a mark until all before it are released.
#[derive(Debug, Default)]
pub(super) struct Held {
    sources: Vec<Source>,
}

#[derive(Debug, Default)]
struct Source {
    /// Ascending, each with whether it is still held. The first one is.
    window: VecDeque<(u64, bool)>,
    /// The highest floor that came in: what is below and not held here is held by nobody upstream.
    floor: u64,
}

impl Held {
    fn source(&mut self, position: &Position) -> &mut Source {
        let at = usize::from(position.source);
        if self.sources.len() <= at {
            self.sources.resize_with(at + 1, Source::default);
        }
        &mut self.sources[at]
    }

    /// An item came in.
    pub(super) fn hold(&mut self, position: &Position, mark: &Mark) {
        let source = self.source(position);
        source.floor = source.floor.max(mark.floor);
        source.hold(mark.ordinal);
    }

    /// An item goes out, or on to where it is no longer held by this stage.
    pub(super) fn release(&mut self, position: &Position, mark: &Mark) {
        self.source(position).release(mark.ordinal);
    }

    /// Lowers (or raises) a mark's floor to what is true of it now: the oldest ordinal held, or the newest floor that came in.
    pub(super) fn stamp(&mut self, position: &Position, mark: &mut Mark) {
        let source = self.source(position);
        source.floor = source.floor.max(mark.floor);
        let oldest = source.window.front().map_or(u64::MAX, |oldest| oldest.0);
        mark.floor = source.floor.min(oldest);
    }
}

impl Source {
    fn hold(&mut self, ordinal: u64) {
        if self.window.back().is_none_or(|newest| newest.0 <= ordinal) {
            self.window.push_back((ordinal, true));
        } else {
            let at = self.window.partition_point(|other| other.0 <= ordinal);
            self.window.insert(at, (ordinal, true));
        }
    }

    /// Where an ordinal stands, or would stand. Mostly all of them are there, and its distance from the first one says where.
    fn find(&self, ordinal: u64) -> usize {
        let guess = self.window.front().and_then(|first| ordinal.checked_sub(first.0));
        let guess = guess.and_then(|guess| usize::try_from(guess).ok());
        let is_it = |at: &usize| {
            let before = at.checked_sub(1).and_then(|before| self.window.get(before));
            self.window.get(*at).is_some_and(|other| other.0 == ordinal)
                && before.is_none_or(|before| before.0 < ordinal)
        };
        guess
            .filter(is_it)
            .unwrap_or_else(|| self.window.partition_point(|other| other.0 < ordinal))
    }

    fn release(&mut self, ordinal: u64) {
        let from = self.find(ordinal);
        let same = self.window.range_mut(from..).take_while(|other| other.0 == ordinal);
        if let Some(held) = same.map(|other| &mut other.1).find(|held| **held) {
            *held = false;
        }
        while self.window.front().is_some_and(|oldest| !oldest.1) {
            self.window.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest ordinal held after each step; positive steps hold, negative ones release.
    fn oldest(steps: &[i64]) -> Vec<Option<u64>> {
        let mut source = Source::default();
        steps
            .iter()
            .map(|step| {
                if *step > 0 {
                    source.hold(step.unsigned_abs());
                } else {
                    source.release(step.unsigned_abs());
                }
                source.window.front().map(|oldest| oldest.0)
            })
            .collect()
    }

    #[test]
    fn the_oldest_one_counts() {
        assert_eq!(
            oldest(&[3, 5, 9, -5, -3, -9]),
            [Some(3), Some(3), Some(3), Some(3), Some(9), None]
        );
        assert_eq!(
            oldest(&[7, 2, 4, -2, -7, -4]),
            [Some(7), Some(2), Some(2), Some(4), Some(4), None]
        );
    }

    #[test]
    fn one_that_is_held_twice_is_released_twice() {
        assert_eq!(
            oldest(&[4, 4, 6, -4, -6, -4]),
            [Some(4), Some(4), Some(4), Some(4), Some(4), None]
        );
    }

    #[test]
    fn what_is_not_held_is_not_released() {
        assert_eq!(oldest(&[4, -3, -5, -4, -4]), [Some(4), Some(4), Some(4), None, None]);
    }
}
