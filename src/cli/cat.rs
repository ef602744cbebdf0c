//! `shardstream cat`: samples as JSON lines, through the real loader.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args as ClapArgs, ValueEnum};
use futures::StreamExt;

use super::data::Data;
use super::sample_json::{describe, line};
use crate::checkpoint::Checkpoint;
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::loader::{Builder, Lane, Loader, OnError, travel};
use crate::progress::LaneProgress;
use crate::recipe;
use crate::sample::key::KeyRule;
use crate::sample::{Batch, Fields};
use crate::shard::{EpochOrder, KeyIndex, Manifest, Order, Tail};
use crate::stages::{KeyList, MemberStream, SampleStream, ShardStream, TwinStream};
use crate::store::Stores;
use crate::topology::Rank;

/// Print samples as JSON lines, through the real loader.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  shardstream cat data/                               every sample of a data set
  shardstream cat --decode shards-{000000..000009}.tar
  shardstream cat --rank 1 --world-size 4 --workers 2 --shuffle 1000 --batch 64 --seed 7 data/")]
pub(crate) struct Args {
    #[command(flatten)]
    data: Data,
    /// Key index (parquet): which keys are wanted; with a single shard in this order. A folder holds one for each shard.
    #[arg(long, value_name = "FILE")]
    index: Option<String>,
    /// What to do about faults.
    #[arg(long, value_enum, default_value_t = Policy::Stop)]
    on_error: Policy,
    /// Inside a broken tar go on at the next good header, instead of giving up the rest of the shard.
    #[arg(long)]
    resync: bool,
    /// Where the key ends in a member's name.
    #[arg(long, value_enum, default_value_t = Names::Webdataset)]
    key_rule: Names,
    /// Decode the fields.
    #[arg(long)]
    decode: bool,
    /// With --decode: the pixels of pictures too, as hex.
    #[arg(long, requires = "decode")]
    pixels: bool,
    /// Turn pictures upright as their EXIF data says.
    #[arg(long, requires = "decode")]
    orient: bool,
    /// Which rank.
    #[arg(long, default_value_t = 0)]
    rank: u32,
    /// Number of ranks.
    #[arg(long, default_value_t = 1)]
    world_size: u32,
    /// Workers of each rank.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Lanes over all ranks (ranks times workers).
    #[arg(long)]
    lanes: Option<u32>,
    /// Seed of every order (0).
    #[arg(long)]
    seed: Option<u64>,
    /// Epoch to show.
    #[arg(long)]
    epoch: Option<u64>,
    /// Begin where PiD would go on by `WDS_EPOCH_NUM` and `WDS_START_INDEX`: whole shards are left out; a warning says what is seen again.
    #[arg(long, conflicts_with_all = ["epoch", "resume", "lane"])]
    legacy_start: bool,
    /// Shuffle samples with this mean delay, and shards.
    #[arg(long, value_name = "N")]
    shuffle: Option<u64>,
    /// Keep the shards in listed order in spite of --shuffle.
    #[arg(long)]
    no_shuffle_shards: bool,
    /// Samples in a batch; each line then also says lane and `lane_batch`.
    #[arg(long, value_name = "B")]
    batch: Option<usize>,
    /// Stop after so many batches.
    #[arg(long, value_name = "N")]
    batches: Option<u64>,
    /// Show this lane, from the batch that --lane-batch names on (one batch, unless --batches says more), without reading what
    /// comes before it. Needs counts in wdinfo.json to do so; faults before it are not known of.
    #[arg(long, value_name = "L", requires_all = ["lane_batch", "batch"], conflicts_with_all = ["resume", "rank", "world_size"])]
    lane: Option<u32>,
    /// Number of the batch in its lane in this epoch, from 0.
    #[arg(long, value_name = "T", requires = "lane")]
    lane_batch: Option<u64>,
    /// Write a checkpoint here at the end.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Write the checkpoint at the start and after every N batches too.
    #[arg(long, value_name = "N", requires = "checkpoint")]
    checkpoint_every: Option<u64>,
    /// Pass over settled samples by the indexes that `shardstream index` wrote, in DIR or where it writes by default.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["index", "key_rule", "resync"])]
    sample_index: Option<Option<String>>,
    /// Go on from these parts of a checkpoint.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    resume: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// The first fault ends the run.
    Stop,
    /// What is broken is left out, counted and named.
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    /// At the first dot of the last path part.
    Webdataset,
    /// At the last dot, with dashes in place of other dots, as the loader PiD renames.
    Pid,
}

type Lines = Batch<Vec<String>>;

