//! Keeps remote objects on a local disk.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::cache_disk::{Claim, Disk};
use super::cache_file::read_block;
use super::cache_fill::Filler;
use super::local::blocking;
use super::{ByteRange, ByteStream, Meta, Store, Upload};
use crate::error::{Error, Result};
use crate::redact::redact;

/// How often to look whether another process has finished.
const LOOK: Duration = Duration::from_millis(50);
/// How long another process may write nothing before we no longer wait for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the cache is, and how large it may grow.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CacheOptions {
    /// A folder for the cache alone; made if it is missing. Any number of processes may share it.
    pub folder: PathBuf,
    /// Bytes on disk. What was used longest ago goes first.
    pub size: u64,
}

impl CacheOptions {
    /// In this folder, up to so many bytes.
    pub fn new(folder: impl Into<PathBuf>, size: u64) -> Self {
        Self { folder: folder.into(), size }
    }
}

/// A store that keeps whole objects of another one on disk, by URL and `ETag`; objects without `ETag` or size are passed through.
///
/// Every read asks the inner store for the object's version first. An object that is not there is fetched by one process, however many
/// want it, at the pace of the network and not of its reader; the others wait and read the file. Each block is checked before it is
/// handed out; a damaged one is fetched again. A process that is killed leaves nothing that could be taken for a whole
/// object. If the disk is full, or can't be written for any other reason, the cache is turned off with a warning, and the data goes on.
///
/// Only a read of the whole object fills the cache.
#[derive(Debug)]
pub struct Cache<S> {
    inner: Arc<S>,
    disk: Arc<Disk>,
}

impl<S: Store> Cache<S> {
    /// In front of a store.
    ///
    /// # Errors
    /// If the folder can't be made.
    pub fn new(inner: S, options: CacheOptions) -> Result<Self> {
        Ok(Self::on(inner, Arc::new(Disk::new(options)?)))
    }

    pub(super) fn on(inner: S, disk: Arc<Disk>) -> Self {
        Self { inner: Arc::new(inner), disk }
    }
}

impl<S: Store> Store for Cache<S> {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let (sender, receiver) = mpsc::channel(2);
        let job = Job {
            inner: Arc::clone(&self.inner),
            disk: Arc::clone(&self.disk),
            path: path.to_owned(),
            at: range.start,
            end: range.end,
        };
        let open = async move {
            let task = AbortOnDropHandle::new(tokio::spawn(job.run(sender)));
            futures::stream::unfold((receiver, task), |(mut receiver, mut task)| async move {
                let Some(item) = receiver.recv().await else {
                    return match (&mut task).await {
                        Err(join) if join.is_panic() => {
                            std::panic::resume_unwind(join.into_panic())
                        }
                        _ => None,
                    };
                };
                Some((item, (receiver, task)))
            })
        };
        open.into_stream().flatten().boxed()
    }

    fn ahead(&self, path: &str) -> usize {
        self.inner.ahead(path)
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

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        self.inner.upload(path)
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        self.inner.delete(path)
    }
}

pub(super) type Sender = mpsc::Sender<Result<Bytes>>;

/// One read.
struct Job<S> {
    inner: Arc<S>,
    disk: Arc<Disk>,
    path: String,
    /// The next byte to hand out.
    at: u64,
    end: Option<u64>,
}

/// An object that may be cached.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) etag: String,
    pub(super) size: u64,
}

/// Nobody listens any more.
struct Gone;

impl<S: Store> Job<S> {
    async fn run(mut self, out: Sender) {
        // An error means that nobody listens.
        let _ = self.serve(&out).await;
    }

    async fn serve(&mut self, out: &Sender) -> Result<(), Gone> {
        let object = match self.inner.head(&self.path).await {
            Ok(meta) => self.cacheable(meta),
            Err(error) => return out.send(Err(error)).await.map_err(|_| Gone),
        };
        let Some(object) = object else { return self.pass(out).await };
        match self.claim(&object).await {
            Some(Claim::Hit(file)) => self.play(&object, file, out).await,
            Some(Claim::Fill(file, reading)) => self.fill(&object, file, reading, out).await,
            _ => self.pass(out).await,
        }
    }

    fn cacheable(&self, meta: Meta) -> Option<Object> {
        let (etag, size) = meta.etag.zip(meta.size).filter(|_| !self.disk.is_off())?;
        let digest =
            Sha256::new().chain_update(&self.path).chain_update([0]).chain_update(&etag).finalize();
        Some(Object { name: digest.iter().map(|byte| format!("{byte:02x}")).collect(), etag, size })
    }

