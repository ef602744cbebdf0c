//! Data sets in a store: the same bytes as in a folder, whatever happens on the way.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use shardstream::pack::{
    AddOptions, Existing, Fault, FaultKind, Input, PackControl, PackOptions, Part, ShardLimit,
    ShardParams, ShardWriter, VerifyOptions, add_modality, merge_in, pack, pack_with, verify,
};
use shardstream::store::{Store, StoreOptions, Stores};
use tempfile::tempdir;

use crate::support::{assert_same, flat, tree, write, write_samples};

const OUT: &str = "memory://bucket/out";

fn stores() -> Stores {
    Stores::new(StoreOptions::default()).unwrap()
}

/// The same as for a folder, but into the store.
fn into(stores: &Stores, input: &Path) -> PackOptions {
    let mut options = flat(input, Path::new(OUT)).limit(ShardLimit::samples(4));
    options.stores = Some(stores.clone());
    options
}

/// All objects, as files below a folder.
async fn objects(stores: &Stores) -> BTreeMap<PathBuf, Vec<u8>> {
    let listed = stores.list(OUT).await.unwrap().into_iter();
    let all = listed.map(|meta| {
        let bytes = stores.memory().get(meta.path.strip_prefix("memory://").unwrap()).unwrap();
        (PathBuf::from(&meta.path[OUT.len() + 1..]), bytes.to_vec())
    });
    all.collect()
}

#[tokio::test]
async fn a_store_gets_what_a_folder_gets() {
    let folder = tempdir().unwrap();
    let (input, disk) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 60);
    std::fs::remove_file(input.join("caption/00007.json")).unwrap();
    let want = pack(flat(&input, &disk).limit(ShardLimit::samples(4))).await.unwrap();
    let there = stores();
    assert_eq!(pack(into(&there, &input)).await.unwrap(), want);
    assert_same(&tree(&disk), &objects(&there).await);

    // There is a data set now.
    let error = pack(into(&there, &input)).await.unwrap_err();
    assert!(error.to_string().contains("memory://bucket/out is not empty"), "{error}");
    for existing in [Existing::Overwrite, Existing::Clean, Existing::Resume] {
        there.memory().insert("bucket/out/image/part_000000/000099.tar", "old");
        let again = pack(into(&there, &input).existing(existing)).await.unwrap();
        assert_eq!(again.samples, want.samples);
        assert_eq!(
            again.resumed_shards,
            if existing == Existing::Resume { want.shards } else { 0 }
        );
        there.delete("memory://bucket/out/image/part_000000/000099.tar").await.unwrap();
        assert_same(&tree(&disk), &objects(&there).await);
    }

    for parts in [2, 5] {
        let there = stores();
        for index in 0..parts {
            let mut options = into(&there, &input);
            options.part = Some(Part { index, parts });
            pack(options).await.unwrap();
        }
        let stores = there.clone();
        let merged = tokio::task::spawn_blocking(move || merge_in(OUT.as_ref(), Some(&stores)));
        assert_eq!(merged.await.unwrap().unwrap().samples, 59);
        assert_same(&tree(&disk), &objects(&there).await);
    }
}

