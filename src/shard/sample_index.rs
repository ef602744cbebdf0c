//! Our own index of a shard: for each sample where its members lie in each twin.
//!
//! A parquet file: the keys in the first column, so that it is a [key index](super::KeyIndex) as well, then offset and size for each
//! modality. What the twins were like when it was written stands in the file's metadata.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray, UInt64Array};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};

use super::key_index::KeyIndex;
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::sample::key::{is_data, split};
use crate::store::{ByteRange, Meta};
use crate::tar::Member;

/// Under this name the metadata of the file holds [`Head`].
const HEAD: &str = "shardstream.sample_index";
const VERSION: u32 = 1;

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

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    twins: Vec<IndexedTwin>,
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
    twins: Vec<IndexedTwin>,
    keys: KeyIndex,
    /// A row for each key, in it a place for each twin.
    places: Vec<Option<ByteRange>>,
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

    /// The index as a file.
    ///
    /// # Errors
    /// It can't be written as parquet.
    pub fn encode(&self) -> Result<Bytes> {
        let head = Head { version: VERSION, twins: self.twins.clone() };
        let head = serde_json::to_string(&head)
            .map_err(|error| Error::index("can't be written").with_source(error))?;
        let mut columns = vec![("key".to_owned(), self.key_column())];
        for (number, twin) in self.twins.iter().enumerate() {
            let places = || self.places.iter().skip(number).step_by(self.twins.len());
            let offsets: UInt64Array =
                places().map(|place| place.map(|place| place.start)).collect();
            let sizes: UInt64Array = places()
                .map(|place| place.and_then(|place| Some(place.end? - place.start)))
                .collect();
            columns.push((format!("{}.offset", twin.modality), Arc::new(offsets)));
            columns.push((format!("{}.size", twin.modality), Arc::new(sizes)));
        }
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![KeyValue::new(HEAD.to_owned(), head)]))
            .build();
        let fail = |error: parquet::errors::ParquetError| {
            Error::index("can't be written").with_source(error)
        };
        let batch = RecordBatch::try_from_iter(columns)
            .map_err(|error| Error::index("can't be written").with_source(error))?;
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(fail)?;
        writer.write(&batch).map_err(fail)?;
        Ok(writer.into_inner().map_err(fail)?.into())
    }

    /// Text, so that others read it as such; bytes if a key is not UTF-8.
    fn key_column(&self) -> ArrayRef {
        let keys: Vec<Key> = self.keys.keys().collect();
        match keys.iter().map(Key::as_str).collect::<Option<Vec<_>>>() {
            Some(texts) => Arc::new(StringArray::from(texts)),
            None => Arc::new(BinaryArray::from_iter_values(keys.iter().map(Key::as_bytes))),
        }
    }

    /// Reads an index. `path` is what errors call it.
    ///
    /// # Errors
    /// It is no such index, of another version, or broken.
    pub fn decode(file: Bytes, path: &str) -> Result<Self> {
        Self::read(file, path).map_err(|error| error.in_shard(path))
    }

    fn read(file: Bytes, path: &str) -> Result<Self> {
        let fail = |error: parquet::errors::ParquetError| {
            Error::index("not a whole parquet file").with_source(error)
        };
        let keys = KeyIndex::read(file.clone(), path)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder =
            ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(fail)?;
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let head =
            metadata.and_then(|pairs| pairs.iter().find(|pair| pair.key == HEAD)?.value.as_deref());
        let head =
            head.ok_or_else(|| Error::index("a parquet file, but not an index of samples"))?;
        let Head { version, twins } = serde_json::from_str(head)
            .map_err(|error| Error::index("its metadata can't be read").with_source(error))?;
        if version != VERSION {
            return Err(Error::index(format!(
                "an index of version {version}: this build reads version {VERSION}"
            )));
        }
        let mut places = Vec::new();
        for batch in builder.build().map_err(fail)? {
            let batch = batch
                .map_err(|error| Error::index("not a whole parquet file").with_source(error))?;
            read_places(&batch, &twins, &mut places)?;
        }
        if places.len() != keys.len().saturating_mul(twins.len()) || !keys.notes().is_empty() {
            return Err(Error::index("holds another number of keys than of places"));
        }
        Ok(Self { twins, keys, places })
    }
}

