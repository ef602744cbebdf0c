//! Samples as `cat` prints them.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::decode::Decoder;
use crate::error::Result;
use crate::sample::{Fields, Head, Image, Tensor, Value};

/// The fields of a sample as JSON.
pub(super) fn describe(
    fields: Fields<Bytes>,
    decoder: Option<&Decoder>,
    pixels: bool,
) -> Result<String> {
    let mut out = serde_json::Map::new();
    for (name, bytes) in fields.iter() {
        out.insert(
            name.to_string(),
            json!({"size": bytes.len(), "sha256": hex(&Sha256::digest(bytes))}),
        );
    }
    if let Some(decoder) = decoder {
        for (name, value) in decoder.decode(fields)? {
            if let (Some(value), Some(Json::Object(field))) =
                (value_json(&value, pixels), out.get_mut(&*name))
            {
                field.insert("value".to_owned(), value);
            }
        }
    }
    Ok(Json::Object(out).to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A decoded value: an object of one entry that names its kind. None for bytes that are left as they are.
fn value_json(value: &Value, pixels: bool) -> Option<Json> {
    Some(match value {
        Value::Text(text) => json!({"text": text}),
        Value::Json(value) => json!({"json": value}),
        Value::Int(n) => json!({"int": n}),
        Value::Image(image) => json!({"image": image_json(image, pixels)}),
        Value::Tensor(tensor) | Value::Ragged(tensor) => json!({"tensor": tensor_json(tensor)}),
        Value::Normalized(picture) => json!({"tensor": tensor_json(&picture.to_tensor())}),
        Value::Tensors(tensors) => {
            let all: serde_json::Map<_, _> =
                tensors.iter().map(|(name, tensor)| (name.clone(), tensor_json(tensor))).collect();
            json!({"tensors": all})
        }
        _ => return None,
    })
}

fn image_json(image: &Image, pixels: bool) -> Json {
    let bytes = image.data.as_bytes();
    let mut out = json!({"width": image.width, "height": image.height, "rgb8_sha256": hex(&Sha256::digest(bytes))});
    if let (true, Some(out)) = (pixels, out.as_object_mut()) {
        out.insert("rgb8_hex".to_owned(), hex(bytes).into());
    }
    out
}

fn tensor_json(tensor: &Tensor) -> Json {
    json!({"dtype": tensor.data.dtype(), "shape": tensor.shape, "sha256": hex(&Sha256::digest(tensor.data.as_bytes()))})
}

/// One line for a sample.
pub(super) fn line(head: &Head, fields: &str, place: Option<(u32, u64)>) -> String {
    let key = match head.key.as_str() {
        Some(key) => format!("\"key\":{}", Json::from(key)),
        None => format!("\"key_hex\":\"{}\"", hex(head.key.as_bytes())),
    };
    let place = place
        .map(|(lane, batch)| format!(",\"lane\":{lane},\"lane_batch\":{batch}"))
        .unwrap_or_default();
    format!(
        "{{{key},\"shard\":{}{place},\"fields\":{fields}}}\n",
        Json::from(head.origin.shard.as_str())
    )
}
