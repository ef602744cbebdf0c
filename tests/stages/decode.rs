use bytes::Bytes;
use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use shardstream::testing::{assert_resumes, ragged_shards};
use tokio_test::{assert_pending, assert_ready, task};

use super::support::{all, by_hand, fault, ordinal, sample, samples};

/// A sample with one field `n.num` that holds its number.
fn encoded(sample: Result<Sample<u64>>) -> Result<Sample<Fields<Bytes>>> {
    sample.map(|sample| {
        sample.map(|number| {
            let mut fields = Fields::new();
            fields.insert("n.num", Bytes::from(number.to_string()));
            fields
        })
    })
}

/// Reads `num` fields, after work of very different lengths.
fn decoder(check: impl Fn(u64) -> Result<()> + Send + Sync + 'static) -> Decoder {
    Decoder::new().with("num", move |bytes| {
        let number: u64 = std::str::from_utf8(&bytes).unwrap().parse().unwrap();
        uneven_work(number);
        check(number)?;
        Ok(Value::Int(number as i64))
    })
}

/// Takes up to some thousand times as long for one number as for another.
pub(crate) fn uneven_work(number: u64) {
    let rounds = Rng::keyed(&[number]).below(12);
    for i in 0..1u64 << rounds {
        std::hint::black_box(shardstream::random::hash(&[i]));
    }
}

#[tokio::test]
async fn order_is_kept_whatever_each_takes() {
    for threads in [1, 2, 8] {
        let items = stream::iter(samples(0, 500).map(encoded));
        let out = all(items.decode(decoder(|_| Ok(()))).threads(threads)).await;
        for (at, item) in out.iter().enumerate() {
            let sample = item.as_ref().unwrap();
            assert_eq!(sample.body.get("n.num"), Some(&Value::Int(at as i64)));
            assert_eq!(sample.head.mark.ordinal, at as u64);
        }
        assert_eq!(out.len(), 500);
    }
}

#[tokio::test]
async fn faults_stay_in_their_places_and_are_named() {
    let broken = |n| if n % 3 == 1 { Err(Error::decode("odd bits")) } else { Ok(()) };
    let items = samples(0, 200).map(|item| {
        if ordinal(&item) % 5 == 0 { Err(fault(0, ordinal(&item))) } else { encoded(item) }
    });
    let out = all(stream::iter(items).decode(decoder(broken))).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    for (at, item) in out.iter().enumerate() {
        let want = if at % 5 == 0 {
            Some(format!("decode: sample k{at} in a.tar: broken"))
        } else if at % 3 == 1 {
            Some(format!("decode: field n.num of sample k{at} in a.tar: odd bits"))
        } else {
            None
        };
        assert_eq!(item.as_ref().err().map(ToString::to_string), want);
    }
}

#[tokio::test]
#[should_panic(expected = "it jammed")]
async fn a_panic_comes_out() {
    let items = stream::iter(samples(0, 50).map(encoded));
    all(items.decode(decoder(|n| if n == 30 { panic!("it jammed") } else { Ok(()) }))).await;
}

#[test]
#[should_panic(expected = "threads(0)")]
fn zero_threads_are_refused() {
    let _ = stream::iter(samples(0, 1).map(encoded)).decode(Decoder::new()).threads(0);
}

#[tokio::test]
async fn waking_ending_and_sizes() {
    let (feed, stream) = by_hand();
    let mut decoded = task::spawn(stream.decode(decoder(|_| Ok(()))));
    assert_pending!(decoded.poll_next());
    feed.send(encoded(Ok(sample(0, 0)))).unwrap();
    assert!(decoded.is_woken());
    // It does not wait for more before it begins.
    assert_eq!(ordinal(&decoded.next().await.unwrap()), 0);
    assert_pending!(decoded.poll_next());
    assert!(!decoded.is_terminated());
    feed.send(Err(fault(0, 1))).unwrap();
    assert!(assert_ready!(decoded.poll_next()).unwrap().is_err());
    drop(feed);
    assert!(assert_ready!(decoded.poll_next()).is_none() && decoded.is_terminated());
    assert!(assert_ready!(decoded.poll_next()).is_none());
    assert_eq!(decoded.size_hint(), (0, Some(0)));

    let items = stream::iter(samples(0, 100).map(encoded).collect::<Vec<_>>());
    let mut decoded = Box::pin(items.decode(decoder(|_| Ok(()))));
    for left in (0..100).rev() {
        decoded.next().await.unwrap().unwrap();
        let (low, high) = decoded.size_hint();
        assert!(low <= left && high.is_none_or(|high| left <= high), "{left}: {low} {high:?}");
    }
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    let (manifest, store) = ragged_shards(&[5, 3, 8]);
    let build = || {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            let samples = shards.open_twins(store.clone()).expand().group_by_keys();
            samples.shuffle(4).decode(Decoder::new())
        })
        .lanes(2)
        .tail(Tail::Uneven)
    };
    assert_eq!(assert_resumes(build, |sample| sample.body.clone()).await, 16);
}
