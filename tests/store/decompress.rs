//! Compressed shards: recognised by content, whole or an error.

use bytes::Bytes;
use futures::{StreamExt, stream};
use shardstream::store::decompress::decompress;
use shardstream::{Error, Result};

/// What comes out of these chunks, to the end or the first error.
fn run(chunks: impl IntoIterator<Item = Result<Bytes>>) -> (Vec<Bytes>, Option<Error>) {
    let chunks: Vec<_> = chunks.into_iter().collect();
    let mut out = (Vec::new(), None);
    for item in tokio_test::block_on(decompress(stream::iter(chunks).boxed()).collect::<Vec<_>>()) {
        assert!(out.1.is_none(), "something behind an error");
        match item {
            Ok(chunk) => out.0.push(chunk),
            Err(error) => out.1 = Some(error),
        }
    }
    out
}

fn pieces(bytes: &[u8], size: usize) -> Vec<Result<Bytes>> {
    bytes.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect()
}

#[test]
fn plain_bytes_are_the_very_chunks() {
    for first in [1, 5, 600] {
        let whole = Bytes::from(vec![b'a'; 2000]);
        let chunks = [whole.slice(..first), whole.slice(first..)];
        let (out, error) = run(chunks.clone().map(Ok));
        assert!(error.is_none());
        assert!(
            out.iter().zip(&chunks).all(|(a, b)| a.as_ptr() == b.as_ptr() && a.len() == b.len()),
            "{first}"
        );
    }
    assert!(run([]).0.is_empty());
}

/// A stream that must not be polled behind its end, as `unfold` makes them.
#[test]
fn a_short_stream_is_not_polled_behind_its_end() {
    for length in [0u8, 1, 5] {
        let bytes = stream::unfold(0, move |at| async move {
            (at < length).then(|| (Ok(Bytes::copy_from_slice(&[at])), at + 1))
        });
        let out: Vec<_> = tokio_test::block_on(decompress(bytes.boxed()).collect());
        assert_eq!(out.len(), usize::from(length));
    }
}

#[test]
fn errors_of_the_store_come_through() {
    let failed = || Err(Error::store("the line is dead").in_shard("a.tar"));
    for chunks in [
        vec![failed()],
        vec![Ok(Bytes::from_static(b"abc")), failed()],
        vec![Ok(Bytes::from_static(&[0x1f, 0x8b, 8])), failed()],
    ] {
        assert_eq!(run(chunks).1.unwrap().to_string(), "read: a.tar: the line is dead");
    }
}

#[cfg(not(feature = "compression"))]
#[test]
fn a_build_without_decoders_says_so() {
    let error = run(pieces(b"\x1f\x8b\x08\0\0\0\0\0\0\0", 100)).1.unwrap().to_string();
    assert!(error.contains("gzip") && error.contains("feature `compression`"), "{error}");
}

#[cfg(feature = "compression")]
mod with_decoders {
    use async_compression::tokio::write::{BzEncoder, GzipEncoder, XzEncoder, ZstdEncoder};
    use tokio::io::AsyncWriteExt;

    use super::*;

    const WORDS: [&str; 4] = ["gzip", "zstd", "bzip2", "xz"];

    fn compress(word: &str, bytes: &[u8]) -> Vec<u8> {
        macro_rules! with {
            ($encoder:ident) => {{
                let mut encoder = $encoder::new(Vec::new());
                tokio_test::block_on(async {
                    encoder.write_all(bytes).await.unwrap();
                    encoder.shutdown().await.unwrap();
                });
                encoder.into_inner()
            }};
        }
        match word {
            "gzip" => with!(GzipEncoder),
            "zstd" => with!(ZstdEncoder),
            "bzip2" => with!(BzEncoder),
            _ => with!(XzEncoder),
        }
    }

    fn contents() -> Vec<u8> {
        (0..3000u32).flat_map(|number| number.to_string().into_bytes()).collect()
    }

    #[test]
    fn every_kind_in_one_part_and_in_several() {
        let contents = contents();
        let (head, tail) = contents.split_at(5000);
        for word in WORDS {
            for compressed in
                [compress(word, &contents), [compress(word, head), compress(word, tail)].concat()]
            {
                for size in [1, 7, 4096] {
                    let (out, error) = run(pieces(&compressed, size));
                    assert!(error.is_none(), "{word}: {error:?}");
                    assert!(out.concat() == contents, "{word} in chunks of {size}");
                }
            }
        }
    }

    #[test]
    fn skippable_zstd_frames_are_skipped() {
        let skippable = b"\x51\x2a\x4d\x18\x03\0\0\0xyz";
        let frame = compress("zstd", b"hello");
        let (out, error) = run(pieces(&[&skippable[..], &frame, skippable, &frame].concat(), 5));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(out.concat(), b"hellohello");
    }

    #[test]
    fn a_cut_anywhere_is_an_error() {
        let contents = contents();
        for word in WORDS {
            let compressed = compress(word, &contents);
            // The first bytes tell what it is; without them it is a broken tar.
            for length in
                (10..compressed.len()).step_by(13).chain(compressed.len() - 10..compressed.len())
            {
                let (out, error) = run(pieces(&compressed[..length], 700));
                let out = out.concat();
                let error = error
                    .unwrap_or_else(|| panic!("{word} cut at {length} of {}", compressed.len()));
                assert!(contents.starts_with(&out));
                assert_eq!(error.offset(), Some(out.len() as u64));
                assert!(error.to_string().contains(&format!("the {word} data is ")), "{error}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_an_error_or_changes_nothing() {
        let contents = contents();
        for word in WORDS {
            let compressed = compress(word, &contents);
            for at in (10..compressed.len()).step_by(17).chain([compressed.len() - 6]) {
                let mut damaged = compressed.clone();
                damaged[at] ^= 0x10;
                let (out, error) = run(pieces(&damaged, 700));
                // zstd frames of this encoder carry no checksum.
                assert!(
                    error.is_some() || out.concat() == contents || word == "zstd",
                    "{word}: byte {at}"
                );
            }
        }
    }

    #[test]
    fn a_bomb_comes_in_small_chunks() {
        let zeros = vec![0; 64 << 20];
        let (out, error) = run(pieces(&compress("zstd", &zeros), 1 << 20));
        assert!(error.is_none());
        assert_eq!(out.iter().map(Bytes::len).sum::<usize>(), zeros.len());
        assert!(out.iter().all(|chunk| chunk.len() <= 256 << 10));
    }
}
