//! Our own index of a shard: for each sample where its members lie in each twin. How it is written: `sample_index_file.rs`.

use std::collections::HashMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Leaf;
use super::key_index::KeyIndex;
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::sample::key::{is_data, split};
use crate::store::{ByteRange, Meta};
use crate::tar::Member;

/// A twin as it was when the index was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedTwin {
    /// The modality; empty if the shard is a single tar.
    pub modality: String,
    /// Size of the tar in bytes.
    pub size: u64,
    /// Time of its last change, in nanoseconds since 1970, where it is known.
    pub modified: Option<u64>,
}

impl IndexedTwin {
    /// A twin as the store describes it.
    ///
    /// # Errors
    /// The store does not know its size.
    pub fn new(modality: impl Into<String>, meta: &Meta) -> Result<Self> {
        let size = meta.size.ok_or_else(|| {
            Error::index("the size of the tar is not known").in_shard(meta.path.as_str())
        })?;
        Ok(Self { modality: modality.into(), size, modified: nanoseconds(meta.modified) })
    }

    /// Whether the tar is still the one that was indexed, as far as size and time of change tell.
    ///
    /// # Errors
    /// It is another one: the index is not to be used.
    pub fn check(&self, now: &Meta) -> Result<()> {
        let stale = |what: String| {
            Err(Error::index(format!("the tar has changed since it was indexed: {what}"))
                .in_shard(now.path.as_str()))
        };
        if let Some(size) = now.size.filter(|&size| size != self.size) {
            return stale(format!("it had {} bytes and has {size}", self.size));
        }
        match (self.modified, nanoseconds(now.modified)) {
            (Some(then), Some(now)) if then != now => {
                stale("its time of change is another".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn nanoseconds(time: Option<SystemTime>) -> Option<u64> {
    u64::try_from(time?.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Where the samples of one twin lie, gathered while it is walked.
#[derive(Debug, Default)]
pub struct Places {
    places: HashMap<Key, ByteRange>,
    order: Vec<Key>,
}

impl Places {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next member. The members of a sample have to be next to each other.
    ///
    /// # Errors
    /// The key was there before, and others in between.
    pub fn add(&mut self, member: &Member) -> Result<()> {
        let Some((key, _)) = split(&member.name).filter(|_| is_data(&member.name)) else {
            return Ok(());
        };
        let end = Some(member.end());
        if let Some(last) = self.order.last().filter(|last| last.as_bytes() == key) {
            if let Some(place) = self.places.get_mut(last) {
                place.end = end;
            }
            return Ok(());
        }
        let key = Key::from(Bytes::copy_from_slice(key));
        let place = ByteRange { start: member.header_offset, end };
        if self.places.insert(key.clone(), place).is_some() {
            let message = "the members of a sample are not next to each other: it has no one place";
            return Err(Error::index(message).of_key(key.to_string()).at(member.header_offset));
        }
        self.order.push(key);
        Ok(())
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// For each sample of a shard where its members lie in each twin. What lies there is a piece of a tar: header blocks, bodies and padding
/// of the sample's members, for a [`Parser`](crate::tar::Parser) of its own, which ends without an end mark.
pub struct SampleIndex {
    pub(super) twins: Vec<IndexedTwin>,
    pub(super) keys: KeyIndex,
    /// A row for each key, in it a place for each twin.
    pub(super) places: Vec<Option<ByteRange>>,
}

impl SampleIndex {
    /// Joins what was found in the twins: the keys in the order of the first twin, behind them those that only later twins have.
    ///
    /// # Errors
    /// There are too many samples.
    pub fn join(twins: Vec<(IndexedTwin, Places)>) -> Result<Self> {
        let keys = KeyIndex::of(Self::all_keys(&twins))?;
        let places = keys
            .keys()
            .flat_map(|key| twins.iter().map(move |(_, places)| places.places.get(&key).copied()))
            .collect();
        let twins = twins.into_iter().map(|(twin, _)| twin).collect();
        Ok(Self { twins, keys, places })
    }

    /// Each key where it comes first.
    fn all_keys(twins: &[(IndexedTwin, Places)]) -> impl Iterator<Item = &[u8]> {
        twins.iter().enumerate().flat_map(move |(number, (_, places))| {
            let is_new = move |key: &&Key| {
                !twins[..number].iter().any(|(_, before)| before.places.contains_key(*key))
            };
            places.order.iter().filter(is_new).map(Key::as_bytes)
        })
    }

    /// The twins, in order.
    #[must_use]
    pub fn twins(&self) -> &[IndexedTwin] {
        &self.twins
    }

    /// The keys, in order.
    #[must_use]
    pub fn keys(&self) -> &KeyIndex {
        &self.keys
    }

    /// Where the sample at a place in [`keys`](Self::keys) lies: for each twin, `None` if it lacks the key.
    #[must_use]
    pub fn places(&self, sample: usize) -> Option<&[Option<ByteRange>]> {
        let width = self.twins.len();
        self.places.get(sample.checked_mul(width)?..)?.get(..width)
    }

    /// Where the sample at a place in [`keys`](Self::keys) begins in each twin, if all that stands before it there is the samples before
    /// it, in this order. `None` if a twin has others, or lacks one.
    #[must_use]
    pub fn offsets_of(&self, sample: usize) -> Option<Vec<u64>> {
        let offset = |twin: usize| {
            let begins = |row: usize| self.places(row)?.get(twin)?.map(|place| place.start);
            let offset = begins(sample)?;
            let mut before = (0..=sample).map(begins);
            let in_order = before.try_fold(None, |last, next| {
                next.filter(|next| last.is_none_or(|last| last < *next)).map(Some)
            });
            in_order?;
            let behind = (sample + 1..self.keys.len()).filter_map(begins).all(|next| next > offset);
            behind.then_some(offset)
        };
        (0..self.twins.len()).map(offset).collect()
    }

    /// Where the index of a shard lies: below a folder, or, as `shardstream index` writes it unless told otherwise, in `index` below the
    /// data set's root, or beside a tar that stands alone.
    #[must_use]
    pub fn path_of(folder: Option<&str>, leaf: &Leaf, shard: &str) -> String {
        match (folder, leaf.root()) {
            (Some(folder), _) => {
                KeyIndex::path_of(folder, shard.rsplit_once("://").map_or(shard, |(_, path)| path))
            }
            (None, "") => KeyIndex::path_of("", &beside(shard)),
            (None, root) => {
                KeyIndex::path_of(&format!("{}/index", root.trim_end_matches('/')), shard)
            }
        }
    }
}

/// For a tar that stands alone: the folder `index` in its own folder.
fn beside(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/index/{name}"),
        None => format!("index/{path}"),
    }
}

impl fmt::Debug for SampleIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleIndex")
            .field("twins", &self.twins)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    fn member(name: &str, header_offset: u64, size: usize) -> Member {
        let data = Bytes::from(vec![0; size]);
        Member {
            name: Bytes::copy_from_slice(name.as_bytes()),
            data,
            header_offset,
            data_offset: header_offset + 512,
        }
    }

    pub(in crate::shard) fn twin(modality: &str) -> IndexedTwin {
        IndexedTwin { modality: modality.to_owned(), size: 100_000, modified: Some(7) }
    }

    pub(in crate::shard) fn places(names: &[&str]) -> Places {
        let mut places = Places::new();
        for (number, name) in (0..).zip(names) {
            places.add(&member(name, number * 1024, 5)).unwrap();
        }
        places
    }

    pub(in crate::shard) fn index() -> SampleIndex {
        let images = places(&["a.jpg", "a.seg.png", "README", "b.jpg", "c.jpg"]);
        SampleIndex::join(vec![
            (twin("image"), images),
            (twin("caption"), places(&["b.txt", "d.txt", "a.txt"])),
        ])
        .unwrap()
    }

    /// Key, and offset and size in each twin.
    pub(in crate::shard) type Row = (String, Vec<Option<(u64, u64)>>);

    pub(in crate::shard) fn story(index: &SampleIndex) -> Vec<Row> {
        let pair = |place: &Option<ByteRange>| place.map(|place| (place.start, place.end.unwrap()));
        index
            .keys()
            .keys()
            .enumerate()
            .map(|(at, key)| {
                (key.to_string(), index.places(at).unwrap().iter().map(pair).collect())
            })
            .collect()
    }

    #[test]
    fn twins_are_joined_by_key() {
        let expected = [
            ("a", [Some((0, 2048)), Some((2048, 3072))]),
            ("b", [Some((3072, 4096)), Some((0, 1024))]),
            ("c", [Some((4096, 5120)), None]),
            ("d", [None, Some((1024, 2048))]),
        ];
        assert_eq!(
            story(&index()),
            expected.map(|(key, places)| (key.to_owned(), places.to_vec()))
        );
        assert_eq!(index().places(4), None);
    }

    #[test]
    fn a_start_has_the_samples_before_it_and_no_others_in_front() {
        let of = |images: &[&str], captions: &[&str]| {
            SampleIndex::join(vec![
                (twin("image"), places(images)),
                (twin("caption"), places(captions)),
            ])
            .unwrap()
        };
        let whole = of(&["a.jpg", "b.jpg", "b.png", "c.jpg"], &["a.txt", "b.txt", "c.txt"]);
        let starts: Vec<_> = (0..4).map(|sample| whole.offsets_of(sample)).collect();
        assert_eq!(
            starts,
            [Some(vec![0, 0]), Some(vec![1024, 1024]), Some(vec![3072, 2048]), None]
        );
        // What comes first in a twin is another's, the order differs, or one is missing.
        let more = of(&["a.jpg", "b.jpg"], &["x.txt", "a.txt", "b.txt"]);
        let other = of(&["a.jpg", "b.jpg", "c.jpg"], &["b.txt", "a.txt", "c.txt"]);
        let fewer = of(&["a.jpg", "b.jpg", "c.jpg"], &["a.txt", "c.txt"]);
        assert_eq!((more.offsets_of(0), more.offsets_of(1)), (None, None));
        assert_eq!((other.offsets_of(1), other.offsets_of(2)), (None, None));
        assert_eq!((fewer.offsets_of(1), fewer.offsets_of(2)), (None, None));
    }

    #[test]
    fn a_sample_in_two_places_is_refused() {
        let mut found = places(&["a.jpg", "b.jpg"]);
        let error = found.add(&member("a.txt", 9000, 1)).unwrap_err().to_string();
        assert!(
            error.contains("sample a at byte 9000") && error.contains("not next to each other"),
            "{error}"
        );
    }

    #[test]
    fn another_tar_is_noticed() {
        let time = UNIX_EPOCH + Duration::from_nanos(7);
        let meta = |size, modified| Meta { path: "0.tar".to_owned(), size, etag: None, modified };
        let twin = IndexedTwin::new("image", &meta(Some(10), Some(time))).unwrap();
        for same in [meta(Some(10), Some(time)), meta(None, None), meta(Some(10), None)] {
            twin.check(&same).unwrap();
        }
        for other in
            [meta(Some(11), Some(time)), meta(Some(10), Some(time + Duration::from_nanos(1)))]
        {
            let error = twin.check(&other).unwrap_err().to_string();
            assert!(error.contains("0.tar") && error.contains("has changed"), "{error}");
        }
        assert!(IndexedTwin::new("image", &meta(None, None)).is_err());
    }
}
