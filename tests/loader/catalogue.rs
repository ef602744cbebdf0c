//! How resuming and splitting fail in other loaders, each as a test by its name; and what is refused.

use std::collections::BTreeSet;

use futures::{Stream, StreamExt};
use shardstream::loader::Builder;
use shardstream::prelude::*;
use shardstream::testing;

type Keys = Batch<Vec<Fields<bytes::Bytes>>>;

fn chain(
    lane: &Lane,
    store: &Memory,
    mean: u64,
    size: usize,
) -> impl Stream<Item = Result<Keys>> + Send + use<> {
    let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
    shards.open_twins(store.clone()).expand().group_by_keys().shuffle(mean).batch(size)
}

fn builder(data: &(Manifest, Memory)) -> Builder<Keys> {
    let store = data.1.clone();
    Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 15, 3)).allow_uneven()
}

fn rank(rank: u32, world_size: u32) -> Rank {
    Rank::new(rank, world_size).unwrap()
}

fn keys(batch: &Keys) -> Vec<String> {
    batch.heads.iter().map(|head| head.key.to_string()).collect()
}

async fn some(loader: &mut Loader<Keys>, batches: usize) -> Vec<Vec<String>> {
    loader.take(batches).map(|batch| keys(&batch.unwrap())).collect().await
}

async fn rest(loader: Loader<Keys>) -> Vec<Vec<String>> {
    loader.map(|batch| keys(&batch.unwrap())).collect().await
}

fn data() -> (Manifest, Memory) {
    testing::ragged_shards(&[20, 13, 17, 9, 21, 14])
}

#[tokio::test]
async fn resumed_twice_in_a_row() {
    let data = data();
    let whole = rest(builder(&data).start().unwrap()).await;
    let mut loader = builder(&data).start().unwrap();
    let mut came = some(&mut loader, 5).await;
    for batches in [0, 4, 7] {
        let checkpoint = loader.checkpoint();
        loader = builder(&data).resume([checkpoint]).unwrap();
        came.extend(some(&mut loader, batches).await);
    }
    came.extend(rest(loader).await);
    assert_eq!(came, whole);
}

#[tokio::test]
async fn the_epoch_is_in_the_state() {
    let data = data();
    let whole = rest(builder(&data).epochs(3).start().unwrap()).await;
    let mut loader = builder(&data).epochs(3).start().unwrap();
    let before = some(&mut loader, whole.len() * 2 / 3 + 1).await;
    let checkpoint = loader.checkpoint();
    assert_eq!(checkpoint.lanes().next().unwrap().1.epoch, 2);
    let after = rest(builder(&data).epochs(3).resume([checkpoint]).unwrap()).await;
    assert_eq!([before, after].concat(), whole);
}

#[tokio::test]
async fn members_of_a_group_get_the_same_batches() {
    let data = data();
    // Two processes of one tensor-parallel group are the same rank.
    let one = rest(builder(&data).rank(rank(1, 2)).start().unwrap()).await;
    let other = rest(builder(&data).rank(rank(1, 2)).start().unwrap()).await;
    assert_eq!(one, other);
}

/// Steps of several ranks, each until `steps`, and their parts.
async fn ranks(
    data: &(Manifest, Memory),
    world: u32,
    from: Option<&[Checkpoint]>,
    steps: usize,
) -> (Vec<String>, Vec<Checkpoint>) {
    let (mut came, mut parts) = (Vec::new(), Vec::new());
    for r in 0..world {
        let builder = builder(data).rank(rank(r, world));
        let mut loader = match from {
            Some(parts) => builder.resume(parts.to_vec()),
            None => builder.lanes(4).start(),
        }
        .unwrap();
        came.extend(some(&mut loader, steps).await.concat());
        parts.push(loader.checkpoint());
    }
    (came, parts)
}

