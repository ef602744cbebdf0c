//! Objects in memory: for examples, tests, and data that is made on the spot.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::{ByteRange, ByteStream, Meta, Store, Upload};
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
    objects: Arc<RwLock<Objects>>,
}

#[derive(Debug, Default)]
struct Objects {
    by_path: BTreeMap<String, Object>,
    /// Grows with each change: the version of what is set next.
    version: u64,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    version: u64,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an object.
    pub fn insert(&self, path: impl Into<String>, bytes: impl Into<Bytes>) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.version += 1;
        let object = Object { bytes: bytes.into(), version: objects.version };
        objects.by_path.insert(path.into(), object);
    }

    /// An object's bytes.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Bytes> {
        self.find(path).ok().map(|object| object.bytes)
    }

    fn find(&self, path: &str) -> Result<Object> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .by_path
            .get(path)
            .cloned()
            .ok_or_else(|| Error::store("no such object").in_shard(super::redact(path)))
    }
}

fn meta(path: &str, object: &Object) -> Meta {
    let etag = Some(format!("\"{}\"", object.version));
    Meta { path: path.to_owned(), size: Some(object.bytes.len() as u64), etag, modified: None }
}

impl Store for Memory {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let (store, path) = (self.clone(), path.to_owned());
        let open = async move {
            let bytes = store.find(&path).map(|Object { bytes, .. }| {
                let len = bytes.len() as u64;
                let end = range.end.unwrap_or(len).min(len);
                let start = range.start.min(end);
                // Both are at most the length, which is a usize.
                bytes.slice(start as usize..end as usize)
            });
            futures::stream::iter(
                (!matches!(&bytes, Ok(bytes) if bytes.is_empty())).then_some(bytes),
            )
        };
        open.into_stream().flatten().boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        std::future::ready(self.find(path).map(|object| meta(path, &object))).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let below = prefix.trim_end_matches('/');
        let inside = |path: &str| {
            below.is_empty() || path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'))
        };
        let found = objects.by_path.iter().filter(|(path, _)| inside(path));
        std::future::ready(Ok(found.map(|(path, object)| meta(path, object)).collect())).boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.insert(path, bytes);
        std::future::ready(Ok(())).boxed()
    }

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        let upload =
            Growing { memory: self.clone(), path: path.to_owned(), bytes: BytesMut::new() };
        std::future::ready(Ok(Box::new(upload) as Box<dyn Upload>)).boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).by_path.remove(path);
        std::future::ready(Ok(())).boxed()
    }
}

/// An object that has not got its name yet.
#[derive(Debug)]
struct Growing {
    memory: Memory,
    path: String,
    bytes: BytesMut,
}

impl Upload for Growing {
    fn write(&mut self, part: Bytes) -> BoxFuture<'_, Result<()>> {
        self.bytes.extend_from_slice(&part);
        std::future::ready(Ok(())).boxed()
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        std::future::ready(Ok(())).boxed()
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<()>> {
        self.memory.insert(std::mem::take(&mut self.path), self.bytes.split().freeze());
        std::future::ready(Ok(())).boxed()
    }

    fn abort(&mut self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}
