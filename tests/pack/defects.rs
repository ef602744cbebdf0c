//! The defects of PiD's packer (pid-loader.md, 12.3), each by name: ours has none of them. That one machine had to do all of it is
//! `round_trip::parts_are_the_whole`.

use std::fs;

use shardstream::pack::{Existing, PackOptions, Reason, ShardLimit, pack};
use tempfile::tempdir;

use crate::support::{flat, shardstream, stderr, tree, verified, write, write_samples};

/// Two runs without shuffling gave different orders; there was no seed. (See also `order_depends_on_the_seed_alone`.)
#[tokio::test]
async fn not_reproducible() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_samples(&input, 30);
    let mut trees = Vec::new();
    for name in ["a", "b"] {
        let output = folder.path().join(name);
        let mut options = flat(&input, &output).limit(ShardLimit::samples(9));
        options.shuffle = false;
        pack(options).await.unwrap();
        trees.push(tree(&output));
    }
    assert_eq!(trees[0], trees[1]);
}

/// A second run into the same folder listed old shards beside the new ones.
#[tokio::test]
async fn stale_output_in_the_manifest() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 17);
    pack(flat(&input, &output).limit(ShardLimit::samples(4))).await.unwrap();
    fs::write(output.join("notes.md"), "mine").unwrap();
    let larger = |existing| flat(&input, &output).limit(ShardLimit::samples(9)).existing(existing);
    let error = pack(larger(Existing::Refuse)).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("is not empty"), "{error}");
    let error = pack(larger(Existing::Resume)).await.unwrap_err();
    assert!(error.to_string().contains("can't resume"), "{error}");
    let error = pack(larger(Existing::Clean)).await.unwrap_err();
    assert!(error.to_string().contains("notes.md is no part of a data set"), "{error}");
    let report = pack(larger(Existing::Overwrite)).await.unwrap();
    assert_eq!((report.shards, report.samples), (2, 17));
    let checked = verified(&output).await;
    assert_eq!((checked.shards, checked.samples, checked.faults.len()), (2, 17, 0));
    assert!(output.join("notes.md").exists());
    fs::remove_file(output.join("notes.md")).unwrap();
    pack(larger(Existing::Clean).limit(ShardLimit::samples(100))).await.unwrap();
    assert_eq!(verified(&output).await.shards, 1);
}

/// A crash left a half-written tar under its final name. (See also the tests in `crash`.)
#[tokio::test]
async fn tars_written_in_place() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 4);
    // The folder of the second shard can't be made: the run ends in the middle.
    write(&output, &[("caption/part_000001", b"a file")]);
    let mut options =
        flat(&input, &output).limit(ShardLimit::samples(1)).existing(Existing::Overwrite);
    options.part_size = 1;
    options.num_workers = 1;
    options.allow_singletons = true;
    let error = pack(options).await.unwrap_err();
    assert!(error.to_string().contains("can't write"), "{error}");
    let left: Vec<String> =
        tree(&output).into_keys().map(|p| p.to_string_lossy().into_owned()).collect();
    assert!(
        !left.iter().any(|name| name.ends_with(".tmp") || name.ends_with("wdinfo.json")),
        "{left:?}"
    );
    let tars = left.iter().filter(|name| name.ends_with(".tar"));
    assert_eq!(
        tars.collect::<Vec<_>>(),
        ["caption/part_000000/000000.tar", "image/part_000000/000000.tar"]
    );
}

/// A corrupt tar was counted as ten samples, a cut one of another modality not noticed, twins were not compared.
#[tokio::test]
async fn counts_from_one_modality() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 12);
    pack(flat(&input, &output).limit(ShardLimit::samples(6))).await.unwrap();
    let tar = output.join("image/part_000000/000001.tar");
    let whole = fs::read(&tar).unwrap();
    fs::write(&tar, &whole[..whole.len() / 2]).unwrap();
    let checked = verified(&output).await;
    assert!(!checked.is_sound());
    assert_eq!(checked.samples, 6, "the broken shard has no count");
    assert!(
        checked.faults.iter().all(|fault| fault.place == "part_000000/000001.tar"),
        "{:?}",
        checked.faults
    );
}

