//! The movie header of an mp4 or mov file (ISO/IEC 14496-12).

use std::io::{self, Read, Seek, SeekFrom};

use super::classes::Dimensions;
use super::video::{VideoFacts, invalid};

/// A movie header with more bytes than this is no header.
const HEADER: u64 = 256 << 20;

/// Finds the movie header among the outermost boxes and reads it.
pub(crate) fn facts<R: Read + Seek>(
    reader: &mut R,
    size: u64,
    turned: bool,
) -> io::Result<VideoFacts> {
    let mut at = 0;
    while at + 8 <= size {
        reader.seek(SeekFrom::Start(at))?;
        let mut head = [0; 16];
        reader.read_exact(&mut head[..8])?;
        let (mut length, name) = (u64::from(be32(&head, 0)?), [head[4], head[5], head[6], head[7]]);
        let mut header = 8;
        if length == 1 {
            reader.read_exact(&mut head[8..])?;
            length = be64(&head, 8)?;
            header = 16;
        } else if length == 0 {
            length = size - at;
        }
        if length < header {
            return Err(invalid("a box that is shorter than its header"));
        }
        if &name == b"moov" {
            let body = length - header;
            if body > HEADER || at.saturating_add(length) > size {
                return Err(invalid("the movie header (moov) is cut off"));
            }
            let mut moov = Vec::new();
            reader.take(body).read_to_end(&mut moov)?;
            return movie(&moov, turned);
        }
        at = at.saturating_add(length);
    }
    Err(invalid("there is no movie header (moov)"))
}

fn movie(moov: &[u8], turned: bool) -> io::Result<VideoFacts> {
    let header = find(moov, b"mvhd")?.ok_or_else(|| invalid("there is no mvhd box"))?;
    let (timescale, mut duration) = match header.first() {
        Some(1) => (be32(header, 20)?, be64(header, 24)?),
        Some(0) => (be32(header, 12)?, known(be32(header, 16)?)),
        _ => return Err(invalid("an mvhd box of an unknown version")),
    };
    if duration == 0 || duration == u64::MAX {
        // In pieces: the length of all of them stands elsewhere.
        let pieces = match find(moov, b"mvex")? {
            Some(mvex) => find(mvex, b"mehd")?,
            None => None,
        };
        duration = match pieces.map(|mehd| (mehd.first(), mehd)) {
            Some((Some(1), mehd)) => be64(mehd, 4)?,
            Some((Some(0), mehd)) => known(be32(mehd, 4)?),
            _ => 0,
        };
    }
    if timescale == 0 || duration == 0 || duration == u64::MAX {
        return Err(invalid("the duration is not recorded"));
    }
    let mut rest = moov;
    while let Some((name, body)) = next(&mut rest)? {
        if &name == b"trak" && is_video(body)? {
            let header = find(body, b"tkhd")?.ok_or_else(|| invalid("there is no tkhd box"))?;
            let seconds = duration as f64 / f64::from(timescale);
            return Ok(VideoFacts { dimensions: dimensions(header, turned)?, seconds });
        }
    }
    Err(invalid("there is no video track"))
}

/// 32 ones stand for a duration that is not known.
const fn known(duration: u32) -> u64 {
    if duration == u32::MAX { 0 } else { duration as u64 }
}

fn is_video(trak: &[u8]) -> io::Result<bool> {
    let Some(mdia) = find(trak, b"mdia")? else { return Ok(false) };
    let Some(hdlr) = find(mdia, b"hdlr")? else { return Ok(false) };
    Ok(hdlr.get(8..12) == Some(b"vide"))
}

/// Width and height stand at the end, as 16.16 fixed point, behind a matrix whose first and fifth entries are 0 if the picture lies on its side.
fn dimensions(tkhd: &[u8], turned: bool) -> io::Result<Dimensions> {
    let matrix = match tkhd.first() {
        Some(0) => 40,
        Some(1) => 52,
        _ => return Err(invalid("a tkhd box of an unknown version")),
    };
    let (width, height) = (be32(tkhd, matrix + 36)? >> 16, be32(tkhd, matrix + 40)? >> 16);
    let on_its_side =
        be32(tkhd, matrix)? == 0 && be32(tkhd, matrix + 16)? == 0 && be32(tkhd, matrix + 4)? != 0;
    Ok(if turned && on_its_side {
        Dimensions { width: height, height: width }
    } else {
        Dimensions { width, height }
    })
}

/// The first box of a name.
fn find<'a>(boxes: &'a [u8], wanted: &[u8; 4]) -> io::Result<Option<&'a [u8]>> {
    let mut rest = boxes;
    while let Some((name, body)) = next(&mut rest)? {
        if &name == wanted {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

/// Takes a box from the front.
fn next<'a>(rest: &mut &'a [u8]) -> io::Result<Option<([u8; 4], &'a [u8])>> {
    if rest.len() < 8 {
        // Some files end a box with four zeros.
        return Ok(None);
    }
    let name = [rest[4], rest[5], rest[6], rest[7]];
    let (length, header) = match be32(rest, 0)? {
        0 => (rest.len() as u64, 8),
        1 => (be64(rest, 8)?, 16),
        length => (u64::from(length), 8),
    };
    let length =
        usize::try_from(length).ok().filter(|&length| length >= header && length <= rest.len());
    let length = length.ok_or_else(|| invalid("a box that is longer than what holds it"))?;
    let (this, later) = rest.split_at(length);
    *rest = later;
    Ok(Some((name, &this[header..])))
}

fn be32(bytes: &[u8], at: usize) -> io::Result<u32> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or_else(|| invalid("a box that is cut off"))
}

fn be64(bytes: &[u8], at: usize) -> io::Result<u64> {
    let eight = bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok());
    eight.map(u64::from_be_bytes).ok_or_else(|| invalid("a box that is cut off"))
}