#[tokio::test]
async fn resumed_after_a_kill_it_is_the_same() {
    let folder = tempdir().unwrap();
    let (input, disk) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 40);
    pack(flat(&input, &disk).limit(ShardLimit::samples(4))).await.unwrap();
    let whole = tree(&disk);
    let record = String::from_utf8(whole[Path::new(".shardstream/part-0-of-1.jsonl")].clone());
    let record = record.unwrap();
    let lines: Vec<&str> = record.lines().collect();
    for finished in 0..=10 {
        // What a run leaves that is killed when it has finished so many shards, and one twin of the next.
        let there = stores();
        let put =
            |name: &str, bytes: Vec<u8>| there.memory().insert(format!("bucket/out/{name}"), bytes);
        put(".shardstream/part-0-of-1.jsonl", format!("{}\n", lines[0]).into_bytes());
        for shard in 0..finished {
            let record = format!("{}\n", lines[shard + 1]).into_bytes();
            put(&format!(".shardstream/part-0-of-1/{shard:09}.json"), record);
        }
        for shard in 0..(finished + 1).min(10) {
            let twins =
                ["caption", "image"].into_iter().filter(|m| shard < finished || *m == "caption");
            for modality in twins {
                let name = format!("{modality}/part_000000/{shard:06}.tar");
                put(&name, whole[Path::new(&name)].clone());
            }
        }
        let resumed = pack(into(&there, &input).existing(Existing::Resume)).await.unwrap();
        assert_eq!(resumed.resumed_shards, finished as u64);
        assert_same(&whole, &objects(&there).await);
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_leaves_whole_shards_alone() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_samples(&input, 40);
    let (there, control) = (stores(), Arc::<PackControl>::default());
    control.stop();
    let error = pack_with(into(&there, &input), control).await.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert!(objects(&there).await.keys().all(|name| name.starts_with(".shardstream")));
    let resumed = pack(into(&there, &input).existing(Existing::Resume)).await.unwrap();
    assert_eq!((resumed.samples, resumed.resumed_shards), (40, 0));
}

#[tokio::test]
async fn a_writer_to_a_store() {
    let there = stores();
    let params = || ShardParams::default().limit(ShardLimit::samples(3)).stores(there.clone());
    let mut writer = ShardWriter::create(OUT, ["caption", "image"], params()).unwrap();
    for i in 0..8u8 {
        let fields = [("image", "jpg", vec![i; 4 << 20]), ("caption", "txt", vec![b'a' + i])];
        writer.write(format!("id_{i}"), fields).await.unwrap();
    }
    let wdinfo = writer.finish().await.unwrap();
    assert_eq!(wdinfo.data_list_key_count, Some(vec![3, 3, 2]));
    assert_eq!(wdinfo.root.as_deref(), Some(OUT));
    let mut options = VerifyOptions::new(OUT);
    options.stores = Some(there.clone());
    let report = verify(options, Arc::default()).await.unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!((report.samples, report.shards), (8, 3));

    // There is a data set now.
    let mut writer = ShardWriter::create(OUT, ["image"], params()).unwrap();
    let error = match writer.write("x", [("image", "jpg", "1")]).await {
        Ok(()) => writer.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("memory://bucket/out holds image already"), "{error}");

    // Dropped in the middle of its second shard.
    let mut writer = ShardWriter::create("memory://bucket/new", ["image"], params()).unwrap();
    for i in 0..5 {
        writer.write(format!("id_{i}"), [("image", "jpg", "x")]).await.unwrap();
    }
    drop(writer);
    let names = async || {
        let listed = there.list("memory://bucket/new").await.unwrap().into_iter();
        listed.map(|meta| meta.path).collect::<Vec<_>>()
    };
    while names().await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(names().await, ["memory://bucket/new/image/part_000000/000000.tar"]);
}

/// Packs the folder into the store, and gives what was packed.
async fn packed(stores: &Stores, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let input = folder.join("in");
    write_samples(&input, 30);
    pack(into(stores, &input)).await.unwrap();
    objects(stores).await
}

