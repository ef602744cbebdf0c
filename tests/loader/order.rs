//! Order depends on nothing but the data: not on prefetch, not on the time that reading and decoding take.

use std::time::Duration;

use futures::StreamExt;
use shardstream::prelude::*;
use shardstream::store::{ByteRange, ByteStream};
use shardstream::testing;

/// Waits before every chunk, for a time that is different in every run.
#[derive(Debug, Clone)]
struct Jittery {
    store: Memory,
    run: u64,
}

impl Store for Jittery {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let mut rng = Rng::keyed(&[self.run, path.len() as u64]);
        let stream = self.store.read(path, range);
        stream
            .then(move |chunk| {
                let wait = Duration::from_micros(rng.below(3000));
                async move {
                    tokio::time::sleep(wait).await;
                    chunk
                }
            })
            .boxed()
    }

    forward_to!(store);
}

async fn keys(
    manifest: &Manifest,
    store: Jittery,
    prefetch: usize,
    workers: u32,
) -> Vec<Vec<(String, u64)>> {
    let run = store.run;
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(20);
        let decoded = samples.decode(Decoder::default()).augment(move |fields, rng| {
            let text = fields.get("txt").and_then(Value::as_text).unwrap_or_default().to_owned();
            // Decoding takes a time of its own in every run.
            let spin = Rng::keyed(&[run, text.len() as u64, rng.clone().next_u64()]).below(200_000);
            std::hint::black_box((0..spin).fold(0u64, |a, b| a ^ b));
            Ok((text, rng.next_u64()))
        });
        decoded.batch(7)
    };
    let loader = Loader::builder(manifest, recipe)
        .seed(5)
        .lanes(4)
        .workers(workers)
        .prefetch(prefetch)
        .epochs(2);
    let batches = loader.start().unwrap();
    batches
        .map(|batch| {
            let (texts, draws) = batch.unwrap().data;
            texts.into_iter().zip(draws).collect()
        })
        .collect()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetch_and_delays_change_nothing() {
    let (manifest, store) = testing::ragged_shards(&[30, 12, 45, 8, 22, 19]);
    let due = keys(&manifest, Jittery { store: store.clone(), run: 0 }, 1, 1).await;
    let mut once: Vec<_> = due.iter().flatten().map(|(key, draw)| (key.clone(), *draw)).collect();
    once.sort();
    once.dedup();
    assert!(
        once.len() >= 2 * 136,
        "every sample of both epochs, each with a draw of its own: {}",
        once.len()
    );
    for (run, prefetch) in [(1, 1), (2, 2), (3, 8)] {
        for workers in [1, 4] {
            let came =
                keys(&manifest, Jittery { store: store.clone(), run }, prefetch, workers).await;
            assert_eq!(came, due, "prefetch {prefetch}, {workers} workers");
        }
    }
}

#[tokio::test]
async fn another_epoch_has_another_order_and_another_seed_too() {
    let (manifest, store) = testing::shards(8, 10);
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards();
        shards.open_twins(store.clone()).expand().group_by_keys().shuffle(20).batch(80)
    };
    let mut orders = Vec::new();
    for (seed, epoch) in [(1, 0), (1, 1), (2, 0)] {
        let loader = Loader::builder(&manifest, recipe.clone())
            .seed(seed)
            .first_epoch(epoch)
            .start()
            .unwrap();
        let batches: Vec<_> = loader.collect().await;
        orders.push(
            batches[0]
                .as_ref()
                .unwrap()
                .heads
                .iter()
                .map(|head| head.key.to_string())
                .collect::<Vec<_>>(),
        );
    }
    assert!(orders[0] != orders[1] && orders[0] != orders[2] && orders[1] != orders[2]);
    for order in &mut orders {
        order.sort();
    }
    assert!(orders[0] == orders[1] && orders[0] == orders[2]);
}
