//! Transforms of two real photographs, against what Pillow makes of them (`tests/data/decode/make.py`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use shardstream::augment::pad::Margins;
use shardstream::augment::resize::Region;
use shardstream::augment::{
    Augment, CenterCrop, Fill, Filter, Pipeline, ResizeCrop, ResizeShortest, colour, crop, flip,
    normalize, normalize_batch, pad, resize,
};
use shardstream::random::Rng;
use shardstream::sample::{Collate, Data, Fields, Image, Tensor, Value};

use crate::support::{data, pattern, picture};

#[derive(Deserialize)]
struct Case {
    photo: String,
    op: String,
    args: Json,
    width: u32,
    height: u32,
    rgb8: String,
}

impl Case {
    fn image(&self) -> Image {
        Image::new(
            self.width,
            self.height,
            3,
            Data::U8(BASE64_STANDARD.decode(&self.rgb8).unwrap()),
        )
        .unwrap()
    }
}

fn filter(args: &Json) -> Filter {
    match args["filter"].as_str().unwrap() {
        "bilinear" => Filter::Bilinear,
        "bicubic" => Filter::Bicubic,
        _ => Filter::Lanczos,
    }
}

fn numbers<const N: usize>(json: &Json) -> [u32; N] {
    serde_json::from_value::<Vec<u32>>(json.clone()).unwrap().try_into().unwrap()
}

