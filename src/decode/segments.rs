//! The segments of a JPEG file, as far as they concern us without decoding it.

use std::ops::Range;

use image::metadata::Orientation;

use super::orient::of_exif;

/// Whether the end marker comes after the start of the picture's data (thumbnails inside segments have markers of their own).
pub(super) fn ends(bytes: &[u8]) -> bool {
    let data = Segments::of(bytes)
        .find(|(marker, _)| matches!(*marker, SOS | EOI))
        .map_or(bytes.len(), |(_, range)| range.start);
    // Entropy-coded data holds 0xFF only before 0x00 and restart markers.
    bytes[data..].windows(2).rev().any(|pair| pair == [0xFF, EOI])
}

/// What the first EXIF segment says; nothing if it can't be read.
pub(super) fn orientation(bytes: &[u8]) -> Orientation {
    Segments::of(bytes)
        .filter(|(marker, _)| *marker == APP1)
        .find_map(|(_, range)| bytes[range].get(4..).filter(|exif| exif.starts_with(b"Exif\0\0")))
        .map_or(Orientation::NoTransforms, of_exif)
}

/// The file without what has no bearing on the pixels: stray bytes between segments, comments, and what applications keep in it, but for
/// an Adobe segment of the right length, which tells the colours. `None` if there is nothing to leave out.
pub(super) fn cleaned(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut clean = bytes.get(..2)?.to_vec();
    for (marker, range) in Segments::of(bytes) {
        if marker == SOS {
            clean.extend_from_slice(&bytes[range.start..]);
            return (clean.len() < bytes.len()).then_some(clean);
        }
        let segment = &bytes[range];
        match marker {
            APP0 => clean.extend_from_slice(segment),
            APP14 if segment.len() == 16 => clean.extend_from_slice(segment),
            APP1..=APP15 | COM => {}
            _ => clean.extend_from_slice(segment),
        }
    }
    None
}

const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const APP0: u8 = 0xE0;
const APP1: u8 = 0xE1;
const APP14: u8 = 0xEE;
const APP15: u8 = 0xEF;
const COM: u8 = 0xFE;

/// Marker and place of each segment of a file, up to the data of the first scan.
struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 2 }
    }
}

impl Iterator for Segments<'_> {
    type Item = (u8, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.at;
            let &[first, marker] = self.bytes.get(start..)?.first_chunk()?;
            match (first, marker) {
                (0xFF, EOI) => {
                    self.at = self.bytes.len();
                    return Some((EOI, start..start + 2));
                }
                // Stray and fill bytes, and markers that stand alone.
                (0..=0xFE, _) | (0xFF, 0xFF) => self.at += 1,
                (0xFF, 0x00 | 0x01 | 0xD0..=0xD8) => self.at += 2,
                (0xFF, _) => {
                    let length = usize::from(u16::from_be_bytes(
                        *self.bytes.get(start + 2..)?.first_chunk()?,
                    ))
                    .max(2);
                    let end = start + 2 + length;
                    if end > self.bytes.len() {
                        return None;
                    }
                    self.at = if marker == SOS { self.bytes.len() } else { end };
                    return Some((marker, start..end));
                }
            }
        }
    }
}
