//! PiD's tables, class borders, sizes and pipelines.

use bytes::Bytes;
use serde_json::json;
use shardstream::augment::pid::{
    AspectRatio, Fixed, MultiResolution, Resolution, adaptive_size, grid, rescue_size,
};
use shardstream::augment::{Augment, Needs, PickCaption};
use shardstream::decode::Decoder;
use shardstream::random::Rng;
use shardstream::sample::{Data, Fields, Image, Value};

use crate::support::data;

#[test]
fn borders_between_aspect_ratios_are_geometric_means() {
    // The borders as published, and pictures a pixel to either side of each at a width of a million.
    #[allow(clippy::approx_constant)] // as published
    let borders = [1.632_993, 1.414_214, 1.154_701, 0.866_025, 0.707_107, 0.612_372];
    for (i, border) in borders.into_iter().enumerate() {
        let width = 1_000_000u32;
        let height = f64::from(width) / border;
        let at = |height: f64| {
            AspectRatio::nearest(&AspectRatio::ALL, (width, height.round() as u32)).unwrap()
        };
        assert_eq!(at(height - 2.0), AspectRatio::ALL[i], "above {border}");
        assert_eq!(at(height + 2.0), AspectRatio::ALL[i + 1], "below {border}");
    }
    let five = [1.539_601, 1.154_701, 0.866_025, 0.649_519];
    for (i, border) in five.into_iter().enumerate() {
        let at = |width: f64| {
            AspectRatio::nearest(&AspectRatio::FIVE, (width.round() as u32, 1_000_000)).unwrap()
        };
        assert_eq!(at(border * 1e6 + 2.0), AspectRatio::FIVE[i]);
        assert_eq!(at(border * 1e6 - 2.0), AspectRatio::FIVE[i + 1]);
    }
}

#[test]
fn the_nearest_ratio_is_that_of_the_logarithms() {
    // The rule as PiD computes it, in floating point.
    let by_logs = |w: u32, h: u32| {
        let distance = |r: &AspectRatio| {
            ((f64::from(w) / f64::from(h)).ln()
                - (f64::from(r.terms().0) / f64::from(r.terms().1)).ln())
            .abs()
        };
        AspectRatio::ALL.into_iter().reduce(|a, b| if distance(&b) < distance(&a) { b } else { a })
    };
    for w in (1..2000).step_by(7) {
        for h in (1..2000).step_by(11) {
            assert_eq!(AspectRatio::nearest(&AspectRatio::ALL, (w, h)), by_logs(w, h), "{w} x {h}");
        }
    }
    assert_eq!(AspectRatio::nearest(&AspectRatio::ALL, (21, 9)), Some(AspectRatio::R16x9));
    assert_eq!(AspectRatio::nearest(&[], (1, 1)), None);
}

#[test]
fn tables_of_sizes() {
    use AspectRatio::*;
    let want = [
        (Resolution::P1024, [(1024, 1024), (1152, 896), (1344, 768), (1344, 896)]),
        (Resolution::P2048, [(2048, 2048), (2304, 1728), (2688, 1536), (2688, 1792)]),
        (Resolution::P3072, [(3072, 3072), (3520, 2688), (4096, 2304), (3776, 2496)]),
        (Resolution::P3840, [(3584, 3584), (4096, 2816), (4096, 2176), (4096, 2688)]),
        (Resolution::P4096, [(4096, 4096), (4096, 3072), (4096, 2304), (4096, 2688)]),
    ];
    for (table, sizes) in want {
        for ((wide, tall), size) in
            [(R1x1, R1x1), (R4x3, R3x4), (R16x9, R9x16), (R3x2, R2x3)].into_iter().zip(sizes)
        {
            assert_eq!(table.size(wide), size);
            assert_eq!(table.size(tall), (size.1, size.0));
        }
    }
}

