//! One store for every path and URL.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::location::{Location, redact};
use super::{ByteRange, ByteStream, Local, Memory, Meta, RemoteOptions, Store};
#[cfg(feature = "http")]
use super::{Http, Remote};
use crate::error::{Error, Result};

/// How [`Stores`] reads.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// What lies behind a network.
    pub remote: RemoteOptions,
}

/// Takes any path or URL and hands it to the store it belongs to: a local path (anything without `scheme://`),
/// `file://`, `memory://`, `http(s)://`, `s3://`, `gs://`, `az://`, `abfs://`.
///
/// Clones share everything: connections, budget, cache.
///
/// ```
/// use shardstream::store::{Store, StoreOptions, Stores, read_all};
/// # tokio_test::block_on(async {
/// let stores = Stores::new(StoreOptions::default())?;
/// stores.memory().insert("a/0.tar", "hello");
/// assert_eq!(read_all(&stores, "memory://a/0.tar", 1000).await?, "hello");
/// # Ok::<(), shardstream::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Stores {
    memory: Memory,
    #[cfg(feature = "http")]
    http: Remote<Http>,
}

/// A store and the path it takes.
struct Route {
    store: Arc<dyn Store>,
    path: String,
    /// What was taken off the front, to be put back in listings.
    prefix: &'static str,
}

impl Stores {
    /// With these options. Nothing is opened or asked yet.
    ///
    /// # Errors
    /// If the options can't work.
    pub fn new(options: StoreOptions) -> Result<Self> {
        let StoreOptions { remote } = options;
        Ok(Self {
            memory: Memory::new(),
            #[cfg(feature = "http")]
            http: Remote::new(Http::new()?, remote)?,
        })
    }

    /// The objects that `memory://` URLs name.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn route(&self, path: &str) -> Result<Route> {
        let to = |store, path: &str, prefix| Route { store, path: path.to_owned(), prefix };
        match Location::parse(path)? {
            Location::File(path) => Ok(to(Arc::new(Local), &path, "")),
            Location::Memory(path) => Ok(to(Arc::new(self.memory.clone()), path, "memory://")),
            #[cfg(feature = "http")]
            Location::Http(url) => Ok(to(Arc::new(self.http.clone()), url, "")),
            #[cfg(not(feature = "http"))]
            Location::Http(_) => {
                Err(Error::config("built without the feature http").in_shard(redact(path)))
            }
            Location::Bucket { .. } => {
                Err(Error::config("built without the feature for such URLs").in_shard(redact(path)))
            }
        }
    }
}

impl Store for Stores {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        match self.route(path) {
            Ok(route) => route.store.read(&route.path, range),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        async move {
            let route = self.route(path)?;
            let meta = route.store.head(&route.path).await?;
            Ok(Meta { path: path.to_owned(), ..meta })
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        async move {
            let route = self.route(prefix)?;
            let mut found = route.store.list(&route.path).await?;
            if !route.prefix.is_empty() {
                found.iter_mut().for_each(|meta| meta.path.insert_str(0, route.prefix));
            }
            Ok(found)
        }
        .boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        async move {
            let route = self.route(path)?;
            route.store.put(&route.path, bytes).await
        }
        .boxed()
    }
}
