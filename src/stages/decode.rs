//! `decode`: the fields of each sample, from bytes to values, on blocking threads.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::FusedStream;
use pin_project_lite::pin_project;

use super::offload::Offload;
use crate::decode::Decoder;
use crate::error::Result;
use crate::random::Rng;
use crate::recipe;
use crate::sample::{Collate, Fields, Sample, Value};

pin_project! {
    /// Stream for the [`decode`](super::EncodedStream::decode) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Decode<St> where St: Stream {
        #[pin]
        inner: Offload<St, Fields<Bytes>, Fields<Value>>,
    }
}

impl<St: Stream> fmt::Debug for Decode<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decode").field("inner", &self.inner).finish()
    }
}

impl<St: Stream<Item = Result<Sample<Fields<Bytes>>>>> Decode<St> {
    pub(super) fn new(stream: St, decoder: Decoder) -> Self {
        recipe::note(|| format!("decode({decoder:?})"));
        Self {
            inner: Offload::new(stream, move |sample| {
                let mut sample = sample.try_map(|fields| decoder.decode(fields))?;
                sample.head.weigh(|| sample.body.bytes());
                Ok(sample)
            }),
        }
    }

    /// Changes each body with the sample's own random generator, in the same hand-over to a blocking thread as the decoding. See
    /// [`SampleStream::augment`](super::SampleStream::augment).
    pub fn augment<V, F>(self, f: F) -> Offload<St, Fields<Bytes>, V>
    where
        V: Send + 'static,
        F: Fn(Fields<Value>, &mut Rng) -> Result<V> + Send + Sync + 'static,
    {
        self.inner.augment(f)
    }

    /// How many groups are decoded at once for this stream. See [`Offload::threads`].
    ///
    /// # Panics
    /// If it is 0.
    pub fn threads(mut self, threads: usize) -> Self {
        self.inner = self.inner.threads(threads);
        self
    }
}

impl<St: Stream<Item = Result<Sample<Fields<Bytes>>>>> Stream for Decode<St> {
    type Item = Result<Sample<Fields<Value>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.project().inner.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<St: Stream<Item = Result<Sample<Fields<Bytes>>>>> FusedStream for Decode<St> {
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }
}
