//! Text, numbers, and what maps onto JSON.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use crate::error::{Error, Result};

/// How deep values may be nested: as deep as `serde_json` allows, since each level takes some stack.
const DEPTH: usize = 128;

/// UTF-8, to the byte: line ends and a byte order mark stay.
pub(super) fn text(bytes: &[u8]) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Error::decode(format!(
            "not UTF-8 from byte {} of the field on",
            error.valid_up_to()
        ))),
    }
}

/// One JSON value. A byte order mark is allowed; `NaN` and `Infinity`, which Python writes, are not JSON.
pub(super) fn json(bytes: &[u8]) -> Result<serde_json::Value> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err(empty());
    }
    serde_json::from_slice(bytes).map_err(|error| Error::decode("not JSON").with_source(error))
}

pub(super) fn msgpack(bytes: &[u8]) -> Result<serde_json::Value> {
    if bytes.is_empty() {
        return Err(empty());
    }
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(DEPTH);
    serde_json::Value::deserialize(&mut deserializer)
        .map_err(|error| Error::decode("not a msgpack value that JSON has").with_source(error))
}

pub(super) fn cbor(bytes: &[u8]) -> Result<serde_json::Value> {
    if bytes.is_empty() {
        return Err(empty());
    }
    ciborium::de::from_reader_with_recursion_limit(bytes, DEPTH)
        .map_err(|error| Error::decode("not a CBOR value that JSON has").with_source(error))
}

/// No field may grow to more than this when it is inflated, so that a small one can't fill the memory.
pub(super) const INFLATED: u64 = 1 << 30;

/// What a gzip file of one or more members holds.
pub(super) fn gunzip(bytes: &[u8]) -> Result<Bytes> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(INFLATED + 1).read_to_end(&mut plain);
    match read {
        Ok(_) if plain.len() as u64 <= INFLATED => Ok(plain.into()),
        Ok(_) => Err(Error::decode(format!("more than {INFLATED} bytes when inflated"))),
        Err(error) => Err(Error::decode("broken gzip").with_source(error)),
    }
}

/// A decimal number with white space around it.
pub(super) fn int(bytes: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(bytes).unwrap_or("").trim();
    text.parse().map_err(|_| Error::decode(format!("not a whole number: {}", show(bytes))))
}

pub(super) fn empty() -> Error {
    Error::decode("the field is empty (0 bytes)")
}

/// The first bytes of a field as a person can read them.
pub(super) fn show(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(24)];
    format!("\"{}\"{}", head.escape_ascii(), if head.len() < bytes.len() { " ..." } else { "" })
}