/// When nothing was common to the first folders, the next one began anew: keys that were in one folder only were packed.
#[tokio::test]
async fn intersection_that_begins_anew() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write(&input, &[("video/1.mp4", b"x"), ("image/2.jpg", b"x"), ("caption/3.json", b"x")]);
    let error = pack(flat(&input, &output)).await.unwrap_err();
    assert!(error.to_string().contains("no sample"), "{error}");
    assert!(!output.join("wdinfo.json").exists());
}

/// Any stray folder with a tar became a modality, and could empty the manifest.
#[tokio::test]
async fn stray_folder_becomes_a_modality() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 6);
    pack(flat(&input, &output)).await.unwrap();
    let before = fs::read(output.join("wdinfo.json")).unwrap();
    write(&output, &[("latent/part_000000/000000.tar", &[0; 10_240])]);
    let checked = verified(&output).await;
    let details: Vec<_> = checked.faults.iter().map(|fault| fault.detail.as_str()).collect();
    assert_eq!(details, ["folder latent holds 1 tars and is no modality of wdinfo.json"]);
    pack(flat(&input, &output).existing(Existing::Overwrite)).await.unwrap();
    assert_eq!(fs::read(output.join("wdinfo.json")).unwrap(), before);
}

/// With videos and the default `image` as sizing modality all sizes were 0: one giant shard.
#[tokio::test]
async fn sizes_of_an_absent_modality() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for i in 0..6 {
        write(
            &input,
            &[(&format!("video/{i}.mp4"), &[0; 1000]), (&format!("caption/{i}.json"), b"{}")],
        );
    }
    let mut options = flat(&input, &output).limit(ShardLimit::bytes(2500));
    let report = pack(options.clone()).await.unwrap();
    assert_eq!(report.shards, 3);
    options.size_based_on = Some("image".to_owned());
    options.existing = Existing::Clean;
    let error = pack(options).await.unwrap_err();
    assert!(
        error.to_string().contains("can't go by image: the input has caption, video"),
        "{error}"
    );
}

/// Singletons were written and not listed: lost without a word.
#[tokio::test]
async fn singletons_are_lost() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 7);
    write(&input, &[("image/00003.jpg", &[1; 9000])]);
    // By count: the last one alone. By size: the large one alone.
    for limit in [ShardLimit::samples(3), ShardLimit::bytes(2000)] {
        let report =
            pack(flat(&input, &output).limit(limit).existing(Existing::Clean)).await.unwrap();
        assert!(report.is_complete(), "{:?}", report.findings);
        let checked = verified(&output).await;
        assert_eq!((checked.samples, checked.faults.len()), (7, 0));
        let wdinfo = fs::read_to_string(output.join("wdinfo.json")).unwrap();
        let wdinfo = shardstream::shard::wdinfo::Wdinfo::parse(wdinfo.as_bytes(), "").unwrap();
        assert!(wdinfo.data_list_key_count.unwrap().iter().all(|&n| n > 1));
    }
    // A sample that is all there is: listed, and reported.
    let mut options = flat(&input, &output).existing(Existing::Clean);
    options.limit_samples = Some(1);
    let report = pack(options.clone()).await.unwrap();
    assert_eq!((report.samples, report.findings[0].reason), (1, Reason::Singleton));
    assert_eq!(verified(&output).await.samples, 1);
    options.allow_singletons = true;
    assert!(pack(options).await.unwrap().is_complete());
}

/// Failures were counted twice, and total failure was a success to the shell.
#[test]
fn failures_and_the_exit_status() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write(&input, &[("image/a.jpg", b"no picture"), ("caption/a.json", b"{}")]);
    let (i, o) = (input.to_str().unwrap(), output.to_str().unwrap());
    let failed = shardstream(&["pack", "--input-dir", i, "--output-dir", o]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        stderr(&failed).contains(
            "no sample can be packed; the first of 1 findings: in__a: no width and height"
        ),
        "{}",
        stderr(&failed)
    );
    let failed = shardstream(&["pack", "--input-dir", o, "--output-dir", o]);
    assert_eq!(failed.status.code(), Some(1), "nothing to pack");
    let failed = shardstream(&["pack", "--input-dir", "/no/such", "--output-dir", o]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("/no/such"), "{}", stderr(&failed));
}

