//! Walks a tar on the local disk from its first byte to its last, on the thread of the caller.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::twins::TwinFacts;
use crate::error::{Error, Result};
use crate::tar::{Member, Parser, Step};

/// Size of one read.
const CHUNK: usize = 1 << 20;

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

/// Hands every member to `each`; goes on to the end of the file. With `hash` the whole file is summed up.
pub(crate) fn walk(
    path: &Path,
    hash: bool,
    mut each: impl FnMut(Member) -> Result<()>,
) -> Result<Walked> {
    let name = || path.to_string_lossy();
    let failed = |e: io::Error| Error::store("").with_source(e).in_shard(path.to_string_lossy());
    let mut file = File::open(path).map_err(failed)?;
    let mut parser = Parser::new();
    let mut sum = hash.then(Sha256::new);
    let mut walked = Walked {
        facts: TwinFacts { bytes: 0, sha256: String::new() },
        clean: false,
        warnings: Vec::new(),
    };
    loop {
        match parser.next().map_err(|e| e.in_shard(name()))? {
            Step::Member(member) => each(member).map_err(|e| e.in_shard(name()))?,
            Step::Warning(warning) => walked.warnings.push(Error::from(warning).to_string()),
            Step::NeedMore => {
                let mut chunk = Vec::with_capacity(CHUNK);
                (&mut file).take(CHUNK as u64).read_to_end(&mut chunk).map_err(failed)?;
                walked.facts.bytes += chunk.len() as u64;
                if let Some(sum) = &mut sum {
                    sum.update(&chunk);
                }
                if chunk.is_empty() { parser.finish() } else { parser.push(Bytes::from(chunk)) }
            }
            Step::End { clean } => {
                walked.clean = clean;
                break;
            }
        }
    }
    if let Some(sum) = sum {
        walked.facts.sha256 = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    }
    Ok(walked)
}
