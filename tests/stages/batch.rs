use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use shardstream::sample::Data;
use shardstream::testing::{assert_resumes, ragged_shards};
use tokio_test::{assert_pending, task};

use super::support::{all, by_hand, fault, sample, samples};

/// What comes out: the numbers in a batch, or an error as its line.
async fn shown(
    items: impl IntoIterator<Item = Result<Sample<u64>>>,
    n: impl Into<Batching>,
) -> Vec<std::result::Result<Vec<u64>, String>> {
    let out = all(stream::iter(items).batch(n)).await;
    out.into_iter().map(|batch| batch.map(|b| b.data).map_err(|e| e.to_string())).collect()
}

#[tokio::test]
async fn the_last_may_be_short() {
    assert_eq!(shown(samples(0, 5), 2).await, [Ok(vec![0, 1]), Ok(vec![2, 3]), Ok(vec![4])]);
    assert_eq!(shown(samples(0, 4), 2).await, [Ok(vec![0, 1]), Ok(vec![2, 3])]);
    assert_eq!(shown(samples(0, 0), 2).await, []);
}

#[tokio::test]
async fn or_what_is_left_is_dropped_and_named() {
    let batching = Batching::new(3).drop_last(true);
    let out = all(stream::iter(samples(0, 5)).batch(batching)).await;
    assert_eq!(out[0].as_ref().unwrap().data, [0, 1, 2]);
    let left: Vec<_> = out[1..].iter().map(|item| item.as_ref().unwrap_err()).collect();
    assert!(left.iter().all(|error| error.is_filtered()));
    let ordinals: Vec<_> = left.iter().map(|error| error.position().unwrap().ordinal).collect();
    assert_eq!((ordinals, left[0].key()), (vec![3, 4], Some("k3")));
    assert_eq!(shown(samples(0, 6), batching).await.len(), 2);
}

