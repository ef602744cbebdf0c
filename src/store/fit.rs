//! Whether an answer fits the question. Pure.

use super::transport::{Attempt, Failure, FailureKind, Reply};

/// What was asked for, and what earlier answers said about the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Question {
    /// The next byte that is wanted.
    pub(super) at: u64,
    /// One past the last byte that was asked for.
    pub(super) end: Option<u64>,
    /// The object, if an answer has come before.
    pub(super) known: Option<Known>,
}

/// What the first answer said about the object. Later ones must agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) etag: Option<String>,
    pub(super) size: Option<u64>,
}

/// How an answer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// Bytes to skip first: what is already there, when a server sends the whole object again.
    pub(super) skip: u64,
    /// One past the last byte the body will hold, if it is known: fewer or more would be wrong.
    pub(super) body_end: Option<u64>,
}

/// Compares an answer with the question.
pub(super) fn fit(question: &Question, reply: &Reply) -> Attempt<Fit> {
    if let Some(known) = &question.known {
        same_object(known, reply)?;
    }
    let known_size = question.known.as_ref().and_then(|known| known.size);
    let (at, body_end) = (
        question.at,
        if reply.ranged { reply.end } else { reply.end.or(reply.size).or(known_size) },
    );
    if reply.ranged {
        if reply.start != at {
            return Err(Failure::mismatch(format!(
                "asked for bytes from {at}, the server sent bytes from {}",
                reply.start
            )));
        }
        if let Some((end, sent)) = question.end.zip(reply.end).filter(|(end, sent)| sent > end) {
            return Err(Failure::mismatch(format!(
                "asked for bytes up to {end}, the server announces bytes up to {sent}"
            )));
        }
        if reply.end.is_some_and(|end| end <= at)
            || reply.size.zip(reply.end).is_some_and(|(size, end)| end > size)
        {
            return Err(Failure::mismatch("the server announces a range that can't be"));
        }
    } else if reply.size.is_some_and(|size| size < at) && question.known.is_some() {
        return Err(Failure::new(
            FailureKind::Changed,
            "the object has become shorter while it was read",
        ));
    }
    Ok(Fit { skip: at - reply.start, body_end })
}

fn same_object(known: &Known, reply: &Reply) -> Attempt<()> {
    let changed = |what: &str| {
        Err(Failure::new(
            FailureKind::Changed,
            format!("the object has changed while it was read: {what}"),
        ))
    };
    match (&known.etag, &reply.etag) {
        (Some(old), Some(new)) if old != new => {
            return changed(&format!("ETag {old} became {new}"));
        }
        (Some(old), None) => {
            return Err(Failure::mismatch(format!("the answer no longer carries the ETag {old}")));
        }
        _ => {}
    }
    match (known.size, reply.size) {
        (Some(old), Some(new)) if old != new => changed(&format!("{old} bytes became {new}")),
        _ => Ok(()),
    }
}

