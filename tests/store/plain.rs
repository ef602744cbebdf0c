//! Files, memory, and the store that takes any path.

use bytes::Bytes;
use futures::StreamExt;
use shardstream::store::{ByteRange, Local, Memory, Store, StoreOptions, Stores};

use crate::conformance::{conforms, whole};

const LARGE: usize = (3 << 20) + 12_345;

#[tokio::test]
async fn local_keeps_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&Local, folder.path().to_str().unwrap(), LARGE).await;
}

#[tokio::test]
async fn memory_keeps_the_laws() {
    conforms(&Memory::new(), "base", LARGE).await;
}

#[tokio::test]
async fn the_router_keeps_the_laws() {
    let stores = Stores::new(StoreOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    conforms(&stores, folder.path().to_str().unwrap(), LARGE).await;
    conforms(&stores, "memory://base", LARGE).await;
}

#[tokio::test]
async fn a_file_url_and_a_path_are_the_same_file() {
    let stores = Stores::new(StoreOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/my data/100% #1.tar", folder.path().display());
    stores.put(&path, Bytes::from_static(b"x")).await.unwrap();
    let url =
        format!("file://{}", path.replace('%', "%25").replace(' ', "%20").replace('#', "%23"));
    assert_eq!(whole(&stores, &url, ByteRange::ALL).await.unwrap(), "x");
    assert_eq!(stores.head(&url).await.unwrap().path, url);
}

#[tokio::test]
async fn what_no_store_takes_is_refused_by_name() {
    let stores = Stores::new(StoreOptions::default()).unwrap();
    for url in ["ftp://u:p@host/a.tar", "s3://", "file://relative"] {
        let error = whole(&stores, url, ByteRange::ALL).await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains("://"), "{error}");
    }
}

#[tokio::test]
async fn a_folder_is_no_shard() {
    let folder = tempfile::tempdir().unwrap();
    let error = whole(&Local, folder.path().to_str().unwrap(), ByteRange::ALL).await.unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn links_in_a_listing() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    std::fs::write(base.join("a.tar"), "a").unwrap();
    std::os::unix::fs::symlink(base, base.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", base.join("dangling.tar")).unwrap();
    let found = Local.list(base.to_str().unwrap()).await.unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|meta| (&meta.path[base.to_str().unwrap().len() + 1..], meta.size))
        .collect();
    assert_eq!(names, [("a.tar", Some(1)), ("dangling.tar", None)]);
}

#[tokio::test]
async fn a_dropped_local_stream_ends_its_thread() {
    // The blocking pool has one thread: a reader that stayed would block the second read for ever.
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/big", folder.path().display());
    std::fs::write(&path, vec![7; 8 << 20]).unwrap();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut stream = Local.read(&path, ByteRange::ALL);
            stream.next().await.unwrap().unwrap();
            drop(stream);
            assert_eq!(whole(&Local, &path, ByteRange::ALL).await.unwrap().len(), 8 << 20);
        });
    })
    .join()
    .unwrap();
}
