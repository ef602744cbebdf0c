//! Decoding at a smaller scale (feature `turbojpeg`).

use bytes::Bytes;
use shardstream::augment::{Augment, Filter, ResizeShortest, resize};
use shardstream::decode::Decoder;
use shardstream::sample::Image;

use crate::support::data;

fn decode(decoder: &Decoder) -> Image {
    let bytes = Bytes::from(std::fs::read(data().join("images/4k/valley-midnight.jpg")).unwrap());
    decoder.decode_field("jpg", bytes).unwrap().as_image().unwrap().clone()
}

#[test]
fn the_smallest_scale_that_covers_what_is_needed() {
    for (least, scaled) in [
        ((3840, 2160), (3840, 2160)),
        ((1921, 100), (3840, 2160)),
        ((1920, 1080), (1920, 1080)),
        ((1024, 576), (1920, 1080)),
        ((960, 100), (960, 540)),
        ((100, 271), (960, 540)),
        ((224, 224), (480, 270)),
        ((1, 1), (480, 270)),
        ((9999, 9999), (3840, 2160)),
    ] {
        let image = decode(&Decoder::new().at_least(least.0, least.1));
        let want = if cfg!(feature = "turbojpeg") { scaled } else { (3840, 2160) };
        assert_eq!((image.width, image.height), want, "at least {least:?}");
    }
}

#[test]
fn a_scaled_picture_resized_is_the_full_one_resized() {
    let pipeline = ResizeShortest::new(480).filter(Filter::Lanczos);
    let (width, height) = pipeline.needs().size().unwrap();
    let resize =
        |decoder: &Decoder| resize::with(&decode(decoder), (853, 480), Filter::Lanczos).unwrap();
    let full = resize(&Decoder::new());
    let scaled = resize(&Decoder::new().at_least(width, height));
    let sum: u64 = full
        .data
        .as_bytes()
        .iter()
        .zip(scaled.data.as_bytes())
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    // A DCT filter and then Lanczos, in place of Lanczos alone: 1 of 255 apart in the mean.
    assert!(sum < full.data.len() as u64, "{} in the mean", sum as f64 / full.data.len() as f64);
}
