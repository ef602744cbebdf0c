//! Writes the twins of one shard, whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::content::Content;
use super::ustar;
use crate::error::{Error, Result, Scope};
use crate::sample::Key;

/// Bytes of each twin that wait to be written.
const BUFFER: usize = 1 << 20;

/// One member to write: which twin, what name, what contents.
#[derive(Debug)]
pub(crate) struct NewMember<'a> {
    pub(crate) twin: usize,
    pub(crate) name: &'a [u8],
    pub(crate) content: &'a Content,
}

/// What a finished twin is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TwinFacts {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// The twins of one shard while they are written, under temporary names beside the final ones.
#[derive(Debug)]
pub(crate) struct TwinWriter {
    shard: String,
    twins: Vec<Twin>,
    samples: u32,
}

impl TwinWriter {
    /// Begins a shard: `root/<modality>/<shard>` for each modality.
    pub(crate) fn create(root: &Path, shard: &str, modalities: &[String]) -> Result<Self> {
        let twins = modalities.iter().map(|modality| {
            let path = root.join(modality).join(shard);
            Twin::create(path.clone(), modality).map_err(|e| fatal(&path, e))
        });
        Ok(Self { shard: shard.to_owned(), twins: twins.collect::<Result<_>>()?, samples: 0 })
    }

