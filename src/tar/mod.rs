//! Tar archives: bytes in, members out. No I/O, nothing async.

mod parser;

use bytes::Bytes;

pub use parser::Parser;

/// One regular file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name as it stands in the archive: bytes, which need not be UTF-8.
    pub name: Bytes,
    /// Contents.
    pub data: Bytes,
    /// Where the first header block of the member begins (extended headers included).
    pub header_offset: u64,
    /// Where the contents begin.
    pub data_offset: u64,
}

/// What a parser has to say next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A regular file, whole.
    Member(Member),
    /// Nothing more without more bytes: call [`Parser::push`] or [`Parser::finish`].
    NeedMore,
    /// The archive has ended. `clean` is whether an end mark was seen.
    End {
        /// Whether the archive had its end mark (a block of zeros).
        clean: bool,
    },
}
