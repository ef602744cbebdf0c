//! What goes in comes out: contents, names, order; the same bytes for the same input.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use shardstream::pack::{
    AddOptions, Part, ShardLimit, ShardParams, ShardWriter, add_modality, merge, pack,
};
use tempfile::tempdir;

use crate::support::{
    assert_same, flat, members, packed, shardstream, stderr, tree, verified, write, write_photos,
    write_samples,
};

#[tokio::test]
async fn flat_set_of_odd_files() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let long = "n".repeat(200);
    let big: Vec<u8> = (0..5_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let names: Vec<Vec<u8>> = [
        b"a".to_vec(),
        b"with space".to_vec(),
        "é\u{1F600}".as_bytes().to_vec(),
        b"v1.0.x".to_vec(),
        b"not-\xff-utf8".to_vec(),
        b"__x".to_vec(),
        b"new\nline".to_vec(),
        long.into_bytes(),
    ]
    .to_vec();
    for modality in ["image", "caption"] {
        fs::create_dir_all(input.join(modality)).unwrap();
    }
    let mut want = Vec::new();
    for (i, name) in names.iter().enumerate() {
        // An empty file, a big one, and sizes around the blocks of a tar.
        let contents = match i {
            0 => Vec::new(),
            1 => big.clone(),
            _ => vec![i as u8; 510 + i],
        };
        let file = [name, &b".JPG"[..]].concat();
        fs::write(input.join("image").join(OsStr::from_bytes(&file)), &contents).unwrap();
        let key = if name == b"v1.0.x" { b"v1-0-x" } else { &name[..] };
        want.push(([key, b".JPG"].concat(), contents));
        let file = [name, &b".json"[..]].concat();
        fs::write(input.join("caption").join(OsStr::from_bytes(&file)), b"{}").unwrap();
    }
    want.sort();
    let mut options = flat(&input, &output).limit(ShardLimit::bytes(2048));
    options.num_workers = 3;
    let report = pack(options).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.findings);
    assert_eq!(report.samples, 8);
    assert_eq!(packed(&output, "image", "ds__").await.into_iter().collect::<Vec<_>>(), want);
    assert!(packed(&output, "caption", "ds__").await.values().all(|c| c == b"{}"));
    let verified = verified(&output).await;
    assert_eq!((verified.samples, verified.faults.as_slice()), (8, &[][..]));
    assert_eq!(verified.bytes, report.bytes);
}

/// By webdataset's rule a key ends at the first dot: `a.b` and `a.c` would be one sample.
#[tokio::test]
async fn names_with_dots_are_read_whole_by_every_rule() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for name in ["a.b", "a.c", "plain", "dropped.1", "dropped.2"] {
        for (modality, extension) in [("image", "jpg"), ("caption", "json"), ("umt5", "npy")] {
            let file = format!("{modality}/{name}.{extension}");
            write(&input, &[(&file, format!("{name} {modality}").as_bytes())]);
        }
    }
    let list = folder.path().join("drop.txt");
    fs::write(&list, "dropped.1\nds__dropped-2\n").unwrap();
    let mut options = flat(&input, &output);
    options.drop_list = Some(list);
    options.modalities = vec!["image".into(), "caption".into()];
    let report = pack(options).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.findings);
    let mut add = AddOptions::new(&output, &input);
    (add.dataset_name, add.modalities) = (Some("ds".into()), vec!["umt5".into()]);
    let report = add_modality(add, Arc::default()).await.unwrap();
    assert_eq!(report.findings.len(), 2, "those that were dropped: {:?}", report.findings);
    assert!(verified(&output).await.is_sound());
    for rule in ["webdataset", "pid"] {
        let output = output.to_str().unwrap();
        let read = shardstream(&["cat", output, "--key-rule", rule]);
        let lines = String::from_utf8_lossy(&read.stdout).into_owned();
        let mut got: Vec<_> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| {
                let fields = line["fields"].as_object().unwrap();
                let sizes = fields.iter().map(|(name, f)| format!("{name} {}", f["size"]));
                (line["key"].as_str().unwrap().to_owned(), sizes.collect::<Vec<_>>().join(", "))
            })
            .collect();
        got.sort();
        let want = [
            ("ds__a-b", "caption.json 11, image.jpg 9, umt5.npy 8"),
            ("ds__a-c", "caption.json 11, image.jpg 9, umt5.npy 8"),
            ("ds__plain", "caption.json 13, image.jpg 11, umt5.npy 10"),
        ];
        assert_eq!(got, want.map(|(key, fields)| (key.into(), fields.into())), "{rule}");
    }
}