#[test]
fn the_grid_of_sizes() {
    let sizes = |ratio| {
        grid(Resolution::P4096, ratio).into_iter().map(|(_, size)| size).collect::<Vec<_>>()
    };
    assert_eq!(
        sizes(AspectRatio::R16x9)[..5],
        [(2752, 1536), (3072, 1728), (3392, 1920), (3776, 2112), (4096, 2304)]
    );
    assert!(sizes(AspectRatio::R16x9)[5..].iter().all(|size| *size == (4096, 2304)));
    let four_three = [
        (2368, 1792),
        (2688, 1984),
        (2944, 2240),
        (3264, 2432),
        (3520, 2688),
        (3840, 2880),
        (4096, 3072),
    ];
    assert_eq!(sizes(AspectRatio::R4x3)[..7], four_three);
    assert!(
        sizes(AspectRatio::R3x4)
            .iter()
            .zip(sizes(AspectRatio::R4x3))
            .all(|(tall, wide)| *tall == (wide.1, wide.0))
    );
    // Buckets that a picture can fall into: sizes that differ.
    let buckets = |max| {
        let distinct = |ratio: AspectRatio| {
            let mut sizes: Vec<_> = grid(max, ratio).into_iter().map(|(_, size)| size).collect();
            sizes.dedup();
            sizes.len()
        };
        AspectRatio::FIVE.into_iter().map(distinct).sum::<usize>()
    };
    assert_eq!(
        [Resolution::P3072, Resolution::P3840, Resolution::P4096].map(buckets),
        [25, 31, 33]
    );
}

#[test]
fn the_adaptive_size_just_covers_the_target() {
    assert_eq!(adaptive_size((3840, 2160), (1344, 768)), (1366, 768));
    assert_eq!(adaptive_size((4000, 3000), (1152, 896)), (1195, 896));
    assert_eq!(adaptive_size((1024, 1024), (1024, 1024)), (1024, 1024), "as large: unchanged");
    assert_eq!(adaptive_size((5000, 800), (1344, 896)), (5000, 800), "too low: unchanged");
    for (w, h) in [(1025, 3000), (2049, 1025), (7777, 1111), (1031, 1033)] {
        let (rw, rh) = adaptive_size((w, h), (1024, 1024));
        assert!(rw >= 1024 && rh >= 1024 && (rw <= 1025 || rh <= 1025), "{w} x {h} -> {rw} x {rh}");
    }
}

#[test]
fn a_near_miss_is_rescued() {
    assert_eq!(rescue_size((1000, 1100), (1024, 1024), 0.9), Some((1024, 1126)));
    assert_eq!(rescue_size((922, 2000), (1024, 1024), 0.9), Some((1024, 2221)));
    assert_eq!(rescue_size((921, 2000), (1024, 1024), 0.9), None, "0.8994 of the target");
    assert_eq!(rescue_size((9, 10), (10, 10), 0.9), None, "0.9 is not more than 0.9");
}

fn sample(width: u32, height: u32, caption: serde_json::Value) -> Fields<Value> {
    let mut fields = Fields::new();
    let values = vec![100; width as usize * height as usize * 3];
    fields
        .insert("image.jpg", Value::Image(Image::new(width, height, 3, Data::U8(values)).unwrap()));
    fields.insert("caption.json", Value::Json(caption));
    fields.insert("embedding.npy", Value::Int(7));
    fields
}

fn rng(n: u64) -> Rng {
    Rng::keyed(&[n])
}

#[test]
fn the_fixed_pipeline_end_to_end() {
    let mut fields = sample(1600, 900, json!({"prompt": "a wren"}));
    Fixed::new(Resolution::P1024).padding_mask().apply(&mut fields, &mut rng(1)).unwrap();
    let names: Vec<_> = fields.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(
        names,
        ["caption", "embedding", "image", "aspect_ratio", "aug_params", "padding_mask"]
    );
    assert_eq!(fields.get("caption"), Some(&Value::Text("a wren".into())));
    assert_eq!(fields.get("aspect_ratio"), Some(&Value::Text("16,9".into())));
    let cropping = json!({"resize_w": 1366, "resize_h": 768, "crop_x0": 11, "crop_y0": 0, "crop_w": 1344, "crop_h": 768});
    assert_eq!(fields.get("aug_params"), Some(&Value::Json(json!({ "cropping": cropping }))));
    let Some(image) = fields.remove("image").and_then(Value::into_tensor) else {
        panic!("no numbers")
    };
    assert_eq!(image.shape, [3, 768, 1344]);
    let Data::F32(values) = &image.data else { panic!("{}", image.data.dtype()) };
    assert_eq!(values[0], (100.0f32 / 255.0 - 0.5) / 0.5);
}

