//! Keys as the loader `PiD` makes them.

use shardstream::prelude::*;
use shardstream::sample::key::KeyRule;
use shardstream::shard::{DataSet, KeyIndex};
use shardstream::stages::KeyList;
use shardstream::testing::assert_resumes;

use super::support::{all, shown, tar, tars};

type Files<'a> = &'a [(&'a str, &'a str)];

async fn twins(image: Files<'_>, caption: Files<'_>) -> Vec<String> {
    let store = Memory::new();
    store.insert(
        "d/wdinfo.json",
        r#"{"data_list": ["0.tar"], "root": ".", "data_keys": ["Img/HD", "caption"]}"#,
    );
    store.insert("d/Img/HD/0.tar", tar(image));
    store.insert("d/caption/0.tar", tar(caption));
    let manifest = DataSet::at("d").load(&store).await.unwrap();
    let members = shard_list(&manifest).open_twins(store).expand().key_rule(KeyRule::Pid);
    all(members.group_by_keys()).await.iter().map(shown).collect()
}

#[tokio::test]
async fn renamed_as_pid_does() {
    let image = [("x.v1.0.JPG", "1"), ("x.v1.1.JPG", "2"), ("dir.v1/y.jpg", "3"), ("README", "")];
    let caption = [("x.v1.0.json", "4"), ("x.v1.1.json", "5"), ("dir.v1/y.json", "6")];
    assert_eq!(
        twins(&image, &caption).await,
        [
            "x-v1-0: img_hd.jpg=1 caption.json=4",
            "x-v1-1: img_hd.jpg=2 caption.json=5",
            "dir-v1/y: img_hd.jpg=3 caption.json=6"
        ]
    );
}

#[tokio::test]
async fn names_that_become_one_key_are_never_one_sample() {
    // In one tar, next to each other and apart: PiD makes one sample of the first two.
    for files in [
        [("a.b.jpg", "1"), ("a-b.png", "2"), ("c.jpg", "3")],
        [("a.b.jpg", "1"), ("c.jpg", "3"), ("a-b.png", "2")],
    ] {
        let (manifest, store) = tars(&[&files]);
        let members = shard_list(&manifest).open_twins(store).expand().key_rule(KeyRule::Pid);
        let mut out: Vec<_> = all(members.group_by_keys()).await.iter().map(shown).collect();
        let at = out.iter().position(|line| line.starts_with("group:")).unwrap();
        let fault = out.remove(at);
        assert_eq!(out, ["a-b: jpg=1", "c: jpg=3"]);
        assert!(fault.starts_with("group: sample a-b in 0.tar at byte "), "{fault}");
        assert!(fault.contains("named a-b and an earlier sample's a.b,"), "{fault}");
    }
    // Between twins: PiD pairs them.
    let out = twins(&[("a.b.jpg", "1"), ("c.jpg", "2")], &[("a-b.json", "3"), ("c.json", "4")]);
    let out = out.await;
    assert!(out[0].starts_with("twins: sample a.b in d/caption/0.tar"), "{out:?}");
    assert!(out[1].starts_with("twins: sample a-b in d/Img/HD/0.tar"), "{out:?}");
    assert_eq!(out[2..], ["c: img_hd.jpg=2 caption.json=4"]);
}

#[tokio::test]
async fn an_index_lists_renamed_keys() {
    let (manifest, store) = tars(&[&[("a.1.txt", "1"), ("a.2.txt", "2"), ("a.3.txt", "3")]]);
    let index = std::sync::Arc::new(KeyIndex::of(["a-3", "a-1"]).unwrap());
    for (keys, want) in [
        (KeyList::All(std::sync::Arc::clone(&index)), ["a-1: txt=1", "a-3: txt=3"]),
        (KeyList::Shard(index), ["a-3: txt=3", "a-1: txt=1"]),
    ] {
        let members = shard_list(&manifest).open_twins(store.clone()).expand().keys(keys);
        let out = all(members.key_rule(KeyRule::Pid).group_by_keys()).await;
        assert_eq!(out.iter().map(shown).collect::<Vec<_>>(), want);
    }
}

#[tokio::test]
async fn every_checkpoint_resumes_and_it_belongs_to_the_recipe() {
    let (manifest, store) =
        tars(&[&[("a.1.txt", "1"), ("a-1.txt", "2"), ("a.3.txt", "3")], &[("a.1.txt", "4")]]);
    let build = |rule| {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).expand().key_rule(rule).group_by_keys()
        })
        .epochs(2)
        .on_error(OnError::skip())
    };
    let keys = |sample: &Sample<Fields<bytes::Bytes>>| (sample.key().clone(), sample.body.clone());
    assert_eq!(assert_resumes(|| build(KeyRule::Pid), keys).await, 6);
    let checkpoint = build(KeyRule::Pid).start().unwrap().checkpoint();
    assert!(build(KeyRule::WebDataset).resume([checkpoint]).unwrap_err().is_checkpoint());
}

#[tokio::test]
async fn an_index_may_list_fewer_keys_than_the_manifest_counts() {
    let (_, store) = shardstream::testing::ragged_shards(&[3, 3]);
    let manifest = Manifest::of_pattern("{000000..000001}.tar", Some(3)).unwrap();
    let index = std::sync::Arc::new(KeyIndex::of(["s0_k1", "s1_k2"]).unwrap());
    let build = || {
        let (store, index) = (store.clone(), std::sync::Arc::clone(&index));
        Loader::builder(&manifest, move |lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            let members = shards.open_twins(store.clone()).expand();
            members.keys(KeyList::All(std::sync::Arc::clone(&index))).group_by_keys()
        })
        .epochs(2)
    };
    assert_eq!(assert_resumes(build, |sample| sample.key().clone()).await, 4);
}