/// What is done with each lane: the chain, with the options.
#[derive(Debug, Clone)]
struct Chain {
    stores: Stores,
    sample_index: Option<Option<String>>,
    keys: Option<KeyList>,
    key_rule: KeyRule,
    resync: bool,
    decoder: Option<Decoder>,
    pixels: bool,
    shuffle: Option<u64>,
    shuffle_shards: bool,
    batch: usize,
}

impl Chain {
    fn build(&self, lane: &Lane) -> futures::stream::BoxStream<'static, Result<Lines>> {
        let mut shards = lane.shard_list();
        if self.shuffle_shards {
            shards = shards.shuffle_shards();
        }
        let shards = shards.split_by_rank().split_by_worker();
        let mut twins = shards.open_twins(self.stores.clone());
        if let Some(folder) = &self.sample_index {
            twins = twins.sample_index(folder.as_deref());
        }
        let mut members = twins.expand();
        if let Some(keys) = &self.keys {
            members = members.keys(keys.clone());
        }
        if self.key_rule != KeyRule::default() {
            members = members.key_rule(self.key_rule);
        }
        if self.resync {
            members = members.resync(true);
        }
        let samples = members.group_by_keys();
        let (decoder, pixels) = (self.decoder.clone(), self.pixels);
        recipe::note(|| format!("cat(decode {})", decoder.is_some()));
        let text = move |fields: Fields<Bytes>, _: &mut crate::random::Rng| {
            describe(fields, decoder.as_ref(), pixels)
        };
        match self.shuffle {
            Some(n) if n > 0 => samples.shuffle(n).augment(text).batch(self.batch).boxed(),
            _ => samples.augment(text).batch(self.batch).boxed(),
        }
    }
}

impl Args {
    fn builder(
        &self,
        manifest: &Manifest,
        stores: Stores,
        keys: Option<KeyList>,
    ) -> Result<Builder<Lines>> {
        let decoder = self.decode.then(|| Decoder::default().orient(self.orient));
        let shuffle_shards = self.shuffle.is_some() && !self.no_shuffle_shards;
        let batch = self.batch.unwrap_or(1);
        if batch == 0 {
            return Err(Error::config("--batch 0: a batch has at least one sample"));
        }
        let chain = Chain {
            stores,
            sample_index: self.sample_index.clone(),
            keys,
            key_rule: match self.key_rule {
                Names::Webdataset => KeyRule::WebDataset,
                Names::Pid => KeyRule::Pid,
            },
            resync: self.resync,
            decoder,
            pixels: self.pixels,
            shuffle: self.shuffle,
            shuffle_shards,
            batch,
        };
        let mut builder = Loader::builder(manifest, move |lane: &Lane| chain.build(lane));
        builder = builder.rank(Rank::new(self.rank, self.world_size)?).workers(self.workers);
        // To look at data nobody waits for anybody.
        builder = builder.allow_uneven().on_error(match self.on_error {
            Policy::Stop => OnError::Stop,
            Policy::Skip => OnError::skip(),
        });
        if let Some(lanes) = self.lanes {
            builder = builder.lanes(lanes);
        }
        if let Some(seed) = self.seed {
            builder = builder.seed(seed);
        }
        Ok(builder)
    }

    /// The key index, if one was given.
    async fn keys(&self, manifest: &Manifest, stores: &Stores) -> Result<Option<KeyList>> {
        let Some(path) = &self.index else { return Ok(None) };
        if path.ends_with('/') || std::fs::metadata(path).is_ok_and(|found| found.is_dir()) {
            return Ok(Some(KeyList::Folder(Arc::new(stores.clone()), path.clone())));
        }
        let index = Arc::new(KeyIndex::load(stores, path).await?);
        Ok(Some(if manifest.len() == 1 { KeyList::Shard(index) } else { KeyList::All(index) }))
    }

    async fn loader(&self) -> Result<Loader<Lines>> {
        let (stores, manifest) = self.data.load().await?;
        let keys = self.keys(&manifest, &stores).await?;
        let builder = self.builder(&manifest, stores, keys)?;
        if let (Some(lane), Some(batch)) = (self.lane, self.lane_batch) {
            return self.travel(&manifest, builder, lane, batch).await;
        }
        if self.legacy_start {
            return builder.legacy_start(super::legacy_start()?).start();
        }
        if self.resume.is_empty() {
            return builder.first_epoch(self.epoch.unwrap_or(0)).start();
        }
        let parts = self.resume.iter().map(Checkpoint::load).collect::<Result<Vec<_>>>()?;
        let epochs = parts.iter().flat_map(|part| part.lanes().map(|(_, progress)| progress.epoch));
        let epoch = self.epoch.unwrap_or_else(|| epochs.min().unwrap_or(0));
        builder.first_epoch(epoch).resume(parts)
    }
}

