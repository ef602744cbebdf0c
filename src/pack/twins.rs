//! Writes the twins of one shard, whole or not at all.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::content::Content;
use super::root::Root;
use super::sink::Sink;
use super::ustar;
use crate::error::{Error, Result, Scope};
use crate::sample::Key;

/// Bytes of each twin that wait to be written, beyond those that are written at once.
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

/// The twins of one shard while they are written, and have no names yet.
#[derive(Debug)]
pub(crate) struct TwinWriter {
    shard: String,
    twins: Vec<Twin>,
    samples: u32,
    spoiled: bool,
}

impl TwinWriter {
    /// Begins a shard: `root/<modality>/<shard>` for each modality.
    pub(crate) fn create(root: &Root, shard: &str, modalities: &[String]) -> Result<Self> {
        let twins = modalities.iter().map(|modality| Twin::create(root, modality, shard));
        let twins = twins.collect::<Result<_>>()?;
        Ok(Self { shard: shard.to_owned(), twins, samples: 0, spoiled: false })
    }

    /// Samples written so far.
    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// Whether a sample that failed could not be taken back: then the shard has to be begun again without it.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Adds a sample to all twins. If the error concerns one sample, nothing of that sample was written and the shard is as it was,
    /// unless it [is spoiled](Self::is_spoiled).
    pub(crate) fn append(&mut self, key: &Key, members: &[NewMember<'_>]) -> Result<()> {
        for (at, twin) in self.twins.iter_mut().enumerate() {
            let coming: u64 = members
                .iter()
                .filter(|m| m.twin == at)
                .map(|m| m.content.size() + m.name.len() as u64 + 4 * 512)
                .sum();
            twin.mark(coming)?;
        }
        for member in members {
            let twin = &mut self.twins[member.twin];
            match twin.append(member.name, member.content) {
                Ok(()) => {}
                Err(Failure::Write(error)) => return Err(error),
                Err(Failure::Read(error)) => {
                    let error = Error::store("").with_source(error).with_scope(Scope::Sample);
                    let error = error
                        .in_member(String::from_utf8_lossy(member.name))
                        .in_modality(twin.modality.as_str());
                    for twin in &mut self.twins {
                        self.spoiled |= !twin.take_back()?;
                    }
                    return Err(error.of_key(key.to_string()).in_shard(self.shard.as_str()));
                }
            }
        }
        self.samples += 1;
        Ok(())
    }

    /// Ends the archives, brings them to where they stay and gives them their names.
    pub(crate) fn finish(mut self) -> Result<Vec<TwinFacts>> {
        let facts = self.twins.iter_mut().map(Twin::end).collect::<Result<_>>()?;
        self.twins.iter_mut().try_for_each(|twin| twin.sink.name())?;
        Ok(facts)
    }
}

enum Failure {
    Read(io::Error),
    Write(Error),
}

#[derive(Debug)]
struct Twin {
    modality: String,
    sink: Sink,
    buffer: Box<[u8]>,
    filled: usize,
    flushed: u64,
    hash: Sha256,
    mark: Mark,
}

/// The place before a sample.
#[derive(Debug, Clone, Default)]
struct Mark {
    at: u64,
    /// Of all bytes that were flushed then.
    hash: Sha256,
}

impl Twin {
    fn create(root: &Root, modality: &str, shard: &str) -> Result<Self> {
        let sink = root.create(&format!("{modality}/{shard}"))?;
        // Whatever is written at once, and room for more.
        let buffer = vec![0; sink.unit() + BUFFER].into_boxed_slice();
        Ok(Self {
            modality: modality.to_owned(),
            sink,
            buffer,
            filled: 0,
            flushed: 0,
            hash: Sha256::new(),
            mark: Mark::default(),
        })
    }

