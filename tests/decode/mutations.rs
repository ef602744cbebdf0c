//! Damaged fields of every kind: an error or a value, never a panic, a hang, or more memory than the limits allow.
//!
//! In the ordinary run a few thousand. For more, in release:
//!
//! ```text
//! SHARDSTREAM_MUTATIONS=1000000 cargo test --release --test decode mutations
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use shardstream::decode::{Colour, Decoder};
use shardstream::random::Rng;

use crate::support::data;

/// Name and content of a whole field.
type Field = (String, Vec<u8>);

fn pictures(folder: &Path, fields: &mut Vec<Field>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_owned();
        if path.is_dir() {
            pictures(&path, fields);
        } else if ["jpg", "jpeg", "png", "webp"].contains(&extension.as_str()) {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.len() < 20_000 {
                fields.push((extension, bytes));
            }
        }
    }
}

fn fields() -> Vec<Field> {
    let mut fields = Vec::new();
    pictures(&data().join("images"), &mut fields);
    // The other formats are made from one small picture.
    let small =
        image::RgbImage::from_fn(13, 11, |x, y| image::Rgb([x as u8 * 19, y as u8 * 23, 77]));
    for (extension, format) in [
        ("gif", image::ImageFormat::Gif),
        ("bmp", image::ImageFormat::Bmp),
        ("tiff", image::ImageFormat::Tiff),
        ("ppm", image::ImageFormat::Pnm),
    ] {
        let mut file = std::io::Cursor::new(Vec::new());
        small.write_to(&mut file, format).unwrap();
        fields.push((extension.to_owned(), file.into_inner()));
    }
    let arrays: Json =
        serde_json::from_slice(&std::fs::read(data().join("decode/arrays.json")).unwrap()).unwrap();
    for array in arrays.as_object().unwrap().values() {
        for kind in ["npy", "npz"] {
            if let Some(text) = array[kind].as_str() {
                fields.push((kind.to_owned(), BASE64_STANDARD.decode(text).unwrap()));
            }
        }
    }
    let value =
        json!({"prompt": "a cat", "list": [1, -2.5, null, true, {"x": "é"}], "n": u64::MAX});
    let mut cbor = Vec::new();
    ciborium::into_writer(&value, &mut cbor).unwrap();
    fields.push(("cbor".to_owned(), cbor));
    fields.push(("mp".to_owned(), rmp_serde::to_vec(&value).unwrap()));
    fields.push(("json".to_owned(), serde_json::to_vec(&value).unwrap()));
    let header = r#"{"z":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"a":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}"#;
    fields.push((
        "safetensors".to_owned(),
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7; 12]].concat(),
    ));
    fields
}

/// One to four changes. The checksums of a PNG are set right again half the time, so that what lies behind them is reached.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let below = |rng: &mut Rng, n: usize| rng.below(n.max(1) as u64) as usize;
    for _ in 0..=rng.below(4) {
        // Half of all changes fall into the first bytes, where headers are.
        let reach = if rng.chance(0.5) { bytes.len().min(64) } else { bytes.len() };
        let at = below(rng, reach);
        match rng.below(8) {
            _ if bytes.is_empty() => return,
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][below(rng, 6)],
            3 => {
                let word = [0u32, 1, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x0001_0000, 0x0000_FFFF]
                    [below(rng, 6)]
                .to_be_bytes();
                bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = at + below(rng, bytes.len() - at);
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            6 => drop(bytes.drain(at..at + below(rng, (bytes.len() - at).min(16)))),
            _ => {
                let from = below(rng, other.len());
                let to = from + below(rng, (other.len() - from).min(64));
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    if bytes.starts_with(b"\x89PNG") && rng.chance(0.5) {
        mend_checksums(bytes);
    }
}

fn mend_checksums(png: &mut [u8]) {
    let mut at = 8;
    while let Some(head) = png.get(at..at + 8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(end) = at.checked_add(8 + length).filter(|end| end + 4 <= png.len()) else {
            return;
        };
        let mut crc = flate2::Crc::new();
        crc.update(&png[at + 4..end]);
        let sum = crc.sum().to_be_bytes();
        png[end..end + 4].copy_from_slice(&sum);
        at = end + 4;
    }
}

/// The most memory that this process has held so far, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[test]
fn mutations() {
    let count =
        std::env::var("SHARDSTREAM_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(5000u64);
    let fields = fields();
    assert!(fields.len() > 280);
    let decoders = [
        Decoder::new(),
        Decoder::new().lenient(true),
        Decoder::new().colour(Colour::Stored).orient(true),
    ]
    .map(|decoder| decoder.pixel_limit(1 << 20));
    let before = peak();
    let (mut decoded, mut panics) = (0, Vec::new());
    for n in 0..count {
        let mut rng = Rng::keyed(&[0x6d75_7461_7465, n]);
        let (name, whole) = &fields[rng.below(fields.len() as u64) as usize];
        let (_, other) = &fields[rng.below(fields.len() as u64) as usize];
        let mut bytes = whole.clone();
        mutate(&mut bytes, other, &mut rng);
        let decoder = &decoders[rng.below(3) as usize];
        match catch_unwind(AssertUnwindSafe(|| decoder.decode_field(name, Bytes::from(bytes)))) {
            Ok(Ok(_)) => decoded += 1,
            Ok(Err(error)) => assert_eq!(error.field(), Some(name.as_str())),
            Err(_) => panics.push((n, name.clone())),
        }
    }
    assert!(
        panics.is_empty(),
        "{} panics, by number and extension: {:?}",
        panics.len(),
        &panics[..panics.len().min(20)]
    );
    assert!(decoded > count / 20 && decoded < count, "{decoded} of {count} came out");
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 1 << 30, "memory grew by {} bytes", after - before);
    }
}