#[tokio::test]
async fn ten_thousand_tiny_files() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 5_000);
    pack(flat(&input, &output).limit(ShardLimit::samples(300))).await.unwrap();
    let verified = verified(&output).await;
    assert_eq!((verified.shards, verified.samples), (17, 5_000));
    assert!(verified.is_sound());
    let packed = packed(&output, "caption", "ds__").await;
    assert_eq!(packed.len(), 5_000);
    assert_eq!(packed[&b"04999.json"[..]], br#"{"prompt": "picture 4999"}"#);
}

#[tokio::test]
async fn photographs_in_buckets() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_photos(&input);
    let mut options = flat(&input, &output);
    options.classify_aspect_ratio = true;
    options.allow_singletons = true;
    let report = pack(options).await.unwrap();
    let buckets: Vec<_> = report.buckets.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let want = [
        ("aspect_ratio_16_9", 8),
        ("aspect_ratio_1_1", 1),
        ("aspect_ratio_21_9", 1),
        ("aspect_ratio_3_2", 6),
        ("aspect_ratio_3_4", 1),
    ];
    assert_eq!(buckets, want);
    let wdinfo = fs::read_to_string(output.join("aspect_ratio_3_4/wdinfo.json")).unwrap();
    assert!(wdinfo.contains(r#""root": "/data/aspect_ratio_3_4""#), "{wdinfo}");
    for modality in ["image", "caption"] {
        let files = tree(&input.join(modality));
        let files: Vec<_> =
            files.into_iter().map(|(p, c)| (p.as_os_str().as_bytes().to_vec(), c)).collect();
        assert_eq!(packed(&output, modality, "ds__").await.into_iter().collect::<Vec<_>>(), files);
    }
    let verified = verified(&output).await;
    assert_eq!((verified.folders, verified.samples, verified.faults.len()), (5, 17, 0));
}

#[tokio::test]
async fn order_depends_on_the_seed_alone() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_samples(&input, 40);
    let make = async |name: &str, seed: u64, shuffle: bool, workers: usize| {
        let output = folder.path().join(name);
        let mut options = flat(&input, &output).limit(ShardLimit::samples(7)).seed(seed);
        options.shuffle = shuffle;
        options.num_workers = workers;
        pack(options).await.unwrap();
        tree(&output)
    };
    let first = make("a", 1, true, 1).await;
    assert_same(&first, &make("b", 1, true, 4).await);
    assert_ne!(first, make("c", 2, true, 1).await);
    let sorted = make("d", 1, false, 2).await;
    let members = members(&sorted[std::path::Path::new("image/part_000000/000000.tar")]).await;
    let names: Vec<_> = members.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
    assert_eq!(names[..3], ["ds__00000.jpg", "ds__00001.jpg", "ds__00002.jpg"]);
}

#[tokio::test]
async fn parts_are_the_whole() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_samples(&input, 60);
    fs::remove_file(input.join("caption/00007.json")).unwrap();
    let whole = folder.path().join("whole");
    pack(flat(&input, &whole).limit(ShardLimit::samples(4))).await.unwrap();
    for parts in [1, 2, 3, 40] {
        let output = folder.path().join(format!("{parts} parts"));
        for index in (0..parts).rev() {
            assert!(index == parts - 1 || merge(&output).is_err(), "merged before part {index}");
            let mut options = flat(&input, &output).limit(ShardLimit::samples(4));
            options.part = Some(Part { index, parts });
            pack(options).await.unwrap();
        }
        let report = merge(&output).unwrap();
        assert_eq!((report.samples, report.findings.len()), (59, 1));
        assert_same(&tree(&whole), &tree(&output));
        // Again: nothing changes.
        merge(&output).unwrap();
        assert_same(&tree(&whole), &tree(&output));
    }
}

#[tokio::test]
async fn parts_of_different_runs_are_not_merged() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 20);
    let part = async |index, parts, seed| {
        let mut options = flat(&input, &output).limit(ShardLimit::samples(4)).seed(seed);
        options.part = Some(Part { index, parts });
        pack(options).await
    };
    part(0, 2, 0).await.unwrap();
    let error = part(0, 3, 0).await.unwrap_err().to_string();
    assert!(error.contains("another number of parts"), "{error}");
    part(1, 2, 5).await.unwrap();
    let error = merge(&output).unwrap_err().to_string();
    assert!(error.contains("parts 0 and 1 were made from different inputs"), "{error}");
}

