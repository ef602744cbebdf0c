use futures::stream::{self, FusedStream};
use futures::{Stream, TryStreamExt};
use shardstream::prelude::*;
use shardstream::shard::Shard;
use shardstream::stages::ShardList;
use tokio_test::{assert_pending, assert_ready, task};

use super::support::by_hand;

fn list(shards: u64, seed: u64, epoch: u64) -> ShardList {
    let manifest = Manifest::of_shards((0..shards).map(|i| format!("{i}.tar"))).unwrap();
    shard_list(&manifest).seed(seed).epoch(epoch)
}

fn shards(stream: impl Stream<Item = Result<Shard>>) -> Vec<Shard> {
    futures::executor::block_on(stream.try_collect()).unwrap()
}

fn paths(stream: impl Stream<Item = Result<Shard>>) -> Vec<String> {
    shards(stream).into_iter().map(|shard| shard.path).collect()
}

/// Hides that a stream is a `ShardList`.
fn any(list: ShardList) -> impl Stream<Item = Result<Shard>> {
    stream::iter(shards(list).into_iter().map(Ok))
}

#[test]
fn a_permutation_by_seed_and_epoch() {
    let listed = paths(list(50, 1, 0));
    let mut orders = Vec::new();
    for (seed, epoch) in [(1, 0), (1, 1), (2, 0)] {
        let order = paths(any(list(50, seed, epoch)).shuffle_shards());
        assert_eq!(order, paths(list(50, seed, epoch).shuffle_shards()), "both ways agree");
        let mut sorted = order.clone();
        sorted.sort_by_key(|path| listed.iter().position(|listed| listed == path));
        assert_eq!(sorted, listed);
        assert!(order != listed && !orders.contains(&order));
        orders.push(order);
    }
}

#[test]
fn places_are_numbered_anew() {
    for shuffled in
        [shards(any(list(9, 1, 0)).shuffle_shards()), shards(list(9, 1, 0).shuffle_shards())]
    {
        assert_eq!(
            shuffled.iter().map(|shard| shard.place).collect::<Vec<_>>(),
            (0..9).collect::<Vec<_>>()
        );
    }
}

#[test]
fn waking_errors_sizes_and_the_end() {
    let (feed, stream) = by_hand();
    let mut shuffled = task::spawn(stream.shuffle_shards());
    for shard in shards(list(3, 1, 0)) {
        assert_pending!(shuffled.poll_next());
        feed.send(Ok(shard)).unwrap();
        assert!(shuffled.is_woken());
    }
    feed.send(Err(Error::store("gone"))).unwrap();
    assert!(assert_ready!(shuffled.poll_next()).unwrap().is_err());
    assert_pending!(shuffled.poll_next());
    drop(feed);
    for left in (0..3).rev() {
        assert!(assert_ready!(shuffled.poll_next()).unwrap().is_ok());
        assert_eq!(shuffled.size_hint(), (left, Some(left)));
    }
    assert!(assert_ready!(shuffled.poll_next()).is_none() && shuffled.is_terminated());
    assert!(assert_ready!(shuffled.poll_next()).is_none());
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    crate::support::assert_chain_resumes(|lane, store| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        shards.open_twins(store).expand().group_by_keys()
    })
    .await;
}
