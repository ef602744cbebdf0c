//! The headers of a webm or mkv file (RFC 8794, RFC 9559).

use std::io::{self, Read, Seek, SeekFrom};

use super::classes::Dimensions;
use super::video::{VideoFacts, invalid};

const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK: u32 = 0xae;
const TRACK_TYPE: u32 = 0x83;
const VIDEO: u32 = 0xe0;
const WIDTH: u32 = 0xb0;
const HEIGHT: u32 = 0xba;
const TIMESTAMP_SCALE: u32 = 0x002a_d7b1;
const DURATION: u32 = 0x4489;

/// A header element with more bytes than this is no header.
const HEADER: u64 = 16 << 20;

/// Reads elements until both the headers that matter are found.
pub(crate) fn facts<R: Read + Seek>(reader: &mut R) -> io::Result<VideoFacts> {
    let (mut seconds, mut dimensions) = (None, None);
    loop {
        let (id, size) = match (id(reader), size(reader)) {
            (Ok(id), Ok(size)) => (id, size),
            (Err(error), _) | (_, Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(error);
            }
            _ if dimensions.is_some() => return Err(invalid("the duration is not recorded")),
            _ => return Err(invalid("there is no video track")),
        };
        match (id, size) {
            // Its children follow.
            (SEGMENT, _) => continue,
            (INFO, Some(size)) => seconds = duration(&body(reader, size)?)?,
            (TRACKS, Some(size)) => dimensions = tracks(&body(reader, size)?)?,
            (_, Some(size)) => {
                let skip =
                    i64::try_from(size).map_err(|_| invalid("an element that is too long"))?;
                reader.seek(SeekFrom::Current(skip))?;
            }
            // Media follow without an end; headers come before them.
            (_, None) => {
                return Err(invalid("width, height or duration are not recorded before the media"));
            }
        }
        if let (Some(seconds), Some(dimensions)) = (seconds, dimensions) {
            return Ok(VideoFacts { dimensions, seconds });
        }
    }
}

fn body<R: Read>(reader: &mut R, size: u64) -> io::Result<Vec<u8>> {
    if size > HEADER {
        return Err(invalid("a header that is too long"));
    }
    let mut body = Vec::new();
    reader.take(size).read_to_end(&mut body)?;
    if (body.len() as u64) < size {
        return Err(invalid("a header that is cut off"));
    }
    Ok(body)
}

fn duration(info: &[u8]) -> io::Result<Option<f64>> {
    let (mut scale, mut duration) = (1_000_000, None);
    for child in children(info) {
        match child? {
            (TIMESTAMP_SCALE, body) => scale = uint(body)?,
            (DURATION, body) => duration = Some(float(body)?),
            _ => {}
        }
    }
    Ok(duration.map(|ticks| ticks * scale as f64 / 1e9))
}

fn tracks(body: &[u8]) -> io::Result<Option<Dimensions>> {
    for track in children(body) {
        let (TRACK, track) = track? else { continue };
        let (mut kind, mut picture) = (0, None);
        for child in children(track) {
            match child? {
                (TRACK_TYPE, body) => kind = uint(body)?,
                (VIDEO, body) => picture = Some(body),
                _ => {}
            }
        }
        if let Some(picture) = picture.filter(|_| kind == 1) {
            let mut dimensions = Dimensions { width: 0, height: 0 };
            for child in children(picture) {
                let side = |body| {
                    uint(body).and_then(|n| {
                        u32::try_from(n).map_err(|_| invalid("a side that is too long"))
                    })
                };
                match child? {
                    (WIDTH, body) => dimensions.width = side(body)?,
                    (HEIGHT, body) => dimensions.height = side(body)?,
                    _ => {}
                }
            }
            return Ok(Some(dimensions));
        }
    }
    Ok(None)
}

/// The elements that follow one another in a buffer.
fn children(mut rest: &[u8]) -> impl Iterator<Item = io::Result<(u32, &[u8])>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let child = child(&mut rest);
        if child.is_err() {
            rest = &[];
        }
        Some(child)
    })
}

fn child<'a>(rest: &mut &'a [u8]) -> io::Result<(u32, &'a [u8])> {
    let id = id(rest)?;
    let size =
        size(rest)?.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= rest.len());
    let (body, later) =
        rest.split_at(size.ok_or_else(|| invalid("an element that is longer than what holds it"))?);
    *rest = later;
    Ok((id, body))
}

/// An element's id, its length marker included.
fn id<R: Read>(reader: &mut R) -> io::Result<u32> {
    let (first, length) = first(reader, 4)?;
    Ok(tail(reader, u64::from(first), length)? as u32)
}

/// An element's size; `None` if it is not known.
fn size<R: Read>(reader: &mut R) -> io::Result<Option<u64>> {
    let (first, length) = first(reader, 8)?;
    let value = tail(reader, u64::from(first) & ((1 << (8 - length)) - 1), length)?;
    let unknown = (1 << (7 * length)) - 1;
    Ok((value != unknown).then_some(value))
}

/// The first byte of a number, and how many bytes the number has.
fn first<R: Read>(reader: &mut R, longest: u32) -> io::Result<(u8, u32)> {
    let mut byte = [0; 1];
    reader.read_exact(&mut byte)?;
    let length = byte[0].leading_zeros() + 1;
    if length > longest {
        Err(invalid("a number of an impossible length"))
    } else {
        Ok((byte[0], length))
    }
}

fn tail<R: Read>(reader: &mut R, first: u64, length: u32) -> io::Result<u64> {
    let mut value = first;
    for _ in 1..length {
        let mut byte = [0; 1];
        reader.read_exact(&mut byte)?;
        value = value << 8 | u64::from(byte[0]);
    }
    Ok(value)
}

fn uint(body: &[u8]) -> io::Result<u64> {
    if body.len() > 8 {
        return Err(invalid("a number of an impossible length"));
    }
    Ok(body.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn float(body: &[u8]) -> io::Result<f64> {
    match (body.try_into().map(f32::from_be_bytes), body.try_into().map(f64::from_be_bytes)) {
        (Ok(short), _) => Ok(f64::from(short)),
        (_, Ok(long)) => Ok(long),
        _ if body.is_empty() => Ok(0.0),
        _ => Err(invalid("a number of an impossible length")),
    }
}
