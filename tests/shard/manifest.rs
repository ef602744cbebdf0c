use shardstream::shard::{DataSet, Manifest};
use shardstream::store::Memory;

fn store(files: &[(&str, &str)]) -> Memory {
    let store = Memory::new();
    for (path, text) in files {
        store.insert(*path, text.as_bytes().to_vec());
    }
    store
}

async fn load(store: &Memory, path: &str) -> Manifest {
    Manifest::load(store, path).await.unwrap()
}

fn twins(manifest: &Manifest) -> Vec<String> {
    (0..manifest.len()).map(|i| manifest.leaf(i).twin_path("image", &manifest.path(i))).collect()
}

#[tokio::test]
async fn files_are_found_below_and_sorted() {
    let store = store(&[
        (
            "d/b/wdinfo.json",
            r#"{"data_list": ["p/1.tar", "p/0.tar"], "data_list_key_count": [3, 4], "root": "."}"#,
        ),
        (
            "d/a/deep/wdinfo.json",
            r#"{"data_list": ["0.tar"], "chunk_size": 5, "total_key_count": 5}"#,
        ),
        ("d/c/other.json", "{}"),
        ("e/wdinfo.json", r#"{"data_list": ["x.tar"], "total_key_count": 1}"#),
    ]);
    let manifest = load(&store, "d").await;
    assert_eq!(
        twins(&manifest),
        ["d/a/deep/image/0.tar", "d/b/image/p/1.tar", "d/b/image/p/0.tar"]
    );
    assert_eq!(
        (0..3).map(|i| manifest.samples(i)).collect::<Vec<_>>(),
        [Some(5), Some(3), Some(4)]
    );
    assert_eq!((manifest.total_samples(), manifest.has_counts()), (Some(12), true));
    // The file itself; its shards are not counted one by one.
    let manifest = load(&store, "e/wdinfo.json").await;
    assert_eq!(
        (manifest.samples(0), manifest.total_samples(), manifest.has_counts()),
        (None, Some(1), false)
    );
    let error = Manifest::load(&store, "d/c").await.unwrap_err().to_string();
    assert_eq!(error, "manifest: d/c: holds neither wdinfo.json nor tars");
}

#[tokio::test]
async fn one_bad_file_is_named() {
    let store = store(&[
        ("d/a/wdinfo.json", r#"{"data_list": ["0.tar"]}"#),
        ("d/b/wdinfo.json", r#"{"data_list": ["0.tar"], "root": 7}"#),
    ]);
    let error = Manifest::load(&store, "d").await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("manifest: field root in d/b/wdinfo.json: is wrong: invalid type"),
        "{error}"
    );
    assert_eq!((error.shard(), error.field()), (Some("d/b/wdinfo.json"), Some("root")));
}

#[tokio::test]
async fn the_root_is_where_the_data_is() {
    let wdinfo = |root: &str| {
        format!(r#"{{"data_list": ["0.tar", "1.tar"], "root": "{root}", "data_keys": ["image"]}}"#)
    };
    for (root, tar, want) in [
        // As recorded.
        ("/old", "/old/image/0.tar", "/old"),
        // Moved; the first shard is missing.
        ("/old", "new/d/image/1.tar", "new/d"),
        // Relative to the file, or to the current directory of the packer.
        ("sub", "new/d/sub/image/0.tar", "new/d/sub"),
        ("out/d", "out/d/image/0.tar", "out/d"),
        ("out/d", "new/d/image/0.tar", "new/d"),
        (".", "new/d/image/0.tar", "new/d"),
        ("", "new/d/image/0.tar", "new/d"),
        // Nowhere.
        ("/old", "else/0.tar", "/old"),
        ("sub", "else/0.tar", "new/d/sub"),
    ] {
        let store = store(&[("new/d/wdinfo.json", &wdinfo(root)), (tar, "tar")]);
        assert_eq!(load(&store, "new").await.leaf(0).root(), want, "{root} {tar}");
    }
    // Both exist: the record counts, unless it is passed over.
    let store = store(&[
        ("new/wdinfo.json", &wdinfo("/old")),
        ("/old/image/0.tar", "tar"),
        ("new/image/0.tar", "tar"),
    ]);
    assert_eq!(load(&store, "new").await.leaf(0).root(), "/old");
    assert_eq!(DataSet::at("new").ignore_root().load(&store).await.unwrap().leaf(0).root(), "new");
    assert_eq!(
        DataSet::at("new")
            .root("s3://b/x/")
            .load(&store)
            .await
            .unwrap()
            .leaf(0)
            .twin_path("image", "0.tar"),
        "s3://b/x/image/0.tar"
    );
}

#[tokio::test]
async fn only_what_is_wanted() {
    let wdinfo = r#"{"data_list": ["0.tar"]}"#;
    let store = store(&[
        // A parent that looks like a class is none.
        ("aspect_ratio_study/aspect_ratio_16_9/wdinfo.json", wdinfo),
        ("aspect_ratio_study/aspect_ratio_21_9/old/wdinfo.json", wdinfo),
        ("aspect_ratio_study/plain/wdinfo.json", wdinfo),
    ]);
    let all = DataSet::at("aspect_ratio_study");
    let classes = |manifest: Manifest| {
        (0..manifest.len())
            .map(|i| manifest.leaf(i).aspect_ratio().unwrap_or("none").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(classes(all.load(&store).await.unwrap()), ["16,9", "21,9", "none"]);
    assert_eq!(classes(all.clone().aspect_ratios(["21:9"]).load(&store).await.unwrap()), ["21,9"]);
    assert_eq!(
        classes(all.clone().exclude(["/old/", "plain"]).load(&store).await.unwrap()),
        ["16,9"]
    );
    assert_eq!(
        classes(all.clone().include(["_9/"]).exclude(["old"]).load(&store).await.unwrap()),
        ["16,9"]
    );
    let error =
        all.clone().aspect_ratios(["21,9", "1,1"]).load(&store).await.unwrap_err().to_string();
    assert_eq!(error, "manifest: no leaf of aspect ratio 1,1, there are: 16,9 21,9");
    let error = all.include(["nothing"]).load(&store).await.unwrap_err().to_string();
    assert_eq!(error, "manifest: include and exclude leave none of 3 wdinfo.json files");
}

#[tokio::test]
async fn modalities_and_sources() {
    let store = store(&[
        (
            "a/wdinfo.json",
            r#"{"data_list": ["0.tar", "1.tar"], "data_keys": ["caption", "image"]}"#,
        ),
        ("b/wdinfo.json", r#"{"data_list": ["0.tar"]}"#),
    ]);
    let sets = [
        ("a".to_owned(), DataSet::at("a")),
        ("b".to_owned(), DataSet::at("b").modalities(["video/hd", "caption"])),
    ];
    let manifest = Manifest::of_data_sets(&store, &sets).await.unwrap();
    let named: Vec<_> =
        manifest.sources().iter().map(|s| (s.name.as_str(), s.shards.clone())).collect();
    assert_eq!(named, [("a", 0..2), ("b", 2..3)]);
    let modalities =
        |i| manifest.leaf(i).modalities().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (modalities(1), modalities(2)),
        (vec!["caption".into(), "image".into()], vec!["video/hd".into(), "caption".into()])
    );
    assert_eq!(manifest.leaf(2).twin_path("video/hd", "0.tar"), "b/video/hd/0.tar");
    let twice = [("a".to_owned(), DataSet::at("a")), ("a".to_owned(), DataSet::at("b"))];
    assert_eq!(
        Manifest::of_data_sets(&store, &twice).await.unwrap_err().to_string(),
        "config: source a is declared twice"
    );
    assert_eq!(
        Manifest::of_data_sets(&store, &[]).await.unwrap_err().to_string(),
        "manifest: no shards"
    );
    let error = DataSet::at("a").modalities(["../b"]).load(&store).await.unwrap_err().to_string();
    assert_eq!(error, "config: modalities: ../b leads out of its folder by `..`");
}

#[tokio::test]
async fn the_hash_is_of_the_contents() {
    let wdinfo =
        r#"{"data_list": ["0.tar", "1.tar"], "data_list_key_count": [1, 2], "root": "/x"}"#;
    let store = store(&[
        ("a/wdinfo.json", wdinfo),
        ("b/c/wdinfo.json", &wdinfo.replace("/x", "/y")),
        ("d/wdinfo.json", &wdinfo.replace("[1, 2]", "[2, 1]")),
        ("e/wdinfo.json", &wdinfo.replace("\"0.tar\"", "\"2.tar\"")),
        ("f/wdinfo.json", &wdinfo.replace("\"root\"", "\"data_keys\": [\"image\"], \"root\"")),
    ]);
    let hash = |path: &'static str| async { load(&store, path).await.hash().to_owned() };
    assert_eq!(hash("a").await, hash("b").await);
    assert_eq!(hash("a").await.len(), 64);
    for other in ["d", "e", "f"] {
        assert_ne!(hash("a").await, hash(other).await, "{other}");
    }
    let of =
        |shards: &[&str]| Manifest::of_shards(shards.iter().copied()).unwrap().hash().to_owned();
    let moved = of(&["/data/x/p0/0.tar", "/data/x/p1/0.tar"]);
    assert_eq!(moved, of(&["https://h/p0/0.tar?sig=1", "https://h/p1/0.tar?sig=2"]));
    assert_eq!(moved, Manifest::of_pattern("p{0..1}/0.tar", None).unwrap().hash());
    assert_ne!(moved, of(&["/data/x/p1/0.tar", "/data/x/p0/0.tar"]));
    assert_ne!(moved, of(&["/data/x/p0/0.tar"]));
    assert_ne!(moved, Manifest::of_pattern("p{0..1}/0.tar", Some(2)).unwrap().hash());
}

#[test]
fn a_billion_samples_cost_nothing() {
    let manifest = Manifest::of_pattern("p_{000000..999999}/{000..999}.tar", Some(100)).unwrap();
    assert_eq!((manifest.len(), manifest.total_samples()), (1_000_000_000, Some(100_000_000_000)));
    assert_eq!(manifest.path(123_456_789), "p_123456/789.tar");
    assert_eq!(manifest.samples(999_999_999), Some(100));
    assert_eq!(manifest.hash().len(), 64);
}

#[test]
fn futures_can_be_sent() {
    fn send<T: Send>(_: T) {}
    send(Manifest::load(&Memory::new(), "x"));
    send(Manifest::of_data_sets(&Memory::new(), &[]));
}

/// Each data set is read from its own store.
#[tokio::test]
async fn a_data_set_with_a_store_of_its_own() {
    use std::sync::Arc;

    use futures::TryStreamExt;
    use shardstream::prelude::*;
    use shardstream::testing;

    let ((_, here), (_, there)) = (testing::shards(1, 2), testing::shards(2, 1));
    let sets = [
        ("here".to_owned(), DataSet::at("000000.tar")),
        ("there".to_owned(), DataSet::at("000001.tar").store(Arc::new(there))),
    ];
    let manifest = Manifest::of_data_sets(&here, &sets).await.unwrap();
    let samples = shard_list(&manifest).open_twins(here).expand().group_by_keys();
    let keys = samples.map_ok(|sample| sample.key().to_string());
    assert_eq!(keys.try_collect::<Vec<_>>().await.unwrap(), ["s0_k0", "s0_k1", "s1_k0"]);
}

/// The query of a signed URL is no part of the path, and is not shown.
#[tokio::test]
async fn a_manifest_behind_a_signed_url() {
    let url = "https://h/d/wdinfo.json?X-Amz-Signature=a/b";
    let text = r#"{"data_list": ["0.tar"], "data_keys": ["image"], "root": "/gone"}"#;
    let store = store(&[(url, text), ("https://h/d/image/0.tar", "tar")]);
    assert_eq!(twins(&load(&store, url).await), ["https://h/d/image/0.tar"]);
    store.insert(url, r#"{"data_list": 3}"#);
    let error = Manifest::load(&store, url).await.unwrap_err().to_string();
    assert!(error.contains("field data_list in https://h/d/wdinfo.json"), "{error}");
    assert!(!error.contains("a/b"), "{error}");
}
