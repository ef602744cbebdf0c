//! How a file is read: what the system has in memory on the spot, all else on a blocking thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ByteRange;
use super::buffer::{Buffer, CHUNK};
use super::local::{failed, joined};
use crate::error::Result;

/// Chunks that wait for the parser.
const AHEAD: usize = 2;

/// Reads until the room is full, the file ends, or there is an error; how many bytes it was, and the error. `read` reads on behind so
/// many bytes.
fn fill(
    room: &mut [u8],
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < room.len() {
        match read(&mut room[filled..], filled) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}

/// A file that is being read.
pub(super) struct Reading {
    path: String,
    file: File,
    /// How long it was when it was opened; of a pipe or a device nobody knows.
    length: u64,
    /// Where the next chunk begins.
    at: u64,
    /// Bytes up to the end of the range.
    left: u64,
}

impl Reading {
    pub(super) fn open(path: String, range: ByteRange) -> Result<Self> {
        let open = || {
            let file = File::open(&path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "is a directory, not a shard",
                ));
            }
            Ok((file, if metadata.is_file() { metadata.len() } else { u64::MAX }))
        };
        let (file, length) = open().map_err(|error| failed(&path, error))?;
        // Past the end of any file, and more than a seek can say.
        let beyond = range.start > i64::MAX as u64;
        let left = range.end.map_or(u64::MAX, |end| end.saturating_sub(range.start));
        Ok(Self { path, file, length, at: range.start, left: if beyond { 0 } else { left } })
    }

    /// Takes a chunk, of which so many bytes are wanted.
    fn chunk(&self) -> (Buffer, usize) {
        (Buffer::take(), CHUNK.min(usize::try_from(self.left).unwrap_or(CHUNK)))
    }

    fn passed(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left -= bytes as u64;
    }

    /// The next chunk as far as the system has it in memory, an empty one at the end; none where a disk must be waited for, or where
    /// that can't be told. `read` reads at a place what is there.
    fn cached(
        &mut self,
        read: impl Fn(&File, &mut [u8], u64) -> io::Result<usize>,
    ) -> Option<Bytes> {
        let (mut chunk, want) = self.chunk();
        // An error of the disk comes again, and is told, where the file is waited for.
        let (filled, _) = fill(&mut chunk.room()[..want], |rest, filled| {
            read(&self.file, rest, self.at + filled as u64)
        });
        // Nothing in front of the end: not there, or a kernel (5.9, 5.10) that says 0 for that too.
        if filled == 0 && want > 0 && self.at < self.length {
            return None;
        }
        self.passed(filled);
        Some(chunk.freeze(filled))
    }

    /// Reads the rest and sends its chunks until it ends or nobody listens.
    fn pump(&mut self, sender: &mpsc::Sender<Bytes>) -> io::Result<()> {
        if self.at > 0 && self.left > 0 {
            self.file.seek(SeekFrom::Start(self.at))?;
        }
        while self.left > 0 {
            let (mut chunk, want) = self.chunk();
            let (read, result) = fill(&mut chunk.room()[..want], |rest, _| self.file.read(rest));
            result?;
            if read == 0 {
                break;
            }
            self.passed(read);
            if sender.blocking_send(chunk.freeze(read)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The rest, read on a blocking thread.
    fn pumped(mut self) -> Chunks {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let thread = tokio::task::spawn_blocking(move || {
            self.pump(&sender).map_err(|error| failed(&self.path, error))
        });
        Chunks::Pumped(receiver, thread)
    }
}

/// Lets other tasks run: a chunk is as much as one should do in a turn.
///
/// Not `tokio::task::yield_now`: that keeps the task on its worker until the worker has nothing else to do, and a lane, whose tasks wake
/// each other, stays on one core. Woken so, it goes to the end of the queue from which idle workers take tasks (measured: 1.2 cores
/// against 1.8).
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Where the next chunk of a file comes from.
pub(super) enum Chunks {
    /// The system's memory: that costs no more than to copy it, which needs no other thread.
    Cached(Reading),
    /// A blocking thread, from the first place on where a disk must be waited for.
    Pumped(mpsc::Receiver<Bytes>, JoinHandle<Result<()>>),
    /// Nowhere: it was read to its end, or an error was.
    Ended,
}

impl Chunks {
    pub(super) async fn next(mut self) -> Option<(Result<Bytes>, Self)> {
        if let Self::Cached(mut reading) = self {
            pause().await;
            match reading.cached(read_now) {
                Some(end) if end.is_empty() => return None,
                Some(chunk) => return Some((Ok(chunk), Self::Cached(reading))),
                None => self = reading.pumped(),
            }
        }
        let Self::Pumped(mut receiver, thread) = self else { return None };
        match receiver.recv().await {
            Some(chunk) => Some((Ok(chunk), Self::Pumped(receiver, thread))),
            None => joined(thread).await.err().map(|error| (Err(error), Self::Ended)),
        }
    }
}

/// Reads at a place of a file what the system has in memory; an error if that is nothing.
#[cfg(target_os = "linux")]
fn read_now(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};
    Ok(preadv2(file, &mut [io::IoSliceMut::new(room)], at, ReadWriteFlags::NOWAIT)?)
}

#[cfg(not(target_os = "linux"))]
fn read_now(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::{StreamExt, stream};

    use super::*;

    /// All that comes from here on.
    async fn all(chunks: Chunks) -> Vec<u8> {
        let chunks = stream::unfold(chunks, Chunks::next).map(Result::unwrap);
        chunks.collect::<Vec<_>>().await.concat()
    }

    /// A file of 3 chunks and a bit.
    fn file(folder: &tempfile::TempDir) -> (String, Vec<u8>) {
        let path = folder.path().join("file").to_str().unwrap().to_owned();
        let bytes: Vec<u8> = (0..3 * CHUNK + 12_345).map(|at| (at / 7) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }

    /// As the system reads where it has all in memory.
    fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(at))?;
        file.read(room)
    }

    #[tokio::test]
    async fn both_ways_give_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = file(&folder);
        let end = bytes.len() as u64;
        let chunk = CHUNK as u64;
        for (start, stop) in [
            (0, None),
            (0, Some(0)),
            (7, Some(chunk)),
            (5, Some(end + 9)),
            (end, None),
            (end + 1, None),
            (u64::MAX, None),
            (chunk, Some(end - 1)),
        ] {
            let range = ByteRange { start, end: stop };
            let from = start.min(end);
            let expected = &bytes[from as usize..stop.unwrap_or(end).clamp(from, end) as usize];
            let open = || Reading::open(path.clone(), range).unwrap();
            assert!(all(Chunks::Cached(open())).await == expected, "{range:?}");
            assert!(all(open().pumped()).await == expected, "{range:?}");
            // All in memory, in pieces.
            let (mut reading, mut found) = (open(), Vec::new());
            let pieces = |file: &File, room: &mut [u8], at| {
                let few = room.len().min(100_000);
                read_at(file, &mut room[..few], at)
            };
            while let Some(chunk) = reading.cached(pieces).filter(|chunk| !chunk.is_empty()) {
                assert!(chunk.len() == CHUNK || reading.left == 0 || reading.at == end);
                found.extend_from_slice(&chunk);
            }
            assert!(found == expected, "{range:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_in_memory_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = file(&folder);
        // At each of these places the system has no more; some kernels say 0 then, as at the end.
        for hole in [0, 1, 4096, CHUNK, CHUNK + 1, 2 * CHUNK + 7, bytes.len() - 1] {
            let answers: [fn() -> io::Result<usize>; 2] =
                [|| Err(io::ErrorKind::WouldBlock.into()), || Ok(0)];
            for answer in answers {
                let interrupted = Cell::new(false);
                let read = |file: &File, room: &mut [u8], at| {
                    if !interrupted.replace(true) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    let few = room.len().min(hole - at as usize);
                    if few == 0 { answer() } else { read_at(file, &mut room[..few], at) }
                };
                let mut reading = Reading::open(path.clone(), ByteRange::ALL).unwrap();
                let mut found = Vec::new();
                while let Some(chunk) = reading.cached(read) {
                    assert!(!chunk.is_empty(), "an end at {hole}");
                    found.extend_from_slice(&chunk);
                }
                assert_eq!(found.len(), hole);
                found.extend(all(reading.pumped()).await);
                assert!(found == bytes, "{hole}");
            }
        }
    }

    #[tokio::test]
    async fn an_error_of_the_thread_is_the_last_item() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = file(&folder);
        let mut reading = Reading::open(path, ByteRange::ALL).unwrap();
        // Opened for writing alone: every read fails.
        let other = folder.path().join("other");
        reading.file = File::create(other).unwrap();
        let items: Vec<_> = stream::unfold(reading.pumped(), Chunks::next).collect().await;
        assert_eq!(items.len(), 1);
        assert!(items[0].as_ref().is_err_and(|error| error.to_string().contains("/file: ")));
    }
}
