//! Arrays, msgpack, CBOR, text: every kind of field but pictures.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use shardstream::Result;
use shardstream::decode::Decoder;
use shardstream::sample::{Data, Tensor, Value};

use crate::support::data;

fn decode(name: &str, bytes: impl Into<Bytes>) -> Result<Value> {
    Decoder::default().decode_field(name, bytes.into())
}

fn error(name: &str, bytes: impl Into<Bytes>) -> String {
    decode(name, bytes).unwrap_err().to_string()
}

#[derive(Deserialize)]
struct Array {
    npy: Option<String>,
    npz: Option<String>,
    #[serde(default)]
    shape: Vec<usize>,
    #[serde(default)]
    dtype: String,
    values: Option<Vec<f64>>,
}

fn arrays() -> BTreeMap<String, Array> {
    serde_json::from_slice(&std::fs::read(data().join("decode/arrays.json")).unwrap()).unwrap()
}

fn bytes(text: &Option<String>) -> Vec<u8> {
    BASE64_STANDARD.decode(text.as_ref().unwrap()).unwrap()
}

fn as_f64(data: &Data) -> Vec<f64> {
    match data {
        Data::Bool(v) => v.iter().map(|v| f64::from(u8::from(*v))).collect(),
        Data::U8(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::I8(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U16(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::I16(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::I32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U64(v) => v.iter().map(|v| *v as f64).collect(),
        Data::I64(v) => v.iter().map(|v| *v as f64).collect(),
        Data::F16(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::F32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::F64(v) => v.clone(),
        other => panic!("{}", other.dtype()),
    }
}

#[test]
fn npy_of_every_type_and_order() {
    for (name, array) in arrays().iter().filter(|(_, array)| array.npy.is_some()) {
        match (&array.values, decode("a.npy", bytes(&array.npy))) {
            (Some(values), Ok(Value::Tensor(tensor))) => {
                assert_eq!(
                    (tensor.data.dtype(), &tensor.shape),
                    (array.dtype.as_str(), &array.shape),
                    "{name}"
                );
                assert_eq!(&as_f64(&tensor.data), values, "{name}");
            }
            (None, Err(error)) => {
                assert!(error.to_string().contains("not supported"), "{name}: {error}")
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn npy_cut_anywhere_is_an_error() {
    let whole = bytes(&arrays()["f4"].npy);
    for length in 0..whole.len() {
        error("a.npy", whole[..length].to_vec());
    }
    let at = whole.windows(5).position(|w| w == b"'<f4'").unwrap();
    let mut objects = whole;
    objects[at..at + 5].copy_from_slice(b"'|O8'");
    assert!(error("a.npy", objects).contains("a pickle and is not read"));
}

#[test]
fn npz_stored_and_deflated() {
    for name in ["stored", "deflated"] {
        let whole = bytes(&arrays()[name].npz);
        let Value::Tensors(tensors) = decode("a.npz", whole.clone()).unwrap() else { panic!() };
        assert_eq!(
            tensors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["second", "first"],
            "order of the file"
        );
        assert_eq!(
            tensors[0].1,
            Tensor::new(vec![2, 3], Data::F32(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])).unwrap()
        );
        assert_eq!(tensors[1].1, Tensor::new(vec![50, 50], Data::U16(vec![0; 2500])).unwrap());
        for length in 0..whole.len() {
            error("a.npz", whole[..length].to_vec());
        }
        // A changed byte in the first array's data is found by its checksum.
        let at = whole.windows(6).position(|w| w == b"\x93NUMPY").map_or(60, |at| at + 128);
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(error("a.npz", changed).contains("npz: second"), "{name}");
    }
}

fn safetensors(header: &str, body: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), body].concat()
}

#[test]
fn safetensors_in_the_order_of_the_file() {
    let header = r#"{"z":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"a":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}"#;
    let body = [
        &half::bf16::from_f32(1.5).to_le_bytes()[..],
        &half::bf16::from_f32(-2.0).to_le_bytes(),
        &(-3i64).to_le_bytes(),
    ]
    .concat();
    let Value::Tensors(tensors) = decode("t.safetensors", safetensors(header, &body)).unwrap()
    else {
        panic!()
    };
    assert_eq!(
        tensors[0],
        (
            "z".into(),
            Tensor::new(vec![2], Data::BF16([1.5, -2.0].map(half::bf16::from_f32).to_vec()))
                .unwrap()
        )
    );
    assert_eq!(tensors[1], ("a".into(), Tensor::new(vec![], Data::I64(vec![-3])).unwrap()));
    error("t.safetensors", safetensors(header, &body[..11]));
    let eight = r#"{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(
        error("t.safetensors", safetensors(eight, &[0]))
            .contains("tensor a: type F8_E4M3 is not supported")
    );
}

#[test]
fn msgpack_and_cbor_become_json() {
    let want = json!({"n": 1, "x": [1.5, null, true, "é"]});
    let mut packed = Vec::new();
    ciborium::into_writer(&want, &mut packed).unwrap();
    assert_eq!(decode("a.cbor", packed).unwrap(), Value::Json(want.clone()));
    let packed = rmp_serde::to_vec(&want).unwrap();
    for name in ["a.mp", "msg", "a.MSGPACK"] {
        assert_eq!(decode(name, packed.clone()).unwrap(), Value::Json(want.clone()));
    }
    for length in 0..packed.len() {
        error("a.mp", packed[..length].to_vec());
    }
    assert!(
        error("a.mp", vec![0xc4, 1, 0]).contains("not a msgpack value that JSON has"),
        "raw bytes"
    );
    // Nested so deep that reading it would end the stack.
    for bytes in [vec![0x91u8; 1 << 20], vec![0x81; 1 << 20]] {
        error("a.mp", bytes.clone());
        error("a.cbor", bytes);
    }
    error("a.json", vec![b'['; 1 << 20]);
}

#[test]
fn lengths_that_lie_take_no_memory() {
    // An array of 2^32 - 1 items, a text of as many bytes, a shape of 2^60 items, nothing behind them.
    error("a.mp", vec![0xdd, 0xff, 0xff, 0xff, 0xff]);
    error("a.mp", vec![0xdb, 0xff, 0xff, 0xff, 0xff]);
    error("a.cbor", vec![0x9a, 0xff, 0xff, 0xff, 0xff]);
    error("a.cbor", vec![0x7b, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }\n";
    let npy = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()]
        .concat();
    assert!(error("a.npy", npy).contains("cut off"));
}

#[test]
fn text_and_numbers() {
    assert_eq!(decode("caption.txt", "né\r\n").unwrap(), Value::Text("né\r\n".into()));
    assert_eq!(
        error("caption.txt", &b"ab\xe9"[..]),
        "decode: field caption.txt: not UTF-8 from byte 2 of the field on"
    );
    assert_eq!(decode("cls", " -12\n").unwrap(), Value::Int(-12));
    assert_eq!(error("index", "1.5"), r#"decode: field index: not a whole number: "1.5""#);
    assert_eq!(error("json", ""), "decode: field json: the field is empty (0 bytes)");
    assert!(error("a.json", "{\"x\": NaN}").starts_with("decode: field a.json: not JSON"));
}

#[test]
fn gz_is_taken_off() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(decode("a.json.gz", gzip(b"[1]")).unwrap(), Value::Json(json!([1])));
    assert_eq!(decode("a.bin.GZ", gzip(b"x")).unwrap(), Value::Bytes(Bytes::from("x")));
    assert_eq!(decode("gz", "x").unwrap(), Value::Bytes(Bytes::from("x")));
    assert!(
        error("a.cls.gz", gzip(b"x")).starts_with("decode: field a.cls.gz: not a whole number")
    );
    let whole = gzip(b"text");
    assert!(error("a.txt.gz", whole[..whole.len() - 3].to_vec()).contains("broken gzip"));
    for (decoder, kind) in [
        (Decoder::new().only(["a.json.gz"]), "json"),
        (Decoder::new().only(["json"]), "json"),
        (Decoder::new().only(["txt"]), "bytes"),
        (Decoder::new().without(["json"]), "bytes"),
    ] {
        assert_eq!(
            decoder.decode_field("a.json.gz", gzip(b"[1]").into()).unwrap().kind(),
            kind,
            "{decoder:?}"
        );
    }
}

#[test]
fn pickles_and_the_unknown_stay_bytes() {
    for name in ["a.pkl", "a.pickle", "a.pyd", "a.pth", "a.pt", "bin", "noextension", "a."] {
        assert_eq!(
            decode(name, "cos\nsystem\n").unwrap(),
            Value::Bytes(Bytes::from("cos\nsystem\n")),
            "{name}"
        );
    }
}
