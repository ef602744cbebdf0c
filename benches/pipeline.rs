//! The whole chain, as shares of what the machine can do.
//!
//! `cargo bench --bench pipeline` prints, each as the median of runs taken in turns, with the CPU seconds beside the wall time:
//! - twins, join, shuffle(1000), batch(64), prefetch(8) without decoding, against walking the same tars;
//! - two lanes against one;
//! - decode, resize and crop to 224, normalised `f32` batches of 64, against a bare loop of the same decoding and resizing on all cores:
//!   new memory for each batch, and batches written into memory that the caller keeps; the same from 4K to 1024, in batches of 8.
//!
//! `-- --test` runs everything once on little data; `-- small`, `-- large`, `-- decode`, `-- decode-4k` run one part.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use shardstream::augment::{Augment, Normalize, crop, normalize, resize};
use shardstream::prelude::*;
use shardstream::sample::{Image, Loose, batch_into};
use shardstream::store::ByteRange;
use shardstream::tar::{Parser, Step};
use support::{line, medians, peak_rss_mb, twins};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Walks all tars one after the other: the ceiling for everything that walks.
fn walk(runtime: &tokio::runtime::Runtime, folder: &Path, shards: usize) -> usize {
    runtime.block_on(async {
        let mut members = 0;
        for shard in 0..shards {
            for modality in ["image", "caption"] {
                let path = folder.join(modality).join(format!("{shard:06}.tar"));
                let mut stream = Local.read(path.to_str().unwrap(), ByteRange::ALL);
                let mut parser = Parser::new();
                while let Some(chunk) = stream.next().await {
                    parser.push(chunk.unwrap());
                    while let Step::Member(member) = parser.next().unwrap() {
                        members += 1;
                        std::hint::black_box(member);
                    }
                }
            }
        }
        members
    })
}

fn bytes_loader(
    manifest: &Manifest,
    lanes: u32,
) -> shardstream::loader::Builder<Batch<Vec<Fields<Bytes>>>> {
    let recipe = |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        shards.open_twins(Local).expand().group_by_keys().shuffle(1000).batch(64)
    };
    Loader::builder(manifest, recipe).workers(lanes).prefetch(8)
}

fn drain<B: shardstream::sample::Heads + Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    builder: shardstream::loader::Builder<B>,
) -> usize {
    runtime.block_on(async {
        let mut loader = builder.start().unwrap();
        let mut samples = 0;
        while let Some(batch) = loader.next().await {
            samples += batch.unwrap().heads().len();
        }
        samples
    })
}

fn without_decoding(
    runtime: &tokio::runtime::Runtime,
    rounds: usize,
    shards: usize,
    samples: usize,
    size: usize,
) {
    let folder = tempfile::tempdir().unwrap();
    let body = Bytes::from((0..size).map(|i| (i * 31) as u8).collect::<Vec<_>>());
    twins(folder.path(), shards, samples, |_| body.clone());
    let manifest =
        runtime.block_on(Manifest::load(&Local, folder.path().to_str().unwrap())).unwrap();
    let total = shards * samples;
    let mut runs: Vec<Box<dyn FnMut() + '_>> = vec![
        Box::new(|| assert_eq!(walk(runtime, folder.path(), shards), 2 * total)),
        Box::new(|| assert_eq!(drain(runtime, bytes_loader(&manifest, 1)), total)),
        Box::new(|| assert_eq!(drain(runtime, bytes_loader(&manifest, 2)), total)),
    ];
    let took = medians(rounds, &mut runs);
    println!("{total} twins of {size} bytes and a caption, without decoding");
    line("walk, one tar after the other", took[0], total, None);
    line("twins, join, shuffle(1000), batch(64), 1 lane", took[1], total, Some(took[0]));
    line("the same, 2 lanes (share of 1 lane)", took[2], total, Some(took[1]));
}

/// Pictures, and what is made of them: shortest side, centre crop, how many in a batch.
struct Work {
    name: &'static str,
    pictures: Vec<Bytes>,
    shortest: u32,
    crop: u32,
    batch: usize,
    total: usize,
}

fn photographs(folder: &str) -> Vec<Bytes> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap().into()).collect()
}

fn prepare(fields: &Fields<Value>, shortest: u32, side: u32) -> Result<Image> {
    let (_, value) = fields.iter().next().ok_or_else(|| Error::augment("no fields"))?;
    let image = value.as_image().ok_or_else(|| Error::augment("no picture"))?;
    crop::center(&resize::shortest(image, shortest)?, side, side)
}

