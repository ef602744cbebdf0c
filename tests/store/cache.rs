//! The cache on disk: right, shared, bounded, and never in the way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use shardstream::Error;
use shardstream::store::{ByteRange, ByteStream, Cache, CacheOptions, Memory, Meta, Store};

use crate::conformance::{conforms, pattern, whole};

const SIZE: usize = (2 << 20) + 500_000;

/// Memory that remembers what was read, and breaks a stream at a byte if told to.
#[derive(Debug, Clone, Default)]
struct Watched {
    inner: Memory,
    reads: Arc<Mutex<Vec<u64>>>,
    break_at: Arc<AtomicUsize>,
}

impl Watched {
    fn with(path: &str, data: &Bytes) -> Self {
        let store = Self::default();
        store.inner.insert(path, data.clone());
        store
    }

    /// First bytes of the reads since the last call.
    fn reads(&self) -> Vec<u64> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl Store for Watched {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let (store, path) = (self.clone(), path.to_owned());
        async move {
            store.reads.lock().unwrap().push(range.start);
            let data = whole(&store.inner, &path, range).await.unwrap();
            let limit = store.break_at.load(Ordering::SeqCst);
            let limit = if limit == 0 { usize::MAX } else { limit };
            let mut pieces: Vec<_> = data
                .slice(..data.len().min(limit))
                .chunks(77_777)
                .map(|c| Ok(Bytes::copy_from_slice(c)))
                .collect();
            if data.len() > limit {
                pieces.push(Err(Error::store("broken").in_shard(path)));
            }
            // One piece for each turn of the scheduler, as from a network.
            futures::stream::iter(pieces).then(|piece| tokio::task::yield_now().map(|()| piece))
        }
        .into_stream()
        .flatten()
        .boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, shardstream::Result<Meta>> {
        self.inner.head(path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, shardstream::Result<Vec<Meta>>> {
        self.inner.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, shardstream::Result<()>> {
        self.inner.put(path, bytes)
    }
}

fn cache(store: &Watched, folder: &Path, size: u64) -> Cache<Watched> {
    Cache::new(store.clone(), CacheOptions::new(folder, size)).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.filter(|path| !path.ends_with(".lock")).collect()
}

async fn all(store: &impl Store, path: &str) -> Bytes {
    whole(store, path, ByteRange::ALL).await.unwrap()
}

#[tokio::test]
async fn a_cache_keeps_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&cache(&Watched::default(), folder.path(), 1 << 30), "base", SIZE).await;
}

#[tokio::test]
async fn the_second_read_is_from_disk() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    assert!(all(&cache(&store, folder.path(), 1 << 30), "a.tar").await == data);
    assert_eq!(store.reads(), [0]);
    // In another process, too.
    let cache = cache(&store, folder.path(), 1 << 30);
    assert!(all(&cache, "a.tar").await == data);
    for (start, end) in
        [(1, None), (1 << 20, None), ((1 << 20) - 1, Some((1 << 20) + 1)), (SIZE as u64, None)]
    {
        let got = whole(&cache, "a.tar", ByteRange { start, end }).await.unwrap();
        assert!(
            got == data[start as usize..end.unwrap_or(SIZE as u64) as usize],
            "{start}..{end:?}"
        );
    }
    assert_eq!(store.reads(), [0; 0]);
}

#[tokio::test]
async fn another_version_is_another_object() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    let cache = cache(&store, folder.path(), 1 << 30);
    assert!(all(&cache, "a.tar").await == data);
    store.inner.insert("a.tar", data.slice(1..));
    assert!(all(&cache, "a.tar").await == data[1..]);
    assert_eq!(store.reads(), [0, 0]);
}

