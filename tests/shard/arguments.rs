use shardstream::shard::{Braces, DataSet, Manifest};
use shardstream::store::{Local, Memory};

async fn plain(store: &Memory, argument: &str) -> Result<Vec<String>, String> {
    listed(DataSet::at(argument).load(store).await)
}

fn listed(manifest: shardstream::Result<Manifest>) -> Result<Vec<String>, String> {
    let manifest = manifest.map_err(|e| e.to_string())?;
    Ok((0..manifest.len()).map(|i| manifest.leaf(i).tar_path(&manifest.path(i))).collect())
}

fn store(paths: &[&str]) -> Memory {
    let store = Memory::new();
    for path in paths {
        store.insert(*path, "tar");
    }
    store
}

fn all(pattern: &str) -> Vec<String> {
    Braces::parse(pattern).unwrap().iter().collect()
}

#[test]
fn braces() {
    for (pattern, want) in [
        ("plain.tar", &["plain.tar"][..]),
        ("", &[""]),
        (
            "shard-{000..003}.tar",
            &["shard-000.tar", "shard-001.tar", "shard-002.tar", "shard-003.tar"],
        ),
        ("{a,b}/{0..1}.tar", &["a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"]),
        ("s-{8..11}", &["s-8", "s-9", "s-10", "s-11"]),
        ("s-{08..11}", &["s-08", "s-09", "s-10", "s-11"]),
        ("{8..011}", &["008", "009", "010", "011"]),
        ("x{3..1}", &["x3", "x2", "x1"]),
        ("{0..9..4}", &["0", "4", "8"]),
        ("{9..0..-4}", &["9", "5", "1"]),
        ("{-1..1}", &["-1", "0", "1"]),
        ("{-01..1}", &["-01", "000", "001"]),
        ("{a..e..2}{,x}", &["a", "ax", "c", "cx", "e", "ex"]),
        ("{a,b{1..2},{c,d}e}", &["a", "b1", "b2", "ce", "de"]),
        // Neither a list nor a range; what is in it may be one.
        ("{x}.tar", &["{x}.tar"]),
        ("{}{a{1,2}}", &["{}{a1}", "{}{a2}"]),
        ("{1..x}{1..2..3..4}{..}", &["{1..x}{1..2..3..4}{..}"]),
        // Braces that don't match make all of it plain text.
        ("{0..1}?x={", &["{0..1}?x={"]),
        ("}{0..1}", &["}{0..1}"]),
        ("é{0..0}é", &["é0é"]),
    ] {
        assert_eq!(all(pattern), want, "{pattern}");
        assert_eq!(Braces::parse(pattern).unwrap().len(), want.len() as u64, "{pattern}");
    }
    for (pattern, want) in [
        (
            "{0..9..0}",
            "config: shard pattern {0..9..0}: {0..9..0} has step 0, expected a whole number other than 0",
        ),
        (
            "{0..9..x}",
            "config: shard pattern {0..9..x}: {0..9..x} has step x, expected a whole number other than 0",
        ),
        (
            "{0..9999999999}{0..9999999999}",
            "config: shard pattern {0..9999999999}{0..9999999999}: stands for more names than can be counted",
        ),
    ] {
        assert_eq!(Braces::parse(pattern).unwrap_err().to_string(), want);
    }
    let extremes = Braces::parse("{-9223372036854775808..9223372036854775806}").unwrap();
    assert_eq!(extremes.get(extremes.len() - 1), "9223372036854775806");
}

#[tokio::test]
async fn patterns_and_lists() {
    let store = store(&["d/0.tar", "d/1.tar", "d/10.tgz", "d/x.txt", "e/f/0.tar", "list.txt"]);
    let ok = |paths: &[&str]| Ok(paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>());
    // Braces and plain names are not looked for.
    assert_eq!(plain(&store, "p/{0..1}.tar::q.tar").await, ok(&["p/0.tar", "p/1.tar", "q.tar"]));
    assert_eq!(
        plain(&store, "https://h/b/{0..1}.tar?X=a%2Fb&x={").await,
        ok(&["https://h/b/{0..1}.tar?X=a%2Fb&x={"])
    );
    assert_eq!(plain(&store, "https://h/a?x[1]=*").await, ok(&["https://h/a?x[1]=*"]));
    // Wildcards and folders are.
    assert_eq!(plain(&store, "d/*.t*").await, ok(&["d/0.tar", "d/1.tar", "d/10.tgz", "d/x.txt"]));
    assert_eq!(plain(&store, "{e,d}/**/?.tar").await, ok(&["e/f/0.tar", "d/0.tar", "d/1.tar"]));
    assert_eq!(plain(&store, "**/f/*").await, ok(&["e/f/0.tar"]));
    assert_eq!(plain(&store, "d").await, ok(&["d/0.tar", "d/1.tar", "d/10.tgz"]));
    assert_eq!(plain(&store, "e/").await, ok(&["e/f/0.tar"]));
    // A shard without an ending.
    store.insert("odd", "tar");
    assert_eq!(plain(&store, "odd").await, ok(&["odd"]));
    for (argument, want) in [
        ("d/*.zip", "config: shard pattern d/*.zip: matches nothing"),
        ("d/{0,7}*", "config: shard pattern d/7*: matches nothing"),
        ("nowhere", "manifest: nowhere: there is no such file, folder or data set"),
        ("a.tar::", "config: shards \"a.tar::\": an entry is empty"),
        ("", "config: shards \"\": an entry is empty"),
    ] {
        assert_eq!(plain(&store, argument).await.unwrap_err(), want, "{argument}");
    }
    assert_eq!(
        listed(DataSet::default().load(&store).await).unwrap_err(),
        "config: no shards are given"
    );
}

