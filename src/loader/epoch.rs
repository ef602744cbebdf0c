//! The batches of one epoch.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::{Loader, State, Step};
use crate::error::Result;
use crate::sample::Heads;

/// Stream for the [`Loader::epoch`] method.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Epoch<'a, B> {
    pub(super) loader: &'a mut Loader<B>,
}

impl<B> Epoch<'_, B> {
    /// The loader, for checkpoints and counters in the middle of an epoch.
    #[must_use]
    pub fn loader(&self) -> &Loader<B> {
        self.loader
    }
}

impl<B: Heads + Send + 'static> Stream for Epoch<'_, B> {
    type Item = Result<B>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.loader.state != State::Running {
            return Poll::Ready(None);
        }
        match ready!(self.loader.poll_timed(cx)) {
            Some(Ok(Step::Batch(batch))) => Poll::Ready(Some(Ok(batch))),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            Some(Ok(Step::EpochEnd)) | None => Poll::Ready(None),
        }
    }
}
