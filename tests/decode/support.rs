//! What the tests of this group share.

use std::path::{Path, PathBuf};

use bytes::Bytes;

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