/// The places in a batch, row by row.
fn read_places(
    batch: &RecordBatch,
    twins: &[IndexedTwin],
    places: &mut Vec<Option<ByteRange>>,
) -> Result<()> {
    if batch.num_columns() != 1 + 2 * twins.len() {
        return Err(Error::index(format!(
            "{} columns for {} twins",
            batch.num_columns(),
            twins.len()
        )));
    }
    let mut columns = Vec::new();
    for (column, field) in batch.columns().iter().zip(batch.schema().fields()).skip(1) {
        let numbers = column.as_primitive_opt::<UInt64Type>();
        columns
            .push(numbers.ok_or_else(|| {
                Error::index(format!("column `{}` holds no sizes", field.name()))
            })?);
    }
    for row in 0..batch.num_rows() {
        for (twin, pair) in twins.iter().zip(columns.chunks_exact(2)) {
            let value = |column: &UInt64Array| column.is_valid(row).then(|| column.value(row));
            let place = match (value(pair[0]), value(pair[1])) {
                (None, None) => None,
                (Some(start), Some(size)) => {
                    let end = start.checked_add(size).filter(|&end| end <= twin.size && size > 0);
                    let end = end.ok_or_else(|| {
                        Error::index(format!(
                            "row {row}: a place outside of the tar of {} bytes",
                            twin.size
                        ))
                    })?;
                    Some(ByteRange { start, end: Some(end) })
                }
                _ => return Err(Error::index(format!("row {row}: half a place"))),
            };
            places.push(place);
        }
    }
    Ok(())
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
mod tests {
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

    fn twin(modality: &str) -> IndexedTwin {
        IndexedTwin { modality: modality.to_owned(), size: 100_000, modified: Some(7) }
    }

    fn places(names: &[&str]) -> Places {
        let mut places = Places::new();
        for (number, name) in (0..).zip(names) {
            places.add(&member(name, number * 1024, 5)).unwrap();
        }
        places
    }

    fn index() -> SampleIndex {
        let images = places(&["a.jpg", "a.seg.png", "README", "b.jpg", "c.jpg"]);
        SampleIndex::join(vec![
            (twin("image"), images),
            (twin("caption"), places(&["b.txt", "d.txt", "a.txt"])),
        ])
        .unwrap()
    }

    fn story(index: &SampleIndex) -> Vec<(String, Vec<Option<(u64, u64)>>)> {
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
    fn what_is_written_is_read() {
        let index = index();
        let file = index.encode().unwrap();
        let again = SampleIndex::decode(file.clone(), "i.parquet").unwrap();
        assert_eq!((story(&again), again.twins()), (story(&index), index.twins()));
        let keys: Vec<_> =
            KeyIndex::read(file, "i.parquet").unwrap().keys().map(|key| key.to_string()).collect();
        assert_eq!(keys, ["a", "b", "c", "d"], "it is a key index as well");
    }

    #[test]
    fn keys_that_are_no_text_survive() {
        let mut found = Places::new();
        let name = Bytes::from_static(b"caf\xe9.jpg");
        found
            .add(&Member { name, data: Bytes::new(), header_offset: 0, data_offset: 512 })
            .unwrap();
        let file = SampleIndex::join(vec![(twin(""), found)]).unwrap().encode().unwrap();
        assert_eq!(SampleIndex::decode(file, "i").unwrap().keys().place(b"caf\xe9"), Some(0));
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

    #[test]
    fn what_is_no_such_index_is_refused() {
        let index = index();
        let file = index.encode().unwrap();
        for length in 0..file.len() {
            assert!(SampleIndex::decode(file.slice(..length), "i").is_err(), "{length}");
        }
        let small = |size| {
            let mut index = self::index();
            index.twins[0].size = size;
            SampleIndex::decode(index.encode().unwrap(), "i.parquet")
        };
        assert!(small(5120).is_ok());
        assert!(
            small(5119)
                .unwrap_err()
                .to_string()
                .contains("i.parquet: row 2: a place outside of the tar of 5119 bytes")
        );
        let mut writer = ArrowWriter::try_new(
            Vec::new(),
            RecordBatch::try_from_iter([("k", index.key_column())]).unwrap().schema(),
            None,
        )
        .unwrap();
        writer.write(&RecordBatch::try_from_iter([("k", index.key_column())]).unwrap()).unwrap();
        let plain = writer.into_inner().unwrap();
        assert!(
            SampleIndex::decode(plain.into(), "i")
                .unwrap_err()
                .to_string()
                .contains("not an index of samples")
        );
    }
}
