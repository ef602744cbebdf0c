use std::collections::BTreeSet;

use futures::stream::FusedStream;
use futures::{Stream, StreamExt};
use shardstream::error::Scope;
use shardstream::prelude::*;
use shardstream::shard::DataSet;
use shardstream::stages::{Entry, LookAhead};

use super::support::{all, tar, tars};

type Files<'a> = &'a [(&'a str, &'a str)];

async fn twins(image: Files<'_>, caption: Files<'_>) -> (Manifest, Memory) {
    let store = Memory::new();
    let wdinfo = r#"{"data_list": ["0.tar"], "root": ".", "data_keys": ["image", "caption"]}"#;
    store.insert("d/wdinfo.json", wdinfo);
    store.insert("d/image/0.tar", tar(image));
    store.insert("d/caption/0.tar", tar(caption));
    (DataSet::at("d").load(&store).await.unwrap(), store)
}

fn shown(entry: Result<Entry>) -> String {
    match entry.unwrap() {
        Entry::Member(member) => {
            let modality = member.modality.as_deref().unwrap_or("-");
            format!("{modality} {}", String::from_utf8_lossy(&member.name))
        }
        Entry::Lost(shard, error) => {
            assert_eq!(shard.path, "0.tar");
            format!("lost {}", error.key().unwrap())
        }
        Entry::Gap(_, error) => format!("gap at {}", error.offset().unwrap()),
        Entry::End(_) => "end".to_owned(),
    }
}

async fn expanded(image: Files<'_>, caption: Files<'_>) -> Vec<String> {
    let (manifest, store) = twins(image, caption).await;
    all(shard_list(&manifest).open_twins(store).expand().map(shown)).await
}

#[tokio::test]
async fn all_of_a_key_from_one_modality_then_from_the_next() {
    let image = [("a.jpg", "1"), ("a.mask.png", "2"), ("b.jpg", "3")];
    let caption = [("a.json", "4"), ("b.json", "5")];
    assert_eq!(
        expanded(&image, &caption).await,
        [
            "image a.jpg",
            "image a.mask.png",
            "caption a.json",
            "image b.jpg",
            "caption b.json",
            "end"
        ]
    );
}

#[tokio::test]
async fn what_is_no_data_is_passed_over() {
    let image = [("README", ""), ("a.jpg", "1"), ("._a.jpg", ""), ("__MACOSX/x.jpg", "")];
    assert_eq!(
        expanded(&image, &[("a.json", "2")]).await,
        ["image a.jpg", "caption a.json", "end"]
    );
}

#[tokio::test]
async fn a_key_that_is_missing_or_extra_is_lost_and_the_others_come() {
    let keys = ["a", "b", "c", "d"];
    let names = |extension: &str, without: usize| {
        let keys = keys.iter().enumerate().filter(move |(at, _)| *at != without);
        keys.map(|(_, key)| format!("{key}.{extension}")).collect::<Vec<_>>()
    };
    for missing in 0..keys.len() {
        for side in 0..2 {
            let image = names("jpg", if side == 0 { missing } else { 9 });
            let caption = names("json", if side == 1 { missing } else { 9 });
            let files =
                |names: &'_ [String]| names.iter().map(|n| (n.clone(), "x")).collect::<Vec<_>>();
            let (image, caption) = (files(&image), files(&caption));
            let image: Vec<_> = image.iter().map(|(n, x)| (n.as_str(), *x)).collect();
            let caption: Vec<_> = caption.iter().map(|(n, x)| (n.as_str(), *x)).collect();
            let mut want = Vec::new();
            for (at, key) in keys.iter().enumerate() {
                if at == missing {
                    want.push(format!("lost {key}"));
                } else {
                    want.extend([format!("image {key}.jpg"), format!("caption {key}.json")]);
                }
            }
            want.push("end".to_owned());
            assert_eq!(expanded(&image, &caption).await, want);
        }
    }
}

