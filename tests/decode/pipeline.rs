//! Parts put together: order, random numbers, needs.

use shardstream::Error;
use shardstream::augment::{
    Augment, CenterCrop, ColourJitter, Fill, Filter, Keep, Needs, Normalize, PadTo, Pipeline,
    RandomCrop, RandomFlip, RandomGrey, RandomResizedCrop, Rename, ResizeExact, ResizeLongest,
    ResizeShortest, StripExtensions, from_fn, on,
};
use shardstream::random::Rng;
use shardstream::sample::{Fields, Image, Value};

use crate::support::{pattern, picture};

fn two(image: &Image) -> Fields<Value> {
    let mut fields = Fields::new();
    fields.insert("image.png", Value::Image(image.clone()));
    fields.insert("mask.png", Value::Image(image.clone()));
    fields
}

fn run(part: &impl Augment, seed: u64) -> Fields<Value> {
    let mut fields = two(&picture("decode/photo-a.png"));
    part.apply(&mut fields, &mut Rng::keyed(&[seed])).unwrap();
    fields
}

fn training() -> impl Augment {
    (
        RandomResizedCrop::new(64, 64).filter(Filter::Bicubic),
        RandomFlip::horizontal(0.5),
        ColourJitter::new(0.4, 0.4, 0.4, 0.1),
        RandomGrey::new(0.2),
        Normalize::imagenet(),
    )
}

#[test]
fn the_same_random_numbers_give_the_same_sample() {
    for seed in 0..20 {
        assert_eq!(run(&training(), seed), run(&training(), seed));
    }
    let distinct: Vec<_> =
        (0..20).map(|seed| run(&training(), seed)).fold(Vec::new(), |mut seen, fields| {
            if !seen.contains(&fields) {
                seen.push(fields);
            }
            seen
        });
    assert_eq!(distinct.len(), 20, "another epoch, another picture");
}

#[test]
fn pictures_of_a_sample_are_cut_and_turned_alike() {
    let parts = (
        RandomCrop::new(100, 90),
        RandomResizedCrop::new(40, 30),
        RandomFlip::vertical(0.5),
        RandomFlip::horizontal(0.5),
    );
    for seed in 0..20 {
        let fields = run(&parts, seed);
        assert_eq!(fields.get("image.png"), fields.get("mask.png"));
    }
}

#[test]
fn a_random_crop_reaches_every_place_about_as_often() {
    let image = pattern(12, 9);
    let mut counts = [0; 9 * 5];
    for seed in 0..9000 {
        let mut fields = two(&image);
        RandomCrop::new(4, 5).apply(&mut fields, &mut Rng::keyed(&[seed])).unwrap();
        let cropped = fields.get("image.png").unwrap().as_image().unwrap();
        let (x, y) = (cropped.data.as_bytes()[0], cropped.data.as_bytes()[1]);
        counts[usize::from(y) * 9 + usize::from(x)] += 1;
    }
    assert!(counts.iter().all(|count| (130..280).contains(count)), "{counts:?}");
}

#[test]
fn the_part_that_is_resized_has_the_area_and_ratio_asked_for() {
    let crop = RandomResizedCrop::new(64, 64).scale(0.2, 0.6).ratio(0.5, 2.0);
    let mut areas = 0.0;
    for seed in 0..2000 {
        let part = crop.region((640, 480), &mut Rng::keyed(&[seed]));
        assert!(part.x + part.width <= 640 && part.y + part.height <= 480);
        let area = f64::from(part.width * part.height) / (640.0 * 480.0);
        let ratio = f64::from(part.width) / f64::from(part.height);
        assert!((0.195..0.605).contains(&area) && (0.49..2.02).contains(&ratio), "{area} {ratio}");
        areas += area;
    }
    assert!((areas / 2000.0 - 0.4).abs() < 0.02, "{}", areas / 2000.0);
    // No try fits: the largest part in the middle with an allowed ratio.
    let part =
        RandomResizedCrop::new(8, 8).scale(1.0, 1.0).region((1000, 100), &mut Rng::keyed(&[1]));
    assert_eq!((part.x, part.y, part.width, part.height), (433, 0, 133, 100));
}