#[tokio::test]
async fn new_ranks_and_fewer_ranks_lose_and_repeat_nothing() {
    let data = data();
    let (all, _) = ranks(&data, 1, None, usize::MAX).await;
    for (before, after) in [(1, 4), (2, 4), (4, 1), (4, 2)] {
        let (mut came, parts) = ranks(&data, before, None, 4).await;
        came.extend(ranks(&data, after, Some(&parts), usize::MAX).await.0);
        came.sort();
        let mut all = all.clone();
        all.sort();
        assert_eq!(came, all, "{before} to {after} ranks");
    }
}

#[tokio::test]
async fn the_state_of_every_rank_counts() {
    let data = data();
    let (_, parts) = ranks(&data, 4, None, 2).await;
    let error = builder(&data).resume(parts[..3].to_vec()).unwrap_err();
    assert!(
        error.is_checkpoint() && error.to_string().contains("lane 3 is in none of the parts"),
        "{error}"
    );
    let error =
        builder(&data).resume([parts[0].clone(), parts[1].clone(), parts[1].clone()]).unwrap_err();
    assert!(error.to_string().contains("lane 1 is in two of the parts"), "{error}");
}

#[tokio::test]
async fn a_world_size_that_does_not_divide_the_lanes_is_refused() {
    let data = data();
    let (_, parts) = ranks(&data, 2, None, 2).await;
    let store = data.1.clone();
    let strict =
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 15, 3)).rank(rank(0, 3));
    let error = strict.resume(parts.clone()).unwrap_err();
    assert!(
        error.to_string().contains("world size of 3") && error.to_string().contains("4 lanes"),
        "{error}"
    );
    // Where it is allowed, nothing is lost.
    let (mut came, parts) = ranks(&data, 2, None, 3).await;
    came.extend(ranks(&data, 3, Some(&parts), usize::MAX).await.0);
    assert_eq!(came.len(), ranks(&data, 1, None, usize::MAX).await.0.len());
}

#[tokio::test]
async fn what_the_shuffle_buffer_held_is_not_lost() {
    let data = testing::shards(3, 50);
    let store = data.1.clone();
    let build = || {
        let store = store.clone();
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 60, 1))
    };
    let mut loader = build().start().unwrap();
    let mut came = some(&mut loader, 40).await;
    let checkpoint = loader.checkpoint();
    came.extend(rest(build().resume([checkpoint]).unwrap()).await);
    let once: BTreeSet<_> = came.concat().into_iter().collect();
    assert_eq!((once.len(), came.len()), (150, 150));
}

#[tokio::test]
async fn a_shorter_twin_does_not_end_the_pair_in_silence() {
    let store = Memory::new();
    store.insert(
        "d/image/0.tar",
        testing::tar(&[("a.bin", b"a"), ("b.bin", b"b"), ("c.bin", b"c")]),
    );
    store.insert("d/caption/0.tar", testing::tar(&[("a.txt", b"a"), ("b.txt", b"b")]));
    store.insert("d/wdinfo.json", r#"{"data_keys":["caption","image"],"data_list":["0.tar"],"data_list_key_count":[3],"root":"d","total_key_count":3}"#);
    let manifest = Manifest::load(&store, "d").await.unwrap();
    let recipe =
        move |lane: &Lane| lane.shard_list().open_twins(store.clone()).expand().group_by_keys();
    let came: Vec<_> = Loader::builder(&manifest, recipe).start().unwrap().collect().await;
    let error = came.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(
        came.len() == 3 && error.contains("sample c") && error.contains("d/caption/0.tar"),
        "{error}"
    );
}

#[tokio::test]
async fn a_cut_off_sample_does_not_merge_with_the_next_shard() {
    let store = Memory::new();
    let whole = testing::tar(&[("x.a", b"1"), ("x.b", b"2"), ("k.a", b"3"), ("k.b", b"4")]);
    // Cut behind k.a: its other half never comes, and the next shard begins with the same key.
    store.insert("0.tar", whole.slice(..6 * 512));
    store.insert("1.tar", testing::tar(&[("k.a", b"5"), ("k.b", b"6")]));
    let manifest = Manifest::of_shards(["0.tar", "1.tar"]).unwrap();
    let recipe =
        move |lane: &Lane| lane.shard_list().open_twins(store.clone()).expand().group_by_keys();
    let samples: Vec<_> = Loader::builder(&manifest, recipe)
        .on_error(OnError::skip())
        .start()
        .unwrap()
        .collect()
        .await;
    let bodies: Vec<Vec<u8>> = samples
        .iter()
        .map(|s| s.as_ref().unwrap().body.iter().map(|(_, b)| b[0]).collect())
        .collect();
    assert_eq!(bodies.first().unwrap(), b"12");
    assert_eq!(bodies.last().unwrap(), b"56");
    assert!(
        bodies.iter().all(|body| body != b"35" && body != b"36" && body != b"345"),
        "{bodies:?}"
    );
}

#[tokio::test]
async fn ranks_that_could_take_different_numbers_of_steps_are_refused() {
    let data = data();
    let store = data.1.clone();
    let build = || {
        let store = store.clone();
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 15, 3)).rank(rank(0, 2))
    };
    let error = build().start().unwrap_err();
    assert!(error.is_config() && error.to_string().contains("with_epoch"), "{error}");
    // With epochs of so many batches all ranks take equal steps, whatever they have.
    for r in 0..2 {
        let loader = build().rank(rank(r, 2)).with_epoch(11).epochs(3).start().unwrap();
        assert_eq!(rest(loader).await.len(), 33, "rank {r}");
    }
}

