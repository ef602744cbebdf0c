//! A decoded field.

use bytes::Bytes;

use super::tensor::{Data, Tensor};

/// A decoded field of a sample.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Not decoded: no decoder is known for the field's extension.
    Bytes(Bytes),
    /// `txt`.
    Text(String),
    /// `json`, and what maps onto it (msgpack, cbor).
    Json(serde_json::Value),
    /// `cls` and its kin.
    Int(i64),
    /// A picture.
    Image(Image),
    /// `npy`, or a picture made into numbers.
    Tensor(Tensor),
    /// `npz`, `safetensors`: named tensors in the order of the file.
    Tensors(Vec<(String, Tensor)>),
}

/// A decoded picture: pixels in rows, channels interleaved (`[height, width, channels]`), 1 (grey), 3 (RGB) or 4 (RGBA) channels.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Values for each pixel.
    pub channels: u8,
    /// `U8` or `U16`, `height * width * channels` of them.
    pub data: Data,
}

impl Value {
    /// The kind, as `cat --decode` and error messages name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            Self::Text(_) => "text",
            Self::Json(_) => "json",
            Self::Int(_) => "int",
            Self::Image(_) => "image",
            Self::Tensor(_) => "tensor",
            Self::Tensors(_) => "tensors",
        }
    }

    /// The picture, if it is one.
    #[must_use]
    pub fn as_image(&self) -> Option<&Image> {
        if let Self::Image(image) = self { Some(image) } else { None }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}
