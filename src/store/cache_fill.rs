//! Fetches an object into its cache file, at the pace of the network.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::sync::watch;

use super::cache::{Object, Sender};
use super::cache_disk::Disk;
use super::cache_file::{BLOCK, write_block};
use super::local::blocking;
use super::{ByteRange, Store};

/// Writes an object into its file.
pub(super) struct Filler<S> {
    pub(super) inner: Arc<S>,
    pub(super) disk: Arc<Disk>,
    pub(super) path: String,
    pub(super) object: Object,
}

impl<S: Store> Filler<S> {
    pub(super) async fn run(self, file: File, progress: watch::Sender<u64>, rest: Sender) {
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
