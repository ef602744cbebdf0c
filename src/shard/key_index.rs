//! Key indexes: parquet files that list the keys that are wanted, in the order in which they are wanted.

use std::cmp::Ordering;
use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::{Array, types};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::parquet_guard::{guarded, has_footer, has_pages};
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::sample::key::split;
use crate::store::{Store, read_all};

/// The largest file that is read.
const LARGEST: u64 = 1 << 30;
/// The most keys that an index may list.
const MAX_KEYS: usize = 1 << 24;
/// The most bytes that they may have together.
const MAX_BYTES: usize = 1 << 29;
/// How many repeated keys are named.
const NAMED: usize = 20;

/// The keys of an index in its order, each once.
///
/// Takes the first column, whatever its name: text or bytes, of which what stands in front of the extension counts, or integers, as
/// decimal text. Keys are compared as bytes.
#[derive(Default)]
pub struct KeyIndex {
    /// All keys, one behind the other.
    bytes: Bytes,
    /// Where each ends.
    ends: Vec<usize>,
    /// Places in the order of the keys as bytes.
    sorted: Vec<u32>,
    notes: Vec<Error>,
}

impl KeyIndex {
    /// Reads an index from a store, and warns of what was odd about it.
    ///
    /// # Errors
    /// As [`Store::read`] and [`KeyIndex::read`].
    pub async fn load(store: &dyn Store, path: &str) -> Result<Self> {
        let index = Self::read(read_all(store, path, LARGEST).await?, path)?;
        index.notes().iter().for_each(|note| tracing::warn!("{note}"));
        Ok(index)
    }

    /// Reads the whole index. `path` is what errors call it.
    ///
    /// # Errors
    /// It is no parquet file, it is cut off or broken, its first column holds something else, or it lists too much.
    pub fn read(file: Bytes, path: &str) -> Result<Self> {
        let fail = |error: Error| error.in_shard(path);
        let gathered = read_parquet(file, |file| {
            let mut gathered = Gathered::default();
            gathered.read(file)?;
            Ok(gathered)
        });
        let mut index = gathered.and_then(Gathered::into_index).map_err(fail)?;
        index.notes = index.notes.into_iter().map(fail).collect();
        Ok(index)
    }

    /// An index of these keys; one that comes again counts once.
    ///
    /// # Errors
    /// There are too many.
    pub fn of<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Self> {
        let mut gathered = Gathered::default();
        for key in keys {
            gathered.push(key.as_ref())?;
        }
        gathered.into_index()
    }

    /// Where the index of a shard lies if there is one for each: the shard's path below `folder`, with `.parquet` for its extension.
    ///
    /// ```
    /// use shardstream::shard::KeyIndex;
    /// assert_eq!(KeyIndex::path_of("index/", "part_0/000001.tar"), "index/part_0/000001.parquet");
    /// assert_eq!(KeyIndex::path_of("index", "/data/000001.tar"), "index/data/000001.parquet");
    /// assert_eq!(KeyIndex::path_of("", "000001.tar.gz"), "000001.parquet");
    /// ```
    #[must_use]
    pub fn path_of(folder: &str, shard: &str) -> String {
        let stem = split(shard.as_bytes()).map_or(shard, |(stem, _)| &shard[..stem.len()]);
        match folder.trim_end_matches('/') {
            "" => format!("{stem}.parquet"),
            folder => format!("{folder}/{}.parquet", stem.trim_start_matches('/')),
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key at a place, from 0.
    #[must_use]
    pub fn key(&self, place: usize) -> Option<Key> {
        let end = *self.ends.get(place)?;
        Some(self.bytes.slice(self.start(place)..end).into())
    }

    /// All keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key> {
        (0..self.len()).map(|place| self.bytes.slice(self.start(place)..self.ends[place]).into())
    }

    /// The place of a key, if it is listed.
    #[must_use]
    pub fn place(&self, key: &[u8]) -> Option<usize> {
        let found = self.sorted.binary_search_by(|&place| self.at(place).cmp(key)).ok()?;
        Some(self.sorted[found] as usize)
    }

    /// What was odd about the index: nulls and repeated keys. To be logged.
    #[must_use]
    pub fn notes(&self) -> &[Error] {
        &self.notes
    }

    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn at(&self, place: u32) -> &[u8] {
        let place = place as usize;
        &self.bytes[self.start(place)..self.ends[place]]
    }
}

impl fmt::Debug for KeyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyIndex").field("len", &self.len()).field("notes", &self.notes).finish()
    }
}

/// What reads a parquet file, kept from harm.
pub(super) fn read_parquet<T>(file: Bytes, read: impl FnOnce(Bytes) -> Result<T>) -> Result<T> {
    if !has_footer(&file) {
        return Err(Error::index("not a whole parquet file: its footer is broken"));
    }
    guarded(|| read(file))
        .unwrap_or_else(|| Err(Error::index("a broken parquet file: its reader gave up")))
}

