//! [`Spool`]: a compressed shard, unpacked into a temporary file, for reading its members in another order.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;

use super::root::Root;
use crate::error::{Error, Result};
use crate::store::ByteRange;
use crate::store::decompress::{Compression, decompress};

/// Bytes by which a compressed file is known.
const HEAD: u64 = 16;

/// The file, in the folder for temporary files (`TMPDIR`); removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spool(PathBuf);

impl Spool {
    /// Unpacks a file if it is compressed.
    pub(crate) fn of(root: &Root, name: &str) -> Result<Option<Self>> {
        let mut stream = root.stream(name, ByteRange { start: 0, end: Some(HEAD) });
        let mut head = Vec::new();
        while let Some(chunk) = root.wait(stream.next()) {
            head.extend_from_slice(&chunk?);
        }
        if Compression::of(&head).is_none() {
            return Ok(None);
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = format!("shardstream-{}-{number}.tar", std::process::id());
        let spool = Self(std::env::temp_dir().join(file));
        let failed = |e: io::Error| {
            Error::pack("can't unpack into a temporary file")
                .with_source(e)
                .in_shard(spool.0.to_string_lossy())
        };
        let mut file = File::create_new(&spool.0).map_err(failed)?;
        let mut chunks = decompress(root.stream(name, ByteRange::ALL));
        while let Some(chunk) = root.wait(chunks.next()) {
            file.write_all(&chunk?).map_err(failed)?;
        }
        Ok(Some(spool))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // If that fails there is a file too many, where such files are.
        let _ = fs::remove_file(&self.0);
    }
}
