//! Lists and existing shards as input.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use shardstream::pack::{Input, PackOptions, Reason, ShardLimit, pack};
use tempfile::tempdir;

use crate::support::{
    assert_same, flat, packed, shardstream, stderr, tree, verified, write, write_photos,
    write_samples,
};

fn from(inputs: Vec<Input>, output: &Path) -> PackOptions {
    let mut options = flat(Path::new(""), output);
    options.inputs = inputs;
    options
}

#[tokio::test]
async fn a_list_of_json_lines() {
    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    write(
        folder.path(),
        &[("pics/a.jpg", b"A"), ("pics/b.png", b"B"), ("texts/c.json", b"{\"prompt\": 3}")],
    );
    let list = [
        r#"{"image": "pics/a.jpg", "prompt": "first", "prompt_short": "1"}"#,
        r#"{"image": "pics/b.png", "caption": {"prompt": "second"}, "key": "other"}"#,
        "",
        r#"{"image": "pics/a.jpg", "caption": "texts/c.json", "key": 7, "score": 0.5}"#,
        r#"{"image": "pics/none.jpg", "prompt": "x"}"#,
        r#"{"image": "pics/a.jpg", "key": "lone"}"#,
        r#"{"prompt": "x"}"#,
    ];
    write(folder.path(), &[("list.jsonl", list.join("\n").as_bytes())]);
    let report =
        pack(from(vec![Input::List(folder.path().join("list.jsonl"))], &output)).await.unwrap();
    let text = |m: &'static str| {
        let output = output.clone();
        async move {
            let packed = packed(&output, m, "ds__").await.into_iter();
            packed
                .map(|(k, v)| (String::from_utf8(k).unwrap(), String::from_utf8(v).unwrap()))
                .collect::<Vec<_>>()
        }
    };
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(text("image").await, pairs(&[("7.jpg", "A"), ("a.jpg", "A"), ("other.png", "B")]));
    let captions = [
        ("7.json", r#"{"prompt": 3}"#),
        ("a.json", r#"{"prompt":"first","prompt_short":"1"}"#),
        ("other.json", r#"{"prompt":"second"}"#),
    ];
    assert_eq!(text("caption").await, pairs(&captions));
    let found: Vec<_> = report.findings.iter().map(|f| f.reason).collect();
    assert_eq!(
        found,
        [Reason::Incomplete, Reason::Name, Reason::Unreadable],
        "{:?}",
        report.findings
    );
    assert!(report.findings[2].key.ends_with("list.jsonl:5"), "{:?}", report.findings);
    assert_eq!(report.other_folders, ["score"]);
}

#[tokio::test]
async fn a_list_in_parquet() {
    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    write(folder.path(), &[("a.jpg", b"A"), ("b.jpg", b"B")]);
    // As pandas writes a category.
    let image: ArrayRef =
        Arc::new(vec!["a.jpg", "b.jpg"].into_iter().collect::<DictionaryArray<Int8Type>>());
    let prompt: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), Some("two")]));
    let score: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let columns = [("image", image), ("prompt", prompt), ("score", score)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = folder.path().join("list.parquet");
    let mut writer =
        ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut options = from(vec![Input::List(path.clone())], &output);
    // Keys begin with the name of the list then.
    options.dataset_name = None;
    let report = pack(options).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.findings);
    assert_eq!(packed(&output, "caption", "list__").await[&b"b.json"[..]], br#"{"prompt":"two"}"#);
    assert_eq!(report.other_folders, ["score"]);
    fs::write(&path, b"PAR1").unwrap();
    let error = pack(from(vec![Input::List(path)], &folder.path().join("x"))).await.unwrap_err();
    assert!(error.to_string().contains("not a whole parquet file"), "{error}");
}

#[tokio::test]
async fn shards_packed_anew_are_as_from_files() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in");
    write_photos(&input);
    let options = |inputs, name: &str, samples| {
        let mut options = from(inputs, &folder.path().join(name));
        options.limit = ShardLimit::samples(samples);
        options.classify_aspect_ratio = true;
        options.allow_singletons = true;
        options
    };
    pack(options(vec![Input::Folders(input.clone())], "first", 3)).await.unwrap();
    pack(options(vec![Input::Folders(input)], "want", 5)).await.unwrap();
    pack(options(vec![Input::Shards(folder.path().join("first"))], "again", 5)).await.unwrap();
    let hidden = |name: &str| {
        let mut tree = tree(&folder.path().join(name));
        tree.retain(|path, _| !path.starts_with(".shardstream"));
        tree
    };
    assert_same(&hidden("want"), &hidden("again"));
}