#[test]
fn as_pillow_does_it() {
    let cases: Vec<Case> =
        serde_json::from_slice(&std::fs::read(data().join("decode/transforms.json")).unwrap())
            .unwrap();
    assert!(cases.len() > 40);
    let mut wrong = Vec::new();
    for case in &cases {
        let photo = picture(&format!("decode/{}.png", case.photo));
        let args = &case.args;
        // The input of all that doesn't resize.
        let small = cases
            .iter()
            .find(|other| other.op == "small" && other.photo == case.photo)
            .unwrap()
            .image();
        let factor = args["factor"].as_f64().unwrap_or(0.0);
        let image = match case.op.as_str() {
            "resize" => resize::with(&photo, numbers::<2>(&args["size"]).into(), filter(args)),
            "region" => {
                let [x, y, width, height] = numbers(&args["region"]);
                resize::region(
                    &photo,
                    Region { x, y, width, height },
                    numbers::<2>(&args["size"]).into(),
                    filter(args),
                )
            }
            "small" => resize::with(&photo, (24, 18), Filter::Bilinear),
            "brightness" => colour::brightness(&small, factor as f32),
            "contrast" => colour::contrast(&small, factor as f32),
            "saturation" => colour::saturation(&small, factor as f32),
            "hue" => colour::hue(&small, factor),
            "grey" => colour::grey(&small),
            "flip" => flip::horizontal(&small),
            "pad" => {
                let [left, top, right, bottom] = numbers(&args["margins"]);
                let fill = if args["mode"] == "edge" { Fill::Edge } else { Fill::Reflect };
                pad::pad(&small, Margins { left, top, right, bottom }, fill)
            }
            other => panic!("{other}"),
        }
        .unwrap();
        assert_eq!((image.width, image.height), (case.width, case.height), "{} {args}", case.op);
        let want = case.image();
        let want = want.data.as_bytes();
        let off: Vec<u8> =
            image.data.as_bytes().iter().zip(want).map(|(a, b)| a.abs_diff(*b)).collect();
        assert_eq!(off.len(), want.len());
        // Resizing sums in another order: at most 1 of 255 apart. Where the lobes of bicubic and Lanczos overshoot, what is cut off
        // between the two passes differs: at most 4 apart, in one place of a thousand. All else is the same to the bit.
        let lobes = matches!(args["filter"].as_str(), Some("bicubic" | "lanczos"));
        let tolerance = u8::from(matches!(case.op.as_str(), "resize" | "region" | "small"));
        let beyond = off.iter().filter(|off| **off > tolerance).count();
        let worst = off.iter().max().unwrap();
        if beyond > if lobes { off.len() / 1000 } else { 0 } || *worst > 4 {
            wrong.push(format!(
                "{} {} {args}: up to {worst} in {beyond} of {} places",
                case.photo,
                case.op,
                off.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sizes_in_proportion_are_those_of_torchvision() {
    // torchvision.transforms.functional._compute_resized_output_size: int(size * long / short)
    for (size, side, want) in [
        ((640, 480), 256, (341, 256)),
        ((480, 640), 256, (256, 341)),
        ((100, 100), 30, (30, 30)),
        ((3, 1000), 224, (224, 74_666)),
    ] {
        assert_eq!(resize::shortest_size(size, side), want);
    }
    for (size, side, want) in
        [((640, 480), 256, (256, 192)), ((480, 641), 256, (191, 256)), ((1000, 3), 224, (224, 1))]
    {
        assert_eq!(resize::longest_size(size, side), want);
    }
}

#[test]
fn a_crop_from_the_middle_is_where_torchvision_has_it() {
    // int(round((side - crop) / 2)), half to even
    for (side, want) in
        [(224, 0), (225, 0), (226, 1), (227, 2), (228, 2), (229, 2), (230, 3), (231, 4)]
    {
        let region = crop::center_region((side, 300), (224, 300)).unwrap();
        assert_eq!((region.x, region.y), (want, 0), "{side}");
    }
    let image = crop::center(&pattern(10, 9), 4, 3).unwrap();
    assert_eq!(image.data.as_bytes()[..6], [3, 3, 60, 4, 3, 67]);
    let error = crop::center(&pattern(10, 9), 11, 3).unwrap_err();
    assert_eq!(error.to_string(), "augment: a picture of 10 x 9 is too small to crop 11 x 3");
}

#[test]
fn a_region_resized_is_the_crop_resized() {
    let photo = picture("decode/photo-a.png");
    let region = Region { x: 13, y: 7, width: 90, height: 71 };
    for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
        let cropped = resize::with(&crop::at(&photo, region).unwrap(), (40, 50), filter).unwrap();
        assert_eq!(resize::region(&photo, region, (40, 50), filter).unwrap(), cropped);
    }
}

/// Differs by 1 at most, and in few places.
fn same_but_for_rounding(one: &Image, other: &Image) {
    assert_eq!((one.width, one.height), (other.width, other.height));
    let (one, other) = (one.data.as_bytes(), other.data.as_bytes());
    let differences = one.iter().zip(other.iter()).filter(|(a, b)| a != b);
    assert!(differences.clone().all(|(a, b)| a.abs_diff(*b) == 1));
    assert!(differences.count() * 100 <= one.len());
}

#[test]
fn a_window_is_the_crop_of_the_resized_picture() {
    let photo = picture("decode/photo-a.png");
    let whole = (photo.width, photo.height);
    for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
        // Smaller and larger, by odd factors; in the middle and at both ends.
        for size in [(97, 61), (64, 200), (180, 120), (333, 251), whole] {
            let resized = resize::with(&photo, size, filter).unwrap();
            for (x, y) in [(0, 0), (11, 7), (size.0 - 40, size.1 - 30)] {
                let part = Region { x, y, width: 40, height: 30 };
                let window = resize::window(&photo, size, part, filter).unwrap();
                let cropped = crop::at(&resized, part).unwrap();
                same_but_for_rounding(&window, &cropped);
                assert!(filter != Filter::Nearest || window == cropped);
            }
        }
    }
    let beyond = Region { x: 60, y: 0, width: 40, height: 30 };
    let error = resize::window(&photo, (97, 61), beyond, Filter::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "augment: can't crop 40 x 30 at (60, 0) from a picture of 97 x 61"
    );
}

#[test]
fn resizing_and_cropping_in_one_is_the_same_as_in_two() {
    let apply = |pipeline: &dyn Augment, image: &Image| {
        let mut fields = Fields::from_iter([("image".into(), Value::Image(image.clone()))]);
        pipeline.apply(&mut fields, &mut Rng::keyed(&[1])).map_err(|error| error.to_string())?;
        Ok::<_, String>(fields.get("image").unwrap().as_image().unwrap().clone())
    };
    let photo = picture("decode/photo-a.png");
    let tall = resize::exact(&photo, 61, 90).unwrap();
    for (side, width, height) in [(57, 40, 50), (57, 57, 57), (photo.height, 33, 20), (57, 70, 57)]
    {
        for filter in [Filter::Bilinear, Filter::Lanczos] {
            for image in [&photo, &tall] {
                let two =
                    (ResizeShortest::new(side).filter(filter), CenterCrop::new(width, height));
                let one = ResizeCrop::new(side, width, height).filter(filter);
                match (apply(&one, image), apply(&two, image)) {
                    (Ok(one), Ok(two)) => same_but_for_rounding(&one, &two),
                    (one, two) => assert_eq!(one, two),
                }
                assert_eq!(one.needs(), two.needs());
            }
        }
    }
    // Sides whose quotients round up.
    for (side, to) in [(225, 224), (450, 224), (195, 336), (333, 300)] {
        let photo = resize::exact(&photo, side, side + 40).unwrap();
        let two = (ResizeShortest::new(to), CenterCrop::new(to, to));
        let one = apply(&ResizeCrop::new(to, to, to), &photo);
        same_but_for_rounding(&one.unwrap(), &apply(&two, &photo).unwrap());
    }
    let json = r#"[{"resize_crop": {"side": 57, "width": 40, "height": 50, "filter": "lanczos"}}]"#;
    let one = ResizeCrop::new(57, 40, 50).filter(Filter::Lanczos);
    assert_eq!(apply(&Pipeline::from_json(json).unwrap(), &photo), apply(&one, &photo));
}

#[test]
fn flips_undo_themselves_and_grey_pictures_have_one_channel() {
    let image = pattern(5, 4);
    assert_eq!(flip::horizontal(&flip::horizontal(&image).unwrap()).unwrap(), image);
    assert_eq!(flip::vertical(&flip::vertical(&image).unwrap()).unwrap(), image);
    assert_eq!(flip::vertical(&image).unwrap().data.as_bytes()[..3], [0, 3, 39]);
    let grey = Image::new(3, 1, 1, Data::U16(vec![1, 2, 60_000])).unwrap();
    assert_eq!(flip::horizontal(&grey).unwrap().data, Data::U16(vec![60_000, 2, 1]));
}

#[test]
fn numbers_are_those_of_torch() {
    // ((torch.tensor([0, 1, 127, 255], dtype=torch.uint8).float() / 255) - mean) / std
    let image = Image::new(2, 2, 1, Data::U8(vec![0, 1, 127, 255])).unwrap();
    let tensor = normalize(&image, &[0.5], &[0.5]).unwrap();
    assert_eq!(tensor.shape, [1, 2, 2]);
    assert_eq!(
        tensor.data,
        Data::F32(vec![-1.0, (1.0f32 / 255.0 - 0.5) / 0.5, (127.0f32 / 255.0 - 0.5) / 0.5, 1.0])
    );
    let rgb = normalize(&pattern(3, 2), &[0.0, 0.5, 0.25], &[1.0, 0.5, 2.0]).unwrap();
    let Data::F32(values) = &rgb.data else { panic!() };
    assert_eq!(values.len(), 18);
    assert_eq!(
        [values[1], values[6 + 3], values[12 + 4]],
        [1.0 / 255.0, (1.0f32 / 255.0 - 0.5) / 0.5, (20.0f32 / 255.0 - 0.25) / 2.0]
    );
    assert!(normalize(&pattern(1, 1), &[0.5], &[0.5]).is_err());
}

#[test]
fn a_batch_of_bytes_becomes_what_its_pictures_would() {
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let images = [pattern(5, 4), flip::vertical(&pattern(5, 4)).unwrap()];
    let one_by_one = images.iter().map(|image| normalize(image, &mean, &std).unwrap()).collect();
    let at_once = normalize_batch(&Image::collate(images.to_vec()).unwrap(), &mean, &std).unwrap();
    assert_eq!(at_once, Tensor::collate(one_by_one).unwrap());
    assert!(normalize_batch(&at_once, &mean, &std).is_err(), "no bytes");
}

#[test]
fn a_picture_whose_values_do_not_fit_is_refused() {
    let broken = Image { width: 10, height: 10, channels: 3, data: Data::U8(vec![0; 7]) };
    assert!(resize::exact(&broken, 5, 5).is_err());
    assert!(crop::center(&broken, 5, 5).is_err());
    assert!(flip::horizontal(&broken).is_err());
    assert!(colour::hue(&broken, 0.1).is_err());
    assert!(normalize(&broken, &[0.5; 3], &[0.5; 3]).is_err());
    assert!(pad::pad(&broken, Margins::default(), Fill::Edge).is_err());
    assert!(resize::exact(&pattern(4, 4), 0, 5).is_err());
}
