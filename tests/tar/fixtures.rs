//! Real archives, and what `CPython`'s tarfile and GNU tar find in them. Where those two agree we find the same, or refuse the archive
//! for a reason that stands in a table here. A part is in `tests/data/tar` (origins and licences beside it); more may lie beside the
//! repository.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use shardstream::store::decompress::decompress;

use super::archive::*;

/// What the other two say.
#[derive(Deserialize)]
struct Row {
    path: String,
    python: String,
    members: Vec<Entry>,
    gnutar_rc: i32,
    gnutar_names: Vec<String>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    /// One is beyond every integer.
    size: f64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    sha256: String,
}

/// Archives that both of them read and we refuse: the end of the path, and words of our error.
const REFUSED: &[(&str, &str)] = &[
    // Holes would have to be filled with zeros: a few bytes could ask for terabytes.
    ("cpython/testtar.tar.gz", "member gnu/sparse at byte 142848: a sparse file"),
    ("go/gnu-nil-sparse-data.tar", "member sparse.db at byte 0: a sparse file"),
    ("go/gnu-nil-sparse-hole.tar", "member sparse.db at byte 0: a sparse file"),
    ("go/gnu-sparse-big.tar", "member gnu-sparse at byte 0: a sparse file"),
    ("go/pax-nil-sparse-data.tar", "member sparse.db at byte 0: a sparse file"),
    ("go/pax-nil-sparse-hole.tar", "member sparse.db at byte 0: a sparse file"),
    ("go/pax-sparse-big.tar", "member pax-sparse at byte 0: a sparse file"),
    ("go/sparse-formats.tar", "member sparse-gnu at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_1_13.tar", "member sparse at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_1_17.tar", "member sparse at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_1_17_posix00.tar", "member sparse at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_1_17_posix01.tar", "member sparse at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_1_17_posix10.tar", "member sparse at byte 0: a sparse file"),
    ("test_read_format_gtar_sparse_reuse.tar", "member sparse at byte 0: a sparse file"),
    ("tar-rs/sparse-1.tar", "member a.big at byte 0: a sparse file"),
    ("tar-rs/sparse-large.tar", "member huge at byte 0: a sparse file"),
    ("tar-rs/sparse.tar", "member sparse_begin.txt at byte 0: a sparse file"),
    // A Solaris form of the same, which the other two don't know: they give the stored bytes for the file's.
    (
        "test_read_format_tar_pax_sun_holesdata.tar",
        "member hole at byte 0: a sparse file (SUN.holesdata)",
    ),
    // What nobody needs may not ask for memory.
    (
        "go/pax-bad-hdr-large.tar.bz2",
        "an extended header of 1048577 bytes: more than the 1048576 allowed",
    ),
];

/// A name as text in which every byte counts: what is not UTF-8 as the character of the same number.
fn text(name: &[u8]) -> String {
    name.utf8_chunks()
        .flat_map(|chunk| {
            chunk.valid().chars().chain(chunk.invalid().iter().map(|&b| char::from(b)))
        })
        .collect()
}

fn rows(list: &Path) -> Vec<Row> {
    // Python writes bytes that are not UTF-8 as lone surrogates, which JSON can't carry.
    let lines = std::fs::read_to_string(list).unwrap().replace("\\udc", "\\u00");
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Row {
    /// Regular files, if both list the same members.
    fn agreed(&self) -> Option<Vec<&Entry>> {
        let bare = |name: &str| name.trim_matches('"').trim_end_matches('/').to_owned();
        let python: Vec<_> = self.members.iter().map(|entry| bare(&entry.name)).collect();
        let gnu: Vec<_> = self.gnutar_names.iter().map(|name| bare(name)).collect();
        let same =
            python == gnu || (python.len() == gnu.len() && !gnu.iter().all(|name| name.is_ascii()));
        let agree = self.python == "ok" && self.gnutar_rc == 0 && same;
        agree.then(|| {
            self.members
                .iter()
                .filter(|entry| matches!(&entry.kind[..], "0" | "\0" | "7" | "S"))
                .collect()
        })
    }

    fn refusal(&self) -> Option<&'static str> {
        REFUSED.iter().find(|(path, _)| self.path.ends_with(path)).map(|(_, words)| *words)
    }
}

/// What stands in the file, decompressed; `None` if it can't be.
fn contents(path: &Path) -> Option<Vec<Bytes>> {
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let stream = futures::stream::iter([bytes])
        .filter(|bytes| std::future::ready(!bytes.is_empty()))
        .map(Ok)
        .boxed();
    tokio_test::block_on(decompress(stream).collect::<Vec<_>>())
        .into_iter()
        .collect::<Result<_, _>>()
        .ok()
}

fn check(folder: &Path, row: &Row) -> Result<(), String> {
    let Some(chunks) = contents(&folder.join(&row.path)) else {
        return if row.agreed().is_some_and(|_| cfg!(feature = "compression")) {
            Err("can't be decompressed".into())
        } else {
            Ok(())
        };
    };
    let whole = walk(chunks.clone());
    let archive = chunks.concat();
    for size in [1, 13, 512, 700, 4096] {
        if size > 1 || archive.len() < 1 << 17 {
            let pieces = walk(archive.chunks(size).map(Bytes::copy_from_slice));
            if pieces.story() != whole.story() {
                return Err(format!(
                    "chunks of {size} give {} and not {}",
                    pieces.story(),
                    whole.story()
                ));
            }
        }
    }
    let Some(expected) = row.agreed() else { return Ok(()) };
    if let Some(words) = row.refusal() {
        let error = whole.error();
        return if error.contains(words) {
            Ok(())
        } else {
            Err(format!("refused, but with {error}"))
        };
    }
    if let Some(Err(error)) = &whole.end {
        return Err(error.to_string());
    }
    let ours: Vec<_> =
        whole.members.iter().map(|m| (text(&m.name), m.data.len() as f64, sha(&m.data))).collect();
    let theirs: Vec<_> =
        expected.iter().map(|e| (e.name.clone(), e.size, e.sha256.clone())).collect();
    if ours == theirs { Ok(()) } else { Err(format!("ours {ours:?}\n theirs {theirs:?}")) }
}

/// The first sixteen hex digits.
fn sha(data: &[u8]) -> String {
    Sha256::digest(data).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn check_all(folder: &Path, rows: &[Row]) -> usize {
    let wrong: Vec<_> = rows
        .iter()
        .filter_map(|row| check(folder, row).err().map(|why| format!("{}: {why}", row.path)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    rows.iter().filter(|row| row.agreed().is_some()).count()
}

#[test]
fn archives_in_the_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tar");
    let rows = rows(&folder.join("EXPECTED.jsonl"));
    assert!(check_all(&folder, &rows) > 80);
}

#[test]
fn archives_beside_the_repository() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../shared", "../../shared"].map(|path: &str| here.join(path));
    let Some(folder) =
        beside.iter().find(|folder: &&PathBuf| folder.join("fixtures/TARS.jsonl").exists())
    else {
        return;
    };
    let rows = rows(&folder.join("fixtures/TARS.jsonl"));
    assert!(check_all(folder, &rows) > 100);
}
