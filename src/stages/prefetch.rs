//! `prefetch`: what comes before runs in a task of its own, some items ahead.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::FusedStream;
use pin_project_lite::pin_project;

use super::pump::Pump;
use crate::error::Result;

pin_project! {
    /// Stream for the [`prefetch`](super::SampleStream::prefetch) method.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct Prefetch<St, T> {
        ahead: usize,
        stream: Option<St>,
        #[pin]
        pump: Option<Pump<Result<T>>>,
    }
}

impl<St, T> Prefetch<St, T> {
    pub(super) fn new(stream: St, ahead: usize) -> Self {
        assert!(ahead > 0, "prefetch(0): nothing could ever be handed over");
        Self { ahead, stream: Some(stream), pump: None }
    }
}

impl<St, T> Stream for Prefetch<St, T>
where
    St: Stream<Item = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        // The task begins at the first poll: a stream does nothing before it is polled.
        if let Some(stream) = this.stream.take() {
            this.pump.set(Some(Pump::spawn(stream, *this.ahead)));
        }
        let item = match this.pump.as_mut().as_pin_mut() {
            Some(pump) => ready!(pump.poll_next(cx)),
            None => None,
        };
        if item.is_none() {
            this.pump.set(None);
        }
        Poll::Ready(item)
    }
}

impl<St, T> FusedStream for Prefetch<St, T>
where
    St: Stream<Item = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_none() && self.pump.is_none()
    }
}
