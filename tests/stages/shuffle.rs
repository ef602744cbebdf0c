use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use shardstream::testing::{assert_resumes, ragged_shards};
use tokio_test::{assert_pending, assert_ready, task};

use super::support::{all, by_hand, fault, ordinal, sample, samples};

async fn order(items: impl IntoIterator<Item = Result<Sample<u64>>>, n: u64) -> Vec<u64> {
    all(stream::iter(items).shuffle(n)).await.iter().map(ordinal).collect()
}

#[tokio::test]
async fn it_is_a_permutation() {
    for (n, mean) in [(0, 5), (1, 5), (200, 0), (200, 1), (200, 30), (50, 1000)] {
        let mut out = order(samples(0, n), mean).await;
        assert_eq!(out, order(samples(0, n), mean).await, "twice the same");
        let in_order: Vec<_> = (0..n).collect();
        assert!(n < 50 || mean < 2 || out != in_order, "mean {mean} mixes {n} samples");
        out.sort_unstable();
        assert_eq!(out, in_order);
    }
}

#[tokio::test]
async fn each_epoch_has_its_own_order() {
    assert_ne!(order(samples(0, 100), 20).await, order(samples(1, 100), 20).await);
}

#[tokio::test]
async fn two_in_a_row_mix_twice() {
    let once = order(samples(0, 100), 20).await;
    let twice = all(stream::iter(samples(0, 100)).shuffle(20).shuffle(20)).await;
    assert_ne!(once, twice.iter().map(ordinal).collect::<Vec<_>>());
}

#[tokio::test]
async fn missing_samples_change_nothing_for_the_others() {
    let whole = order(samples(0, 300), 40).await;
    for case in 0..20 {
        let mut rng = Rng::keyed(&[case]);
        let there: Vec<bool> = (0..300).map(|_| rng.chance(0.1 + 0.04 * case as f64)).collect();
        let items = samples(0, 300).filter(|item| there[ordinal(item) as usize]);
        let want: Vec<_> = whole.iter().copied().filter(|&i| there[i as usize]).collect();
        assert_eq!(order(items, 40).await, want, "case {case}");
    }
}

#[tokio::test]
async fn an_error_takes_the_place_of_its_sample() {
    let whole = order(samples(0, 100), 10).await;
    let items = samples(0, 100)
        .map(|item| if ordinal(&item) % 7 == 0 { Err(fault(0, ordinal(&item))) } else { item });
    assert_eq!(order(items, 10).await, whole);
}

#[test]
fn an_error_without_a_place_is_told_at_once() {
    let items = [Ok(sample(0, 0)), Err(Error::store("gone")), Ok(sample(0, 1))];
    let mut shuffled = task::spawn(stream::iter(items).shuffle(Shuffling::mean(5).initial(2)));
    let first = assert_ready!(shuffled.poll_next()).unwrap().unwrap_err();
    assert_eq!(first.to_string(), "read: gone");
    assert!(assert_ready!(shuffled.poll_next()).unwrap().is_ok());
    assert!(assert_ready!(shuffled.poll_next()).unwrap().is_ok());
    assert!(assert_ready!(shuffled.poll_next()).is_none());
}

#[test]
fn it_holds_about_n() {
    for mean in [20, 100] {
        let (feed, stream) = by_hand();
        let mut shuffled = task::spawn(stream.shuffle(mean));
        let (mut held, mut sum, mut most) = (0u64, 0u64, 0);
        for i in 0..40 * mean {
            feed.send(Ok(sample(0, i))).unwrap();
            held += 1;
            while let std::task::Poll::Ready(item) = shuffled.poll_next() {
                item.unwrap().unwrap();
                held -= 1;
            }
            most = most.max(held);
            sum += if i < 8 * mean { 0 } else { held };
        }
        let average = sum as f64 / (32 * mean) as f64 / mean as f64;
        assert!((0.85..1.15).contains(&average), "mean {mean}: holds {average} times that");
        assert!(most <= 2 * mean, "mean {mean}: held up to {most}");
    }
}

#[test]
fn it_starts_at_once_or_when_told() {
    let first_out = |shuffling: Shuffling| {
        let (feed, stream) = by_hand();
        let mut shuffled = task::spawn(stream.shuffle(shuffling));
        (0..).find(|&i| {
            feed.send(Ok(sample(0, i))).unwrap();
            shuffled.poll_next().is_ready()
        })
    };
    let at_once = first_out(Shuffling::mean(100)).unwrap();
    assert!(at_once < 40, "the first of a buffer of 100 came after {at_once}");
    assert_eq!(first_out(Shuffling::mean(100).initial(60)), Some(60));
}

#[test]
fn floors_vouch_for_nothing_that_is_still_to_come() {
    let items = samples(0, 400)
        .map(|item| if ordinal(&item) % 11 == 0 { Err(fault(0, ordinal(&item))) } else { item });
    let out: Vec<_> = futures::executor::block_on(stream::iter(items).shuffle(30).collect());
    let floor = |item: &Result<Sample<u64>>| match item {
        Ok(sample) => sample.head.mark.floor,
        Err(error) => error.mark().unwrap().1.floor,
    };
    let mut lowest_to_come = u64::MAX;
    for item in out.iter().rev() {
        assert!(floor(item) <= lowest_to_come, "{} over {lowest_to_come}", floor(item));
        lowest_to_come = lowest_to_come.min(ordinal(item));
    }
    // And they rise, or a checkpoint would grow for ever.
    assert!(floor(&out[350]) > 200, "{}", floor(&out[350]));
}

#[test]
fn waking_ending_and_sizes() {
    let (feed, stream) = by_hand();
    let mut shuffled = task::spawn(stream.shuffle(Shuffling::mean(4).initial(100)));
    assert_pending!(shuffled.poll_next());
    feed.send(Ok(sample(0, 0))).unwrap();
    assert!(shuffled.is_woken());
    assert_pending!(shuffled.poll_next());
    assert_eq!(shuffled.size_hint().0, 1, "one is held");
    assert!(!shuffled.is_terminated());
    feed.send(Ok(sample(0, 1))).unwrap();
    drop(feed);
    assert!(shuffled.is_woken());
    for left in [1, 0] {
        assert!(assert_ready!(shuffled.poll_next()).is_some());
        assert_eq!(shuffled.size_hint().0, left);
    }
    assert!(assert_ready!(shuffled.poll_next()).is_none());
    assert!(assert_ready!(shuffled.poll_next()).is_none());
    assert!(shuffled.is_terminated());
    assert_eq!(shuffled.size_hint(), (0, Some(0)));

    let mut known = task::spawn(stream::iter(samples(0, 5).collect::<Vec<_>>()).shuffle(3));
    for left in (0..5).rev() {
        assert!(assert_ready!(known.poll_next()).is_some());
        assert_eq!(known.size_hint(), (left, Some(left)));
    }
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    let (manifest, store) = ragged_shards(&[9, 4, 0, 8, 1]);
    let build = || {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
            let samples = shards.open_twins(store.clone()).expand().group_by_keys();
            samples.shuffle(Shuffling::mean(6).initial(3)).shuffle(9)
        })
        .lanes(2)
        .epochs(2)
        .tail(Tail::Uneven)
    };
    assert_eq!(assert_resumes(build, |sample| sample.key().clone()).await, 2 * 22);
}
