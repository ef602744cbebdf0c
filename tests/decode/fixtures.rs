//! Pictures from the test suites of other decoders, against what Pillow says of them (`tests/data/images`, and `../shared/fixtures` where
//! it is there).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use shardstream::Error;
use shardstream::decode::Decoder;
use shardstream::sample::Image;

use crate::support::{data, shared};

/// What Pillow opens and we refuse, unless told to be lenient: the data is damaged, and Pillow doesn't notice or doesn't mind.
const DAMAGED: [&str; 4] = [
    "pillow/broken_data_stream.png",   // wrong checksum
    "png/go-invalid/invalid-zlib.png", // wrong checksum
    "png/pngsuite/xcsn0g01.png",       // wrong checksum
    "pillow/hopper_bad_exif.jpg",      // 1214 bytes too many in its data
];

/// Arithmetic coding: only the feature `turbojpeg` reads it.
const ARITHMETIC: &str = "jpeg/libjpeg-turbo/testimgari.jpg";

/// Where pixels are right and yet further from Pillow's than the tolerance.
fn differs_for_a_reason(path: &str, mode: &str) -> bool {
    // Pillow cuts 16-bit grey off at 255 when it converts to RGB; we take the high byte, as for 16-bit RGB.
    mode == "I;16"
        // libjpeg blurs the blocks of a progressive picture whose last scans are missing. Nothing else does.
        || path.contains("wuffs/peacock.progressive.scan00")
        // libjpeg doesn't smooth colours that are at most 2 samples wide.
        || ["2x2", "3x3", "4x4"].iter().any(|size| path.ends_with(&format!("mozilla/jpg-size-{size}.jpg")))
        // RGB (not YCbCr) with green and blue at half the size: smoothed by another rule.
        || path.ends_with("go/video-001.rgb.jpeg")
        // The colours of wholly transparent pixels, when an animation is composed. What can be seen is the same.
        || path.ends_with("webp/image-rs/anim.webp")
}

struct Row {
    file: PathBuf,
    /// Below `images`.
    path: String,
    format: String,
    mode: String,
    size: (u32, u32),
    opens: bool,
    hash: String,
}

fn table(table: &Path, root: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(table).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').collect();
        Row {
            file: root.join(cells[0]),
            path: cells[0].trim_start_matches("fixtures/images/").to_owned(),
            format: cells[2].to_owned(),
            mode: cells[3].to_owned(),
            size: (cells[4].parse().unwrap_or(0), cells[5].parse().unwrap_or(0)),
            opens: cells[9] == "ok",
            hash: cells[10].to_owned(),
        }
    };
    text.lines().skip(1).map(row).collect()
}

fn rows() -> Vec<Row> {
    let mut rows = table(&data().join("images/IMAGES.tsv"), &data().join("images"));
    assert!(rows.len() > 250);
    if let Some(shared) = shared() {
        rows.extend(table(&shared.join("fixtures/IMAGES.tsv"), &shared));
    }
    rows
}

fn decode(row: &Row, lenient: bool) -> Result<Image, Error> {
    let bytes = Bytes::from(std::fs::read(&row.file).unwrap());
    let value = Decoder::default().lenient(lenient).decode_field("x.jpg", bytes)?;
    Ok(value.as_image().unwrap().clone())
}

#[test]
fn all_that_pillow_opens_opens_with_the_same_size_and_pixels() {
    let samples: HashMap<String, Vec<u8>> =
        std::fs::read_to_string(data().join("decode/samples.tsv"))
            .unwrap()
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .map(|(path, pixels)| (path.to_owned(), BASE64_STANDARD.decode(pixels).unwrap()))
            .collect();
    let mut wrong = Vec::new();
    for row in rows().iter().filter(|row| row.opens) {
        let path = row.path.as_str();
        let damaged = DAMAGED.contains(&path);
        if !cfg!(feature = "turbojpeg") && path == ARITHMETIC {
            decode(row, false).unwrap_err();
            continue;
        }
        if damaged {
            decode(row, false).unwrap_err();
        }
        let image = match decode(row, damaged) {
            Ok(image) => image,
            Err(error) => {
                wrong.push(format!("{path}: {error}"));
                continue;
            }
        };
        if (image.width, image.height) != row.size {
            wrong.push(format!("{path}: {}x{}, not {:?}", image.width, image.height, row.size));
        } else if !damaged
            && !differs_for_a_reason(path, &row.mode)
            && !same_pixels(row, &image, samples.get(path))
        {
            wrong.push(format!("{path}: pixels differ"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The very same, or for lossy formats near in 256 pixels: at most 12 of 255 apart, and 1.0 in the mean of each channel.
fn same_pixels(row: &Row, image: &Image, sample: Option<&Vec<u8>>) -> bool {
    let pixels = image.data.as_bytes();
    let hash = Sha256::digest(pixels);
    if hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() == row.hash {
        return true;
    }
    if row.format == "PNG" {
        return false;
    }
    let sample = sample
        .unwrap_or_else(|| panic!("no sample of {}: run tests/data/decode/make.py", row.path));
    let n = pixels.len() / 3;
    let mut sums = [0u32; 3];
    for (i, want) in sample.chunks_exact(3).enumerate() {
        let at = (i * 2_654_435_761 % n) * 3;
        for channel in 0..3 {
            let off = pixels[at + channel].abs_diff(want[channel]);
            if off > 12 {
                return false;
            }
            sums[channel] += u32::from(off);
        }
    }
    sums.iter().all(|sum| *sum <= 256)
}

#[test]
fn what_pillow_refuses_is_an_error_that_names_the_field() {
    let mut refused = 0;
    for row in rows().iter().filter(|row| !row.opens) {
        let error = decode(row, false).unwrap_err();
        assert_eq!(error.field(), Some("x.jpg"), "{}", row.path);
        let _ = decode(row, true);
        refused += 1;
    }
    assert!(refused > 10, "only {refused}");
}

#[test]
fn a_web_page_named_jpg_is_called_one() {
    let error = Decoder::default()
        .decode_field("image.jpg", Bytes::from("<!DOCTYPE html><p>404"))
        .unwrap_err();
    assert!(
        error.to_string().starts_with("decode: field image.jpg: a web page or XML, not a picture"),
        "{error}"
    );
    let error = Decoder::default()
        .decode_field("image.jpg", Bytes::from("version https://git-lfs.github.com/spec/v1\noid"))
        .unwrap_err();
    assert!(error.to_string().contains("Git LFS pointer"), "{error}");
}
