//! `map_body` and `filter_samples`: small changes on the spot, without a thread.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use crate::error::{Error, Result};
use crate::recipe;
use crate::sample::Sample;

/// A condition that a sample has to meet.
pub type Condition<T> = Box<dyn FnMut(&Sample<T>) -> bool + Send>;

pin_project! {
    /// Stream for the [`map_body`](super::SampleStream::map_body) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct MapBody<St, F> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        f: F,
    }
}

pin_project! {
    /// Stream for the [`filter_samples`](super::SampleStream::filter_samples) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct FilterSamples<St, F> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        keep: F,
    }
}

impl<St: Stream, F> fmt::Debug for MapBody<St, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapBody").finish_non_exhaustive()
    }
}

impl<St: Stream, F> fmt::Debug for FilterSamples<St, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSamples").finish_non_exhaustive()
    }
}

impl<St: Stream, F> MapBody<St, F> {
    pub(super) fn new(stream: St, f: F) -> Self {
        Self::noted(stream, "map_body".into(), f)
    }

    /// Under the name of the operator that it is.
    pub(super) fn noted(stream: St, note: String, f: F) -> Self {
        recipe::note(|| note);
        Self { stream: stream.fuse(), f }
    }
}

impl<St: Stream, F> FilterSamples<St, F> {
    pub(super) fn new(stream: St, keep: F) -> Self {
        recipe::note(|| "filter_samples".into());
        Self { stream: stream.fuse(), keep }
    }
}

impl<St, T, U, F> Stream for MapBody<St, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    F: FnMut(T) -> Result<U>,
{
    type Item = Result<Sample<U>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let item = ready!(this.stream.poll_next(cx));
        Poll::Ready(item.map(|item| item?.try_map(this.f)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<St, T, F> Stream for FilterSamples<St, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    F: FnMut(&Sample<T>) -> bool,
{
    type Item = Result<Sample<T>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let item = ready!(this.stream.poll_next(cx));
        Poll::Ready(item.map(|item| {
            let sample = item?;
            // One that is left out goes on as a marked item, so that it is counted and settled.
            if (this.keep)(&sample) {
                Ok(sample)
            } else {
                Err(sample.head.explain(Error::filter("left out")))
            }
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<St, T, U, F> FusedStream for MapBody<St, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    F: FnMut(T) -> Result<U>,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}

impl<St, T, F> FusedStream for FilterSamples<St, F>
where
    St: Stream<Item = Result<Sample<T>>>,
    F: FnMut(&Sample<T>) -> bool,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
