//! The options of the decoder.

use bytes::Bytes;
use shardstream::Error;
use shardstream::decode::{Colour, Decoder};
use shardstream::sample::{Data, Fields, Image, Value};

use crate::support::data;

fn suite(name: &str) -> Bytes {
    Bytes::from(std::fs::read(data().join("images/png/pngsuite").join(name)).unwrap())
}

fn decode(decoder: &Decoder, bytes: &Bytes) -> Image {
    decoder.decode_field("png", bytes.clone()).unwrap().as_image().unwrap().clone()
}

#[test]
fn colours_as_wanted() {
    // 16-bit grey with alpha, 32 x 32
    let bytes = suite("basn4a16.png");
    let as_stored = decode(&Decoder::new().colour(Colour::Stored), &bytes);
    assert_eq!((as_stored.channels, as_stored.data.dtype()), (4, "u2"));
    let Data::U16(wide) = &as_stored.data else { panic!() };
    let rgb = decode(&Decoder::new(), &bytes);
    let rgba = decode(&Decoder::new().colour(Colour::Rgba8), &bytes);
    let grey = decode(&Decoder::new().colour(Colour::Grey8), &bytes);
    let over = decode(&Decoder::new().background([255, 0, 0]), &bytes);
    assert_eq!((rgb.channels, rgba.channels, grey.channels, over.channels), (3, 4, 1, 3));
    let mut alphas = 0;
    for (i, pixel) in wide.chunks_exact(4).enumerate() {
        let (value, alpha) = ((pixel[0] >> 8) as u8, (pixel[3] >> 8) as u8);
        assert_eq!(rgb.data.as_bytes()[3 * i..3 * i + 3], [value; 3]);
        assert_eq!(rgba.data.as_bytes()[4 * i..4 * i + 4], [value, value, value, alpha]);
        assert_eq!(grey.data.as_bytes()[i], value);
        let red = f64::from(value) * f64::from(alpha) / 255.0 + 255.0 - f64::from(alpha);
        assert!((f64::from(over.data.as_bytes()[3 * i]) - red).abs() <= 0.5, "{i}");
        alphas += usize::from(alpha > 0 && alpha < 255);
    }
    assert!(alphas > 100);
    let stored = |name: &str| decode(&Decoder::new().colour(Colour::Stored), &suite(name));
    assert_eq!((stored("basn0g01.png").channels, stored("basn2c16.png").data.dtype()), (1, "u2"));
    assert_eq!(stored("tbbn3p08.png").channels, 4, "a palette with transparency");
}

#[test]
fn a_limit_of_pixels() {
    let bytes = suite("basn2c08.png"); // 32 x 32
    let error = Decoder::new().pixel_limit(1023).decode_field("a.png", bytes.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "decode: field a.png: 32 x 32 pixels are more than the limit of 1023 (Decoder::pixel_limit raises it)"
    );
    decode(&Decoder::new().pixel_limit(1024), &bytes);
}

#[test]
fn only_and_without_and_own() {
    let fields = || {
        let mut fields = Fields::new();
        fields.insert("image.PNG", suite("basn2c08.png"));
        fields.insert("cls", Bytes::from("3"));
        fields.insert("a.txt", Bytes::from("text"));
        fields.insert("b.xyz", Bytes::from("1,2"));
        fields
    };
    let kinds = |decoder: &Decoder| {
        decoder.decode(fields()).unwrap().iter().map(|(_, value)| value.kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&Decoder::new()), ["image", "int", "text", "bytes"]);
    assert_eq!(kinds(&Decoder::new().only(["png", "a.txt"])), ["image", "bytes", "text", "bytes"]);
    assert_eq!(kinds(&Decoder::new().without(["PNG", "cls"])), ["bytes", "bytes", "text", "bytes"]);
    let own = Decoder::new().with("XYZ", |bytes| match bytes.len() {
        3 => Ok(Value::Int(3)),
        _ => Err(Error::decode("not three bytes")),
    });
    assert_eq!(kinds(&own), ["image", "int", "text", "int"]);
    assert_eq!(kinds(&Decoder::new()), ["image", "int", "text", "bytes"], "others are not changed");
    let error = own.decode_field("b.xyz", Bytes::new()).unwrap_err();
    assert_eq!(error.to_string(), "decode: field b.xyz: not three bytes");
}

#[test]
fn every_clone_counts_what_was_mended() {
    let decoder = Decoder::new().lenient(true);
    let clone = decoder.clone().orient(true);
    let bytes =
        Bytes::from(std::fs::read(data().join("images/png/go-invalid/invalid-zlib.png")).unwrap());
    decode(&clone, &bytes);
    decode(&clone, &suite("basn2c08.png"));
    assert_eq!((decoder.mended(), clone.mended()), (1, 1));
}

#[test]
fn what_is_turned_by_exif() {
    for extension in ["webp", "jpg"] {
        let read = |n: u32| {
            let path = data()
                .join(format!("images/orientation/pillow/hopper_orientation_{n}.{extension}"));
            decode(&Decoder::new().orient(true), &Bytes::from(std::fs::read(path).unwrap()))
        };
        let upright = read(2);
        for n in 3..=8 {
            let image = read(n);
            assert_eq!(
                (image.width, image.height),
                (upright.width, upright.height),
                "{n}.{extension}"
            );
            // Each file was compressed on its own: the same picture, not the same values.
            let off: u64 = image
                .data
                .as_bytes()
                .iter()
                .zip(upright.data.as_bytes())
                .map(|(a, b)| u64::from(a.abs_diff(*b)))
                .sum();
            assert!(
                off < 4 * image.data.len() as u64,
                "{n}.{extension}: off by {} in the mean",
                off / image.data.len() as u64
            );
        }
    }
}
