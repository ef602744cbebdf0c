//! Width, height and duration of a video, as its container records them.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::classes::Dimensions;
use super::content::Content;
use super::{mp4, webm};

/// What a container says of its video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VideoFacts {
    pub(crate) dimensions: Dimensions,
    pub(crate) seconds: f64,
}

/// Reads the headers of an mp4, mov, webm or mkv file. `turned` is whether a rotation that the file asks for counts.
pub(crate) fn facts(content: &Content, turned: bool) -> io::Result<VideoFacts> {
    let mut reader = BufReader::new(content.open_seekable()?);
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    reader.seek(SeekFrom::Start(0))?;
    let facts = if start.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]) {
        webm::facts(&mut reader)?
    } else if start[4..].iter().all(|b| b.is_ascii_lowercase()) {
        // A box whose name is four letters: ftyp as a rule; moov, wide, free, mdat in old mov files.
        mp4::facts(&mut reader, content.size(), turned)?
    } else {
        return Err(invalid("neither mp4, mov, webm nor mkv"));
    };
    if facts.dimensions.width == 0 || facts.dimensions.height == 0 {
        return Err(invalid("the video has no width or no height"));
    }
    if !facts.seconds.is_finite() || facts.seconds <= 0.0 {
        return Err(invalid("the duration is not recorded"));
    }
    Ok(facts)
}

pub(crate) fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str) -> Vec<u8> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/videos");
        std::fs::read(folder.join(name)).unwrap()
    }

    fn of(name: &str, turned: bool) -> io::Result<(u32, u32, f64)> {
        let facts = facts(&Content::Bytes(bytes(name).into()), turned)?;
        Ok((facts.dimensions.width, facts.dimensions.height, facts.seconds))
    }

    #[test]
    fn what_containers_record() {
        assert_eq!(of("plain.mp4", false).unwrap(), (320, 180, 2.5));
        assert_eq!(of("tall.mov", true).unwrap(), (180, 320, 6.0));
        assert_eq!(of("turned.mp4", false).unwrap(), (320, 180, 2.5));
        assert_eq!(of("turned.mp4", true).unwrap(), (180, 320, 2.5));
        assert_eq!(of("square.webm", false).unwrap(), (200, 200, 1.2));
    }

    #[test]
    fn a_duration_that_is_not_recorded_is_not_made_up() {
        let error = of("pieces.mp4", false).unwrap_err();
        assert_eq!(error.to_string(), "the duration is not recorded");
    }

    #[test]
    fn cut_off_and_damaged_files_are_errors_or_answers() {
        for name in ["plain.mp4", "tall.mov", "square.webm"] {
            let whole = bytes(name);
            // Where the headers end: the media behind them are not looked into.
            for cut in 0..whole.len().min(400) {
                let content = Content::Bytes(whole[..cut].to_vec().into());
                assert!(facts(&content, false).is_err() || name == "square.webm", "{name} {cut}");
            }
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut damaged = whole.clone();
                    damaged[at] = value;
                    // Whatever comes out, nothing panics and nothing runs on.
                    let _ = facts(&Content::Bytes(damaged.into()), true);
                }
            }
        }
        assert!(facts(&Content::Bytes("<html></html>".into()), false).is_err());
    }
}
