//! Bytes of a field to a [`Value`]: by the extension of its name, pictures also by their content.
//!
//! | extension | value |
//! |---|---|
//! | `jpg jpeg png webp gif bmp tif tiff ppm pgm pbm pnm` | [`Value::Image`], whichever of these formats the bytes are (first frame) |
//! | `txt text transcript` | [`Value::Text`] |
//! | `json jsn`, `mp msg msgpack`, `cbor` | [`Value::Json`] |
//! | `cls cls2 index inx id` | [`Value::Int`] |
//! | `npy` | [`Value::Tensor`] |
//! | `npz`, `safetensors` | [`Value::Tensors`] |
//! | `gz` behind another one | what that one gives for the inflated bytes |
//! | anything else | [`Value::Bytes`], as it is |
//!
//! Colour profiles are not applied. Of a picture of several frames or pages the first comes out.
//!
//! Pickles (`pkl`, `pickle`, `pyd`, `pth`, `pt`) can run any program when they are read, so they are never read: they stay bytes, and an
//! array of Python objects in a `npy` is an error. Convert once: `numpy.save(path, array, allow_pickle=False)` or
//! `safetensors.torch.save_file({"embedding": torch.load(path, weights_only=True)}, path)`.

mod colour;
mod jpeg;
mod npy;
mod npz;
mod orient;
mod picture;
mod plain;
mod png;
mod safetensors;
mod segments;
#[cfg(feature = "turbojpeg")]
mod turbo;
mod zune;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

pub use colour::Colour;
pub(crate) use colour::luma;

use crate::error::Result;
use crate::sample::{Fields, Value};

/// Turns the bytes of fields into values. CPU work only; cheap to clone, shared between threads.
///
/// ```
/// use bytes::Bytes;
/// use shardstream::decode::Decoder;
/// use shardstream::sample::{Fields, Value};
///
/// let mut fields = Fields::new();
/// fields.insert("caption.json", Bytes::from(r#"{"prompt": "a cat"}"#));
/// fields.insert("cls", Bytes::from("3"));
/// let decoded = Decoder::default().decode(fields)?;
/// assert_eq!(decoded.get("cls"), Some(&Value::Int(3)));
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Decoder(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    own: HashMap<String, Own>,
    only: Option<Vec<String>>,
    without: Vec<String>,
    picture: Options,
    /// How many pictures `lenient` has mended; shared by all clones.
    mended: Arc<AtomicU64>,
}

type Own = Arc<dyn Fn(Bytes) -> Result<Value> + Send + Sync>;

/// How pictures are decoded.
#[derive(Debug, Clone, Copy)]
struct Options {
    colour: Colour,
    background: Option<[u8; 3]>,
    orient: bool,
    pixel_limit: u64,
    lenient: bool,
    #[cfg_attr(not(feature = "turbojpeg"), allow(dead_code))]
    at_least: Option<(u32, u32)>,
}

/// Pillow refuses more by default as well: 2^30 bytes of RGBA, twice over, in thirds.
const PIXEL_LIMIT: u64 = 178_956_970;

impl Default for Options {
    fn default() -> Self {
        Self {
            colour: Colour::default(),
            background: None,
            orient: false,
            pixel_limit: PIXEL_LIMIT,
            lenient: false,
            at_least: None,
        }
    }
}

