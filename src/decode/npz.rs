//! numpy's `npz`: a zip of `npy` members, stored or deflated.

use std::io::Read;

use flate2::read::DeflateDecoder;

use super::npy;
use super::plain::INFLATED;
use crate::error::{Error, Result};
use crate::sample::Tensor;

/// All arrays in the order in which they lie in the file.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    if bytes.is_empty() {
        return Err(super::plain::empty());
    }
    let mut left = INFLATED;
    let mut members = members(bytes)?;
    members.sort_by_key(|member| member.offset);
    members
        .into_iter()
        .map(|member| {
            let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
            let tensor = array(bytes, &member, &mut left)
                .map_err(|error| Error::decode(format!("npz: {name}")).with_source(error))?;
            Ok((name, tensor))
        })
        .collect()
}

/// One line of the zip's directory.
struct Member {
    name: String,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
}

fn array(bytes: &[u8], member: &Member, left: &mut u64) -> Result<Tensor> {
    let cut = || Error::decode("cut off");
    let start = usize::try_from(member.offset).map_err(|_| cut())?;
    let header = bytes.get(start..).and_then(|b| b.first_chunk::<30>()).ok_or_else(cut)?;
    if !header.starts_with(b"PK\x03\x04") {
        return Err(Error::decode("no zip header where the directory says"));
    }
    let body = start + 30 + usize::from(u16_at(header, 26)) + usize::from(u16_at(header, 28));
    let packed = usize::try_from(member.packed)
        .ok()
        .and_then(|n| bytes.get(body..body.checked_add(n)?))
        .ok_or_else(cut)?;
    *left = left
        .checked_sub(member.size)
        .ok_or_else(|| Error::decode(format!("more than {INFLATED} bytes when inflated")))?;
    let inflated;
    let plain = match member.method {
        0 => packed,
        8 => {
            let mut out = Vec::new();
            DeflateDecoder::new(packed)
                .take(member.size + 1)
                .read_to_end(&mut out)
                .map_err(|error| Error::decode("broken deflate data").with_source(error))?;
            inflated = out;
            &inflated
        }
        other => return Err(Error::decode(format!("zip method {other} is not supported"))),
    };
    let mut crc = flate2::Crc::new();
    crc.update(plain);
    if plain.len() as u64 != member.size || crc.sum() != member.crc {
        return Err(Error::decode("size or checksum differ"));
    }
    npy::decode(plain)
}

/// The directory at the end of the file.
fn members(bytes: &[u8]) -> Result<Vec<Member>> {
    let none = || Error::decode("not an npz: no zip directory at its end");
    // The end record is 22 bytes and a comment of at most 65,535.
    let tail = bytes.len().saturating_sub(22 + 65_535);
    let end = tail + bytes[tail..].windows(4).rposition(|w| w == b"PK\x05\x06").ok_or_else(none)?;
    let record = bytes[end..].first_chunk::<22>().ok_or_else(none)?;
    let (mut count, mut at) = (u64::from(u16_at(record, 10)), u64::from(u32_at(record, 16)));
    if count == 0xFFFF || at == 0xFFFF_FFFF {
        let locator = end
            .checked_sub(20)
            .and_then(|l| bytes.get(l..end))
            .filter(|l| l.starts_with(b"PK\x06\x07"))
            .ok_or_else(none)?;
        let record = usize::try_from(u64_at(locator, 8))
            .ok()
            .and_then(|o| bytes.get(o..)?.first_chunk::<56>())
            .ok_or_else(none)?;
        (count, at) = (u64_at(record, 32), u64_at(record, 48));
    }
    let mut rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).ok_or_else(none)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let entry =
            rest.first_chunk::<46>().filter(|e| e.starts_with(b"PK\x01\x02")).ok_or_else(none)?;
        let [name, extra, comment] = [28, 30, 32].map(|o| usize::from(u16_at(entry, o)));
        let variable = rest[46..].get(..name + extra + comment).ok_or_else(none)?;
        let mut member = Member {
            name: String::from_utf8_lossy(&variable[..name]).into_owned(),
            method: u16_at(entry, 10),
            crc: u32_at(entry, 16),
            packed: u64::from(u32_at(entry, 20)),
            size: u64::from(u32_at(entry, 24)),
            offset: u64::from(u32_at(entry, 42)),
        };
        widen(&mut member, &variable[name..name + extra]).ok_or_else(none)?;
        members.push(member);
        rest = &rest[46 + name + extra + comment..];
    }
    Ok(members)
}

/// Sizes and offset that don't fit into 32 bits stand in an extra field, in this order.
fn widen(member: &mut Member, mut extra: &[u8]) -> Option<()> {
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let (mut field, rest) = rest.split_at_checked(usize::from(u16_at(head, 2)))?;
        if u16_at(head, 0) == 1 {
            for value in [&mut member.size, &mut member.packed, &mut member.offset] {
                if *value == 0xFFFF_FFFF {
                    let (word, rest) = field.split_first_chunk::<8>()?;
                    *value = u64::from_le_bytes(*word);
                    field = rest;
                }
            }
        }
        extra = rest;
    }
    Some(())
}

// The callers have checked the length.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
