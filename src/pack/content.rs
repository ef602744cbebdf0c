//! What goes into a member, and where it is read from.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// The contents of a member. The size is known before anything is read: it stands in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// In memory.
    Bytes(Bytes),
    /// A whole file, of this size when it was listed.
    File { path: PathBuf, size: u64 },
    /// Some bytes of a file: a member of another tar.
    Slice { path: PathBuf, offset: u64, size: u64 },
}

impl Content {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } | Self::Slice { size, .. } => *size,
        }
    }

    /// Opens it for reading from its first byte.
    pub(crate) fn open(&self) -> io::Result<Reader<'_>> {
        match self {
            Self::Bytes(bytes) => Ok(Reader::Bytes(bytes)),
            Self::File { path, size } => {
                let file = open(path)?;
                let now = file.metadata()?;
                if !now.is_file() {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
                }
                if now.len() != *size {
                    return Err(io::Error::other(format!("had {size} bytes when it was listed and now has {}", now.len())));
                }
                Ok(Reader::File(file))
            }
            Self::Slice { path, offset, .. } => {
                let mut file = open(path)?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok(Reader::File(file))
            }
        }
    }

    /// Opens it for reading here and there; a slice is read into memory for that.
    pub(crate) fn open_seekable(&self) -> io::Result<Seekable> {
        match self {
            Self::Bytes(bytes) => Ok(Seekable::Bytes(io::Cursor::new(bytes.clone()))),
            Self::File { path, .. } => Ok(Seekable::File(open(path)?)),
            Self::Slice { .. } => Ok(Seekable::Bytes(io::Cursor::new(self.read(u64::MAX)?.into()))),
        }
    }

    /// The first bytes, at most `limit`.
    pub(crate) fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open()?.take(self.size().min(limit)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The bytes of a [`Content`]; a slice does not know its end.
pub(crate) enum Reader<'a> {
    Bytes(&'a [u8]),
    File(File),
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::File(file) => file.read(buffer),
        }
    }
}

/// The bytes of a [`Content`], to be read here and there.
pub(crate) enum Seekable {
    Bytes(io::Cursor<Bytes>),
    File(File),
}

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::File(file) => file.read(buffer),
        }
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => bytes.seek(to),
            Self::File(file) => file.seek(to),
        }
    }
}
