//! Reads one part of a remote object: asks, checks the answer, and asks again from the next byte until the part is whole.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Buf;
use futures::{FutureExt, StreamExt};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ByteRange;
use super::fit::{Fit, Known, Question, fit, past_end};
use super::pace::{Progress, Verdict};
use super::pipe::Inlet;
use super::remote::Shared;
use super::retry::{Decision, Spell, Why, decide};
use super::transport::{Attempt, Failure, FailureKind, Reply, Transport};
use crate::error::{Error, Result};
use crate::redact::redact;

/// One part, and how far it has come.
pub(super) struct Part<T> {
    pub(super) shared: Arc<Shared<T>>,
    pub(super) path: Arc<str>,
    /// The next byte.
    pub(super) at: u64,
    pub(super) until: Until,
    pub(super) known: Option<Known>,
    /// Told as soon as the first answer is in.
    pub(super) announce: Option<oneshot::Sender<Found>>,
    /// Counts how often the server asks for patience.
    pub(super) refused: Arc<AtomicUsize>,
}

/// Where a part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// At `stop`, if the server turns out to answer for ranges and to know the size; otherwise at `last` or the object's end.
    Open { stop: u64, last: Option<u64> },
    /// Here.
    Byte(u64),
    /// At this byte or the object's end, whatever comes first: the size is not known, or ranges are not answered.
    End(Option<u64>),
}

/// What the first answer tells whoever plans the further parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) known: Known,
    /// Where the first part ends; `None` if it goes on to the object's end by itself.
    pub(super) end: Option<u64>,
}

enum Outcome {
    Whole,
    /// The server gave less than was asked for; the rest is asked for next.
    More,
    /// Nobody listens any more.
    Abandoned,
}

impl<T: Transport> Part<T> {
    /// Reads it all into the pipe.
    pub(super) async fn run(mut self, inlet: Inlet) {
        let result = self.read(&inlet).await;
        inlet.finish(result);
    }

    async fn read(&mut self, inlet: &Inlet) -> Result<()> {
        let (mut failures, mut reopened, mut since) = (0, 0, Instant::now());
        loop {
            let from = self.at;
            let failure = match self.attempt(inlet, reopened, &mut since).await {
                Ok(Outcome::Whole | Outcome::Abandoned) => return Ok(()),
                Ok(Outcome::More) => continue,
                Err(failure) => failure,
            };
            failures = if self.at > from { 1 } else { failures + 1 };
            match failure.kind {
                FailureKind::Stalled | FailureKind::Slow => reopened += 1,
                FailureKind::Status { code: 429 | 503, .. } => {
                    _ = self.refused.fetch_add(1, Ordering::Relaxed)
                }
                _ => {}
            }
            let spell = Spell { failures, lasted: since.elapsed() };
            let shown = redact(&self.path);
            match decide(&failure, spell, self.shared.roll(), &self.shared.options.retry) {
                Decision::Retry(wait) => {
                    tracing::debug!(object = %shown, byte = self.at, failures, ?wait, "{}", failure.message);
                    tokio::time::sleep(wait).await;
                }
                Decision::GiveUp(why) => {
                    return Err(give_up(&failure, why, spell).in_shard(shown).at(self.at));
                }
            }
        }
    }

    /// One request and its body.
    async fn attempt(
        &mut self,
        inlet: &Inlet,
        reopened: u32,
        since: &mut Instant,
    ) -> Attempt<Outcome> {
        let shared = Arc::clone(&self.shared);
        let mut connection = shared.limit.acquire().await;
        let range = ByteRange { start: self.at, end: Some(self.asks_until()) };
        let question = Question { at: self.at, end: range.end, known: self.known.clone() };
        let etag = self.known.as_ref().and_then(|known| known.etag.as_deref());
        let mut watch = Watch::new(
            Arc::clone(&shared),
            reopened,
            self.known.is_some().then(|| self.asks_until() - self.at),
        );
        let mut reply = match watch
            .wait(shared.transport.get(&self.path, range, etag))
            .await
            .and_then(|reply| reply)
        {
            Err(Failure { kind: FailureKind::PastEnd { size }, .. }) => {
                past_end(&question, size)?;
                let known = Known { etag: None, size };
                self.announce.take().map(|announce| announce.send(Found { known, end: None }));
                return Ok(Outcome::Whole);
            }
            reply => reply?,
        };
        watch.answered();
        let fits = self.learn(&question, &reply)?;
        let end = [fits.body_end, self.takes_until(reply.ranged)].into_iter().flatten().min();
        watch.progress.wanted = end.map(|end| end.saturating_sub(self.at));

        let (mut skip, mut place) = (fits.skip, reply.start);
        while end.is_none_or(|end| self.at < end) {
            let Some(mut chunk) = watch.wait(reply.body.next()).await?.transpose()? else {
                return self.ended(fits.body_end, skip, reply.ranged);
            };
            watch.received(chunk.len());
            place += chunk.len() as u64;
            if fits.body_end.is_some_and(|end| place > end) {
                return Err(too_long(place));
            }
            // What is skipped and what is kept is at most the length of the chunk, which is a usize.
            let skipped = skip.min(chunk.len() as u64);
            skip -= skipped;
            chunk.advance(skipped as usize);
            chunk.truncate(
                end.map_or(u64::MAX, |end| end - self.at).min(chunk.len() as u64) as usize
            );
            if chunk.is_empty() {
                continue;
            }
            if !inlet.has_room(&chunk) {
                // Waiting for the reader, not for the server: others may connect meanwhile, the reader may be waiting for them.
                connection = None;
            }
            self.at += chunk.len() as u64;
            if inlet.put(chunk).await.is_err() {
                return Ok(Outcome::Abandoned);
            }
            *since = Instant::now();
        }
        drop(connection);
        match reply.body.next().now_or_never() {
            Some(Some(Ok(more))) if fits.body_end == Some(place) && !more.is_empty() => {
                Err(too_long(place + more.len() as u64))
            }
            _ => Ok(self.outcome(reply.ranged)),
        }
    }

