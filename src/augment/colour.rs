//! Colours: brightness, contrast, saturation, hue, grey. The arithmetic is that of Pillow's `ImageEnhance`, to the last bit.

use super::pixels::{check, no_picture, row};
use super::{Augment, Needs, each_image};
use crate::error::Result;
use crate::random::Rng;
use crate::recycled;
use crate::sample::{Data, Fields, Image, Value};

/// Blends with black: factor 0 is black, 1 the picture.
///
/// # Errors
/// If the picture isn't 8-bit.
pub fn brightness(image: &Image, factor: f32) -> Result<Image> {
    let table: [u8; 256] = std::array::from_fn(|v| blend(0, low(v), factor));
    map_channels(image, |v| table[usize::from(v)])
}

/// Blends with the picture's mean grey: factor 0 is one grey, 1 the picture.
///
/// # Errors
/// If the picture isn't 8-bit.
pub fn contrast(image: &Image, factor: f32) -> Result<Image> {
    let values = eight_bit(image)?;
    let pixels = values.chunks_exact(usize::from(image.channels));
    let sum: u64 = pixels.map(|pixel| u64::from(luma_of(pixel))).sum();
    let count = u64::from(image.width) * u64::from(image.height);
    // Rounded half up.
    let mean = u8::try_from((2 * sum + count) / (2 * count)).unwrap_or(u8::MAX);
    let table: [u8; 256] = std::array::from_fn(|v| blend(mean, low(v), factor));
    map_channels(image, |v| table[usize::from(v)])
}

/// Blends with the picture in grey: factor 0 is grey, 1 the picture. A grey picture stays as it is.
///
/// # Errors
/// If the picture isn't 8-bit.
pub fn saturation(image: &Image, factor: f32) -> Result<Image> {
    map_rgb(image, |rgb| {
        let grey = luma_of(&rgb);
        rgb.map(|v| blend(grey, v, factor))
    })
}

/// Turns the hue by this part of the circle, -0.5 to 0.5. A grey picture stays as it is.
///
/// # Errors
/// If the picture isn't 8-bit.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn hue(image: &Image, turn: f64) -> Result<Image> {
    let shift = ((turn * 255.0) as i32) as u8; // wraps, as hues do
    map_rgb(image, |rgb| {
        let [h, s, v] = rgb_to_hsv(rgb);
        hsv_to_rgb([h.wrapping_add(shift), s, v])
    })
}

/// All three channels the same.
///
/// # Errors
/// If the picture isn't 8-bit.
pub fn grey(image: &Image) -> Result<Image> {
    map_rgb(image, |rgb| [luma_of(&rgb); 3])
}

#[allow(clippy::cast_possible_truncation)]
const fn low(v: usize) -> u8 {
    v as u8
}

fn luma_of(pixel: &[u8]) -> u8 {
    if let [r, g, b, ..] = *pixel { crate::decode::luma(r, g, b) } else { pixel[0] }
}

/// From `a` (factor 0) to `b` (factor 1) and beyond, cut to whole numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn blend(a: u8, b: u8, factor: f32) -> u8 {
    let (a, b) = (f32::from(a), f32::from(b));
    (a + factor * (b - a)).clamp(0.0, 255.0) as u8
}

fn eight_bit(image: &Image) -> Result<&[u8]> {
    check(image)?;
    if let Data::U8(values) = &image.data { Ok(values) } else { Err(no_picture(image)) }
}

/// Changes each value but alpha.
fn map_channels(image: &Image, f: impl Fn(u8) -> u8) -> Result<Image> {
    let mut values = recycled::copy(eight_bit(image)?);
    if image.channels == 4 {
        values.chunks_exact_mut(4).for_each(|pixel| pixel[..3].iter_mut().for_each(|v| *v = f(*v)));
    } else {
        values.iter_mut().for_each(|v| *v = f(*v));
    }
    Ok(Image { data: Data::U8(values), ..*image })
}

