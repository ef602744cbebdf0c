//! Files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, stream};
use tokio::task::JoinHandle;

use super::local_read::{Chunks, Reading};
use super::{ByteRange, ByteStream, Meta, Store, Upload};
use crate::error::{Error, Result};

/// Files by path, relative to the current directory unless absolute. Read in chunks of 1 MiB: what Linux has in its page cache on the
/// spot by whoever polls, all else on a blocking thread, two chunks ahead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

pub(super) fn failed(path: &str, error: io::Error) -> Error {
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
    joined(tokio::task::spawn_blocking(f)).await
}

pub(super) async fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    match thread.await {
        Ok(result) => result,
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => Err(Error::task("the runtime is shutting down")),
    }
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
