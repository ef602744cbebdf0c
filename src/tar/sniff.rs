//! What a file that is no tar archive looks like, so that the error can say so.

/// The first bytes, and what they say. The first that fits counts.
const SIGNS: &[(&[u8], &str)] = &[
    (b"version https://git-lfs", "a Git LFS pointer: fetch the real file with `git lfs pull`"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x04\x22\x4d\x18", "lz4 data"),
    (b"LZIP", "lzip data"),
    (b"\x1f\x9d", "compress (.Z) data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"PAR1", "a parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
];

/// The same for text, without regard to case and blanks in front.
const TEXTS: &[(&[u8], &str)] = &[
    (b"<?xml", "an XML document, perhaps a server's error page"),
    (b"<error", "an XML document, perhaps a server's error page"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"{", "JSON text"),
    (b"[", "JSON text"),
];

/// What the first bytes of a file look like, as the end of a sentence, with the bytes themselves.
pub(super) fn looks_like(head: &[u8]) -> String {
    let words = head.trim_ascii_start();
    let starts =
        |text: &[u8]| words.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text));
    let sign = SIGNS.iter().find(|(sign, _)| head.starts_with(sign));
    let kind = sign
        .or_else(|| TEXTS.iter().find(|(text, _)| starts(text)))
        .map_or("something else", |(_, kind)| kind);
    format!("it looks like {kind}; it begins with `{}`", head[..head.len().min(48)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_often_met() {
        for (head, expected) in [
            (&b"<?xml version=\"1.0\"?>\n<Error>"[..], "XML"),
            (b"\n <!DOCTYPE HTML PUBLIC", "HTML"),
            (b"version https://git-lfs.github.com/spec/v1\noid", "LFS"),
            (b"PK\x03\x04\0\0", "zip"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"{\"error\": 1}", "JSON"),
            (b"hello", "something else; it begins with `hello`"),
            (b"", "something else"),
        ] {
            assert!(looks_like(head).contains(expected), "{}", looks_like(head));
        }
    }
}