    /// Remembers the place before a sample. If the sample won't fit into the buffer, the buffer is emptied first, so that what is
    /// taken back is either all in the buffer or all behind the mark.
    fn mark(&mut self, coming: u64) -> Result<()> {
        if self.filled as u64 + coming > self.buffer.len() as u64 {
            self.flush()?;
        }
        self.mark = Mark { at: self.flushed + self.filled as u64, hash: self.hash.clone() };
        Ok(())
    }

    /// False if some of the sample can't be taken back.
    fn take_back(&mut self) -> Result<bool> {
        if self.flushed <= self.mark.at {
            // At most what the buffer holds.
            self.filled = (self.mark.at - self.flushed) as usize;
            return Ok(true);
        }
        let done = self.sink.take_back(self.mark.at)?;
        self.flushed = self.mark.at;
        self.hash.clone_from(&self.mark.hash);
        self.filled = 0;
        Ok(done)
    }

    fn append(&mut self, name: &[u8], content: &Content) -> Result<(), Failure> {
        let size = content.size();
        let mut reader = content.open().map_err(Failure::Read)?;
        self.write(&ustar::head(name, size)).map_err(Failure::Write)?;
        // One byte more than is due is asked for: that it isn't there tells, without a call of its own, that the file has not grown.
        // Behind a member comes the rest of its tar.
        let beyond = u64::from(!content.is_member());
        let mut left = size + beyond;
        while left > 0 {
            if self.filled == self.buffer.len()
                || (left <= BUFFER as u64 && self.filled as u64 + left > self.buffer.len() as u64)
            {
                self.flush().map_err(Failure::Write)?;
            }
            let room = &mut self.buffer[self.filled..];
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            let read = match reader.read(&mut room[..want]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(Failure::Read)?,
            };
            left -= read as u64;
            if left < beyond {
                let grown = format!("had {size} bytes when it was listed and now has more");
                return Err(Failure::Read(io::Error::other(grown)));
            }
            self.filled += read;
            if left == beyond && read < want {
                break;
            }
            if read == 0 {
                let short = format!("ends before its {size} bytes");
                return Err(Failure::Read(io::Error::other(short)));
            }
        }
        self.write(&[0; 512][..ustar::padding(size)]).map_err(Failure::Write)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.buffer.len() - self.filled));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Writes what can be written: all, or whole parts of an upload.
    fn flush(&mut self) -> Result<()> {
        let units = self.filled / self.sink.unit() * self.sink.unit();
        self.write_out(units)
    }

    fn write_out(&mut self, bytes: usize) -> Result<()> {
        self.hash.update(&self.buffer[..bytes]);
        self.sink.write(&self.buffer[..bytes])?;
        self.flushed += bytes as u64;
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        Ok(())
    }

