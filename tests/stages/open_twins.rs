use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt, TryStreamExt};
use shardstream::prelude::*;
use shardstream::shard::DataSet;
use shardstream::store::{ByteRange, ByteStream, Meta};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_test::{assert_pending, assert_ready, task};

use super::support::{all, by_hand, grouped, settle, shown, tars};

/// A store that notes what is read.
#[derive(Debug, Clone, Default)]
struct Watched {
    inner: Memory,
    read: Arc<Mutex<Vec<String>>>,
    advice: Option<usize>,
}

impl Watched {
    fn read(&self) -> Vec<String> {
        self.read.lock().unwrap().clone()
    }
}

impl Store for Watched {
    fn ahead(&self, path: &str) -> usize {
        self.advice.unwrap_or_else(|| self.inner.ahead(path))
    }

    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.read.lock().unwrap().push(path.to_owned());
        self.inner.read(path, range)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        self.inner.head(path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        self.inner.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.inner.put(path, bytes)
    }
}

#[tokio::test]
async fn the_next_shard_is_opened_ahead() {
    let (manifest, _) = tars(&[&[], &[], &[], &[]]);
    for (ahead, want) in [(0, 1), (1, 2), (2, 3), (9, 4)] {
        let store = Watched::default();
        let mut opened = task::spawn(shard_list(&manifest).open_twins(store.clone()).ahead(ahead));
        assert!(store.read().is_empty(), "nothing before the first poll");
        let first = assert_ready!(opened.poll_next()).unwrap().unwrap();
        assert_eq!((first.shard.place, store.read().len()), (0, want), "{ahead} ahead");
    }
}

#[tokio::test]
async fn the_store_advises_how_far_ahead() {
    let (manifest, _) = tars(&[&[], &[], &[], &[]]);
    for (advice, want) in [(None, 2), (Some(0), 1), (Some(2), 3)] {
        let store = Watched { advice, ..Watched::default() };
        let mut opened = task::spawn(shard_list(&manifest).open_twins(Arc::new(store.clone())));
        assert!(assert_ready!(opened.poll_next()).is_some());
        assert_eq!(store.read().len(), want, "{advice:?} advised");
    }
}

#[tokio::test]
async fn twins_are_opened_together_in_the_order_of_the_modalities() {
    let store = Watched::default();
    let wdinfo = r#"{"data_list": ["0.tar"], "root": ".", "data_keys": ["image", "caption"]}"#;
    store.inner.insert("d/wdinfo.json", wdinfo);
    let manifest = DataSet::at("d").load(&store).await.unwrap();
    store.read.lock().unwrap().clear();
    let twins = shard_list(&manifest).open_twins(store.clone()).try_next().await.unwrap().unwrap();
    let tars: Vec<_> = twins
        .tars
        .iter()
        .map(|tar| (tar.modality.as_deref().unwrap(), tar.path.as_str()))
        .collect();
    assert_eq!(tars, [("image", "d/image/0.tar"), ("caption", "d/caption/0.tar")]);
    assert_eq!(store.read(), ["d/image/0.tar", "d/caption/0.tar"]);
}

#[tokio::test]
async fn a_tar_that_is_not_there_costs_its_shard() {
    let (_, store) = tars(&[&[("a.txt", "1")], &[("b.txt", "2")]]);
    let manifest = Manifest::of_shards(["0.tar", "lost.tar", "1.tar"]).unwrap();
    let out: Vec<_> = all(grouped(&manifest, &store)).await.iter().map(shown).collect();
    assert!(out[1].starts_with("read: lost.tar"), "{out:?}");
    assert_eq!((out[0].as_str(), out[2].as_str(), out.len()), ("a: txt=1", "b: txt=2", 3));
}

/// A store whose objects never come; it tells when nobody waits for them any more.
#[derive(Debug)]
struct Silent(Mutex<Option<oneshot::Sender<()>>>);

impl Store for Silent {
    fn read(&self, _: &str, _: ByteRange) -> ByteStream {
        let alive = self.0.lock().unwrap().take();
        stream::pending()
            .map(move |item| {
                let _ = &alive;
                item
            })
            .boxed()
    }

    fn head<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Meta>> {
        Box::pin(async { Err(Error::store("silent")) })
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        Box::pin(async { Err(Error::store("silent")) })
    }

    fn put<'a>(&'a self, _: &'a str, _: Bytes) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(Error::store("silent")) })
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_its_tasks() {
    let (manifest, _) = tars(&[&[]]);
    let (alive, mut ended) = oneshot::channel();
    let mut whole =
        shard_list(&manifest).open_twins(Silent(Mutex::new(Some(alive)))).expand().boxed();
    assert_pending!(task::spawn(&mut whole).poll_next());
    settle().await;
    assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
    drop(whole);
    settle().await;
    assert_eq!(ended.try_recv(), Err(TryRecvError::Closed), "the task is gone, and its end of it");
}

#[tokio::test]
async fn waking_errors_sizes_and_the_end() {
    let (manifest, store) = tars(&[&[], &[]]);
    let shards: Vec<_> = shard_list(&manifest).try_collect().await.unwrap();
    let (feed, stream) = by_hand();
    let mut opened = task::spawn(stream.open_twins(store));
    assert_pending!(opened.poll_next());
    for shard in shards {
        feed.send(Ok(shard)).unwrap();
        assert!(opened.is_woken());
        assert!(assert_ready!(opened.poll_next()).unwrap().is_ok());
        assert_pending!(opened.poll_next());
    }
    feed.send(Err(Error::config("nothing to do"))).unwrap();
    assert!(assert_ready!(opened.poll_next()).unwrap().is_err());
    drop(feed);
    assert!(assert_ready!(opened.poll_next()).is_none() && opened.is_terminated());
    assert!(assert_ready!(opened.poll_next()).is_none());
    assert_eq!(opened.size_hint(), (0, Some(0)));

    let opened = shard_list(&manifest).open_twins(Memory::new());
    assert_eq!(opened.size_hint(), (2, Some(2)));
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    crate::support::assert_chain_resumes(|lane, store| {
        lane.shard_list()
            .split_by_rank()
            .split_by_worker()
            .open_twins(store)
            .ahead(3)
            .expand()
            .group_by_keys()
    })
    .await;
}