#[test]
fn probabilities_are_kept() {
    let part = RandomFlip::horizontal(0.3);
    let image = pattern(2, 1);
    let flipped = (0..5000u64)
        .filter(|seed| {
            let mut fields = two(&image);
            part.apply(&mut fields, &mut Rng::keyed(&[*seed])).unwrap();
            fields.get("image.png").unwrap().as_image() != Some(&image)
        })
        .count();
    assert!((1400..1600).contains(&flipped), "{flipped}");
}

#[test]
fn what_a_pipeline_needs_is_what_its_first_size_needs() {
    assert_eq!(
        (RandomFlip::horizontal(0.5), ResizeShortest::new(256), CenterCrop::new(224, 224)).needs(),
        Needs::AtLeast(256, 256)
    );
    assert_eq!(
        (Rename::new([("a", "b")]), ResizeExact::new(64, 32)).needs().size(),
        Some((64, 32))
    );
    assert_eq!((CenterCrop::new(224, 224), ResizeExact::new(64, 32)).needs(), Needs::Full);
    assert_eq!((RandomResizedCrop::new(224, 224),).needs().size(), None);
    assert_eq!((from_fn(|_, _| Ok(())), ResizeLongest::new(9)).needs(), Needs::Full);
    assert_eq!(
        Pipeline::new().then(StripExtensions).then(ResizeLongest::new(9)).needs(),
        Needs::AtLeast(9, 9)
    );
    assert_eq!(Pipeline::new().needs(), Needs::Any);
}

#[test]
fn a_pipeline_is_the_same_as_a_tuple() {
    let parts = || (ResizeShortest::new(50), RandomCrop::new(40, 40), RandomFlip::horizontal(0.5));
    let (a, b, c) = parts();
    let pipeline = Pipeline::new().then(a).then(b).then(c);
    for seed in 0..10 {
        assert_eq!(run(&pipeline, seed), run(&parts(), seed));
    }
}

#[test]
fn fields_are_renamed_kept_and_addressed() {
    let mut fields = two(&pattern(4, 4));
    fields.insert("txt", Value::Text("t".into()));
    let rng = &mut Rng::keyed(&[1]);
    on("mask.png", CenterCrop::new(2, 2)).apply(&mut fields, rng).unwrap();
    assert_eq!(fields.get("mask.png").unwrap().as_image().unwrap().width, 2);
    assert_eq!(fields.get("image.png").unwrap().as_image().unwrap().width, 4);
    (
        StripExtensions,
        Rename::new([("txt", "caption"), ("none", "x")]),
        Keep::new(["caption", "jpg;image"]),
    )
        .apply(&mut fields, rng)
        .unwrap();
    assert_eq!(
        fields.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(),
        ["caption", "image"]
    );
    let error = Keep::new(["mask"]).apply(&mut fields, rng).unwrap_err();
    assert_eq!(error.to_string(), "augment: field mask: the sample has no such field");
    let error = on("mask", CenterCrop::new(2, 2)).apply(&mut fields, rng).unwrap_err();
    assert_eq!(error.field(), Some("mask"));
}

#[test]
fn errors_name_the_field_and_filters_are_no_faults() {
    let mut fields = two(&pattern(4, 4));
    let rng = &mut Rng::keyed(&[1]);
    let error = CenterCrop::new(5, 5).apply(&mut fields, rng).unwrap_err();
    assert_eq!(
        error.to_string(),
        "augment: field image.png: a picture of 4 x 4 is too small to crop 5 x 5"
    );
    let error = from_fn(|_, _| Err(Error::filter("dark"))).apply(&mut fields, rng).unwrap_err();
    assert!(error.is_filtered());
    PadTo::new(6, 5, Fill::Value(9)).apply(&mut fields, rng).unwrap();
    let padded = fields.get("image.png").unwrap().as_image().unwrap();
    assert_eq!((padded.width, padded.height), (6, 5));
    assert_eq!(padded.data.as_bytes()[..9], [9, 9, 9, 0, 0, 0, 1, 0, 7]);
}
