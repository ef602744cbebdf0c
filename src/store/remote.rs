//! A store behind a network: retried, resumed, and read ahead in several ranges at once.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::budget::{Limit, Reservation};
use super::pace::{Pace, Progress, Verdict};
use super::part::{Found, Part, Until, Watch, give_up};
use super::pipe::{Outlet, Piece, pipe};
pub use super::remote_options::RemoteOptions;
use super::retry::{Decision, Spell, decide};
use super::transport::{Attempt, Failure, FailureKind, Transport};
use super::upload::{Multipart, Upload};
use super::width::{Round, Width};
use super::{ByteRange, ByteStream, Meta, Store};
use crate::error::{Error, Result};
use crate::random;
use crate::redact::redact;

/// Ranges that a stream begins with on a store of which nothing is known yet.
const FIRST_WIDTH: usize = 8;

/// Shards worth opening beyond the one that is being read: so many answers are on their way, and the budget bounds what they hold.
const AHEAD: usize = 8;

/// Parts that wait for the reader, for each range that may be read at once: the budget in bytes is the narrower limit as a rule.
const PARTS_AHEAD: usize = 4;

/// Bytes a second at which objects are written, at least.
const SLOW_LINK: u64 = 128 << 10;

/// Makes a [`Store`] of a [`Transport`].
///
/// A stream reads its object in parts of bounded length, several at once, in tasks that never wait for whoever takes the bytes. Each part
/// is resumed at its next byte after a failure, and every answer must agree with the first one in `ETag` and size. There is one kind of retry,
/// and this is it. Dropping a stream ends its tasks and closes their connections.
pub struct Remote<T> {
    shared: Arc<Shared<T>>,
}

/// What all streams of a store share.
pub(super) struct Shared<T> {
    pub(super) transport: T,
    pub(super) options: RemoteOptions,
    pub(super) limit: Limit,
    pace: Mutex<Pace>,
    width: AtomicUsize,
    seed: u64,
    rolls: AtomicU64,
}

impl<T> Shared<T> {
    /// A number in `[0, 1)` for the jitter of waiting times. Touches no other random number.
    pub(super) fn roll(&self) -> f64 {
        random::Rng::keyed(&[self.seed, self.rolls.fetch_add(1, Ordering::Relaxed)]).unit()
    }

    pub(super) fn judge(&self, progress: &Progress) -> Verdict {
        self.pace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .judge(progress, &self.options.retry)
    }

    pub(super) fn learn(&self, progress: &Progress) {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).learn(progress);
    }
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.shared.transport).finish()
    }
}

impl<T: Transport> Remote<T> {
    /// With these options.
    ///
    /// # Errors
    /// If a part has no bytes or is larger than 1 GiB, if no attempt is allowed, or if the stall timeout is zero.
    pub fn new(transport: T, options: RemoteOptions) -> Result<Self> {
        options.check()?;
        let RemoteOptions { retry, ranges, limit, .. } = &options;
        let seed = retry.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
        let width = AtomicUsize::new(FIRST_WIDTH.min(*ranges));
        let (limit, pace, rolls) = (limit.clone(), Mutex::default(), AtomicU64::new(0));
        Ok(Self {
            shared: Arc::new(Shared { transport, options, limit, pace, width, seed, rolls }),
        })
    }

    /// Tries until it works, with the same patience as any other request.
    async fn ask<'a, A>(
        &'a self,
        path: &'a str,
        once: impl Fn(Watch<T>) -> BoxFuture<'a, Attempt<A>>,
    ) -> Result<A> {
        let (began, mut failures) = (Instant::now(), 0);
        loop {
            let connection = self.shared.limit.acquire().await;
            let answer = once(Watch::new(Arc::clone(&self.shared), failures, None)).await;
            drop(connection);
            let failure = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            failures += 1;
            let spell = Spell { failures, lasted: began.elapsed() };
            match decide(&failure, spell, self.shared.roll(), &self.shared.options.retry) {
                Decision::Retry(wait) => tokio::time::sleep(wait).await,
                Decision::GiveUp(why) => {
                    return Err(give_up(&failure, why, spell).in_shard(redact(path)));
                }
            }
        }
    }
}

impl<T: Transport> Remote<T> {
    pub(super) fn transport(&self) -> &T {
        &self.shared.transport
    }

