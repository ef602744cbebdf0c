//! One store for every path and URL.

#[cfg(feature = "http")]
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::location::Location;
use super::{
    ByteRange, ByteStream, CacheOptions, Local, Memory, Meta, RemoteOptions, Store, Upload,
};
#[cfg(feature = "http")]
use super::{Cache, Http, Remote, cache_disk::Disk, transport::Transport};
#[cfg(not(feature = "s3"))]
use crate::error::Error;
use crate::error::Result;

/// How [`Stores`] reads.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// What lies behind a network.
    pub remote: RemoteOptions,
    /// Keep remote objects on a local disk.
    pub cache: Option<CacheOptions>,
    /// Settings of buckets by the names that `object_store` knows (`aws_region`, `aws_endpoint`, `aws_request_payer`,
    /// `google_service_account`, `azure_storage_account_name` ...). They come after the environment (`AWS_REGION` ...) and, for S3, the
    /// profile that `AWS_PROFILE` names.
    pub settings: Vec<(String, String)>,
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
#[derive(Clone)]
pub struct Stores {
    memory: Memory,
    #[cfg(feature = "http")]
    remotes: Arc<Remotes>,
}

/// The remote stores that were asked for so far: one for http, one for each bucket.
#[cfg(feature = "http")]
struct Remotes {
    options: StoreOptions,
    disk: Option<Arc<Disk>>,
    known: Mutex<HashMap<String, Arc<dyn Store>>>,
}

#[cfg(feature = "http")]
impl Remotes {
    fn new(options: StoreOptions) -> Result<Self> {
        options.remote.check()?;
        let disk = options.cache.clone().map(Disk::new).transpose()?.map(Arc::new);
        Ok(Self { options, disk, known: Mutex::default() })
    }

    /// The store of this name; made when it is asked for the first time, with the cache in front if there is one.
    fn find<T: Transport>(
        &self,
        name: &str,
        connect: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<dyn Store>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = known.get(name) {
            return Ok(Arc::clone(store));
        }
        let store = Remote::new(connect()?, self.options.remote.clone())?;
        let store: Arc<dyn Store> = match &self.disk {
            Some(disk) => Arc::new(Cache::on(store, Arc::clone(disk))),
            None => Arc::new(store),
        };
        known.insert(name.to_owned(), Arc::clone(&store));
        Ok(store)
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the settings: they may hold secrets.
        f.debug_struct("Stores").finish_non_exhaustive()
    }
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
        #[cfg(not(feature = "http"))]
        let _ = options;
        Ok(Self {
            memory: Memory::new(),
            #[cfg(feature = "http")]
            remotes: Arc::new(Remotes::new(options)?),
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
            Location::Http(url) => Ok(to(self.remotes.find("http", Http::new)?, url, "")),
            #[cfg(not(feature = "http"))]
            Location::Http(_) => Err(Error::config("built without the feature http")
                .in_shard(crate::redact::redact(path))),
            #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
            Location::Bucket { provider, bucket, .. } => {
                let connect =
                    || super::provider::connect(provider, bucket, &self.remotes.options.settings);
                Ok(to(self.remotes.find(bucket, connect)?, path, ""))
            }
            #[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
            Location::Bucket { provider, .. } => {
                Err(Error::config(format!("built without the feature for {provider:?}"))
                    .in_shard(crate::redact::redact(path)))
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

    fn ahead(&self, path: &str) -> usize {
        self.route(path).map_or(1, |route| route.store.ahead(&route.path))
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

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        async move {
            let route = self.route(path)?;
            route.store.upload(&route.path).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let route = self.route(path)?;
            route.store.delete(&route.path).await
        }
        .boxed()
    }
}
