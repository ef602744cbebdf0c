//! Sources in proportion to their weights, and the three ways to end.

use futures::{StreamExt, TryStreamExt};
use shardstream::prelude::*;
use shardstream::shard::{DataSet, Shard};
use shardstream::stages::{ShardList, mix};
use shardstream::testing::{assert_resumes, ragged_shards};

use super::support::{all, tars};

type Read = futures::stream::BoxStream<'static, Result<Sample<Fields<bytes::Bytes>>>>;

fn read(list: ShardList, store: &Memory) -> Read {
    let shards = list.split_by_rank().split_by_worker();
    shards.open_twins(store.clone()).expand().group_by_keys().boxed()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    WithLast,
    WithFirst,
    Never,
}

/// A data set of 40 samples and one of 12, one to one.
async fn builder(
    ends: Ends,
) -> impl Fn() -> shardstream::loader::Builder<Sample<Fields<bytes::Bytes>>> {
    let (_, store) = ragged_shards(&[9, 0, 14, 17, 5, 7]);
    let set = |shards: std::ops::Range<u32>| {
        DataSet::at_all(shards.map(|shard| format!("{shard:06}.tar")))
    };
    let sets = [("a".to_owned(), set(0..4)), ("b".to_owned(), set(4..6))];
    let manifest = Manifest::of_data_sets(&store, &sets).await.unwrap();
    move || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let source = |number| {
                let list = lane.source(number).unwrap().shuffle_shards();
                read(if ends == Ends::Never { list.repeat() } else { list }, &store)
            };
            let mixed = mix([(source(0), 1.0), (source(1), 1.0)]).unwrap();
            match ends {
                Ends::WithFirst => mixed.first_exhausted(lane.progress()),
                Ends::WithLast | Ends::Never => mixed,
            }
            .shuffle(4)
        };
        let builder = Loader::builder(&manifest, recipe).seed(5).lanes(2).workers(2);
        // Rounds of the lanes: 20 and 6 samples at most.
        if ends == Ends::Never { builder.with_epoch(50).epochs(3) } else { builder.epochs(2) }
    }
}

#[tokio::test]
async fn every_checkpoint_resumes_however_it_ends() {
    for (ends, least, most) in
        [(Ends::WithLast, 104, 104), (Ends::WithFirst, 40, 60), (Ends::Never, 150, 150)]
    {
        let build = builder(ends).await;
        let count =
            assert_resumes(build, |sample| (sample.key().clone(), sample.head.origin.epoch));
        let count = count.await;
        assert!((least..=most).contains(&count), "{ends:?}: {count}");
    }
}

#[tokio::test]
async fn a_mix_that_never_ends_keeps_its_shares() {
    let build = builder(Ends::Never).await;
    let samples: Vec<_> = build().start().unwrap().try_collect().await.unwrap();
    for epoch in samples.chunks(50) {
        let second = epoch.iter().filter(|s| s.head.origin.source == 1).count();
        assert!((22..=28).contains(&second), "{second} of 50");
    }
}

#[tokio::test]
async fn a_repeated_list_has_the_orders_of_the_epochs() {
    for tail in [Tail::Pad, Tail::Drop, Tail::Uneven] {
        let (manifest, _) = ragged_shards(&[1; 7]);
        let list = |rank, epoch| {
            let list = shard_list(&manifest).seed(3).tail(tail).epoch(epoch);
            list.rank(Rank::new(rank, 3).unwrap()).shuffle_shards().split_by_rank()
        };
        for rank in 0..3 {
            let mut want = Vec::new();
            for epoch in 4..8 {
                want.extend(all(list(rank, epoch).map_ok(|shard| shard.path)).await);
            }
            let want: Vec<_> = want.into_iter().map(Result::unwrap).collect();
            let repeated = list(rank, 4).repeat().take(want.len());
            let shards: Vec<Shard> = repeated.try_collect().await.unwrap();
            assert_eq!(shards.iter().map(|s| s.path.clone()).collect::<Vec<_>>(), want);
            // Places go on counting.
            let places = shards.iter().map(|s| s.place).collect::<Vec<_>>();
            let due = (0..want.len() as u64).map(|number| u64::from(rank) + 3 * number);
            assert_eq!(places, due.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn a_list_without_samples_is_not_read_for_ever() {
    // Whole tars that hold nothing.
    let (manifest, store) = tars(&[&[], &[("README", "")], &[]]);
    let shards = shard_list(&manifest).repeat().open_twins(store.clone());
    let first = shards.expand().group_by_keys().try_next().await;
    let error = first.unwrap_err();
    assert!(
        error.to_string().contains("none of the last shards of this lane had a sample"),
        "{error}"
    );
    // Broken ones, and interleaved.
    let (manifest, store) = tars(&[&[("a.txt", "1")], &[("b.txt", "2")]]);
    for shard in ["0.tar", "1.tar"] {
        store.insert(shard, "<html>");
    }
    let recipe = move |lane: &Lane| {
        let store = store.clone();
        lane.shard_list()
            .repeat()
            .interleave(2, move |shards| shards.open_twins(store.clone()).expand().group_by_keys())
    };
    let loader = Loader::builder(&manifest, recipe).with_epoch(5).on_error(OnError::skip());
    let error = loader.start().unwrap().try_next().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("no sample came out") && said.contains("`<html>`"), "{said}");
}

#[tokio::test]
async fn samples_that_all_fail_later_are_not_read_for_ever() {
    let (manifest, store) = ragged_shards(&[2, 3]);
    let recipe =
        move |lane: &Lane| read(lane.shard_list().repeat(), &store).filter_samples(|_| false);
    let loader = Loader::builder(&manifest, recipe).with_epoch(5).on_error(OnError::skip());
    let error = loader.start().unwrap().try_next().await.unwrap_err();
    assert!(error.to_string().contains("no sample came out of a whole epoch"), "{error}");
}