#[tokio::test]
async fn writer_packs_what_a_program_makes() {
    let folder = tempdir().unwrap();
    let params = ShardParams::default().limit(ShardLimit::samples(3));
    let mut writer = ShardWriter::create(folder.path(), ["caption", "image"], params).unwrap();
    for i in 0..8 {
        let fields = [("image", "jpg", vec![i; 3 << 20]), ("caption", "txt", vec![b'a' + i])];
        writer.write(format!("id_{i}"), fields).await.unwrap();
    }
    // What can't be written is refused, and the rest goes on.
    let lacking = writer.write("x", [("image", "jpg", "1")]).await.unwrap_err();
    assert_eq!(
        lacking.to_string(),
        "twins: of sample x modality caption: has no field in this modality".replace("of ", "")
    );
    for (key, extension) in
        [("a.b", "jpg"), ("", "jpg"), ("x/../y", "jpg"), ("/x", "jpg"), ("x", "")]
    {
        let fields = [("image", extension, "1"), ("caption", "txt", "2")];
        let error = writer.write(key, fields).await.unwrap_err();
        assert!(error.concerns_one_sample(), "{key:?}: {error}");
    }
    let wdinfo = writer.finish().await.unwrap();
    assert_eq!(wdinfo.data_list_key_count, Some(vec![3, 3, 2]));
    let images = packed(folder.path(), "image", "id_").await;
    assert_eq!(images.len(), 8);
    assert_eq!(images[&b"5.jpg"[..]], vec![5; 3 << 20]);
    assert!(verified(folder.path()).await.is_sound());
    // A folder that holds a data set is left alone.
    let error = ShardWriter::create(folder.path(), ["image"], ShardParams::default()).unwrap_err();
    assert!(error.to_string().contains("holds image already"), "{error}");
}

#[tokio::test]
async fn writer_that_is_dropped_leaves_no_manifest() {
    let folder = tempdir().unwrap();
    let params = ShardParams::default().limit(ShardLimit::samples(2));
    let mut writer = ShardWriter::create(folder.path(), ["image"], params).unwrap();
    for i in 0..5 {
        writer.write(format!("id_{i}"), [("image", "jpg", "x")]).await.unwrap();
    }
    let error = writer.write("id_4", [("image", "jpg", "x")]).await;
    drop(error);
    let error = writer.finish().await.unwrap_err();
    assert!(error.to_string().contains("sample id_4: the key comes twice in shard 2"), "{error}");
    assert!(!folder.path().join("wdinfo.json").exists());
    let left: Vec<_> = tree(folder.path()).into_keys().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn the_command_line_says_what_it_did() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("photos"), folder.path().join("out"));
    write_photos(&input);
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    let args = ["pack", "--input-dir", input, "--output-dir", output, "--no-classify-aspect-ratio"];
    let dry = shardstream(&[&args[..], &["--dry-run", "--json"]].concat());
    assert!(dry.status.success(), "{}", stderr(&dry));
    let report: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!((&report["samples"], &report["shards"]), (&17.into(), &1.into()));
    assert!(!std::path::Path::new(output).exists());
    let done = shardstream(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        text.starts_with("packed 17 samples of caption + image into 1 shard, 1.0 MiB, in "),
        "{text}"
    );
    let checked = shardstream(&["verify", output, "--decode"]);
    assert_eq!(
        String::from_utf8_lossy(&checked.stdout),
        "1 shard, 17 samples, 1.0 MiB in 1 folder: nothing wrong\n"
    );
    assert!(checked.status.success(), "{}", stderr(&checked));
}

#[test]
fn what_is_left_out_is_reported() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 10);
    write(
        &input,
        &[
            ("image/00003.png", b"two for one key"),
            ("image/lone.jpg", b"no caption"),
            ("image/strange.heic", b"?"),
            ("caption/big.json", &[b' '; 2 << 20]),
            ("image/big.jpg", b"x"),
            ("image/a.b.jpg", b"1"),
            ("caption/a.b.json", b"1"),
            ("image/a-b.jpg", b"1"),
            ("caption/a-b.json", b"1"),
            ("latents/x.npy", b"1"),
        ],
    );
    let args = [
        "pack",
        "--input-dir",
        input.to_str().unwrap(),
        "--output-dir",
        output.to_str().unwrap(),
        "--no-classify-aspect-ratio",
        "--dataset-name",
        "ds",
        "--max-file-size-mb",
        "1",
    ];
    let done = shardstream(&args);
    assert_eq!(done.status.code(), Some(3), "{}", stderr(&done));
    let report = fs::read_to_string(output.join("pack_report.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        report.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let found: Vec<_> =
        lines.iter().map(|l| (l["reason"].as_str().unwrap(), l["key"].as_str().unwrap())).collect();
    let heic = input.join("image/strange.heic");
    let want = [
        ("extension", heic.to_str().unwrap()),
        ("incomplete", "ds__lone"),
        ("ambiguous", "ds__00003"),
        ("collision", "ds__a.b"),
        ("oversized", "ds__big"),
    ];
    assert_eq!(found, want);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("not packed (name them with --modalities): latents"), "{text}");
    // 10 samples but the ambiguous one, and one of the two that collide.
    assert!(text.starts_with("packed 10 samples"), "{text}");
}
