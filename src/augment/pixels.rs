//! Ways into the values of a picture, whatever their type.

use crate::error::{Error, Result};
use crate::sample::{Data, Image};

/// Runs the same code on 8-bit and 16-bit values: it fills `out`, which has room for `n`, with values of the same type.
macro_rules! map_values {
    ($image:expr, $n:expr, ($values:ident, $out:ident) => $body:expr) => {
        match &$image.data {
            $crate::sample::Data::U8($values) => {
                let mut $out = $crate::recycled::room($n);
                $body;
                $crate::sample::Data::U8($out)
            }
            $crate::sample::Data::U16($values) => {
                let mut $out = $crate::recycled::room($n);
                $body;
                $crate::sample::Data::U16($out)
            }
            _ => return Err($crate::augment::pixels::no_picture($image)),
        }
    };
}
pub(super) use map_values;

/// Whether the values fit the size; a picture that somebody put together by hand may not.
pub(super) fn check(image: &Image) -> Result<()> {
    let n = (image.width as usize)
        .checked_mul(image.height as usize)
        .and_then(|n| n.checked_mul(usize::from(image.channels)));
    if n == Some(image.data.len())
        && matches!(image.data, Data::U8(_) | Data::U16(_))
        && !image.data.is_empty()
    {
        Ok(())
    } else {
        Err(no_picture(image))
    }
}

pub(super) fn no_picture(image: &Image) -> Error {
    Error::augment(format!("not a picture: {} with {} values", image.describe(), image.data.len()))
}

/// Values of each row of `channels` values for each pixel.
pub(super) const fn row(image: &Image) -> usize {
    image.width as usize * image.channels as usize
}