#[tokio::test]
async fn a_modality_is_added_and_samples_are_dropped() {
    let folder = tempdir().unwrap();
    let (input, first, output) =
        (folder.path().join("in"), folder.path().join("a"), folder.path().join("b"));
    write_samples(&input, 9);
    pack(flat(&input, &first)).await.unwrap();
    for i in 0..9 {
        write(folder.path(), &[(&format!("more/umt5/{i:05}.npy"), &[i; 8])]);
    }
    write(folder.path(), &[("drop.txt", b"00003\nds__00004\n\nnone\n")]);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let more = path(&folder.path().join("more"));
    let drop = path(&folder.path().join("drop.txt"));
    let done = shardstream(&[
        "pack",
        "--input-shards",
        &path(&first),
        "--input-dir",
        &more,
        "--dataset-name",
        "ds",
        "--output-dir",
        &path(&output),
        "--no-classify-aspect-ratio",
        "--drop-list",
        &drop,
    ]);
    assert_eq!(done.status.code(), Some(3), "{}", stderr(&done));
    let report = fs::read_to_string(output.join("pack_report.jsonl")).unwrap();
    assert_eq!(
        report,
        "{\"reason\":\"unknown\",\"key\":\"none\",\"detail\":\"is to be left out, and is not in the input\"}\n"
    );
    let checked = verified(&output).await;
    assert_eq!((checked.samples, checked.faults.len()), (7, 0));
    let added = packed(&output, "umt5", "ds__").await;
    assert_eq!(added.len(), 7);
    assert_eq!(added[&b"00008.npy"[..]], [8; 8]);
    assert_eq!(packed(&output, "image", "ds__").await.len(), 7);
}

#[tokio::test]
async fn broken_shards_are_reported() {
    let folder = tempdir().unwrap();
    let (input, first, output) =
        (folder.path().join("in"), folder.path().join("a"), folder.path().join("b"));
    write_samples(&input, 9);
    let mut options = flat(&input, &first).limit(ShardLimit::samples(3));
    options.shuffle = false;
    pack(options).await.unwrap();
    let tar = first.join("image/part_000000/000001.tar");
    let whole = fs::read(&tar).unwrap();
    // Two members whole, the third cut off.
    fs::write(&tar, &whole[..2500]).unwrap();
    let report = pack(from(vec![Input::Shards(first)], &output)).await.unwrap();
    assert_eq!(report.samples, 8);
    let found: Vec<_> = report.findings.iter().map(|f| (f.reason, f.key.as_str())).collect();
    let want = [(Reason::Incomplete, "ds__00005"), (Reason::Unreadable, "part_000000/000001.tar")];
    assert_eq!(found, want, "{:?}", report.findings);
}

#[test]
fn a_new_twin_for_every_shard() {
    let folder = tempdir().unwrap();
    let (input, output, more) =
        (folder.path().join("in"), folder.path().join("out"), folder.path().join("more"));
    write_photos(&input);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let pack = [
        "pack",
        "--input-dir",
        &path(&input),
        "--output-dir",
        &path(&output),
        "--shard-size",
        "3",
        "--allow-singletons",
    ];
    assert!(shardstream(&pack).status.success());
    let before = tree(&output);
    let stems: Vec<String> = tree(&input.join("image"))
        .into_keys()
        .map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    for stem in &stems[1..] {
        write(
            &more,
            &[
                (&format!("umt5/{stem}.npy"), stem.as_bytes()),
                (&format!("image/{stem}.jpg"), b"old"),
            ],
        );
    }
    let add = [
        "pack",
        "--add-to",
        &path(&output),
        "--input-dir",
        &path(&more),
        "--dataset-name",
        "in",
        "--quiet",
    ];
    let refused = shardstream(&add);
    assert_eq!(refused.status.code(), Some(1));
    let want = format!("1 keys of the data set have no file, such as in__{}", stems[0]);
    assert!(stderr(&refused).contains(&want), "{}", stderr(&refused));
    assert_same(&before, &tree(&output));
    write(&more, &[(&format!("umt5/{}.npy", stems[0]), b"late"), ("umt5/nobody.npy", b"x")]);
    let added = shardstream(&add);
    assert_eq!(added.status.code(), Some(3), "{}", stderr(&added));
    assert_eq!(stderr(&added), "shardstream: in__nobody: is in umt5 and not in the data set\n");
    // Old tars are as they were; the new ones go with them; and it is not done twice.
    let after = tree(&output);
    for (path, contents) in
        before.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "tar"))
    {
        assert!(after[path] == *contents, "{}", path.display());
    }
    let checked = shardstream(&["verify", &path(&output)]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let names = |tree: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>, m: &str| {
        tree.keys().filter(|p| p.to_string_lossy().contains(m)).count()
    };
    assert_eq!(names(&after, "umt5/"), names(&after, "image/"));
    let again = shardstream(&[&add[..], &["--modalities", "umt5"]].concat());
    assert!(stderr(&again).contains("has modality umt5 already"), "{}", stderr(&again));
}
