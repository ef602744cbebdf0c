//! Where bytes come from: [`Store`], implemented for files, memory and object stores.

mod budget;
mod buffer;
pub mod cache;
mod cache_disk;
mod cache_file;
mod cache_fill;
pub mod decompress;
mod fit;
#[cfg(feature = "http")]
mod http;
pub mod local;
mod local_read;
mod location;
pub mod memory;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
mod object;
mod pace;
mod part;
mod pipe;
#[cfg(feature = "s3")]
mod profile;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
mod provider;
mod quantity;
pub mod remote;
mod remote_options;
mod retry;
mod router;
pub mod transport;
pub mod upload;
mod width;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};

pub use budget::{Budget, Limit, Reservation};
pub use cache::{Cache, CacheOptions};
#[cfg(feature = "http")]
pub use http::Http;
pub use local::Local;
pub use location::{Location, Provider};
pub use memory::Memory;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub use object::Bucket;
pub use quantity::{parse_duration, parse_size};
pub use remote::{Remote, RemoteOptions};
pub use retry::RetryOptions;
pub use router::{StoreOptions, Stores};
pub use upload::Upload;

use crate::error::Result;
pub use crate::redact::redact;

/// The bytes of an object from a place on, in chunks of any size, none of them empty. Ends after the last byte of the range; an
/// `Err` is the last item. Work runs ahead in tasks that end when the stream is dropped.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Which bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; `None` reads to the end.
    pub end: Option<u64>,
}

impl ByteRange {
    /// The whole object.
    pub const ALL: Self = Self { start: 0, end: None };
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Path, as [`Store::read`] takes it.
    pub path: String,
    /// Size in bytes, where it is known.
    pub size: Option<u64>,
    /// Version of the contents, where the store has such a thing.
    pub etag: Option<String>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
}

/// Where bytes come from. Small on purpose: wrappers (retry, limit, cache, parallel ranges) are stores too.
///
/// A path is what the manifest says, joined below the data set's root; each store documents its form.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The bytes of an object. Nothing is opened before the stream is polled; if it can't be opened, that is the first item.
    fn read(&self, path: &str, range: ByteRange) -> ByteStream;

    /// How many shards beyond the one that is being read are worth opening, unless [`open_twins`](crate::stages::ShardStream::open_twins)
    /// is told otherwise: more where it takes long until the first byte comes. `path` is one of the first shard's.
    fn ahead(&self, path: &str) -> usize {
        let _ = path;
        1
    }

    /// Size, version and time of change.
    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>>;

    /// All objects below a prefix (a folder), recursively, sorted by path. None, if there is no such folder.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>>;

    /// Writes a whole object so that nobody ever sees a part of it.
    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>>;

    /// Begins an object that is written part by part: for what is too large to be held.
    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        std::future::ready(Err(unsupported(path))).boxed()
    }

    /// Removes an object. One that is not there is no error.
    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Err(unsupported(path))).boxed()
    }
}

/// The error of a store that can't do everything.
fn unsupported(path: &str) -> crate::Error {
    crate::Error::config("this store can't write in parts, nor remove").in_shard(redact(path))
}

/// Reads a whole object into memory. For small things: manifests, indexes.
///
/// # Errors
/// As [`Store::read`]; or if the object has more than `limit` bytes.
pub async fn read_all(store: &dyn Store, path: &str, limit: u64) -> Result<Bytes> {
    use futures::StreamExt;

    let mut stream = store.read(path, ByteRange::ALL);
    let mut all = bytes::BytesMut::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk?);
        if all.len() as u64 > limit {
            return Err(crate::Error::store(format!("more than the {limit} bytes allowed"))
                .in_shard(redact(path)));
        }
    }
    Ok(all.freeze())
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        (**self).read(path, range)
    }

    fn ahead(&self, path: &str) -> usize {
        (**self).ahead(path)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        (**self).head(path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        (**self).list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        (**self).put(path, bytes)
    }

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        (**self).upload(path)
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        (**self).delete(path)
    }
}
