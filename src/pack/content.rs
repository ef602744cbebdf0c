//! What goes into a member, and where it is read from.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures::StreamExt;

use super::root::Root;
use crate::store::{ByteRange, ByteStream};

/// Files that are larger are asked for their size once more before they are read.
const LARGE: u64 = 64 << 10;

/// The contents of a member. The size is known before anything is read: it stands in the header.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// In memory.
    Bytes(Bytes),
    /// A whole file, of this size when it was listed.
    File { path: PathBuf, size: u64 },
    /// Some bytes of a file: a member of another tar.
    Slice { path: Arc<Path>, offset: u64, size: u64 },
    /// Some bytes of an object in a store: a member of another tar.
    Object { root: Arc<Root>, name: Arc<str>, offset: u64, size: u64 },
}

impl Content {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } | Self::Slice { size, .. } | Self::Object { size, .. } => *size,
        }
    }

    /// Whether it is a member of a tar that exists.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self, Self::Slice { .. } | Self::Object { .. })
    }

    /// Opens it for reading from its first byte.
    pub(crate) fn open(&self) -> io::Result<Reader<'_>> {
        match self {
            Self::Bytes(bytes) => Ok(Reader::Bytes(bytes)),
            Self::File { path, size } => {
                let file = open(path)?;
                // Of a large file it is good to know before much is written; a small one is read whole anyway.
                let now = if *size > LARGE { file.metadata()?.len() } else { *size };
                if now != *size {
                    return Err(io::Error::other(format!(
                        "had {size} bytes when it was listed and now has {now}"
                    )));
                }
                Ok(Reader::File(file))
            }
            Self::Slice { path, offset, .. } => {
                let mut file = open(path)?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok(Reader::File(file))
            }
            Self::Object { root, name, offset, size } => {
                let range = ByteRange { start: *offset, end: Some(offset.saturating_add(*size)) };
                Ok(Reader::Object { root, stream: root.stream(name, range), chunk: Bytes::new() })
            }
        }
    }

    /// Opens it for reading here and there.
    pub(crate) fn open_seekable(&self) -> io::Result<Seekable> {
        match self {
            Self::Bytes(bytes) => Ok(Seekable::Bytes(io::Cursor::new(bytes.clone()))),
            Self::File { path, size } => {
                Ok(Seekable::File(Window { file: open(path)?, start: 0, size: *size, at: 0 }))
            }
            Self::Slice { path, offset, size } => {
                let mut window = Window { file: open(path)?, start: *offset, size: *size, at: 0 };
                window.seek(SeekFrom::Start(0))?;
                Ok(Seekable::File(window))
            }
            Self::Object { root, name, offset, size } => Ok(Seekable::Object(Remotely {
                root: Arc::clone(root),
                name: Arc::clone(name),
                start: *offset,
                size: *size,
                at: 0,
                chunk: (0, Bytes::new()),
            })),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The bytes of a [`Content`]; a slice does not know its end.
pub(crate) enum Reader<'a> {
    Bytes(&'a [u8]),
    File(File),
    Object { root: &'a Root, stream: ByteStream, chunk: Bytes },
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::File(file) => file.read(buffer),
            Self::Object { root, stream, chunk } => {
                if chunk.is_empty() {
                    match root.wait(stream.next()) {
                        None => return Ok(0),
                        Some(next) => *chunk = next.map_err(io::Error::other)?,
                    }
                }
                let read = buffer.len().min(chunk.len());
                chunk.copy_to_slice(&mut buffer[..read]);
                Ok(read)
            }
        }
    }
}

/// The bytes of a [`Content`], to be read here and there.
pub(crate) enum Seekable {
    Bytes(io::Cursor<Bytes>),
    File(Window),
    Object(Remotely),
}

/// Bytes that are asked for at once where only a little is wanted here and there: headers.
const LITTLE: u64 = 64 << 10;

/// Some bytes of an object, as if there were no others.
pub(crate) struct Remotely {
    root: Arc<Root>,
    name: Arc<str>,
    start: u64,
    size: u64,
    at: u64,
    /// What was read last, and where it begins.
    chunk: (u64, Bytes),
}

impl Read for Remotely {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size {
            return Ok(0);
        }
        let (begin, chunk) = &self.chunk;
        if !(*begin..begin + chunk.len() as u64).contains(&self.at) {
            let end = self.at.saturating_add(LITTLE).min(self.size);
            let range = ByteRange { start: self.start + self.at, end: Some(self.start + end) };
            let mut stream = self.root.stream(&self.name, range);
            let next = self.root.wait(stream.next()).transpose().map_err(io::Error::other)?;
            let Some(next) = next else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            self.chunk = (self.at, next);
        }
        let (begin, chunk) = &self.chunk;
        // Within the chunk, which is in memory.
        let mut rest = &chunk[(self.at - begin) as usize..];
        let read = rest.read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Remotely {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
        };
        self.at = to.ok_or_else(no_such_place)?;
        Ok(self.at)
    }
}

fn no_such_place() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "seek to a place that no file has")
}

/// Some bytes of a file, as if there were no others.
pub(crate) struct Window {
    file: File,
    start: u64,
    size: u64,
    at: u64,
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        let read = self.file.read(&mut buffer[..want])?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
        };
        let place = to.and_then(|at| Some((at, at.checked_add(self.start)?)));
        let (at, in_file) = place.ok_or_else(no_such_place)?;
        self.file.seek(SeekFrom::Start(in_file))?;
        self.at = at;
        Ok(at)
    }
}

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::File(window) => window.read(buffer),
            Self::Object(object) => object.read(buffer),
        }
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => bytes.seek(to),
            Self::File(window) => window.seek(to),
            Self::Object(object) => object.seek(to),
        }
    }
}
