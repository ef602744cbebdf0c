//! A cached object on disk: its bytes in blocks, each followed by its CRC. Blocking.

use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;

/// Bytes of a block, without its CRC.
pub(super) const BLOCK: u64 = 1 << 20;
const CRC: u64 = 4;
/// A file in the folder that is no object: whoever makes room holds its lock.
pub(super) const LOCK: &str = ".lock";

/// What a file for `size` bytes measures.
pub(super) const fn stored(size: u64) -> u64 {
    size.saturating_add(size.div_ceil(BLOCK).saturating_mul(CRC))
}

/// Appends a block.
pub(super) fn write_block(file: &mut File, block: &[u8]) -> io::Result<()> {
    file.write_all(block)?;
    file.write_all(&crc32fast::hash(block).to_le_bytes())
}

/// The block of an object of `size` bytes that holds byte `at`, from that byte on. An error of kind `InvalidData` if its CRC is wrong.
pub(super) fn read_block(file: &mut File, at: u64, size: u64) -> io::Result<Bytes> {
    let index = at / BLOCK;
    let len = BLOCK.min(size - index * BLOCK);
    file.seek(SeekFrom::Start(index * (BLOCK + CRC)))?;
    // At most a block.
    let mut block = Vec::with_capacity((len + CRC) as usize);
    file.take(len + CRC).read_to_end(&mut block)?;
    let Some((data, crc)) =
        block.split_last_chunk::<{ CRC as usize }>().filter(|(data, _)| data.len() as u64 == len)
    else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    if crc32fast::hash(data) != u32::from_le_bytes(*crc) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong CRC"));
    }
    block.truncate(len as usize);
    Ok(Bytes::from(block).slice((at % BLOCK) as usize..))
}

/// Says that the file was used now.
pub(super) fn touch(file: &File) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(SystemTime::now()))
}

/// Removes what was used longest ago until `need` more bytes fit into `limit`. False if they never will.
pub(super) fn make_room(folder: &Path, limit: u64, need: u64) -> io::Result<bool> {
    if need > limit {
        return Ok(false);
    }
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Gone in between: removed by another process.
        if let Ok(found) = entry.metadata()
            && found.is_file()
            && entry.file_name() != LOCK
        {
            files.push((found.modified()?, found.len(), entry.path()));
        }
    }
    let mut used: u64 = files.iter().map(|(_, len, _)| len).sum();
    files.sort_unstable();
    for (_, len, path) in files {
        if used.saturating_add(need) <= limit {
            break;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => used -= len,
        }
    }
    Ok(true)
}