#[tokio::test]
async fn no_secrets_and_no_paths_in_the_state_nor_in_errors() {
    let store = Memory::new();
    let url = |n: u32| format!("https://host.invalid/private/{n}.tar?X-Amz-Signature=5ec2e7");
    store.insert(url(0), testing::tar(&[("a.txt", b"a"), ("b.txt", b"b")]));
    store.insert(url(1), testing::tar(&[("c.txt", b"c"), ("d.txt", b"d")]).slice(..1300));
    // The third is missing.
    let manifest = Manifest::of_shards((0..3).map(url)).unwrap();
    let data = (manifest, store);
    let mut loader = builder(&data).on_error(OnError::skip()).start().unwrap();
    some(&mut loader, 10).await;
    let checkpoint = loader.checkpoint();
    let skips = &checkpoint.lanes().next().unwrap().1.sources[0].skips;
    assert_eq!(skips.len(), 2, "{skips:?} {:?}", loader.stats());
    let text = checkpoint.to_json().unwrap();
    assert!(!text.contains("5ec2e7") && !text.contains("private"), "{text}");
    let mut loader = builder(&data).start().unwrap();
    let error = loop {
        if let Err(error) = loader.next().await.unwrap() {
            break error.to_string();
        }
    };
    assert!(error.contains("private/") && !error.contains("5ec2e7"), "{error}");
}

#[tokio::test]
async fn a_state_of_another_version_is_refused_by_name() {
    let text = builder(&data()).start().unwrap().checkpoint().to_json().unwrap();
    let other = text.replacen("\"version\":1", "\"version\":2", 1);
    let error = Checkpoint::from_json(&other).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("version 1"), "{error}");
    assert!(
        Checkpoint::from_json("{\"version\":1}").is_err()
            && Checkpoint::from_json("pickle").is_err()
    );
}

#[tokio::test]
async fn padding_repeats_other_shards_in_every_epoch() {
    let data = testing::shards(5, 1);
    let mut repeated = BTreeSet::new();
    for epoch in 0..20 {
        let mut loader = builder(&data).lanes(4).first_epoch(epoch).start().unwrap();
        while let Some(batch) = loader.next().await {
            let batch = batch.unwrap();
            repeated.extend(
                batch
                    .heads
                    .iter()
                    .filter(|head| head.origin.repeat)
                    .map(|head| head.key.to_string()),
            );
        }
        assert_eq!(loader.stats().repeated, 3, "8 places for 5 shards");
    }
    assert_eq!(repeated.len(), 5, "{repeated:?}");
}