#[tokio::test]
async fn many_readers_fetch_once() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    // Each with its own file handles and locks, as processes have.
    let readers = (0..6).map(|_| {
        let (cache, data) = (cache(&store, folder.path(), 1 << 30), data.clone());
        tokio::spawn(async move { assert!(all(&cache, "a.tar").await == data) })
    });
    for reader in futures::future::join_all(readers).await {
        reader.unwrap();
    }
    assert_eq!(store.reads(), [0]);
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_damaged_block_is_fetched_again() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    let cache = cache(&store, folder.path(), 1 << 30);
    all(&cache, "a.tar").await;
    let file = files(folder.path()).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(1 << 20) + 100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(all(&cache, "a.tar").await == data);
    assert_eq!(store.reads(), [0, 1 << 20], "the first block was good");
    // Cut short: not taken for whole.
    assert!(all(&cache, "a.tar").await == data);
    let file = files(folder.path()).pop().unwrap();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(1 << 20).unwrap();
    assert!(all(&cache, "a.tar").await == data);
    assert_eq!(store.reads(), [0, 0]);
}

#[tokio::test]
async fn what_a_killed_process_left_is_not_taken_for_whole() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    all(&cache(&store, folder.path(), 1 << 30), "a.tar").await;
    let file = files(folder.path()).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[2_000_000..].fill(0);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(file.with_extension("part"), bytes).unwrap();
    let cache = cache(&store, folder.path(), 1 << 30);
    assert!(all(&cache, "a.tar").await == data);
    assert!(all(&cache, "a.tar").await == data);
    assert_eq!(store.reads(), [0, 0]);
    assert_eq!(files(folder.path()), [file]);
}

#[tokio::test]
async fn a_dropped_reader_leaves_nothing_in_the_way() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    let cache = cache(&store, folder.path(), 1 << 30);
    let mut stream = cache.read("a.tar", ByteRange::ALL);
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert!(all(&cache, "a.tar").await == data);
}

#[tokio::test]
async fn what_was_used_longest_ago_goes() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a", &data);
    store.inner.insert("b", data.clone());
    store.inner.insert("c", data.clone());
    let limit = 2 * SIZE as u64 + 100;
    let cache = cache(&store, folder.path(), limit);
    for path in ["a", "b", "a", "c", "a"] {
        assert!(all(&cache, path).await == data);
    }
    assert_eq!(store.reads().len(), 3, "b went, a stayed");
    all(&cache, "b").await;
    assert_eq!(store.reads(), [0]);
    let used: u64 = files(folder.path()).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(used <= limit);
}

#[tokio::test]
async fn what_does_not_fit_is_passed_through() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    let cache = cache(&store, folder.path(), 1000);
    assert!(all(&cache, "a.tar").await == data);
    assert!(all(&cache, "a.tar").await == data);
    assert_eq!(store.reads(), [0, 0]);
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn a_read_from_the_middle_does_not_fill() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    let cache = cache(&store, folder.path(), 1 << 30);
    assert!(whole(&cache, "a.tar", ByteRange { start: 5, end: None }).await.unwrap() == data[5..]);
    assert_eq!(store.reads(), [5]);
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn an_error_comes_after_what_was_there_and_nothing_is_kept() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    store.break_at.store(1_200_000, Ordering::SeqCst);
    let cache = cache(&store, folder.path(), 1 << 30);
    let items: Vec<_> = cache.read("a.tar", ByteRange::ALL).collect().await;
    let (last, before) = items.split_last().unwrap();
    let before: Vec<_> = before.iter().flat_map(|chunk| chunk.as_ref().unwrap().to_vec()).collect();
    assert!(before == data[..1_200_000]);
    assert!(last.as_ref().unwrap_err().to_string().contains("broken"));
    assert!(files(folder.path()).is_empty());
    store.break_at.store(0, Ordering::SeqCst);
    assert!(all(&cache, "a.tar").await == data);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_disk_that_can_not_be_written_turns_the_cache_off() {
    let (folder, data) = (tempfile::tempdir().unwrap(), pattern(SIZE));
    let store = Watched::with("a.tar", &data);
    all(&cache(&store, folder.path(), 1 << 30), "a.tar").await;
    // The same object's file is now a device on which there is never room.
    let file = files(folder.path()).pop().unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/full", file.with_extension("part")).unwrap();
    let cache = cache(&store, folder.path(), 1 << 30);
    assert!(all(&cache, "a.tar").await == data);
    // Off from now on, for other objects as well.
    store.inner.insert("b.tar", data.clone());
    assert!(all(&cache, "b.tar").await == data);
    assert!(all(&cache, "b.tar").await == data);
    assert_eq!(store.reads(), [0; 4]);
}
