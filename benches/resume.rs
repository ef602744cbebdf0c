//! What a checkpoint costs: its size, the time to take it, and the time until a restored loader sends its first read.
//!
//! `cargo bench --bench resume`.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use shardstream::prelude::*;
use shardstream::stages::Bucketing;
use shardstream::store::{ByteRange, ByteStream, Meta};
use shardstream::testing;

/// Gives the same small shard under every name, and notes when it was first asked.
#[derive(Debug, Clone)]
struct Virtual {
    shard: bytes::Bytes,
    asked: Arc<Mutex<Option<Instant>>>,
}

impl Store for Virtual {
    fn read(&self, _: &str, _: ByteRange) -> ByteStream {
        self.asked.lock().unwrap().get_or_insert_with(Instant::now);
        futures::stream::iter([Ok(self.shard.clone())]).boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        std::future::ready(Err(Error::store("no such thing").in_shard(path))).boxed()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn put<'a>(&'a self, path: &'a str, _: bytes::Bytes) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Err(Error::store("can't be written").in_shard(path))).boxed()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// How often the kernel has taken this thread off its core.
fn taken_away() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .rev()
        .find(|line| line.starts_with("nonvoluntary"))
        .unwrap_or_default()
        .to_owned()
}

#[tokio::main]
async fn main() {
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    // 10^6 shards of 1000 samples.
    let manifest = Manifest::of_pattern("shard-{000000..999999}.tar", Some(1000)).unwrap();
    let files: Vec<_> = (0..1000).map(|i| (format!("{i:04}.txt"), format!("{i}"))).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    let store = Virtual { shard: testing::tar(&files), asked: Arc::default() };
    let asked = Arc::clone(&store.asked);
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
            let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(5000);
            let samples = samples.map_body(|fields| {
                Ok(fields.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>())
            });
            samples.batch_by(|length| *length, Bucketing::new(32))
        };
        Loader::builder(&manifest, recipe).seed(1).workers(2)
    };
    println!("10^6 shards, 10^9 samples, shuffle(5000), buckets, 2 lanes");
    let mut loader = build().start().unwrap();
    let batches = if is_test { 200 } else { 5000 };
    let (mut times, mut largest, mut undisturbed) = (Vec::new(), 0, Duration::ZERO);
    for batch in 0..batches {
        loader.next().await.unwrap().unwrap();
        let switches = taken_away();
        let began = Instant::now();
        let checkpoint = loader.checkpoint();
        times.push(began.elapsed());
        if taken_away() == switches {
            undisturbed = undisturbed.max(times[times.len() - 1]);
        }
        if batch % 50 == 49 {
            largest = largest.max(checkpoint.to_json().unwrap().len());
        }
    }
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let worst = times.iter().max().copied().unwrap_or_default();
    let over = times.iter().filter(|time| us(**time) > 50.0).count();
    println!(
        "  checkpoint(): median {:.1} us, longest {:.1} us ({over} of {batches} above 50 us); longest in which the kernel did not take the thread off its core {:.1} us",
        us(median(times)),
        us(worst),
        us(undisturbed)
    );
    println!("  checkpoint as JSON: at most {:.1} KiB", largest as f64 / 1024.0);
    let checkpoint = loader.checkpoint();
    drop(loader);
    let mut first_reads = Vec::new();
    for _ in 0..if is_test { 1 } else { 11 } {
        *asked.lock().unwrap() = None;
        let began = Instant::now();
        let mut loader = build().resume([checkpoint.clone()]).unwrap();
        loader.next().await.unwrap().unwrap();
        first_reads.push(asked.lock().unwrap().unwrap() - began);
    }
    println!(
        "  resume() to the first read: median {:.2} ms",
        median(first_reads).as_secs_f64() * 1e3
    );
}