#[test]
fn the_multi_resolution_pipeline_takes_the_largest_size_that_fits() {
    let mut fields = sample(3100, 1800, json!({"prompt": "wide"}));
    let pipeline = MultiResolution::new(Resolution::P4096).as_image();
    pipeline.apply(&mut fields, &mut rng(1)).unwrap();
    assert_eq!(fields.get("aspect_ratio"), Some(&Value::Text("L2304_16,9".into())));
    let image = fields.get("image").unwrap().as_image().unwrap();
    assert_eq!((image.width, image.height), (3072, 1728));
    let mut small = sample(2000, 1000, json!({"prompt": "small"}));
    let error = pipeline.apply(&mut small, &mut rng(1)).unwrap_err();
    assert!(error.is_filtered(), "{error}");
    assert_eq!(pipeline.needs(), Needs::Full);
}

#[test]
fn what_does_not_fit_is_left_out_or_an_error() {
    let fixed = Fixed::new(Resolution::P1024);
    let filtered = |mut fields: Fields<Value>| fixed.apply(&mut fields, &mut rng(1)).unwrap_err();
    assert!(filtered(sample(900, 900, json!({"prompt": "x"}))).is_filtered(), "too small");
    assert!(filtered(sample(1100, 1100, json!({"prompt": ""}))).is_filtered(), "no caption");
    let mut no_image = sample(1100, 1100, json!("x"));
    no_image.remove("image.jpg");
    assert!(filtered(no_image).is_filtered());
    let mut raw = sample(1100, 1100, json!("x"));
    raw.insert("image.jpg", Value::Bytes(Bytes::from("x")));
    let error = filtered(raw);
    assert!(!error.is_filtered() && error.field() == Some("image"), "{error}");
    let mut two = sample(1100, 1100, json!("x"));
    two.insert("image.png", Value::Int(1));
    let error = filtered(two);
    assert!(
        !error.is_filtered() && error.to_string().contains("two fields would be named image"),
        "{error}"
    );
}

#[test]
fn captions_of_every_shape() {
    let pick =
        |value: serde_json::Value| PickCaption::default().pick(&Value::Json(value), &mut rng(3));
    assert_eq!(pick(json!("many captions here")), Some("many captions here".into()));
    assert_eq!(pick(json!({"prompt": "a", "prompt_medium": "", "other": "b"})), Some("a".into()));
    assert_eq!(pick(json!({"caption": {"prompt_short": "s"}})), Some("s".into()));
    assert_eq!(pick(json!({"captions": {"caption": {"prompt": "p"}}})), Some("p".into()));
    assert_eq!(pick(json!({"caption": "plain"})), Some("plain".into()));
    assert_eq!(pick(json!({"prompt": ""})), None);
    assert_eq!(pick(json!([1, 2])), None);
    assert_eq!(
        PickCaption::default().pick(&Value::Text("t".into()), &mut rng(3)),
        Some("t".into())
    );
}

#[test]
fn captions_are_chosen_by_weight() {
    let value = Value::Json(json!({"prompt": "p", "prompt_medium": "m", "prompt_short": "s"}));
    let count = |pick: &PickCaption| {
        let mut counts = [0; 3];
        for n in 0..6000 {
            let text = pick.pick(&value, &mut rng(n)).unwrap();
            counts[["p", "m", "s"].iter().position(|t| *t == text).unwrap()] += 1;
        }
        counts
    };
    let near = |counts: [i32; 3], want: [i32; 3]| {
        counts.iter().zip(want).all(|(a, b)| (a - b).abs() < 200)
    };
    assert!(near(count(&PickCaption::default()), [2000, 2000, 2000]));
    let weighted = PickCaption::default().prompts([
        ("prompt", 0.5),
        ("prompt_medium", 0.3),
        ("prompt_short", 0.2),
    ]);
    assert!(near(count(&weighted), [3000, 1800, 1200]));
}

#[test]
fn a_pid_sample_decodes_in_one_call() {
    let mut fields = Fields::new();
    fields.insert(
        "image.jpg",
        Bytes::from(
            std::fs::read(data().join("images/jpeg/go/video-001.progressive.jpeg")).unwrap(),
        ),
    );
    fields.insert("caption.json", Bytes::from(r#"{"prompt": "a video frame"}"#));
    fields.insert("umt5.pickle", Bytes::from_static(b"\x80\x04K\x01."));
    let decoded = Decoder::default().decode(fields).unwrap();
    assert_eq!(
        decoded.iter().map(|(_, value)| value.kind()).collect::<Vec<_>>(),
        ["image", "json", "bytes"]
    );
}
