//! `unbatch`: batches back to samples.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::assert_stream;
use super::held::Held;
use crate::error::{Error, Result, Scope};
use crate::recipe;
use crate::sample::{Batch, Sample, Split};

impl<St: Stream<Item = Result<Batch<C>>>, C> BatchStream<C> for St {}

/// Combinators on a stream of [`Batch`]es.
pub trait BatchStream<C>: Stream<Item = Result<Batch<C>>> {
    /// Takes batches apart again, for what works on samples: each has its head, so it is settled and drawn for as before. Decoded fields
    /// come back as [`Split`] says: pictures are tensors now.
    ///
    /// Order: kept. Memory: one batch.
    ///
    /// # Resuming
    /// Lowers the floor to the oldest sample held. What is delivered is counted by samples, so after a resume batches in front of this may begin
    /// at other samples: what works on them must not depend on who stands in a batch with whom. Behind
    /// [`batch_by`](super::SampleStream::batch_by) and `drop_last` that would change what comes: a [`Loader`](crate::loader::Loader) refuses such a recipe.
    ///
    /// # Errors
    /// A batch that can't be taken apart ends the run.
    fn unbatch(self) -> Unbatch<Self, C::Body>
    where
        Self: Sized,
        C: Split,
    {
        assert_stream::<Result<Sample<C::Body>>, _>(Unbatch::new(self))
    }
}

pin_project! {
    /// Stream for the [`unbatch`](BatchStream::unbatch) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Unbatch<St, T> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        samples: VecDeque<Sample<T>>,
        held: Held,
    }
}

impl<St: Stream, T> fmt::Debug for Unbatch<St, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unbatch").field("holds", &self.samples.len()).finish_non_exhaustive()
    }
}

impl<St: Stream, T> Unbatch<St, T> {
    fn new(stream: St) -> Self {
        recipe::note_unbatch();
        Self { stream: stream.fuse(), samples: VecDeque::new(), held: Held::default() }
    }
}

impl<St, C> Stream for Unbatch<St, C::Body>
where
    St: Stream<Item = Result<Batch<C>>>,
    C: Split,
{
    type Item = Result<Sample<C::Body>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(mut sample) = this.samples.pop_front() {
                let position = sample.head.position();
                this.held.release(&position, &sample.head.mark);
                this.held.stamp(&position, &mut sample.head.mark);
                return Poll::Ready(Some(Ok(sample)));
            }
            let Some(batch) = ready!(this.stream.as_mut().poll_next(cx)) else {
                return Poll::Ready(None);
            };
            let Batch { heads, data } = match batch {
                Ok(batch) => batch,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            let bodies = match data.split(heads.len()) {
                Ok(bodies) => bodies,
                Err(error) => {
                    let first = heads.first();
                    let error = first.map_or(Error::batch(""), |head| head.explain(error));
                    return Poll::Ready(Some(Err(error.with_scope(Scope::Run))));
                }
            };
            for (head, body) in heads.into_iter().zip(bodies) {
                this.held.hold(&head.position(), &head.mark);
                this.samples.push_back(Sample { head, body });
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let ended = FusedStream::is_terminated(&self.stream);
        (self.samples.len(), ended.then_some(self.samples.len()))
    }
}

impl<St, C> FusedStream for Unbatch<St, C::Body>
where
    St: Stream<Item = Result<Batch<C>>>,
    C: Split,
{
    fn is_terminated(&self) -> bool {
        self.samples.is_empty() && FusedStream::is_terminated(&self.stream)
    }
}
