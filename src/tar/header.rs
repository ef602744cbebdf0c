//! One header block: checksum, type, size, name.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// Tar counts in blocks of this many bytes.
pub(super) const BLOCK: usize = 512;
pub(super) type Block = [u8; BLOCK];

/// What follows a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A name for the next member (GNU `L`).
    LongName,
    /// A link target for the next member (GNU `K`).
    LongLink,
    /// PAX records for the next member.
    Pax,
    /// PAX records for all members to come.
    PaxGlobal,
    /// Nothing a sample could want: directory, FIFO, device, volume label.
    Nothing,
    /// A name that stands for something else: the word for messages.
    Link(&'static str),
    /// A file with holes (old GNU form).
    Sparse,
    /// The rest of a file that began in another volume.
    Continued,
    /// Whatever it is.
    Unknown(u8),
}

/// A header block that is not all zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a>(&'a Block);

/// The number of bytes with their padding.
pub(super) const fn padded(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64)
}

/// Whether the block is an end mark.
pub(super) fn is_zero(block: &Block) -> bool {
    block[0] == 0 && block.iter().all(|&b| b == 0)
}

/// The sum of all bytes, in sixteen lanes so that the compiler can use vector instructions: a lane adds up 32 bytes at most.
fn sum(block: &Block) -> u32 {
    let mut lanes = [0u16; 16];
    for row in block.as_chunks::<16>().0 {
        for (lane, &byte) in lanes.iter_mut().zip(row) {
            *lane += u16::from(byte);
        }
    }
    lanes.iter().map(|&lane| u32::from(lane)).sum()
}

/// The part in front of the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.iter().position(|&b| b == 0).map_or(field, |end| &field[..end])
}

/// The octal digits that a word of text begins with: how many, and their value.
fn digits(word: [u8; 8]) -> (u32, u64) {
    let word = u64::from_be_bytes(word);
    // Of a byte that is a digit, 0x30 to 0x37, nothing is left.
    let other = (word ^ 0x3030_3030_3030_3030) & 0xf8f8_f8f8_f8f8_f8f8;
    let count = other.leading_zeros() / 8;
    // What is no digit goes; then two, four and eight digits at a time move together.
    let word = word.unbounded_shr(64 - 8 * count) & 0x0707_0707_0707_0707;
    let word = (word | word >> 5) & 0x003f_003f_003f_003f;
    let word = (word | word >> 10) & 0x0000_0fff_0000_0fff;
    let word = (word | word >> 20) & 0x0000_0000_00ff_ffff;
    (count, word)
}

/// A number as nearly all writers spell it: digits, and behind them nothing, a NUL, or a blank and a NUL. `None` for other spellings.
fn plain_octal(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first_chunk()?;
    let (mut count, mut number) = digits(*first);
    if let (8, &[a, b, c, d]) = (count, rest) {
        let (more, low) = digits([a, b, c, d, 0, 0, 0, 0]);
        (count, number) = (8 + more, number << (3 * more) | low);
    }
    let ends = matches!(&field[count as usize..], [] | [0, ..] | [b' '] | [b' ', 0, ..]);
    (count > 0 && ends).then_some(number)
}

/// Octal digits among blanks. Blank is 0. Some writers put a NUL in front.
fn octal(field: &[u8]) -> Option<u64> {
    plain_octal(field).or_else(|| any_octal(field))
}