/// Rows on their way into an index.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    nulls: usize,
}

impl Gathered {
    fn push(&mut self, key: &[u8]) -> Result<()> {
        if self.ends.len() >= MAX_KEYS || self.bytes.len() + key.len() > MAX_BYTES {
            return Err(Error::index(format!(
                "lists more than {MAX_KEYS} keys or {MAX_BYTES} bytes of them"
            )));
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn read(&mut self, file: Bytes) -> Result<()> {
        let broken = |error: parquet::errors::ParquetError| {
            Error::index("not a whole parquet file").with_source(error)
        };
        // The column as parquet stores it: what wrote the file may call it a dictionary, a view or a large string.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)
            .map_err(broken)?;
        let Some(column) = builder.schema().fields().first().cloned() else {
            return Err(Error::index("has no columns: the keys are taken from the first"));
        };
        let first = ProjectionMask::roots(builder.parquet_schema(), [0]);
        if !has_pages(&file, builder.metadata(), &first).map_err(broken)? {
            return Err(Error::index("not a whole parquet file: its pages are broken"));
        }
        let reader =
            builder.with_projection(first).with_batch_size(8192).build().map_err(broken)?;
        for batch in reader {
            let batch = batch
                .map_err(|error| Error::index("not a whole parquet file").with_source(error))?;
            self.take(&column, batch.column(0))?;
        }
        Ok(())
    }

    /// The rows of one batch.
    fn take(&mut self, column: &Field, rows: &dyn Array) -> Result<()> {
        self.nulls += rows.null_count();
        // A few broken bytes can claim billions.
        if self.nulls > MAX_KEYS {
            return Err(Error::index(format!("has more than {MAX_KEYS} null rows")));
        }
        macro_rules! texts {
            ($rows:expr) => {
                $rows.iter().flatten().try_for_each(|row| {
                    let row: &[u8] = row.as_ref();
                    self.push(split(row).map_or(row, |(key, _)| key))
                })
            };
        }
        macro_rules! integers {
            ($kind:ident) => {
                rows.as_primitive::<types::$kind>()
                    .iter()
                    .flatten()
                    .try_for_each(|row| self.push(row.to_string().as_bytes()))
            };
        }
        match rows.data_type() {
            DataType::Utf8 => texts!(rows.as_string::<i32>()),
            DataType::Binary => texts!(rows.as_binary::<i32>()),
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            DataType::UInt64 => integers!(UInt64Type),
            other => {
                let name = column.name();
                Err(Error::index(format!(
                    "the first column `{name}` holds {other}: keys are text or integers"
                )))
            }
        }
    }

    fn into_index(self) -> Result<KeyIndex> {
        let mut notes = Vec::new();
        if self.nulls > 0 {
            notes.push(Error::index(format!("{} null rows: left out", self.nulls)));
        }
        let rows = KeyIndex { bytes: self.bytes.into(), ends: self.ends, ..KeyIndex::default() };
        let count = u32::try_from(rows.len()).map_err(|_| Error::index("too many keys"))?;
        let mut sorted: Vec<u32> = (0..count).collect();
        // Equal keys in the order of their rows.
        sorted.sort_unstable_by(|&a, &b| rows.at(a).cmp(rows.at(b)).then(a.cmp(&b)));
        let mut again: Vec<u32> = sorted
            .windows(2)
            .filter(|pair| rows.at(pair[0]) == rows.at(pair[1]))
            .map(|pair| pair[1])
            .collect();
        if again.is_empty() {
            return Ok(KeyIndex { sorted, notes, ..rows });
        }
        again.sort_unstable();
        notes.extend(again.iter().take(NAMED).map(|&place| {
            let key = rows.key(place as usize).unwrap_or_default();
            Error::index("listed again: it counts once").of_key(key.to_string())
        }));
        if again.len() > NAMED {
            notes.push(Error::index(format!("{} more rows list keys again", again.len() - NAMED)));
        }
        rows.without(&again, notes)
    }
}

impl KeyIndex {
    /// The same without the rows at these places (in order).
    fn without(&self, again: &[u32], notes: Vec<Error>) -> Result<Self> {
        let mut left = Gathered::default();
        let mut again = again.iter().copied().peekable();
        for place in 0..u32::try_from(self.len()).unwrap_or(u32::MAX) {
            match again.peek().map(|next| next.cmp(&place)) {
                Some(Ordering::Equal) => {
                    again.next();
                }
                _ => left.push(self.at(place))?,
            }
        }
        let index = left.into_index()?;
        Ok(Self { notes, ..index })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int32Array, LargeStringArray,
        RecordBatch, StringArray, UInt64Array,
    };
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn parquet(columns: Vec<(&str, ArrayRef)>) -> Bytes {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap().into()
    }

    fn keys(array: ArrayRef) -> Vec<String> {
        let index = KeyIndex::read(parquet(vec![("whatever", array)]), "index.parquet").unwrap();
        let keys: Vec<_> = index.keys().collect();
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(index.place(key.as_bytes()), Some(place));
            assert_eq!(index.key(place).as_ref(), Some(key));
        }
        assert_eq!(index.place(b"nowhere"), None);
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_of_every_type() {
        assert_eq!(
            keys(Arc::new(StringArray::from(vec!["b.jpg", "a", "d.1/c.seg.png"]))),
            ["b", "a", "d.1/c"]
        );
        assert_eq!(keys(Arc::new(LargeStringArray::from(vec!["b", "a"]))), ["b", "a"]);
        assert_eq!(
            keys(Arc::new(BinaryArray::from(vec![&b"caf\xe9.jpg"[..], b"a"]))),
            ["caf\\xe9", "a"]
        );
        assert_eq!(
            keys(Arc::new(
                vec!["b", "a"].into_iter().collect::<DictionaryArray<types::Int8Type>>()
            )),
            ["b", "a"]
        );
        assert_eq!(keys(Arc::new(Int32Array::from(vec![10, -1, 2]))), ["10", "-1", "2"]);
        assert_eq!(keys(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);
        assert_eq!(keys(Arc::new(StringArray::from(Vec::<&str>::new()))), [""; 0]);
    }

    #[test]
    fn the_first_column_counts() {
        let file = parquet(vec![
            ("z", Arc::new(StringArray::from(vec!["x"]))),
            ("key", Arc::new(StringArray::from(vec!["y"]))),
        ]);
        assert_eq!(KeyIndex::read(file, "i").unwrap().key(0), Some("x".into()));
    }

    #[test]
    fn nulls_and_repeated_keys_are_noted() {
        let array = StringArray::from(vec![
            Some("b"),
            None,
            Some("a"),
            Some("b.jpg"),
            Some("a"),
            Some("c"),
            Some("b"),
        ]);
        let index = KeyIndex::read(parquet(vec![("k", Arc::new(array))]), "index.parquet").unwrap();
        assert_eq!(index.keys().map(|key| key.to_string()).collect::<Vec<_>>(), ["b", "a", "c"]);
        let notes: Vec<_> = index.notes().iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            [
                "index: index.parquet: 1 null rows: left out",
                "index: sample b in index.parquet: listed again: it counts once",
                "index: sample a in index.parquet: listed again: it counts once",
                "index: sample b in index.parquet: listed again: it counts once",
            ]
        );
        let many = KeyIndex::of([&b"a"[..]; 100]).unwrap();
        assert_eq!((many.len(), many.notes().len()), (1, NAMED + 1));
    }

    #[test]
    fn what_is_no_index_is_refused_by_name() {
        let good = parquet(vec![("k", Arc::new(StringArray::from(vec!["a"])))]);
        let flags = parquet(vec![("flag", Arc::new(BooleanArray::from(vec![true])))]);
        for (file, expected) in [
            (Bytes::new(), "index: index.parquet: not a whole parquet file"),
            (Bytes::from_static(b"<html>"), "index: index.parquet: not a whole parquet file"),
            (good.slice(..good.len() - 20), "index: index.parquet: not a whole parquet file"),
            (
                Bytes::from_static(b"\x45\x02\0\x03\0\0\0PAR1"),
                "index: index.parquet: not a whole parquet file: its footer is broken",
            ),
            (flags, "index: index.parquet: the first column `flag` holds Boolean"),
        ] {
            let error = KeyIndex::read(file, "index.parquet").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    /// Minutes of counting, if it weren't refused.
    #[test]
    fn a_page_that_claims_billions_is_refused() {
        let mut file = parquet(vec![("k", Arc::new(StringArray::from(vec!["a"])))]).to_vec();
        // Behind the mark: in the header of the first page, a field of its own with a list of truth values.
        file.splice(4..4, *b"\x09\xc8\x01\xf1\xff\xff\xff\xff\x07");
        let error = KeyIndex::read(file.into(), "i.parquet").unwrap_err().to_string();
        assert_eq!(error, "index: i.parquet: not a whole parquet file: its pages are broken");
    }

    #[test]
    fn nulls_without_end_are_refused() {
        let nulls = Int32Array::new_null(MAX_KEYS + 1);
        let column = Field::new("k", DataType::Int32, true);
        let error = Gathered::default().take(&column, &nulls).unwrap_err().to_string();
        assert_eq!(error, "index: has more than 16777216 null rows");
    }

    #[test]
    fn a_cut_anywhere_is_an_error() {
        let good = parquet(vec![("k", Arc::new(StringArray::from(vec!["a", "b"])))]);
        for length in 0..good.len() {
            assert!(KeyIndex::read(good.slice(..length), "i").is_err(), "{length}");
        }
    }
}