#[tokio::test]
async fn a_lost_key_says_where_it_is_missing() {
    let (manifest, store) = twins(&[("a.jpg", "1"), ("b.jpg", "2")], &[("b.json", "3")]).await;
    let out = all(shard_list(&manifest).open_twins(store).expand()).await;
    let Ok(Entry::Lost(_, error)) = &out[0] else { panic!("{out:?}") };
    assert_eq!((error.key(), error.shard()), (Some("a"), Some("d/caption/0.tar")));
    assert!(error.to_string().starts_with("twins: sample a in d/caption/0.tar: "), "{error}");
    assert!(error.concerns_one_sample());
}

#[tokio::test]
async fn what_is_out_of_order_is_never_paired_wrongly() {
    let image = [("a.jpg", "a"), ("b.jpg", "b"), ("c.jpg", "c"), ("d.jpg", "d")];
    for order in [[1, 0, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2], [3, 2, 1, 0], [0, 1, 3, 2]] {
        let caption = ["a", "b", "c", "d"].map(|key| format!("{key}.json"));
        let caption: Vec<_> = order.iter().map(|&at| (caption[at].as_str(), "x")).collect();
        let out = expanded(&image, &caption).await;
        let mut seen = BTreeSet::new();
        for (at, line) in out.iter().enumerate() {
            if let Some(key) =
                line.strip_prefix("image ").and_then(|name| name.strip_suffix(".jpg"))
            {
                assert_eq!(out[at + 1], format!("caption {key}.json"));
                seen.insert(key);
            }
            if let Some(key) = line.strip_prefix("lost ") {
                seen.insert(key);
            }
        }
        assert_eq!(seen.len(), 4, "each key comes or is named: {out:?}");
    }
}

#[tokio::test]
async fn the_look_ahead_is_bounded() {
    let names: Vec<_> =
        (0..20).map(|i| (format!("a{i:02}.jpg"), format!("b{i:02}.json"))).collect();
    let image: Vec<_> = names.iter().map(|(name, _)| (name.as_str(), "x")).collect();
    let caption: Vec<_> = names.iter().map(|(_, name)| (name.as_str(), "x")).collect();
    let (manifest, store) = twins(&image, &caption).await;
    let look_ahead = LookAhead { members: 5, ..LookAhead::default() };
    let out = all(shard_list(&manifest).open_twins(store).expand().look_ahead(look_ahead)).await;
    let Ok(Entry::Lost(_, error)) = &out[0] else { panic!("{out:?}") };
    assert_eq!((error.scope(), out.len()), (Scope::Shard, 1));
    assert!(error.message().contains("a00") && error.message().contains("b00"), "{error}");
}

#[tokio::test]
async fn a_tar_that_is_cut_off_gives_what_is_whole() {
    let (manifest, store) = tars(&[&[("a.txt", "1"), ("b.txt", "2")], &[("c.txt", "3")]]);
    let whole = store.get("0.tar").unwrap();
    store.insert("0.tar", whole.slice(..1536));
    let mut out = all(shard_list(&manifest).open_twins(store).expand()).await.into_iter();
    assert_eq!(shown(out.next().unwrap()), "- a.txt");
    let Some(Ok(Entry::Lost(_, error))) = out.next() else { panic!() };
    assert_eq!((error.shard(), error.scope()), (Some("0.tar"), Scope::Shard));
    assert_eq!(error.member(), Some("b.txt"));
    assert_eq!(out.map(shown).collect::<Vec<_>>(), ["- c.txt", "end"]);
}

#[tokio::test]
async fn sizes_and_the_end() {
    let (manifest, store) = tars(&[&[("a.txt", "1")]]);
    let mut entries = Box::pin(shard_list(&manifest).open_twins(store).expand());
    assert_eq!(entries.size_hint(), (0, None));
    assert_eq!(entries.by_ref().count().await, 2);
    assert!(entries.is_terminated() && entries.next().await.is_none());
    assert_eq!(entries.size_hint(), (0, Some(0)));
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
    })
    .await;
}
