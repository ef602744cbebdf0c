//! `shardstream bench`: how fast each part of a pipeline is on these data and this machine, and what the whole waits for.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;

use super::data::Data;
use super::output::{say, say_json};
use super::units;
use crate::augment::{Augment, Pipeline};
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::loader::{Lane, Loader};
use crate::sample::{Batch, Fields, Heads, Sample};
use crate::shard::Manifest;
use crate::stages::{
    EncodedStream, Entry, MemberStream, SampleStream, ShardStream, TwinStream, Twins, shard_list,
};
use crate::store::Stores;
use crate::topology::Worker;

/// Measures each part of a pipeline on real data, and says what the whole waits for.
///
/// The parts are measured one after the other, each with all that comes before it, for some seconds: reading and throwing away, walking the
/// tars, joining samples, shuffling and batching, decoding, augmenting by a recipe. The data go round as often as it takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  shardstream bench shards/
  shardstream bench shards/ --workers 4 --shuffle 5000 --seconds 10
  shardstream bench shards/ --recipe image_caption_augmentor:1024 --json
  shardstream bench s3://bucket/shards --no-decode")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    data: Data,
    /// Lanes that read at once [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Mean delay of the shuffle, in samples
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    shuffle: u64,
    /// Samples in a batch
    #[arg(long, value_name = "B", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// How long each part is measured
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Leave decoding out
    #[arg(long, conflicts_with = "recipe")]
    no_decode: bool,
    /// Augment by this recipe: a JSON file, or one of `PiD`'s pipelines with its resolution (see preview)
    #[arg(long, value_name = "FILE|NAME:RESOLUTION")]
    recipe: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A part, measured with all before it.
#[derive(Debug, Clone, Serialize)]
struct Part {
    part: String,
    samples_per_second: f64,
    bytes_per_second: f64,
    /// Cores that were busy; not known on every system.
    busy_cores: Option<f64>,
    /// Of the time of a sample in the whole.
    share: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    workers: u32,
    cores: usize,
    parts: Vec<Part>,
    waits_for: &'static str,
}

/// What went by, and how long it took.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    items: u64,
    bytes: u64,
    seconds: f64,
    cpu: Option<f64>,
}

type Tars = BoxStream<'static, Result<Twins>>;
type Samples = BoxStream<'static, Result<Sample<Fields<Bytes>>>>;

/// Measures what is done until the time is up.
#[derive(Debug, Clone, Copy)]
struct Clock {
    began: Instant,
    cpu: Option<f64>,
    until: Instant,
}

impl Clock {
    fn start(seconds: f64) -> Self {
        let began = Instant::now();
        Self { began, cpu: cpu_seconds(), until: began + Duration::from_secs_f64(seconds) }
    }

    fn is_up(&self) -> bool {
        Instant::now() >= self.until
    }

    fn stop(&self, items: u64, bytes: u64) -> Passed {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let cpu = cpu_seconds().zip(self.cpu).map(|(now, before)| now - before);
        Passed { items, bytes, seconds, cpu }
    }
}

/// CPU seconds of this process so far, all threads, where the system says so in `/proc`.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    // User and system time, in hundredths of a second.
    Some((ticks()? + ticks()?) / 100.0)
}

pub(crate) async fn run(args: BenchArgs) -> Result<ExitCode> {
    if !(args.seconds.is_finite() && (0.0..=86_400.0).contains(&args.seconds)) {
        return Err(Error::config(format!("--seconds {}: between 0 and a day", args.seconds)));
    }
    let (stores, manifest) = args.data.load().await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.unwrap_or_else(|| u32::try_from(cores).unwrap_or(1));
    let recipe = args.recipe.as_deref().map(super::preview::recipe).transpose()?;
    let bench = Bench { stores, manifest, workers, args: &args };
    let parts = bench.parts(recipe).await?;
    let report = Report { workers, cores, waits_for: waits_for(&parts, cores), parts };
    if args.json {
        say_json(&report)?
    } else {
        say(&describe(&report))?
    }
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    stores: Stores,
    manifest: Manifest,
    workers: u32,
    args: &'a BenchArgs,
}

