//! [`Sink`]: a file that is being written, on the disk or in a store, and has no name yet. Blocking.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::store::local::folder_of;
use crate::store::upload::PART;
use crate::store::{Store, Stores, Upload};

/// What is written goes to a temporary name beside the final one, or to an upload in parts. Dropped before it has its name, nothing of
/// it stays.
#[derive(Debug)]
pub(crate) enum Sink {
    File { path: PathBuf, temporary: PathBuf, file: File, named: bool },
    Upload(Uploading),
}

impl Sink {
    /// A file.
    pub(crate) fn file(path: PathBuf) -> Result<Self> {
        let temporary = temporary(&path);
        let open = || {
            fs::create_dir_all(folder_of(&path))?;
            File::options().read(true).write(true).create(true).truncate(true).open(&temporary)
        };
        let file = open().map_err(|e| fatal(&path, e))?;
        Ok(Self::File { path, temporary, file, named: false })
    }

    /// An object. The work is done by a task on the runtime.
    pub(crate) fn upload(runtime: &Handle, stores: &Stores, path: String) -> Result<Self> {
        Uploading::begin(runtime, stores, path).map(Self::Upload)
    }

    /// How many bytes are written at once: anything, or whole parts.
    pub(crate) fn unit(&self) -> usize {
        match self {
            Self::File { .. } => 1,
            Self::Upload(_) => PART,
        }
    }

    /// Adds bytes: so many units. Fewer only as the last ones.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File { path, file, .. } => file.write_all(bytes).map_err(|e| fatal(path, e)),
            Self::Upload(upload) => {
                bytes.chunks(PART).try_for_each(|part| upload.part(Bytes::copy_from_slice(part)))
            }
        }
    }

    /// Takes back all but so many bytes. False if what was written can't be taken back.
    pub(crate) fn take_back(&mut self, keep: u64) -> Result<bool> {
        match self {
            Self::File { path, file, .. } => {
                let cut = |file: &mut File| {
                    file.set_len(keep)?;
                    file.seek(SeekFrom::Start(keep))
                };
                cut(file).map_err(|e| fatal(path, e))?;
                Ok(true)
            }
            Self::Upload(_) => Ok(false),
        }
    }

    /// Brings everything to where it shall stay.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self {
            Self::File { path, file, .. } => file.sync_all().map_err(|e| fatal(path, e)),
            Self::Upload(upload) => upload.order(Order::Flush),
        }
    }

    /// Gives it its name.
    pub(crate) fn name(&mut self) -> Result<()> {
        match self {
            Self::File { path, temporary, named, .. } => {
                let rename = || {
                    fs::rename(&*temporary, &*path)?;
                    File::open(folder_of(path))?.sync_all()
                };
                rename().map_err(|e| fatal(path, e))?;
                *named = true;
                Ok(())
            }
            Self::Upload(upload) => upload.order(Order::Complete),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        match self {
            // Given up: nobody needs what is there, and a later run replaces it if this fails.
            Self::File { temporary, named: false, .. } => _ = fs::remove_file(temporary),
            Self::File { .. } => {}
            Self::Upload(upload) => upload.close(),
        }
    }
}

/// An output that can't be written ends the run.
fn fatal(path: &Path, error: io::Error) -> Error {
    Error::pack("can't write").with_source(error).in_shard(path.to_string_lossy())
}

/// The name under which a file is written before it is whole: hidden, and no `.tar`, so that nobody takes it for a shard.
fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

/// The blocking end of an upload.
#[derive(Debug)]
pub(crate) struct Uploading {
    /// `None` once it is closed.
    orders: Option<mpsc::Sender<Order>>,
    /// Told why the task gave up; dropped when it has ended.
    ended: Option<oneshot::Receiver<Error>>,
}

#[derive(Debug)]
enum Order {
    Part(Bytes),
    Flush(oneshot::Sender<Result<()>>),
    Complete(oneshot::Sender<Result<()>>),
}

impl Uploading {
    fn begin(runtime: &Handle, stores: &Stores, path: String) -> Result<Self> {
        let (orders, inbox) = mpsc::channel(1);
        let (failed, ended) = oneshot::channel();
        let (begun, ready) = oneshot::channel();
        let stores = stores.clone();
        runtime.spawn(async move {
            match stores.upload(&path).await {
                Ok(upload) => {
                    // Whoever waits for it closes the channel if it is gone.
                    let _ = begun.send(Ok(()));
                    carry_out(upload, inbox, failed).await;
                }
                Err(error) => _ = begun.send(Err(error)),
            }
        });
        ready.blocking_recv().unwrap_or_else(|_| Err(shut_down()))?;
        Ok(Self { orders: Some(orders), ended: Some(ended) })
    }

    fn part(&mut self, part: Bytes) -> Result<()> {
        self.send(Order::Part(part))
    }

    fn order(&mut self, order: impl FnOnce(oneshot::Sender<Result<()>>) -> Order) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(order(reply))?;
        match answer.blocking_recv() {
            Ok(done) => done,
            Err(_) => Err(self.why()),
        }
    }

    fn send(&mut self, order: Order) -> Result<()> {
        match self.orders.as_ref().map(|orders| orders.blocking_send(order)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.why()),
        }
    }

    /// Why the task takes no more orders.
    fn why(&mut self) -> Error {
        self.ended.take().and_then(|ended| ended.blocking_recv().ok()).unwrap_or_else(shut_down)
    }

    /// Ends the task, and waits until it has removed what was not completed.
    fn close(&mut self) {
        self.orders = None;
        if let Some(ended) = self.ended.take() {
            let _ = ended.blocking_recv();
        }
    }
}

fn shut_down() -> Error {
    Error::task("the runtime is shutting down")
}

/// The other end: writes until the object is complete, or gives it up.
async fn carry_out(
    mut upload: Box<dyn Upload>,
    mut orders: mpsc::Receiver<Order>,
    failed: oneshot::Sender<Error>,
) {
    while let Some(order) = orders.recv().await {
        let done = match order {
            Order::Part(part) => upload.write(part).await,
            Order::Flush(reply) => match upload.flush().await {
                Ok(()) => {
                    let _ = reply.send(Ok(()));
                    Ok(())
                }
                failure => failure,
            },
            Order::Complete(reply) => match upload.complete().await {
                Ok(()) => {
                    let _ = reply.send(Ok(()));
                    return;
                }
                failure => failure,
            },
        };
        if let Err(error) = done {
            upload.abort().await;
            // If nobody waits for it there is nobody to tell.
            let _ = failed.send(error);
            return;
        }
    }
    upload.abort().await;
}
