//! The laws of `Store`, checked on any store that can be written to.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use shardstream::store::upload::PART;
use shardstream::store::{ByteRange, Store};

/// Names that trip stores that encode or decode where they should not.
const ODD: [&str; 8] = [
    "my data/shard 1.tar",
    "100%.tar",
    "shard%20x.tar",
    "shard#1.tar",
    "shard?v=1.tar",
    "café/猫.tar",
    "s+p&q.tar",
    "a:b.tar",
];

pub(crate) async fn whole(
    store: &dyn Store,
    path: &str,
    range: ByteRange,
) -> Result<Bytes, shardstream::Error> {
    let mut stream = store.read(path, range);
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        assert!(!chunk.is_empty(), "an empty chunk of {path}");
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}

pub(crate) fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Checks all laws in the folder `base`, which must be empty. `size` is that of the large object.
pub(crate) async fn conforms(store: &dyn Store, base: &str, size: usize) {
    let at = |name: &str| format!("{base}/{name}");
    reads(store, &at("r"), size).await;
    missing(store, &at("m")).await;
    lists(store, &at("l")).await;
    odd_names(store, &at("o")).await;
}

async fn reads(store: &dyn Store, base: &str, size: usize) {
    let (path, data) = (format!("{base}/big.tar"), pattern(size));
    // Nothing is opened before the first poll.
    let early = store.read(&path, ByteRange::ALL);
    store.put(&path, data.clone()).await.unwrap();
    let chunks: Vec<_> = early.map(|chunk| chunk.unwrap().to_vec()).collect().await;
    assert!(chunks.concat() == data, "read before it was there");

    let n = size as u64;
    for (start, end) in [
        (0, None),
        (0, Some(n)),
        (1, None),
        (n / 3, Some(n / 2)),
        (n - 1, None),
        (n - 1, Some(n + 7)),
        (n / 2, Some(u64::MAX)),
        (n, None),
        (n + 5, None),
        (n + 5, Some(n + 9)),
        (7, Some(7)),
        (9, Some(3)),
        (0, Some(0)),
        (u64::MAX, None),
    ] {
        let got = whole(store, &path, ByteRange { start, end })
            .await
            .unwrap_or_else(|e| panic!("{start}..{end:?}: {e}"));
        let last = end.unwrap_or(n).min(n);
        let first = start.min(last);
        assert!(
            got == data[first as usize..last as usize],
            "{start}..{end:?}: {} bytes",
            got.len()
        );
    }
    let meta = store.head(&path).await.unwrap();
    assert_eq!((meta.path.as_str(), meta.size), (path.as_str(), Some(n)));

    // Left in the middle, and read again.
    let mut left = store.read(&path, ByteRange::ALL);
    left.next().await.unwrap().unwrap();
    drop(left);
    assert!(whole(store, &path, ByteRange::ALL).await.unwrap() == data);

    // Replaced as a whole.
    store.put(&path, Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(whole(store, &path, ByteRange::ALL).await.unwrap(), "new");
    assert_eq!(store.head(&path).await.unwrap().size, Some(3));

    let empty = format!("{base}/empty.tar");
    store.put(&empty, Bytes::new()).await.unwrap();
    assert_eq!(whole(store, &empty, ByteRange::ALL).await.unwrap(), "");
    assert_eq!(whole(store, &empty, ByteRange { start: 5, end: None }).await.unwrap(), "");
    assert_eq!(store.head(&empty).await.unwrap().size, Some(0));
}

async fn missing(store: &dyn Store, base: &str) {
    let path = format!("{base}/none.tar");
    let mut stream = store.read(&path, ByteRange::ALL);
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(stream.next().await.is_none(), "an error is the last item");
    for error in [error, store.head(&path).await.unwrap_err()] {
        assert!(error.to_string().contains("none.tar"), "{error}");
        assert!(!error.is_transient() && !error.is_config(), "{error}");
    }
}

async fn lists(store: &dyn Store, base: &str) {
    for name in ["ab/2.tar", "ab/1.tar", "ab/c/3.tar", "ab/c.tar", "abc/4.tar", "z.tar"] {
        store.put(&format!("{base}/{name}"), Bytes::from(name.to_owned())).await.unwrap();
    }
    let names = |prefix: String| {
        store.list(Box::leak(prefix.into_boxed_str())).map(|found| {
            let found = found.unwrap();
            found
                .iter()
                .map(|meta| (meta.path[base.len() + 1..].to_owned(), meta.size))
                .collect::<Vec<_>>()
        })
    };
    let want = |names: &[&str]| {
        names.iter().map(|n| ((*n).to_owned(), Some(n.len() as u64))).collect::<Vec<_>>()
    };
    let ab = want(&["ab/1.tar", "ab/2.tar", "ab/c.tar", "ab/c/3.tar"]);
    assert_eq!(names(format!("{base}/ab")).await, ab);
    assert_eq!(names(format!("{base}/ab/")).await, ab);
    assert_eq!(names(base.to_owned()).await, [ab, want(&["abc/4.tar", "z.tar"])].concat());
    assert_eq!(names(format!("{base}/a")).await, want(&[]));
    // What is listed can be read.
    for meta in store.list(base).await.unwrap() {
        assert_eq!(
            whole(store, &meta.path, ByteRange::ALL).await.unwrap(),
            meta.path[base.len() + 1..]
        );
    }
}

async fn odd_names(store: &dyn Store, base: &str) {
    for name in ODD {
        let path = format!("{base}/{name}");
        store.put(&path, Bytes::from(name)).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(store.head(&path).await.unwrap().path, path);
    }
    let mut listed: Vec<_> =
        store.list(base).await.unwrap().into_iter().map(|meta| meta.path).collect();
    assert!(listed.is_sorted());
    for name in ODD {
        let path = format!("{base}/{name}");
        assert_eq!(whole(store, &path, ByteRange::ALL).await.unwrap(), name);
        let at = listed
            .iter()
            .position(|listed| *listed == path)
            .unwrap_or_else(|| panic!("{name} is not listed"));
        listed.remove(at);
    }
    assert!(listed.is_empty(), "{listed:?}");
}

/// Checks what is written in parts, in a folder that is empty.
pub(crate) async fn uploads(store: &dyn Store, base: &str) {
    let (path, data) = (format!("{base}/up load%.tar"), pattern(2 * PART + 12_345));
    let parts =
        || (0..data.len()).step_by(PART).map(|at| data.slice(at..data.len().min(at + PART)));
    let mut upload = store.upload(&path).await.unwrap();
    for part in parts() {
        upload.write(part).await.unwrap();
    }
    upload.flush().await.unwrap();
    assert!(store.head(&path).await.is_err(), "seen before it is complete");
    upload.complete().await.unwrap();
    drop(upload);
    assert!(whole(store, &path, ByteRange::ALL).await.unwrap() == data);

    // Given up, in both ways: the object is as it was.
    let mut upload = store.upload(&path).await.unwrap();
    upload.write(parts().next().unwrap()).await.unwrap();
    upload.abort().await;
    let mut upload = store.upload(&path).await.unwrap();
    upload.write(parts().next().unwrap()).await.unwrap();
    drop(upload);
    assert_eq!(store.head(&path).await.unwrap().size, Some(data.len() as u64));

    // Replaced in one step.
    let mut upload = store.upload(&path).await.unwrap();
    upload.write(Bytes::from_static(b"small")).await.unwrap();
    assert_eq!(store.head(&path).await.unwrap().size, Some(data.len() as u64));
    upload.complete().await.unwrap();
    assert_eq!(whole(store, &path, ByteRange::ALL).await.unwrap(), "small");

    store.delete(&path).await.unwrap();
    assert!(store.head(&path).await.is_err());
    store.delete(&path).await.unwrap();
    assert!(store.list(base).await.unwrap().is_empty());
}
