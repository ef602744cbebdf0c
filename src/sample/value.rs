//! A decoded field.

use bytes::Bytes;

use super::normalized::Normalized;
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
    /// A picture that becomes numbers when its batch is put together.
    Normalized(Normalized),
    /// `npz`, `safetensors`: named tensors in the order of the file.
    Tensors(Vec<(String, Tensor)>),
    /// A tensor that may have another shape in each sample of a batch, which then holds them one behind the other
    /// ([`Column::Ragged`](super::Column::Ragged)). [`augment::Ragged`](crate::augment::Ragged) makes them, on request.
    Ragged(Tensor),
}

/// A decoded picture: pixels in rows, channels interleaved (`[height, width, channels]`), 1 (grey), 3 (RGB) or 4 (RGBA) channels.
///
/// One that is dropped leaves its memory to those to come, as a [`Tensor`] does.
/// [`into_data`](Self::into_data) takes the values out without a copy.
#[derive(Debug, PartialEq)]
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
            Self::Tensor(_) | Self::Normalized(_) => "tensor",
            Self::Tensors(_) => "tensors",
            Self::Ragged(_) => "ragged tensor",
        }
    }

    /// Kind, and type and shape where it has them, for error messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Image(image) => image.describe(),
            Self::Tensor(tensor) => tensor.describe(),
            Self::Ragged(tensor) => format!("ragged {}", tensor.describe()),
            Self::Normalized(picture) => picture.describe(),
            other => other.kind().to_owned(),
        }
    }

    /// The picture, if it is one.
    #[must_use]
    pub fn as_image(&self) -> Option<&Image> {
        if let Self::Image(image) = self { Some(image) } else { None }
    }

    /// The numbers, if it is a tensor or a picture that has been normalised.
    #[must_use]
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Normalized(picture) => Some(picture.to_tensor()),
            _ => None,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl Image {
    /// A picture, if the number of values fits its size.
    #[must_use]
    pub fn new(width: u32, height: u32, channels: u8, data: Data) -> Option<Self> {
        let n =
            (width as usize).checked_mul(height as usize)?.checked_mul(usize::from(channels))?;
        (n == data.len() && matches!(data, Data::U8(_) | Data::U16(_))).then_some(Self {
            width,
            height,
            channels,
            data,
        })
    }

    /// Its values; nothing is copied.
    ///
    /// ```
    /// use shardstream::sample::{Data, Image};
    /// let grey = Image::new(2, 1, 1, Data::U8(vec![0, 255])).unwrap();
    /// assert_eq!(grey.into_data(), Data::U8(vec![0, 255]));
    /// ```
    #[must_use]
    pub fn into_data(mut self) -> Data {
        let data = std::mem::replace(&mut self.data, Data::U8(Vec::new()));
        data.give_away();
        data
    }

    /// Channels, height, width: the order of the axes in a batch.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        [usize::from(self.channels), self.height as usize, self.width as usize]
    }

    /// The picture as a tensor `[C, H, W]` of the same values.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let mut data = self.data.empty_like(self.data.len());
        self.append_planes(&mut data);
        Tensor { shape: self.shape().to_vec(), data }
    }

    /// Type and size, for error messages.
    pub(crate) fn describe(&self) -> String {
        format!("image {} {} x {} x {}", self.data.dtype(), self.width, self.height, self.channels)
    }

    /// Appends the values channel by channel; nothing if the types differ.
    pub(crate) fn append_planes(&self, to: &mut Data) {
        match (&self.data, to) {
            (Data::U8(from), Data::U8(to)) => append_planes(from, usize::from(self.channels), to),
            (Data::U16(from), Data::U16(to)) => append_planes(from, usize::from(self.channels), to),
            _ => {}
        }
    }
}

impl Clone for Image {
    fn clone(&self) -> Self {
        let mut data = self.data.empty_like(self.data.len());
        data.append(&self.data);
        Self { data, ..*self }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        std::mem::replace(&mut self.data, Data::U8(Vec::new())).keep();
    }
}

fn append_planes<T: Copy + Default>(from: &[T], channels: usize, to: &mut Vec<T>) {
    let start = to.len();
    to.resize(start + from.len(), T::default());
    to_planes(from, channels, &mut to[start..]);
}

/// Interleaved values to planes.
pub(crate) fn to_planes<T: Copy>(from: &[T], channels: usize, to: &mut [T]) {
    let plane = from.len() / channels.max(1);
    if let (3, Some((red, rest))) = (channels, to.split_at_mut_checked(plane)) {
        let (green, blue) = rest.split_at_mut(plane);
        for (((pixel, r), g), b) in from.as_chunks::<3>().0.iter().zip(red).zip(green).zip(blue) {
            [*r, *g, *b] = *pixel;
        }
    } else {
        for (channel, plane) in to.chunks_exact_mut(plane.max(1)).enumerate() {
            for (to, from) in plane.iter_mut().zip(from[channel..].iter().step_by(channels)) {
                *to = *from;
            }
        }
    }
}