#[tokio::test]
async fn another_run_is_refused_and_what_differs_is_named() {
    let data = data();
    let mut loader = builder(&data).seed(3).run_name("a").start().unwrap();
    some(&mut loader, 2).await;
    let checkpoint = loader.checkpoint();
    let refused = |builder: Builder<Keys>, what: &str| {
        let error = builder.resume([checkpoint.clone()]).unwrap_err();
        assert!(error.is_checkpoint() && error.to_string().contains(what), "{what}: {error}");
    };
    refused(builder(&data).run_name("a").seed(4), "seed");
    refused(builder(&data).run_name("b"), "run");
    refused(builder(&data).run_name("a").tail(Tail::Drop), "tail");
    refused(builder(&data).run_name("a").lanes(2), "lanes");
    refused(builder(&data).run_name("a").with_epoch(4), "with_epoch");
    refused(
        builder(&testing::ragged_shards(&[20, 13, 17, 9, 21, 14, 1])).run_name("a"),
        "manifest",
    );
    let store = data.1.clone();
    let other =
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 16, 3)).run_name("a");
    refused(other, "shuffle(mean 16");
    // And the same is not.
    assert!(builder(&data).run_name("a").seed(3).resume([checkpoint.clone()]).is_ok());
}

/// Case G07: consumed 10 of 24 samples on two workers, no multiple of anything.
#[tokio::test]
async fn resumed_off_every_boundary() {
    let data = testing::shards(6, 4);
    let store = data.1.clone();
    let build = || {
        let store = store.clone();
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 1, 1)).workers(2)
    };
    let mut loader = build().start().unwrap();
    let before = some(&mut loader, 10).await;
    let after = rest(build().resume([loader.checkpoint()]).unwrap()).await;
    assert_eq!((before.len(), after.len()), (10, 14));
    let once: BTreeSet<_> = [before, after].concat().concat().into_iter().collect();
    assert_eq!(once.len(), 24);
}

/// Case G08: 8 samples consumed by each of two ranks, continued by one: exactly the 8 that are left.
#[tokio::test]
async fn resumed_on_another_world_size() {
    let data = testing::shards(6, 4);
    let store = data.1.clone();
    let build = || {
        let store = store.clone();
        Loader::builder(&data.0, move |lane: &Lane| chain(lane, &store, 1, 1)).allow_uneven()
    };
    let (mut came, mut parts) = (Vec::new(), Vec::new());
    for r in 0..2 {
        let mut loader = build().rank(rank(r, 2)).start().unwrap();
        came.extend(some(&mut loader, 8).await);
        parts.push(loader.checkpoint());
    }
    let left = rest(build().resume(parts).unwrap()).await;
    assert_eq!(left.len(), 8);
    came.extend(left);
    assert_eq!(came.concat().into_iter().collect::<BTreeSet<_>>().len(), 24);
}

#[tokio::test]
async fn a_checkpoint_is_small_with_a_large_shuffle_and_buckets() {
    let data = testing::shards(40, 1000);
    let store = data.1.clone();
    let recipe = move |lane: &Lane| {
        let samples = lane
            .shard_list()
            .shuffle_shards()
            .open_twins(store.clone())
            .expand()
            .group_by_keys()
            .shuffle(5000);
        samples.batch_by(
            |fields: &Fields<bytes::Bytes>| fields.iter().next().map(|(_, bytes)| bytes.len()),
            32,
        )
    };
    let mut loader = Loader::builder(&data.0, recipe).start().unwrap();
    let mut largest = 0;
    while let Some(batch) = loader.next().await {
        batch.unwrap();
        if loader.stats().batches % 25 == 0 {
            largest = largest.max(loader.checkpoint().to_json().unwrap().len());
        }
    }
    assert!(largest > 1000 && largest <= 64 << 10, "{largest} bytes");
}
