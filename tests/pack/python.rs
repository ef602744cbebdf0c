//! Python's webdataset reads our shards, we read its, and tarfile makes the same bytes. Runs where `SHARDSTREAM_PYTHON` names a Python that
//! has webdataset.

#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};
use shardstream::pack::{ShardLimit, pack};
use tempfile::tempdir;

use crate::support::{flat, shardstream, stderr, tree, write, write_photos};

type Samples = BTreeMap<String, BTreeMap<String, String>>;

/// The lines that the script prints; `None`, loudly, if there is no Python to ask.
fn python(what: &str, folder: &Path) -> Option<Vec<Value>> {
    let Some(python) = std::env::var_os("SHARDSTREAM_PYTHON") else {
        eprintln!("SKIPPED: SHARDSTREAM_PYTHON does not name a Python that has webdataset");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/webdataset_check.py");
    let output = Command::new(python).arg(script).arg(what).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn samples(lines: &[Value], sum: impl Fn(&Value) -> String) -> Samples {
    let mut samples = Samples::new();
    for line in lines {
        let fields = line["fields"].as_object().unwrap().iter();
        let fields = fields.map(|(name, value)| (name.clone(), sum(value))).collect();
        assert!(samples.insert(line["key"].as_str().unwrap().to_owned(), fields).is_none());
    }
    samples
}

/// What our own loader reads.
fn cat(args: &[&str]) -> Samples {
    let output = shardstream(&[&["cat"], args].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    samples(&lines, |field| field["sha256"].as_str().unwrap().to_owned())
}

/// A set with odd names, and what is in it.
async fn packed(folder: &Path) -> Samples {
    let (input, output) = (folder.join("in"), folder.join("out"));
    write_photos(&input);
    for (i, name) in
        ["with space", "é\u{1F600}", &"long".repeat(50), "plus+", "__x"].iter().enumerate()
    {
        write(
            &input,
            &[
                (&format!("image/{name}.jpg"), &vec![i as u8; 511 + i]),
                (&format!("caption/{name}.json"), b"{}"),
            ],
        );
    }
    write(&input, &[("image/empty.jpg", b""), ("caption/empty.json", b"{}")]);
    let report = pack(flat(&input, &output).limit(ShardLimit::samples(5))).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.findings);
    let mut samples = Samples::new();
    for modality in ["image", "caption"] {
        for (path, contents) in tree(&input.join(modality)) {
            let key = format!("ds__{}", path.file_stem().unwrap().to_str().unwrap());
            let field = format!("{modality}.{}", path.extension().unwrap().to_str().unwrap());
            let sum = Sha256::digest(&contents).iter().map(|b| format!("{b:02x}")).collect();
            samples.entry(key).or_default().insert(field, sum);
        }
    }
    samples
}

#[tokio::test]
async fn our_loader_reads_what_was_packed() {
    let folder = tempdir().unwrap();
    let want = packed(folder.path()).await;
    assert_eq!(want.len(), 23);
    let output = folder.path().join("out");
    let output = output.to_str().unwrap();
    assert_eq!(cat(&["--root", output, output]), want);
    assert_eq!(cat(&["--root", output, output, "--shuffle", "5", "--seed", "3"]), want);
}

#[tokio::test]
async fn python_reads_ours() {
    let folder = tempdir().unwrap();
    let want = packed(folder.path()).await;
    for modality in ["image", "caption"] {
        let Some(lines) = python("read", &folder.path().join("out").join(modality)) else { return };
        let got = samples(&lines, |sum| sum.as_str().unwrap().to_owned());
        let prefix = format!("{modality}.");
        let want: Samples = want
            .iter()
            .map(|(key, fields)| {
                let here = fields.iter().filter_map(|(name, sum)| {
                    Some((name.strip_prefix(&prefix)?.to_owned(), sum.clone()))
                });
                (key.clone(), here.collect())
            })
            .collect();
        assert_eq!(got, want);
    }
}

#[tokio::test]
async fn python_makes_the_same_bytes() {
    let folder = tempdir().unwrap();
    packed(folder.path()).await;
    let Some(lines) = python("same", &folder.path().join("out")) else { return };
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().all(|line| line["same"] == true), "{lines:?}");
}

#[test]
fn we_read_what_python_writes() {
    let folder = tempdir().unwrap();
    let root = folder.path().join("set");
    let Some(lines) = python("write", &root) else { return };
    let want = samples(&lines, |sum| sum.as_str().unwrap().to_owned());
    assert_eq!(want.len(), 18);
    let root = root.to_str().unwrap();
    assert_eq!(
        cat(&["--root", root, "--modalities", "image,caption", "{000000..000002}.tar"]),
        want
    );
    // And pack it anew, which a second look finds sound.
    let again = folder.path().join("again");
    let again = again.to_str().unwrap();
    let done = shardstream(&[
        "pack",
        "--input-shards",
        root,
        "--output-dir",
        again,
        "--no-classify-aspect-ratio",
        "--shard-size",
        "4",
    ]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(cat(&[again]), want);
    assert!(shardstream(&["verify", again]).status.success());
}
