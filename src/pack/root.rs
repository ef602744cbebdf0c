//! [`Root`]: where a data set lies. A folder on the local disk, or what stands below a URL in a store. Blocking.

use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::sink::Sink;
use crate::error::{Error, Result};
use crate::store::local::write_atomically;
use crate::store::{
    ByteRange, ByteStream, Local, Location, Store, StoreOptions, Stores, read_all, redact,
};

/// Bytes of a manifest or a record, at most.
const LARGEST: u64 = 4 << 30;

/// Where a data set lies. Names are relative to it, with slashes.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    at: At,
    runtime: Runs,
}

#[derive(Debug, Clone)]
enum At {
    Disk(PathBuf),
    /// Without a slash at its end.
    Url(Stores, String),
}

/// What runs the stores' work.
#[derive(Debug, Clone)]
struct Runs {
    handle: Handle,
    /// A runtime of ours ends when the last of these is dropped.
    _stop: Option<Arc<oneshot::Sender<()>>>,
}

impl Runs {
    /// The runtime that this thread belongs to, or one of its own.
    fn find() -> Result<Self> {
        if let Ok(handle) = Handle::try_current() {
            return Ok(Self { handle, _stop: None });
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::task("can't start the runtime").with_source(e))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || runtime.block_on(stopped));
        Ok(Self { handle, _stop: Some(Arc::new(stop)) })
    }
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl Root {
    /// At a path or URL. On a thread of a runtime that may block its work is done there, elsewhere on a thread of its own.
    pub(crate) fn open(path: &Path, stores: Option<&Stores>) -> Result<Self> {
        let runtime = Runs::find()?;
        let at = match path.to_str().map(Location::parse).transpose()? {
            None => At::Disk(path.to_owned()),
            Some(Location::File(file)) => At::Disk(PathBuf::from(&*file)),
            Some(_) => {
                let stores = match stores {
                    Some(stores) => stores.clone(),
                    None => Stores::new(StoreOptions::default())?,
                };
                At::Url(stores, path.to_string_lossy().trim_end_matches('/').to_owned())
            }
        };
        Ok(Self { at, runtime })
    }

    /// A folder below.
    pub(crate) fn child(&self, name: &str) -> Self {
        if name.is_empty() {
            return self.clone();
        }
        let at = match &self.at {
            At::Disk(folder) => At::Disk(folder.join(name)),
            At::Url(stores, url) => At::Url(stores.clone(), format!("{url}/{name}")),
        };
        Self { at, runtime: self.runtime.clone() }
    }

    /// The path or URL of a file, or of the root itself if the name is empty.
    pub(crate) fn path(&self, name: &str) -> String {
        match &self.at {
            At::Disk(folder) if name.is_empty() => folder.to_string_lossy().into_owned(),
            At::Disk(folder) => folder.join(name).to_string_lossy().into_owned(),
            At::Url(_, url) if name.is_empty() => url.clone(),
            At::Url(_, url) => format!("{url}/{name}"),
        }
    }

    /// As it may be shown.
    pub(crate) fn shown(&self, name: &str) -> String {
        redact(&self.path(name)).into_owned()
    }

    /// The local folder, if it is one.
    pub(crate) fn disk(&self) -> Option<&Path> {
        match &self.at {
            At::Disk(folder) => Some(folder),
            At::Url(..) => None,
        }
    }

    /// What a manifest says of where it lies: the absolute path, or the URL.
    pub(crate) fn absolute(&self) -> Result<String> {
        match &self.at {
            At::Disk(folder) => super::manifest::absolute(folder),
            At::Url(_, url) => Ok(url.clone()),
        }
    }

    /// Waits for what a store does.
    pub(crate) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.runtime.handle.block_on(work)
    }

    fn store(&self) -> &dyn Store {
        match &self.at {
            At::Disk(_) => &Local,
            At::Url(stores, _) => stores,
        }
    }

    /// All files, sorted by name; none if there is no such folder. A file on the disk whose name is not UTF-8 is listed with what can be
    /// shown of it.
    pub(crate) fn list(&self) -> Result<Vec<Found>> {
        let mut found = match &self.at {
            At::Disk(folder) => {
                let mut found = Vec::new();
                if folder.exists() {
                    walk(folder, "", &mut found).map_err(|e| super::scan::failed(folder, e))?;
                }
                found
            }
            At::Url(stores, url) => {
                let listed = self.wait(stores.list(url))?;
                let inside = |path: &str| {
                    path.strip_prefix(url.as_str())
                        .and_then(|rest| rest.strip_prefix('/'))
                        .map(str::to_owned)
                };
                let found = listed.into_iter().filter_map(|meta| {
                    Some(Found { name: inside(&meta.path)?, size: meta.size.unwrap_or(0) })
                });
                found.collect()
            }
        };
        found.sort();
        Ok(found)
    }

    /// A small file, whole. `None` if it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        match &self.at {
            At::Disk(folder) => {
                let path = folder.join(name);
                match fs::read(&path) {
                    Ok(bytes) => Ok(Some(bytes.into())),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(super::scan::failed(&path, error)),
                }
            }
            At::Url(stores, _) => self.wait(read_all(stores, &self.path(name), LARGEST)).map(Some),
        }
    }

    /// Writes a small file so that nobody sees a part of it.
    pub(crate) fn write(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        match &self.at {
            At::Disk(folder) => {
                let path = folder.join(name);
                write_atomically(&path, &bytes.into()).map_err(|e| {
                    Error::pack("can't write").with_source(e).in_shard(path.to_string_lossy())
                })
            }
            At::Url(stores, _) => self.wait(stores.put(&self.path(name), bytes.into())),
        }
    }

    /// Removes a file; one that is not there is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match &self.at {
            At::Disk(folder) => {
                let path = folder.join(name);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(super::scan::failed(&path, error))
                    }
                    _ => Ok(()),
                }
            }
            At::Url(stores, _) => self.wait(stores.delete(&self.path(name))),
        }
    }

    /// Removes folders in which nothing is left. Stores have none.
    pub(crate) fn remove_empty_folders(&self) -> Result<()> {
        match &self.at {
            At::Disk(folder) => {
                remove_empty_folders(folder).map_err(|e| super::scan::failed(folder, e))
            }
            At::Url(..) => Ok(()),
        }
    }

    /// Begins a large file, which is seen by nobody before it is whole.
    pub(crate) fn create(&self, name: &str) -> Result<Sink> {
        match &self.at {
            At::Disk(folder) => Sink::file(folder.join(name)),
            At::Url(stores, _) => Sink::upload(&self.runtime.handle, stores, self.path(name)),
        }
    }

    /// The bytes of a file, to be polled by [`wait`](Self::wait).
    pub(crate) fn stream(&self, name: &str, range: ByteRange) -> ByteStream {
        self.store().read(&self.path(name), range)
    }
}

fn walk(folder: &Path, name: &str, found: &mut Vec<Found>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let (path, name) =
            (entry.path(), if name.is_empty() { file } else { format!("{name}/{file}") });
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => walk(&path, &name, found)?,
            Ok(there) => found.push(Found { name, size: there.len() }),
            // A link that leads nowhere, or a file that is gone by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.push(Found { name, size: 0 });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn remove_empty_folders(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_empty_folders(&path)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        }
    }
    Ok(())
}
