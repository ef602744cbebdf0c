//! Writing in parts: over the client of buckets, with an object store in memory, and with servers that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use shardstream::store::transport::{Attempt, Failure, FailureKind, Reply, Transport};
use shardstream::store::upload::PART;
use shardstream::store::{
    Bucket, ByteRange, Local, Memory, Meta, Remote, RemoteOptions, Store, StoreOptions, Stores,
};

use crate::conformance::{pattern, uploads, whole};

fn options() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.part = 100_000;
    options.retry.first_delay = Duration::from_millis(1);
    options.retry.longest_delay = Duration::from_millis(2);
    options
}

#[tokio::test]
async fn a_bucket_keeps_the_laws() {
    let store = Remote::new(Bucket::new("s3://bucket", InMemory::new()), options()).unwrap();
    uploads(&store, "s3://bucket/up").await;
}

#[tokio::test]
async fn files_and_memory_keep_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    uploads(&Local, folder.path().to_str().unwrap()).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left");
    uploads(&Memory::new(), "base").await;
    uploads(&Stores::new(StoreOptions::default()).unwrap(), "memory://base").await;
    let error = Stores::new(StoreOptions::default()).unwrap();
    let error = error.upload("http://127.0.0.1:1/x").await.unwrap_err();
    assert!(
        error.to_string().contains("can't be written here") || !error.is_transient(),
        "{error}"
    );
}

/// A bucket on a bad day: every second request fails, after it was carried out or before.
#[derive(Debug, Clone)]
struct Failing {
    inner: Arc<Bucket>,
    requests: Arc<AtomicUsize>,
    sending: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    aborted: Arc<AtomicUsize>,
    refuse: Option<u16>,
}

impl Failing {
    fn new(refuse: Option<u16>) -> Self {
        let inner = Arc::new(Bucket::new("s3://bucket", InMemory::new()));
        let count = || Arc::new(AtomicUsize::new(0));
        Self { inner, requests: count(), sending: count(), most: count(), aborted: count(), refuse }
    }

    async fn harmed<T>(&self, work: BoxFuture<'_, Attempt<T>>) -> Attempt<T> {
        let lost = || Failure::new(FailureKind::Broken, "the connection broke");
        match self.requests.fetch_add(1, Ordering::SeqCst) % 4 {
            0 => Err(lost()),
            1 => {
                // Carried out, and the answer is lost.
                work.await?;
                Err(lost())
            }
            _ => work.await,
        }
    }
}

impl Transport for Failing {
    fn get<'a>(
        &'a self,
        path: &'a str,
        range: ByteRange,
        etag: Option<&'a str>,
    ) -> BoxFuture<'a, Attempt<Reply>> {
        Transport::get(&*self.inner, path, range, etag)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<Meta>> {
        Transport::head(&*self.inner, path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Attempt<Meta>> {
        self.inner.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Attempt<()>> {
        Transport::put(&*self.inner, path, bytes)
    }

    fn begin<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<String>> {
        self.harmed(self.inner.begin(path)).boxed()
    }

    fn part<'a>(
        &'a self,
        path: &'a str,
        upload: &'a str,
        index: usize,
        bytes: Bytes,
    ) -> BoxFuture<'a, Attempt<String>> {
        if let Some(code) = self.refuse {
            return async move { Err(Failure::status(code, None, "")) }.boxed();
        }
        async move {
            self.most.fetch_max(self.sending.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let sent = self.harmed(self.inner.part(path, upload, index, bytes)).await;
            self.sending.fetch_sub(1, Ordering::SeqCst);
            sent
        }
        .boxed()
    }

    fn complete<'a>(
        &'a self,
        path: &'a str,
        upload: &'a str,
        parts: Vec<String>,
    ) -> BoxFuture<'a, Attempt<()>> {
        async move {
            // Once it is complete there is no upload of that name: as S3 says it.
            let gone = |failure: Failure| match failure.kind {
                FailureKind::Broken if failure.message.contains("MultipartUpload not found") => {
                    Failure::status(404, None, "")
                }
                _ => failure,
            };
            let work = self.inner.complete(path, upload, parts);
            self.harmed(work.map(move |done| done.map_err(gone)).boxed()).await
        }
        .boxed()
    }

    fn abort<'a>(&'a self, path: &'a str, upload: &'a str) -> BoxFuture<'a, Attempt<()>> {
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.inner.abort(path, upload)
    }
}

#[tokio::test]
async fn answers_that_are_lost_cost_nothing() {
    let data = pattern(6 * PART + 5);
    // Whatever the first answer that is lost belongs to.
    for first in 0..4 {
        let server = Failing::new(None);
        server.requests.store(first, Ordering::SeqCst);
        let store = Remote::new(server.clone(), options()).unwrap();
        let mut upload = store.upload("s3://bucket/x").await.unwrap();
        for at in (0..data.len()).step_by(PART) {
            upload.write(data.slice(at..data.len().min(at + PART))).await.unwrap();
        }
        upload.complete().await.unwrap();
        drop(upload);
        assert!(whole(&store, "s3://bucket/x", ByteRange::ALL).await.unwrap() == data, "{first}");
        assert_eq!(server.aborted.load(Ordering::SeqCst), 0);
        assert_eq!(server.most.load(Ordering::SeqCst), 2, "so many parts are held");
    }
}

#[tokio::test]
async fn what_is_refused_is_given_up() {
    let server = Failing::new(Some(403));
    let store = Remote::new(server.clone(), options()).unwrap();
    let mut upload = store.upload("s3://bucket/x").await.unwrap();
    upload.write(pattern(100)).await.unwrap();
    let error = upload.flush().await.unwrap_err();
    assert!(error.to_string().contains("403") && !error.is_transient(), "{error}");
    drop(upload);
    while server.aborted.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(store.head("s3://bucket/x").await.is_err());
}
