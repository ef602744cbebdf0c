//! Folders to pack, and a second opinion on what was packed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use futures::StreamExt;
use shardstream::pack::{PackOptions, VerifyOptions, VerifyReport};
use tokio::io::AsyncReadExt;

/// Writes files below a folder.
pub(crate) fn write(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, contents) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

/// `n` small samples of pictures (not looked into) and captions.
pub(crate) fn write_samples(folder: &Path, n: usize) {
    for modality in ["image", "caption"] {
        fs::create_dir_all(folder.join(modality)).unwrap();
    }
    for i in 0..n {
        fs::write(folder.join(format!("image/{i:05}.jpg")), vec![i as u8; 500 + i % 700]).unwrap();
        let caption = format!(r#"{{"prompt": "picture {i}"}}"#);
        fs::write(folder.join(format!("caption/{i:05}.json")), caption).unwrap();
    }
}

/// The photographs of the repository as input of the packer.
pub(crate) fn write_photos(folder: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (from, to) in [("photos", "image"), ("captions", "caption")] {
        fs::create_dir_all(folder.join(to)).unwrap();
        for entry in fs::read_dir(data.join(from)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(to).join(entry.file_name())).unwrap();
        }
    }
}

/// Options for a flat set whose manifest does not depend on where it lies.
pub(crate) fn flat(input: &Path, output: &Path) -> PackOptions {
    let mut options = PackOptions::new(input, output).flat();
    options.root = Some("/data".to_owned());
    options.dataset_name = Some("ds".to_owned());
    options
}

/// All files below a folder, by path.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}

/// Fails, with the names, unless two trees are the same.
pub(crate) fn assert_same(a: &BTreeMap<PathBuf, Vec<u8>>, b: &BTreeMap<PathBuf, Vec<u8>>) {
    let names = |tree: &BTreeMap<PathBuf, Vec<u8>>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, contents) in a {
        assert!(*contents == b[name], "{} differs", name.display());
    }
}

/// Names and contents of a tar, as the crate astral-tokio-tar reads them.
pub(crate) async fn members(tar: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut archive = tokio_tar::Archive::new(tar);
    let mut entries = archive.entries().unwrap();
    let mut members = Vec::new();
    while let Some(entry) = entries.next().await {
        let mut entry = entry.unwrap();
        let name = entry.path_bytes().unwrap().into_owned();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).await.unwrap();
        members.push((name, contents));
    }
    members
}

/// All members of one modality over all its shards, without what the keys begin with.
pub(crate) async fn packed(
    output: &Path,
    modality: &str,
    prefix: &str,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    for (path, contents) in tree(output) {
        let here = path.parent().unwrap().parent().unwrap_or(Path::new(""));
        if here.ends_with(modality) && path.extension().is_some_and(|e| e == "tar") {
            for (name, contents) in members(&contents).await {
                let name = name.strip_prefix(prefix.as_bytes()).unwrap().to_vec();
                assert!(all.insert(name, contents).is_none(), "a member comes twice");
            }
        }
    }
    all
}

/// What is wrong with a data set.
pub(crate) async fn verified(output: &Path) -> VerifyReport {
    shardstream::pack::verify(VerifyOptions::new(output), std::sync::Arc::default()).await.unwrap()
}

/// Runs the command line.
pub(crate) fn shardstream(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardstream")).args(args).output().unwrap()
}

/// Standard error of a run.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
