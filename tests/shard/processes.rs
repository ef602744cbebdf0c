//! Four processes that know of each other by their environment alone, as torchrun starts them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use shardstream::broadcast::Meeting;
use shardstream::prelude::*;
use shardstream::shard::DataSet;
use shardstream::testing;

const RANKS: u32 = 4;

/// Eight twins of six samples.
fn write_data(folder: &Path) {
    for modality in ["image", "caption"] {
        std::fs::create_dir_all(folder.join(modality)).unwrap();
        for shard in 0..8 {
            let ending = if modality == "image" { "jpg" } else { "json" };
            let names: Vec<String> = (0..6).map(|i| format!("s{shard}_k{i}.{ending}")).collect();
            let members: Vec<(&str, &[u8])> =
                names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
            std::fs::write(folder.join(format!("{modality}/{shard}.tar")), testing::tar(&members))
                .unwrap();
        }
    }
    let list: Vec<String> = (0..8).map(|shard| format!("{shard}.tar")).collect();
    let wdinfo = serde_json::json!({
        "data_keys": ["caption", "image"], "data_list": list, "data_list_key_count": vec![6; 8], "root": "/where/it/was/packed",
    });
    std::fs::write(folder.join("wdinfo.json"), wdinfo.to_string()).unwrap();
}

/// What each rank prints.
fn run(folder: &Path) -> Vec<(bool, Vec<String>)> {
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::one_of_four", "--ignored", "--nocapture"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
        command.env("SHARDSTREAM_TEST", folder);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let all: Vec<_> = (0..RANKS).map(start).collect();
    let outputs = all.into_iter().map(|child| child.wait_with_output().unwrap());
    outputs
        .map(|output| {
            let text = String::from_utf8(output.stdout).unwrap();
            (
                output.status.success(),
                text.lines()
                    .filter_map(|line| line.strip_prefix("> ").map(str::to_owned))
                    .collect(),
            )
        })
        .collect()
}

async fn read() -> Result<Vec<String>> {
    let folder = std::env::var("SHARDSTREAM_TEST").unwrap();
    let rank = Rank::from_env()?;
    let meeting = Meeting::new(Arc::new(Local), &format!("{folder}/meet"), "run", rank)?
        .deadline(Duration::from_secs(60));
    let manifest =
        Manifest::shared(&meeting, &Local, &[("data".to_owned(), DataSet::at(folder))]).await?;
    let recipe = |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        shards.open_twins(Local).expand().group_by_keys().shuffle(10).batch(4)
    };
    let loader = Loader::builder(&manifest, recipe).seed(3).rank(rank).workers(2).start()?;
    let batches = loader.map_ok(|batch| {
        let keys = batch.heads.iter().map(|head| head.key.as_str().unwrap_or_default().to_owned());
        keys.collect::<Vec<_>>().join(" ")
    });
    batches.try_collect().await
}

#[test]
#[ignore = "is one of the processes of the tests below"]
#[allow(clippy::print_stdout)]
fn one_of_four() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(read()) {
        Ok(batches) => batches.iter().for_each(|batch| println!("\n> {batch}")),
        Err(error) => {
            println!("\n> {error}");
            panic!("{error}");
        }
    }
}

#[test]
fn read_every_sample_once_in_equal_steps() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let all = run(folder.path());
    // Two lanes each, one shard of six samples in each lane, batches of four.
    assert!(all.iter().all(|(ok, batches)| *ok && batches.len() == 4), "{all:?}");
    let mut keys: Vec<&str> =
        all.iter().flat_map(|(_, batches)| batches).flat_map(|batch| batch.split(' ')).collect();
    keys.sort_unstable();
    let want: Vec<String> =
        (0..8).flat_map(|shard| (0..6).map(move |i| format!("s{shard}_k{i}"))).collect();
    assert_eq!(keys, want);
}

#[test]
fn end_with_the_same_error() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    std::fs::write(folder.path().join("wdinfo.json"), r#"{"data_list": 3}"#).unwrap();
    let all = run(folder.path());
    assert!(all.iter().all(|(ok, lines)| !ok && lines == &all[0].1), "{all:?}");
    assert!(
        all[0].1[0].contains("field data_list in") && all[0].1[0].contains("wdinfo.json"),
        "{all:?}"
    );
}
