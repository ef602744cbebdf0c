//! `shardstream plan`, run as a program.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Whether it succeeded, stdout, stderr.
fn plan(folder: &Path, args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
    let output = command.current_dir(folder).arg("plan").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn report(folder: &Path, args: &[&str]) -> Value {
    let (ok, out, err) = plan(folder, &[&["--json"], args].concat());
    assert!(ok, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// Five shards of four samples.
fn data_set() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let list: Vec<String> = (0..5).map(|shard| format!("{shard}.tar")).collect();
    let wdinfo = json!({"data_list": list, "data_list_key_count": vec![4; 5]});
    std::fs::write(folder.path().join("wdinfo.json"), wdinfo.to_string()).unwrap();
    folder
}

#[test]
fn json_says_who_reads_what() {
    let folder = data_set();
    let ranks = ["--world-size", "2", "--workers", "2", "--batch-size", "3", "."];
    let found = report(folder.path(), &[&["--no-shuffle-shards"][..], &ranks].concat());
    let worker = |rank, worker, lane, shards: [&str; 2], repeats: &[u32]| json!({"rank": rank, "worker": worker, "lanes": [lane], "samples": 8, "shards": shards, "repeats": repeats});
    let want = json!([
        worker(0, 0, 0, ["0.tar", "4.tar"], &[]),
        worker(0, 1, 2, ["2.tar", "1.tar"], &[1]),
        worker(1, 0, 1, ["1.tar", "0.tar"], &[1]),
        worker(1, 1, 3, ["3.tar", "2.tar"], &[1]),
    ]);
    assert_eq!(found["workers"], want);
    let rank = |rank, repeats| json!({"rank": rank, "shards": 4, "repeats": repeats, "samples": 16, "steps": 6});
    assert_eq!(found["ranks"], json!([rank(0, 1), rank(1, 2)]));
    assert_eq!(
        (&found["steps"], &found["repeated"], &found["samples"]),
        (&json!(6), &json!(3), &json!(20))
    );
    // Another epoch, another order; the same question, the same answer.
    let epoch = |number| report(folder.path(), &[&["--epoch", number][..], &ranks].concat());
    assert_eq!(epoch("1"), epoch("1"));
    assert_ne!(epoch("1")["workers"], epoch("2")["workers"]);
    let dropped =
        report(folder.path(), &[&["--no-shuffle-shards", "--tail", "drop"][..], &ranks].concat());
    assert_eq!((&dropped["dropped"], &dropped["repeated"]), (&json!(["4.tar"]), &json!(0)));
    // Two processes share a model: one group.
    let group = report(folder.path(), &[&["--tensor-parallel", "2"][..], &ranks].concat());
    assert_eq!(group["ranks"].as_array().map(Vec::len), Some(1));
    let one = report(folder.path(), &[&["--order", "pid", "--rank", "1"][..], &ranks].concat());
    assert_eq!(one["workers"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_table_says_the_same() {
    let folder = data_set();
    let (ok, out, _) = plan(folder.path(), &["--world-size", "2", "--batch-size", "3", "."]);
    assert!(ok);
    assert!(out.starts_with("epoch 0: 5 shards, 20 samples, 2 lanes, tail pad\n"), "{out}");
    assert!(
        out.contains("repeated: 1 shards") && out.ends_with("steps: 4 for every rank\n"),
        "{out}"
    );
}

#[test]
fn refusals_are_one_line_on_stderr() {
    let folder = data_set();
    for (args, want) in [
        (&["--world-size", "3", "--tail", "uneven", "."][..], "ranks get 1 to 2 shards"),
        (&["--world-size", "2", "a.tar", "b.tar"], "the manifest does not count the samples"),
        (
            &["--world-size", "9", "--tail", "drop", "."],
            "5 shards for 9 lanes and tail drop: nothing is left",
        ),
        (&["--world-size", "3", "--tensor-parallel", "2", "."], "no multiple of tensor 2"),
        (&["--rank", "2", "--world-size", "2", "."], "rank 2 of world size 2"),
        (&["--batch-size", "0", "."], "count from 1"),
        (&["nowhere"], "nowhere: there is no such file, folder or data set"),
        (&["*.zip"], "*.zip: matches nothing"),
    ] {
        let (ok, out, err) = plan(folder.path(), args);
        assert!(
            !ok && out.is_empty() && err.contains(want) && err.lines().count() == 1,
            "{args:?}: {err}"
        );
    }
    let (ok, ..) =
        plan(folder.path(), &["--world-size", "3", "--tail", "uneven", "--allow-uneven", "."]);
    assert!(ok);
}
