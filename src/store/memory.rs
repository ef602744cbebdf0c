//! Objects in memory: for examples, tests, and data that is made on the spot.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::{ByteRange, ByteStream, Meta, Store};
use crate::error::{Error, Result};

/// A map from path to bytes. Clones share it.
///
/// ```
/// use shardstream::store::{Memory, Store, ByteRange};
/// use futures::StreamExt;
/// # tokio_test::block_on(async {
/// let store = Memory::new();
/// store.insert("a/b.tar", "hello");
/// let chunk = store.read("a/b.tar", ByteRange { start: 1, end: Some(4) }).next().await.unwrap().unwrap();
/// assert_eq!(chunk, "ell");
/// # });
/// ```
#[derive(Debug, Clone, Default)]
pub struct Memory {
    objects: Arc<RwLock<BTreeMap<String, Bytes>>>,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an object.
    pub fn insert(&self, path: impl Into<String>, bytes: impl Into<Bytes>) {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).insert(path.into(), bytes.into());
    }

    /// An object's bytes.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Bytes> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn find(&self, path: &str) -> Result<Bytes> {
        self.get(path).ok_or_else(|| Error::store("no such object").in_shard(path))
    }
}

fn meta(path: &str, bytes: &Bytes) -> Meta {
    Meta { path: path.to_owned(), size: Some(bytes.len() as u64), etag: None, modified: None }
}

impl Store for Memory {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let bytes = self.find(path).map(|bytes| {
            let len = bytes.len() as u64;
            let end = range.end.unwrap_or(len).min(len);
            let start = range.start.min(end);
            // Both are at most the length, which is a usize.
            bytes.slice(start as usize..end as usize)
        });
        futures::stream::iter([bytes]).filter(|item| std::future::ready(!matches!(item, Ok(b) if b.is_empty()))).boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        std::future::ready(self.find(path).map(|bytes| meta(path, &bytes))).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let below = prefix.trim_end_matches('/');
        let inside = |path: &str| below.is_empty() || path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'));
        let found = objects.iter().filter(|(path, _)| inside(path)).map(|(path, bytes)| meta(path, bytes)).collect();
        std::future::ready(Ok(found)).boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.insert(path, bytes);
        std::future::ready(Ok(())).boxed()
    }
}
