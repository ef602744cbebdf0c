//! `batch_by` without a loader; with one, see `tests/loader/kept.rs`.

use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use shardstream::stages::Rest;

use super::support::{all, samples};

/// The batches of ten samples in threes by the rest of their number, and the ordinals of those left out.
async fn batches(rest: Rest) -> (Vec<Vec<u64>>, Vec<u64>) {
    let kinds = stream::iter(samples(0, 10)).batch_by(|n| n % 3, Bucketing::new(3).rest(rest));
    let (mut came, mut left) = (Vec::new(), Vec::new());
    for item in all(kinds).await {
        match item {
            Ok(batch) => came.push(batch.data),
            Err(error) => left.push(error.position().unwrap().ordinal),
        }
    }
    (came, left)
}

#[tokio::test]
async fn rests() {
    let full = [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5, 8]];
    let short = [&full[..], &[vec![9]]].concat();
    assert_eq!(batches(Rest::Short).await, (short.clone(), vec![]));
    assert_eq!(batches(Rest::Drop).await, (full.to_vec(), vec![9]));
    // Without a loader there is no next epoch.
    assert_eq!(batches(Rest::Keep).await, (short, vec![]));
}

#[tokio::test]
async fn it_ends_when_all_is_out() {
    let bucketing = Bucketing::new(3).rest(Rest::Keep);
    let mut kinds = Box::pin(stream::iter(samples(0, 2)).batch_by(|n| *n, bucketing));
    for left in [1, 0] {
        assert!(kinds.next().await.is_some());
        assert_eq!((kinds.size_hint().1, kinds.is_terminated()), (Some(left), left == 0));
    }
    assert!(kinds.next().await.is_none() && kinds.is_terminated());
}
