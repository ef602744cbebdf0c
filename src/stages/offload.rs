//! Work on samples, moved to blocking threads in groups, in order. `decode` and `augment` are made of it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::crew::{Crew, Job};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::recipe;
use crate::sample::Sample;

type Work<T, U> = Arc<dyn Fn(Sample<T>) -> Result<Sample<U>> + Send + Sync>;

pin_project! {
    /// Stream of samples that are worked on by blocking threads: for [`augment`](super::SampleStream::augment) and what stands behind
    /// [`decode`](super::EncodedStream::decode). Order is kept.
    #[must_use = "streams do nothing unless polled"]
    pub struct Offload<St, T, U> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        work: Work<T, U>,
        group: Vec<Sample<T>>,
        running: VecDeque<Running<U>>,
        // Samples and errors in them.
        handed: usize,
        done: std::vec::IntoIter<Result<Sample<U>>>,
        crew: Crew,
    }
}

/// What was sent off, or passes through, in order.
enum Running<U> {
    Job(usize, Job<Result<Sample<U>>>),
    Item(Error),
}

impl<St: Stream, T, U> fmt::Debug for Offload<St, T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

/// Applies `f` with the sample's own generator, and adds the sample to an error.
fn augmented<T, U>(
    mut sample: Sample<T>,
    f: &impl Fn(T, &mut Rng) -> Result<U>,
) -> Result<Sample<U>> {
    let mut rng = sample.head.rng(sample.head.mark.stage);
    sample.head.mark.stage += 1;
    sample.try_map(|body| f(body, &mut rng))
}

impl<St, T, U> Offload<St, T, U>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Send + 'static,
    U: Send + 'static,
{
    pub(super) fn new(
        stream: St,
        work: impl Fn(Sample<T>) -> Result<Sample<U>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            stream: stream.fuse(),
            work: Arc::new(work),
            group: Vec::new(),
            running: VecDeque::new(),
            handed: 0,
            done: Vec::new().into_iter(),
            crew: Crew::default(),
        }
    }

    /// The work of `augment`.
    pub(super) fn augmenting(
        stream: St,
        f: impl Fn(T, &mut Rng) -> Result<U> + Send + Sync + 'static,
    ) -> Self {
        recipe::note(|| "augment".into());
        Self::new(stream, move |sample| augmented(sample, &f))
    }

    /// Changes each body with the sample's own random generator, in the same hand-over to a blocking thread as what comes before. See
    /// [`SampleStream::augment`](super::SampleStream::augment).
    pub fn augment<V, F>(self, f: F) -> Offload<St, T, V>
    where
        V: Send + 'static,
        F: Fn(U, &mut Rng) -> Result<V> + Send + Sync + 'static,
    {
        recipe::note(|| "augment".into());
        let work = self.work;
        Offload {
            stream: self.stream,
            work: Arc::new(move |sample| augmented(work(sample)?, &f)),
            group: self.group,
            running: VecDeque::new(),
            handed: 0,
            done: Vec::new().into_iter(),
            crew: self.crew,
        }
    }

    /// How many groups are worked on at once for this stream: as many as the machine has cores unless told otherwise. Order does not change.
    ///
    /// # Panics
    /// If it is 0.
    pub fn threads(mut self, threads: usize) -> Self {
        assert!(threads > 0, "threads(0): nothing would ever be done");
        self.crew.set_threads(threads);
        self
    }
}

/// Sends a group to the crew.
fn send<T: Send + 'static, U: Send + 'static>(
    crew: &Crew,
    group: &mut Vec<Sample<T>>,
    work: &Work<T, U>,
) -> Running<U> {
    let work = Arc::clone(work);
    let group = std::mem::take(group);
    let samples = group.len();
    Running::Job(samples, crew.send(samples, group.into_iter().map(move |sample| work(sample))))
}

impl<St, T, U> Stream for Offload<St, T, U>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Send + 'static,
    U: Send + 'static,
{
    type Item = Result<Sample<U>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            // What is done comes out first; meanwhile the threads work on what was sent off.
            if let Some(item) = this.done.next() {
                return Poll::Ready(Some(item));
            }
            // Keep the threads busy.
            let mut pending = false;
            while *this.handed < this.crew.window()
                && !pending
                && !FusedStream::is_terminated(&this.stream)
            {
                let wanted = this.crew.group();
                match this.stream.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(sample))) => {
                        this.group.push(sample);
                        if this.group.len() < wanted {
                            continue;
                        }
                    }
                    Poll::Ready(Some(Err(error))) => {
                        if !this.group.is_empty() {
                            *this.handed += this.group.len();
                            this.running.push_back(send(this.crew, this.group, this.work));
                        }
                        *this.handed += 1;
                        this.running.push_back(Running::Item(error));
                        continue;
                    }
                    Poll::Ready(None) => {}
                    Poll::Pending => pending = true,
                }
                if !this.group.is_empty() {
                    *this.handed += this.group.len();
                    this.running.push_back(send(this.crew, this.group, this.work));
                }
            }
            match this.running.front_mut() {
                Some(Running::Job(samples, job)) => {
                    let done = ready!(Pin::new(job).poll(cx));
                    *this.handed -= *samples;
                    this.running.pop_front();
                    match done {
                        Some(done) => *this.done = done.into_iter(),
                        None => {
                            return Poll::Ready(Some(Err(Error::task(
                                "the runtime is shutting down",
                            ))));
                        }
                    }
                }
                Some(Running::Item(_)) => {
                    *this.handed -= 1;
                    if let Some(Running::Item(error)) = this.running.pop_front() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                None if pending => return Poll::Pending,
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (low, high) = self.stream.size_hint();
        let done = self.done.len() + self.group.len();
        // How many are in a running group is not counted.
        (
            low.saturating_add(done),
            if self.running.is_empty() {
                high.and_then(|high| high.checked_add(done))
            } else {
                None
            },
        )
    }
}

impl<St, T, U> FusedStream for Offload<St, T, U>
where
    St: Stream<Item = Result<Sample<T>>>,
    T: Send + 'static,
    U: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        self.done.len() == 0
            && self.running.is_empty()
            && self.group.is_empty()
            && FusedStream::is_terminated(&self.stream)
    }
}
