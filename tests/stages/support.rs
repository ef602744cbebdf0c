//! Samples made by hand, and a stream that is fed by hand.

use std::sync::Arc;

use futures::StreamExt;
use shardstream::position::Mark;
use shardstream::prelude::*;
use shardstream::sample::{Head, Key, Origin};
use shardstream::stages::{GroupByKeys, OpenTwins, ShardList};
use shardstream::testing;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// What a stage yields, until it ends.
pub(crate) async fn all<T>(stream: impl futures::Stream<Item = T>) -> Vec<T> {
    stream.collect().await
}

pub(crate) fn origin(epoch: u64) -> Arc<Origin> {
    Arc::new(Origin { seed: 3, epoch, shard: "a.tar".to_owned(), ..Origin::default() })
}

/// The sample with this number: its body is the number, its key `k` and the number.
pub(crate) fn sample(epoch: u64, ordinal: u64) -> Sample<u64> {
    let origin = origin(epoch);
    let mark = Mark { key: origin.random_key(ordinal), ..Mark::read(ordinal, ordinal) };
    Sample { head: Head::new(Key::from(&*format!("k{ordinal}")), origin, mark), body: ordinal }
}

/// The samples of an epoch in order.
pub(crate) fn samples(epoch: u64, n: u64) -> impl Iterator<Item = Result<Sample<u64>>> {
    (0..n).map(move |ordinal| Ok(sample(epoch, ordinal)))
}

/// A fault in the place of a sample.
pub(crate) fn fault(epoch: u64, ordinal: u64) -> Error {
    sample(epoch, ordinal).head.explain(Error::decode("broken"))
}

/// The number of a sample or of the one whose place an error takes.
pub(crate) fn ordinal<T>(item: &Result<Sample<T>>) -> u64 {
    match item {
        Ok(sample) => sample.head.mark.ordinal,
        Err(error) => error.position().unwrap().ordinal,
    }
}

/// A stream whose items come when they are sent.
pub(crate) fn by_hand<T>() -> (mpsc::UnboundedSender<T>, UnboundedReceiverStream<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, UnboundedReceiverStream::new(receiver))
}

/// Lets other tasks do what they can.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Single tars `0.tar`, `1.tar` … with these files.
pub(crate) fn tars(tars: &[&[(&str, &str)]]) -> (Manifest, Memory) {
    let store = Memory::new();
    let mut paths = Vec::new();
    for (at, files) in tars.iter().enumerate() {
        store.insert(format!("{at}.tar"), tar(files));
        paths.push(format!("{at}.tar"));
    }
    (Manifest::of_shards(paths).unwrap(), store)
}

pub(crate) fn tar(files: &[(&str, &str)]) -> bytes::Bytes {
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    testing::tar(&files)
}

/// The samples of all shards, in order.
pub(crate) fn grouped(
    manifest: &Manifest,
    store: &Memory,
) -> GroupByKeys<shardstream::stages::Expand<OpenTwins<ShardList>>> {
    shard_list(manifest).open_twins(store.clone()).expand().group_by_keys()
}

/// Key and fields as text; an error as its line.
pub(crate) fn shown(item: &Result<Sample<Fields<bytes::Bytes>>>) -> String {
    match item {
        Ok(sample) => {
            let fields = sample
                .body
                .iter()
                .map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
            format!("{}:{}", sample.key(), fields.collect::<String>())
        }
        Err(error) => error.to_string(),
    }
}

/// Every checkpoint of a chain in a loader gives the rest of the run.
pub(crate) async fn assert_chain_resumes<S, B>(
    chain: impl Fn(&Lane, Memory) -> S + Clone + Send + Sync + 'static,
) where
    S: futures::Stream<Item = Result<B>> + Send + 'static,
    B: shardstream::sample::Heads + Send + 'static,
{
    let (manifest, store) = shardstream::testing::ragged_shards(&[5, 0, 7, 3, 4]);
    let build = || {
        let (chain, store) = (chain.clone(), store.clone());
        let recipe = move |lane: &Lane| chain(lane, store.clone());
        Loader::builder(&manifest, recipe).seed(3).lanes(2).epochs(2).on_error(OnError::skip())
    };
    let keys =
        |batch: &B| batch.heads().iter().map(|head| head.key.to_string()).collect::<Vec<_>>();
    assert!(shardstream::testing::assert_resumes(build, keys).await > 5);
}
