//! Width and height of a picture from its first bytes.

use std::io::{self, BufRead, BufReader, Read, Seek};

use image::metadata::Orientation;
use image::{ImageDecoder, ImageReader};

use super::classes::Dimensions;
use super::content::Content;

/// Width and height of a picture as shown: turned as its EXIF data say if `exif`, as stored otherwise.
pub(crate) fn of_picture(content: &Content, exif: bool) -> io::Result<Dimensions> {
    let mut reader = BufReader::new(content.open_seekable()?);
    let stored = if reader.fill_buf()?.starts_with(b"\xff\xd8") {
        jpeg(&mut reader)?
    } else {
        other(reader)?
    };
    let (Dimensions { width, height }, orientation) = stored;
    let on_its_side = matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    );
    if width == 0 || height == 0 {
        return Err(invalid("the picture has no width or no height"));
    }
    Ok(if exif && on_its_side {
        Dimensions { width: height, height: width }
    } else {
        Dimensions { width, height }
    })
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn other<R: BufRead + Seek>(reader: R) -> io::Result<(Dimensions, Orientation)> {
    let reader = ImageReader::new(reader).with_guessed_format()?;
    let mut decoder = reader.into_decoder().map_err(io::Error::other)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let (width, height) = decoder.dimensions();
    Ok((Dimensions { width, height }, orientation))
}

/// Walks the segments of a JPEG up to its frame header. The decoder of the `image` crate would read the whole file for this.
fn jpeg<R: Read + Seek>(reader: &mut BufReader<R>) -> io::Result<(Dimensions, Orientation)> {
    let mut orientation = Orientation::NoTransforms;
    let mut two = [0; 2];
    reader.read_exact(&mut two)?;
    loop {
        // A marker: 0xff (any number of times), then its kind.
        let mut byte = [0; 1];
        reader.read_exact(&mut byte)?;
        if byte[0] != 0xff {
            return Err(invalid("a JPEG without a frame header"));
        }
        while byte[0] == 0xff {
            reader.read_exact(&mut byte)?;
        }
        let kind = byte[0];
        if matches!(kind, 0x01 | 0xd0..=0xd7) {
            continue;
        }
        reader.read_exact(&mut two)?;
        let length = u16::from_be_bytes(two)
            .checked_sub(2)
            .ok_or_else(|| invalid("a JPEG segment without a length"))?;
        match kind {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let mut frame = [0; 5];
                reader.read_exact(&mut frame)?;
                let [_, h1, h0, w1, w0] = frame;
                let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
                return Ok((Dimensions { width: side(w1, w0), height: side(h1, h0) }, orientation));
            }
            0xe1 => {
                let mut segment = vec![0; usize::from(length)];
                reader.read_exact(&mut segment)?;
                if let Some(tiff) = segment.strip_prefix(b"Exif\0\0") {
                    orientation = Orientation::from_exif_chunk(tiff).unwrap_or(orientation);
                }
            }
            0xd9 | 0xda => return Err(invalid("a JPEG without a frame header")),
            _ => reader.seek_relative(i64::from(length))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn path_of(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/photos").join(name)
    }

    fn bytes_of(name: &str) -> Vec<u8> {
        std::fs::read(path_of(name)).unwrap()
    }

    fn photo(name: &str) -> Content {
        let path = path_of(name);
        Content::File { size: std::fs::metadata(&path).unwrap().len(), path }
    }

    #[test]
    fn photographs() {
        let of = |name| of_picture(&photo(name), false).unwrap();
        assert_eq!(of("saturnian-profile.jpg"), Dimensions { width: 800, height: 333 });
        assert_eq!(of("000000183709.jpg"), Dimensions { width: 480, height: 640 });
    }

    #[test]
    fn exif_orientation_counts_on_request() {
        let jpeg = bytes_of("canyon-wren.jpg");
        let mut tiff =
            b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0".to_vec();
        let length = u16::try_from(tiff.len() + 2).unwrap().to_be_bytes();
        let mut turned = jpeg[..2].to_vec();
        turned.extend_from_slice(b"\xff\xe1");
        turned.extend_from_slice(&length);
        turned.append(&mut tiff);
        turned.extend_from_slice(&jpeg[2..]);
        let content = Content::Bytes(turned.into());
        assert_eq!(of_picture(&content, false).unwrap(), Dimensions { width: 800, height: 450 });
        assert_eq!(of_picture(&content, true).unwrap(), Dimensions { width: 450, height: 800 });
    }

    #[test]
    fn broken_pictures_are_errors() {
        let jpeg = bytes_of("canyon-wren.jpg");
        for cut in 0..150 {
            assert!(
                of_picture(&Content::Bytes(jpeg[..cut].to_vec().into()), true).is_err(),
                "{cut}"
            );
        }
        for bad in [
            &b""[..],
            b"<html>",
            b"\xff\xd8\xff\xda\0\x02",
            b"\xff\xd8\xff\xc0\0\x08\x08\0\0\0\0\x03",
        ] {
            assert!(of_picture(&Content::Bytes(bad.to_vec().into()), true).is_err());
        }
    }
}
