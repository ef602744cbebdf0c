//! [`SampleIndex`] as a parquet file: the keys in the first column, so that it is a [`KeyIndex`] as well, then offset and size for each
//! modality. What the twins were like when it was written stands in the file's metadata.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray, UInt64Array};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};

use super::key_index::read_parquet;
use super::parquet_guard::has_pages;
use super::{IndexedTwin, KeyIndex, SampleIndex};
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::store::ByteRange;

/// Under this name the metadata of the file holds [`Head`].
const HEAD: &str = "shardstream.sample_index";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    twins: Vec<IndexedTwin>,
}

impl SampleIndex {
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
        read_parquet(file, |file| Self::read(file, path)).map_err(|error| error.in_shard(path))
    }

    fn read(file: Bytes, path: &str) -> Result<Self> {
        let fail = |error: parquet::errors::ParquetError| {
            Error::index("not a whole parquet file").with_source(error)
        };
        let keys = KeyIndex::read(file.clone(), path)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)
            .map_err(fail)?;
        if !has_pages(&file, builder.metadata(), &ProjectionMask::all()).map_err(fail)? {
            return Err(Error::index("not a whole parquet file: its pages are broken"));
        }
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

#[cfg(test)]
mod tests {
    use super::super::sample_index::Places;
    use super::super::sample_index::tests::{index, story, twin};
    use super::*;
    use crate::tar::Member;

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
    fn what_is_no_such_index_is_refused() {
        let index = index();
        let file = index.encode().unwrap();
        for length in 0..file.len() {
            assert!(SampleIndex::decode(file.slice(..length), "i").is_err(), "{length}");
        }
        let small = |size| {
            let mut index = super::super::sample_index::tests::index();
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

    /// Changed at every byte: an error or an index that holds together, never a panic.
    #[test]
    fn a_changed_byte_never_panics() {
        let file = index().encode().unwrap();
        for at in 0..file.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = file.to_vec();
                changed[at] ^= change;
                let changed = Bytes::from(changed);
                if let Ok(keys) = KeyIndex::read(changed.clone(), "i") {
                    assert!((0..keys.len()).all(|place| {
                        keys.place(keys.key(place).unwrap().as_bytes()) == Some(place)
                    }));
                }
                if let Ok(index) = SampleIndex::decode(changed, "i") {
                    assert!(
                        (0..index.keys().len()).all(|sample| index.places(sample).is_some()),
                        "byte {at} ^ {change:#x}"
                    );
                }
            }
        }
    }
}