/// A whole shard of all modalities was held in memory by each process.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn whole_shards_in_memory() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for i in 0..3 {
        write(&input, &[(&format!("caption/{i}.json"), b"{}")]);
        fs::create_dir_all(input.join("image")).unwrap();
        let file = fs::File::create(input.join(format!("image/{i}.jpg"))).unwrap();
        file.set_len(100 << 20).unwrap();
    }
    let (i, o) = (input.to_str().unwrap(), output.to_str().unwrap());
    // 300 MiB in one shard with 150 MiB of address space would not do for a shard in memory.
    let script = r#"ulimit -v 400000; exec "$0" "$@""#;
    let binary = env!("CARGO_BIN_EXE_shardstream");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, binary, "pack", "--input-dir", i, "--output-dir", o]);
    command.args(["--no-classify-aspect-ratio", "--num-workers", "1", "--quiet"]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(fs::metadata(output.join("image/part_000000/000000.tar")).unwrap().len() > 300 << 20);
}

/// EXIF orientation was ignored; the class 21:9 went unread. (The reader takes every folder; see also `dimensions`.)
#[tokio::test]
async fn wide_pictures_have_a_folder_that_is_read() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    crate::support::write_photos(&input);
    let mut options = flat(&input, &output);
    options.classify_aspect_ratio = true;
    options.root = None;
    pack(options).await.unwrap();
    let store = shardstream::store::Local;
    let manifest =
        shardstream::shard::Manifest::load(&store, output.to_str().unwrap()).await.unwrap();
    assert!(
        (0..manifest.len()).any(|shard| manifest.leaf(shard).root().ends_with("aspect_ratio_21_9"))
    );
    assert_eq!(manifest.total_samples(), Some(17));
}

/// Writes these videos, with a caption each; options to pack them by aspect ratio.
fn videos(input: &std::path::Path, output: &std::path::Path, names: &[&str]) -> PackOptions {
    let videos = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/videos");
    for name in names {
        let stem = name.split('.').next().unwrap();
        write(input, &[(&format!("caption/{stem}.json"), b"{}")]);
        write(input, &[(&format!("video/{name}"), &fs::read(videos.join(name)).unwrap())]);
    }
    let mut options = flat(input, output);
    options.classify_aspect_ratio = true;
    options.allow_singletons = true;
    options
}

/// Every video was declared 1280x720 and 11 seconds long.
#[tokio::test]
async fn every_video_is_the_same() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let options = videos(&input, &output, &["plain.mp4", "tall.mov", "square.webm", "pieces.mp4"]);
    let report = pack(options).await.unwrap();
    let buckets: Vec<_> = report.buckets.keys().map(String::as_str).collect();
    let want = [
        "aspect_ratio_16_9/duration_0_5",
        "aspect_ratio_1_1/duration_0_5",
        "aspect_ratio_9_16/duration_5_10",
    ];
    assert_eq!(buckets, want);
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!((finding.reason, finding.key.as_str()), (Reason::Unreadable, "ds__pieces"));
    assert_eq!(verified(&output).await.samples, 3);
}

/// Edges of duration bins lost their fractions: two bins had one folder, `duration_0_0` and `duration_0_2`.
#[tokio::test]
async fn duration_bins_with_fractions_collapse() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let mut options = videos(&input, &output, &["plain.mp4", "tall.mov", "square.webm"]);
    options.duration_bins = "0,0.25,0.5,2.5,7".parse().unwrap();
    let report = pack(options).await.unwrap();
    let bins: std::collections::BTreeSet<_> =
        report.buckets.keys().map(|bucket| bucket.split('/').nth(1).unwrap()).collect();
    let want = ["duration_0.5_2.5", "duration_2.5_7"];
    assert_eq!(bins.into_iter().collect::<Vec<_>>(), want);
    assert_eq!(verified(&output).await.samples, 3);
}
