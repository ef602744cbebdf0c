//! The walk through an archive.

use std::borrow::Cow;

use bytes::Bytes;

use super::header::{self, BLOCK, Header, Kind, padded};
use super::input::{Copies, Input, LARGE};
use super::pax::Extended;
use super::{Member, Step, Warning, display, sniff};
use crate::error::{Error, Result};

/// The longest body of an extended header: names and attributes, far more than a file system allows.
const MAX_EXTENDED: u64 = 1 << 20;
/// The longest member unless [`Parser::max_member`] says otherwise.
const MAX_MEMBER: u64 = 2 << 30;
const ORPHANED: &str = "the archive ends behind an extended header, whose member is missing";

/// Walks an archive: push chunks, take members.
///
/// Reads V7, ustar, GNU and PAX archives. Holds the chunks of one member, and for a moment the member itself; a member that states more
/// bytes than [`max_member`](Self::max_member) is refused before anything is held.
///
/// After an `Err` the archive is given up: `next` returns the end, unless [`resync`](Self::resync) was called.
#[derive(Debug)]
pub struct Parser {
    input: Input,
    copies: Copies,
    finished: bool,
    state: State,
    max_member: u64,
    /// From global headers.
    global: Extended,
    /// From the extended headers in front of the next member.
    extended: Extended,
    /// Where the first of them begins.
    first_header: Option<u64>,
    /// Of the member whose body is due.
    name: Bytes,
    /// Whether the last header was looked for behind a broken place.
    gap: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A header is due.
    Header,
    /// The body of an extended header is due.
    Extended { kind: Kind, size: usize },
    /// The body of a member is due.
    Member { size: usize, header_offset: u64 },
    /// A header has stated a size, but perhaps no bytes follow.
    Doubtful { size: u64 },
    /// Bytes that nobody wants; the last `padding` of them may be missing at the end of the archive.
    Skip { left: u64, padding: u64 },
    /// Behind the end mark. Whether a second archive was reported.
    Ended { reported: bool },
    /// Looking for a good header.
    Search,
    /// Nothing more to say.
    Over { clean: bool },
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// A parser at the first byte.
    #[must_use]
    pub fn new() -> Self {
        Self {
            input: Input::default(),
            copies: Copies::default(),
            finished: false,
            state: State::Header,
            max_member: MAX_MEMBER,
            global: Extended::default(),
            extended: Extended::default(),
            first_header: None,
            name: Bytes::new(),
            gap: false,
        }
    }

