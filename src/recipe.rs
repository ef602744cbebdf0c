//! What a recipe says of itself: each stage notes its name and parameters when it is constructed, and the loader listens while it
//! builds a lane. The notes make the fingerprint by which a checkpoint knows its recipe.

use std::cell::RefCell;

/// What a stage says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Name and parameters: what decides about the output.
    pub text: String,
    /// If the stage makes batches: their size, and whether a short last one is dropped.
    pub batch: Option<(usize, bool)>,
}

thread_local! {
    /// Notes of the recipe that is being built on this thread, if one is.
    static NOTES: RefCell<Option<Vec<Note>>> = const { RefCell::new(None) };
}

fn add(make: impl FnOnce() -> Note) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.push(make());
        }
    });
}

/// Notes a stage and what decides about its output. Without a listener nothing happens.
pub fn note(stage: impl FnOnce() -> String) {
    add(|| Note { text: stage(), batch: None });
}

/// Notes a stage that makes batches.
pub fn note_batch(size: usize, drop_last: bool) {
    add(|| Note {
        text: format!("batch({size}, drop_last {drop_last})"),
        batch: Some((size, drop_last)),
    });
}

/// Notes that batches are taken apart again: samples are handed out one by one.
pub fn note_unbatch() {
    add(|| Note { text: "unbatch".into(), batch: Some((1, false)) });
}

/// Builds something and returns it with the notes taken meanwhile on this thread.
pub fn record<T>(build: impl FnOnce() -> T) -> (T, Vec<Note>) {
    let outer = NOTES.replace(Some(Vec::new()));
    let built = build();
    let notes = NOTES.replace(outer).unwrap_or_default();
    (built, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_heard_only_while_recording() {
        note(|| unreachable!("nobody listens"));
        let texts = |notes: Vec<Note>| notes.into_iter().map(|note| note.text).collect::<Vec<_>>();
        let (inner, notes) = record(|| {
            note(|| "a".into());
            let ((), inner) = record(|| note(|| "b".into()));
            note(|| "c".into());
            texts(inner)
        });
        assert_eq!((inner, texts(notes)), (vec!["b".into()], vec!["a".into(), "c".into()]));
    }
}
