//! What the tests of this group share.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use shardstream::decode::Decoder;
use shardstream::sample::{Data, Image};

/// The folder of shared test data beside the checkout, where there is one.
pub(crate) fn shared() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.join("../shared"), root.join("../../shared")]
        .into_iter()
        .find(|path| path.join("cases").is_dir())
}

/// Name and content of the members of a plain tar.
pub(crate) fn untar(tar: &[u8]) -> Vec<(String, Bytes)> {
    let mut members = Vec::new();
    let mut at = 0;
    while at + 512 <= tar.len() && tar[at] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let field = &tar[at + range.start..at + range.end];
            String::from_utf8_lossy(field.split(|&b| b == 0).next().unwrap()).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).unwrap();
        members.push((text(0..100), Bytes::copy_from_slice(&tar[at + 512..at + 512 + size])));
        at += 512 + size.div_ceil(512) * 512;
    }
    members
}

/// The folder of test data in the checkout.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A file of the test data, decoded as 8-bit RGB.
pub(crate) fn picture(path: &str) -> Image {
    let bytes = Bytes::from(std::fs::read(data().join(path)).unwrap());
    Decoder::default().decode_field(path, bytes).unwrap().as_image().unwrap().clone()
}

/// `width` x `height` pixels of a pattern in which every pixel differs from its neighbours.
pub(crate) fn pattern(width: u32, height: u32) -> Image {
    let values = (0..height)
        .flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, (x * 7 + y * 13) as u8]))
        .collect();
    Image::new(width, height, 3, Data::U8(values)).unwrap()
}
