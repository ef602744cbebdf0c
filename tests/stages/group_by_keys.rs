use std::sync::Arc;

use futures::stream::FusedStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use shardstream::error::Scope;
use shardstream::prelude::*;
use shardstream::sample::key::KeyRule;
use shardstream::stages::{Entry, Member};
use shardstream::testing::{self, assert_resumes, ragged_shards};
use tokio_test::{assert_pending, assert_ready, task};

use super::support::{all, by_hand, grouped, ordinal, shown, tars};

async fn lines(files: &[&[(&str, &str)]]) -> Vec<String> {
    let (manifest, store) = tars(files);
    all(grouped(&manifest, &store)).await.iter().map(shown).collect()
}

#[tokio::test]
async fn consecutive_members_of_a_key() {
    let out = lines(&[&[("a.TXT", "1"), ("a.Seg.png", "2"), ("d/b.txt", "3"), ("d/a.txt", "4")]]);
    assert_eq!(out.await, ["a: txt=1 seg.png=2", "d/b: txt=3", "d/a: txt=4"]);
}

#[tokio::test]
async fn a_shards_border_ends_a_sample() {
    let (manifest, store) = tars(&[&[("a.txt", "1"), ("b.txt", "2")], &[], &[("b.cls", "3")]]);
    let out = all(grouped(&manifest, &store)).await;
    assert_eq!(out.iter().map(shown).collect::<Vec<_>>(), ["a: txt=1", "b: txt=2", "b: cls=3"]);
    let heads: Vec<_> = out.iter().map(|item| &item.as_ref().unwrap().head).collect();
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1, 2]);
    let places = heads.iter().map(|h| (h.origin.place, h.mark.index, h.mark.last));
    assert_eq!(places.collect::<Vec<_>>(), [(0, 0, false), (0, 1, true), (2, 0, true)]);
}

#[tokio::test]
async fn the_first_of_two_members_of_one_name_counts() {
    let out = lines(&[&[("a.txt", "1"), ("a.TXT", "2"), ("b.txt", "3")]]).await;
    let notice = "group: sample a member a.TXT in 0.tar at byte 1536: a member of this name was there already: the first one counts";
    assert_eq!(out, [notice, "a: txt=1", "b: txt=3"]);
}

#[tokio::test]
async fn a_key_that_comes_back_is_told() {
    for order in [["b", "c", "b"], ["c", "b", "c"]] {
        let names = order.map(|key| format!("{key}.txt"));
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let out = lines(&[&files]).await;
        assert!(
            out[2].starts_with(&format!("group: sample {} in 0.tar: the key comes back", order[0]))
        );
        assert_eq!(out.len(), 4, "{out:?}");
    }
    // In another shard it is another sample.
    assert_eq!(lines(&[&[("a.txt", "1")], &[("a.txt", "2")]]).await, ["a: txt=1", "a: txt=2"]);
}

#[tokio::test]
async fn shards_with_fewer_or_more_samples_than_counted() {
    let (_, store) = testing::ragged_shards(&[2, 3, 5]);
    let manifest = Manifest::of_pattern("{000000..000002}.tar", Some(3)).unwrap();
    let out = all(grouped(&manifest, &store)).await;
    let keys: Vec<_> =
        out.iter().filter_map(|item| Some(item.as_ref().ok()?.key().to_string())).collect();
    assert_eq!(keys, ["s0_k0", "s0_k1", "s1_k0", "s1_k1", "s1_k2", "s2_k0", "s2_k1", "s2_k2"]);
    let errors: Vec<_> = out.iter().filter_map(|item| item.as_ref().err()).collect();
    assert_eq!(
        errors[0].to_string(),
        "group: 000000.tar: the manifest counts 3 samples, the shard ends after 2"
    );
    assert_eq!((errors[0].scope(), errors[0].position().unwrap().ordinal), (Scope::Shard, 2));
    assert!(errors[1].to_string().ends_with("counts 3 samples in the shard, and this is one more"));
    assert_eq!((errors[1].key(), errors[2].key(), errors.len()), (Some("s2_k3"), Some("s2_k4"), 3));
    // The counts fix where each shard begins, whatever it holds.
    let first = out.iter().find(|item| shown(item).starts_with("s1_k0")).unwrap();
    assert_eq!(ordinal(first), 3);
}

#[test]
fn a_sample_comes_out_when_the_next_key_or_the_end_is_there() {
    let (manifest, _) = tars(&[&[]]);
    let mut shards = shard_list(&manifest);
    let shard = Arc::new(futures::executor::block_on(shards.try_next()).unwrap().unwrap());
    let member = |name: &'static str| {
        Ok(Entry::Member(Member {
            shard: Arc::clone(&shard),
            modality: None,
            name: name.into(),
            key: 1,
            rule: KeyRule::WebDataset,
            data: "x".into(),
            offset: 0,
            behind_gap: false,
        }))
    };
    let (feed, stream) = by_hand();
    let mut grouped = task::spawn(stream.group_by_keys());
    assert_pending!(grouped.poll_next());
    feed.send(member("a.txt")).unwrap();
    assert!(grouped.is_woken());
    assert_pending!(grouped.poll_next());
    feed.send(member("b.txt")).unwrap();
    assert_eq!(shown(&assert_ready!(grouped.poll_next()).unwrap()), "a: txt=x");
    assert_pending!(grouped.poll_next());
    // An error of what comes before passes, and the sample goes on.
    feed.send(Err(Error::store("gone"))).unwrap();
    assert_eq!(shown(&assert_ready!(grouped.poll_next()).unwrap()), "read: gone");
    feed.send(member("b.cls")).unwrap();
    feed.send(Ok(Entry::End(Arc::clone(&shard)))).unwrap();
    assert_eq!(shown(&assert_ready!(grouped.poll_next()).unwrap()), "b: txt=x cls=x");
    assert_eq!(grouped.size_hint(), (0, None));
    // Cut inside a shard by somebody's adapter: what is whole comes out.
    feed.send(member("c.txt")).unwrap();
    drop(feed);
    assert_eq!(shown(&assert_ready!(grouped.poll_next()).unwrap()), "c: txt=x");
    assert!(assert_ready!(grouped.poll_next()).is_none());
    assert!(assert_ready!(grouped.poll_next()).is_none());
    assert!(grouped.is_terminated());
    assert_eq!(grouped.size_hint(), (0, Some(0)));
}

#[tokio::test]
async fn foreign_adapters_may_stand_around_it() {
    let (manifest, store) = ragged_shards(&[3, 2]);
    let entries = shard_list(&manifest).open_twins(store).expand();
    let chunks = entries.group_by_keys().chunks(2).map(|chunk| chunk.len());
    assert_eq!(chunks.collect::<Vec<_>>().await, [2, 2, 1]);
    let nothing = stream::empty::<Result<Entry>>().group_by_keys();
    assert_eq!(nothing.count().await, 0);
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    let (manifest, store) = ragged_shards(&[4, 0, 6, 1]);
    let build = || {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).expand().group_by_keys()
        })
        .epochs(2)
    };
    assert_eq!(assert_resumes(build, |sample| sample.body.clone()).await, 22);
}
