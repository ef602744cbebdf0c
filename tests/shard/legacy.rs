//! A run that begins where PiD would go on.

use futures::TryStreamExt;
use shardstream::prelude::*;
use shardstream::shard::{DataSet, LegacyStart};
use shardstream::testing;

/// Six shards of four samples, with counts.
async fn data() -> (Manifest, Memory) {
    let (_, store) = testing::shards(6, 4);
    let list: Vec<String> = (0..6).map(|shard| format!("{shard:06}.tar")).collect();
    let wdinfo = serde_json::json!({"data_list": list, "data_list_key_count": vec![4; 6]});
    store.insert("wdinfo.json", wdinfo.to_string());
    for shard in 0..6 {
        store.insert(format!("txt/{shard:06}.tar"), store.get(&format!("{shard:06}.tar")).unwrap());
    }
    let manifest = DataSet::at("wdinfo.json").modalities(["txt"]).load(&store).await.unwrap();
    (manifest, store)
}

/// What is read by one rank with two workers.
async fn read(start_index: u64, epochs: u64) -> Result<Vec<String>> {
    let (manifest, store) = data().await;
    let recipe = move |lane: &Lane| {
        let order = Order::Pid { world_size: 1, num_workers: 2, shuffle: false };
        let shards = lane.shard_list().order(order).split_by_rank().split_by_worker();
        shards.open_twins(store.clone()).expand().group_by_keys().batch(1)
    };
    let start = LegacyStart::from_vars(|name| match name {
        "WDS_START_INDEX" => Some(start_index.to_string()),
        _ => Some("0".to_owned()),
    });
    let builder = Loader::builder(&manifest, recipe).workers(2).epochs(epochs);
    let loader = builder.legacy_start(start?.unwrap()).start()?;
    loader.map_ok(|batch| batch.heads[0].key.to_string()).try_collect().await
}

#[tokio::test]
async fn whole_shards_are_left_out() {
    let all = read(0, 1).await.unwrap();
    assert_eq!(all.len(), 24);
    assert_eq!(all[..4], ["s0_k0", "s1_k0", "s0_k1", "s1_k1"]);
    // Case G07: 10 samples seen, 8 left out, 2 seen again.
    let rest = read(10, 1).await.unwrap();
    assert_eq!(rest, all[8..]);
    assert_eq!(read(16, 1).await.unwrap(), all[16..]);
    // The next epoch is whole again.
    assert_eq!(read(16, 2).await.unwrap(), [&all[16..], &all[..]].concat());
    let error = read(24, 1).await.unwrap_err().to_string();
    assert!(
        error.starts_with("config: WDS_START_INDEX=24: nothing is left of the epoch"),
        "{error}"
    );
}

#[tokio::test]
async fn a_checkpoint_goes_on_from_there() {
    let (manifest, store) = data().await;
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        shards.open_twins(store.clone()).expand().group_by_keys().shuffle(5).batch(3)
    };
    let start = LegacyStart::from_vars(|name| (name == "WDS_START_INDEX").then(|| "9".to_owned()))
        .unwrap()
        .unwrap();
    let begin = || Loader::builder(&manifest, recipe.clone()).workers(2).legacy_start(start);
    let keys = |batch: Batch<Vec<Fields<bytes::Bytes>>>| {
        batch.heads.iter().map(|h| h.key.to_string()).collect::<Vec<_>>()
    };
    let whole: Vec<_> = begin().start().unwrap().map_ok(keys).try_collect().await.unwrap();
    assert_eq!(whole.iter().map(Vec::len).sum::<usize>(), 16);
    for cut in 0..whole.len() {
        let mut loader = begin().start().unwrap();
        for _ in 0..cut {
            loader.try_next().await.unwrap();
        }
        let resumed = Loader::builder(&manifest, recipe.clone())
            .workers(2)
            .resume([loader.checkpoint()])
            .unwrap();
        let rest: Vec<_> = resumed.map_ok(keys).try_collect().await.unwrap();
        assert_eq!(rest, whole[cut..], "cut at {cut}");
    }
}
