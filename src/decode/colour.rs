//! From the colours that a file stores to those that are wanted.

use crate::error::{Error, Result};
use crate::recycled::{self, Recycled};
use crate::sample::{Data, Image};

/// The colours in which pictures come out.
///
/// 16 bits become 8 by taking the high byte, as Pillow does. Grey becomes three equal channels; colour becomes grey by the weights
/// 0.299, 0.587, 0.114. CMYK and YCCK always become RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Colour {
    /// 8-bit RGB.
    #[default]
    Rgb8,
    /// 8-bit RGB and alpha; opaque where the file has none.
    Rgba8,
    /// 8-bit grey.
    Grey8,
    /// As stored: grey stays grey, alpha is kept (grey with alpha becomes RGBA), 16 bits stay 16. Palettes become RGB or RGBA.
    Stored,
}

/// What the channels of a decoded file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
}

impl Layout {
    pub(super) const fn channels(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }
}

/// A decoded file before its colours are changed.
#[derive(Debug)]
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) layout: Layout,
    /// `U8` or `U16`.
    pub(super) data: Data,
}

/// Changes the colours. `background` is what transparent pixels are laid over when alpha isn't kept; without it alpha is dropped.
pub(super) fn convert(
    pixels: Pixels,
    colour: Colour,
    background: Option<[u8; 3]>,
) -> Result<Image> {
    let Pixels { width, height, layout, data } = pixels;
    let expected = width as usize * height as usize * layout.channels();
    if data.len() != expected {
        return Err(Error::decode(format!("{} values for {width} x {height} pixels", data.len())));
    }
    let (channels, data) = match (colour, data) {
        (Colour::Stored, Data::U8(values)) => stored(values, layout, u8::MAX, Data::U8),
        (Colour::Stored, Data::U16(values)) => stored(values, layout, u16::MAX, Data::U16),
        (_, data) => {
            let values = eight_bit(data)?;
            let (channels, values) = match colour {
                Colour::Rgba8 => (4, rgba(values, layout, u8::MAX)),
                Colour::Grey8 => (1, grey(opaque(values, layout, background))),
                Colour::Rgb8 | Colour::Stored => (3, rgb(opaque(values, layout, background))),
            };
            (channels, Data::U8(values))
        }
    };
    Ok(Image { width, height, channels, data })
}

fn stored<T: Recycled>(
    values: Vec<T>,
    layout: Layout,
    full: T,
    wrap: fn(Vec<T>) -> Data,
) -> (u8, Data) {
    match layout {
        Layout::Grey => (1, wrap(values)),
        Layout::Rgb => (3, wrap(values)),
        Layout::GreyAlpha | Layout::Rgba => (4, wrap(rgba(values, layout, full))),
    }
}

#[allow(clippy::cast_possible_truncation)]
fn eight_bit(data: Data) -> Result<Vec<u8>> {
    match data {
        Data::U8(values) => Ok(values),
        Data::U16(wide) => {
            let mut values = recycled::room(wide.len());
            values.extend(wide.iter().map(|v| (v >> 8) as u8));
            recycled::keep(wide);
            Ok(values)
        }
        other => Err(Error::decode(format!("a picture of type {}", other.dtype()))),
    }
}

/// Removes alpha. The layout that comes out is grey or RGB.
fn opaque(values: Vec<u8>, layout: Layout, background: Option<[u8; 3]>) -> (Vec<u8>, Layout) {
    match (layout, background) {
        (Layout::Grey | Layout::Rgb, _) => (values, layout),
        (Layout::GreyAlpha, None) => (each(values, |[v, _]| [v]), Layout::Grey),
        (Layout::Rgba, None) => (each(values, |[r, g, b, _]| [r, g, b]), Layout::Rgb),
        (Layout::GreyAlpha, Some(back)) => {
            (each(values, |[v, a]| over([v; 3], a, back)), Layout::Rgb)
        }
        (Layout::Rgba, Some(back)) => {
            (each(values, |[r, g, b, a]| over([r, g, b], a, back)), Layout::Rgb)
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
fn over(front: [u8; 3], alpha: u8, back: [u8; 3]) -> [u8; 3] {
    let a = u32::from(alpha);
    std::array::from_fn(|i| {
        ((u32::from(front[i]) * a + u32::from(back[i]) * (255 - a) + 127) / 255) as u8
    })
}

fn rgb((values, layout): (Vec<u8>, Layout)) -> Vec<u8> {
    if layout == Layout::Grey { each(values, |[v]| [v; 3]) } else { values }
}

fn rgba<T: Recycled>(values: Vec<T>, layout: Layout, full: T) -> Vec<T> {
    match layout {
        Layout::Grey => each(values, |[v]| [v, v, v, full]),
        Layout::GreyAlpha => each(values, |[v, a]| [v, v, v, a]),
        Layout::Rgb => each(values, |[r, g, b]| [r, g, b, full]),
        Layout::Rgba => values,
    }
}

fn grey((values, layout): (Vec<u8>, Layout)) -> Vec<u8> {
    if layout == Layout::Grey { values } else { each(values, |[r, g, b]| [luma(r, g, b)]) }
}

/// ITU-R 601 luma, rounded, in the 16-bit fixed point that Pillow uses.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn luma(r: u8, g: u8, b: u8) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

/// Cyan, magenta, yellow, black as JPEG files hold them (inverted: 255 is no ink) to RGB.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn cmyk_to_rgb(values: Vec<u8>) -> Vec<u8> {
    each(values, |[c, m, y, k]| {
        let k = u32::from(k);
        [c, m, y].map(|ink| {
            // k - (255 - ink) * k / 255, with the rounding division by 255 that Pillow uses.
            let product = (255 - u32::from(ink)) * k + 128;
            (k - ((product + (product >> 8)) >> 8)) as u8
        })
    })
}

/// Makes `M` values of each `N`.
fn each<T: Recycled, const N: usize, const M: usize>(
    values: Vec<T>,
    f: impl Fn([T; N]) -> [T; M],
) -> Vec<T> {
    let mut out = recycled::to_fill(values.len() / N * M);
    for (to, from) in out.as_chunks_mut::<M>().0.iter_mut().zip(values.as_chunks::<N>().0) {
        *to = f(*from);
    }
    recycled::keep(values);
    out
}

/// Y, Cb, Cr, K to inverted CMYK: libjpeg makes 255 - RGB of the first three.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn ycck_to_cmyk(values: &mut [u8]) {
    for p in values.chunks_exact_mut(4) {
        let (y, cb, cr) = (i32::from(p[0]), i32::from(p[1]) - 128, i32::from(p[2]) - 128);
        let r = y + ((91881 * cr + 32768) >> 16);
        let g = y + ((-22554 * cb - 46802 * cr + 32768) >> 16);
        let b = y + ((116_130 * cb + 32768) >> 16);
        for (out, v) in p.iter_mut().zip([r, g, b]) {
            *out = (255 - v.clamp(0, 255)) as u8;
        }
    }
}