    /// Tries until it works something of which no progress can be seen, such as sending so many bytes: an attempt may take the time of a
    /// stall, and that of a slow link.
    pub(super) async fn patiently<'a, A: 'a>(
        &'a self,
        path: &'a str,
        bytes: u64,
        once: impl Fn() -> BoxFuture<'a, Attempt<A>>,
    ) -> Result<A> {
        let shared = &self.shared;
        let limit = shared.options.retry.stall_timeout + Duration::from_secs(bytes / SLOW_LINK);
        let late = move |_| {
            let message = format!("no answer within {} s", limit.as_secs());
            Failure::new(FailureKind::Stalled, message)
        };
        let once = |_: Watch<T>| {
            tokio::time::timeout(limit, once())
                .map(move |done| done.map_err(late).and_then(|done| done))
                .boxed()
        };
        self.ask(path, once).await
    }
}

impl<T: Transport> Store for Remote<T> {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let (shared, path) = (Arc::clone(&self.shared), Arc::from(path));
        let open = async move {
            let (hungry, hunger) = watch::channel(false);
            let (sender, parts) = mpsc::channel(shared.options.ranges.saturating_mul(PARTS_AHEAD));
            let waited = Arc::new(AtomicU64::new(0));
            let driver = Driver {
                shared,
                path,
                parts: sender,
                hunger,
                waited: Arc::clone(&waited),
                refused: Arc::default(),
            };
            let task = AbortOnDropHandle::new(tokio::spawn(driver.run(range)));
            futures::stream::unfold(
                Some(Reader { parts, current: None, hungry, waited, task }),
                |reader| async {
                    let mut reader = reader?;
                    match reader.next().await? {
                        Ok(bytes) => Some((Ok(bytes), Some(reader))),
                        Err(error) => Some((Err(error), None)),
                    }
                },
            )
        };
        open.into_stream().flatten().boxed()
    }

    fn ahead(&self, _path: &str) -> usize {
        AHEAD
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        let once = move |mut watch: Watch<T>| {
            async move { watch.wait(self.shared.transport.head(path)).await? }.boxed()
        };
        async move { self.ask(path, once).await }.boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        let once = move |mut watch: Watch<T>| {
            async move {
                let (mut listing, mut found) = (self.shared.transport.list(prefix), Vec::new());
                while let Some(meta) = watch.wait(listing.next()).await? {
                    watch.received(0);
                    found.push(meta?);
                }
                found.sort_by(|a: &Meta, b| a.path.cmp(&b.path));
                Ok(found)
            }
            .boxed()
        };
        async move { self.ask(prefix, once).await }.boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        async move {
            let once = || self.transport().put(path, bytes.clone());
            self.patiently(path, bytes.len() as u64, once).await
        }
        .boxed()
    }

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        async move {
            let upload = Multipart::begin(self.clone(), path).await?;
            Ok(Box::new(upload) as Box<dyn Upload>)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        self.patiently(path, 0, move || self.transport().delete(path)).boxed()
    }
}

/// Plans the parts of one object and keeps as many of them going as help.
struct Driver<T> {
    shared: Arc<Shared<T>>,
    path: Arc<str>,
    parts: mpsc::Sender<Outlet>,
    /// Whether the reader has nothing left to take.
    hunger: watch::Receiver<bool>,
    /// Microseconds that the reader has waited.
    waited: Arc<AtomicU64>,
    refused: Arc<AtomicUsize>,
}

impl<T: Transport> Driver<T> {
    async fn run(mut self, range: ByteRange) {
        let part = self.shared.options.part;
        let stop = range.start.saturating_add(part).min(range.end.unwrap_or(u64::MAX));
        if stop <= range.start {
            return;
        }
        // The first part tells how large the object is, and which version.
        let (announce, announced) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let until = Until::Open { stop, last: range.end };
        let first = Part { announce: Some(announce), ..self.part(range.start, until) };
        let started = self.start(&mut tasks, first, stop - range.start).await;
        if started.is_ok()
            && let Ok(Found { known, end: Some(mut at) }) = announced.await
        {
            let end = known.size.unwrap_or(at).min(range.end.unwrap_or(u64::MAX));
            let mut width =
                Width::new(self.shared.width.load(Ordering::Relaxed), self.shared.options.ranges);
            let mut round = self.begin_round();
            while at < end {
                while tasks.len() >= width.now() {
                    self.join(&mut tasks, &mut round).await;
                }
                if round.parts >= width.now() {
                    width.learn(self.end_round(&round));
                    self.shared.width.store(width.now(), Ordering::Relaxed);
                    round = self.begin_round();
                    continue;
                }
                let stop = at.saturating_add(part).min(end);
                let next = Part { known: Some(known.clone()), ..self.part(at, Until::Byte(stop)) };
                if self.start(&mut tasks, next, stop - at).await.is_err() {
                    break;
                }
                at = stop;
            }
        }
        drop(self.parts);
        while let Some(done) = tasks.join_next().await {
            raise(done);
        }
    }

