//! Every checkpoint of a run gives the rest of the run.

use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use shardstream::testing::{assert_resumes, ragged_shards};

/// A chain with everything in it that could forget something.
fn chain(
    lane: &Lane,
    store: &Memory,
) -> impl Stream<Item = Result<Batch<(Vec<String>, Vec<u64>)>>> + Send + use<> {
    let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
    let samples = shards.open_twins(store.clone()).expand().group_by_keys();
    samples
        .shuffle(Shuffling::mean(13).initial(4))
        .decode(Decoder::default())
        .augment(|fields, rng| {
            if rng.chance(0.1) {
                return Err(Error::filter("unlucky"));
            }
            if rng.chance(0.05) {
                return Err(Error::augment("broken"));
            }
            let text = fields.get("txt").and_then(Value::as_text).unwrap_or_default().to_owned();
            Ok((text, rng.next_u64()))
        })
        .shuffle(5)
        .batch(4)
}

#[tokio::test]
async fn the_whole_chain() {
    for (lanes, tail) in [(1, Tail::Pad), (2, Tail::Pad), (3, Tail::Uneven), (6, Tail::Drop)] {
        let (manifest, store) = ragged_shards(&[7, 0, 11, 3, 1, 12, 9]);
        let build = || {
            let store = store.clone();
            let builder = Loader::builder(&manifest, move |lane: &Lane| chain(lane, &store));
            builder.seed(3).lanes(lanes).epochs(2).tail(tail).on_error(OnError::skip())
        };
        let batches = assert_resumes(build, |batch| batch.data.clone()).await;
        assert!(batches > 15, "{batches}");
    }
}

/// A shard of which nothing is settled yet, between shards of which something is.
#[tokio::test]
async fn a_shard_that_was_overtaken_is_not_forgotten() {
    let (manifest, store) = ragged_shards(&[1; 60]);
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).expand().group_by_keys().shuffle(10).batch(1)
        };
        Loader::builder(&manifest, recipe)
    };
    assert_eq!(assert_resumes(build, |batch| batch.heads[0].key.clone()).await, 60);
}

/// Shards read one at a time by `interleave`, one of which was settled and is passed over: the next one's ordinals follow it all the same.
#[tokio::test]
async fn a_settled_shard_between_interleaved_ones_keeps_its_place() {
    for width in [1, 2, 3] {
        let (manifest, store) = ragged_shards(&[13, 2, 14, 0, 1, 9, 6]);
        let build = || {
            let store = store.clone();
            let recipe = move |lane: &Lane| {
                let store = store.clone();
                let shards = lane.shard_list().split_by_rank().split_by_worker();
                let read = shards.interleave(width, move |shards| {
                    shards.open_twins(store.clone()).expand().group_by_keys()
                });
                let drawn = read.augment(|_, rng| Ok(rng.next_u64()));
                drawn.batch_by(|drawn| drawn % 3, Bucketing::new(4).hold(12))
            };
            Loader::builder(&manifest, recipe)
        };
        assert!(assert_resumes(build, |batch| batch.data.clone()).await > 10);
    }
}

/// Shards drawn with replacement: some come several times in an epoch, each time with random numbers of their own, and others never.
#[tokio::test]
async fn shards_drawn_with_replacement() {
    for lanes in [1, 2, 3] {
        let (manifest, store) = ragged_shards(&[7, 0, 11, 3, 1, 12, 9]);
        let build = || {
            let store = store.clone();
            let recipe = move |lane: &Lane| {
                let shards = lane.shard_list().order(Order::Resampled { seed: 5 });
                let shards = shards.split_by_rank().split_by_worker();
                let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(9);
                samples.augment(|_, rng| Ok(rng.next_u64())).batch(4)
            };
            Loader::builder(&manifest, recipe).seed(3).lanes(lanes).epochs(2)
        };
        let drawn = |batch: &Batch<Vec<u64>>| {
            let places = batch.heads.iter().map(|head| (head.origin.place, head.key.to_string()));
            (places.collect::<Vec<_>>(), batch.data.clone())
        };
        assert!(assert_resumes(build, drawn).await > 10);
    }
}

/// A shard of which something was delivered, and which is gone when the run goes on: what is left of it is lost, and that is said.
#[tokio::test]
async fn a_shard_that_breaks_between_two_runs_is_not_passed_over_in_silence() {
    let (manifest, store) = ragged_shards(&[8, 6]);
    let resumed = |checkpoint: Option<Checkpoint>, on_error| {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).expand().group_by_keys()
        };
        let builder = Loader::builder(&manifest, recipe).on_error(on_error);
        match checkpoint {
            Some(part) => builder.resume([part]).unwrap(),
            None => builder.start().unwrap(),
        }
    };
    let mut loader = resumed(None, OnError::Stop);
    for _ in 0..3 {
        loader.next().await.unwrap().unwrap();
    }
    let checkpoint = loader.checkpoint();
    let whole = store.get("000000.tar").unwrap();
    // Gone from its beginning, and from where two more samples are settled.
    for cut in [0, 1024 + 100] {
        store.insert("000000.tar", whole.slice(..cut));
        let error =
            resumed(Some(checkpoint.clone()), OnError::Stop).next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("000000.tar"), "{error}");
        let mut loader = resumed(Some(checkpoint.clone()), OnError::skip());
        let mut keys = Vec::new();
        while let Some(sample) = loader.next().await {
            keys.push(sample.unwrap().head.key.to_string());
        }
        assert_eq!(keys, ["s1_k0", "s1_k1", "s1_k2", "s1_k3", "s1_k4", "s1_k5"], "cut at {cut}");
        let skips = &loader.lanes().next().unwrap().1.sources[0].skips;
        assert!(skips.len() == 1 && skips[0].rest && skips[0].index == 3, "{skips:?}");
    }
}
