//! Tar archives: bytes in, members out. No I/O, nothing async.
//!
//! ```
//! use shardstream::tar::{Parser, Step};
//! # let mut archive = vec![0; 512 + 512 + 1024];
//! # archive[..8].copy_from_slice(b"id_0.txt");
//! # archive[124..136].copy_from_slice(b"00000000005\0");
//! # archive[148..156].fill(b' ');
//! # let sum: u32 = archive[..512].iter().map(|&b| u32::from(b)).sum();
//! # archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
//! # archive[512..517].copy_from_slice(b"hello");
//! let mut parser = Parser::new();
//! for chunk in archive.chunks(100) {
//!     parser.push(bytes::Bytes::copy_from_slice(chunk));
//! }
//! parser.finish();
//! let Step::Member(member) = parser.next()? else { panic!() };
//! assert_eq!((&member.name[..], &member.data[..]), (&b"id_0.txt"[..], &b"hello"[..]));
//! assert_eq!(parser.next()?, Step::End { clean: true });
//! # Ok::<_, shardstream::Error>(())
//! ```

mod header;
mod input;
mod parser;
mod pax;
mod sniff;

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;

pub use parser::Parser;

use crate::error::Error;

/// One regular file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name as it stands in the archive: bytes, which need not be UTF-8. Never a slice of a chunk.
    pub name: Bytes,
    /// Contents. A slice of the chunk they came in if they fill at least half of it, else a copy.
    pub data: Bytes,
    /// Where the first header block of the member begins (extended headers included).
    pub header_offset: u64,
    /// Where the contents begin.
    pub data_offset: u64,
}

impl Member {
    /// One past the padding of the contents, where the next header begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.data_offset.saturating_add(header::padded(self.data.len() as u64))
    }
}

/// What a parser has to say next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A regular file, whole.
    Member(Member),
    /// Something that holds no data for us but that somebody may miss: a link, a member of an unknown type, a second archive
    /// behind the end mark. To be logged; the archive goes on.
    Warning(Warning),
    /// Nothing more without more bytes: call [`Parser::push`] or [`Parser::finish`].
    NeedMore,
    /// The archive has ended. All bytes that were pushed are used up.
    End {
        /// Whether the archive had its end mark (a block of zeros). Without one nobody can tell whether members are missing: to be
        /// logged, or refused where the size of the shard is known and another one.
        clean: bool,
    },
}

/// See [`Step::Warning`]. [`Error::from`] makes an error with the place out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The member concerned.
    pub name: Option<Bytes>,
    /// What it is.
    pub message: Cow<'static, str>,
    /// Where its first header block begins.
    pub offset: u64,
}

impl From<Warning> for Error {
    fn from(warning: Warning) -> Self {
        let error = Self::tar(warning.message).at(warning.offset);
        match warning.name {
            Some(name) => error.in_member(display(&name)),
            None => error,
        }
    }
}

/// A member name for messages: bytes that are not UTF-8 as `\xNN`, and not longer than a line can bear.
#[must_use]
pub fn display(name: &[u8]) -> String {
    const LONGEST: usize = 256;
    let mut text = String::new();
    for chunk in name[..name.len().min(LONGEST)].utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string can't fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if name.len() > LONGEST {
        text.push_str("...");
    }
    text
}
