//! What stands between us and broken parquet files. Their reader counts through whatever number of elements a broken list in the footer,
//! or in the header of a page, claims, even if they take no bytes, and so may never come back; and it panics on some files in place of an
//! error. It goes by a field's number and doesn't look at its type: where the two don't belong together, it would read other lists than
//! are seen here.

use std::io::{self, Read, Seek, SeekFrom};

use parquet::arrow::ProjectionMask;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use super::parquet_layout::{FOOTER, Fields, Holds, PAGE, PAGE_SIZE};

/// Structures deeper than any footer's.
const DEEPEST: u32 = 32;
/// Length of the footer and the mark, at the end of a file.
const END: usize = 8;

/// Runs a reader of parquet. `None` if it panicked; nothing that it touched may be used then.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok()
}

/// Whether a file ends with a footer that is a whole structure, in Thrift's compact form, whose fields hold what they should, and which
/// claims no more elements than it has bytes.
pub(crate) fn has_footer(file: &[u8]) -> bool {
    let footer = || {
        let (rest, end) = file.split_last_chunk::<END>()?;
        rest.get(rest.len().checked_sub(length(*end)?)?..)
    };
    footer().is_some_and(is_whole)
}

/// The same of a file of which no more than the footer is read.
///
/// # Errors
/// If it can't be read.
pub(crate) fn file_has_footer(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    let size = file.seek(SeekFrom::End(0))?;
    let Some(rest) = size.checked_sub(END as u64) else { return Ok(false) };
    file.seek(SeekFrom::Start(rest))?;
    let mut end = [0; END];
    file.read_exact(&mut end)?;
    let Some(start) = length(end).and_then(|length| rest.checked_sub(length as u64)) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut footer = Vec::new();
    file.take(rest - start).read_to_end(&mut footer)?;
    Ok(is_whole(&footer))
}

/// How long the footer in front of the end is.
fn length(end: [u8; END]) -> Option<usize> {
    let [a, b, c, d, magic @ ..] = end;
    (magic == *b"PAR1").then(|| usize::try_from(u32::from_le_bytes([a, b, c, d])).ok())?
}