fn decoding(runtime: &tokio::runtime::Runtime, rounds: usize, work: &Work) {
    let Work { name, pictures, total, batch, .. } = work;
    let (shortest, side, batch) = (work.shortest, work.crop, *batch);
    let prepare = move |fields: &Fields<Value>| prepare(fields, shortest, side);
    let folder = tempfile::tempdir().unwrap();
    let decoder = Decoder::default();
    let shards = 4;
    twins(folder.path(), shards, total / shards, |i| pictures[i % pictures.len()].clone());
    let manifest =
        runtime.block_on(Manifest::load(&Local, folder.path().to_str().unwrap())).unwrap();
    let total = total / shards * shards;
    let cores = std::thread::available_parallelism().unwrap().get();
    let bare = || {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= total {
                            break;
                        }
                        let mut fields = Fields::new();
                        fields.insert("image.jpg", pictures[i % pictures.len()].clone());
                        let image = prepare(&decoder.decode(fields).unwrap()).unwrap();
                        std::hint::black_box(normalize(&image, &[0.5; 3], &[0.5; 3]).unwrap());
                    }
                });
            }
        });
    };
    let pictures_of = |lane: &Lane, decoder: &Decoder| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let samples = shards.open_twins(Local).expand().group_by_keys().shuffle(100);
        let pictures = samples.map_body(|mut fields| {
            fields.remove("caption.json");
            Ok(fields)
        });
        pictures.decode(decoder.clone())
    };
    let collated = || {
        let (decoder, normalize) = (decoder.clone(), Normalize::symmetric());
        let recipe = move |lane: &Lane| {
            let normalize = normalize.clone();
            pictures_of(lane, &decoder)
                .augment(move |fields, _| normalize.picture(prepare(&fields)?))
                .batch(batch)
        };
        Loader::builder(&manifest, recipe)
    };
    let loose = || {
        let (decoder, normalize) = (decoder.clone(), Normalize::symmetric());
        let recipe = move |lane: &Lane| {
            let normalize = normalize.clone();
            let pictures = pictures_of(lane, &decoder).augment(move |fields, rng| {
                let image = Value::Image(prepare(&fields)?);
                let mut fields = Fields::from_iter([("image".into(), image)]);
                normalize.apply(&mut fields, rng)?;
                Ok(Loose(fields))
            });
            pictures.batch(batch)
        };
        Loader::builder(&manifest, recipe)
    };
    let placed = || {
        let bytes = batch * 3 * (side * side * 4) as usize;
        let mut buffers = Fields::from_iter([("image".into(), vec![0; bytes])]);
        runtime.block_on(async {
            let mut loader = loose().start().unwrap();
            let mut samples = 0;
            while let Some(batch) = loader.next().await {
                let batch = batch.unwrap();
                samples += batch.heads.len();
                std::hint::black_box(batch_into(batch.data, &mut buffers).unwrap());
            }
            samples
        })
    };
    let mut runs: Vec<Box<dyn FnMut() + '_>> = vec![
        Box::new(bare),
        Box::new(|| assert_eq!(drain(runtime, collated()), total)),
        Box::new(|| assert_eq!(placed(), total)),
    ];
    let took = medians(rounds, &mut runs);
    println!(
        "{total} {name} -> shortest side {shortest}, crop {side}, normalised f32 batches of {batch}"
    );
    line(&format!("bare loop on {cores} threads"), took[0], total, None);
    line("pipeline", took[1], total, Some(took[0]));
    line("pipeline, into the caller's memory", took[2], total, Some(took[0]));
}

fn main() {
    let is_test = !std::env::args().any(|argument| argument == "--bench")
        || std::env::args().any(|argument| argument == "--test");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let rounds = if is_test { 1 } else { 7 };
    let (small, large) = if is_test { (500, 20) } else { (50_000, 2500) };
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("small") {
        without_decoding(&runtime, rounds, 4, small, 4096);
    }
    if wanted("large") {
        without_decoding(&runtime, rounds, 4, large, 100_000);
    }
    if wanted("decode") {
        let total = if is_test { 64 } else { 2048 };
        let pictures = photographs("photos");
        let name = "photographs";
        decoding(
            &runtime,
            rounds,
            &Work { name, pictures, shortest: 256, crop: 224, batch: 64, total },
        );
    }
    if wanted("decode-4k") {
        let total = if is_test { 8 } else { 384 };
        let pictures = photographs("images/4k");
        let name = "photographs of 4K";
        decoding(
            &runtime,
            rounds.min(5),
            &Work { name, pictures, shortest: 1024, crop: 1024, batch: 8, total },
        );
    }
    println!("peak RSS {:.0} MB", peak_rss_mb());
}
