//! Files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, stream};
use tokio::sync::mpsc;

use super::buffer::{Buffer, CHUNK};
use super::{ByteRange, ByteStream, Meta, Store, Upload};
use crate::error::{Error, Result};

/// Chunks that wait for the parser.
const AHEAD: usize = 2;

/// Files by path, relative to the current directory unless absolute. Read in chunks of 1 MiB: what Linux has in its page cache on the
/// spot by whoever polls, all else on a blocking thread, two chunks ahead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

fn failed(path: &str, error: io::Error) -> Error {
    Error::store("").with_source(error).in_shard(path)
}

fn meta(path: &str, found: &std::fs::Metadata) -> Meta {
    Meta {
        path: path.to_owned(),
        size: Some(found.len()),
        etag: None,
        modified: found.modified().ok(),
    }
}

/// Runs what blocks on a thread for that; its panic comes out here.
pub(super) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(f).await {
        Ok(result) => result,
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => Err(Error::task("the runtime is shutting down")),
    }
}

/// Reads until the room is full or the file ends; how many bytes it was.
fn fill(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A file that is being read.
struct Reading {
    path: String,
    file: File,
    /// Where the next chunk begins.
    at: u64,
    /// Bytes up to the end of the range.
    left: u64,
}

impl Reading {
    fn open(path: String, range: ByteRange) -> Result<Self> {
        let open = || {
            let file = File::open(&path)?;
            if file.metadata()?.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "is a directory, not a shard",
                ));
            }
            Ok(file)
        };
        let file = open().map_err(|error| failed(&path, error))?;
        // Past the end of any file, and more than a seek can say.
        let beyond = range.start > i64::MAX as u64;
        let left = range.end.map_or(u64::MAX, |end| end.saturating_sub(range.start));
        Ok(Self { path, file, at: range.start, left: if beyond { 0 } else { left } })
    }

    /// Takes a chunk, of at most so many bytes.
    fn chunk(&self) -> (Buffer, usize) {
        (Buffer::take(), CHUNK.min(usize::try_from(self.left).unwrap_or(CHUNK)))
    }

    fn passed(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left -= bytes as u64;
    }

    /// The next chunk as far as the system has it in memory, an empty one at the end; none where a disk must be waited for.
    fn cached(&mut self) -> Option<Bytes> {
        let (mut chunk, want) = self.chunk();
        let read = read_cached(&self.file, &mut chunk.room()[..want], self.at)?;
        self.passed(read);
        Some(chunk.freeze(read))
    }

    /// Reads the rest and sends its chunks until it ends or nobody listens.
    fn pump(mut self, sender: &mpsc::Sender<Result<Bytes>>) -> io::Result<()> {
        if self.at > 0 && self.left > 0 {
            self.file.seek(SeekFrom::Start(self.at))?;
        }
        while self.left > 0 {
            let (mut chunk, want) = self.chunk();
            let read = fill(&mut self.file, &mut chunk.room()[..want])?;
            if read == 0 {
                break;
            }
            self.passed(read);
            if sender.blocking_send(Ok(chunk.freeze(read))).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The rest, read on a blocking thread.
    fn pumped(self) -> mpsc::Receiver<Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || {
            let path = self.path.clone();
            if let Err(error) = self.pump(&sender) {
                // Nobody listens any more: nobody to tell.
                let _ = sender.blocking_send(Err(failed(&path, error)));
            }
        });
        receiver
    }
}

/// Lets other tasks run: a chunk is as much as one should do in a turn.
///
/// Not `tokio::task::yield_now`: that keeps the task on its worker until the worker has nothing else to do, and a lane, whose tasks wake
/// each other, stays on one core. Woken so, it goes to the end of the queue from which idle workers take tasks (measured: 1.2 cores
/// against 1.8).
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Where the next chunk of a file comes from.
enum Chunks {
    /// The system's memory: that costs no more than to copy it, which needs no other thread.
    Cached(Reading),
    /// A blocking thread, from the first place on where a disk must be waited for.
    Pumped(mpsc::Receiver<Result<Bytes>>),
}

impl Chunks {
    async fn next(self) -> Option<(Result<Bytes>, Self)> {
        let mut pumped = match self {
            Self::Cached(mut reading) => {
                pause().await;
                match reading.cached() {
                    Some(end) if end.is_empty() => return None,
                    Some(chunk) => return Some((Ok(chunk), Self::Cached(reading))),
                    None => reading.pumped(),
                }
            }
            Self::Pumped(receiver) => receiver,
        };
        Some((pumped.recv().await?, Self::Pumped(pumped)))
    }
}

/// Reads what the system has in memory of a part of a file; how many bytes it was, which is none at the end. `None` where that can't be
/// told without waiting.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, room: &mut [u8], at: u64) -> Option<usize> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut filled = 0;
    while filled < room.len() {
        let rest = &mut [io::IoSliceMut::new(&mut room[filled..])];
        match preadv2(file, rest, at + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            // An error of the disk comes again, and is told, where the file is waited for.
            Err(_) if filled == 0 => return None,
            Err(_) => break,
        }
    }
    Some(filled)
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_: &File, _: &mut [u8], _: u64) -> Option<usize> {
    None
}

