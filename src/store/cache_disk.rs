//! The folder of the cache, shared by processes: who may write which object, and what goes when room is needed. Blocking.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::cache::CacheOptions;
use super::cache_file::{LOCK, make_room, stored, touch};
use crate::error::{Error, Result};

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

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.options.folder.join(name)
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    /// No more caching in this process.
    pub(super) fn turn_off(&self, error: &io::Error) {
        if !self.off.swap(true, Ordering::Relaxed) {
            tracing::warn!("the cache in {} is turned off: {error}", self.options.folder.display());
        }
    }

    /// The cached file, or the right to write it, or neither.
    pub(super) fn claim(&self, name: &str, size: u64, fills: bool) -> io::Result<Claim> {
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
        if !self.take_room(&file, stored(size))? {
            let _ = std::fs::remove_file(&part);
            return Ok(Claim::Pass);
        }
        Ok(Claim::Fill(file, reading))
    }

    /// Gives a file its final length, which counts as taken from then on. False if it is more than the whole cache. One process at a time
    /// does this: two at once would both take the room that is left.
    fn take_room(&self, file: &File, need: u64) -> io::Result<bool> {
        let lock = File::create(self.path(LOCK))?;
        lock.lock()?;
        let fits = make_room(&self.options.folder, self.options.size, need)?;
        if fits {
            file.set_len(need)?;
        }
        Ok(fits)
    }
}

/// What [`Disk::claim`] found.
pub(super) enum Claim {
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
