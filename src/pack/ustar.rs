//! The blocks in front of and behind a member: POSIX ustar, with a PAX record only where ustar can't say it.
//!
//! The bytes are those that Python's `tarfile` writes with its defaults for a member with time, owner and group 0: packed data
//! depend on names, contents and order alone.

/// Size of a block.
const BLOCK: usize = 512;
/// An archive is padded to a multiple of this (20 blocks, the record size of tape archives).
const RECORD: u64 = 10_240;
/// Bytes of a name that fit into a header.
const NAME: usize = 100;
/// The first size that 11 octal digits can't say.
const HUGE: u64 = 1 << 33;

/// All blocks that come before the contents of a regular file.
pub(crate) fn head(name: &[u8], size: u64) -> Vec<u8> {
    let mut records = Vec::new();
    let ascii = name.is_ascii();
    if !ascii || name.len() > NAME {
        if std::str::from_utf8(name).is_err() {
            record(&mut records, b"hdrcharset", b"BINARY");
        }
        record(&mut records, b"path", name);
    }
    if size >= HUGE {
        record(&mut records, b"size", size.to_string().as_bytes());
    }
    let mut blocks = Vec::with_capacity(BLOCK);
    if !records.is_empty() {
        blocks.extend_from_slice(&header(b"././@PaxHeader", 0, records.len() as u64, b'x'));
        let padding = padding(records.len() as u64);
        blocks.extend_from_slice(&records);
        blocks.resize(blocks.len() + padding, 0);
    }
    // What a reader without PAX sees: the name cut off, a question mark for each character it can't have.
    let shown = String::from_utf8_lossy(name);
    let shown: Vec<u8> =
        shown.chars().map(|c| if c.is_ascii() { c as u8 } else { b'?' }).take(NAME).collect();
    blocks.extend_from_slice(&header(&shown, 0o644, if size < HUGE { size } else { 0 }, b'0'));
    blocks
}

/// Zeros that fill the last block of contents.
pub(crate) fn padding(size: u64) -> usize {
    // Below 512.
    (size.next_multiple_of(BLOCK as u64) - size) as usize
}

/// Zeros that end an archive of `written` bytes: two blocks at least, then up to a whole record.
pub(crate) fn trailer(written: u64) -> usize {
    // Below 11,264.
    ((written + 2 * BLOCK as u64).next_multiple_of(RECORD) - written) as usize
}

fn header(name: &[u8], mode: u32, size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..name.len()].copy_from_slice(name);
    octal(&mut block[100..107], mode.into());
    octal(&mut block[108..115], 0); // owner
    octal(&mut block[116..123], 0); // group
    octal(&mut block[124..135], size);
    octal(&mut block[136..147], 0); // time
    block[148..156].fill(b' '); // the sum is taken over blanks
    block[156] = kind;
    block[257..262].copy_from_slice(b"ustar");
    block[263..265].copy_from_slice(b"00");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    octal(&mut block[148..154], sum.into());
    block[154] = 0;
    block
}

/// Fills a field with octal digits, zeros in front.
fn octal(field: &mut [u8], mut value: u64) {
    for digit in field.iter_mut().rev() {
        // Below 8.
        *digit = b'0' + (value & 7) as u8;
        value >>= 3;
    }
}

/// Appends `<length> <name>=<value>\n`, where the length counts its own digits.
fn record(records: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} ").as_bytes());
    records.extend_from_slice(name);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_takes_one_block() {
        let block = head(b"ds__a.jpg", 1234);
        assert_eq!(block.len(), BLOCK);
        assert_eq!(&block[..10], b"ds__a.jpg\0");
        assert_eq!(&block[100..108], b"0000644\0");
        assert_eq!(&block[124..136], b"00000002322\0");
        assert_eq!(&block[257..265], b"ustar\x0000");
        // Six digits, a zero, a blank.
        assert_eq!(&block[154..156], b"\0 ");
    }

    #[test]
    fn lengths_of_records_count_themselves() {
        // From 98 to 99 bytes the length itself gets a third digit.
        for value in 80..1200 {
            let mut records = Vec::new();
            record(&mut records, b"path", &vec![b'x'; value]);
            let digits = records.iter().position(|&b| b == b' ').unwrap();
            let says: usize = std::str::from_utf8(&records[..digits]).unwrap().parse().unwrap();
            assert_eq!(says, records.len(), "{value}");
        }
    }

    #[test]
    fn long_and_foreign_names_and_huge_sizes_get_a_record() {
        let long = head(&[b'n'; 101], 0);
        assert_eq!(long.len(), 3 * BLOCK);
        assert_eq!(long[156], b'x');
        assert!(long[BLOCK..].starts_with(b"111 path=nnn"));
        let binary = head(b"\xff.jpg", 0);
        assert!(binary[BLOCK..].starts_with(b"21 hdrcharset=BINARY\n14 path=\xff.jpg\n"));
        let huge = head(b"a.bin", HUGE);
        assert!(huge[BLOCK..].starts_with(b"19 size=8589934592\n"));
        assert_eq!(head(b"a.bin", HUGE - 1).len(), BLOCK);
    }

    #[test]
    fn archives_are_padded_to_records() {
        assert_eq!(trailer(0), 10_240);
        assert_eq!(trailer(9_216), 1_024);
        assert_eq!(trailer(9_728), 10_752);
        assert_eq!(padding(0), 0);
        assert_eq!(padding(1), 511);
        assert_eq!(padding(512), 0);
    }
}