    /// The body is at its end, earlier than all that was wanted.
    fn ended(&self, body_end: Option<u64>, skip: u64, ranged: bool) -> Attempt<Outcome> {
        match body_end {
            Some(end) => Err(Failure::new(
                FailureKind::Broken,
                format!("the body ends at byte {}, {end} were announced", self.at),
            )),
            None if skip > 0 && self.at > 0 => Err(Failure::new(
                FailureKind::Changed,
                "the object has become shorter while it was read",
            )),
            None => Ok(self.outcome(ranged)),
        }
    }

    fn asks_until(&self) -> u64 {
        let part = self.at.saturating_add(self.shared.options.part);
        match self.until {
            Until::Open { stop, .. } => stop,
            Until::Byte(end) => end,
            Until::End(last) => last.map_or(part, |last| last.min(part)),
        }
    }

    /// Checks the answer; from the first one, takes what it says about the object.
    fn learn(&mut self, question: &Question, reply: &Reply) -> Attempt<Fit> {
        let fits = fit(question, reply)?;
        let known =
            self.known.get_or_insert_with(|| Known { etag: reply.etag.clone(), size: reply.size });
        if known.size.is_none() {
            known.size = reply.size;
        }
        if let Until::Open { stop, last } = self.until {
            self.until = match reply.size {
                Some(size) if reply.ranged => Until::Byte(stop.min(size)),
                _ => Until::End(last),
            };
            let end = if let Until::Byte(end) = self.until { Some(end) } else { None };
            self.announce.take().map(|announce| announce.send(Found { known: known.clone(), end }));
        }
        Ok(fits)
    }

    /// Where this part stops taking bytes of an answer, whatever the body holds.
    fn takes_until(&self, ranged: bool) -> Option<u64> {
        match self.until {
            Until::Byte(end) => Some(end),
            // The whole object is coming: all that is wanted of it is taken.
            Until::Open { last, .. } | Until::End(last) if !ranged => last,
            Until::Open { .. } | Until::End(_) => Some(self.asks_until()),
        }
    }

    fn outcome(&self, ranged: bool) -> Outcome {
        let size = self.known.as_ref().and_then(|known| known.size);
        match self.until {
            Until::Byte(end) if self.at < end => Outcome::More,
            Until::End(last)
                if ranged && self.at < last.unwrap_or(u64::MAX).min(size.unwrap_or(u64::MAX)) =>
            {
                Outcome::More
            }
            _ => Outcome::Whole,
        }
    }
}

fn too_long(place: u64) -> Failure {
    Failure::mismatch(format!("the body goes on after its announced end, to byte {place}"))
}

/// The error for what is final, without its place.
pub(super) fn give_up(failure: &Failure, why: Why, spell: Spell) -> Error {
    match why {
        Why::Final => Error::store(failure.message.clone()),
        Why::Spent => Error::store(format!(
            "gave up after {} attempts and {:.1} s without a new byte: {}",
            spell.failures,
            spell.lasted.as_secs_f64(),
            failure.message
        ))
        .transient(),
    }
}

/// Waits for the server, but not for ever.
pub(super) struct Watch<T> {
    shared: Arc<Shared<T>>,
    progress: Progress,
}

impl<T> Watch<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, reopened: u32, wanted: Option<u64>) -> Self {
        Self { shared, progress: Progress { reopened, wanted, ..Progress::default() } }
    }

    /// The future's output, unless the server is silent or slow for longer than is usual.
    pub(super) async fn wait<F: Future>(&mut self, future: F) -> Attempt<F::Output> {
        let mut future = pin!(future);
        loop {
            let more = match self.shared.judge(&self.progress) {
                Verdict::Wait(more) => more,
                Verdict::Reopen(kind) => return Err(self.too_slow(kind)),
            };
            let began = Instant::now();
            let output = tokio::time::timeout(more, &mut future).await;
            let took = began.elapsed();
            self.progress.waited += took;
            self.progress.silent += took;
            if let Ok(output) = output {
                return Ok(output);
            }
        }
    }

    /// The head of the reply is there.
    fn answered(&mut self) {
        self.progress.latency = Some(self.progress.waited);
        self.progress.silent = Duration::ZERO;
    }

    /// So many bytes came.
    pub(super) fn received(&mut self, bytes: usize) {
        self.progress.received += bytes as u64;
        self.progress.silent = Duration::ZERO;
    }

    fn too_slow(&self, kind: FailureKind) -> Failure {
        let Progress { silent, received, waited, .. } = self.progress;
        let message = match kind {
            FailureKind::Stalled => {
                format!("the connection stalled: nothing came for {:.1} s", silent.as_secs_f64())
            }
            _ => {
                format!("the connection is slow: {received} bytes in {:.1} s", waited.as_secs_f64())
            }
        };
        Failure::new(kind, message)
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        if self.progress.received > 0 || self.progress.latency.is_some() {
            self.shared.learn(&self.progress);
        }
    }
}
