//! `slice`: a part of each lane's epoch.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::FusedStream;
use pin_project_lite::pin_project;

use crate::error::{Error, Result};
use crate::position::Mark;
use crate::recipe;
use crate::sample::Sample;

pin_project! {
    /// Stream for the [`slice`](super::SampleStream::slice) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Slice<St> {
        // None once nothing that is wanted can come.
        #[pin]
        stream: Option<St>,
        from: u64,
        to: u64,
    }
}

impl<St> fmt::Debug for Slice<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl<St> Slice<St> {
    pub(super) fn new(stream: St, ordinals: impl RangeBounds<u64>) -> Self {
        let from = match ordinals.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match ordinals.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&to) => to,
            Bound::Unbounded => u64::MAX,
        };
        recipe::note(|| format!("slice({from}..{to})"));
        Self { stream: Some(stream), from, to }
    }
}

impl<St, T> Stream for Slice<St>
where
    St: Stream<Item = Result<Sample<T>>>,
{
    type Item = Result<Sample<T>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let Some(stream) = this.stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let item = ready!(stream.poll_next(cx));
        let wanted = |ordinal| (*this.from..*this.to).contains(&ordinal);
        let mark = match &item {
            Some(Ok(sample)) => Some(sample.head.mark),
            Some(Err(error)) => error.mark().map(|(_, mark)| mark),
            None => None,
        };
        // The floor vouches that nothing wanted comes behind this item. Of several sources that are mixed it speaks for one only.
        let over = |mark: Mark| mark.floor >= *this.to && mark.mixed == 0 && !wanted(mark.ordinal);
        if item.is_none() || mark.is_some_and(over) {
            this.stream.set(None);
            return Poll::Ready(None);
        }
        Poll::Ready(item.map(|item| {
            let sample = item?;
            if wanted(sample.head.mark.ordinal) {
                Ok(sample)
            } else {
                Err(sample.head.explain(Error::filter("outside the slice")))
            }
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // It may end before the stream does.
        (0, self.stream.as_ref().map_or(Some(0), |stream| stream.size_hint().1))
    }
}

impl<St, T> FusedStream for Slice<St>
where
    St: Stream<Item = Result<Sample<T>>>,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_none()
    }
}