impl Store for Local {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let path = path.to_owned();
        let open = blocking(move || Reading::open(path, range));
        let chunks = open.map_ok(|reading| stream::unfold(Chunks::Cached(reading), Chunks::next));
        chunks.try_flatten_stream().boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        let owned = path.to_owned();
        blocking(move || {
            std::fs::metadata(&owned)
                .map(|found| meta(&owned, &found))
                .map_err(|e| failed(&owned, e))
        })
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        let root = prefix.to_owned();
        blocking(move || {
            let mut found = Vec::new();
            walk(Path::new(&root), &mut HashSet::new(), &mut found)
                .map_err(|e| failed(&root, e))?;
            found.sort_by(|a: &Meta, b: &Meta| a.path.cmp(&b.path));
            Ok(found)
        })
        .boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        let path = path.to_owned();
        blocking(move || write_atomically(Path::new(&path), &bytes).map_err(|e| failed(&path, e)))
            .boxed()
    }

    fn upload<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        let path = path.to_owned();
        blocking(move || {
            let upload = Growing::begin(Path::new(&path)).map_err(|e| failed(&path, e))?;
            Ok(Box::new(upload) as Box<dyn Upload>)
        })
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        let path = path.to_owned();
        blocking(move || match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, error)),
            _ => Ok(()),
        })
        .boxed()
    }
}

/// A file that has not got its name yet.
#[derive(Debug)]
struct Growing {
    path: PathBuf,
    temporary: PathBuf,
    file: Arc<File>,
    /// Or given up.
    named: bool,
}

impl Growing {
    fn begin(path: &Path) -> io::Result<Self> {
        let temporary = temporary_beside(path)?;
        let file = Arc::new(File::create(&temporary)?);
        Ok(Self { path: path.to_owned(), temporary, file, named: false })
    }

    /// Nobody needs what is there, unless it has its name.
    fn give_up(&mut self) {
        if !std::mem::replace(&mut self.named, true) {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }

    fn with_file(
        &self,
        work: impl FnOnce(&File) -> io::Result<()> + Send + 'static,
    ) -> BoxFuture<'_, Result<()>> {
        let file = Arc::clone(&self.file);
        let path = self.path.to_string_lossy().into_owned();
        blocking(move || work(&file).map_err(|e| failed(&path, e))).boxed()
    }
}

impl Upload for Growing {
    fn write(&mut self, part: Bytes) -> BoxFuture<'_, Result<()>> {
        self.with_file(move |mut file| file.write_all(&part))
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        self.with_file(File::sync_all)
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<()>> {
        async move {
            let (temporary, path) = (self.temporary.clone(), self.path.clone());
            self.with_file(move |file| {
                file.sync_all()?;
                std::fs::rename(&temporary, &path)?;
                File::open(folder_of(&path))?.sync_all()
            })
            .await?;
            self.named = true;
            Ok(())
        }
        .boxed()
    }

    fn abort(&mut self) -> BoxFuture<'_, ()> {
        self.give_up();
        std::future::ready(()).boxed()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Collects the files below a folder. A link that leads nowhere is listed: whoever reads it gets an error with its name. A
/// folder reached twice through links is walked once.
fn walk(folder: &Path, seen: &mut HashSet<PathBuf>, found: &mut Vec<Meta>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    if !seen.insert(std::fs::canonicalize(folder)?) {
        return Ok(());
    }
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.to_str() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not UTF-8", path.display()),
            ));
        };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => walk(&path, seen, found)?,
            Ok(metadata) => found.push(meta(name, &metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.push(Meta { path: name.to_owned(), size: None, etag: None, modified: None });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes to a temporary name beside the target, syncs, and renames: a reader sees the old file or the new one, whole.
///
/// # Errors
/// Of the file system; the temporary file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| File::open(folder_of(path))?.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// The folder that a file is in; the current one for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name that nobody else has, in the same folder, which is made if it is missing.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = folder_of(path);
    std::fs::create_dir_all(folder)?;
    // Two writers of one path, in one process or two, have two temporary names.
    let name = format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that comes from here on.
    async fn all(chunks: Chunks) -> Vec<u8> {
        let chunks = stream::unfold(chunks, Chunks::next).map(Result::unwrap);
        chunks.collect::<Vec<_>>().await.concat()
    }

    #[tokio::test]
    async fn both_ways_give_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file").to_str().unwrap().to_owned();
        let bytes: Vec<u8> = (0..3 * CHUNK + 12_345).map(|at| (at / 7) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let end = bytes.len() as u64;
        for (start, stop) in [(0, None), (0, Some(0)), (7, Some(CHUNK as u64)), (5, Some(end + 9))]
            .into_iter()
            .chain([(end, None), (end + 1, None), (u64::MAX, None), (CHUNK as u64, Some(end - 1))])
        {
            let range = ByteRange { start, end: stop };
            let from = (start.min(end)) as usize;
            let expected = &bytes[from..stop.unwrap_or(end).clamp(from as u64, end) as usize];
            let open = || Reading::open(path.clone(), range).unwrap();
            assert!(all(Chunks::Cached(open())).await == expected, "{range:?}");
            assert!(all(Chunks::Pumped(open().pumped())).await == expected, "{range:?}");
            // The second chunk and all behind it are not in memory any more.
            let mut reading = open();
            let mut found = reading.cached().map_or_else(Vec::new, |chunk| chunk.to_vec());
            found.extend(all(Chunks::Pumped(reading.pumped())).await);
            assert!(found == expected, "{range:?}");
        }
    }
}
