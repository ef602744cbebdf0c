//! One piece of work over local tars, timed: `ours WORK TAR...` prints samples and seconds as JSON.
//!
//! | work | is |
//! |---|---|
//! | `read` | `read()` of all bytes into one buffer, thrown away: the ceiling |
//! | `members` | the members of each tar, by the parser alone |
//! | `samples` | members grouped into samples, as a stream |
//! | `batches-1`, `batches-2` | the same by the loader on 1 or 2 workers, in batches of 64 |
//! | `decode` | pictures: shortest side 256, centre 224 x 224, normalised, batches of 64; the loader as it is by default |
//! | `decode-4k` | pictures: shortest side 1024, centre 1024 x 1024, normalised, batches of 8; the same |
//! | `mean`, `mean-4k` | the mean of all numbers that the last two give, untimed: to see that all peers do the same |

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use futures::TryStreamExt;
use shardstream::augment::{Augment, Normalize, ResizeCrop};
use shardstream::prelude::*;
use shardstream::sample::{Data, Heads};
use shardstream::store::ByteRange;
use shardstream::tar::{Parser, Step};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn io(error: std::io::Error) -> Error {
    Error::store("can't read").with_source(error)
}

fn read(tars: &[String]) -> Result<usize> {
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    for tar in tars {
        let mut file = File::open(tar).map_err(io)?;
        loop {
            match file.read(&mut buffer).map_err(io)? {
                0 => break,
                read => bytes += read,
            }
        }
    }
    Ok(bytes)
}

async fn members(tars: &[String]) -> Result<usize> {
    let mut members = 0;
    for tar in tars {
        let (mut stream, mut parser) = (Local.read(tar, ByteRange::ALL), Parser::new());
        while let Some(chunk) = stream.try_next().await? {
            parser.push(chunk);
            loop {
                match parser.next()? {
                    Step::Member(member) => {
                        std::hint::black_box(member);
                        members += 1;
                    }
                    Step::Warning(_) => {}
                    Step::NeedMore | Step::End { .. } => break,
                }
            }
        }
    }
    Ok(members)
}

async fn samples(manifest: &Manifest) -> Result<usize> {
    let stream = shard_list(manifest).open_twins(Local).expand().group_by_keys();
    stream
        .try_fold(0, async |samples, sample| {
            std::hint::black_box(sample);
            Ok(samples + 1)
        })
        .await
}

async fn batches(manifest: &Manifest, workers: u32) -> Result<usize> {
    let recipe = |lane: &Lane| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        shards.open_twins(Local).expand().group_by_keys().batch(64)
    };
    let mut loader = Loader::builder(manifest, recipe).workers(workers).start()?;
    let mut samples = 0;
    while let Some(batch) = loader.try_next().await? {
        samples += batch.heads().len();
        std::hint::black_box(batch);
    }
    Ok(samples)
}

/// What is done with pictures.
struct Pictures {
    shortest: u32,
    crop: u32,
    batch: usize,
}

const SMALL: Pictures = Pictures { shortest: 256, crop: 224, batch: 64 };
const LARGE: Pictures = Pictures { shortest: 1024, crop: 1024, batch: 8 };

/// Sees every batch.
async fn decode(
    manifest: &Manifest,
    work: Pictures,
    mut see: impl FnMut(&Tensor),
) -> Result<usize> {
    let Pictures { shortest, crop, batch } = work;
    let recipe = move |lane: &Lane| {
        let parts = (ResizeCrop::new(shortest, crop, crop), Normalize::imagenet());
        let decoder = match parts.needs().size() {
            Some((width, height)) => Decoder::new().at_least(width, height),
            None => Decoder::new(),
        };
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(Local).expand().group_by_keys();
        let pictures = samples.decode(decoder).augment(move |mut fields, rng| {
            parts.apply(&mut fields, rng)?;
            Ok(fields)
        });
        pictures.batch(batch)
    };
    let mut loader = Loader::builder(manifest, recipe).start()?;
    let mut samples = 0;
    while let Some(batch) = loader.try_next().await? {
        samples += batch.heads().len();
        match batch.data.get("jpg") {
            Some(Column::Tensor(pictures)) => see(pictures),
            _ => return Err(Error::batch("no pictures of one size")),
        }
    }
    Ok(samples)
}

async fn mean(manifest: &Manifest, work: Pictures) -> Result<f64> {
    let (mut sum, mut values) = (0.0, 0);
    decode(manifest, work, |pictures| {
        if let Data::F32(numbers) = &pictures.data {
            sum += numbers.iter().map(|&number| f64::from(number)).sum::<f64>();
            values += numbers.len();
        }
    })
    .await?;
    Ok(sum / f64::from(u32::try_from(values / 1024).unwrap_or(u32::MAX)) / 1024.0)
}

fn run(work: &str, tars: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(io)?;
    let manifest = Manifest::of_shards(tars)?;
    let began = Instant::now();
    let see = |pictures: &Tensor| {
        std::hint::black_box(pictures);
    };
    let done = runtime.block_on(async {
        match work {
            "read" => read(tars),
            "members" => members(tars).await,
            "samples" => samples(&manifest).await,
            "batches-1" => batches(&manifest, 1).await,
            "batches-2" => batches(&manifest, 2).await,
            "decode" => decode(&manifest, SMALL, see).await,
            "decode-4k" => decode(&manifest, LARGE, see).await,
            "mean" | "mean-4k" => {
                let work = if work == "mean" { SMALL } else { LARGE };
                println!("{{\"mean\":{}}}", mean(&manifest, work).await?);
                Ok(0)
            }
            _ => Err(Error::config(format!("no such work: {work}"))),
        }
    })?;
    if done > 0 {
        println!("{{\"done\":{done},\"seconds\":{}}}", began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    match run(&work, &arguments.collect::<Vec<_>>()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