impl Decoder {
    /// The same as [`Decoder::default`]: everything in the table above, pictures as 8-bit RGB as they are stored.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn change(mut self, f: impl FnOnce(&mut Inner)) -> Self {
        f(Arc::make_mut(&mut self.0));
        self
    }

    /// Decodes fields with this extension (without the dot, any case) by `f`, in place of what is built in.
    ///
    /// ```
    /// use shardstream::decode::Decoder;
    /// use shardstream::sample::Value;
    /// let decoder = Decoder::new().with("len", |bytes| Ok(Value::Int(bytes.len() as i64)));
    /// # let _ = decoder;
    /// ```
    #[must_use]
    pub fn with(
        self,
        extension: &str,
        f: impl Fn(Bytes) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        self.change(|inner| {
            inner.own.insert(extension.to_ascii_lowercase(), Arc::new(f));
        })
    }

    /// Decodes only these (names of fields or extensions); the others stay bytes.
    #[must_use]
    pub fn only<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()).collect();
        self.change(|inner| inner.only = Some(names))
    }

    /// Leaves these (names of fields or extensions) as bytes.
    #[must_use]
    pub fn without<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.change(|inner| {
            inner.without.extend(names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()))
        })
    }

    /// Which colours pictures come out in. Default: [`Colour::Rgb8`].
    #[must_use]
    pub fn colour(self, colour: Colour) -> Self {
        self.change(|inner| inner.picture.colour = colour)
    }

    /// Lays transparent pictures over this colour when alpha is not kept. Default: alpha is dropped, as Pillow's `convert("RGB")` does.
    #[must_use]
    pub fn background(self, rgb: [u8; 3]) -> Self {
        self.change(|inner| inner.picture.background = Some(rgb))
    }

    /// Whether pictures are turned as their EXIF orientation says. Default: no, they come out as stored. EXIF data that can't be read
    /// is as none.
    #[must_use]
    pub fn orient(self, yes: bool) -> Self {
        self.change(|inner| inner.picture.orient = yes)
    }

    /// Refuses pictures of more pixels before memory is taken for them. Default: 178,956,970, as Pillow. `u64::MAX` is no limit.
    #[must_use]
    pub fn pixel_limit(self, pixels: u64) -> Self {
        self.change(|inner| inner.picture.pixel_limit = pixels)
    }

    /// Whether JPEG and PNG pictures that are cut off or damaged come out as far as they can be read, the rest grey, instead of an
    /// error. They are counted: [`Decoder::mended`]. Default: no.
    #[must_use]
    pub fn lenient(self, yes: bool) -> Self {
        self.change(|inner| inner.picture.lenient = yes)
    }

    /// Says that no more than `width` x `height` pixels are needed: a JPEG may be decoded at the smallest scale (1/2, 1/4, 1/8) that
    /// still covers that. Only the feature `turbojpeg` makes use of it. Width and height are those of the picture that comes out.
    #[must_use]
    pub fn at_least(self, width: u32, height: u32) -> Self {
        self.change(|inner| inner.picture.at_least = Some((width, height)))
    }

    /// How many damaged pictures [`Decoder::lenient`] has let through so far, over all clones of this decoder.
    #[must_use]
    pub fn mended(&self) -> u64 {
        self.0.mended.load(Ordering::Relaxed)
    }

    /// Decodes all fields of a sample.
    ///
    /// # Errors
    /// If one can't be decoded; the error names the field.
    pub fn decode(&self, fields: Fields<Bytes>) -> Result<Fields<Value>> {
        let mut values = Fields::with_capacity(fields.len());
        for (name, bytes) in fields {
            let value = self.decode_field(&name, bytes)?;
            values.push(name, value);
        }
        Ok(values)
    }

    /// Decodes one field by its name.
    ///
    /// # Errors
    /// If it can't be decoded; the error names the field.
    pub fn decode_field(&self, name: &str, bytes: Bytes) -> Result<Value> {
        if !self.wants(name) {
            return Ok(Value::Bytes(bytes));
        }
        self.decode_as(name, bytes).map_err(|error| error.in_field(name))
    }

    fn decode_as(&self, name: &str, bytes: Bytes) -> Result<Value> {
        let extension = extension(name).to_ascii_lowercase();
        match (self.0.own.get(&extension), name.rsplit_once('.')) {
            (Some(own), _) => own(bytes),
            (None, Some((stem, _))) if extension == "gz" => {
                self.decode_as(stem, plain::gunzip(&bytes)?)
            }
            (None, _) => self.built_in(&extension, bytes),
        }
    }

    /// By name or extension, with or without a `gz` behind it.
    fn wants(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        let names = [&name, stem, extension(&name), extension(stem)];
        let in_list = |list: &[String]| list.iter().any(|item| names.contains(&item.as_str()));
        self.0.only.as_deref().is_none_or(in_list) && !in_list(&self.0.without)
    }

    fn built_in(&self, extension: &str, bytes: Bytes) -> Result<Value> {
        Ok(match extension {
            "jpg" | "jpeg" | "png" | "webp" | "gif" | "bmp" | "tif" | "tiff" | "ppm" | "pgm"
            | "pbm" | "pnm" => {
                let decoded = picture::decode(&bytes, &self.0.picture)?;
                if decoded.mended {
                    self.0.mended.fetch_add(1, Ordering::Relaxed);
                }
                Value::Image(decoded.image)
            }
            "txt" | "text" | "transcript" => Value::Text(plain::text(&bytes)?),
            "json" | "jsn" => Value::Json(plain::json(&bytes)?),
            "mp" | "msg" | "msgpack" => Value::Json(plain::msgpack(&bytes)?),
            "cbor" => Value::Json(plain::cbor(&bytes)?),
            "cls" | "cls2" | "index" | "inx" | "id" => Value::Int(plain::int(&bytes)?),
            "npy" => Value::Tensor(npy::decode(&bytes)?),
            "npz" => Value::Tensors(npz::decode(&bytes)?),
            "safetensors" => Value::Tensors(safetensors::decode(&bytes)?),
            _ => Value::Bytes(bytes),
        })
    }
}

/// The last part of a field's name: `jpg` of `image.jpg` and of `jpg`.
fn extension(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own: Vec<_> = self.0.own.keys().collect();
        own.sort();
        let Inner { only, without, picture, .. } = &*self.0;
        f.debug_struct("Decoder")
            .field("own", &own)
            .field("only", only)
            .field("without", without)
            .field("picture", picture)
            .finish()
    }
}
