//! With an index of samples, what is settled at the head of a shard is passed over; the data stays the same.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use shardstream::pack::index_shard;
use shardstream::prelude::*;
use shardstream::sample::key::KeyRule;
use shardstream::shard::{DataSet, SampleIndex, Shard};
use shardstream::store::{ByteRange, ByteStream};
use shardstream::testing::{assert_resumes, ragged_shards, tar};

/// A store that notes from where tars are read.
#[derive(Debug, Clone, Default)]
struct Watched {
    inner: Memory,
    read: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Watched {
    fn new(inner: Memory) -> Self {
        Self { inner, ..Self::default() }
    }

    fn take(&self) -> Vec<(String, u64)> {
        let mut read = std::mem::take(&mut *self.read.lock().unwrap());
        read.retain(|(path, _)| !path.ends_with(".parquet"));
        read
    }
}

impl Store for Watched {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.read.lock().unwrap().push((path.to_owned(), range.start));
        self.inner.read(path, range)
    }

    forward_to!(inner);
}

pub(crate) async fn write_indexes(manifest: &Manifest, store: &Memory) {
    for shard in 0..manifest.len() {
        let (leaf, path) = (manifest.leaf(shard), manifest.path(shard));
        let index = index_shard(store, leaf, &path).await.unwrap();
        store.put(&SampleIndex::path_of(None, leaf, &path), index.encode().unwrap()).await.unwrap();
    }
}

type Drawn = Batch<(Vec<String>, Vec<u64>)>;

fn chain(lane: &Lane, store: Watched, interleaved: bool) -> BoxStream<'static, Result<Drawn>> {
    let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
    let read = move |shards: BoxStream<'static, Result<Shard>>| {
        shards.open_twins(store.clone()).sample_index(None).expand().group_by_keys()
    };
    let drawn = |fields: Fields<Bytes>, rng: &mut Rng| {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let values = fields.iter().map(|(name, bytes)| format!("{name}={};", text(bytes)));
        Ok((values.collect::<String>(), rng.next_u64()))
    };
    if interleaved {
        shards.interleave(2, read).shuffle(4).augment(drawn).batch(3).boxed()
    } else {
        read(shards.boxed()).shuffle(4).augment(drawn).batch(3).boxed()
    }
}

/// Twins of which some agree and some don't: a caption is missing, one is too many, and they are in another order.
fn twins() -> (Vec<String>, Memory) {
    let store = Memory::new();
    let mut paths = Vec::new();
    for shard in 0..5usize {
        let key = |i: usize| format!("s{shard}_k{i}");
        let images: Vec<_> = (0..12).map(|i| (format!("{}.jpg", key(i)), key(i))).collect();
        let mut captions: Vec<_> = (0..12).map(|i| (format!("{}.txt", key(i)), key(i))).collect();
        match shard {
            1 => drop(captions.remove(3)),
            2 => captions.insert(5, (format!("{}x.txt", key(4)), "nobody's".to_owned())),
            3 => captions.swap(2, 3),
            _ => {}
        }
        for (modality, files) in [("image", images), ("caption", captions)] {
            let files: Vec<_> =
                files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
            store.insert(format!("d/{modality}/{shard}.tar"), tar(&files));
        }
        paths.push(format!("{shard}.tar"));
    }
    (paths, store)
}

#[tokio::test]
async fn every_checkpoint_gives_the_rest() {
    for interleaved in [false, true] {
        let (manifest, store) = ragged_shards(&[17, 0, 11, 3, 1, 12, 9]);
        write_indexes(&manifest, &store).await;
        let store = Watched::new(store);
        let build = || {
            let store = store.clone();
            let recipe = move |lane: &Lane| chain(lane, store.clone(), interleaved);
            Loader::builder(&manifest, recipe).seed(3).lanes(2).epochs(2)
        };
        assert!(assert_resumes(build, |batch| batch.data.clone()).await > 20);
        let read = store.take();
        assert!(read.iter().any(|(_, start)| *start > 0), "every shard was read whole");
    }
}

#[tokio::test]
async fn twins_that_differ_give_the_rest_too() {
    let (paths, store) = twins();
    let manifest = DataSet::at_all(paths).root("d").modalities(["image", "caption"]);
    let manifest = manifest.load(&store).await.unwrap();
    write_indexes(&manifest, &store).await;
    let store = Watched::new(store);
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| chain(lane, store.clone(), false);
        Loader::builder(&manifest, recipe).seed(3).epochs(2).on_error(OnError::skip())
    };
    assert!(assert_resumes(build, |batch| batch.data.clone()).await > 20);
    let read = store.take();
    let begun = |shard: &str| {
        let of_shard = read.iter().filter(|(path, _)| path.ends_with(shard));
        of_shard.map(|(_, start)| *start).max().unwrap()
    };
    assert!(begun("image/0.tar") > 4 * 1024 && begun("caption/4.tar") > 4 * 1024);
    // As far as the twins agree, and no further.
    assert!(begun("image/1.tar") <= 3 * 1024 && begun("caption/3.tar") <= 2 * 1024);
}

