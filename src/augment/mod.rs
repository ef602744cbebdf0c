//! Transforms of decoded samples: plain functions on pictures, and the same as parts of a pipeline with the sample's own random numbers.
//!
//! ```
//! use shardstream::augment::{crop, normalize, resize};
//! use shardstream::sample::{Data, Image};
//!
//! let image = Image::new(640, 480, 3, Data::U8(vec![128; 640 * 480 * 3])).unwrap();
//! let small = crop::center(&resize::shortest(&image, 256)?, 224, 224)?;
//! let tensor = normalize(&small, &[0.5; 3], &[0.5; 3])?;
//! assert_eq!(tensor.shape, [3, 224, 224]);
//! # Ok::<(), shardstream::Error>(())
//! ```
//!
//! As a pipeline, which works on all pictures among the fields:
//!
//! ```
//! use shardstream::augment::{Augment, Filter, Needs, Normalize, RandomFlip, CenterCrop, ResizeShortest};
//! let pipeline = (ResizeShortest::new(256).filter(Filter::Lanczos), CenterCrop::new(224, 224), RandomFlip::horizontal(0.5), Normalize::imagenet());
//! assert_eq!(pipeline.needs(), Needs::AtLeast(256, 256));
//! ```
//!
//! Or as JSON, which a trainer and `shardstream preview --recipe` can share: [`Pipeline::from_json`].
//!
//! Pictures stay 8-bit until [`Normalize`], which comes last: only what is kept is converted. The same seed, epoch and sample give the
//! same result on every machine. All pictures of a sample see the same random numbers, so that a picture and its mask are cut alike.

pub mod caption;
pub mod colour;
pub mod crop;
pub mod fields;
pub mod flip;
mod normalize;
pub mod pad;
pub mod pid;
mod pixels;
pub mod resize;
mod steps;

use std::fmt;
use std::sync::Arc;

pub use caption::PickCaption;
pub use colour::{ColourJitter, RandomGrey};
pub use crop::{CenterCrop, RandomCrop, RandomResizedCrop, ResizeCrop};
pub use fields::{Keep, Ragged, Rename, StripExtensions};
pub use flip::RandomFlip;
pub use normalize::{Normalize, normalize, normalize_batch};
pub use pad::{Fill, PadTo};
pub use resize::{Filter, ResizeExact, ResizeLongest, ResizeShortest};

use crate::error::Result;
use crate::random::Rng;
use crate::sample::fields::missing;
use crate::sample::{Fields, Image, Value};

/// A change to the decoded fields of a sample.
///
/// Parts that are done one after the other are a tuple, or a [`Pipeline`] where the parts are known at run time only.
pub trait Augment: Send + Sync {
    /// Changes the fields. `rng` belongs to this sample, stage and epoch alone.
    ///
    /// # Errors
    /// If it can't be done. [`Error::filter`](crate::Error::filter) leaves the sample out on purpose: it is counted, not a fault.
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()>;

    /// How large the pictures must be that this works on.
    fn needs(&self) -> Needs {
        Needs::Full
    }
}

/// How large the pictures must be for an augmentation to come out the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// It doesn't matter: the next part decides.
    Any,
    /// A smaller version will do that covers this width and height.
    AtLeast(u32, u32),
    /// Full size.
    Full,
}

impl Needs {
    /// What a pipeline needs of which this is the first part.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        if self == Self::Any { next } else { self }
    }

    /// The size to pass to [`Decoder::at_least`](crate::decode::Decoder::at_least), if a smaller version will do.
    #[must_use]
    pub const fn size(self) -> Option<(u32, u32)> {
        if let Self::AtLeast(width, height) = self { Some((width, height)) } else { None }
    }
}

impl<A: Augment + ?Sized> Augment for Arc<A> {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        (**self).apply(fields, rng)
    }

    fn needs(&self) -> Needs {
        (**self).needs()
    }
}

macro_rules! tuple {
    ($($part:ident $index:tt),*) => {
        impl<$($part: Augment),*> Augment for ($($part,)*) {
            fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
                $(self.$index.apply(fields, rng)?;)*
                Ok(())
            }

            fn needs(&self) -> Needs {
                Needs::Any$(.then(self.$index.needs()))*
            }
        }
    };
}

/// No change.
impl Augment for () {
    fn apply(&self, _: &mut Fields<Value>, _: &mut Rng) -> Result<()> {
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Parts done one after the other, put together at run time.
#[derive(Clone, Default)]
pub struct Pipeline(Vec<Arc<dyn Augment>>);

impl Pipeline {
    /// No parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part at the end.
    #[must_use]
    pub fn then(mut self, part: impl Augment + 'static) -> Self {
        self.0.push(Arc::new(part));
        self
    }
}

impl Augment for Pipeline {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        self.0.iter().try_for_each(|part| part.apply(fields, rng))
    }

    fn needs(&self) -> Needs {
        self.0.iter().fold(Needs::Any, |needs, part| needs.then(part.needs()))
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({} parts)", self.0.len())
    }
}

/// A function as a part of a pipeline. It is taken to need full-size pictures.
///
/// ```
/// use shardstream::augment::from_fn;
/// let large_only = from_fn(|fields, _rng| match fields.get("jpg").and_then(|v| v.as_image()) {
///     Some(image) if image.width >= 512 => Ok(()),
///     _ => Err(shardstream::Error::filter("narrower than 512 pixels")),
/// });
/// # let _ = large_only;
/// ```
pub fn from_fn<F>(f: F) -> FromFn<F>
where
    F: Fn(&mut Fields<Value>, &mut Rng) -> Result<()> + Send + Sync,
{
    FromFn(f)
}

/// See [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromFn")
    }
}

impl<F> Augment for FromFn<F>
where
    F: Fn(&mut Fields<Value>, &mut Rng) -> Result<()> + Send + Sync,
{
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        (self.0)(fields, rng)
    }
}

/// Applies a part to one field only.
#[derive(Debug, Clone)]
pub struct On<A> {
    field: String,
    part: A,
}

/// Applies `part` to the field of this name only; a sample without it is an error.
pub fn on<A: Augment>(field: impl Into<String>, part: A) -> On<A> {
    On { field: field.into(), part }
}

impl<A: Augment> Augment for On<A> {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        let value = fields.get_mut(&self.field).ok_or_else(|| missing(&self.field))?;
        let mut alone = Fields::new();
        alone.insert(self.field.as_str(), std::mem::replace(value, Value::Int(0)));
        self.part.apply(&mut alone, rng)?;
        for (name, changed) in alone {
            fields.insert(name, changed);
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        // Other pictures of the sample are decoded by the same decoder.
        Needs::Full
    }
}

/// Changes every picture among the fields, each with the same random numbers.
fn each_image(
    fields: &mut Fields<Value>,
    rng: &mut Rng,
    f: impl Fn(&mut Image, &mut Rng) -> Result<()>,
) -> Result<()> {
    let start = rng.clone();
    for (name, value) in fields.iter_mut() {
        if let Value::Image(image) = value {
            let mut own = start.clone();
            f(image, &mut own).map_err(|error| error.in_field(&**name))?;
            *rng = own;
        }
    }
    Ok(())
}