    /// Begins at the header of a member inside the archive: offsets are counted from the archive's first byte.
    #[must_use]
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.input = Input::from(offset);
        self
    }

    /// Refuses members of more bytes. At first 2 GiB.
    #[must_use]
    pub fn max_member(mut self, bytes: u64) -> Self {
        self.max_member = bytes;
        self
    }

    /// More bytes.
    pub fn push(&mut self, chunk: Bytes) {
        self.input.push(chunk);
    }

    /// There are no more bytes.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Bytes that were pushed and not yet used: up to a chunk, and of a member that is larger what there is of it.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.input.len()
    }

    /// How many bytes have not been pushed yet of a member that is gathered as its chunks come: one of more than 8 MiB.
    #[must_use]
    pub const fn lacks(&self) -> usize {
        match self.state {
            State::Member { size, .. } if size > LARGE => size.saturating_sub(self.input.len()),
            _ => 0,
        }
    }

    /// Where in the archive the next unused byte stands. Behind a member that is in front of its padding, in it, or behind it, by what
    /// has been pushed; [`Member::end`] doesn't depend on that.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Whether global PAX headers so far name members, give their sizes, or say that they have holes: then the bytes of a member alone
    /// don't tell what it is.
    #[must_use]
    pub fn has_global_names(&self) -> bool {
        self.global.name().is_some() || self.global.size.is_some() || self.global.sparse.is_some()
    }

    /// To be called after an error: `next` looks for the next good header and goes on there; it returns the end if there is none.
    ///
    /// The member found first may lack the extended header that named it, so it is left out with a [`Step::Warning`] unless it has
    /// one. Its sample may lack members too: the caller drops every member until the key has changed.
    pub fn resync(&mut self) {
        // Not the block that the error is about.
        if matches!(self.state, State::Over { .. }) {
            self.input.skip(1);
        }
        self.state = State::Search;
        self.gap = true;
        self.forget();
    }

    /// The next member, or what is missing.
    ///
    /// # Errors
    /// The archive is broken or cut off, no tar archive at all, or holds what can't be read (a file with holes): with byte offset and
    /// member, as far as known.
    #[allow(clippy::should_implement_trait, reason = "an iterator can't say that it needs more")]
    pub fn next(&mut self) -> Result<Step> {
        loop {
            // A member is returned from here, not through `Option`s: each would copy it.
            let advanced = match self.state {
                State::Header => self.read_header(),
                State::Extended { kind, size } => self.read_extended(kind, size),
                State::Member { size, header_offset } => {
                    let data_offset = self.input.offset();
                    if let Some(data) = self.input.take(size, &mut self.copies) {
                        let name = std::mem::take(&mut self.name);
                        self.pass_padding(size as u64);
                        return Ok(Step::Member(Member { name, data, header_offset, data_offset }));
                    }
                    self.cut_off("the member", size)
                }
                State::Skip { left, padding } => self.skip(left, padding),
                State::Doubtful { size } => Ok(self.decide(size)),
                State::Ended { reported } => Ok(self.drain(reported)),
                State::Search => Ok(self.search()),
                State::Over { clean } => {
                    self.input.skip(u64::MAX);
                    return Ok(Step::End { clean });
                }
            };
            match advanced {
                Ok(Some(step)) => return Ok(step),
                Ok(None) => {}
                Err(error) => {
                    self.state = State::Over { clean: false };
                    return Err(error.at(self.input.offset()));
                }
            }
        }
    }

    /// Goes on behind what fills a body of `size` bytes up to whole blocks.
    fn pass_padding(&mut self, size: u64) {
        let padding = padded(size) - size;
        let left = padding - self.input.skip(padding);
        self.state = if left == 0 { State::Header } else { State::Skip { left, padding } };
    }

    fn read_header(&mut self) -> Result<Option<Step>> {
        let at = self.input.offset();
        let Some(block) = self.input.block() else { return self.short() };
        if header::is_zero(block) {
            if self.first_header.is_some() {
                return Err(Error::tar(ORPHANED));
            }
            self.state = State::Ended { reported: false };
            return Ok(None);
        }
        let header = Header::new(block);
        if !header.sum_is_right() {
            return Err(match at {
                0 if !header.has_magic() => {
                    Error::tar(format!("not a tar archive: {}", sniff::looks_like(block)))
                }
                _ => header.bad_sum(),
            });
        }
        match header.kind() {
            kind @ (Kind::LongName | Kind::LongLink | Kind::Pax | Kind::PaxGlobal) => {
                let size = header.size()?;
                self.begin_extended(kind, size, at)
            }
            kind => self.begin_member(kind, at),
        }
    }

    /// An extended header: its body comes next.
    fn begin_extended(&mut self, kind: Kind, size: u64, at: u64) -> Result<Option<Step>> {
        if size > MAX_EXTENDED {
            return Err(Error::tar(format!(
                "an extended header of {size} bytes: more than the {MAX_EXTENDED} allowed"
            )));
        }
        if kind != Kind::PaxGlobal {
            self.first_header.get_or_insert(at);
        }
        self.input.skip(BLOCK as u64);
        self.state = State::Extended { kind, size: size as usize };
        Ok(None)
    }

    /// The header of a member: what extended headers said comes before what it says.
    fn begin_member(&mut self, kind: Kind, at: u64) -> Result<Option<Step>> {
        let header_offset = self.first_header.unwrap_or(at);
        let Some(block) = self.input.block() else { return Ok(Some(Step::NeedMore)) };
        let header = Header::new(block);
        let name = self.extended.name().or(self.global.name());
        let name = name.map_or_else(|| header.name(), Cow::Borrowed);
        let explain = |error: Error| error.at(header_offset).in_member(display(&name));

        let size = match self.extended.size.or(self.global.size) {
            Some(size) => size,
            None => header.size().map_err(explain)?,
        };
        let old_form = (kind == Kind::Sparse).then_some("GNU old form");
        if let Some(form) = self.extended.sparse.or(self.global.sparse).or(old_form) {
            let message = format!("a sparse file ({form}): files with holes can't be read");
            return Err(explain(Error::tar(message)));
        }
        let orphan = self.gap && header_offset == at;
        let is_file = kind == Kind::File && name.last() != Some(&b'/') && !orphan;
        if is_file && size > self.max_member {
            let limit = self.max_member;
            let message = format!("a member of {size} bytes: more than the {limit} allowed");
            return Err(explain(Error::tar(message)));
        }

        let (state, step) = if is_file {
            // At most `max_member`, and more than fits into memory never comes together.
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            self.name = self.copies.copy(&name);
            (State::Member { size, header_offset }, None)
        } else {
            let warning = left_out(kind, header, orphan).map(|message| Warning {
                name: Some(Bytes::copy_from_slice(&name)),
                message,
                offset: header_offset,
            });
            let doubtful = header.size_is_doubtful() && size > 0;
            let state = if doubtful { State::Doubtful { size } } else { State::skip(size) };
            (state, warning.map(Step::Warning))
        };
        self.input.skip(BLOCK as u64);
        self.gap = false;
        self.forget();
        self.state = state;
        Ok(step)
    }

    /// Less than a block is left where a header is due.
    fn short(&mut self) -> Result<Option<Step>> {
        if !self.finished {
            return Ok(Some(Step::NeedMore));
        }
        let (at, left) = (self.input.offset(), self.input.len());
        let rest = self.input.peek(left).unwrap_or_default();
        if at == 0 {
            let whole = if rest.is_empty() {
                "it is empty (0 bytes)".to_owned()
            } else {
                sniff::looks_like(rest)
            };
            return Err(Error::tar(format!("not a tar archive: {whole}")));
        }
        if rest.iter().any(|&b| b != 0) {
            return Err(Error::tar(format!("cut off: {left} of the {BLOCK} bytes of a header")));
        }
        if self.first_header.is_some() {
            return Err(Error::tar(ORPHANED));
        }
        self.state = State::Over { clean: false };
        Ok(None)
    }

    fn read_extended(&mut self, kind: Kind, size: usize) -> Result<Option<Step>> {
        let Some(body) = self.input.peek(size) else {
            return self.cut_off("an extended header", size);
        };
        match kind {
            Kind::LongName => self.extended.read_gnu(body),
            Kind::Pax => self.extended.read_pax(body)?,
            Kind::PaxGlobal => self.global.read_pax(body)?,
            _ => {}
        }
        self.input.skip(size as u64);
        self.pass_padding(size as u64);
        Ok(None)
    }

    /// Fewer than `size` bytes are there.
    fn cut_off(&self, what: &str, size: usize) -> Result<Option<Step>> {
        if !self.finished {
            return Ok(Some(Step::NeedMore));
        }
        let left = self.input.len();
        let error = Error::tar(format!("cut off: {left} of the {size} bytes of {what}"))
            .at(self.input.offset() + left as u64);
        Err(match self.state {
            State::Member { .. } => error.in_member(display(&self.name)),
            _ => error,
        })
    }

    /// Bytes follow unless there is a header, an end mark or the end.
    fn decide(&mut self, size: u64) -> Option<Step> {
        let bare = match self.input.block() {
            Some(block) => header::is_zero(block) || Header::new(block).sum_is_right(),
            None if !self.finished => return Some(Step::NeedMore),
            None => true,
        };
        self.state = if bare { State::Header } else { State::skip(size) };
        None
    }

    fn skip(&mut self, left: u64, padding: u64) -> Result<Option<Step>> {
        let left = left - self.input.skip(left);
        self.state = match left {
            0 => State::Header,
            _ if !self.finished => State::Skip { left, padding },
            _ if left <= padding && self.first_header.is_none() => State::Over { clean: false },
            _ if left <= padding => return Err(Error::tar(ORPHANED)),
            _ => {
                return Err(Error::tar(format!(
                    "cut off: {} bytes of a body are missing",
                    left - padding
                )));
            }
        };
        Ok((left > 0 && !self.finished).then_some(Step::NeedMore))
    }

    /// Uses up what stands behind the end mark, and looks for an archive in it.
    fn drain(&mut self, reported: bool) -> Option<Step> {
        while let Some(block) = self.input.block() {
            let header = Header::new(block);
            let found = !reported && header.has_magic() && header.sum_is_right();
            let offset = self.input.offset();
            self.input.skip(BLOCK as u64);
            if found {
                self.state = State::Ended { reported: true };
                let message =
                    "another archive stands behind the end mark of this one: left out".into();
                return Some(Step::Warning(Warning { name: None, message, offset }));
            }
        }
        if !self.finished {
            return Some(Step::NeedMore);
        }
        self.state = State::Over { clean: true };
        None
    }

    fn search(&mut self) -> Option<Step> {
        loop {
            // Blocks are counted from the first byte of the archive.
            let astray = self.input.offset() % BLOCK as u64;
            if astray > 0 && self.input.skip(BLOCK as u64 - astray) + astray < BLOCK as u64 {
                break;
            }
            let Some(block) = self.input.block() else { break };
            let header = Header::new(block);
            if header.has_magic() && header.sum_is_right() && header.size().is_ok() {
                self.state = State::Header;
                return None;
            }
            self.input.skip(BLOCK as u64);
        }
        if !self.finished {
            return Some(Step::NeedMore);
        }
        self.state = State::Over { clean: false };
        None
    }

    /// The next member begins without extended headers of its own.
    fn forget(&mut self) {
        self.first_header = None;
        self.extended.clear();
    }
}

impl State {
    /// Skips a body with its padding.
    const fn skip(size: u64) -> Self {
        Self::Skip { left: padded(size), padding: padded(size) - size }
    }
}

/// What to say of a member that is no file for us; nothing of what nobody misses.
fn left_out(kind: Kind, header: Header<'_>, orphan: bool) -> Option<Cow<'static, str>> {
    match kind {
        Kind::File if orphan => {
            Some("left out: it stands behind a broken place, its name may be wrong".into())
        }
        Kind::Link(word) => {
            let target = display(header.target());
            Some(format!("a {word} to {target}: it has no bytes of its own").into())
        }
        Kind::Continued => Some("the rest of a file that began in another volume: left out".into()),
        Kind::Unknown(kind) => {
            Some(format!("a member of unknown type `{}`: left out", kind.escape_ascii()).into())
        }
        _ => None,
    }
}
