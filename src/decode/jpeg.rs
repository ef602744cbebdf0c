//! JPEG: which decoder reads it, and how strictly.

use super::Options;
use super::picture::Raw;
use super::segments::{cleaned, ends};
#[cfg(feature = "turbojpeg")]
use super::turbo;
use super::zune;
use crate::error::{Error, Result};

/// With the feature `turbojpeg`, libjpeg-turbo comes first. It reports whatever it had to guess, harmless or not; then, and without
/// the feature, the strict reading in pure Rust decides, so that both builds take the same files.
pub(super) fn decode(bytes: &[u8], options: &Options) -> Result<Raw> {
    if !ends(bytes) && !options.lenient {
        return Err(Error::decode("the JPEG is cut off: it has no end marker"));
    }
    #[cfg(feature = "turbojpeg")]
    let read = turbo::read(bytes, options, false)
        .or_else(|error| strict(bytes, options).map_err(|_| error));
    #[cfg(not(feature = "turbojpeg"))]
    let read = strict(bytes, options);
    read.or_else(|error| if options.lenient { tolerant(bytes, options) } else { Err(error) })
}

/// A tolerant reading would pass noise for data. What libjpeg forgives without harm is left out instead.
fn strict(bytes: &[u8], options: &Options) -> Result<Raw> {
    zune::read(bytes, options, false).or_else(|error| match cleaned(bytes) {
        Some(clean) => zune::read(&clean, options, false)
            .map(|raw| Raw { orientation: super::segments::orientation(bytes), ..raw }),
        None => Err(error),
    })
}

#[cfg(feature = "turbojpeg")]
fn tolerant(bytes: &[u8], options: &Options) -> Result<Raw> {
    turbo::read(bytes, options, true)
}

#[cfg(not(feature = "turbojpeg"))]
fn tolerant(bytes: &[u8], options: &Options) -> Result<Raw> {
    zune::read(bytes, options, true)
}