#[tokio::test]
async fn heads_are_those_of_the_bodies() {
    let out = all(stream::iter(samples(0, 5)).batch(3)).await;
    for batch in out {
        let batch = batch.unwrap();
        let ordinals: Vec<_> = batch.heads.iter().map(|head| head.mark.ordinal).collect();
        assert_eq!((ordinals, batch.len()), (batch.data.clone(), batch.data.len()));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_costs_its_sample_only() {
    let mut items: Vec<_> = samples(0, 5).collect();
    items[1] = Err(fault(0, 1));
    let broken = "decode: sample k1 in a.tar: broken".to_owned();
    assert_eq!(shown(items, 2).await, [Err(broken), Ok(vec![0, 2]), Ok(vec![3, 4])]);
}

#[tokio::test]
async fn an_error_that_overtakes_does_not_vouch_for_those_that_wait() {
    let items = [Ok(sample(0, 0)), Err(fault(0, 1)), Ok(sample(0, 2))];
    let out = all(stream::iter(items).batch(2)).await;
    assert_eq!(out[0].as_ref().unwrap_err().mark().unwrap().1.floor, 0);
    assert_eq!(out[1].as_ref().unwrap().data, [0, 2]);
}

#[tokio::test]
async fn a_sample_of_another_shape_is_lost_and_named() {
    let tensor = |n: usize| Tensor { shape: vec![n], data: Data::U8(vec![0; n]) };
    let items = [3, 3, 4, 3].into_iter().zip(0..);
    let items = items.map(|(n, ordinal)| Ok(sample(0, ordinal).map(|_| tensor(n))));
    let out = all(stream::iter(items).batch(3)).await;
    let error = out[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "batch: sample k2 in a.tar: shape [4] in a batch of [3]");
    assert_eq!(error.position().unwrap().ordinal, 2);
    assert_eq!(out[1].as_ref().unwrap().data.shape, [3, 3]);
    assert_eq!(out.len(), 2);
}

#[tokio::test]
async fn waking_ending_and_sizes() {
    let (feed, stream) = by_hand();
    let mut batches = task::spawn(stream.batch(2));
    assert_pending!(batches.poll_next());
    feed.send(Ok(sample(0, 0))).unwrap();
    assert!(batches.is_woken());
    assert_pending!(batches.poll_next());
    assert!(!batches.is_terminated());
    drop(feed);
    assert!(batches.is_woken());
    assert_eq!(batches.next().await.unwrap().unwrap().data, [0]);
    assert!(batches.next().await.is_none() && batches.next().await.is_none());
    assert!(batches.is_terminated());
    assert_eq!(batches.size_hint(), (0, Some(0)));

    // However many errors there are among them, the hint holds.
    for broken in [0, 1, 3, 7] {
        let items = samples(0, 7).enumerate();
        let items: Vec<_> = items
            .map(|(i, item)| if i < broken { Err(fault(0, i as u64)) } else { item })
            .collect();
        let mut batches = Box::pin(stream::iter(items).batch(3));
        let mut hints = vec![batches.size_hint()];
        while batches.next().await.is_some() {
            hints.push(batches.size_hint());
        }
        for (left, (low, high)) in hints.iter().rev().enumerate() {
            assert!(*low <= left && left <= high.unwrap(), "{left} left, hint {low} {high:?}");
        }
    }
}

/// A body whose batch can't be made.
#[derive(Debug)]
struct Trap;

impl Collate for Trap {
    type Output = ();

    fn check(&self, _: &Self) -> Result<()> {
        Ok(())
    }

    fn collate(_: Vec<Self>) -> Result<()> {
        panic!("it snapped")
    }
}

#[tokio::test]
#[should_panic(expected = "it snapped")]
async fn a_panic_comes_out() {
    all(stream::iter(samples(0, 2)).map_body(|_| Ok(Trap)).batch(2)).await;
}

#[test]
#[should_panic(expected = "batch(0)")]
fn zero_is_refused() {
    let _ = stream::iter(samples(0, 1)).batch(0);
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    for drop_last in [false, true] {
        let (manifest, store) = ragged_shards(&[5, 6, 0, 7, 3]);
        let build = || {
            let store = store.clone();
            Loader::builder(&manifest, move |lane| {
                let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
                let samples = shards.open_twins(store.clone()).expand().group_by_keys();
                let samples = samples.filter_samples(|sample| sample.head.mark.key % 4 > 0);
                samples.batch(Batching::new(3).drop_last(drop_last))
            })
            .lanes(2)
            .epochs(2)
            .tail(Tail::Uneven)
        };
        let keys = |batch: &Batch<_>| batch.heads.iter().map(|h| h.key.clone()).collect::<Vec<_>>();
        assert!(assert_resumes(build, keys).await > 6);
    }
}

#[tokio::test]
async fn the_largest_bucket_comes_out_short_when_too_many_bytes_are_held() {
    // Bodies of 24 bytes and their text; odd numbers have the long ones.
    let text = |n: u64| "x".repeat(if n % 2 == 1 { 100 } else { 1 });
    let size = String::new().bytes();
    let limit = 2 * (size + 100) + 3 * (size + 1);
    let buckets = |bytes| {
        let bodies = samples(0, 9).map(move |item| item.map(|sample| sample.map(text)));
        all(stream::iter(bodies).batch_by(String::len, Bucketing::new(4).bytes(bytes)))
    };
    let ordinals = |batch: &Result<Batch<Vec<String>>>| {
        let heads = &batch.as_ref().unwrap().heads;
        heads.iter().map(|head| head.mark.ordinal).collect::<Vec<_>>()
    };
    let kept: Vec<_> = buckets(limit).await.iter().map(ordinals).collect();
    // The third long one is too much: the long ones leave, and the short ones fill their batch.
    assert_eq!(kept, [vec![1, 3, 5], vec![0, 2, 4, 6], vec![7], vec![8]]);
    // Where nothing may be held each sample is a batch, in order.
    let alone: Vec<_> = buckets(0).await.iter().map(ordinals).collect();
    assert_eq!(alone, (0..9).map(|n| vec![n]).collect::<Vec<_>>());
}
