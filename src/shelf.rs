//! What the stages of a lane keep at the end of an epoch for the next one. The shelf of an epoch lies ready while its recipe is built: a
//! stage asks for its slot when it is constructed, takes what lies there, and puts there what it keeps when its stream ends.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::position::{Mark, Position};

/// The shelf of one lane in one epoch.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Whether an epoch follows, for which something may be kept.
    keeps: bool,
    /// What the epoch before has kept.
    left: Mutex<Things>,
    /// What this one keeps.
    kept: Mutex<Things>,
}

/// By the number of the stage that keeps it.
type Things = BTreeMap<usize, Thing>;

struct Thing {
    value: Box<dyn Any + Send>,
    samples: Vec<(Position, Mark)>,
}

thread_local! {
    /// The shelf of the recipe that is being built on this thread, if one is, and the number of the next stage that asks for a slot.
    static BUILDING: RefCell<Option<(Arc<Shelf>, usize)>> = const { RefCell::new(None) };
}

/// Puts back what was there before, even after a panic.
struct Restore(Option<(Arc<Shelf>, usize)>);

impl Drop for Restore {
    fn drop(&mut self) {
        BUILDING.set(self.0.take());
    }
}

fn lock(things: &Mutex<Things>) -> MutexGuard<'_, Things> {
    things.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// The shelf of the epoch that follows: on it lies what this one has kept. `keeps` is whether that one is followed by another.
    pub(crate) fn next(&self, keeps: bool) -> Self {
        let left = std::mem::take(&mut *lock(&self.kept));
        Self { keeps, left: Mutex::new(left), kept: Mutex::default() }
    }

    /// Builds a recipe whose stages may ask for slots.
    pub(crate) fn build<T>(self: &Arc<Self>, build: impl FnOnce() -> T) -> T {
        let _restore = Restore(BUILDING.replace(Some((Arc::clone(self), 0))));
        build()
    }

    /// The samples that are kept, stage by stage.
    pub(crate) fn samples(&self) -> Vec<(Position, Mark)> {
        lock(&self.kept).values().flat_map(|thing| &thing.samples).copied().collect()
    }
}

/// The place of one stage on a shelf.
pub(crate) struct Slot {
    shelf: Arc<Shelf>,
    number: usize,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    /// The slot of the stage that is being constructed, numbered in order of construction; `None` outside a loader.
    pub(crate) fn ask() -> Option<Self> {
        BUILDING.with_borrow_mut(|building| {
            let (shelf, next) = building.as_mut()?;
            let number = *next;
            *next += 1;
            Some(Self { shelf: Arc::clone(shelf), number })
        })
    }

    /// Whether an epoch follows, for which something may be kept.
    pub(crate) fn keeps(&self) -> bool {
        self.shelf.keeps
    }

    /// What the same stage kept in the epoch before.
    pub(crate) fn take<T: 'static>(&self) -> Option<T> {
        let thing = lock(&self.shelf.left).remove(&self.number)?;
        thing.value.downcast().ok().map(|value| *value)
    }

    /// Keeps something, and says which samples that is.
    pub(crate) fn put<T: Send + 'static>(&self, value: T, samples: Vec<(Position, Mark)>) {
        let thing = Thing { value: Box::new(value), samples };
        lock(&self.shelf.kept).insert(self.number, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ordinal: u64) -> (Position, Mark) {
        let position = Position { epoch: 0, lane: 0, source: 0, ordinal, place: 0, index: ordinal };
        (position, Mark::read(ordinal, ordinal))
    }

    fn slots(shelf: &Arc<Shelf>, n: usize) -> Vec<Slot> {
        shelf.build(|| (0..n).filter_map(|_| Slot::ask()).collect())
    }

    #[test]
    fn each_stage_finds_its_own_in_the_next_epoch() {
        let first = Arc::new(Shelf::default().next(true));
        let stages = slots(&first, 2);
        assert!(stages.iter().all(Slot::keeps) && stages[0].take::<&str>().is_none());
        stages[1].put("b", vec![sample(4)]);
        stages[0].put("a", vec![sample(7), sample(5)]);
        let ordinals: Vec<_> = first.samples().iter().map(|(p, _)| p.ordinal).collect();
        assert_eq!(ordinals, [7, 5, 4]);
        let second = Arc::new(first.next(false));
        let stages = slots(&second, 2);
        assert!(!stages[0].keeps() && second.samples().is_empty());
        assert_eq!((stages[1].take(), stages[0].take()), (Some("b"), Some("a")));
        assert_eq!(stages[0].take::<&str>(), None);
    }

    #[test]
    fn what_nobody_took_is_not_kept_again() {
        let first = Arc::new(Shelf::default().next(true));
        slots(&first, 1)[0].put(1, vec![sample(1)]);
        let second = Arc::new(first.next(true));
        let third = Arc::new(second.next(true));
        assert_eq!(slots(&third, 1)[0].take::<i32>(), None);
        // And one that is late keeps for nobody.
        slots(&first, 1)[0].put(2, vec![sample(2)]);
        assert!(third.samples().is_empty());
    }

    #[test]
    fn there_are_slots_only_while_a_recipe_is_built() {
        assert!(Slot::ask().is_none());
        let shelf = Arc::new(Shelf::default());
        let broken = std::panic::AssertUnwindSafe(|| shelf.build(|| panic!("a recipe")));
        assert!(std::panic::catch_unwind(broken).is_err());
        assert!(Slot::ask().is_none(), "a panic leaves no shelf behind");
    }
}