    /// Waits for other processes as long as they make progress.
    async fn claim(&self, object: &Object) -> Option<Claim> {
        let fills = self.at == 0 && self.end.is_none_or(|end| end >= object.size);
        let (mut written, mut since) = (None, tokio::time::Instant::now());
        loop {
            let (disk, object) = (Arc::clone(&self.disk), object.clone());
            match blocking(move || Ok(disk.claim(&object.name, object.size, fills))).await.ok()? {
                Ok(Claim::Wait(at)) if written != Some(at) => {
                    (written, since) = (Some(at), tokio::time::Instant::now())
                }
                Ok(Claim::Wait(_)) if since.elapsed() > PATIENCE => return None,
                Ok(Claim::Wait(_)) => {}
                Ok(Claim::Again) => continue,
                Ok(claim) => return Some(claim),
                Err(error) => {
                    self.disk.turn_off(&error);
                    return None;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Straight from the inner store.
    async fn pass(&mut self, out: &Sender) -> Result<(), Gone> {
        let mut stream = self.inner.read(&self.path, ByteRange { start: self.at, end: self.end });
        while let Some(chunk) = stream.next().await {
            out.send(chunk).await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    /// From the file; what turns out to be damaged, from the inner store.
    async fn play(&mut self, object: &Object, file: File, out: &Sender) -> Result<(), Gone> {
        let Err(error) = self.play_until(object, file, object.size, out).await? else {
            return Ok(());
        };
        tracing::warn!(object = %redact(&self.path), byte = self.at, "a cached block is damaged and is fetched again: {error}");
        let whole = self.disk.path(&object.name);
        let _ = blocking(move || Ok(std::fs::remove_file(whole))).await;
        let same = match self.inner.head(&self.path).await {
            Ok(meta) if meta.etag.as_ref() == Some(&object.etag) => Ok(()),
            Ok(_) => Err(Error::store("the object has changed while it was read")
                .in_shard(redact(&self.path))
                .at(self.at)),
            Err(error) => Err(error),
        };
        match same {
            Ok(()) => self.pass(out).await,
            Err(error) => out.send(Err(error)).await.map_err(|_| Gone),
        }
    }

    /// Hands out what the file holds before `until`. Returns the file, or what is wrong with it.
    async fn play_until(
        &mut self,
        object: &Object,
        mut file: File,
        until: u64,
        out: &Sender,
    ) -> Result<io::Result<File>, Gone> {
        let end = self.end.unwrap_or(u64::MAX).min(until);
        while self.at < end {
            let (at, size) = (self.at, object.size);
            let read = blocking(move || Ok((read_block(&mut file, at, size), file))).await;
            let Ok((block, returned)) = read else { return Err(Gone) };
            file = returned;
            let mut block = match block {
                Ok(block) => block,
                Err(error) => return Ok(Err(error)),
            };
            block.truncate(usize::try_from(end - at).unwrap_or(usize::MAX));
            self.at += block.len() as u64;
            out.send(Ok(block)).await.map_err(|_| Gone)?;
        }
        Ok(Ok(file))
    }

    /// Fetches into the file in a task, and hands out what is there as it comes.
    async fn fill(
        &mut self,
        object: &Object,
        file: File,
        mut reading: File,
        out: &Sender,
    ) -> Result<(), Gone> {
        let (progress, mut filled) = watch::channel(0);
        let (rest, mut beyond) = mpsc::channel(2);
        let filler = Filler {
            inner: Arc::clone(&self.inner),
            disk: Arc::clone(&self.disk),
            path: self.path.clone(),
            object: object.clone(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(filler.run(file, progress, rest)));
        loop {
            let more = filled.changed().await.is_ok();
            let there = *filled.borrow_and_update();
            reading = match self.play_until(object, reading, there, out).await? {
                Ok(reading) => reading,
                Err(error) => {
                    let error = Error::store("the cache file can't be read")
                        .with_source(error)
                        .in_shard(redact(&self.path))
                        .at(self.at);
                    return out.send(Err(error)).await.map_err(|_| Gone);
                }
            };
            if !more {
                break;
            }
        }
        // What could not be written.
        while let Some(mut chunk) = beyond.recv().await {
            if let Ok(bytes) = &mut chunk {
                bytes.truncate(self.end.map_or(usize::MAX, |end| {
                    usize::try_from(end - self.at).unwrap_or(usize::MAX)
                }));
                self.at += bytes.len() as u64;
            }
            if !matches!(&chunk, Ok(bytes) if bytes.is_empty()) {
                out.send(chunk).await.map_err(|_| Gone)?;
            }
        }
        match task.await {
            Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::Memory;

    #[tokio::test]
    async fn a_disk_that_fills_up_in_the_middle_costs_no_byte() {
        let (memory, folder) = (Memory::new(), tempfile::tempdir().unwrap());
        let data: Bytes = (0..3_500_000u32).map(|i| (i / 7) as u8).collect();
        memory.insert("a", data.clone());
        let cache = Cache::new(memory, CacheOptions::new(folder.path(), 1 << 30)).unwrap();
        let meta = cache.head("a").await.unwrap();
        let mut job =
            Job { inner: cache.inner, disk: cache.disk, path: "a".to_owned(), at: 0, end: None };
        let object = job.cacheable(meta).unwrap();
        let part = folder.path().join(format!("{}.part", object.name));
        std::fs::write(&part, "").unwrap();
        // A handle that can't write stands for a full disk.
        let (writing, reading) = (File::open(&part).unwrap(), File::open(&part).unwrap());
        let (sender, receiver) = mpsc::channel(100);
        assert!(job.fill(&object, writing, reading, &sender).await.is_ok());
        drop(sender);
        let chunks: Vec<_> = tokio_stream::wrappers::ReceiverStream::new(receiver).collect().await;
        assert!(
            chunks.into_iter().map(|chunk| chunk.unwrap().to_vec()).collect::<Vec<_>>().concat()
                == data
        );
        assert!(job.disk.is_off() && !part.exists());
    }
}
