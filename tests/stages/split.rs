//! `split_by_rank` and `split_by_worker`, on a manifest's list and on any stream of shards.

use std::collections::BTreeSet;

use futures::stream::{self, FusedStream};
use futures::{Stream, TryStreamExt};
use shardstream::prelude::*;
use shardstream::shard::Shard;
use shardstream::stages::ShardList;
use tokio_test::{assert_pending, assert_ready, task};

use super::support::by_hand;

fn manifest(shards: u64) -> Manifest {
    Manifest::of_shards((0..shards).map(|i| format!("{i}.tar"))).unwrap()
}

fn list(shards: u64) -> ShardList {
    shard_list(&manifest(shards)).seed(5).epoch(2).tail(Tail::Uneven)
}

fn paths(stream: impl Stream<Item = Result<Shard>>) -> Vec<String> {
    let paths = stream.map_ok(|shard| shard.path).try_collect();
    futures::executor::block_on(paths).unwrap()
}

/// Hides that a stream is a `ShardList`.
fn any(list: ShardList) -> impl Stream<Item = Result<Shard>> {
    let shards: Vec<_> = futures::executor::block_on(list.try_collect()).unwrap();
    stream::iter(shards.into_iter().map(Ok))
}

#[test]
fn the_parts_make_up_the_whole_and_never_overlap() {
    for (shards, ranks, workers) in [(1, 1, 1), (7, 2, 1), (12, 3, 2), (5, 4, 3), (30, 5, 4)] {
        let mut seen = BTreeSet::new();
        for rank in (0..ranks).map(|rank| Rank::new(rank, ranks).unwrap()) {
            for worker in (0..workers).map(|worker| Worker::new(worker, workers).unwrap()) {
                let part = any(list(shards)).split_by_rank(rank).split_by_worker(rank, worker);
                let part = paths(part);
                let share = shards as usize / (ranks * workers) as usize;
                assert!((share..=share + 1).contains(&part.len()), "as even as can be");
                for path in &part {
                    assert!(seen.insert(path.clone()), "{path} twice");
                }
                let own = list(shards).rank(rank).worker(worker);
                assert_eq!(paths(own.split_by_rank().split_by_worker()), part, "both ways agree");
            }
        }
        assert_eq!(seen.len() as u64, shards);
    }
}

#[test]
fn waking_errors_sizes_and_the_end() {
    let rank = Rank::new(1, 2).unwrap();
    let (feed, stream) = by_hand();
    let mut split = task::spawn(stream.split_by_rank(rank));
    let mut shards =
        futures::executor::block_on(list(3).try_collect::<Vec<_>>()).unwrap().into_iter();
    assert_pending!(split.poll_next());
    feed.send(Ok(shards.next().unwrap())).unwrap();
    assert!(split.is_woken());
    assert_pending!(split.poll_next());
    feed.send(Err(Error::store("gone"))).unwrap();
    assert!(assert_ready!(split.poll_next()).unwrap().is_err());
    feed.send(Ok(shards.next().unwrap())).unwrap();
    assert_eq!(assert_ready!(split.poll_next()).unwrap().unwrap().place, 1);
    drop(feed);
    assert!(assert_ready!(split.poll_next()).is_none() && split.is_terminated());
    assert!(assert_ready!(split.poll_next()).is_none());

    let split = stream::iter(shards.map(Ok).collect::<Vec<_>>()).split_by_rank(rank);
    assert_eq!(split.size_hint(), (0, Some(1)));
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    crate::support::assert_chain_resumes(|lane, store| {
        let rank = Rank::SINGLE;
        let worker = Worker::new(lane.lane(), lane.lanes()).unwrap();
        // As a foreign stream of shards: the combinators, not the methods of the list.
        let shards = ShardStream::split_by_rank(lane.shard_list(), rank);
        let shards = ShardStream::split_by_worker(shards, rank, worker);
        shards.open_twins(store).expand().group_by_keys()
    })
    .await;
}
