//! Every byte of a small twin set, flipped or cut, one at a time: never a wrong pair, never a half sample, never a panic, and with skipping
//! never a loss beyond the shard.

use futures::StreamExt;
use shardstream::prelude::*;
use shardstream::testing::tar;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Two twin shards of two samples each; what is said in a member names its key.
async fn twins(store: &Memory) -> Manifest {
    for shard in 0..2 {
        let of = |extension: &str| -> Vec<(String, String)> {
            let keys = &KEYS[2 * shard..2 * shard + 2];
            keys.iter()
                .map(|key| (format!("{key}.{extension}"), format!("{key} {extension}")))
                .collect()
        };
        for (modality, extension) in [("image", "bin"), ("caption", "txt")] {
            let files = of(extension);
            let files: Vec<_> =
                files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
            store.insert(format!("data/{modality}/{shard}.tar"), tar(&files));
        }
    }
    store.insert(
        "data/wdinfo.json",
        r#"{"data_keys": ["caption", "image"], "data_list": ["0.tar", "1.tar"], "data_list_key_count": [2, 2], "root": "data", "total_key_count": 4}"#,
    );
    Manifest::load(store, "data").await.unwrap()
}

/// Keys that come out, after looking at each pair. Contents may differ from what was written only where the damage was done.
async fn read(
    manifest: &Manifest,
    store: &Memory,
    on_error: OnError,
    resync: bool,
) -> (Vec<String>, bool) {
    let store = store.clone();
    let recipe = move |lane: &Lane| {
        lane.shard_list().open_twins(store.clone()).expand().resync(resync).group_by_keys()
    };
    let mut loader = Loader::builder(manifest, recipe).on_error(on_error).start().unwrap();
    let mut keys = Vec::new();
    let mut failed = false;
    while let Some(sample) = loader.next().await {
        let Ok(sample) = sample else {
            failed = true;
            break;
        };
        let names: Vec<_> = sample.body.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names.len(), 2, "half a sample: {names:?}");
        let word = |name: &str| {
            sample
                .body
                .iter()
                .find(|(n, _)| n.starts_with(name))
                .map(|(_, bytes)| bytes.first().copied())
        };
        let (image, caption) = (word("image.").flatten(), word("caption.").flatten());
        // The first letter of a member is its key; one of them may be the flipped byte, never both.
        let key = sample.head.key.as_bytes().first().copied();
        assert!(image == key || caption == key, "a wrong pair: {key:?} {image:?} {caption:?}");
        keys.push(sample.head.key.to_string());
    }
    (keys, failed)
}

#[tokio::test]
async fn every_byte_flipped_or_cut() {
    let store = Memory::new();
    let manifest = twins(&store).await;
    assert_eq!(
        read(&manifest, &store, OnError::Stop, false).await,
        (KEYS.map(String::from).to_vec(), false)
    );
    for modality in ["image", "caption"] {
        let path = format!("data/{modality}/0.tar");
        let whole = store.get(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.to_vec();
            flipped[at] ^= 0x41;
            for damaged in [bytes::Bytes::from(flipped), whole.slice(..at)] {
                store.insert(path.clone(), damaged);
                read(&manifest, &store, OnError::Stop, false).await;
                let mut without = Vec::new();
                for resync in [false, true] {
                    let (keys, _) = read(&manifest, &store, OnError::skip(), resync).await;
                    let other: Vec<_> =
                        keys.iter().filter(|key| ["c", "d"].contains(&key.as_str())).collect();
                    assert_eq!(other, ["c", "d"], "byte {at} of {path}: a loss beyond the shard");
                    let mut once = keys.clone();
                    once.dedup();
                    assert_eq!(once, keys, "byte {at} of {path}: twice");
                    assert!(without.iter().all(|key| keys.contains(key)), "byte {at} of {path}");
                    without = keys;
                }
            }
        }
        store.insert(path, whole);
    }
}