    fn part(&self, at: u64, until: Until) -> Part<T> {
        let (shared, path) = (Arc::clone(&self.shared), Arc::clone(&self.path));
        Part {
            shared,
            path,
            at,
            until,
            known: None,
            announce: None,
            refused: Arc::clone(&self.refused),
        }
    }

    /// Starts a part when the budget has room for it, or when the reader has nothing else to wait for. Fails when the reader is gone.
    async fn start(
        &mut self,
        tasks: &mut JoinSet<u64>,
        part: Part<T>,
        bytes: u64,
    ) -> Result<(), ()> {
        let reservation = tokio::select! {
            biased;
            reservation = self.shared.options.budget.reserve(bytes) => reservation,
            _ = self.hunger.wait_for(|hungry| *hungry) => Reservation::none(),
        };
        let (inlet, outlet) = pipe(bytes, reservation);
        self.parts.send(outlet).await.map_err(drop)?;
        tasks.spawn(part.run(inlet).map(move |()| bytes));
        Ok(())
    }

    async fn join(&self, tasks: &mut JoinSet<u64>, round: &mut RoundSoFar) {
        if let Some(done) = tasks.join_next().await {
            round.bytes += raise(done);
            round.parts += 1;
        }
    }

    fn begin_round(&self) -> RoundSoFar {
        RoundSoFar {
            began: Instant::now(),
            waited: self.waited.load(Ordering::Relaxed),
            bytes: 0,
            parts: 0,
        }
    }

    fn end_round(&self, round: &RoundSoFar) -> Round {
        Round {
            bytes: round.bytes,
            took: round.began.elapsed(),
            reader_waited: Duration::from_micros(
                self.waited.load(Ordering::Relaxed) - round.waited,
            ),
            refused: self.refused.swap(0, Ordering::Relaxed),
            parts: round.parts,
        }
    }
}

struct RoundSoFar {
    began: Instant,
    waited: u64,
    bytes: u64,
    parts: usize,
}

/// The bytes of a part that has been read; its panic, if that is how it ended.
fn raise(done: Result<u64, tokio::task::JoinError>) -> u64 {
    match done {
        Ok(bytes) => bytes,
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => 0,
    }
}

/// Hands out the parts in order.
struct Reader {
    parts: mpsc::Receiver<Outlet>,
    current: Option<Outlet>,
    hungry: watch::Sender<bool>,
    waited: Arc<AtomicU64>,
    task: AbortOnDropHandle<()>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        let began = Instant::now();
        let next = self.take().await;
        let waited = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited.fetch_add(waited, Ordering::Relaxed);
        next
    }

    async fn take(&mut self) -> Option<Result<Bytes>> {
        loop {
            let Some(part) = &mut self.current else {
                let part = match self.parts.try_recv() {
                    Ok(part) => Some(part),
                    Err(_) => {
                        self.hungry.send_replace(true);
                        let part = self.parts.recv().await;
                        self.hungry.send_replace(false);
                        part
                    }
                };
                if part.is_none() {
                    return self.ended().await;
                }
                self.current = part;
                continue;
            };
            match part.take().await {
                Some(Piece::Bytes(bytes)) => return Some(Ok(bytes)),
                Some(Piece::Failed(error)) => return Some(Err(error)),
                Some(Piece::End) => self.current = None,
                None => return self.ended().await,
            }
        }
    }

    /// The driver is done: well, or by a panic, which comes out here.
    async fn ended(&mut self) -> Option<Result<Bytes>> {
        self.parts.close();
        self.hungry.send_replace(true);
        match (&mut self.task).await {
            Ok(()) if self.current.is_none() => None,
            Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
            _ => Some(Err(Error::task("the runtime is shutting down"))),
        }
    }
}