impl Bench<'_> {
    async fn parts(&self, recipe: Option<Arc<Pipeline>>) -> Result<Vec<Part>> {
        let batch = self.args.batch as usize;
        let n = self.args.shuffle;
        let (read, walk) = (self.tars(read).await?, self.tars(walk).await?);
        let mut rest = Vec::new();
        let joined = self.load(move |samples| samples.batch(batch).boxed());
        rest.push(("join".to_owned(), joined.await?));
        let shuffled = self.load(move |samples| samples.shuffle(n).batch(batch).boxed());
        rest.push((format!("shuffle({n})"), shuffled.await?));
        if !self.args.no_decode {
            rest.push(("decode".to_owned(), self.decoded(None).await?));
        }
        if recipe.is_some() {
            rest.push(("recipe".to_owned(), self.decoded(recipe).await?));
        }
        Ok(parts(read, walk, rest))
    }

    /// Samples shuffled and decoded, and what a recipe makes of them.
    async fn decoded(&self, recipe: Option<Arc<Pipeline>>) -> Result<Passed> {
        let (n, batch, decoder) = (self.args.shuffle, self.args.batch as usize, Decoder::default());
        let chain = move |samples: Samples| {
            let recipe = recipe.clone();
            let decoded = samples.shuffle(n).decode(decoder.clone());
            let made = decoded.augment(move |mut fields, rng| match &recipe {
                Some(recipe) => recipe.apply(&mut fields, rng),
                None => Ok(()),
            });
            made.batch(batch).boxed()
        };
        self.load(chain).await
    }

    /// Lets the tars of all lanes go by, epoch after epoch, until the time is up.
    async fn tars(&self, pass: Pass) -> Result<Passed> {
        let clock = Clock::start(self.args.seconds);
        let lanes = (0..self.workers).map(|lane| self.lane(lane, clock, pass));
        let sum = |(items, bytes): (u64, u64), (more_items, more_bytes)| async move {
            Ok((items + more_items, bytes + more_bytes))
        };
        let lanes = stream::iter(lanes).buffer_unordered(self.workers as usize);
        let (items, bytes) = lanes.try_fold((0, 0), sum).await?;
        Ok(clock.stop(items, bytes))
    }

    async fn lane(&self, lane: u32, clock: Clock, pass: Pass) -> Result<(u64, u64)> {
        let worker = Worker::new(lane, self.workers)?;
        let (mut items, mut bytes) = (0, 0);
        for epoch in 0.. {
            let shards = shard_list(&self.manifest).epoch(epoch).worker(worker).split_by_worker();
            let (some, more) = pass(shards.open_twins(self.stores.clone()).boxed(), clock).await?;
            (items, bytes) = (items + some, bytes + more);
            if clock.is_up() || more == 0 {
                break;
            }
        }
        Ok((items, bytes))
    }

    /// Batches through the real loader, epoch after epoch, until the time is up.
    async fn load<C: Send + 'static>(
        &self,
        chain: impl Fn(Samples) -> BoxStream<'static, Result<Batch<C>>> + Send + Sync + 'static,
    ) -> Result<Passed> {
        let stores = self.stores.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
            chain(shards.open_twins(stores.clone()).expand().group_by_keys().boxed())
        };
        let builder = Loader::builder(&self.manifest, recipe).workers(self.workers).repeat();
        let mut loader = builder.start()?;
        // Threads and buffers are there once the first batch is.
        if loader.try_next().await?.is_none() {
            return Ok(Passed::default());
        }
        let clock = Clock::start(self.args.seconds);
        let mut samples = 0;
        while let Some(batch) = loader.try_next().await? {
            samples += batch.heads().len() as u64;
            if clock.is_up() {
                break;
            }
        }
        Ok(clock.stop(samples, 0))
    }
}

type Pass = fn(Tars, Clock) -> BoxFuture<'static, Result<(u64, u64)>>;

/// All bytes of the tars, thrown away.
fn read(mut twins: Tars, clock: Clock) -> BoxFuture<'static, Result<(u64, u64)>> {
    let pass = async move {
        let mut bytes = 0;
        while let Some(twins) = twins.try_next().await? {
            let mut chunks = stream::select_all(twins.tars.into_iter().map(|tar| tar.bytes));
            while let Some(chunk) = chunks.try_next().await? {
                bytes += chunk.len() as u64;
                if clock.is_up() {
                    return Ok((0, bytes));
                }
            }
        }
        Ok((0, bytes))
    };
    pass.boxed()
}

/// All members, joined by nobody; bytes as they stand in a tar.
fn walk(twins: Tars, clock: Clock) -> BoxFuture<'static, Result<(u64, u64)>> {
    let pass = async move {
        let (mut entries, mut samples, mut bytes) = (twins.expand(), 0, 0);
        let mut last = Bytes::new();
        while let Some(entry) = entries.try_next().await? {
            match entry {
                Entry::Member(member) => {
                    bytes += 512 + (member.data.len() as u64).next_multiple_of(512);
                    let key = member.name.slice(..member.key);
                    samples += u64::from(key != last);
                    last = key;
                }
                Entry::Lost(_, error) | Entry::Gap(_, error) => return Err(error),
                Entry::End(_) => last.clear(),
            }
            if clock.is_up() {
                break;
            }
        }
        Ok((samples, bytes))
    };
    pass.boxed()
}

