use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use shardstream::prelude::*;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_test::{assert_pending, task};

use super::support::{all, fault, ordinal, samples, settle};

/// Samples without end, counted as they are taken.
fn counted() -> (Arc<AtomicU64>, impl Stream<Item = Result<Sample<u64>>> + Send + Unpin) {
    let count = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&count);
    let items = samples(0, u64::MAX).inspect(move |_| {
        taken.fetch_add(1, Ordering::SeqCst);
    });
    (count, stream::iter(items))
}

#[tokio::test]
async fn it_runs_ahead_while_nobody_polls_and_no_further() {
    for ahead in [1, 2, 8] {
        let (count, stream) = counted();
        let mut prefetch = task::spawn(stream.prefetch(ahead));
        settle().await;
        assert_eq!(count.load(Ordering::SeqCst), 0, "nothing before the first poll");
        assert_pending!(prefetch.poll_next());
        settle().await;
        assert!(prefetch.is_woken());
        // In the channel, and one on its way.
        assert_eq!(count.load(Ordering::SeqCst), ahead as u64 + 1);
        prefetch.next().await.unwrap().unwrap();
        settle().await;
        assert_eq!(count.load(Ordering::SeqCst), ahead as u64 + 2);
    }
}

#[tokio::test]
async fn order_errors_and_the_end() {
    let mut items: Vec<_> = samples(0, 20).collect();
    items[7] = Err(fault(0, 7));
    let mut prefetch = Box::pin(stream::iter(items).prefetch(3));
    assert!(!prefetch.is_terminated());
    let out: Vec<_> = prefetch.by_ref().collect().await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(out[7].is_err());
    assert!(prefetch.is_terminated() && prefetch.next().await.is_none());
}

#[tokio::test]
async fn dropping_it_ends_the_task() {
    let (alive, mut ended) = oneshot::channel::<()>();
    let never = stream::pending().map(move |item: Result<Sample<u64>>| {
        let _ = &alive;
        item
    });
    let mut prefetch = Box::pin(never.prefetch(1));
    assert_pending!(task::spawn(&mut prefetch).poll_next());
    settle().await;
    assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
    drop(prefetch);
    settle().await;
    assert_eq!(ended.try_recv(), Err(TryRecvError::Closed), "the task is gone, and its end of it");
}

#[tokio::test]
async fn one_that_never_listens_ends_it_too() {
    let (count, stream) = counted();
    let mut prefetch = Box::pin(stream.prefetch(1));
    prefetch.next().await.unwrap().unwrap();
    drop(prefetch);
    settle().await;
    let then = count.load(Ordering::SeqCst);
    settle().await;
    assert_eq!(count.load(Ordering::SeqCst), then);
}

#[tokio::test]
#[should_panic(expected = "it burst at 2")]
async fn a_panic_comes_out() {
    let burst = samples(0, 5).inspect(|item| assert!(ordinal(item) < 2, "it burst at 2"));
    let mut prefetch = Box::pin(stream::iter(burst).prefetch(8));
    // What was there before it comes first.
    assert_eq!(ordinal(&prefetch.next().await.unwrap()), 0);
    assert_eq!(ordinal(&prefetch.next().await.unwrap()), 1);
    prefetch.next().await;
}

#[test]
#[should_panic(expected = "prefetch(0)")]
fn zero_is_refused() {
    let _ = stream::iter(samples(0, 1)).prefetch(0);
}

#[tokio::test]
async fn the_order_does_not_depend_on_how_far() {
    let order = |ahead| async move {
        let out = all(stream::iter(samples(0, 60)).shuffle(10).prefetch(ahead)).await;
        out.iter().map(ordinal).collect::<Vec<_>>()
    };
    let one = order(1).await;
    assert_eq!((order(2).await, order(8).await), (one.clone(), one));
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    crate::support::assert_chain_resumes(|lane, store| {
        lane.shard_list()
            .split_by_rank()
            .split_by_worker()
            .open_twins(store)
            .expand()
            .group_by_keys()
            .prefetch(4)
    })
    .await;
}