impl Args {
    /// A loader of one lane that begins at one of its batches.
    async fn travel(
        &self,
        manifest: &Manifest,
        builder: Builder<Lines>,
        lane: u32,
        batch: u64,
    ) -> Result<Loader<Lines>> {
        let lanes = self.lanes.unwrap_or(self.workers);
        if lane >= lanes {
            return Err(Error::config(format!(
                "lane {lane} of {lanes} lanes: say how many with --lanes"
            )));
        }
        let (seed, epoch) = (self.seed.unwrap_or(0), self.epoch.unwrap_or(0));
        // A rank for each lane: this one runs just ours.
        let builder =
            builder.rank(Rank::new(lane, lanes)?).workers(1).lanes(lanes).first_epoch(epoch);
        let order = if self.shuffle.is_some() && !self.no_shuffle_shards {
            Order::Shuffled { seed }
        } else {
            Order::Listed
        };
        let order = EpochOrder::new(order, Tail::default(), manifest.len(), lanes, epoch, 0)?;
        let samples = batch.saturating_mul(self.batch.unwrap_or(1) as u64);
        let chain = travel::Chain { seed, epoch, lane, shuffle: self.shuffle.filter(|&n| n > 0) };
        if manifest.has_counts() && self.index.is_none() {
            let progress = travel::after(manifest, &order, chain, samples);
            let progress = progress.ok_or_else(|| {
                Error::config(format!("lane {lane} has no batch {batch} in epoch {epoch}"))
            })?;
            return builder.start_at(
                lanes,
                [(lane, LaneProgress { batches: batch, turns: batch, ..progress })].into(),
            );
        }
        tracing::warn!("no counts in the manifest: what comes before the batch is read");
        let mut loader = builder.start()?;
        for passed in 0..batch {
            if loader.next().await.transpose()?.is_none() {
                return Err(Error::config(format!(
                    "lane {lane} has only {passed} batches in epoch {epoch}"
                )));
            }
        }
        Ok(loader)
    }

    /// How many batches are printed at most.
    fn most(&self) -> Option<u64> {
        self.batches.or(self.lane.map(|_| 1))
    }
}

/// Where lines go. Somebody who has read enough (`head`) is no fault.
struct Out(BufWriter<io::StdoutLock<'static>>);

impl Out {
    /// Writes; false if nobody reads any more.
    fn write(&mut self, text: &str) -> Result<bool> {
        Self::heard(self.0.write_all(text.as_bytes()))
    }

    fn flush(&mut self) -> Result<bool> {
        Self::heard(self.0.flush())
    }

    fn heard(result: io::Result<()>) -> Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Error::config("can't write to stdout").with_source(error)),
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let mut loader = args.loader().await?;
    let mut out = Out(BufWriter::new(io::stdout().lock()));
    let result = copy(&args, &mut loader, &mut out).await;
    out.flush()?;
    let code = result?;
    if let Some(path) = &args.checkpoint {
        loader.checkpoint().save(path)?;
    }
    let stats = loader.stats();
    if stats.faults > 0 {
        tracing::warn!("{} faults were skipped; {} samples came out", stats.faults, stats.samples);
    }
    Ok(code)
}

/// Prints batches until the end, the number asked for, or Ctrl-C.
async fn copy(args: &Args, loader: &mut Loader<Lines>, out: &mut Out) -> Result<ExitCode> {
    let mut batches = 0;
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    if let (Some(_), Some(path)) = (args.checkpoint_every, &args.checkpoint) {
        loader.checkpoint().save(path)?;
    }
    while args.most().is_none_or(|most| batches < most) {
        let before: Vec<_> =
            loader.lanes().map(|(id, lane)| (id, lane.epoch, lane.batches)).collect();
        let next = tokio::select! {
            biased;
            _ = &mut interrupt => {
                super::complain(&"interrupted; what was printed is whole");
                return Ok(ExitCode::from(130));
            }
            next = loader.next() => next,
        };
        let Some(batch) = next.transpose()? else { break };
        // The lane whose counter moved is the one that it came from.
        let now = loader.lanes().map(|(id, lane)| (id, lane.epoch, lane.batches));
        let moved = now
            .zip(&before)
            .find(|(now, before)| now != *before)
            .map(|((id, _, batches), _)| (id, batches - 1));
        for (head, fields) in batch.heads.iter().zip(&batch.data) {
            if !out.write(&line(head, fields, moved.filter(|_| args.batch.is_some())))? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        batches += 1;
        if let (Some(every), Some(path)) = (args.checkpoint_every, &args.checkpoint)
            && batches % every.max(1) == 0
        {
            // First the lines, then the checkpoint that says that they are out.
            if !out.flush()? {
                return Ok(ExitCode::SUCCESS);
            }
            loader.checkpoint().save(path)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
