//! Small data sets in memory, and the test that tests resuming, for this crate's tests and those of its users.

use bytes::Bytes;
use futures::TryStreamExt;

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::loader::Builder;
use crate::sample::Heads;
use crate::shard::Manifest;
use crate::store::Memory;

/// A tar of these files, as small as can be.
///
/// # Panics
/// If a name is longer than 100 bytes.
#[must_use]
pub fn tar(files: &[(&str, &[u8])]) -> Bytes {
    let mut archive = Vec::new();
    for (name, data) in files {
        let mut header = [0u8; 512];
        assert!(name.len() <= 100, "{name}: longer than a plain header can hold");
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive.into()
}

/// `shards` single tars of `samples` samples each in a [`Memory`] store: keys `s3_k7`, one field `txt` that holds the key.
#[must_use]
pub fn shards(shards: usize, samples: usize) -> (Manifest, Memory) {
    ragged_shards(&vec![samples; shards])
}

/// As [`shards`], with a number of samples for each shard.
///
/// # Panics
/// Never: the paths are fine.
#[must_use]
pub fn ragged_shards(samples: &[usize]) -> (Manifest, Memory) {
    in_memory(samples.iter().enumerate().map(|(shard, &samples)| {
        let key = |i| format!("s{shard}_k{i}");
        (0..samples).map(|i| (format!("{}.txt", key(i)), key(i).into_bytes())).collect()
    }))
}

/// As [`shards`], for learning: the fields of a sample are one of these files, in turn, under this extension, and its place among them
/// as `cls`.
///
/// # Panics
/// If there are no files, or the extension is longer than a plain header can hold.
#[must_use]
pub fn classes(
    shards: usize,
    samples: usize,
    extension: &str,
    files: &[Vec<u8>],
) -> (Manifest, Memory) {
    in_memory((0..shards).map(|_| {
        let pair = |i: usize| {
            let class = i % files.len();
            [
                (format!("{i}.{extension}"), files[class].clone()),
                (format!("{i}.cls"), class.to_string().into_bytes()),
            ]
        };
        (0..samples).flat_map(pair).collect()
    }))
}

/// Single tars of these files.
fn in_memory(shards: impl Iterator<Item = Vec<(String, Vec<u8>)>>) -> (Manifest, Memory) {
    let store = Memory::new();
    let mut paths = Vec::new();
    for (shard, files) in shards.enumerate() {
        let files: Vec<_> = files.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
        paths.push(format!("{shard:06}.tar"));
        store.insert(format!("{shard:06}.tar"), tar(&files));
    }
    let manifest =
        Manifest::of_shards(paths).unwrap_or_else(|error| unreachable!("plain paths: {error}"));
    (manifest, store)
}

/// The test that tests resuming: runs what `build` builds, takes a checkpoint before the first batch and after every batch, restores each
/// of them (through JSON, with 1 to 3 workers in turn), and compares what comes with what was due.
///
/// `describe` says what of a batch is compared: contents and augmentation included. Returns the number of batches.
///
/// # Panics
/// If anything differs, or an error comes that the builder's policy does not skip.
pub async fn assert_resumes<B, D>(
    build: impl Fn() -> Builder<B>,
    describe: impl Fn(&B) -> D,
) -> usize
where
    B: Heads + Send + 'static,
    D: PartialEq + std::fmt::Debug,
{
    let fine = |result: Result<Option<B>>| result.unwrap_or_else(|error| panic!("{error}"));
    let mut loader = build().start().unwrap_or_else(|error| panic!("{error}"));
    let mut checkpoints = vec![loader.checkpoint()];
    let mut due = Vec::new();
    while let Some(batch) = fine(loader.try_next().await) {
        due.push(describe(&batch));
        checkpoints.push(loader.checkpoint());
    }
    for (after, checkpoint) in checkpoints.into_iter().enumerate() {
        let text = checkpoint.to_json().unwrap_or_else(|error| panic!("{error}"));
        let restored =
            Checkpoint::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(restored, checkpoint, "JSON changed the checkpoint");
        let workers = 1 + u32::try_from(after % 3).unwrap_or(0);
        let mut loader =
            build().workers(workers).resume([restored]).unwrap_or_else(|error| panic!("{error}"));
        let mut came = Vec::new();
        while let Some(batch) = fine(loader.try_next().await) {
            came.push(describe(&batch));
        }
        assert_eq!(came, due[after..], "restored after batch {after} with {workers} workers");
    }
    due.len()
}
