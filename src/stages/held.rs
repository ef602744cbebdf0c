//! Which ordinals a stage holds, for the floor of what it lets overtake them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::position::{Mark, Position};

/// The ordinals that a stage holds, by source. Ordinals mostly come in ascending order, which is the cheap case of a heap; one that is
/// released stays in the heap until it is the smallest.
#[derive(Debug, Default)]
pub(super) struct Held {
    sources: Vec<Source>,
}

#[derive(Debug, Default)]
struct Source {
    held: BinaryHeap<Reverse<u64>>,
    released: BinaryHeap<Reverse<u64>>,
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
        source.held.push(Reverse(mark.ordinal));
        source.floor = source.floor.max(mark.floor);
    }

    /// An item goes out, or on to where it is no longer held by this stage.
    pub(super) fn release(&mut self, position: &Position, mark: &Mark) {
        let source = self.source(position);
        source.released.push(Reverse(mark.ordinal));
        while source.released.peek().is_some() && source.released.peek() == source.held.peek() {
            source.released.pop();
            source.held.pop();
        }
    }

    /// Lowers (or raises) a mark's floor to what is true of it now: the oldest ordinal held, or the newest floor that came in.
    pub(super) fn stamp(&mut self, position: &Position, mark: &mut Mark) {
        let source = self.source(position);
        source.floor = source.floor.max(mark.floor);
        let oldest = source.held.peek().map_or(u64::MAX, |held| held.0);
        mark.floor = source.floor.min(oldest);
    }
}
