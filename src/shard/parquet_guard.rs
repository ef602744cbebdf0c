//! What stands between us and broken parquet files. Their reader counts through whatever number of elements a broken list in the footer
//! claims, even if they take no bytes, and so may never come back; and it panics on some files in place of an error.

use std::io::{self, Read, Seek, SeekFrom};

/// Structures deeper than any footer's.
const DEEPEST: u32 = 32;
/// Length of the footer and the mark, at the end of a file.
const END: usize = 8;

/// Runs a reader of parquet. `None` if it panicked; nothing that it touched may be used then.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok()
}

/// Whether a file ends with a footer that is a whole structure, in Thrift's compact form, and claims no more elements than it has bytes.
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

fn is_whole(footer: &[u8]) -> bool {
    Walk(footer).structure(0).is_some()
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

    fn structure(&mut self, depth: u32) -> Option<()> {
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            // No difference to the field before: its number follows.
            if header >> 4 == 0 {
                self.number()?;
            }
            // A truth value stands in the header.
            if !matches!(header & 15, 1 | 2) {
                self.value(header & 15, depth)?;
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Option<()> {
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
                (0..count).try_for_each(|_| self.value(header & 15, depth + 1))
            }
            12 if depth < DEEPEST => self.structure(depth + 1),
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
            b"\x15\x02\x18\x02ab\x19\x25\x02\x04\x19\x2c\x11\0\x12\0\x05\x20\x06\0",
        ] {
            assert!(both(&file(footer)), "{}", footer.escape_ascii());
        }
    }

    #[test]
    fn claims_beyond_the_bytes_are_refused() {
        let deep = [&[0x1c; 100][..], &[0; 101]].concat();
        for footer in [
            &b""[..],
            b"\x15",
            b"\x18\x05ab\0",
            // A list of more numbers than there are bytes; lists of truth values; a map.
            b"\x19\xf5\xff\xff\xff\x0f\0",
            b"\x19\xf1\xff\xff\xff\x0f\0",
            b"\x19\x11\x01\0",
            b"\x1b\x01\x11\x01\x01\0",
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
        ] {
            assert!(!both(file), "{}", file.escape_ascii());
        }
    }
}
