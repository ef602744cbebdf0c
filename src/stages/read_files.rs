//! `read_files`: loose files as samples, for comparison with shards and for those who have none.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Error, Result, Scope};
use crate::position::Mark;
use crate::recipe;
use crate::sample::{Fields, Head, Key, Origin, Sample, key};
use crate::shard::{DistributedSampler, FileList};
use crate::store::{Store, read_all};

/// The largest file that is read.
const LIMIT: u64 = 1 << 30;

/// Reads the files that a sampler gives to its rank, each as a sample with one field named for its extension, and `cls` with the
/// number of its class if there are classes. Goes on with `shuffle`, `decode`, `batch` and the like.
///
/// Order: the sampler's. Memory: `ahead` files, which are read in tasks.
///
/// # Resuming
/// Each file is a shard of one sample: its place is the place in the order over all ranks, its lane the rank.
///
/// # Errors
/// A file that can't be read is an `Err` in its place; the next one follows.
///
/// # Panics
/// If `ahead` is 0, or when polled outside a tokio runtime.
///
/// ```
/// use std::sync::Arc;
/// use futures::TryStreamExt;
/// use shardstream::shard::{DistributedSampler, image_folder};
/// use shardstream::stages::read_files;
/// use shardstream::store::Memory;
/// use shardstream::topology::Rank;
/// # tokio_test::block_on(async {
/// let store = Memory::new();
/// store.insert("train/cat/1.jpg", "a cat");
/// let files = Arc::new(image_folder(&store, "train").await?);
/// let sampler = DistributedSampler::new(files.len(), Rank::SINGLE)?;
/// let samples: Vec<_> = read_files(Arc::new(store), files, &sampler, 8).try_collect().await?;
/// assert_eq!(samples[0].key().as_str(), Some("cat/1"));
/// assert_eq!((&samples[0].body.get("jpg").unwrap()[..], &samples[0].body.get("cls").unwrap()[..]), (&b"a cat"[..], &b"0"[..]));
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
pub fn read_files(
    store: Arc<dyn Store>,
    files: Arc<FileList>,
    sampler: &DistributedSampler,
    ahead: usize,
) -> impl Stream<Item = Result<Sample<Fields<Bytes>>>> + Send + 'static {
    assert!(ahead > 0, "read_files with 0 ahead: nothing would ever be read");
    recipe::note(|| "read_files".into());
    let (seed, epoch, lane) = (sampler.seed_given(), sampler.epoch(), sampler.rank().rank());
    let reads = sampler.places().zip(0..).map(move |((place, number, repeat), ordinal)| {
        let origin =
            Origin { seed, epoch, lane, source: 0, place, repeat, shard: files.path(number) };
        let (store, files) = (Arc::clone(&store), Arc::clone(&files));
        async move {
            AbortOnDropHandle::new(tokio::spawn(async move {
                read(&*store, &files, number, origin, ordinal).await
            }))
            .await
        }
    });
    futures::stream::iter(reads).buffered(ahead).map(|joined| match joined {
        Ok(sample) => sample,
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => Err(Error::task("the runtime is shutting down")),
    })
}

async fn read(
    store: &dyn Store,
    files: &FileList,
    number: usize,
    origin: Origin,
    ordinal: u64,
) -> Result<Sample<Fields<Bytes>>> {
    let name = files.name(number);
    let (stem, field) = key::split(name.as_bytes()).unwrap_or((name.as_bytes(), b"bin"));
    let mark = Mark { last: true, key: origin.random_key(ordinal), ..Mark::read(ordinal, 0) };
    let path = origin.shard.clone();
    let head = Head::new(Key::from(Bytes::copy_from_slice(stem)), Arc::new(origin), mark);
    match read_all(store, &path, LIMIT).await {
        Ok(bytes) => {
            let mut fields = Fields::with_capacity(2);
            fields.insert(String::from_utf8_lossy(field).into_owned(), bytes);
            if let Some(class) = files.class(number) {
                fields.insert("cls", Bytes::from(class.to_string()));
            }
            Ok(Sample { head, body: fields })
        }
        Err(error) => Err(head.explain(error.with_scope(Scope::Sample))),
    }
}
