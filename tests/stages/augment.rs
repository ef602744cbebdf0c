use futures::StreamExt;
use futures::stream::{self, FusedStream};
use shardstream::prelude::*;
use shardstream::testing::{assert_resumes, ragged_shards};
use tokio_test::{assert_pending, task};

use super::decode::uneven_work;
use super::support::{all, by_hand, ordinal, sample, samples};

fn draw(_: u64, rng: &mut Rng) -> Result<u64> {
    Ok(rng.next_u64())
}

async fn drawn(items: impl IntoIterator<Item = Result<Sample<u64>>>) -> Vec<(u64, u64)> {
    let out = all(stream::iter(items).augment(draw)).await;
    out.into_iter().map(|item| (ordinal(&item), item.unwrap().body)).collect()
}

#[tokio::test]
async fn order_is_kept_whatever_each_takes() {
    let work = |n, _: &mut Rng| {
        uneven_work(n);
        Ok(n)
    };
    for threads in [1, 2, 8] {
        let out = all(stream::iter(samples(0, 500)).augment(work).threads(threads)).await;
        let bodies: Vec<_> = out.iter().map(|item| item.as_ref().unwrap().body).collect();
        assert_eq!(bodies, (0..500).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn each_sample_draws_its_own_numbers() {
    let whole = drawn(samples(0, 100)).await;
    let mut numbers: Vec<_> = whole.iter().map(|(_, number)| number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
    // Whoever else is there, and in whichever order.
    let some: Vec<_> = samples(0, 100).filter(|item| ordinal(item) % 3 == 0).collect();
    for (ordinal, number) in drawn(some.into_iter().rev()).await {
        assert_eq!(whole[ordinal as usize].1, number);
    }
    // And others in another epoch.
    assert!(drawn(samples(1, 100)).await.iter().zip(&whole).all(|(a, b)| a != b));
}

#[tokio::test]
async fn two_in_a_row_draw_different_numbers() {
    let both = |first: u64, rng: &mut Rng| Ok((first, rng.next_u64()));
    let fused = all(stream::iter(samples(0, 50)).augment(draw).augment(both)).await;
    let apart = all(stream::iter(samples(0, 50)).augment(draw).map_body(Ok).augment(both)).await;
    for (fused, apart) in fused.into_iter().zip(apart) {
        let (fused, apart) = (fused.unwrap().body, apart.unwrap().body);
        assert_eq!(fused, apart, "in one hand-over or in two");
        assert_ne!(fused.0, fused.1);
    }
}

#[tokio::test]
async fn faults_and_filters_are_marked_and_named() {
    let picky = |n, _: &mut Rng| match n % 4 {
        1 => Err(Error::filter("too small")),
        2 => Err(Error::augment("too odd")),
        _ => Ok(n),
    };
    let out = all(stream::iter(samples(0, 8)).augment(picky)).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    let filtered = out[5].as_ref().unwrap_err();
    assert!(filtered.is_filtered());
    assert_eq!(filtered.to_string(), "filter: sample k5 in a.tar: too small");
    let fault = out[6].as_ref().unwrap_err();
    assert!(!fault.is_filtered() && fault.concerns_one_sample());
    assert_eq!(fault.to_string(), "augment: sample k6 in a.tar: too odd");
    assert_eq!(out.iter().filter(|item| item.is_ok()).count(), 4);
}

#[tokio::test]
#[should_panic(expected = "it tore")]
async fn a_panic_comes_out() {
    let tear = |n, _: &mut Rng| if n == 30 { panic!("it tore") } else { Ok(n) };
    all(stream::iter(samples(0, 50)).augment(tear)).await;
}

#[tokio::test]
async fn waking_and_ending() {
    let (feed, stream) = by_hand();
    let mut augmented = task::spawn(stream.augment(draw));
    assert_pending!(augmented.poll_next());
    feed.send(Ok(sample(0, 0))).unwrap();
    assert!(augmented.is_woken());
    assert_eq!(ordinal(&augmented.next().await.unwrap()), 0);
    drop(feed);
    assert!(augmented.next().await.is_none() && augmented.is_terminated());
    assert!(augmented.next().await.is_none());
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    let (manifest, store) = ragged_shards(&[5, 3, 8]);
    let build = || {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(4);
            samples.augment(|_, rng| {
                if rng.chance(0.2) { Err(Error::filter("unlucky")) } else { Ok(rng.next_u64()) }
            })
        })
        .lanes(2)
        .epochs(2)
        .tail(Tail::Uneven)
    };
    assert!(assert_resumes(build, |sample| (sample.key().clone(), sample.body)).await > 20);
}