/// Whether the pages of the columns that will be read lie one behind the other, with headers of which the same holds.
///
/// # Errors
/// They can't be read.
///
/// # Panics
/// As the reader of parquet: to be guarded.
pub(crate) fn has_pages<F: ChunkReader>(
    file: &F,
    metadata: &ParquetMetaData,
    columns: &ProjectionMask,
) -> parquet::errors::Result<bool> {
    for group in metadata.row_groups() {
        for (leaf, column) in group.columns().iter().enumerate() {
            if !columns.leaf_included(leaf) {
                continue;
            }
            let (start, length) = column.byte_range();
            if start.checked_add(length).is_none_or(|end| end > file.len()) {
                return Ok(false);
            }
            let pages = file.get_bytes(start, usize::try_from(length)?)?;
            if !are_pages(&pages) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn are_pages(pages: &[u8]) -> bool {
    let mut walk = Walk(pages);
    while !walk.0.is_empty() {
        if walk.page().is_none() {
            return false;
        }
    }
    true
}

fn is_whole(footer: &[u8]) -> bool {
    Walk(footer).structure(FOOTER, 0).is_some()
}

/// What is left of it.
struct Walk<'a>(&'a [u8]);

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    /// The type of the next field of a structure, and its number; `None` behind the last.
    fn field(&mut self, number: &mut i16) -> Option<Option<u8>> {
        let header = self.byte()?;
        if header == 0 {
            return Some(None);
        }
        *number = match header >> 4 {
            // No difference to the field before: its number follows, with its sign in the last bit.
            0 => {
                let number = self.number()?;
                let sign = -i64::try_from(number & 1).ok()?;
                i16::try_from(i64::try_from(number >> 1).ok()? ^ sign).ok()?
            }
            more => number.checked_add(more.into())?,
        };
        Some(Some(header & 15))
    }

    fn structure(&mut self, fields: Fields, depth: u32) -> Option<()> {
        let mut number = 0;
        while let Some(kind) = self.field(&mut number)? {
            self.content(kind, fields, number, depth)?;
        }
        Some(())
    }

    fn content(&mut self, kind: u8, fields: Fields, number: i16, depth: u32) -> Option<()> {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let holds = place.and_then(|place| fields.get(place)).copied().unwrap_or(Holds::Any);
        match kind {
            // A truth value stands in the header.
            1 | 2 => holds.comes_as(kind).then_some(()),
            kind => self.value(kind, holds, depth),
        }
    }

    /// A page's header, and as many bytes behind it as it says.
    fn page(&mut self) -> Option<()> {
        let (mut number, mut size) = (0, None);
        while let Some(kind) = self.field(&mut number)? {
            if number == PAGE_SIZE && Holds::Number.comes_as(kind) {
                let signed = self.number()?;
                size = (signed & 1 == 0).then_some(signed >> 1);
            } else {
                self.content(kind, PAGE, number, 0)?;
            }
        }
        self.pass(size?)
    }

    fn value(&mut self, kind: u8, holds: Holds, depth: u32) -> Option<()> {
        holds.comes_as(kind).then_some(())?;
        match kind {
            3 => self.pass(1),
            4..=6 => self.number().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.number()?;
                self.pass(length)
            }
            9 | 10 if depth < DEEPEST => {
                let header = self.byte()?;
                let count = if header >> 4 == 15 { self.number()? } else { u64::from(header >> 4) };
                // Each takes a byte at least. A footer has no lists of truth values, on whose length readers differ.
                (count <= self.0.len() as u64).then_some(())?;
                let each = if let Holds::Many(each) = holds { *each } else { Holds::Any };
                (0..count).try_for_each(|_| self.value(header & 15, each, depth + 1))
            }
            12 if depth < DEEPEST => {
                let fields = if let Holds::One(fields) = holds { fields } else { &[] };
                self.structure(fields, depth + 1)
            }
            // A footer has no maps.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(footer: &[u8]) -> Vec<u8> {
        let length = (footer.len() as u32).to_le_bytes();
        [b"PAR1", footer, &length, b"PAR1"].concat()
    }

    /// In memory, and read from a file.
    fn both(bytes: &[u8]) -> bool {
        let found = has_footer(bytes);
        assert_eq!(file_has_footer(&mut io::Cursor::new(bytes)).unwrap(), found);
        found
    }

    #[test]
    fn a_panic_is_caught() {
        assert_eq!(guarded(|| 3), Some(3));
        assert_eq!(guarded(|| file(b"")[99]), None);
    }

    #[test]
    fn whole_structures_pass() {
        for footer in [
            &b"\0"[..],
            // A number, a text, a list of numbers, a list of structures, a number that follows its field's number.
            b"\xf5\x02\x18\x02ab\x19\x25\x02\x04\x19\x2c\x11\0\x12\0\x05\x20\x06\0",
            // A number as field -4.
            b"\x05\x07\x06\0",
        ] {
            assert!(both(&file(footer)), "{}", footer.escape_ascii());
        }
    }

    #[test]
    fn what_is_written_passes() {
        use std::sync::Arc;

        use arrow_array::types::{Int8Type, Int32Type};
        use arrow_array::*;
        use parquet::file::metadata::ParquetMetaDataReader;
        use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

        let texts = || StringArray::from(vec![Some("a"), None]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(texts())),
            ("bytes", Arc::new(BinaryArray::from(vec![&b"\xf1\xff\xff\xff\x0f"[..], b""]))),
            ("flag", Arc::new(BooleanArray::from(vec![true, false]))),
            ("i8", Arc::new(Int8Array::from(vec![1, 2]))),
            ("u64", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
            ("f16", Arc::new(Float16Array::from(vec![half::f16::ONE; 2]))),
            ("f64", Arc::new(Float64Array::from(vec![1.5, f64::NAN]))),
            ("date", Arc::new(Date32Array::from(vec![1, 2]))),
            ("time", Arc::new(Time64MicrosecondArray::from(vec![1, 2]))),
            ("stamp", Arc::new(TimestampNanosecondArray::from(vec![1, 2]).with_timezone("UTC"))),
            ("decimal", Arc::new(Decimal128Array::from(vec![1, 2]))),
            (
                "category",
                Arc::new(vec!["x", "y"].into_iter().collect::<DictionaryArray<Int8Type>>()),
            ),
            (
                "list",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                    Some(vec![Some(1), None]),
                    None,
                ])),
            ),
            (
                "nested",
                Arc::new(
                    StructArray::try_from(vec![("in", Arc::new(texts()) as ArrayRef)]).unwrap(),
                ),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_statistics_enabled(EnabledStatistics::Page)
                .set_write_page_header_statistics(true)
                .set_bloom_filter_enabled(true)
                .set_sorting_columns(Some(vec![parquet::file::metadata::SortingColumn {
                    column_idx: 0,
                    descending: false,
                    nulls_first: true,
                }]))
                .build();
            let mut writer =
                parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))
                    .unwrap();
            for _ in 0..3 {
                writer.write(&batch).unwrap();
                writer.flush().unwrap();
            }
            let file = writer.into_inner().unwrap();
            assert!(both(&file));
            let file = bytes::Bytes::from(file);
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
            assert!(has_pages(&file, &metadata, &ProjectionMask::all()).unwrap());
            // Less of the file than the footer tells of.
            assert!(!has_pages(&file.slice(..99), &metadata, &ProjectionMask::all()).unwrap());
        }
    }

    #[test]
    fn pages_that_claim_beyond_their_bytes_are_refused() {
        // A dictionary of two bytes, then a page of none.
        let whole = b"\x15\x04\x15\x04\x15\x04\x4c\x15\x02\x15\0\x11\0\0ab\x15\0\x15\0\x15\0\0";
        assert!(are_pages(whole) && are_pages(b""));
        for pages in [
            // Cut off, without a size, a size below none, one that another field 3 takes back.
            &whole[..15],
            b"\x15\0\x15\0\0",
            b"\x15\0\x15\0\x15\x01\0",
            b"\x15\0\x15\0\x15\0\x05\x06\x08\0",
            // A list of truth values in a field of its own; a list where the dictionary should be.
            b"\x15\0\x15\0\x15\0\xf9\xf1\xff\xff\xff\x0f\0",
            b"\x15\0\x15\0\x15\0\x49\x03\0",
        ] {
            assert!(!are_pages(pages), "{}", pages.escape_ascii());
        }
    }

    #[test]
    fn claims_beyond_the_bytes_are_refused() {
        let deep = [&[0xfc; 100][..], &[0; 101]].concat();
        for footer in [
            &b""[..],
            b"\xf5",
            b"\xf8\x05ab\0",
            // A list of more numbers than there are bytes; lists of truth values; a map.
            b"\xf9\xf5\xff\xff\xff\x0f\0",
            b"\xf9\xf1\xff\xff\xff\x0f\0",
            b"\xf9\x11\x01\0",
            b"\xfb\x01\x11\x01\x01\0",
            // A number where the list of row groups should be, by difference and by its own number; one in the schema for a name.
            b"\x45\x02\0",
            b"\x05\x08\x02\0",
            b"\x29\x1c\x45\x02\0\0",
            &deep,
        ] {
            assert!(!both(&file(footer)), "{}", footer.escape_ascii());
        }
        for file in
            [&b""[..], b"PAR1", b"\xff\xff\xff\xffPAR1", b"\x01\0\0\0PAR1", b"\0\x01\0\0\0PAR2"]
        {
            assert!(!both(file), "{}", file.escape_ascii());
        }
    }

    #[test]
    fn what_the_fuzzer_found_ends_at_once() {
        // Seconds to minutes of counting, without this check.
        for file in [
            &b"\x04\0\0\0\xab\xab\x04\xab\xab\xab\xab\x04\xab\xab\xab\xab\xab\x5d\x11\xab\xab\xab\xab\x57\xab\xab\xab\xab\xab\xac\xab\x1c\x1c\x1c\0\0\0PAR1"[..],
            b"\x04\0\x99\x99\x99\x99\x01\0\0\0\0\xf1\xff\x99\xff\x41\xff\x52\x1b\x31\x012RAP\x18\xe4\xdd\x1c\x1c\x1c\0\0\0PAR1",
            b"\x04\0\x1c\x1c\x04\x1cR5\x1c\x99\x99\x1c\x99\x99\x99\0\x99\x99\x99\x993333333\x01\x003#332\xf1\xff\xff\xff\x1c\x1c\0\0\0PAR1",
            b"\x06\xa2\x0c\x0c\x0c\x01\0\0\0\0\0\x06\x0c\x0c\x0c\x0c\x0c\xb6\xc2\xc2\xc2\x1c\xfb\xca\xce\xc71!\x1c\x1c)\x04\x1c\x1c\x1c*********\0\0\xf6\0\0\x08\0\0\0.\x99***\x01*\xe4\x18***********************\0\0\0\0\0\0\0;A\xb6\xb6R\xb6\xb6\x1c***f\0\0\0PAR1",
            b"\x04\0\x1c\x99s3\xa2\0\0\0\x06\0\0\0\x002\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\xa2\x06\xfa\xf9\xf9\xf9.\xf9\xf9\xf9\x06\x06\x06\x06\x01\0\0\0\xa2\xa2)\xf2\xa2\xf9\xf9\xf9\x06\xf9\xf9\xf9\x06\x06\x06\x06\x01\0\0\0\xee\x06\x06\x06\0\0\x1c\x1c\x04\0\0P\0\0\0\0\0\0P\0\0\0PAR1",
        ] {
            assert!(!both(file), "{}", file.escape_ascii());
        }
    }
}
