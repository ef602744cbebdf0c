//! `shardstream index`: what it writes leads to every sample.

use std::path::Path;
use std::process::{Command, Output};

use bytes::Bytes;
use shardstream::shard::SampleIndex;

use super::archive::{file, long_name, pax, tar, walk};

fn index(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardstream")).arg("index").args(arguments).output().unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn every_sample_is_found_by_its_range() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let long = [b'n'; 150];
    let images = tar(&[
        &file(b"a.jpg", &[1; 700]),
        &file(b"a.seg.png", &[2; 512]),
        &pax(b'x', &[("path", b"b.jpg")]),
        &file(b"x", b"three"),
        &file(b"README", b"no data"),
        &long_name(&[&long[..], b".jpg"].concat()),
        &file(b"nnn", b"four"),
    ]);
    let captions = tar(&[&file(b"b.txt", b"B"), &file(b"a.txt", b"A")]);
    write(&root.join("image/part_0/0.tar"), &images);
    write(&root.join("caption/part_0/0.tar"), &captions);
    let root_text = root.to_str().unwrap();
    let output = index(&["--root", root_text, "--modalities", "image,caption", "part_0/0.tar"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 of 1 shard indexed, 3 samples\n");

    let again = ["--root", root_text, "--modalities", "image,caption", "part_0/0.tar"];
    assert!(index(&[&again[..], &["--quiet"]].concat()).stdout.is_empty());
    let json = index(&[&again[..], &["--json"]].concat()).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let bytes = images.len() + captions.len();
    let want = serde_json::json!({ "shards": 1, "indexed": 1, "samples": 3, "bytes": bytes });
    assert_eq!(json, want);

    let written = std::fs::read(root.join("index/part_0/0.parquet")).unwrap();
    let index = SampleIndex::decode(written.into(), "0.parquet").unwrap();
    let names = |sample: usize, twin: usize, bytes: &[u8]| {
        let range = index.places(sample).unwrap()[twin]?;
        let piece = Bytes::copy_from_slice(&bytes[range.start as usize..range.end? as usize]);
        Some(walk([piece]).names())
    };
    let found: Vec<_> = (0..index.keys().len())
        .map(|sample| (names(sample, 0, &images), names(sample, 1, &captions)))
        .collect();
    let list = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    let long = String::from_utf8(long.to_vec()).unwrap() + ".jpg";
    assert_eq!(
        found,
        [
            (list(&["a.jpg", "a.seg.png"]), list(&["a.txt"])),
            // What has no key lies behind the sample and not in it.
            (list(&["b.jpg"]), list(&["b.txt"])),
            (list(&[&long]), None),
        ]
    );
}

#[test]
fn broken_shards_are_named_and_the_others_written() {
    let folder = tempfile::tempdir().unwrap();
    let good = tar(&[&file(b"a.jpg", b"1")]);
    let path = |name: &str| folder.path().join(name);
    write(&path("0.tar"), &good[..512]);
    write(&path("1.tar"), b"\x1f\x8b\x08\0\0\0\0\0\0\0\0");
    write(
        &path("2.tar"),
        &tar(&[&file(b"a.jpg", b"1"), &file(b"b.jpg", b"2"), &file(b"a.txt", b"3")]),
    );
    write(&path("3.tar"), &tar(&[&pax(b'g', &[("path", b"all.txt")]), &file(b"a.jpg", b"1")]));
    write(&path("4.tar"), &good);
    let target = path("out");
    let pattern = format!("{}/{{0..5}}.tar", folder.path().to_str().unwrap());
    let output = index(&["--output", target.to_str().unwrap(), &pattern]);
    assert!(!output.status.success());
    let complaints = String::from_utf8(output.stderr).unwrap();
    for expected in [
        "0.tar at byte 512: cut off",
        "1.tar: gzip data",
        "2.tar at byte 2048: the members of a sample are not next to each other",
        "3.tar: a global PAX header",
        "5.tar",
    ] {
        assert!(complaints.contains(expected), "{expected} is missing in {complaints}");
    }
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 of 6 shards indexed, 1 sample\n");
    let below = target.join(path("4.parquet").strip_prefix("/").unwrap());
    assert!(below.exists() && !below.with_file_name("0.parquet").exists());
}
