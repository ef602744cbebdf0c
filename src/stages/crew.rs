//! Blocking threads that work for one stream, and stay at it as long as there is work: a thread that goes on finds its memory and its
//! caches as it left them.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Most samples in one group: they may be large, however little work there is on them.
const MOST: usize = 16;
/// So much work may be done ahead of a sample that takes long, so that the other threads don't stand still. In pictures it is few of
/// those that are large, since they take longer.
const OVERTAKING: Duration = Duration::from_millis(64);
/// Most samples that are done ahead of one.
const MOST_OVERTAKING: usize = 64;
/// A group is made as large as this much work, so that handing it over costs nothing measurable.
const WORK: Duration = Duration::from_millis(1);

/// As many threads work at once as the machine has cores, however many lanes there are: more would only push each other out of the caches.
static CORES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(cores())));

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a thread is asked to do.
type Task = Box<dyn FnOnce(&Shared) + Send>;

/// The threads of one stream. Dropping it tells them to stop.
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Default)]
struct Shared {
    /// Nobody listens any more: work stops at the next sample.
    dropped: AtomicBool,
    /// Nanoseconds of work in a sample, smoothed. Decides the size of groups only, never the order.
    nanos: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// What waits for a thread, first come, first served.
    waiting: VecDeque<Task>,
    /// Threads that are at work or about to begin.
    working: usize,
}

/// What a group will have become. `None` if the runtime shuts down before.
pub(super) struct Job<T>(oneshot::Receiver<Result<Vec<T>, Panic>>);

type Panic = Box<dyn Any + Send>;

impl Default for Crew {
    fn default() -> Self {
        Self { shared: Arc::default(), threads: cores() }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.dropped.store(true, Ordering::Relaxed);
        // A job holds what its stream gave it: all of that goes now.
        let waiting = std::mem::take(&mut self.shared.queue().waiting);
        drop(waiting);
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Crew {
    pub(super) const fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// How many samples make a group.
    pub(super) fn group(&self) -> usize {
        let nanos = self.shared.nanos.load(Ordering::Relaxed);
        if nanos == 0 {
            // Nothing is known yet: start at once.
            return 1;
        }
        usize::try_from(WORK.as_nanos() as u64 / nanos).unwrap_or(MOST).clamp(1, MOST)
    }

    /// How many samples are handed over before the first of them has to come out: a group for each thread, one in reserve, and those that
    /// may overtake.
    pub(super) fn window(&self) -> usize {
        let nanos = self.shared.nanos.load(Ordering::Relaxed).max(1);
        let overtaking = usize::try_from(OVERTAKING.as_nanos() as u64 / nanos);
        2 * self.threads * self.group()
            + overtaking.map_or(MOST_OVERTAKING, |samples| samples.min(MOST_OVERTAKING))
    }

    /// Hands over a group of so many samples; each step of the iterator is the work on one.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn send<T: Send + 'static>(
        &self,
        samples: usize,
        work: impl Iterator<Item = T> + Send + 'static,
    ) -> Job<T> {
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(move |shared: &Shared| {
            let started = Instant::now();
            let stays = |_: &T| !shared.dropped.load(Ordering::Relaxed);
            let mut done = Vec::with_capacity(samples);
            let worked = catch_unwind(AssertUnwindSafe(|| done.extend(work.take_while(stays))));
            shared.learn(started.elapsed(), samples);
            // Nobody listens any more: nobody to tell.
            let _ = sender.send(worked.map(|()| done));
        });
        let mut queue = self.shared.queue();
        queue.waiting.push_back(job);
        if queue.working < self.threads {
            queue.working += 1;
            let turn = Turn { shared: Arc::clone(&self.shared), over: false };
            match Arc::clone(&CORES).try_acquire_owned() {
                Ok(permit) => drop(tokio::task::spawn_blocking(move || turn.work(permit))),
                Err(_) => drop(tokio::spawn(async move {
                    // The semaphore is never closed.
                    if let Ok(permit) = Arc::clone(&CORES).acquire_owned().await {
                        drop(tokio::task::spawn_blocking(move || turn.work(permit)));
                    }
                })),
            }
        }
        Job(receiver)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, elapsed: Duration, samples: usize) {
        let new = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / samples.max(1) as u64;
        let old = self.nanos.load(Ordering::Relaxed);
        let smoothed = if old == 0 { new } else { old - old / 4 + new / 4 };
        self.nanos.store(smoothed.max(1), Ordering::Relaxed);
    }
}

/// A thread's turn with the crew, counted as working.
struct Turn {
    shared: Arc<Shared>,
    over: bool,
}

impl Turn {
    /// One job after the other, until there are none.
    fn work(mut self, _permit: OwnedSemaphorePermit) {
        loop {
            let mut queue = self.shared.queue();
            let Some(job) = queue.waiting.pop_front() else {
                // Under the same lock: whoever hands over a job from now on sees that this thread has gone.
                queue.working -= 1;
                drop(queue);
                self.over = true;
                return;
            };
            drop(queue);
            job(&self.shared);
        }
    }
}

/// A runtime that shuts down drops what it has not begun: whoever waits is told.
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            let mut queue = self.shared.queue();
            queue.working -= 1;
            let nobody = queue.working == 0;
            let left = if nobody { std::mem::take(&mut queue.waiting) } else { VecDeque::new() };
            drop(queue);
            drop(left);
        }
    }
}

impl<T> Future for Job<T> {
    type Output = Option<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(Ok(done)) => Some(done),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => None,
        })
    }
}
