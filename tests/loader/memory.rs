//! A budget of bytes for all that a loader holds: kept, and without any effect on the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use shardstream::loader::Builder;
use shardstream::prelude::*;
use shardstream::sample::Column;
use shardstream::store::{ByteRange, ByteStream};
use shardstream::testing;

const MB: u64 = 1 << 20;

/// Tars in memory, read in chunks as files are.
#[derive(Debug, Clone)]
struct InChunks(Memory);

impl Store for InChunks {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let chunks = |whole: Bytes| {
            let chunks: Vec<_> = (0..whole.len())
                .step_by(256 << 10)
                .map(|at| Ok(whole.slice(at..whole.len().min(at + (256 << 10)))))
                .collect();
            stream::iter(chunks)
        };
        self.0.read(path, range).map_ok(chunks).try_flatten().boxed()
    }

    forward_to!(0);
}

/// Shards of 4 MB in samples of 16 KB, and one large sample among them.
async fn shards(shards: usize, large: u64) -> (Manifest, InChunks) {
    let store = Memory::new();
    let mut names = Vec::new();
    let (small, large) = (vec![1; 16 << 10], vec![2; large as usize]);
    for shard in 0..shards {
        let files: Vec<_> = (0..256).map(|i| format!("s{shard}_k{i}.bin")).collect();
        let body = |i| if (shard, i) == (3, 100) { &large[..] } else { &small[..] };
        let files: Vec<_> =
            files.iter().enumerate().map(|(i, name)| (name.as_str(), body(i))).collect();
        names.push(format!("{shard:06}.tar"));
        store.put(&names[shard], testing::tar(&files)).await.unwrap();
    }
    (Manifest::of_shards(names).unwrap(), InChunks(store))
}

fn builder(manifest: &Manifest, store: &InChunks) -> Builder<Batch<Vec<Fields<Bytes>>>> {
    let store = store.clone();
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let twins = shards.open_twins(store.clone()).ahead(0);
        twins.expand().group_by_keys().shuffle(100).batch(16)
    };
    // As far ahead as it may.
    Loader::builder(manifest, recipe).workers(2).prefetch(10_000)
}

/// The keys of all batches, and the most that was held while the trainer took its time for each.
async fn run(builder: Builder<Batch<Vec<Fields<Bytes>>>>) -> (Vec<String>, u64) {
    let mut loader = builder.start().unwrap();
    let (mut keys, mut most) = (Vec::new(), 0);
    let soon = std::time::Duration::from_secs(120);
    while let Some(batch) =
        tokio::time::timeout(soon, loader.try_next()).await.expect("reading goes on").unwrap()
    {
        keys.extend(batch.heads.iter().map(|head| head.key.to_string()));
        // Everything runs on this thread: afterwards nobody has anything left to do but to wait.
        for _ in 0..100 {
            tokio::task::yield_now().await;
            most = most.max(loader.memory_held().unwrap_or(0));
        }
    }
    assert_eq!(loader.memory_held().unwrap_or(0), 0, "all was given back");
    (keys, most)
}

#[tokio::test]
async fn the_budget_is_kept_and_the_data_are_the_same() {
    let (manifest, store) = shards(6, 9 * MB).await;
    let build = || builder(&manifest, &store);
    let (keys, none) = run(build()).await;
    assert_eq!((keys.len(), none), (6 * 256, 0), "nothing is counted without a budget");
    let (same, all) = run(build().memory(1 << 40)).await;
    assert_eq!(same, keys);
    assert!(all > 33 * MB, "it would be {all}");
    // Two lanes with a tar each on its way, the shuffle buffers, the large sample: some 24 MB must be.
    let budget = 27 * MB;
    let (same, most) = run(build().memory(budget)).await;
    assert_eq!(same, keys);
    assert!(most > 22 * MB && most * 100 <= budget * 105, "{most}");
}

#[tokio::test]
async fn a_sample_that_is_larger_than_a_lanes_part_has_room_from_the_others() {
    let (manifest, store) = shards(16, 24 * MB).await;
    let build = || builder(&manifest, &store);
    let (keys, _) = run(build()).await;
    // A lane has 24 MB; the one with the large sample must hold 31.
    let budget = 48 * MB;
    let (same, most) = run(build().memory(budget)).await;
    assert_eq!(same, keys);
    assert!(most > 38 * MB && most * 100 <= budget * 105, "{most}");
}

/// Counts the bytes that were read.
#[derive(Debug, Clone)]
struct Counting(InChunks, Arc<AtomicU64>);

impl Store for Counting {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let count = Arc::clone(&self.1);
        let counted = move |chunk: &Bytes| {
            count.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        };
        self.0.read(path, range).inspect_ok(counted).boxed()
    }

    forward_to!(0);
}

#[tokio::test]
async fn all_that_was_read_counts_until_it_is_delivered() {
    let memory = Memory::new();
    let large = vec![3; 9 << 20];
    let names: Vec<_> = (0..20).map(|i| format!("k{i:02}.mp4")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &large[..])).collect();
    memory.put("0.tar", testing::tar(&files)).await.unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let store = Counting(InChunks(memory), Arc::clone(&read));
    let manifest = Manifest::of_shards(["0.tar"]).unwrap();
    let recipe = move |lane: &Lane| {
        lane.shard_list().open_twins(store.clone()).expand().group_by_keys().batch(1)
    };
    let builder = Loader::builder(&manifest, recipe).prefetch(1).memory(1 << 40);
    let mut loader = builder.start().unwrap();
    let mut delivered = 0;
    while let Some(batch) = loader.try_next().await.unwrap() {
        delivered += 9 * MB * batch.heads.len() as u64;
        drop(batch);
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        let there = read.load(Ordering::SeqCst) - delivered;
        let held = loader.memory_held().unwrap();
        // But for headers; what is on its way from a file counts as 5 MiB in any case.
        assert!(held + MB > there && held < there + 6 * MB, "{held} of {there}");
    }
    assert_eq!(delivered, 20 * 9 * MB);
}

#[tokio::test]
async fn a_budget_that_is_far_too_small_stops_nothing() {
    let (manifest, store) = shards(6, 9 * MB).await;
    let build = || builder(&manifest, &store);
    let (keys, _) = run(build()).await;
    let (same, most) = run(build().memory(1)).await;
    assert_eq!(same, keys);
    // What is open, the shuffle buffers, the large sample and a batch, and nothing ahead.
    assert!(most < 26 * MB, "{most}");
}

#[tokio::test]
async fn decoded_samples_count_by_what_is_in_the_batch() {
    let picture = include_bytes!("../data/decode/photo-a.png").to_vec();
    let (manifest, store) = testing::classes(1, 20, "png", &[picture]);
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store.clone()).expand().group_by_keys();
        samples.decode(Decoder::default()).batch(20)
    };
    let mut loader = Loader::builder(&manifest, recipe).memory(1 << 40).start().unwrap();
    let batch = loader.try_next().await.unwrap().unwrap();
    assert!(loader.try_next().await.unwrap().is_none());
    let bytes = |column: &Column| match column {
        Column::Tensor(tensor) => tensor.data.as_bytes().len(),
        _ => 0,
    };
    let numbers: usize = batch.data.iter().map(|(_, column)| bytes(column)).sum();
    assert!(numbers > 20 * 1000, "{numbers}");
    let held = loader.memory_held().unwrap() as usize;
    assert!((numbers..numbers + 20 * 2000).contains(&held), "{held} for {numbers}");
    drop(batch);
    assert_eq!(loader.memory_held(), Some(0));
}
