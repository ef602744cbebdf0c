//! A tar that is broken in the middle, read on behind the broken place.

use std::sync::Arc;

use shardstream::prelude::*;
use shardstream::shard::{DataSet, KeyIndex};
use shardstream::stages::KeyList;
use shardstream::testing::assert_resumes;

use super::support::{all, shown, tar, tars};

type Files<'a> = &'a [(&'a str, &'a str)];

/// Breaks the header of a member of a tar whose members have at most a block of data.
fn break_header(store: &Memory, path: &str, member: usize) {
    let mut archive = store.get(path).unwrap().to_vec();
    archive[1024 * member + 3] ^= 1;
    store.insert(path, archive);
}

async fn lines(manifest: &Manifest, store: &Memory) -> Vec<String> {
    let members = shard_list(manifest).open_twins(store.clone()).expand().resync(true);
    all(members.group_by_keys()).await.iter().map(shown).collect()
}

/// What comes of one tar whose member with this number has a broken header.
async fn broken(files: Files<'_>, member: usize) -> Vec<String> {
    let (manifest, store) = tars(&[files, &[("z.txt", "9")]]);
    break_header(&store, "0.tar", member);
    let mut lines = lines(&manifest, &store).await;
    assert_eq!(lines.pop().unwrap(), "z: txt=9", "the next shard is whole");
    lines
}

const PAIRS: Files<'_> = &[
    ("a.cls", "1"),
    ("a.txt", "a"),
    ("b.cls", "2"),
    ("b.txt", "b"),
    ("c.cls", "3"),
    ("c.txt", "c"),
    ("d.cls", "4"),
    ("d.txt", "d"),
];

fn is_fault(line: &str, byte: usize) -> bool {
    line.contains(&format!("0.tar at byte {byte}: the header's checksum is wrong"))
}

#[tokio::test]
async fn exactly_the_broken_sample_is_lost() {
    // Its first member: the second stands behind the broken place and is left out.
    let out = broken(PAIRS, 2).await;
    assert_eq!([&out[0], &out[2], &out[3]], ["a: cls=1 txt=a", "c: cls=3 txt=c", "d: cls=4 txt=d"]);
    assert!(is_fault(&out[1], 2048) && out.len() == 4, "{out:?}");
    // Its second: the first is no sample alone, and what follows begins behind the broken place with a member missing.
    let out = broken(PAIRS, 3).await;
    assert_eq!([&out[0], &out[3]], ["a: cls=1 txt=a", "d: cls=4 txt=d"]);
    assert!(is_fault(&out[1], 3072) && out[1].starts_with("tar: sample b in"), "{out:?}");
    assert!(out[2].starts_with("group: sample c in 0.tar: it stands at a broken place"), "{out:?}");
    assert_eq!(out.len(), 4);
}

#[tokio::test]
async fn a_shard_that_begins_broken() {
    let out = broken(PAIRS, 0).await;
    // Nobody can say what a sample has before one was whole.
    assert!(is_fault(&out[0], 0), "{out:?}");
    assert!(out[1].starts_with("group: sample b in 0.tar"), "{out:?}");
    assert_eq!(out[2..], ["c: cls=3 txt=c", "d: cls=4 txt=d"]);
}

#[tokio::test]
async fn nothing_good_behind_it_gives_the_rest_up() {
    let out = broken(PAIRS, 7).await;
    assert_eq!(out[..3], ["a: cls=1 txt=a", "b: cls=2 txt=b", "c: cls=3 txt=c"]);
    assert!(is_fault(&out[3], 7168) && out.len() == 4, "{out:?}");
    // A member without an extended header is left out, and nothing is behind it.
    let out = broken(PAIRS, 6).await;
    assert!(is_fault(&out[3], 6144) && out.len() == 4, "{out:?}");
}

#[tokio::test]
async fn without_it_the_rest_is_given_up() {
    let (manifest, store) = tars(&[PAIRS]);
    break_header(&store, "0.tar", 2);
    let out = all(shard_list(&manifest).open_twins(store).expand().group_by_keys()).await;
    assert_eq!(out.iter().map(shown).next().unwrap(), "a: cls=1 txt=a");
    assert_eq!(out.len(), 2);
}

#[tokio::test]
async fn a_sample_torn_by_a_broken_place_is_lost_whole() {
    let files: Files<'_> = &[
        ("a.1", "1"),
        ("a.2", "2"),
        ("b.1", "1"),
        ("b.2", "2"),
        ("b.3", "lost"),
        ("b.4", "left out"),
        ("b.5", "5"),
        ("c.1", "1"),
        ("c.2", "2"),
    ];
    let out = broken(files, 4).await;
    assert_eq!([&out[0], &out[2]], ["a: 1=1 2=2", "c: 1=1 2=2"]);
    assert!(out[1].starts_with("tar: sample b in 0.tar at byte 4096"), "{out:?}");
}

