use shardstream::shard::{Catalog, DataSet};
use shardstream::store::Memory;

fn complaint(text: &str) -> String {
    Catalog::parse(text.as_bytes(), "c.json").unwrap_err().to_string()
}

#[tokio::test]
async fn sets_of_sources() {
    let store = Memory::new();
    for name in ["a", "b", "c"] {
        store.insert(format!("{name}/wdinfo.json"), format!(r#"{{"data_list": ["{name}.tar"]}}"#));
    }
    store.insert(
        "c.json",
        r#"{"sources": {"c": {"paths": ["c"]}, "a": {"paths": ["a"], "modalities": ["video"]}, "b": {"paths": ["b"], "ignore_root": true}},
            "sets": {"ab": ["b", "a"], "all": ["c", "ab"]}}"#,
    );
    let catalog = Catalog::load(&store, "c.json").await.unwrap();
    let names = |manifest: shardstream::shard::Manifest| {
        manifest.sources().iter().map(|source| source.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(catalog.manifest(&store, "all").await.unwrap()), ["c", "b", "a"]);
    assert_eq!(names(catalog.manifest(&store, "ab").await.unwrap()), ["b", "a"]);
    let one = catalog.manifest(&store, "a").await.unwrap();
    assert_eq!(&*one.leaf(0).modalities()[0], "video");
    let error = catalog.manifest(&store, "d").await.unwrap_err().to_string();
    assert_eq!(error, "config: no source or set is called d, there are: a b c ab all");
    // By builder, and back.
    let built = Catalog::default().source("c", DataSet::at("c")).set("s", ["c"]);
    let text = serde_json::to_vec(&built).unwrap();
    assert_eq!(Catalog::parse(&text, "c.json").unwrap().data_sets("s").unwrap()[0].1.paths, ["c"]);
}

#[test]
fn errors_name_file_and_field() {
    for (text, want) in [
        ("{", "config: c.json: is no JSON: EOF while parsing an object"),
        ("[]", "config: c.json: is no catalog: invalid"),
        (
            r#"{"sources": {"a": {"path": "x"}}}"#,
            "config: field sources.a in c.json: is wrong: unknown field `path`",
        ),
        (
            r#"{"sources": {"a": {"paths": "x"}}}"#,
            "config: field sources.a in c.json: is wrong: invalid type",
        ),
        (
            r#"{"sources": {}, "sets": {"s": 1}}"#,
            "config: field sets.s in c.json: is wrong: invalid type",
        ),
        (r#"{"sources": {}, "more": 1}"#, "config: c.json: is no catalog: unknown field `more`"),
        (
            r#"{"sources": {"a": {}}, "sets": {"a": ["a"]}}"#,
            "config: c.json: a is a source and a set",
        ),
        (
            r#"{"sources": {"a": {}}, "sets": {"s": ["b"]}}"#,
            "config: c.json: set s: no source or set is called b, there are: a s",
        ),
        (
            r#"{"sources": {"a": {}}, "sets": {"s": ["a", "t"], "t": ["s"]}}"#,
            "config: c.json: set s has itself",
        ),
        (
            r#"{"sources": {"a": {}}, "sets": {"s": ["a", "t"], "t": ["a"]}}"#,
            "config: c.json: set s: source a comes twice",
        ),
        (r#"{"sources": {}, "sets": {"s": []}}"#, "config: c.json: set s has no sources"),
    ] {
        let got = complaint(text);
        assert!(got.starts_with(want), "{text}: {got}");
    }
}
