//! PAX records: `LENGTH KEY=VALUE\n`, cut by their length and not by lines, since values may hold anything.

use crate::error::{Error, Result};

/// What extended headers say about the members that follow.
#[derive(Debug, Default)]
pub(super) struct Extended {
    name: Vec<u8>,
    source: Source,
    /// Size of the member, in place of the one in its header.
    pub(super) size: Option<u64>,
    /// The record that says that the file has holes.
    pub(super) sparse: Option<&'static str>,
}

/// Where a name came from; a later one wins over an earlier one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    #[default]
    None,
    Gnu,
    Pax,
    /// The name of a file with holes; its `path` is made up.
    Sparse,
}

impl Extended {
    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.name.clear();
        self.source = Source::None;
        self.size = None;
        self.sparse = None;
    }

    /// The name, if there is one.
    pub(super) fn name(&self) -> Option<&[u8]> {
        (self.source > Source::None).then_some(&self.name)
    }

    fn set_name(&mut self, source: Source, name: &[u8]) {
        if source >= self.source {
            self.source = source;
            self.name.clear();
            self.name.extend_from_slice(name);
        }
    }

    /// The body of a GNU long name: up to its NUL.
    pub(super) fn read_gnu(&mut self, body: &[u8]) {
        let end = body.iter().position(|&b| b == 0).unwrap_or(body.len());
        self.set_name(Source::Gnu, &body[..end]);
    }

    /// The body of a PAX header.
    pub(super) fn read_pax(&mut self, body: &[u8]) -> Result<()> {
        for record in Records(body) {
            match record? {
                (b"path", path) => self.set_name(Source::Pax, path),
                // A value of no bytes takes an earlier record back.
                (b"size", b"") => self.size = None,
                (b"size", digits) => self.size = Some(size(digits)?),
                (b"GNU.sparse.name", name) => {
                    self.set_name(Source::Sparse, name);
                    self.sparse = Some("GNU.sparse");
                }
                (key, _) if key.starts_with(b"GNU.sparse.") => self.sparse = Some("GNU.sparse"),
                (b"SUN.holesdata", _) => self.sparse = Some("SUN.holesdata"),
                _ => {}
            }
        }
        Ok(())
    }
}

fn size(digits: &[u8]) -> Result<u64> {
    decimal(digits).filter(|&size| i64::try_from(size).is_ok()).ok_or_else(|| {
        let shown = &digits[..digits.len().min(40)];
        Error::tar(format!("the PAX size `{}` is negative or no number", shown.escape_ascii()))
    })
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// Walks the records of a body without copying. Some writers fill up with NULs.
struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    fn split(body: &'a [u8]) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        let blank = body.iter().take(20).position(|&b| b == b' ')?;
        let length = usize::try_from(decimal(&body[..blank])?).ok()?;
        let record = body.get(blank + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&b| b == b'=')?;
        Some((&record[..equals], &record[equals + 1..], &body[length..]))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.first().is_none_or(|&b| b == 0) && self.0.iter().all(|&b| b == 0) {
            return None;
        }
        let body = std::mem::take(&mut self.0);
        let Some((key, value, rest)) = Self::split(body) else {
            let start = body[..body.len().min(24)].escape_ascii();
            return Some(Err(Error::tar(format!("broken PAX record `{start}`"))));
        };
        self.0 = rest;
        Some(Ok((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8]) -> Result<Extended> {
        let mut extended = Extended::default();
        extended.read_pax(body).map(|()| extended)
    }

    #[test]
    fn records_are_cut_by_length() {
        let extended = read(b"20 note=a\nb=c\n9 x=\0\n11 path=ab\n9 size=7\n\0\0").unwrap();
        assert_eq!((extended.name(), extended.size), (Some(&b"ab"[..]), Some(7)));
    }

    #[test]
    fn broken_records_are_refused() {
        for body in [
            &b"11 path=ab"[..],
            b"12 path=ab\n",
            b"\x001 path=ab\n",
            b"11 path=ab\n\0\x001 path=cd\n",
            b"10 path=ab\n",
            b"0 path=ab\n",
            b"2 path=ab\n",
            b"path=ab\n",
            b"-11 path=ab\n",
            b"8 path \n",
            b"99999999999999999999999 path=ab\n",
            b"18446744073709551615 path=ab\n",
            b" 11 path=ab\n",
            b"10 size=-1\n",
            b"10 size=1x\n",
            b"28 size=9223372036854775808\n",
        ] {
            assert!(read(body).is_err(), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn a_pax_path_wins_over_a_gnu_name_wherever_it_stands() {
        for pax_first in [true, false] {
            let mut extended = Extended::default();
            if pax_first {
                extended.read_pax(b"11 path=ab\n").unwrap();
            }
            extended.read_gnu(b"gnu\0");
            if !pax_first {
                extended.read_pax(b"11 path=ab\n").unwrap();
            }
            assert_eq!(extended.name(), Some(&b"ab"[..]), "{pax_first}");
        }
    }

    #[test]
    fn holes_are_noticed_and_named_as_the_user_knows_them() {
        let extended =
            read(b"22 GNU.sparse.major=1\n21 GNU.sparse.name=b\n13 path=made\n").unwrap();
        assert_eq!((extended.name(), extended.sparse), (Some(&b"b"[..]), Some("GNU.sparse")));
    }

    #[test]
    fn an_empty_size_takes_the_global_one_back() {
        assert_eq!(read(b"9 size=7\n8 size=\n").unwrap().size, None);
    }
}
