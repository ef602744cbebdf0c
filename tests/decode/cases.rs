//! The hard cases H and I (`../shared/cases`), straight through the decoder.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use shardstream::Result;
use shardstream::decode::Decoder;
use shardstream::sample::Value;

use crate::support::{shared, untar};

/// Field names, keys and values of a case's shard.
fn decode_all(case: &str, decoder: &Decoder) -> Option<Vec<(String, String, Result<Value>)>> {
    let tar = std::fs::read(shared()?.join("cases").join(case).join("shard.tar")).unwrap();
    let members = untar(&tar).into_iter().map(|(name, bytes)| {
        let (key, field) = name.split_once('.').unwrap();
        (key.to_owned(), field.to_owned(), decoder.decode_field(field, bytes))
    });
    Some(members.collect())
}

fn expected(case: &str) -> Json {
    serde_json::from_slice(
        &std::fs::read(shared().unwrap().join("cases").join(case).join("expected.json")).unwrap(),
    )
    .unwrap()
}

fn check_picture(case: &str, value: &Value, want: &Json) {
    let image = value.as_image().unwrap();
    assert_eq!(
        (json!(image.width), json!(image.height)),
        (want["width"].clone(), want["height"].clone()),
        "{case}"
    );
    let hex = want["rgb8_hex"].as_str().unwrap();
    let want_pixels: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect();
    let worst =
        image.data.as_bytes().iter().zip(&want_pixels).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    assert_eq!(image.data.len(), want_pixels.len(), "{case}");
    assert!(u64::from(worst) <= want["tolerance"].as_u64().unwrap(), "{case}: off by {worst}");
}

#[test]
fn pictures() {
    let Some(shared) = shared() else { return };
    let mut seen = 0;
    for folder in std::fs::read_dir(shared.join("cases")).unwrap() {
        let case = folder.unwrap().file_name().into_string().unwrap();
        if !case.starts_with('H') {
            continue;
        }
        seen += 1;
        let want = &expected(&case)["expect"];
        for (key, field, value) in decode_all(&case, &Decoder::default()).unwrap() {
            match (&want["decode"], value) {
                (Json::Null, Ok(value)) => panic!("{case} came out as {value:?}"),
                (Json::Null, Err(error)) => assert_eq!(error.field(), Some(&*field), "{error}"),
                (_, Err(error)) => panic!("{case}: {error}"),
                (Json::Array(list), Ok(value)) => {
                    let want = list.iter().find(|w| w["key"] == key.as_str()).unwrap();
                    check_picture(&case, &value, &want["as_stored"]);
                    let oriented = decode_all(&case, &Decoder::default().orient(true)).unwrap();
                    let turned = oriented.into_iter().find(|(k, ..)| *k == key).unwrap().2.unwrap();
                    check_picture(&format!("{case} {key} oriented"), &turned, &want["oriented"]);
                }
                (want, Ok(value)) => check_picture(&case, &value, want),
            }
        }
    }
    assert!(seen > 15, "only {seen} cases");
}

#[test]
fn a_cut_off_picture_comes_out_on_request_and_is_counted() {
    let Some(shared) = shared() else { return };
    // The first is progressive: a coarse picture of its whole area is there.
    for (path, size, last) in
        [("truncated_jpeg.jpg", (100, 100), None), ("truncated_image.png", (640, 480), Some(128))]
    {
        let bytes =
            Bytes::from(std::fs::read(shared.join("fixtures/images/pillow").join(path)).unwrap());
        let decoder = Decoder::default();
        decoder.decode_field("jpg", bytes.clone()).unwrap_err();
        let lenient = decoder.lenient(true);
        let value = lenient.decode_field("jpg", bytes).unwrap();
        let image = value.as_image().unwrap();
        assert_eq!((image.width, image.height), size, "{path}");
        if let Some(grey) = last {
            assert_eq!(image.data.as_bytes().last(), Some(&grey), "{path}: the rest is grey");
        }
        assert_eq!(lenient.mended(), 1, "{path}");
    }
}

#[test]
fn texts_and_numbers() {
    let Some(all) = decode_all("I01-text-and-json-fields", &Decoder::default()) else { return };
    let want = expected("I01-text-and-json-fields");
    for want in want["expect"]["decode"].as_array().unwrap() {
        let (key, field, value) = all.iter().find(|(key, ..)| want["key"] == key.as_str()).unwrap();
        let value = value.as_ref().map(|value| match value {
            Value::Text(text) => json!(text),
            Value::Json(json) => json.clone(),
            Value::Int(int) => json!(int),
            other => panic!("{other:?}"),
        });
        match want["outcome"].as_str().unwrap() {
            "ok" => assert_eq!(value.as_ref().unwrap(), &want["value"], "{key}"),
            "error" => assert_eq!(value.unwrap_err().field(), Some(&**field), "{key}"),
            _ => {}
        }
    }
}

#[test]
fn arrays() {
    let Some(all) = decode_all("I02-npy-fields", &Decoder::default()) else { return };
    let tensor = |key: &str| match &all.iter().find(|(k, ..)| k == key).unwrap().2 {
        Ok(Value::Tensor(tensor)) => tensor.clone(),
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!((tensor("a").data.dtype(), tensor("a").shape.clone()), ("f4", vec![2, 3]));
    assert_eq!((tensor("b").data.dtype(), tensor("b").shape.clone()), ("f2", vec![4]));
    assert_eq!(tensor("c").data, shardstream::sample::Data::I64(vec![0, 1, 2, 3, 4, 5]));
    let d = format!("{:?}", tensor("d").data);
    assert!(d.contains("0") && d.contains("1") && d.contains("2"), "{d}");
    let error = |key: &str| {
        all.iter().find(|(k, ..)| k == key).unwrap().2.as_ref().unwrap_err().to_string()
    };
    assert!(error("e").contains("pickle"), "{}", error("e"));
    assert!(error("f").contains("cut off"), "{}", error("f"));
}
