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

/// A pipe with a name, into which a thread writes so often these bytes.
#[cfg(unix)]
fn pipe(folder: &tempfile::TempDir, bytes: Vec<u8>, times: usize) -> String {
    let path = folder.path().join("pipe").to_str().unwrap().to_owned();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let to = path.clone();
    // Ends with an error when nobody reads any more.
    std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(to)?;
        (0..times).try_for_each(|_| std::io::Write::write_all(&mut pipe, &bytes))
    });
    path
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_read_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at / 7) as u8).collect();
    let path = pipe(&folder, bytes.clone(), 1);
    assert!(whole(&Local, &path, ByteRange::ALL).await.unwrap() == bytes);
}

#[cfg(unix)]
#[tokio::test]
async fn a_dropped_local_stream_ends_its_thread() {
    // The blocking pool has one thread: a reader that stayed would block the second read for ever. A pipe is always read on it,
    // and this one never ends.
    let folder = tempfile::tempdir().unwrap();
    let path = pipe(&folder, vec![7; 8 << 20], usize::MAX);
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    std::fs::write(&file, "whole").unwrap();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut stream = Local.read(&path, ByteRange::ALL);
            stream.next().await.unwrap().unwrap();
            drop(stream);
            assert_eq!(whole(&Local, &file, ByteRange::ALL).await.unwrap(), "whole");
        });
    })
    .join()
    .unwrap();
}

#[tokio::test]
async fn other_tasks_run_while_a_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").to_str().unwrap().to_owned();
    std::fs::write(&path, vec![7; 16 << 20]).unwrap();
    // On one thread, where it runs only as often as the reader lets it.
    let turns = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut stream = Local.read(&path, ByteRange::ALL);
    // Opened: what comes now is not waited for.
    stream.next().await.unwrap().unwrap();
    let before = turns.load(std::sync::atomic::Ordering::Relaxed);
    let mut chunks = 0;
    while let Some(chunk) = stream.next().await {
        chunk.unwrap();
        chunks += 1;
    }
    let turns = turns.load(std::sync::atomic::Ordering::Relaxed) - before;
    other.abort();
    assert!(turns >= chunks, "{turns} turns in {chunks} chunks");
}
