//! Keeps remote objects on a local disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::cache_file::{BLOCK, make_room, read_block, stored, touch, write_block};
use super::local::blocking;
use super::{ByteRange, ByteStream, Meta, Store};
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

/// The folder. One for all caches of a process that share it.
#[derive(Debug)]
pub(super) struct Disk {
    options: CacheOptions,
    off: AtomicBool,
}

impl Disk {
    pub(super) fn new(options: CacheOptions) -> Result<Self> {
        std::fs::create_dir_all(&options.folder).map_err(|error| {
            Error::config(format!("the cache folder {} can't be made", options.folder.display()))
                .with_source(error)
        })?;
        Ok(Self { options, off: AtomicBool::new(false) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.options.folder.join(name)
    }

    fn turn_off(&self, error: &io::Error) {
        if !self.off.swap(true, Ordering::Relaxed) {
            tracing::warn!("the cache in {} is turned off: {error}", self.options.folder.display());
        }
    }

    /// The cached file, or the right to write it, or neither.
    fn claim(&self, name: &str, size: u64, fills: bool) -> io::Result<Claim> {
        let (whole, part) = (self.path(name), self.path(&format!("{name}.part")));
        if let Some(file) = open_whole(&whole, size)? {
            return Ok(Claim::Hit(file));
        }
        if !fills {
            return Ok(Claim::Pass);
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Claim::Wait(file.metadata()?.modified()?)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Whoever held the lock before may have renamed or removed the file: then the lock is on nothing.
        if let Some(file) = open_whole(&whole, size)? {
            let _ = std::fs::remove_file(&part);
            return Ok(Claim::Hit(file));
        }
        let reading = match File::open(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Claim::Again),
            reading => reading?,
        };
        if !is_same(&file, &part)? {
            return Ok(Claim::Again);
        }
        file.set_len(0)?;
        if !make_room(&self.options.folder, self.options.size, stored(size))? {
            let _ = std::fs::remove_file(&part);
            return Ok(Claim::Pass);
        }
        // Others count the room as taken from now on.
        file.set_len(stored(size))?;
        Ok(Claim::Fill(file, reading))
    }
}

/// What [`Disk::claim`] found.
enum Claim {
    Hit(File),
    /// Ours to write. The first handle holds the lock and writes, the second one reads.
    Fill(File, File),
    /// Another one writes; it did so at this time.
    Wait(std::time::SystemTime),
    Again,
    Pass,
}

/// The file of an object, if it has the right length. One that has not is removed.
fn open_whole(path: &Path, size: u64) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if file.metadata()?.len() != stored(size) {
        std::fs::remove_file(path)?;
        return Ok(None);
    }
    touch(&file)?;
    Ok(Some(file))
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(found) => {
            file.metadata().map(|ours| (ours.dev(), ours.ino()) == (found.dev(), found.ino()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elsewhere an open file can't be renamed or removed.
#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> io::Result<bool> {
    Ok(path.exists())
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

type Sender = mpsc::Sender<Result<Bytes>>;

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
struct Object {
    name: String,
    etag: String,
    size: u64,
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
        let (etag, size) =
            meta.etag.zip(meta.size).filter(|_| !self.disk.off.load(Ordering::Relaxed))?;
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

/// Writes an object into its file.
struct Filler<S> {
    inner: Arc<S>,
    disk: Arc<Disk>,
    path: String,
    object: Object,
}

impl<S: Store> Filler<S> {
    async fn run(self, file: File, progress: watch::Sender<u64>, rest: Sender) {
        let part = self.disk.path(&format!("{}.part", self.object.name));
        let whole = self.disk.path(&self.object.name);
        let kept = match self.write(file, progress, rest).await {
            Some(file) => {
                blocking(move || Ok(std::fs::rename(&part, &whole).map(|()| drop(file)))).await
            }
            // What is there is no whole object. Whoever opens it keeps what it has.
            None => blocking(move || Ok(std::fs::remove_file(&part))).await,
        };
        // Removed meanwhile to make room: no harm done.
        if let Ok(Err(error)) = kept
            && error.kind() != io::ErrorKind::NotFound
        {
            self.disk.turn_off(&error);
        }
    }

    /// The file, still locked, if it holds the whole object of the right version.
    async fn write(&self, file: File, progress: watch::Sender<u64>, rest: Sender) -> Option<File> {
        let mut stream = self.inner.read(&self.path, ByteRange::ALL);
        let mut disk = Some((file, progress));
        let (mut pending, mut taken, mut failed) = (BytesMut::new(), 0, None);
        while let Some(chunk) = stream.next().await {
            match chunk {
                Ok(bytes) => pending.extend_from_slice(&bytes),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            while pending.len() >= BLOCK as usize && taken + BLOCK <= self.object.size {
                disk = self.hand_on(pending.split_to(BLOCK as usize).freeze(), disk, &rest).await?;
                taken += BLOCK;
            }
            if disk.is_none() && !pending.is_empty() {
                taken += pending.len() as u64;
                rest.send(Ok(pending.split().freeze())).await.ok()?;
            }
        }
        if failed.is_some() || taken + pending.len() as u64 != self.object.size {
            // Not the object that was announced: nothing to be kept, but for the reader to judge.
            disk = None;
        }
        if !pending.is_empty() {
            disk = self.hand_on(pending.freeze(), disk, &rest).await?;
        }
        if let Some(error) = failed {
            let _ = rest.send(Err(error)).await;
        }
        let (file, progress) = disk?;
        let written = *progress.borrow();
        // The reader has all it wants; what follows is for those who come later.
        drop((progress, rest));
        let same = self
            .inner
            .head(&self.path)
            .await
            .is_ok_and(|meta| meta.etag.as_ref() == Some(&self.object.etag));
        (same && written == self.object.size).then_some(file)
    }

    /// To disk, or, once that has failed, straight to the reader. `None` if the reader is gone.
    #[allow(clippy::type_complexity)]
    async fn hand_on(
        &self,
        block: Bytes,
        disk: Option<(File, watch::Sender<u64>)>,
        rest: &Sender,
    ) -> Option<Option<(File, watch::Sender<u64>)>> {
        if let Some((mut file, progress)) = disk {
            let copy = block.clone();
            let written =
                blocking(move || Ok(write_block(&mut file, &copy).map(|()| file))).await.ok()?;
            match written {
                Ok(file) => {
                    progress.send_modify(|written| *written += block.len() as u64);
                    return Some(Some((file, progress)));
                }
                Err(error) => self.disk.turn_off(&error),
            }
        }
        rest.send(Ok(block)).await.ok()?;
        Some(None)
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
        assert!(job.disk.off.load(Ordering::Relaxed) && !part.exists());
    }
}
