//! Walks a tar from its first byte to its last, on the thread of the caller.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use sha2::{Digest, Sha256};

use super::root::Root;
use super::twins::TwinFacts;
use crate::error::{Error, Result};
use crate::store::ByteRange;
use crate::store::decompress::decompress;
use crate::tar::{Member, Parser, Step};

/// What a whole tar is like.
#[derive(Debug)]
pub(crate) struct Walked {
    /// Size, and the checksum if one was asked for.
    pub(crate) facts: TwinFacts,
    /// Whether the archive has its end mark.
    pub(crate) clean: bool,
    /// What the parser had to remark.
    pub(crate) warnings: Vec<String>,
}

/// Size and checksum of what went by.
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    sha256: Option<Sha256>,
}

/// Hands every member to `each`, decompressed if the tar is compressed; goes on to the end of the file. With `hash` the whole file is summed
/// up, as it lies there.
pub(crate) fn walk(
    root: &Root,
    name: &str,
    hash: bool,
    mut each: impl FnMut(Member) -> Result<()>,
) -> Result<Walked> {
    let shown = || root.shown(name);
    let sum = Arc::new(Mutex::new(Sum { bytes: 0, sha256: hash.then(Sha256::new) }));
    let passing = Arc::clone(&sum);
    // The caller's thread polls it, and so does the sums and the decompression; what a disk must be waited for is read ahead.
    let raw = root.stream(name, ByteRange::ALL).inspect(move |chunk| {
        if let Ok(chunk) = chunk {
            let mut sum = passing.lock().unwrap_or_else(PoisonError::into_inner);
            sum.bytes += chunk.len() as u64;
            if let Some(sha256) = &mut sum.sha256 {
                sha256.update(chunk);
            }
        }
    });
    let mut chunks = decompress(raw.boxed());
    let (mut parser, mut warnings) = (Parser::new(), Vec::new());
    let clean = loop {
        match parser.next().map_err(|e| e.in_shard(shown()))? {
            Step::Member(member) => each(member).map_err(|e| e.in_shard(shown()))?,
            Step::Warning(warning) => warnings.push(Error::from(warning).to_string()),
            Step::NeedMore => match root.wait(chunks.next()) {
                Some(chunk) => parser.push(chunk.map_err(|e| e.in_shard(shown()))?),
                None => parser.finish(),
            },
            Step::End { clean } => break clean,
        }
    };
    drop(chunks);
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    let digest = sum.sha256.take().map(Digest::finalize);
    let sha256 = digest.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    Ok(Walked { facts: TwinFacts { bytes: sum.bytes, sha256 }, clean, warnings })
}