/// Changes the colour of each pixel; a picture without colours stays.
fn map_rgb(image: &Image, f: impl Fn([u8; 3]) -> [u8; 3]) -> Result<Image> {
    let mut values = recycled::copy(eight_bit(image)?);
    if image.channels >= 3 {
        debug_assert!(values.len() % row(image) == 0);
        for pixel in values.chunks_exact_mut(usize::from(image.channels)) {
            let changed = f([pixel[0], pixel[1], pixel[2]]);
            pixel[..3].copy_from_slice(&changed);
        }
    }
    Ok(Image { data: Data::U8(values), ..*image })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rgb_to_hsv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max == min {
        return [0, 0, max];
    }
    let range = f32::from(max - min);
    let [rc, gc, bc] = [r, g, b].map(|v| f64::from(f32::from(max - v) / range));
    let sector = if r == max {
        bc - gc
    } else if g == max {
        2.0 + rc - bc
    } else {
        4.0 + gc - rc
    };
    let hue = (f64::from(sector as f32) / 6.0 + 1.0) % 1.0;
    let saturation = f64::from(range / f32::from(max));
    [(f64::from(hue as f32) * 255.0) as u8, (saturation * 255.0) as u8, max]
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn hsv_to_rgb([h, s, v]: [u8; 3]) -> [u8; 3] {
    if s == 0 {
        return [v; 3];
    }
    let hue = (f64::from(h) * 6.0 / 255.0) as f32;
    let saturation = (f64::from(s) / 255.0) as f32;
    let sector = hue.floor();
    let fraction = hue - sector;
    let full = f64::from(v);
    let part = |share: f64| (full * share).round().clamp(0.0, 255.0) as u8;
    let (saturation, fraction) = (f64::from(saturation), f64::from(fraction));
    let p = part(1.0 - saturation);
    let q = part(1.0 - saturation * fraction);
    let t = part(1.0 - saturation * (1.0 - fraction));
    match sector as u8 % 6 {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}

/// Changes brightness, contrast, saturation and hue at random, in random order.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColourJitter {
    brightness: f64,
    contrast: f64,
    saturation: f64,
    hue: f64,
}

impl ColourJitter {
    /// Brightness, contrast and saturation by factors from `1 - x` (at least 0) to `1 + x`, hue by up to `hue` (at most 0.5) of the
    /// circle either way. 0 leaves that property alone.
    #[must_use]
    pub const fn new(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> Self {
        Self { brightness, contrast, saturation, hue }
    }
}

impl Augment for ColourJitter {
    #[allow(clippy::cast_possible_truncation)]
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        let mut order = [0, 1, 2, 3];
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let spreads = [self.brightness, self.contrast, self.saturation];
        let [by_brightness, by_contrast, by_saturation] =
            spreads.map(|spread| rng.between((1.0 - spread).max(0.0), 1.0 + spread) as f32);
        let by_hue = rng.between(-self.hue, self.hue).clamp(-0.5, 0.5);
        each_image(fields, rng, |image, _| {
            for property in order {
                *image = match property {
                    0 if self.brightness > 0.0 => brightness(image, by_brightness)?,
                    1 if self.contrast > 0.0 => contrast(image, by_contrast)?,
                    2 if self.saturation > 0.0 => saturation(image, by_saturation)?,
                    3 if self.hue > 0.0 => hue(image, by_hue)?,
                    _ => continue,
                };
            }
            Ok(())
        })
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}

/// Makes some samples grey; they keep their channels.
#[derive(Debug, Clone, Copy)]
pub struct RandomGrey {
    probability: f64,
}

impl RandomGrey {
    /// With this probability.
    #[must_use]
    pub const fn new(probability: f64) -> Self {
        Self { probability }
    }
}

impl Augment for RandomGrey {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        if !rng.chance(self.probability) {
            return Ok(());
        }
        each_image(fields, rng, |image, _| {
            *image = grey(image)?;
            Ok(())
        })
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
