//! The rules of PiD's validator (pid-loader.md, 12.4), written down once more without our reader: they hold on what we pack.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use shardstream::pack::{ShardLimit, pack};
use tempfile::tempdir;

use crate::support::{flat, members, tree, write, write_photos};

/// The folders that are checked: all named after an aspect ratio (or a duration below one), else the data set itself.
fn leaves(files: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeSet<PathBuf> {
    let leaf = |path: &PathBuf| {
        let depth = path.components().take_while(|part| {
            let name = part.as_os_str().to_string_lossy();
            name.starts_with("aspect_ratio_") || name.starts_with("duration_")
        });
        depth.collect::<PathBuf>()
    };
    let tars = files.keys().filter(|path| path.extension().is_some_and(|e| e == "tar"));
    tars.map(leaf).collect()
}

/// What the validator would complain of: for each tar of the first modality, another one that has no such tar or other names in it.
async fn complaints(output: &Path) -> Vec<String> {
    let files = tree(output);
    let mut complaints = Vec::new();
    for leaf in leaves(&files) {
        let mut twins: BTreeMap<String, BTreeMap<PathBuf, Vec<Vec<u8>>>> = BTreeMap::new();
        for (path, contents) in &files {
            let Ok(below) = path.strip_prefix(&leaf) else { continue };
            if below.extension().is_none_or(|e| e != "tar") {
                continue;
            }
            let modality = below.iter().next().unwrap();
            let names = members(contents).await.into_iter().map(|(name, _)| {
                let dot = name.iter().rposition(|&b| b == b'.').unwrap();
                name[..dot].to_vec()
            });
            let shard = below.strip_prefix(modality).unwrap().to_owned();
            let modality = modality.to_string_lossy().into_owned();
            twins.entry(modality).or_default().insert(shard, names.collect());
        }
        assert!(twins.len() >= 2, "{} would be skipped: {:?}", leaf.display(), twins.keys());
        let (first, shards) = twins.first_key_value().unwrap();
        for (modality, others) in twins.iter().skip(1) {
            // Theirs looks from the first modality only, and so misses what only others have.
            for shard in shards.keys().chain(others.keys()).collect::<BTreeSet<_>>() {
                if shards.get(shard) != others.get(shard) {
                    complaints.push(format!("{first}, {modality}: {}", shard.display()));
                }
            }
        }
    }
    complaints
}

#[tokio::test]
async fn its_rules_hold_on_flat_and_bucketed_sets() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_photos(&input);
    for buckets in [false, true] {
        let output = folder.path().join(format!("buckets {buckets}"));
        let mut options = flat(&input, &output).limit(ShardLimit::samples(3));
        options.classify_aspect_ratio = buckets;
        options.allow_singletons = true;
        let report = pack(options).await.unwrap();
        assert_eq!(report.samples, 17);
        assert_eq!(leaves(&tree(&output)).len(), if buckets { 5 } else { 1 });
        assert_eq!(complaints(&output).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn names_with_dots_and_other_extensions_keep_the_order() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for (name, extension) in
        [("a", "jpg"), ("a.b", "PNG"), ("a-c", "webp"), ("é", "jpeg"), ("z", "jpg")]
    {
        write(
            &input,
            &[
                (&format!("image/{name}.{extension}"), b"x"),
                (&format!("caption/{name}.json"), b"{}"),
            ],
        );
    }
    pack(flat(&input, &output)).await.unwrap();
    assert_eq!(complaints(&output).await, Vec::<String>::new());
    // The rules can fail.
    let image = output.join("image/part_000000/000000.tar");
    fs::copy(&image, output.join("image/part_000000/000001.tar")).unwrap();
    let mut bytes = fs::read(&image).unwrap();
    let at = bytes.windows(6).position(|w| w == b"ds__z.").unwrap();
    bytes[at + 4] = b'y';
    // The sum in the header grows or falls with the name.
    let sum = u32::from_str_radix(std::str::from_utf8(&bytes[at + 148..at + 154]).unwrap(), 8)
        .unwrap()
        - 1;
    bytes[at + 148..at + 154].copy_from_slice(format!("{sum:06o}").as_bytes());
    fs::write(&image, bytes).unwrap();
    let want = ["000000.tar", "000001.tar"].map(|tar| format!("caption, image: part_000000/{tar}"));
    assert_eq!(complaints(&output).await, want);
}
