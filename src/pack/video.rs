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
