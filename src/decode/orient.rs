//! Turns a picture as its EXIF orientation says.

use image::metadata::Orientation;

use crate::recycled::{self, Recycled};
use crate::sample::{Data, Image};

/// What an EXIF block says, with or without the header that some formats keep in front of it; nothing if it can't be read.
pub(super) fn of_exif(exif: &[u8]) -> Orientation {
    let tiff = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    Orientation::from_exif_chunk(tiff).unwrap_or(Orientation::NoTransforms)
}

/// Whether width and height change places.
#[cfg(feature = "turbojpeg")]
pub(super) const fn swaps(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate90FlipH | Rotate270 | Rotate270FlipH)
}

pub(super) fn apply(image: Image, orientation: Orientation) -> Image {
    // Where the pixel at (x, y) of the result comes from: first swap, then mirror the source's axes.
    let (swap, mirror_x, mirror_y) = match orientation {
        Orientation::NoTransforms => return image,
        Orientation::FlipHorizontal => (false, true, false),
        Orientation::Rotate180 => (false, true, true),
        Orientation::FlipVertical => (false, false, true),
        Orientation::Rotate90FlipH => (true, false, false),
        Orientation::Rotate90 => (true, false, true),
        Orientation::Rotate270FlipH => (true, true, true),
        Orientation::Rotate270 => (true, true, false),
    };
    let (width, height, channels) = (image.width, image.height, image.channels);
    let turn = Turn {
        width: width as usize,
        height: height as usize,
        channels: usize::from(channels),
        swap,
        mirror_x,
        mirror_y,
    };
    let data = match &image.data {
        Data::U8(values) => Data::U8(turn.apply(values)),
        Data::U16(values) => Data::U16(turn.apply(values)),
        _ => return image, // no picture has another type
    };
    let (width, height) = if swap { (height, width) } else { (width, height) };
    Image { width, height, channels, data }
}

/// Size of the source and what is done to it.
struct Turn {
    width: usize,
    height: usize,
    channels: usize,
    swap: bool,
    mirror_x: bool,
    mirror_y: bool,
}

impl Turn {
    fn apply<T: Recycled>(&self, values: &[T]) -> Vec<T> {
        let &Self { width, height, channels, swap, mirror_x, mirror_y } = self;
        let (out_width, out_height) = if swap { (height, width) } else { (width, height) };
        let mut out = recycled::room(values.len());
        for y in 0..out_height {
            for x in 0..out_width {
                let (sx, sy) = if swap { (y, x) } else { (x, y) };
                let sx = if mirror_x { width - 1 - sx } else { sx };
                let sy = if mirror_y { height - 1 - sy } else { sy };
                let at = (sy * width + sx) * channels;
                out.extend_from_slice(&values[at..at + channels]);
            }
        }
        out
    }
}