/// One shard of a hundred samples, a checkpoint after ninety of them, and what is read when the run goes on.
async fn resumed(change: impl FnOnce(&Memory)) -> (Vec<String>, Vec<(String, u64)>) {
    let (manifest, store) = ragged_shards(&[100]);
    write_indexes(&manifest, &store).await;
    let store = Watched::new(store);
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).sample_index(None).expand().group_by_keys().batch(10)
        };
        Loader::builder(&manifest, recipe)
    };
    let mut loader = build().start().unwrap();
    for _ in 0..9 {
        loader.next().await.unwrap().unwrap();
    }
    let checkpoint = loader.checkpoint();
    drop(loader);
    change(&store.inner);
    store.take();
    let mut loader = build().resume([checkpoint]).unwrap();
    let mut keys = Vec::new();
    while let Some(batch) = loader.try_next().await.unwrap() {
        keys.extend(batch.heads.iter().map(|head| head.key.to_string()));
    }
    (keys, store.take())
}

#[tokio::test]
async fn only_what_is_owed_is_read() {
    let due: Vec<_> = (90..100).map(|i| format!("s0_k{i}")).collect();
    // Two settled samples are read again.
    assert_eq!(resumed(|_| {}).await, (due, vec![("000000.tar".to_owned(), 88 * 1024)]));
}

#[tokio::test]
async fn an_index_that_is_of_no_use_costs_only_reading() {
    let due: Vec<_> = (90..100).map(|i| format!("s0_k{i}")).collect();
    let path = "index/000000.parquet";
    let whole = vec![("000000.tar".to_owned(), 0)];
    let broken = resumed(|store| store.insert(path, &b"PAR1 and no more"[..])).await;
    assert_eq!(broken, (due.clone(), whole.clone()));
    // The tar has grown since.
    let longer = |store: &Memory| {
        let key = |i| format!("s0_k{i}");
        let files: Vec<_> = (0..100).map(|i| (format!("{}.txt", key(i)), key(i))).collect();
        let mut files: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_bytes())).collect();
        files.insert(0, ("README", b"moves all others"));
        store.insert("000000.tar", tar(&files));
    };
    assert_eq!(resumed(longer).await, (due.clone(), whole.clone()));
    let (manifest, store) = ragged_shards(&[3]);
    let other =
        index_shard(&store, manifest.leaf(0), "000000.tar").await.unwrap().encode().unwrap();
    assert_eq!(resumed(|store| store.insert(path, other)).await, (due, whole));
}

#[tokio::test]
async fn what_counts_samples_otherwise_is_refused() {
    let (manifest, store) = ragged_shards(&[3]);
    let twins = || shard_list(&manifest).open_twins(store.clone()).sample_index(None);
    for members in [twins().expand().key_rule(KeyRule::Pid), twins().expand().resync(true)] {
        let samples = members.group_by_keys().try_collect::<Vec<_>>().await;
        let error = samples.unwrap_err().to_string();
        assert!(error.contains("sample_index"), "{error}");
    }
    assert_eq!(twins().expand().group_by_keys().try_collect::<Vec<_>>().await.unwrap().len(), 3);
}

/// A shard that breaks after it was indexed: with the index as without, the sample before the broken place is whole, and what is lost
/// takes its place in the order.
#[tokio::test]
async fn a_shard_that_breaks_later_gives_the_same() {
    let (manifest, store) = ragged_shards(&[20, 20]);
    write_indexes(&manifest, &store).await;
    let mut bytes = store.get("000000.tar").unwrap().to_vec();
    bytes[13 * 1024] ^= 1;
    store.insert("000000.tar", bytes);
    let store = Watched::new(store);
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).sample_index(None).expand().group_by_keys().batch(1)
        };
        Loader::builder(&manifest, recipe).on_error(OnError::skip())
    };
    assert_eq!(assert_resumes(build, |batch| batch.heads[0].mark.ordinal).await, 33);
    // What was given up is counted once, wherever the run was cut.
    for taken in 0..=13 {
        let mut loader = build().start().unwrap();
        for _ in 0..taken {
            loader.next().await.unwrap().unwrap();
        }
        let checkpoint = loader.checkpoint();
        let mut loader = build().resume([checkpoint]).unwrap();
        while loader.try_next().await.unwrap().is_some() {}
        let skipped: u64 = loader.lanes().map(|(_, lane)| lane.sources[0].skipped).sum();
        assert_eq!(skipped, 1, "cut after {taken}");
    }
}