fn any_octal(field: &[u8]) -> Option<u64> {
    let field = field.strip_prefix(&[0]).unwrap_or(field);
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0u64, |number, &digit| match digit {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// A number in octal, or in binary (GNU's base-256: first bit set, the second is the sign).
fn number(field: &[u8]) -> Option<u64> {
    let Some(&first @ 0x80..) = field.first() else { return octal(field) };
    let (head, tail) = field.split_last_chunk::<8>()?;
    let fits = first == 0x80 && head.iter().skip(1).all(|&b| b == 0);
    let number = u64::from_be_bytes(*tail);
    (fits && i64::try_from(number).is_ok()).then_some(number)
}

impl<'a> Header<'a> {
    pub(super) const fn new(block: &'a Block) -> Self {
        Self(block)
    }

    /// The checksum that the header states, if that can be read.
    fn stated_sum(self) -> Option<u64> {
        octal(&self.0[148..156])
    }

    /// The checksum as it should be: that of the block with a blank checksum field.
    fn real_sum(self) -> u32 {
        let field: u32 = self.0[148..156].iter().map(|&b| u32::from(b)).sum();
        sum(self.0) - field + 8 * u32::from(b' ')
    }

    /// Whether the checksum is right, made with unsigned bytes or, as old writers did, with signed ones.
    pub(super) fn sum_is_right(self) -> bool {
        let Some(stated) = self.stated_sum() else { return false };
        let real = self.real_sum();
        if stated == u64::from(real) {
            return true;
        }
        let high = |bytes: &[u8]| bytes.iter().filter(|&&b| b >= 0x80).count() as i64;
        let signed = i64::from(real) - 256 * (high(self.0) - high(&self.0[148..156]));
        i64::try_from(stated) == Ok(signed)
    }

    /// Whether it says that it is a tar header (V7 ones don't).
    pub(super) fn has_magic(self) -> bool {
        self.0[257..262] == *b"ustar"
    }

    pub(super) fn kind(self) -> Kind {
        match self.0[156] {
            b'0' | 0 | b'7' => Kind::File,
            b'L' => Kind::LongName,
            b'K' => Kind::LongLink,
            b'x' | b'X' => Kind::Pax,
            b'g' => Kind::PaxGlobal,
            b'1' => Kind::Link("hard link"),
            b'2' => Kind::Link("symbolic link"),
            b'3'..=b'6' | b'V' | b'D' => Kind::Nothing,
            b'S' => Kind::Sparse,
            b'M' => Kind::Continued,
            other => Kind::Unknown(other),
        }
    }

    /// Whether writers disagree on a size without contents: some state one though no bytes follow.
    pub(super) fn size_is_doubtful(self) -> bool {
        matches!(self.0[156], b'1'..=b'6')
    }

    pub(super) fn size(self) -> Result<u64> {
        number(&self.0[124..136]).ok_or_else(|| {
            let field = self.0[124..136].escape_ascii();
            Error::tar(format!("the size field `{field}` is negative or no number"))
        })
    }

    /// The name in this block: with the prefix where the format has one.
    pub(super) fn name(self) -> Cow<'a, [u8]> {
        let name = text(&self.0[..100]);
        // In GNU's own format (`ustar` and a blank) other fields stand in place of the prefix.
        if self.0[257..263] != *b"ustar\0" {
            return Cow::Borrowed(name);
        }
        // The `star` program keeps two times at the end of the prefix.
        let end = if self.0[508..] == *b"tar\0" { 476 } else { 500 };
        match text(&self.0[345..end]) {
            [] => Cow::Borrowed(name),
            prefix => Cow::Owned([prefix, b"/", name].concat()),
        }
    }

    /// Where a link points, as far as this block says.
    pub(super) fn target(self) -> &'a [u8] {
        text(&self.0[157..257])
    }

    /// What is wrong with the checksum.
    pub(super) fn bad_sum(self) -> Error {
        let real = self.real_sum();
        match self.stated_sum() {
            Some(stated) => Error::tar(format!(
                "the header's checksum is wrong: it states {stated}, its bytes make {real}"
            )),
            None => Error::tar("not a tar header: its checksum field is no number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_spelling() {
        for (field, expected) in [
            (&b"00000000644\0"[..], Some(0o644)),
            (b"644 ", Some(0o644)),
            (b"   644\0 ", Some(0o644)),
            (b"\x00644", Some(0o644)),
            (b"77777777777", Some(0o77_777_777_777)),
            (b"\0\0\0\0", Some(0)),
            (b"    ", Some(0)),
            (b"7\x009", Some(7)),
            (b"-1", None),
            (b"+1", None),
            (b"8", None),
            (b"6 4", None),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\x02", Some(0x102)),
            (b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", Some(i64::MAX as u64)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\x81\0\0\0\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x80", None),
            (b"", Some(0)),
        ] {
            assert_eq!(number(field), expected, "{}", field.escape_ascii());
        }
        assert_eq!(octal(&[b'7'; 30]), None, "more than 64 bits");
        assert_eq!(octal(&[b'7'; 21]), Some(u64::MAX >> 1), "the longest that surely fits");
        assert_eq!(octal(b"1777777777777777777777"), Some(u64::MAX));
        assert_eq!(octal(b"2000000000000000000000"), None);
    }

    #[test]
    fn a_number_in_words_is_the_number_digit_by_digit() {
        let mut random = crate::random::Rng::keyed(&[1]);
        let mut plain = 0;
        for _ in 0..200_000 {
            let length = random.below(14) as usize;
            // Mostly digits, so that long numbers come too.
            let field: Vec<u8> = (0..length)
                .map(|_| {
                    *b"0123456701234567012345670123456789 \0/x\xff"
                        .get(random.below(40) as usize)
                        .unwrap_or(&b'7')
                })
                .collect();
            if let Some(number) = plain_octal(&field) {
                plain += 1;
                assert_eq!(Some(number), any_octal(&field), "{}", field.escape_ascii());
            }
        }
        assert!(plain > 10_000, "{plain}");
    }

    #[test]
    fn the_sum_of_a_full_block_fits_its_lanes() {
        assert_eq!(sum(&[0xff; BLOCK]), 255 * 512);
        let mut block = [0; BLOCK];
        block[511] = 7;
        block[16] = 3;
        assert_eq!(sum(&block), 10);
    }
}
