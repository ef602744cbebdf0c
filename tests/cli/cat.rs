//! `cat`: what was and what will be, and what it says when it can't.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use shardstream::testing::tar;

fn shardstream(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardstream")).args(args).output().unwrap()
}

/// Twin tars with counts.
fn data_set(folder: &Path, samples: &[usize]) {
    let mut list = Vec::new();
    for (shard, &samples) in samples.iter().enumerate() {
        for (modality, extension) in [("image", "bin"), ("caption", "txt")] {
            let files: Vec<_> = (0..samples)
                .map(|i| (format!("s{shard}_k{i:03}.{extension}"), format!("{shard} {i}")))
                .collect();
            let files: Vec<_> =
                files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
            std::fs::create_dir_all(folder.join(modality)).unwrap();
            std::fs::write(folder.join(modality).join(format!("{shard}.tar")), tar(&files))
                .unwrap();
        }
        list.push(format!("{shard}.tar"));
    }
    let wdinfo = serde_json::json!({
        "data_keys": ["caption", "image"], "data_list": list, "data_list_key_count": samples,
        "root": folder, "total_key_count": samples.iter().sum::<usize>(),
    });
    std::fs::write(folder.join("wdinfo.json"), wdinfo.to_string()).unwrap();
}

type Batches = BTreeMap<(u64, u64), Vec<String>>;

fn batches(output: &Output) -> Batches {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut batches = Batches::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let place = (line["lane"].as_u64().unwrap(), line["lane_batch"].as_u64().unwrap());
        batches.entry(place).or_default().push(line["key"].as_str().unwrap().to_owned());
    }
    batches
}

#[test]
fn any_batch_of_any_lane_without_what_comes_before() {
    let folder = tempfile::tempdir().unwrap();
    data_set(folder.path(), &[40, 25, 0, 61, 33, 18, 52, 7, 44]);
    let data = folder.path().to_str().unwrap();
    for shuffle in [&[][..], &["--shuffle", "12"], &["--shuffle", "12", "--no-shuffle-shards"]] {
        let common = ["cat", "--seed", "5", "--epoch", "2", "--lanes", "3", "--batch", "4"];
        let common: Vec<&str> = common.iter().chain(shuffle).copied().collect();
        let whole = batches(&shardstream(&[&common[..], &["--", data]].concat()));
        assert!(whole.len() > 60, "{}", whole.len());
        for (&(lane, batch), keys) in whole.iter().filter(|((_, batch), _)| batch % 5 == 0) {
            let (lane_text, batch_text) = (lane.to_string(), batch.to_string());
            let there = ["--lane", &lane_text, "--lane-batch", &batch_text, "--", data];
            let came = batches(&shardstream(&[&common[..], &there].concat()));
            assert_eq!(came, Batches::from([((lane, batch), keys.clone())]), "{shuffle:?}");
        }
    }
}