#[tokio::test]
async fn what_is_wrong_in_a_store_is_found() {
    let (there, folder) = (stores(), tempdir().unwrap());
    let whole = packed(&there, folder.path()).await;
    let name = "image/part_000000/000002.tar";
    let mut bytes = whole[Path::new(name)].clone();
    bytes[600] ^= 1;
    there.memory().insert(format!("bucket/out/{name}"), bytes);
    let cut = "caption/part_000000/000004.tar";
    there.memory().insert(format!("bucket/out/{cut}"), whole[Path::new(cut)][..3000].to_vec());
    let check = async |fix| {
        let mut options = VerifyOptions::new(format!("{OUT}/wdinfo.json"));
        (options.stores, options.fix_manifest) = (Some(there.clone()), fix);
        verify(options, Arc::default()).await.unwrap()
    };
    let report = check(false).await;
    let places: Vec<_> = report.faults.iter().map(|fault| &*fault.place).collect();
    assert!(
        places.contains(&"part_000000/000002.tar") && places.contains(&"part_000000/000004.tar"),
        "{report:?}"
    );
    assert!(!report.is_sound());
    // The manifest states another size for the one that is cut: it is written anew, without the two that are broken.
    assert_eq!(check(true).await.fixed.len(), 1);
    let broken = |fault: &Fault| {
        fault.place == "part_000000/000002.tar" || fault.place == "part_000000/000004.tar"
    };
    let left = check(false).await.faults;
    assert!(left.iter().all(broken), "{left:#?}");
    for place in ["part_000000/000002.tar", "part_000000/000004.tar"] {
        let unlisted = |fault: &&Fault| fault.place == place && fault.kind == FaultKind::Unlisted;
        assert_eq!(left.iter().filter(unlisted).count(), 1, "{left:#?}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn shards_are_packed_anew_from_a_store_and_from_compressed_ones() {
    let (there, folder) = (stores(), tempdir().unwrap());
    let whole = packed(&there, folder.path()).await;
    // The same data set on the disk, with compressed shards.
    let disk = folder.path().join("compressed");
    for (name, bytes) in &whole {
        let tar = name.extension().is_some_and(|e| e == "tar");
        write(&disk, &[(name.to_str().unwrap(), &if tar { gzip(bytes) } else { bytes.clone() })]);
    }
    std::fs::remove_file(disk.join("wdinfo.json")).unwrap();
    let output = folder.path().join("anew");
    let mut trees = Vec::new();
    for input in [PathBuf::from(OUT), disk.clone()] {
        let mut options = flat(Path::new(""), &output).limit(ShardLimit::samples(7)).seed(5);
        options.inputs = vec![Input::Shards(input)];
        (options.stores, options.existing) = (Some(there.clone()), Existing::Clean);
        let report = pack(options).await.unwrap();
        assert_eq!((report.samples, report.findings.len()), (30, 0));
        trees.push(tree(&output));
    }
    assert_same(&trees[0], &trees[1]);
    // What a temporary file was made for is gone.
    let mine = format!("shardstream-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let left = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&mine));
    assert_eq!(left.count(), 0);

    // Compressed shards are verified as they are: there is no manifest, and nothing else is wrong.
    let report = verify(VerifyOptions::new(&disk), Arc::default()).await.unwrap();
    assert_eq!((report.samples, report.faults.len()), (30, 1), "{:?}", report.faults);
}

#[tokio::test]
async fn a_modality_is_added_in_a_store() {
    let (there, folder) = (stores(), tempdir().unwrap());
    let before = packed(&there, folder.path()).await;
    let latents = folder.path().join("latents");
    for i in 0..30 {
        write(&latents, &[(&format!("latent/{i:05}.npy"), &[i as u8; 100])]);
    }
    let mut options = AddOptions::new(OUT, &latents);
    (options.stores, options.dataset_name) = (Some(there.clone()), Some("ds".to_owned()));
    options.modalities = vec!["latent".to_owned()];
    let report = add_modality(options, Arc::default()).await.unwrap();
    assert_eq!((report.samples, report.findings.len()), (30, 0));
    let after = objects(&there).await;
    for (name, bytes) in before.iter().filter(|(name, _)| !name.ends_with("wdinfo.json")) {
        assert!(after[name] == *bytes, "{} was touched", name.display());
    }
    let mut options = VerifyOptions::new(OUT);
    options.stores = Some(there.clone());
    let report = verify(options, Arc::default()).await.unwrap();
    assert!(report.is_sound() && report.samples == 30, "{:?}", report.faults);
    assert_eq!(after.len(), before.len() + 8);
    let _: &Bytes = &there.memory().get("bucket/out/latent/part_000000/000000.tar").unwrap();
}