/// Eight twins of one member each, each tar broken at another place.
async fn twins(counts: bool) -> (Manifest, Memory) {
    let store = Memory::new();
    let count = if counts { r#", "data_list_key_count": [8], "total_key_count": 8"# } else { "" };
    store.insert(
        "d/wdinfo.json",
        format!(
            r#"{{"data_list": ["0.tar"], "root": ".", "data_keys": ["image", "caption"]{count}}}"#
        ),
    );
    let names: Vec<_> = (0..8).map(|i| (format!("k{i}.jpg"), format!("k{i}.txt"))).collect();
    let image: Vec<_> = names.iter().map(|(name, _)| (name.as_str(), &name[..2])).collect();
    let caption: Vec<_> = names.iter().map(|(_, name)| (name.as_str(), &name[..2])).collect();
    store.insert("d/image/0.tar", tar(&image));
    store.insert("d/caption/0.tar", tar(&caption));
    break_header(&store, "d/caption/0.tar", 2);
    break_header(&store, "d/image/0.tar", 5);
    (DataSet::at("d").load(&store).await.unwrap(), store)
}

#[tokio::test]
async fn twins_are_never_paired_wrongly_and_lost_keys_are_named() {
    for counts in [false, true] {
        let (manifest, store) = twins(counts).await;
        let out = lines(&manifest, &store).await;
        let whole: Vec<_> = out.iter().filter(|line| line.contains(": image.jpg=")).collect();
        let want = [0, 1, 4, 7].map(|i| format!("k{i}: image.jpg=k{i} caption.txt=k{i}"));
        assert_eq!(whole, want.iter().collect::<Vec<_>>(), "{out:?}");
        for (key, tar) in [(2, "caption"), (3, "caption"), (5, "image"), (6, "image")] {
            let named = format!("twins: sample k{key} in d/{tar}/0.tar: not in every twin");
            assert!(out.iter().any(|line| line.starts_with(&named)), "{named}: {out:?}");
        }
        let faults = out.iter().filter(|line| line.contains("checksum")).count();
        // What was lost has a place in the order each; the counts agree.
        assert_eq!((faults, out.len()), (2, 10), "{out:?}");
    }
}

#[tokio::test]
async fn a_broken_place_among_keys_that_are_not_wanted_is_told() {
    let (manifest, store) = tars(&[PAIRS]);
    break_header(&store, "0.tar", 2);
    for (wanted, want) in [(&["a", "d"][..], &["d: cls=4 txt=d"][..]), (&["a"], &[])] {
        let index = KeyList::All(Arc::new(KeyIndex::of(wanted).unwrap()));
        let members = shard_list(&manifest).open_twins(store.clone()).expand();
        let samples = members.resync(true).keys(index).group_by_keys();
        let out: Vec<_> = all(samples).await.iter().map(shown).collect();
        assert_eq!(out[0], "a: cls=1 txt=a");
        assert!(is_fault(&out[1], 2048), "{out:?}");
        assert_eq!(out[2..], *want);
    }
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    let (manifest, store) = twins(true).await;
    let (pairs, more) = tars(&[PAIRS, PAIRS, PAIRS]);
    for (at, member) in [(0, 3), (1, 2), (2, 6)] {
        break_header(&more, &format!("{at}.tar"), member);
    }
    for (manifest, store, batches) in [(manifest, store, 8), (pairs, more, 16)] {
        let build = || {
            let store = store.clone();
            Loader::builder(&manifest, move |lane| {
                let shards = lane.shard_list().split_by_rank().split_by_worker();
                shards.open_twins(store.clone()).expand().resync(true).group_by_keys().shuffle(3)
            })
            .epochs(2)
            .on_error(OnError::skip())
        };
        let count = assert_resumes(build, |sample| (sample.key().clone(), sample.body.clone()));
        assert_eq!(count.await, batches);
    }
}

#[tokio::test]
async fn it_belongs_to_the_recipe() {
    let (manifest, store) = tars(&[PAIRS]);
    let loader = |resync| {
        let store = store.clone();
        Loader::builder(&manifest, move |lane| {
            let members = lane.shard_list().open_twins(store.clone()).expand();
            if resync { members.resync(true) } else { members }.group_by_keys()
        })
    };
    let checkpoint = loader(true).start().unwrap().checkpoint();
    assert!(loader(false).resume([checkpoint]).unwrap_err().is_checkpoint());
}
