//! Compressed shards, recognised by what they hold and not by what they are called.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};

use super::ByteStream;
use crate::error::Error;

/// How many bytes [`Compression::of`] wants to see.
const HEAD: usize = 10;

/// A way to compress that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.tar.gz`, `.tgz`; one member or several.
    Gzip,
    /// `.tar.zst`; one frame or several, skippable ones among them.
    Zstd,
    /// `.tar.bz2`; one stream or several.
    Bzip2,
    /// `.tar.xz`; one stream or several.
    Xz,
}

impl Compression {
    /// What the first bytes of a file say; a tar archive says nothing.
    ///
    /// ```
    /// use shardstream::store::decompress::Compression;
    /// assert_eq!(Compression::of(b"\x1f\x8b\x08\0"), Some(Compression::Gzip));
    /// assert_eq!(Compression::of(b"BZhang_0.jpg\0\0\0"), None);
    /// ```
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            // A member's name may begin with BZh, but not with what follows: the digits of pi, or of its root in an empty file.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                Some(Self::Bzip2)
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            _ => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The contents of a shard: decompressed if its first bytes say that it is compressed, else the very chunks that come in.
///
/// Decompresses while it is polled, chunk by chunk: whatever the contents blow up to, a few hundred KiB are held (and the decoder's
/// window). Byte offsets in errors count the contents. An `Err` is the last item.
pub fn decompress(stream: ByteStream) -> ByteStream {
    open(stream).flatten_stream().boxed()
}

/// Looks at the first bytes.
async fn open(stream: ByteStream) -> ByteStream {
    // A short one ends here, and is asked again below.
    let mut stream = stream.fuse();
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut head = Vec::with_capacity(HEAD);
    let mut failed = None;
    while head.len() < HEAD {
        match stream.next().await {
            Some(Ok(chunk)) => {
                let more = chunk.len().min(HEAD - head.len());
                head.extend_from_slice(&chunk[..more]);
                chunks.push(chunk);
            }
            Some(Err(error)) => {
                failed = Some(Err(error));
                break;
            }
            None => break,
        }
    }
    let whole = stream::iter(chunks.into_iter().map(Ok).chain(failed)).chain(stream).boxed();
    match Compression::of(&head) {
        None => whole,
        Some(compression) => decode(compression, whole),
    }
}

#[cfg(not(feature = "compression"))]
fn decode(compression: Compression, _: ByteStream) -> ByteStream {
    let word = compression.word();
    let error = Error::store(format!(
        "{word} data, but this build can't decompress (cargo feature `compression`)"
    ));
    stream::once(std::future::ready(Err(error))).boxed()
}

#[cfg(feature = "compression")]
fn decode(compression: Compression, stream: ByteStream) -> ByteStream {
    use std::io;

    use async_compression::tokio::bufread::{BzDecoder, GzipDecoder, XzDecoder, ZstdDecoder};
    use tokio::io::AsyncRead;
    use tokio_util::io::{ReaderStream, StreamReader};

    /// Size of the chunks that come out.
    const CHUNK: usize = 256 << 10;
    /// What an xz file may ask for its window.
    const XZ_MEMORY: u64 = 512 << 20;

    let reader = StreamReader::new(stream.map(|chunk| chunk.map_err(io::Error::other)));
    macro_rules! members {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            decoder.multiple_members(true);
            Box::pin(decoder)
        }};
    }
    let decoder: std::pin::Pin<Box<dyn AsyncRead + Send>> = match compression {
        Compression::Gzip => members!(GzipDecoder::new(reader)),
        Compression::Zstd => members!(ZstdDecoder::new(reader)),
        Compression::Bzip2 => members!(BzDecoder::new(reader)),
        Compression::Xz => members!(XzDecoder::with_mem_limit(reader, XZ_MEMORY)),
    };
    let mut offset = 0;
    ReaderStream::with_capacity(decoder, CHUNK)
        .map(move |chunk| match chunk {
            Ok(chunk) => {
                offset += chunk.len() as u64;
                Ok(chunk)
            }
            Err(error) => Err(explain(compression, offset, error)),
        })
        .boxed()
}

/// What the store said comes through as it is; the rest is the decoder's.
#[cfg(feature = "compression")]
fn explain(compression: Compression, offset: u64, error: std::io::Error) -> Error {
    let word = compression.word();
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::store(format!("the {word} data is cut off")).at(offset)
        }
        Err(error) => {
            Error::store(format!("the {word} data is broken")).at(offset).with_source(error)
        }
    }
}
