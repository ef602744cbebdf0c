//! Archives made byte by byte, and the shortest way to read one.

use bytes::Bytes;
use shardstream::Result;
use shardstream::tar::{Member, Parser, Step, Warning};

/// A V7 header block; `kind` is the type byte.
pub fn v7(name: &[u8], size: &[u8], kind: u8) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = kind;
    seal(&mut block);
    block
}

/// A ustar header block.
pub fn ustar(name: &[u8], size: u64, kind: u8) -> [u8; 512] {
    changed(v7(name, format!("{size:011o}\0").as_bytes(), kind), |block| {
        block[257..265].copy_from_slice(b"ustar\x0000")
    })
}

/// A GNU header block.
pub fn gnu(name: &[u8], size: u64, kind: u8) -> [u8; 512] {
    changed(v7(name, format!("{size:011o}\0").as_bytes(), kind), |block| {
        block[257..265].copy_from_slice(b"ustar  \0")
    })
}

/// The block with a change and the right checksum.
pub fn changed(mut block: [u8; 512], change: impl FnOnce(&mut [u8; 512])) -> [u8; 512] {
    change(&mut block);
    seal(&mut block);
    block
}

/// Writes the checksum.
pub fn seal(block: &mut [u8; 512]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A body with its padding.
pub fn body(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(512), 0);
    padded
}

/// A PAX record.
pub fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length.to_string().len() + rest != length {
        length = length.to_string().len() + rest;
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

/// A PAX header with its records.
pub fn pax(kind: u8, records: &[(&str, &[u8])]) -> Vec<u8> {
    let records: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
    [&ustar(b"PaxHeaders/x", records.len() as u64, kind)[..], &body(&records)].concat()
}

/// A GNU long name.
pub fn long_name(name: &[u8]) -> Vec<u8> {
    let text = [name, b"\0"].concat();
    [&gnu(b"././@LongLink", text.len() as u64, b'L')[..], &body(&text)].concat()
}

/// A ustar file.
pub fn file(name: &[u8], data: &[u8]) -> Vec<u8> {
    [&ustar(name, data.len() as u64, b'0')[..], &body(data)].concat()
}

/// The parts and an end mark.
pub fn tar(parts: &[&[u8]]) -> Vec<u8> {
    [&parts.concat()[..], &[0; 1024]].concat()
}

/// All that a parser said.
#[derive(Debug, Default)]
pub struct Walk {
    pub members: Vec<Member>,
    pub warnings: Vec<Warning>,
    /// Whether there was an end mark, or what went wrong.
    pub end: Option<Result<bool>>,
}

impl Walk {
    pub fn is_clean(&self) -> bool {
        matches!(self.end, Some(Ok(true)))
    }

    pub fn error(&self) -> String {
        match &self.end {
            Some(Err(error)) => error.to_string(),
            other => panic!("no error but {other:?} and {} members", self.members.len()),
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| shardstream::tar::display(&member.name)).collect()
    }

    /// Names and contents, and how it ended: what must not depend on how the input is cut.
    pub fn story(&self) -> String {
        let end = self.end.as_ref().map(|end| end.as_ref().map_err(ToString::to_string));
        format!("{:?} {:?} {end:?}", self.members, self.warnings)
    }
}

/// Reads chunks to the end or the first error.
pub fn walk(chunks: impl IntoIterator<Item = Bytes>) -> Walk {
    walk_with(Parser::new(), chunks)
}

pub fn walk_with(mut parser: Parser, chunks: impl IntoIterator<Item = Bytes>) -> Walk {
    let mut chunks = chunks.into_iter();
    let mut walk = Walk::default();
    loop {
        match parser.next() {
            Ok(Step::Member(member)) => walk.members.push(member),
            Ok(Step::Warning(warning)) => walk.warnings.push(warning),
            Ok(Step::NeedMore) => match chunks.next() {
                Some(chunk) => parser.push(chunk),
                None => parser.finish(),
            },
            Ok(Step::End { clean }) => {
                walk.end = Some(Ok(clean));
                return walk;
            }
            Err(error) => {
                walk.end = Some(Err(error));
                assert!(
                    matches!(parser.next(), Ok(Step::End { clean: false })),
                    "goes on after an error"
                );
                return walk;
            }
        }
    }
}

/// Reads an archive that comes in one chunk.
pub fn read(archive: &[u8]) -> Walk {
    walk([Bytes::copy_from_slice(archive)])
}