#[tokio::test]
async fn files_that_list_shards() {
    let store = store(&["d/0.tar", "d/1.tar"]);
    store.insert("list", "# these\nx.tar\r\n\nd/*\ny-{0..1}.tar\n");
    assert_eq!(
        plain(&store, "@list").await.unwrap(),
        ["x.tar", "d/0.tar", "d/1.tar", "y-0.tar", "y-1.tar"]
    );
    store.insert("again", "@list");
    assert_eq!(
        plain(&store, "@again").await.unwrap_err(),
        "config: again: @list: a list can't name another list"
    );
    store.insert("empty", "# nothing");
    assert_eq!(plain(&store, "@empty").await.unwrap_err(), "config: empty: lists no shards");
    assert!(plain(&store, "@missing").await.is_err());
}

/// A name that exists is that name, whatever characters it has.
#[tokio::test]
async fn odd_names() {
    let odd = [
        "my data/a 1.tar",
        "100%.tar",
        "x%20x.tar",
        "s#1.tar",
        "s?v=1.tar",
        "café/猫.tar",
        "a:b.tar",
        "{x}.tar",
        "{0..1}.tar",
        "a::b.tar",
        "[0].tar",
    ];
    let store = store(&odd);
    for name in odd {
        assert_eq!(plain(&store, name).await.unwrap(), [name]);
    }
    assert_eq!(plain(&store, "{0..1}.tgz").await.unwrap(), ["0.tgz", "1.tgz"]);
}

#[tokio::test]
async fn twins_are_relative_to_root_and_modality() {
    let store = store(&["r/image/p/0.tar", "r/image/p/1.tar", "r/caption/p/0.tar"]);
    let twins = |argument: &str| DataSet::at(argument).root("r").modalities(["image", "caption"]);
    for argument in ["p/*.tar", "p", "p/{0..1}.tar", "p/0.tar::p/1.tar"] {
        let manifest = twins(argument).load(&store).await.unwrap();
        assert_eq!(
            (0..2).map(|i| manifest.path(i)).collect::<Vec<_>>(),
            ["p/0.tar", "p/1.tar"],
            "{argument}"
        );
        assert_eq!(manifest.leaf(1).twin_path("caption", &manifest.path(1)), "r/caption/p/1.tar");
    }
    let error = twins("../x.tar").load(&store).await.unwrap_err().to_string();
    assert_eq!(error, "config: shards below a modality: ../x.tar leads out of its folder by `..`");
    // Without a root they are below the current directory.
    let manifest = DataSet::at("0.tar").modalities(["image"]).load(&store).await.unwrap();
    assert_eq!(manifest.leaf(0).twin_path("image", "0.tar"), "image/0.tar");
    // A data set in place of a shard.
    store.insert("d/wdinfo.json", r#"{"data_list": ["7.tar"], "root": "/gone"}"#);
    let manifest = twins("d").load(&store).await.unwrap();
    assert_eq!(manifest.leaf(0).twin_path("image", &manifest.path(0)), "r/image/7.tar");
}

#[tokio::test]
async fn kinds_mix_in_the_order_given() {
    let store = store(&["a/0.tar"]);
    store.insert("d/wdinfo.json", r#"{"data_list": ["w.tar"]}"#);
    let manifest = DataSet::at_all(["x.tar", "y.tar", "d", "{0..1}.tar", "a", "z.tar"])
        .load(&store)
        .await
        .unwrap();
    let paths: Vec<String> = (0..manifest.len()).map(|i| manifest.path(i)).collect();
    assert_eq!(paths, ["x.tar", "y.tar", "w.tar", "0.tar", "1.tar", "a/0.tar", "z.tar"]);
    assert_eq!(manifest.leaves().len(), 4);
    assert_eq!(manifest.total_samples(), None);
}

#[tokio::test]
async fn on_disk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("sub")).unwrap();
    for name in ["b.tar", "a.tar", "sub/c.tar", "note.txt"] {
        std::fs::write(folder.path().join(name), "tar").unwrap();
    }
    let root = folder.path().to_str().unwrap();
    for argument in [root.to_owned(), format!("{root}/"), format!("{root}/**/*.tar")] {
        let found = listed(DataSet::at(argument).load(&Local).await).unwrap();
        assert_eq!(found, ["a.tar", "b.tar", "sub/c.tar"].map(|name| format!("{root}/{name}")));
    }
    // Below a root.
    let manifest = DataSet::at("*.tar").root(root).load(&Local).await.unwrap();
    assert_eq!(
        (manifest.path(0), manifest.leaf(0).tar_path("a.tar")),
        ("a.tar".into(), format!("{root}/a.tar"))
    );
    // In the current directory, which has no tars.
    let error = listed(DataSet::at("*.tar").load(&Local).await).unwrap_err();
    assert_eq!(error, "config: shard pattern *.tar: matches nothing");
    assert_eq!(listed(DataSet::at("Cargo.t?ml").load(&Local).await).unwrap(), ["Cargo.toml"]);
    assert!(listed(DataSet::at(format!("{root}/x")).load(&Local).await).is_err());
}