/// The parts in order, with the share that each adds to the time of a sample.
fn parts(read: Passed, walk: Passed, rest: Vec<(String, Passed)>) -> Vec<Part> {
    // Reading knows bytes alone, and everything behind the walk samples.
    let bytes_of_sample = walk.bytes as f64 / (walk.items as f64).max(1.0);
    let whole = rest.last().map_or(walk, |(_, passed)| *passed);
    let time = |passed: &Passed| passed.seconds / (passed.items as f64).max(1.0);
    let read_time = read.seconds / (read.bytes as f64).max(1.0) * bytes_of_sample;
    let all = [("read".to_owned(), read), ("walk".to_owned(), walk)].into_iter().chain(rest);
    let mut before: f64 = 0.0;
    all.enumerate()
        .map(|(at, (part, passed))| {
            let seconds = if at == 0 { read_time } else { time(&passed) };
            let share = (seconds - before).max(0.0) / time(&whole).max(1e-12);
            before = before.max(seconds);
            Part {
                part,
                samples_per_second: 1.0 / seconds.max(1e-12),
                bytes_per_second: bytes_of_sample / seconds.max(1e-12),
                busy_cores: passed.cpu.map(|cpu| cpu / passed.seconds.max(1e-9)),
                share: share.min(1.0),
            }
        })
        .collect()
}

/// What would have to be faster for the whole to be faster.
fn waits_for(parts: &[Part], cores: usize) -> &'static str {
    match parts.last().and_then(|part| part.busy_cores) {
        None => "unknown",
        Some(busy) if busy >= 0.8 * cores as f64 => "processors",
        Some(_) if parts.first().is_some_and(|read| read.share >= 0.5) => "the store",
        // One lane after the other, or one part that only one thread works at.
        Some(_) => "neither: more --workers may help",
    }
}

fn describe(report: &Report) -> String {
    let mut text = format!(
        "{} on {}; each part with all before it\n\n{:16} {:>12} {:>14} {:>11} {:>8}\n",
        units::plural(report.workers.into(), "lane"),
        units::plural(report.cores as u64, "core"),
        "part",
        "samples/s",
        "of the tars",
        "busy cores",
        "adds",
    );
    for part in &report.parts {
        let busy = part.busy_cores.map_or_else(|| "?".to_owned(), |busy| format!("{busy:.1}"));
        let _ = writeln!(
            text,
            "{:16} {:>12} {:>12}/s {busy:>11} {:>6.0} %",
            part.part,
            units::count(part.samples_per_second as u64),
            units::bytes(part.bytes_per_second as u64),
            part.share * 100.0,
        );
    }
    let _ = write!(text, "\nwaits for: {}", report.waits_for);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(items: u64, bytes: u64, cpu: f64) -> Passed {
        Passed { items, bytes, seconds: 2.0, cpu: Some(cpu) }
    }

    #[test]
    fn each_part_adds_its_share() {
        // 1000 bytes a sample: 8000 samples/s can be read, 4000 walked, 1000 decoded.
        let rest = vec![
            ("join".to_owned(), passed(8000, 0, 1.0)),
            ("decode".to_owned(), passed(2000, 0, 3.9)),
        ];
        let parts = parts(passed(0, 16_000_000, 0.4), passed(8000, 8_000_000, 1.0), rest);
        let got: Vec<_> = parts
            .iter()
            .map(|part| (part.part.as_str(), part.samples_per_second.round(), part.share))
            .collect();
        let want = [
            ("read", 8000.0, 0.125),
            ("walk", 4000.0, 0.125),
            ("join", 4000.0, 0.0),
            ("decode", 1000.0, 0.75),
        ];
        assert_eq!(got, want);
        assert_eq!(waits_for(&parts, 2), "processors");
        assert_eq!(waits_for(&parts[..1], 2), "neither: more --workers may help");
        let slow = Part { share: 0.9, ..parts[0].clone() };
        assert_eq!(waits_for(&[slow], 2), "the store");
    }

    #[test]
    fn nothing_gives_numbers_all_the_same() {
        let parts = parts(Passed::default(), Passed::default(), Vec::new());
        assert!(parts.iter().all(|part| part.samples_per_second.is_finite()));
    }
}
