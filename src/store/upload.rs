//! Writing an object part by part: [`Upload`], and how it is done over a network.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::remote::Remote;
use super::transport::{Failure, FailureKind, Transport};
use crate::error::{Error, Result};
use crate::redact::redact;

/// Bytes of a part. All but the last one have so many: stores want parts of at least 5 MiB, and some want them to be equal.
pub const PART: usize = 8 << 20;
/// Parts that stores take for one object.
const PARTS: usize = 10_000;
/// Parts of one object that are on their way at the same time.
const AT_ONCE: usize = 2;

/// An object that is being written. Nobody sees anything of it before it is [complete](Upload::complete); one that is dropped before
/// leaves no object.
pub trait Upload: fmt::Debug + Send {
    /// Adds the next [`PART`] bytes, or fewer if they are the last ones. Waits while too many are on their way: that is the
    /// back-pressure.
    fn write(&mut self, part: Bytes) -> BoxFuture<'_, Result<()>>;

    /// Waits until everything has arrived.
    fn flush(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Gives the object its name, in one step. What was there under that name is replaced.
    fn complete(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Removes what has arrived. To be called when the object is given up: a drop does it too, if the runtime lives long enough.
    fn abort(&mut self) -> BoxFuture<'_, ()>;
}

/// An upload in parts to a [`Remote`] store. Each part is tried as patiently as anything else there, by itself.
#[derive(Debug)]
pub(super) struct Multipart<T: Transport> {
    remote: Remote<T>,
    path: Arc<str>,
    /// Its name at the server.
    id: Arc<str>,
    /// What the server calls the parts, as far as they have arrived.
    parts: Vec<Option<String>>,
    tasks: JoinSet<Result<(usize, String)>>,
    bytes: u64,
    ended: bool,
    runtime: Handle,
}

impl<T: Transport> Multipart<T> {
    pub(super) async fn begin(remote: Remote<T>, path: &str) -> Result<Self> {
        let id = remote.patiently(path, 0, || remote.transport().begin(path)).await?;
        Ok(Self {
            remote,
            path: path.into(),
            id: id.into(),
            parts: Vec::new(),
            tasks: JoinSet::new(),
            bytes: 0,
            ended: false,
            runtime: Handle::current(),
        })
    }

    /// Waits for one part.
    async fn join(&mut self) -> Result<()> {
        match self.tasks.join_next().await {
            None => Ok(()),
            Some(Ok(Ok((index, part)))) => {
                self.parts[index] = Some(part);
                Ok(())
            }
            Some(Ok(Err(error))) => Err(error),
            Some(Err(join)) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
            Some(Err(_)) => Err(Error::task("the runtime is shutting down")),
        }
    }

    /// Waits for all parts that are on their way.
    async fn arrive(&mut self) -> Result<()> {
        while !self.tasks.is_empty() {
            self.join().await?;
        }
        Ok(())
    }

    async fn send(&mut self, part: Bytes) -> Result<()> {
        while self.tasks.len() >= AT_ONCE {
            self.join().await?;
        }
        let index = self.parts.len();
        if index == PARTS {
            return Err(Error::store(format!(
                "an object may have {PARTS} parts of {PART} bytes: make smaller shards"
            ))
            .in_shard(redact(&self.path)));
        }
        self.parts.push(None);
        self.bytes += part.len() as u64;
        let (remote, path, id) =
            (self.remote.clone(), Arc::clone(&self.path), Arc::clone(&self.id));
        self.tasks.spawn(async move {
            let size = part.len() as u64;
            let once = || remote.transport().part(&path, &id, index, part.clone());
            Ok((index, remote.patiently(&path, size, once).await?))
        });
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        self.arrive().await?;
        let parts: Vec<String> = self.parts.iter().flatten().cloned().collect();
        // If the answer to the first attempt is lost, the next one finds no upload of that name: it has become the object.
        let (again, bytes) = (AtomicBool::new(false), self.bytes);
        let (transport, path, id) = (self.remote.transport(), &*self.path, &*self.id);
        let once = || {
            let completed = transport.complete(path, id, parts.clone());
            let again = again.swap(true, Ordering::Relaxed);
            async move {
                match completed.await {
                    Err(Failure { kind: FailureKind::Status { code: 404, .. }, .. }) if again => {
                        let found = transport.head(path).await?;
                        if found.size == Some(bytes) { Ok(()) } else { Err(no_longer_there()) }
                    }
                    completed => completed,
                }
            }
            .boxed()
        };
        self.remote.patiently(path, bytes, once).await?;
        self.ended = true;
        Ok(())
    }
}

fn no_longer_there() -> Failure {
    Failure::new(FailureKind::Final, "the upload is no longer there")
}

impl<T: Transport> Upload for Multipart<T> {
    fn write(&mut self, part: Bytes) -> BoxFuture<'_, Result<()>> {
        self.send(part).boxed()
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        self.arrive().boxed()
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<()>> {
        self.finish().boxed()
    }

    fn abort(&mut self) -> BoxFuture<'_, ()> {
        async {
            self.tasks.shutdown().await;
            if !std::mem::replace(&mut self.ended, true) {
                give_up(&self.remote, &self.path, &self.id).await;
            }
        }
        .boxed()
    }
}

impl<T: Transport> Drop for Multipart<T> {
    fn drop(&mut self) {
        if !self.ended {
            let (remote, path, id) =
                (self.remote.clone(), Arc::clone(&self.path), Arc::clone(&self.id));
            self.tasks.abort_all();
            self.runtime.spawn(async move { give_up(&remote, &path, &id).await });
        }
    }
}

/// Tells the server. If that fails nothing is lost but room there, which its own rules for such remains give back.
async fn give_up<T: Transport>(remote: &Remote<T>, path: &str, id: &str) {
    if let Err(error) = remote.patiently(path, 0, || remote.transport().abort(path, id)).await {
        tracing::warn!("what was uploaded could not be removed: {error}");
    }
}
