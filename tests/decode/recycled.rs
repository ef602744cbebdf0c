//! Pictures whose memory was another picture's before: nothing of that shows.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use shardstream::augment::resize::Region;
use shardstream::augment::{Fill, Filter, colour, crop, flip, normalize, pad, resize};
use shardstream::decode::{Colour, Decoder};
use shardstream::sample::{Data, Image, Value};

use crate::support::data;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            // Nothing in them is new to a decoder, and they take long.
            _ if path.ends_with("4k") => {}
            _ if path.is_dir() => files(&path, found),
            Some("jpg" | "jpeg" | "png" | "webp") => found.push(path),
            _ => {}
        }
    }
}

/// Leaves memory of about these sizes in which every byte has this value.
fn leave(value: u8, sizes: &[usize]) {
    let images: Vec<Image> = sizes
        .iter()
        .flat_map(|&size| {
            let mut image = Image::new(size as u32, 1, 1, Data::U8(vec![0; size])).unwrap().clone();
            if let Data::U8(values) = &mut image.data {
                values.fill(value);
            }
            let wide = Image::new(size as u32, 1, 1, Data::U16(vec![0; size])).unwrap();
            let mut wide = wide.clone();
            if let Data::U16(values) = &mut wide.data {
                values.fill(u16::from_ne_bytes([value; 2]));
            }
            [image.clone(), image, wide]
        })
        .collect();
    drop(images);
}

/// What is made of a file, or the error.
fn decoded(decoder: &Decoder, path: &Path, bytes: &Bytes) -> Result<Image, String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    match decoder.decode_field(name, bytes.clone()) {
        Ok(Value::Image(image)) => Ok(image),
        Ok(other) => Err(other.kind().into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_decoded_picture_is_the_same_whatever_was_there_before() {
    let mut paths = Vec::new();
    files(&data().join("images"), &mut paths);
    files(&data().join("photos"), &mut paths);
    assert!(paths.len() > 40, "{}", paths.len());
    let decoders = [
        Decoder::new(),
        Decoder::new().colour(Colour::Stored).orient(true),
        Decoder::new().lenient(true).colour(Colour::Rgba8),
    ];
    let mut large = 0;
    for path in &paths {
        let whole = Bytes::from(std::fs::read(path).unwrap());
        for bytes in [whole.clone(), whole.slice(..whole.len() / 3)] {
            for decoder in &decoders {
                let first = decoded(decoder, path, &bytes);
                let n = first.as_ref().map_or(1 << 18, |image| image.data.len());
                large += usize::from(n >= 64 << 10);
                for value in [0, 0xff] {
                    leave(value, &[n, n / 2, n / 3, n / 4, n / 4 * 3, n / 3 * 4]);
                    let again = decoded(decoder, path, &bytes);
                    assert!(again == first, "{} over {value:#x}", path.display());
                }
            }
        }
    }
    assert!(large > 100, "{large}");
}

#[test]
fn a_changed_picture_is_the_same_whatever_was_there_before() {
    let path = data().join("photos/casa-mila.jpg");
    let bytes = Bytes::from(std::fs::read(&path).unwrap());
    let image = decoded(&Decoder::new(), &path, &bytes).unwrap();
    let (width, height) = (image.width, image.height);
    let margins = pad::Margins { left: 9, top: 0, right: 1, bottom: 70 };
    let part = Region { x: 3, y: 5, width: width - 7, height: height - 9 };
    let changes: [&dyn Fn() -> Vec<u8>; 8] = [
        &|| resize::with(&image, (300, 260), Filter::Lanczos).unwrap().data.as_bytes().to_vec(),
        &|| {
            resize::region(&image, part, (311, 233), Filter::Nearest)
                .unwrap()
                .data
                .as_bytes()
                .to_vec()
        },
        &|| crop::at(&image, part).unwrap().data.as_bytes().to_vec(),
        &|| flip::horizontal(&image).unwrap().data.as_bytes().to_vec(),
        &|| pad::pad(&image, margins, Fill::Reflect).unwrap().data.as_bytes().to_vec(),
        &|| colour::hue(&image, 0.2).unwrap().data.as_bytes().to_vec(),
        &|| image.to_tensor().data.as_bytes().to_vec(),
        &|| normalize(&image, &[0.5; 3], &[0.2; 3]).unwrap().data.as_bytes().to_vec(),
    ];
    for (place, change) in changes.iter().enumerate() {
        let first = change();
        for value in [0, 0xff] {
            leave(value, &[first.len(), first.len() / 2]);
            assert!(change() == first, "change {place} over {value:#x}");
        }
    }
}