    fn end(&mut self) -> Result<TwinFacts> {
        let zeros = ustar::trailer(self.flushed + self.filled as u64);
        self.write(&vec![0; zeros])?;
        self.flush()?;
        self.write_out(self.filled)?;
        self.sink.end()?;
        let sha256 =
            self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(TwinFacts { bytes: self.flushed, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::{Store, StoreOptions, Stores};

    fn write(samples: &[(&str, Vec<Content>)]) -> (Vec<Result<()>>, Vec<u8>, TwinFacts) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path(), None).unwrap();
        let mut writer =
            TwinWriter::create(&root, "part_000000/000000.tar", &["image".into()]).unwrap();
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
        let root = Root::open(folder.path(), None).unwrap();
        let mut writer =
            TwinWriter::create(&root, "0.tar", &["image".into(), "caption".into()]).unwrap();
        let content = Content::Bytes("x".into());
        writer
            .append(&Key::from("a"), &[NewMember { twin: 1, name: b"a.json", content: &content }])
            .unwrap();
        drop(writer);
        for modality in ["image", "caption"] {
            assert_eq!(fs::read_dir(folder.path().join(modality)).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_upload_has_the_same_bytes_or_is_spoiled() {
        let stores = Stores::new(StoreOptions::default()).unwrap();
        let root = Root::open("memory://x".as_ref(), Some(&stores)).unwrap();
        let bytes = |n: usize| Content::Bytes(vec![7; n].into());
        let missing = Content::File { path: "/no/such/file".into(), size: 5 };
        let unit = crate::store::upload::PART;
        // What fails is in the buffer, or large enough that a part of it has left.
        for (before, first, spoils) in [
            (10, 10, false),
            (unit - 3000, 5000, false),
            (unit, 3 * BUFFER, false),
            (10, unit + 2 * BUFFER, true),
        ] {
            let mut writer = TwinWriter::create(&root, "0.tar", &["image".into()]).unwrap();
            let good = [("a", vec![bytes(before)]), ("c", vec![bytes(9)])];
            let (_, want, facts) = write(&good);
            let [a, c] = good;
            for (key, contents) in [a, ("b", vec![bytes(first), missing.clone()]), c] {
                let names: Vec<String> =
                    (0..contents.len()).map(|i| format!("{key}.{i}")).collect();
                let members = contents.iter().zip(&names);
                let members: Vec<_> = members
                    .map(|(content, name)| NewMember { twin: 0, name: name.as_bytes(), content })
                    .collect();
                let done = writer.append(&Key::from(key), &members);
                assert_eq!(done.is_err(), key == "b", "{done:?}");
            }
            assert_eq!(writer.is_spoiled(), spoils, "{before} {first}");
            let there = || root.wait(stores.head("memory://x/image/0.tar")).is_ok();
            if spoils {
                drop(writer);
                assert!(!there());
            } else {
                assert!(!there(), "seen before it is whole");
                assert_eq!(writer.finish().unwrap(), [facts]);
                assert!(stores.memory().get("x/image/0.tar").unwrap() == want, "{before} {first}");
                root.remove("image/0.tar").unwrap();
            }
        }
    }

    #[test]
    fn a_file_that_changed_since_it_was_listed_leaves_the_shard_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            fs::write(&path, vec![7; bytes]).unwrap();
            path
        };
        let whole = Content::File { path: file("whole", 3 * BUFFER), size: 3 * BUFFER as u64 };
        let archive = |contents: &[(&str, Content)]| {
            let output = tempfile::tempdir().unwrap();
            let root = Root::open(output.path(), None).unwrap();
            let mut writer = TwinWriter::create(&root, "0.tar", &["image".into()]).unwrap();
            let mut errors = Vec::new();
            for (key, content) in contents {
                let name = format!("{key}.jpg").into_bytes();
                let member = NewMember { twin: 0, name: &name, content };
                if let Err(error) = writer.append(&Key::from(*key), &[member]) {
                    assert!(error.concerns_one_sample(), "{error}");
                    errors.push(error.to_string());
                }
            }
            writer.finish().unwrap();
            (fs::read(output.path().join("image/0.tar")).unwrap(), errors)
        };
        let sound = [("a", Content::Bytes("x".into())), ("z", whole.clone())];
        let (due, errors) = archive(&sound);
        assert!(errors.is_empty(), "{errors:?}");
        // Small ones, one that just fills the buffer, large ones.
        for size in
            [0, 1, 2000, BUFFER - 513, BUFFER - 512, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER]
        {
            for now in [size + 1, size.saturating_sub(1)] {
                if now == size {
                    continue;
                }
                let changed = Content::File { path: file("changed", now), size: size as u64 };
                let with = [sound[0].clone(), ("b", changed), sound[1].clone()];
                let (got, errors) = archive(&with);
                let why = ["when it was listed and now has", "ends before"];
                let named = why.iter().any(|why| errors[0].contains(why));
                assert!(errors.len() == 1 && named, "{size}: {errors:?}");
                assert!(got == due, "{size}: the archive differs");
            }
            let unchanged = Content::File { path: file("unchanged", size), size: size as u64 };
            assert!(archive(&[("b", unchanged)]).1.is_empty(), "{size}");
        }
    }
}
