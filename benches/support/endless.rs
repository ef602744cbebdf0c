//! A loader that never ends, over tars in memory.

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use shardstream::loader::Builder;
use shardstream::prelude::*;
use shardstream::store::{ByteRange, ByteStream, Meta};
use shardstream::testing;

/// Ten tars in memory, under any number of names: `<anything><digit>.tar`.
#[derive(Debug, Clone)]
pub(crate) struct Ten(pub(crate) Memory);

impl Ten {
    fn name(path: &str) -> String {
        format!("00000{}.tar", &path[path.len() - 5..path.len() - 4])
    }
}

impl Store for Ten {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.0.read(&Self::name(path), range)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        Box::pin(async move { self.0.head(&Self::name(path)).await })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        self.0.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.0.put(path, bytes)
    }
}

pub(crate) type Samples = Batch<Vec<Fields<Bytes>>>;

pub(crate) fn plain(manifest: &Manifest, store: impl Store + Clone) -> Builder<Samples> {
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        shards.open_twins(store.clone()).expand().group_by_keys().shuffle(1000).batch(64)
    };
    Loader::builder(manifest, recipe)
}

/// Ten tars of a thousand samples each, over and over, in two lanes.
pub(crate) fn endless() -> Builder<Samples> {
    let (_, tars) = testing::shards(10, 1000);
    let manifest = Manifest::of_shards((0..10).map(|i| format!("{i:07}.tar"))).unwrap();
    plain(&manifest, Ten(tars)).workers(2).epochs(1 << 20)
}

/// Takes batches until there were so many samples.
pub(crate) async fn take<B: shardstream::sample::Heads + Send + 'static>(
    loader: &mut Loader<B>,
    samples: usize,
) {
    let mut taken = 0;
    while taken < samples {
        taken += loader.next().await.unwrap().unwrap().heads().len();
    }
}
