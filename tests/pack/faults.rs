//! `verify` finds everything that is wrong, in one pass, and `--fix-manifest` mends what can be mended.

use std::fs;
use std::path::Path;
use std::process::Command;

use shardstream::pack::{FaultKind, ShardLimit, VerifyOptions, VerifyReport, pack, verify};
use shardstream::store::{StoreOptions, Stores};
use tempfile::{TempDir, tempdir};

use crate::support::{flat, shardstream, stderr, verified, write, write_samples};

/// A sound set of five shards of four samples.
async fn sound() -> (TempDir, std::path::PathBuf) {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 20);
    let mut options = flat(&input, &output).limit(ShardLimit::samples(4));
    options.shuffle = false;
    pack(options).await.unwrap();
    (folder, output)
}

fn found(report: &VerifyReport) -> Vec<(&str, FaultKind)> {
    report.faults.iter().map(|fault| (fault.place.as_str(), fault.kind)).collect()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    shardstream::testing::tar(files).to_vec()
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[tokio::test]
async fn all_faults_in_one_pass() {
    let (_folder, output) = sound().await;
    let shard = |modality: &str, n: u32| output.join(format!("{modality}/part_000000/{n:06}.tar"));
    // 0: a twin is missing. 1: cut off. 2: keys differ. 3: another order. 4: bytes changed, same size.
    fs::remove_file(shard("image", 0)).unwrap();
    let bytes = fs::read(shard("image", 1)).unwrap();
    fs::write(shard("image", 1), &bytes[..2000]).unwrap();
    let json: &[u8] = b"{}";
    let names = ["ds__00008.json", "ds__00009.json", "ds__0000x.json"];
    fs::write(shard("caption", 2), tar(&names.map(|name| (name, json)))).unwrap();
    let names = ["ds__00013.json", "ds__00012.json", "ds__00014.json", "ds__00015.json"];
    fs::write(shard("caption", 3), tar(&names.map(|name| (name, json)))).unwrap();
    let mut bytes = fs::read(shard("image", 4)).unwrap();
    bytes[600] ^= 1;
    fs::write(shard("image", 4), &bytes).unwrap();
    // 5: not listed.
    fs::write(shard("image", 5), tar(&[("a.jpg", b"1"), ("a.jpg", b"1"), ("noext", b"1")]))
        .unwrap();
    fs::write(shard("caption", 5), tar(&[("a.json", b"1")])).unwrap();

    let report = verified(&output).await;
    let name = |n: u32| format!("part_000000/{n:06}.tar");
    let names: Vec<String> = (0..6).map(name).collect();
    let want = [
        (&names[0], FaultKind::Missing),
        (&names[1], FaultKind::Tar),
        (&names[2], FaultKind::Count),
        (&names[2], FaultKind::Keys),
        (&names[2], FaultKind::Keys),
        (&names[2], FaultKind::Keys),
        (&names[2], FaultKind::ListedBytes),
        (&names[2], FaultKind::ListedChecksum),
        (&names[3], FaultKind::Keys),
        (&names[3], FaultKind::Keys),
        (&names[3], FaultKind::ListedBytes),
        (&names[3], FaultKind::ListedChecksum),
        (&names[4], FaultKind::Changed),
        (&names[5], FaultKind::Unlisted),
        (&names[5], FaultKind::Keys),
        (&names[5], FaultKind::Member),
    ];
    assert_eq!(
        found(&report),
        want.map(|(place, kind)| (place.as_str(), kind)),
        "{:#?}",
        report.faults
    );
    let details: Vec<&str> = report.faults.iter().map(|fault| fault.detail.as_str()).collect();
    assert!(details.contains(&"caption has 3 samples, image has 4"));
    assert!(details.contains(&"key ds__0000x is in caption and not in image"));
    assert!(details.contains(&"sample 0 is ds__00013 in caption and ds__00012 in image"));
    assert_eq!(report.samples, 5, "of the last two shards");
}

#[tokio::test]
async fn every_field_of_the_manifest_is_compared() {
    for (from, to, kind) in [
        (
            "\"data_list_key_count\": [\n    4",
            "\"data_list_key_count\": [\n    3",
            FaultKind::Manifest,
        ),
        (
            "\"data_list\": [\n    \"part_000000/000000.tar\",",
            "\"data_list\": [\n    \"part_000000/000009.tar\",",
            FaultKind::Unlisted,
        ),
        ("\"caption\": [\n      10240,", "\"caption\": [\n      10752,", FaultKind::ListedBytes),
        ("\"data_list\"", "\"data_lost\"", FaultKind::Manifest),
    ] {
        let (_folder, output) = sound().await;
        let manifest = output.join("wdinfo.json");
        let before = fs::read(&manifest).unwrap();
        replace(&manifest, from, to);
        let report = verified(&output).await;
        assert!(report.faults.iter().any(|fault| fault.kind == kind), "{to}: {:?}", report.faults);
        let mut options = VerifyOptions::new(&output);
        options.fix_manifest = true;
        let report = verify(options, std::sync::Arc::default()).await.unwrap();
        assert!(report.is_sound() && report.fixed.len() == 1, "{to}: {:?}", report.faults);
        if to != "\"data_lost\"" && kind != FaultKind::Manifest {
            assert_eq!(fs::read(&manifest).unwrap(), before, "{to}: not as it was");
        }
        assert!(verified(&output).await.faults.is_empty(), "{to}");
    }
    // Counts that agree with each other and not with the shards.
    let (_folder, output) = sound().await;
    replace(
        &output.join("wdinfo.json"),
        "\"data_list_key_count\": [\n    4,\n    4",
        "\"data_list_key_count\": [\n    3,\n    5",
    );
    let counted = [
        ("part_000000/000000.tar", FaultKind::ListedCount),
        ("part_000000/000001.tar", FaultKind::ListedCount),
    ];
    assert_eq!(found(&verified(&output).await), counted);
}

#[tokio::test]
async fn fixing_leaves_broken_shards_out() {
    let (_folder, output) = sound().await;
    let broken = output.join("image/part_000000/000002.tar");
    fs::write(&broken, b"<html>not found</html>").unwrap();
    replace(&output.join("wdinfo.json"), "000004.tar", "000007.tar");
    let path = output.to_str().unwrap();
    let fixed = shardstream(&["verify", path, "--fix-manifest"]);
    assert_eq!(fixed.status.code(), Some(1), "the broken shard is still there");
    assert!(stderr(&fixed).contains("(fixed)"), "{}", stderr(&fixed));
    let text = fs::read_to_string(output.join("wdinfo.json")).unwrap();
    assert!(
        !text.contains("000002.tar")
            && text.contains("000004.tar")
            && text.contains("\"total_key_count\": 16"),
        "{text}"
    );
}

#[tokio::test]
async fn fixing_never_takes_over_the_checksum_of_changed_bytes() {
    let (_folder, output) = sound().await;
    let changed = output.join("image/part_000000/000002.tar");
    let mut bytes = fs::read(&changed).unwrap();
    bytes[600] ^= 1;
    fs::write(&changed, bytes).unwrap();
    let path = output.to_str().unwrap();
    let before = fs::read(output.join("wdinfo.json")).unwrap();
    let alone = shardstream(&["verify", path, "--fix-manifest"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(stderr(&alone).contains("bytes of the tar have changed"), "{}", stderr(&alone));
    assert_eq!(fs::read(output.join("wdinfo.json")).unwrap(), before, "nothing of it is wrong");
    // With something to mend, the shard is left out as other broken ones are.
    replace(&output.join("wdinfo.json"), "000004.tar", "000007.tar");
    let fixed = shardstream(&["verify", path, "--fix-manifest"]);
    assert_eq!(fixed.status.code(), Some(1));
    let text = fs::read_to_string(output.join("wdinfo.json")).unwrap();
    assert!(text.contains("000004.tar") && !text.contains("000002.tar"), "{text}");
}

#[tokio::test]
async fn fields_are_decoded_on_request() {
    let (_folder, output) = sound().await;
    assert!(verified(&output).await.is_sound());
    let mut options = VerifyOptions::new(&output);
    options.decode = true;
    let report = verify(options, std::sync::Arc::default()).await.unwrap();
    // The pictures are none; the captions are what they seem.
    assert_eq!(report.faults.len(), 20);
    let first = &report.faults[0];
    assert_eq!((first.place.as_str(), first.kind), ("part_000000/000000.tar", FaultKind::Decode));
    assert!(
        first.detail.contains("ds__00000.jpg") && first.detail.contains("at byte 512"),
        "{}",
        first.detail
    );
}

#[tokio::test]
async fn sets_without_manifests_and_of_one_modality() {
    let folder = tempdir().unwrap();
    let several = tar(&[("a.jpg", b"1"), ("a.txt", b"1"), ("b.jpg", b"1"), ("b.txt", b"1")]);
    let scattered = tar(&[("a.jpg", b"1"), ("b.jpg", b"1"), ("a.txt", b"1")]);
    write(folder.path(), &[("set/all/0.tar", &several), ("set/all/1.tar", &scattered)]);
    let report = verified(folder.path()).await;
    assert_eq!(found(&report), [("set", FaultKind::Manifest), ("set/1.tar", FaultKind::Keys)]);
    let empty = tempdir().unwrap();
    let error =
        verify(VerifyOptions::new(empty.path()), std::sync::Arc::default()).await.unwrap_err();
    assert!(error.to_string().contains("neither a wdinfo.json nor a tar"), "{error}");
}

#[tokio::test]
async fn a_single_tar() {
    let folder = tempdir().unwrap();
    let good = tar(&[("a.jpg", b"1"), ("a.txt", b"1"), ("b.jpg", b"1")]);
    let scattered = tar(&[("a.jpg", b"1"), ("b.jpg", b"1"), ("a.txt", b"1"), ("README", b"1")]);
    write(folder.path(), &[("0.tar", &good), ("1.tar", &scattered), ("2.tar", &good[..1100])]);
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |path: &str| {
        let done = shardstream(&["verify", path]);
        (done.status.success(), String::from_utf8(done.stdout.clone()).unwrap(), stderr(&done))
    };
    let (sound, said, _) = run(&of("0.tar"));
    assert!(sound && said.starts_with("1 shard, 2 samples, "), "{said}");
    let (sound, _, wrong) = run(&of("1.tar"));
    let want = ["README has no key", "key a comes again after other keys"];
    assert!(!sound && want.iter().all(|want| wrong.contains(want)), "{wrong}");
    assert!(wrong.lines().all(|line| line.contains(&(of("1.tar") + ": "))), "{wrong}");
    let (sound, _, wrong) = run(&of("2.tar"));
    assert!(!sound && wrong.contains("cut off"), "{wrong}");
    let (sound, _, wrong) = run(&of("3.tar"));
    assert!(!sound && wrong.contains("No such file"), "{wrong}");
    let mend = shardstream(&["verify", &of("0.tar"), "--fix-manifest"]);
    assert!(stderr(&mend).contains("a single tar has no wdinfo.json"), "{}", stderr(&mend));

    // By its name alone, and in a store.
    let here = Command::new(env!("CARGO_BIN_EXE_shardstream"))
        .args(["verify", "0.tar"])
        .current_dir(&folder)
        .output();
    assert!(here.unwrap().status.success());
    let stores = Stores::new(StoreOptions::default()).unwrap();
    stores.memory().insert("bucket/d/0.tar", good);
    let mut options = VerifyOptions::new("memory://bucket/d/0.tar");
    options.stores = Some(stores);
    let report = verify(options, std::sync::Arc::default()).await.unwrap();
    assert_eq!((report.samples, report.faults), (2, Vec::new()));
}

#[tokio::test]
async fn twins_are_compared_by_the_key_rule_of_pid() {
    let folder = tempdir().unwrap();
    let images = tar(&[(".hidden.jpg", b"1"), ("x.v1.0.jpg", b"1"), ("dir/.jpg", b"1")]);
    let texts = tar(&[(".hidden.json", b"1"), ("x.v1.0.json", b"1")]);
    write(folder.path(), &[("image/0.tar", &images), ("text/0.tar", &texts)]);
    let report = verified(folder.path()).await;
    let faults: Vec<_> =
        report.faults.iter().map(|fault| (fault.kind, fault.detail.as_str())).collect();
    let no_key = "image: dir/.jpg has no key: readers pass over it";
    let no_manifest = "there is no wdinfo.json";
    assert_eq!(faults, [(FaultKind::Manifest, no_manifest), (FaultKind::Member, no_key)]);
    assert_eq!(report.samples, 2);
}
