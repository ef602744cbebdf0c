//! A day of faults, in simulated time: no byte is lost, nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use shardstream::random::Rng;
use shardstream::store::transport::{Attempt, Failure, FailureKind, Reply, Transport};
use shardstream::store::{Budget, ByteRange, Limit, Meta, Remote, RemoteOptions, Store};
use tokio::time::{Instant, sleep};

use crate::conformance::pattern;

const SIZE: u64 = 1_000_000;
const CHUNK: usize = 32 << 10;
const READERS: usize = 3;

/// A network on a bad day.
#[derive(Debug, Clone)]
struct BadNetwork {
    data: Bytes,
    requests: Arc<AtomicUsize>,
    faults: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

/// Counts as one open connection until dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BadNetwork {
    async fn answer(self, range: ByteRange) -> Attempt<Reply> {
        let mut rng = Rng::keyed(&[9, self.requests.fetch_add(1, Ordering::SeqCst) as u64]);
        let connection = Open::new(&self.open);
        sleep(Duration::from_millis(10 + rng.below(90))).await;
        let fault = rng.below(100);
        if fault < 14 {
            self.faults.fetch_add(1, Ordering::SeqCst);
        }
        match fault {
            0 => std::future::pending().await,
            1..=3 => {
                let wish = Duration::from_secs(rng.below(4));
                return Err(Failure::status(503, Some(wish), ""));
            }
            4 => return Err(Failure::status(500, None, "")),
            5 => return Err(Failure::new(FailureKind::Broken, "no connection")),
            _ => {}
        }
        let end = range.end.unwrap_or(SIZE).min(SIZE);
        if range.start >= end {
            return Err(Failure::new(FailureKind::PastEnd { size: Some(SIZE) }, "past the end"));
        }
        let body = self.data.slice(range.start as usize..end as usize);
        let ranged = fault != 13;
        let sent = if ranged { body } else { self.data.clone() };
        let start = if fault == 12 {
            range.start + 1
        } else if ranged {
            range.start
        } else {
            0
        };
        let pieces: Vec<Bytes> = sent.chunks(CHUNK).map(Bytes::copy_from_slice).collect();
        let harmed_at = rng.below(pieces.len() as u64 + 1) as usize;
        let pause = Duration::from_millis(CHUNK as u64 * 1000 / 1_000_000);
        let body = futures::stream::iter(pieces.into_iter().enumerate()).then(move |(n, piece)| {
            // The connection is closed when the body is dropped.
            let _ = &connection;
            async move {
                match fault {
                    6 | 7 if n == harmed_at => Err(Failure::new(FailureKind::Broken, "reset")),
                    8 | 9 if n == harmed_at => std::future::pending().await,
                    10 if n >= harmed_at => {
                        sleep(pause * 100).await;
                        Ok(piece)
                    }
                    _ => {
                        sleep(pause).await;
                        Ok(piece)
                    }
                }
            }
        });
        let kept = if fault == 11 { harmed_at } else { usize::MAX };
        let end = if ranged { end } else { SIZE };
        Ok(Reply {
            ranged,
            start,
            end: Some(end),
            size: Some(SIZE),
            etag: Some("v1".into()),
            body: body.take(kept).boxed(),
        })
    }
}

impl Transport for BadNetwork {
    fn get<'a>(
        &'a self,
        _: &'a str,
        range: ByteRange,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Attempt<Reply>> {
        self.clone().answer(range).boxed()
    }

    fn head<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Attempt<Meta>> {
        unreachable!()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxStream<'a, Attempt<Meta>> {
        unreachable!()
    }

    fn put<'a>(&'a self, _: &'a str, _: Bytes) -> BoxFuture<'a, Attempt<()>> {
        unreachable!()
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_of_faults() {
    let count = || Arc::new(AtomicUsize::new(0));
    let network = BadNetwork {
        data: pattern(SIZE as usize),
        requests: count(),
        faults: count(),
        open: count(),
    };
    let mut options = RemoteOptions::default();
    options.part = 128 << 10;
    options.budget = Budget::new(1 << 20);
    options.limit = Limit::new(8);
    options.retry.seed = Some(3);
    let (budget, limit) = (options.budget.clone(), options.limit.clone());
    let store = Remote::new(network.clone(), options).unwrap();
    let (begin, tasks) =
        (Instant::now(), tokio::runtime::Handle::current().metrics().num_alive_tasks());

    let reader = |seed: u64| {
        let (store, network, budget) = (store.clone(), network.clone(), budget.clone());
        tokio::spawn(async move {
            let (mut rng, mut objects) = (Rng::keyed(&[seed]), 0);
            while begin.elapsed() < Duration::from_secs(24 * 3600) {
                let start = if rng.chance(0.3) { rng.below(SIZE) } else { 0 };
                let stop = if rng.chance(0.1) { start + rng.below(SIZE - start) } else { u64::MAX };
                let mut stream = store.read("x.tar", ByteRange { start, end: None });
                let mut at = start;
                while let Some(chunk) = stream.next().await {
                    let chunk = chunk
                        .unwrap_or_else(|error| panic!("after {:?}: {error}", begin.elapsed()));
                    assert!(
                        chunk == network.data[at as usize..at as usize + chunk.len()],
                        "other bytes at {at}"
                    );
                    at += chunk.len() as u64;
                    // Whole objects that come in place of a range, and wait for their reader, don't count: one for each reader.
                    assert!(
                        network.open.load(Ordering::SeqCst) <= 8 + READERS
                            && budget.reserved() <= 1 << 20
                    );
                    if at > stop {
                        break;
                    }
                    if rng.chance(0.03) {
                        sleep(Duration::from_millis(rng.below(120_000))).await;
                    }
                }
                assert!(at == SIZE || at > stop, "the end came at {at}");
                objects += 1;
                sleep(Duration::from_millis(rng.below(60_000))).await;
            }
            objects
        })
    };
    let mut objects = 0;
    for done in futures::future::join_all((0..READERS as u64).map(reader)).await {
        objects += done.unwrap();
    }
    // What was dropped in the middle is gone by the next turn of the scheduler.
    sleep(Duration::from_secs(1)).await;
    assert!(objects > 1000, "{objects} objects");
    assert!(network.faults.load(Ordering::SeqCst) > 500);
    assert_eq!(network.open.load(Ordering::SeqCst), 0);
    assert_eq!((budget.reserved(), limit.free()), (0, 8));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks);
}
