//! `filter_samples` and `map_body`.

use futures::stream::{self, FusedStream, Stream};
use shardstream::prelude::*;
use tokio_test::{assert_ready, task};

use super::support::{all, fault, ordinal, samples};

#[tokio::test]
async fn what_is_left_out_goes_on_marked() {
    let out = all(stream::iter(samples(0, 4)).filter_samples(|s| s.body % 2 == 0)).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for item in [&out[1], &out[3]] {
        let error = item.as_ref().unwrap_err();
        assert!(error.is_filtered() && error.concerns_one_sample());
    }
    assert_eq!(out[1].as_ref().unwrap_err().to_string(), "filter: sample k1 in a.tar: left out");
    assert!(out[0].is_ok() && out[2].is_ok());
}

#[tokio::test]
async fn faults_pass_untouched() {
    let items = [Err(fault(0, 0)), samples(0, 2).nth(1).unwrap()];
    let out = all(stream::iter(items).filter_samples(|_| false).map_body(Ok)).await;
    assert!(!out[0].as_ref().unwrap_err().is_filtered());
    assert!(out[1].as_ref().unwrap_err().is_filtered());
}

#[tokio::test]
async fn map_body_names_the_sample() {
    let halve = |n| if n % 2 == 0 { Ok(n / 2) } else { Err(Error::augment("odd")) };
    let out = all(stream::iter(samples(0, 3)).map_body(halve)).await;
    assert_eq!((out[0].as_ref().unwrap().body, out[2].as_ref().unwrap().body), (0, 1));
    let error = out[1].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "augment: sample k1 in a.tar: odd");
    assert_eq!(error.position().unwrap().ordinal, 1);
}

#[test]
fn sizes_and_the_end() {
    let items: Vec<_> = samples(0, 3).collect();
    let mut stream = task::spawn(stream::iter(items).filter_samples(|_| false).map_body(Ok));
    for left in (0..3).rev() {
        assert!(assert_ready!(stream.poll_next()).is_some());
        assert_eq!(stream.size_hint(), (left, Some(left)));
    }
    assert!(assert_ready!(stream.poll_next()).is_none() && stream.is_terminated());
    assert!(assert_ready!(stream.poll_next()).is_none());
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    crate::support::assert_chain_resumes(|lane, store| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store).expand().group_by_keys();
        samples.filter_samples(|sample| sample.head.mark.index % 3 != 1).batch(2)
    })
    .await;
}