#[test]
fn what_can_not_be_read_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no-such-folder").to_str().unwrap().to_owned();
    for (args, says) in [
        (vec!["cat", "--", &missing], "no-such-folder"),
        (vec!["cat", "--", folder.path().to_str().unwrap()], folder.path().to_str().unwrap()),
        (vec!["cat", "--rank", "3", "--world-size", "2", "--", "x.tar"], "rank 3"),
        (vec!["cat", "--batch", "0", "--", "x.tar"], "batch"),
        (vec!["certify", &missing], "no-such-folder"),
    ] {
        let output = shardstream(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}");
        assert!(
            said.contains(says)
                && said.trim_end().lines().count() == 1
                && !said.contains("panicked"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn a_certificate_names_what_was_skipped_and_what_is_open() {
    let folder = tempfile::tempdir().unwrap();
    data_set(folder.path(), &[6, 5, 4]);
    let (data, part) = (folder.path().to_str().unwrap(), folder.path().join("part.json"));
    let part = part.to_str().unwrap();
    let certify = || {
        let output = shardstream(&["certify", part, "--data", data]);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(
        shardstream(&["cat", "--batch", "2", "--batches", "3", "--checkpoint", part, "--", data])
            .status
            .success()
    );
    let (complete, said) = certify();
    assert!(!complete && said.contains("NOT covered") && said.contains("have not ended"), "{said}");
    assert!(
        shardstream(&["cat", "--batch", "2", "--resume", part, "--checkpoint", part, "--", data])
            .status
            .success()
    );
    let (complete, said) = certify();
    assert!(
        complete && said.contains("15 samples delivered") && said.contains("exactly the positions"),
        "{said}"
    );
    // A caption is lost: its sample is skipped, and said to be.
    let files = [
        ("s1_k000.txt", &b"x"[..]),
        ("s1_k002.txt", b"x"),
        ("s1_k003.txt", b"x"),
        ("s1_k004.txt", b"x"),
    ];
    std::fs::write(folder.path().join("caption/1.tar"), tar(&files)).unwrap();
    assert!(
        shardstream(&["cat", "--on-error", "skip", "--checkpoint", part, "--", data])
            .status
            .success()
    );
    let (complete, said) = certify();
    assert!(
        complete && said.contains("14 samples delivered") && said.contains("s1_k001"),
        "{said}"
    );
}

fn keys(output: &Output) -> Vec<String> {
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let key = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].as_str().unwrap().to_owned()
    };
    lines.lines().map(key).collect()
}

#[test]
fn a_broken_shard_is_read_on_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let shard = folder.path().join("0.tar");
    let names: Vec<_> = (0..6).map(|i| format!("k{i}.txt")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let mut broken = tar(&files).to_vec();
    broken[1024 * 2] ^= 1;
    std::fs::write(&shard, broken).unwrap();
    let cat = |options: &[&str]| {
        shardstream(&[&["cat"], options, &["--", shard.to_str().unwrap()]].concat())
    };
    let output = cat(&["--on-error", "skip"]);
    assert_eq!((keys(&output), output.status.code()), (vec!["k0".into(), "k1".into()], Some(0)));
    // The member right behind the broken place is left out: nobody can say that its name is right.
    let output = cat(&["--on-error", "skip", "--resync"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(keys(&output), ["k0", "k1", "k4", "k5"], "{said}");
    assert_eq!(said.matches("0.tar at byte 2048: the header's checksum is wrong").count(), 1);
    assert!(said.contains("member k3.txt in") && said.contains("1 faults were skipped"), "{said}");
    assert!(output.status.success());
    // To stop is to stop.
    let output = cat(&["--resync"]);
    assert_eq!((keys(&output).len(), output.status.code()), (2, Some(1)));
}

#[test]
fn keys_as_pid_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let shard = folder.path().join("0.tar");
    let files: [(&str, &[u8]); 4] =
        [("x.v1.0.txt", b"1"), ("x.v1.1.txt", b"2"), ("a.b.txt", b"3"), ("a-b.txt", b"4")];
    std::fs::write(&shard, tar(&files)).unwrap();
    let shard = shard.to_str().unwrap();
    assert_eq!(keys(&shardstream(&["cat", "--", shard])), ["x", "a", "a-b"]);
    let output = shardstream(&["cat", "--key-rule", "pid", "--", shard]);
    assert_eq!(keys(&output), ["x-v1-0", "x-v1-1", "a-b"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sample a-b in") && said.contains("an earlier sample's a.b"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn data_sets_of_a_catalog_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        data_set(&folder.path().join(name), &[2]);
    }
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let catalog = serde_json::json!({
        "sources": {"a": {"paths": [at("a")]}, "b": {"paths": [at("b")]}},
        "sets": {"all": ["b", "a"]},
    });
    std::fs::write(folder.path().join("c.json"), catalog.to_string()).unwrap();
    let catalog = at("c.json");
    for (name, samples) in [("a", 2), ("all", 4)] {
        let output = shardstream(&["cat", "--catalog", &catalog, "--", name]);
        assert_eq!(keys(&output).len(), samples, "{}", String::from_utf8_lossy(&output.stderr));
        let plan = shardstream(&["plan", "--json", "--catalog", &catalog, "--", name]);
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
        assert_eq!(plan["samples"], samples);
    }
    let output = shardstream(&["cat", "--catalog", &catalog, "--", "c"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no source or set is called c, there are: a b all"), "{said}");
    assert!(!output.status.success());
}

#[test]
fn pids_variables_say_where_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    data_set(folder.path(), &[4, 4, 4, 4]);
    let data = folder.path().to_str().unwrap();
    let run = |args: &[&str], start: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
        command.args(args).args(["--legacy-start", "--", data]);
        command.env_remove("WDS_EPOCH_NUM").env_remove("WDS_START_INDEX");
        start.map(|start| command.env("WDS_START_INDEX", start));
        command.output().unwrap()
    };
    // Nine samples are two shards and one sample, which comes again.
    let output = run(&["cat"], Some("9"));
    assert_eq!(keys(&output).first().map(String::as_str), Some("s2_k000"));
    assert_eq!(keys(&output).len(), 8);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sees about 1 samples again"), "{said}");
    let plan: serde_json::Value =
        serde_json::from_slice(&run(&["plan", "--json"], Some("9")).stdout).unwrap();
    let want = serde_json::json!({"shards_of_lane": 2, "repeated_samples": 1});
    assert_eq!(plan["legacy_start"], want);
    let output = run(&["cat"], None);
    assert!(String::from_utf8_lossy(&output.stderr).contains("WDS_START_INDEX is set"));
    assert!(!output.status.success());
}