    /// Samples written so far.
    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// Adds a sample to all twins. If the error concerns one sample, nothing of that sample was written and the shard is as it was.
    pub(crate) fn append(&mut self, key: &Key, members: &[NewMember<'_>]) -> Result<()> {
        for (at, twin) in self.twins.iter_mut().enumerate() {
            let coming: u64 = members
                .iter()
                .filter(|m| m.twin == at)
                .map(|m| m.content.size() + m.name.len() as u64 + 4 * 512)
                .sum();
            twin.mark(coming).map_err(|e| fatal(&twin.path, e))?;
        }
        for member in members {
            let twin = &mut self.twins[member.twin];
            match twin.append(member.name, member.content) {
                Ok(()) => {}
                Err(Failure::Write(error)) => return Err(fatal(&twin.path, error)),
                Err(Failure::Read(error)) => {
                    let error = Error::store("").with_source(error).with_scope(Scope::Sample);
                    let error = error
                        .in_member(String::from_utf8_lossy(member.name))
                        .in_modality(twin.modality.as_str());
                    for twin in &mut self.twins {
                        twin.take_back().map_err(|e| fatal(&twin.path, e))?;
                    }
                    return Err(error.of_key(key.to_string()).in_shard(self.shard.as_str()));
                }
            }
        }
        self.samples += 1;
        Ok(())
    }

    /// Ends the archives, brings them to the disk and gives them their names.
    pub(crate) fn finish(mut self) -> Result<Vec<TwinFacts>> {
        let mut facts = Vec::with_capacity(self.twins.len());
        for twin in &mut self.twins {
            facts.push(twin.end().map_err(|e| fatal(&twin.path, e))?);
        }
        for twin in &mut self.twins {
            twin.rename().map_err(|e| fatal(&twin.path, e))?;
        }
        Ok(facts)
    }
}

/// An output that can't be written ends the run.
fn fatal(path: &Path, error: io::Error) -> Error {
    Error::pack("can't write").with_source(error).in_shard(path.to_string_lossy())
}

enum Failure {
    Read(io::Error),
    Write(io::Error),
}

#[derive(Debug)]
struct Twin {
    modality: String,
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    buffer: Box<[u8]>,
    filled: usize,
    flushed: u64,
    hash: Sha256,
    mark: (usize, u64, Sha256),
    named: bool,
}

impl Twin {
    fn create(path: PathBuf, modality: &str) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let temporary = temporary(&path);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&temporary)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let mark = (0, 0, Sha256::new());
        let modality = modality.to_owned();
        Ok(Self {
            modality,
            path,
            temporary,
            file,
            buffer,
            filled: 0,
            flushed: 0,
            hash: Sha256::new(),
            mark,
            named: false,
        })
    }

    /// Remembers the place before a sample. If the sample won't fit into the buffer, the buffer is emptied first, so that what is
    /// taken back is either all in the buffer or all behind the mark.
    fn mark(&mut self, coming: u64) -> io::Result<()> {
        if self.filled as u64 + coming > BUFFER as u64 {
            self.flush()?;
        }
        self.mark = (self.filled, self.flushed, self.hash.clone());
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        let (filled, flushed, hash) = &self.mark;
        if self.flushed != *flushed {
            self.file.set_len(*flushed)?;
            self.file.seek(SeekFrom::Start(*flushed))?;
            self.flushed = *flushed;
            self.hash.clone_from(hash);
        }
        self.filled = *filled;
        Ok(())
    }

    fn append(&mut self, name: &[u8], content: &Content) -> Result<(), Failure> {
        let size = content.size();
        let mut reader = content.open().map_err(Failure::Read)?;
        self.write(&ustar::head(name, size)).map_err(Failure::Write)?;
        let mut left = size;
        while left > 0 {
            if self.filled == BUFFER
                || (left <= BUFFER as u64 && self.filled as u64 + left > BUFFER as u64)
            {
                self.flush().map_err(Failure::Write)?;
            }
            let room = &mut self.buffer[self.filled..];
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            reader.read_exact(&mut room[..want]).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    Failure::Read(io::Error::other(format!("ends before its {size} bytes")))
                }
                _ => Failure::Read(error),
            })?;
            self.filled += want;
            left -= want as u64;
        }
        self.write(&[0; 512][..ustar::padding(size)]).map_err(Failure::Write)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.filled == BUFFER {
                self.flush()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BUFFER - self.filled));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = &self.buffer[..self.filled];
        self.hash.update(bytes);
        self.file.write_all(bytes)?;
        self.flushed += bytes.len() as u64;
        self.filled = 0;
        Ok(())
    }

    fn end(&mut self) -> io::Result<TwinFacts> {
        let zeros = ustar::trailer(self.flushed + self.filled as u64);
        self.write(&vec![0; zeros])?;
        self.flush()?;
        self.file.sync_all()?;
        let sha256 =
            self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(TwinFacts { bytes: self.flushed, sha256 })
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)?;
        self.named = true;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        if !self.named {
            // Given up: nobody needs what is there, and a later run replaces it if this fails.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// The name under which a file is written before it is whole: hidden, and no `.tar`, so that nobody takes it for a shard.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(samples: &[(&str, Vec<Content>)]) -> (Vec<Result<()>>, Vec<u8>, TwinFacts) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            TwinWriter::create(folder.path(), "part_000000/000000.tar", &["image".into()]).unwrap();
        let results = samples.iter().map(|(key, contents)| {
            let names: Vec<String> = (0..contents.len()).map(|i| format!("{key}.{i}")).collect();
            let members: Vec<_> = contents
                .iter()
                .zip(&names)
                .map(|(content, name)| NewMember { twin: 0, name: name.as_bytes(), content })
                .collect();
            writer.append(&Key::from(*key), &members)
        });
        let results = results.collect();
        let facts = writer.finish().unwrap().remove(0);
        let path = folder.path().join("image/part_000000/000000.tar");
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "a temporary file was left"
        );
        (results, fs::read(path).unwrap(), facts)
    }

    #[test]
    fn a_sample_that_fails_leaves_no_trace() {
        let bytes = |n: usize| Content::Bytes(vec![7; n].into());
        let missing = Content::File { path: "/no/such/file".into(), size: 5 };
        // The failing sample begins in the buffer, fills it, or is larger than it.
        for (before, first) in [
            (10, 10),
            (BUFFER - 3000, 10),
            (BUFFER - 3000, 5000),
            (700_000, 3 * BUFFER),
            (2 * BUFFER, 10),
        ] {
            let good = [("a", vec![bytes(before)]), ("c", vec![bytes(9)])];
            let (_, want, _) = write(&good);
            let [a, c] = good;
            let (results, got, facts) = write(&[a, ("b", vec![bytes(first), missing.clone()]), c]);
            let error = results[1].as_ref().unwrap_err();
            assert!(error.concerns_one_sample(), "{error}");
            assert!(error.to_string().starts_with("read: of sample b member b.1 modality image in part_000000/000000.tar: No such file")
                || error.to_string().starts_with("read: sample b member b.1 modality image in part_000000/000000.tar: No such file"), "{error}");
            assert!(got == want, "{before} {first}: other bytes");
            assert_eq!(facts.bytes, got.len() as u64);
            let sum: String = Sha256::digest(&got).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(facts.sha256, sum, "{before} {first}");
        }
    }

    #[test]
    fn what_is_not_finished_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            TwinWriter::create(folder.path(), "0.tar", &["image".into(), "caption".into()])
                .unwrap();
        let content = Content::Bytes("x".into());
        writer
            .append(&Key::from("a"), &[NewMember { twin: 1, name: b"a.json", content: &content }])
            .unwrap();
        drop(writer);
        for modality in ["image", "caption"] {
            assert_eq!(fs::read_dir(folder.path().join(modality)).unwrap().count(), 0);
        }
    }
}
