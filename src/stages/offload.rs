//! Work on samples, moved to blocking threads in groups, in order. `decode` and `augment` are made of it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::random::Rng;
use crate::recipe;
use crate::sample::Sample;

/// Most samples in one group.
const MOST: usize = 64;
/// A group is made as large as this much work, so that handing it over costs nothing measurable.
const WORK: Duration = Duration::from_millis(1);

/// As many jobs run at once as the machine has cores, however many lanes there are: more would only push each other out of the caches.
static CORES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(cores())));

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

type Work<T, U> = Arc<dyn Fn(Sample<T>) -> Result<Sample<U>> + Send + Sync>;
type Done<U> = Vec<Result<Sample<U>>>;

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
        done: std::vec::IntoIter<Result<Sample<U>>>,
        pace: Listener,
        threads: usize,
    }
}

/// The stream's end of its pace: dropping it tells the jobs.
#[derive(Default)]
struct Listener(Arc<Pace>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Relaxed);
    }
}

/// Shared with the jobs of one stream.
#[derive(Default)]
struct Pace {
    /// Nobody listens any more: jobs stop at the next sample.
    dropped: AtomicBool,
    /// Nanoseconds of work in a sample, smoothed. Decides the size of groups only, never the order.
    nanos: AtomicU64,
}

/// What was sent off, or passes through, in order.
enum Running<U> {
    Job(Job<U>),
    Item(Error),
}

/// A job that is aborted when nobody waits for it any more.
struct Job<U>(JoinHandle<Done<U>>);

impl<U> Drop for Job<U> {
    fn drop(&mut self) {
        self.0.abort();
    }
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
            done: Vec::new().into_iter(),
            pace: Listener::default(),
            threads: cores(),
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
            done: Vec::new().into_iter(),
            pace: self.pace,
            threads: self.threads,
        }
    }

    /// How many groups are worked on at once for this stream: as many as the machine has cores unless told otherwise. Order does not change.
    ///
    /// # Panics
    /// If it is 0.
    pub fn threads(mut self, threads: usize) -> Self {
        assert!(threads > 0, "threads(0): nothing would ever be done");
        self.threads = threads;
        self
    }
}

impl Pace {
    /// How many samples make a group.
    fn group(&self) -> usize {
        let nanos = self.nanos.load(Ordering::Relaxed);
        if nanos == 0 {
            // Nothing is known yet: start at once.
            return 1;
        }
        usize::try_from(WORK.as_nanos() as u64 / nanos).unwrap_or(MOST).clamp(1, MOST)
    }

    fn learn(&self, elapsed: Duration, samples: usize) {
        let new = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / samples.max(1) as u64;
        let old = self.nanos.load(Ordering::Relaxed);
        let smoothed = if old == 0 { new } else { old - old / 4 + new / 4 };
        self.nanos.store(smoothed.max(1), Ordering::Relaxed);
    }
}

/// Sends a group to a blocking thread as soon as a core is free.
fn spawn<T: Send + 'static, U: Send + 'static>(
    group: Vec<Sample<T>>,
    work: &Work<T, U>,
    pace: &Arc<Pace>,
) -> Job<U> {
    let (work, pace) = (Arc::clone(work), Arc::clone(pace));
    Job(tokio::spawn(async move {
        // The semaphore is never closed.
        let _permit = CORES.acquire().await;
        let job = move || {
            let started = Instant::now();
            let samples = group.len();
            let mut done = Vec::with_capacity(samples);
            for sample in group {
                if pace.dropped.load(Ordering::Relaxed) {
                    break;
                }
                done.push(work(sample));
            }
            pace.learn(started.elapsed(), samples);
            done
        };
        match tokio::task::spawn_blocking(job).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => vec![Err(Error::task("the runtime is shutting down"))],
        }
    }))
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
            // Keep the threads busy, and one group for each in reserve.
            let mut pending = false;
            while this.running.len() < 2 * *this.threads
                && !pending
                && !FusedStream::is_terminated(&this.stream)
            {
                let wanted = this.pace.0.group();
                match this.stream.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(sample))) => {
                        this.group.push(sample);
                        if this.group.len() < wanted {
                            continue;
                        }
                    }
                    Poll::Ready(Some(Err(error))) => {
                        if !this.group.is_empty() {
                            this.running.push_back(Running::Job(spawn(
                                std::mem::take(this.group),
                                this.work,
                                &this.pace.0,
                            )));
                        }
                        this.running.push_back(Running::Item(error));
                        continue;
                    }
                    Poll::Ready(None) => {}
                    Poll::Pending => pending = true,
                }
                if !this.group.is_empty() {
                    this.running.push_back(Running::Job(spawn(
                        std::mem::take(this.group),
                        this.work,
                        &this.pace.0,
                    )));
                }
            }
            match this.running.front_mut() {
                Some(Running::Job(job)) => {
                    let result = ready!(Pin::new(&mut job.0).poll(cx));
                    this.running.pop_front();
                    match result {
                        Ok(done) => *this.done = done.into_iter(),
                        Err(error) if error.is_panic() => {
                            std::panic::resume_unwind(error.into_panic())
                        }
                        Err(_) => {
                            return Poll::Ready(Some(Err(Error::task(
                                "the runtime is shutting down",
                            ))));
                        }
                    }
                }
                Some(Running::Item(_)) => {
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
