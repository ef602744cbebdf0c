//! Transforms of three real photographs against torchvision itself, by both of its ways: PIL pictures and tensors. The values were made
//! with torchvision 0.14.1 (`tests/data/decode/make_torchvision.py`): of each result the size and 256 pixels.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use shardstream::Result;
use shardstream::augment::pad::{Margins, pad};
use shardstream::augment::resize::Region;
use shardstream::augment::{Fill, Filter, colour, crop, flip, normalize, resize};
use shardstream::sample::{Data, Image};

use crate::support::{data, picture};

#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    photo: String,
    op: String,
    args: Json,
    backend: String,
    width: u32,
    height: u32,
    pixels: String,
}

impl Case {
    fn numbers<const N: usize>(&self, name: &str) -> [u32; N] {
        serde_json::from_value::<Vec<u32>>(self.args[name].clone()).unwrap().try_into().unwrap()
    }

    fn apply(&self, photo: &Image) -> Result<Image> {
        let factor = self.args["factor"].as_f64().unwrap_or(0.0);
        let shortest = |filter| {
            let side = self.args["side"].as_u64().unwrap() as u32;
            resize::with(photo, resize::shortest_size((photo.width, photo.height), side), filter)
        };
        match self.op.as_str() {
            "resize" if self.args["filter"] == "bicubic" => shortest(Filter::Bicubic),
            "resize" => shortest(Filter::Bilinear),
            "resize, crop" => {
                let [width, height] = self.numbers("crop");
                crop::center(&shortest(Filter::Bilinear)?, width, height)
            }
            "resized crop" => {
                let [x, y, width, height] = self.numbers("region");
                let size = self.numbers::<2>("size").into();
                resize::region(photo, Region { x, y, width, height }, size, Filter::Bilinear)
            }
            "center crop" => {
                let [width, height] = self.numbers("crop");
                crop::center(photo, width, height)
            }
            "flip" if self.args["vertical"] == true => flip::vertical(photo),
            "flip" => flip::horizontal(photo),
            "pad" => {
                let [left, top, right, bottom] = self.numbers("margins");
                let fill = match self.args["mode"].as_str() {
                    Some("edge") => Fill::Edge,
                    Some("reflect") => Fill::Reflect,
                    _ => Fill::Value(77),
                };
                pad(photo, Margins { left, top, right, bottom }, fill)
            }
            "jitter" => {
                let order = self.args["order"].as_array().unwrap();
                order.chunks_exact(2).try_fold(photo.clone(), |image, step| {
                    colour(&image, step[0].as_str().unwrap(), step[1].as_f64().unwrap())
                })
            }
            other => colour(photo, other, factor),
        }
    }

    /// How far from torchvision a value may be: at most, and in how many of a thousand places by more than 1.
    ///
    /// With PIL pictures all but resizing is the same to the bit. The tensors of torchvision round where Pillow cuts off, and turn hues
    /// in floating point where Pillow has 256 of them.
    fn tolerance(&self) -> (u8, usize) {
        let tensor = self.backend == "tensor";
        match self.op.as_str() {
            // The lobes of bicubic; and another JPEG decoder, whose pixels differ by up to 3 before anything is done.
            "resize" if self.args["filter"] == "bicubic" => (3, 20),
            _ if self.photo.ends_with(".jpg") => (2, 5),
            "resize" | "resize, crop" | "resized crop" => (1, 0),
            "grey" | "brightness" | "contrast" | "saturation" if tensor => (1, 0),
            "hue" if tensor => (8, 400),
            "jitter" if tensor => (10, 400),
            _ => (0, 0),
        }
    }
}

fn colour(image: &Image, op: &str, factor: f64) -> Result<Image> {
    match op {
        "brightness" => colour::brightness(image, factor as f32),
        "contrast" => colour::contrast(image, factor as f32),
        "saturation" => colour::saturation(image, factor as f32),
        "hue" => colour::hue(image, factor),
        "grey" => colour::grey(image),
        other => panic!("{other}"),
    }
}

/// The places whose pixels are compared.
fn places(pixels: usize) -> impl Iterator<Item = usize> {
    (0..256u64).map(move |i| (i * 2_654_435_761 % pixels as u64) as usize)
}

#[test]
fn as_torchvision_does_it() {
    let text = std::fs::read(data().join("decode/torchvision.json")).unwrap();
    let Table { cases } = serde_json::from_slice(&text).unwrap();
    assert_eq!(cases.len(), 2 * (2 * 26 + 1) + 2 * 5 + 1);
    let mut wrong = Vec::new();
    for case in cases {
        let photo = picture(&format!("decode/{}", case.photo));
        let want = BASE64_STANDARD.decode(&case.pixels).unwrap();
        if case.op == "normalize" {
            let numbers = |name: &str| -> Vec<f32> {
                serde_json::from_value(case.args[name].clone()).unwrap()
            };
            let tensor = normalize(&photo, &numbers("mean"), &numbers("std")).unwrap();
            let Data::F32(values) = &tensor.data else { panic!() };
            let plane = values.len() / 3;
            let tolerance =
                if case.photo.ends_with(".jpg") { 3.0 / 255.0 / 0.224 + 1e-6 } else { 1e-6 };
            let ours = places(plane).flat_map(|at| (0..3).map(move |c| values[c * plane + at]));
            for (ours, want) in ours.zip(want.as_chunks::<4>().0) {
                let want = f32::from_le_bytes(*want);
                assert!((ours - want).abs() <= tolerance, "{}: {ours} {want}", case.photo);
            }
            continue;
        }
        let image = case.apply(&photo).unwrap();
        let name = format!("{} {} {} {}", case.photo, case.op, case.args, case.backend);
        assert_eq!((image.width, image.height), (case.width, case.height), "{name}");
        let pixels = image.data.as_bytes().as_chunks::<3>().0;
        let ours = places(pixels.len()).flat_map(|at| pixels[at]);
        let off: Vec<u8> = ours.zip(&want).map(|(ours, want)| ours.abs_diff(*want)).collect();
        assert_eq!(off.len(), want.len());
        let (most, often) = case.tolerance();
        let beyond = off.iter().filter(|off| **off > 1).count();
        let worst = *off.iter().max().unwrap();
        if worst > most || beyond * 1000 > often * off.len() {
            wrong.push(format!("{name}: up to {worst}, more than 1 in {beyond} of {}", off.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