/// What it means that the object is said to end before the byte that was asked for: the end was reached, or something is wrong.
pub(super) fn past_end(question: &Question, size: Option<u64>) -> Attempt<()> {
    let known = question.known.as_ref().and_then(|known| known.size);
    match (known, size) {
        (Some(old), Some(new)) if old != new => Err(Failure::new(
            FailureKind::Changed,
            format!("the object has changed while it was read: {old} bytes became {new}"),
        )),
        (Some(size), _) | (None, Some(size)) if size > question.at => Err(Failure::mismatch(
            format!("the server says there is no byte {} in {size} bytes", question.at),
        )),
        (None, Some(size)) if size < question.at && question.known.is_some() => Err(Failure::new(
            FailureKind::Changed,
            format!("the object has become shorter while it was read: {size} bytes"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn reply(
        ranged: bool,
        start: u64,
        end: Option<u64>,
        size: Option<u64>,
        etag: Option<&str>,
    ) -> Reply {
        Reply {
            ranged,
            start,
            end,
            size,
            etag: etag.map(str::to_owned),
            body: futures::stream::empty().boxed(),
        }
    }

    fn question(at: u64, end: Option<u64>) -> Question {
        Question { at, end, known: Some(Known { etag: Some("v1".into()), size: Some(100) }) }
    }

    #[test]
    fn answers_that_fit() {
        let (v1, all) = (Some("v1"), Some(100));
        for (question, reply, skip, body_end) in [
            (question(10, Some(50)), reply(true, 10, Some(50), all, v1), 0, Some(50)),
            // A shorter range is an answer too: the rest is asked for next.
            (question(10, Some(50)), reply(true, 10, Some(20), all, v1), 0, Some(20)),
            (question(10, Some(500)), reply(true, 10, Some(100), all, v1), 0, Some(100)),
            // The whole object in place of the range.
            (question(10, Some(50)), reply(false, 0, None, all, v1), 10, Some(100)),
            (question(10, Some(50)), reply(false, 0, None, None, v1), 10, Some(100)),
            (
                Question { at: 3, end: Some(50), known: None },
                reply(false, 0, None, None, v1),
                3,
                None,
            ),
            (
                Question { at: 0, end: Some(50), known: None },
                reply(true, 0, Some(50), None, None),
                0,
                Some(50),
            ),
            (
                Question { at: 9, end: Some(50), known: None },
                reply(false, 0, None, Some(5), None),
                9,
                Some(5),
            ),
        ] {
            assert_eq!(
                fit(&question, &reply).unwrap(),
                Fit { skip, body_end },
                "{question:?} {reply:?}"
            );
        }
    }

    #[test]
    fn answers_that_do_not() {
        let (v1, all) = (Some("v1"), Some(100));
        let (mismatch, changed) = (FailureKind::Mismatch, FailureKind::Changed);
        for (reply, want) in [
            (reply(true, 11, Some(50), all, v1), mismatch),
            (reply(true, 0, Some(50), all, v1), mismatch),
            (reply(true, 10, Some(51), all, v1), mismatch),
            (reply(true, 10, Some(10), all, v1), mismatch),
            (reply(true, 10, Some(50), all, Some("v2")), changed),
            (reply(true, 10, Some(50), Some(101), v1), changed),
            (reply(true, 10, Some(50), all, None), mismatch),
            (reply(false, 0, None, all, Some("v2")), changed),
            (reply(false, 0, None, Some(99), v1), changed),
        ] {
            assert_eq!(fit(&question(10, Some(50)), &reply).unwrap_err().kind, want, "{reply:?}");
        }
        let unsized_object = Question { at: 10, end: None, known: Some(Known::default()) };
        assert_eq!(
            fit(&unsized_object, &reply(false, 0, None, Some(9), None)).unwrap_err().kind,
            changed
        );
        assert_eq!(
            fit(&unsized_object, &reply(true, 10, Some(50), Some(40), None)).unwrap_err().kind,
            mismatch
        );
    }

    #[test]
    fn past_the_end() {
        let known = |size| Some(Known { etag: None, size });
        let kind = |at, known, size| {
            past_end(&Question { at, end: None, known }, size).err().map(|failure| failure.kind)
        };
        assert_eq!(kind(0, None, Some(0)), None);
        assert_eq!(kind(7, None, Some(5)), None);
        assert_eq!(kind(7, None, None), None);
        assert_eq!(kind(7, known(None), Some(7)), None);
        assert_eq!(kind(7, known(Some(7)), None), None);
        assert_eq!(kind(7, None, Some(9)), Some(FailureKind::Mismatch));
        assert_eq!(kind(7, known(Some(9)), None), Some(FailureKind::Mismatch));
        assert_eq!(kind(7, known(Some(9)), Some(5)), Some(FailureKind::Changed));
        assert_eq!(kind(7, known(None), Some(5)), Some(FailureKind::Changed));
    }
}
