//! One store for every path and URL.

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use super::Provider;
use super::location::Location;
use super::{ByteRange, ByteStream, CacheOptions, Local, Memory, Meta, RemoteOptions, Store};
#[cfg(feature = "http")]
use super::{Cache, Http, Remote, cache::Disk};
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
    http: Arc<dyn Store>,
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    buckets: Arc<Buckets>,
}

/// Puts the cache in front of a remote store, if there is one.
#[cfg(feature = "http")]
fn cached(store: impl Store, disk: Option<&Arc<Disk>>) -> Arc<dyn Store> {
    match disk {
        Some(disk) => Arc::new(Cache::on(store, Arc::clone(disk))),
        None => Arc::new(store),
    }
}

/// The buckets that were asked for so far, by scheme and name.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
struct Buckets {
    options: StoreOptions,
    disk: Option<Arc<Disk>>,
    known: Mutex<HashMap<String, Arc<dyn Store>>>,
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
impl Buckets {
    fn find(&self, provider: Provider, name: &str) -> Result<Arc<dyn Store>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = known.get(name) {
            return Ok(Arc::clone(store));
        }
        let bucket = super::provider::connect(provider, name, &self.options.settings)?;
        let store = cached(Remote::new(bucket, self.options.remote.clone())?, self.disk.as_ref());
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
        #[cfg(feature = "http")]
        let disk = options.cache.clone().map(Disk::new).transpose()?.map(Arc::new);
        #[cfg(not(feature = "http"))]
        let _ = options;
        Ok(Self {
            memory: Memory::new(),
            #[cfg(feature = "http")]
            http: cached(Remote::new(Http::new()?, options.remote.clone())?, disk.as_ref()),
            #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
            buckets: Arc::new(Buckets { options, disk, known: Mutex::default() }),
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
            Location::Http(url) => Ok(to(Arc::clone(&self.http), url, "")),
            #[cfg(not(feature = "http"))]
            Location::Http(_) => {
                Err(Error::config("built without the feature http").in_shard(super::redact(path)))
            }
            #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
            Location::Bucket { provider, bucket, .. } => {
                Ok(to(self.buckets.find(provider, bucket)?, path, ""))
            }
            #[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
            Location::Bucket { provider, .. } => {
                Err(Error::config(format!("built without the feature for {provider:?}"))
                    .in_shard(super::redact(path)))
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
