//! `shardstream plan`: which rank and worker reads which shard, steps per epoch, why not.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::data::Data;
use crate::error::{Error, Result};
use crate::shard::{LegacyStart, Manifest, Order, Plan, PlanParams, Share, Tail};
use crate::topology::{Rank, Worker};

/// Says which rank and worker reads which shard in an epoch, and how many steps that makes. Reads no shard.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  shardstream plan shards/ --world-size 8 --workers 4 --batch-size 64
  shardstream plan shards/ --world-size 8 --workers 4 --batch-size 64 --steps 1000 --epoch 3 --seed 7
  shardstream plan shards/ --world-size 8 --workers 4 --allow-uneven --rank 3 --json")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    data: Data,
    /// Processes that share the data.
    #[arg(long, default_value_t = 1, value_name = "N")]
    world_size: u32,
    /// Workers of each process.
    #[arg(long, default_value_t = 1, value_name = "N")]
    workers: u32,
    /// Lanes, if the run began with another world size: its ranks times its workers.
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Processes that share one model by tensor parallelism, and so get the same batches.
    #[arg(long, default_value_t = 1, value_name = "N")]
    tensor_parallel: u32,
    /// The same for context parallelism.
    #[arg(long, default_value_t = 1, value_name = "N")]
    context_parallel: u32,
    /// The same for pipeline parallelism.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pipeline_parallel: u32,
    /// Seed of the order.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Epoch, from 0.
    #[arg(long, default_value_t = 0, value_name = "N")]
    epoch: u64,
    /// How shards are ordered.
    #[arg(long, value_enum, default_value_t = OrderArg::Shuffled)]
    order: OrderArg,
    /// Leaves the shards in the order in which they are listed.
    #[arg(long)]
    no_shuffle_shards: bool,
    /// What happens to the last shards if they don't fill a round of the workers.
    #[arg(long, value_enum, default_value_t = TailArg::Pad)]
    tail: TailArg,
    /// Samples in a batch.
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Leaves out short batches.
    #[arg(long)]
    drop_last: bool,
    /// Fixed steps in an epoch, the same for all ranks.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Plans even if ranks could end at different steps.
    #[arg(long)]
    allow_uneven: bool,
    /// Says what a loader leaves out that begins where PiD would go on by `WDS_EPOCH_NUM` and `WDS_START_INDEX`.
    #[arg(long, conflicts_with = "epoch")]
    legacy_start: bool,
    /// Shows this rank only.
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// For programs.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OrderArg {
    /// Permuted by seed and epoch.
    Shuffled,
    /// Drawn with replacement.
    Resampled,
    /// As PiD orders them.
    Pid,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TailArg {
    /// Repeats shards from the head.
    Pad,
    /// Leaves the last shards out.
    Drop,
    /// Gives some workers more than others.
    Uneven,
}

impl PlanArgs {
    /// What the environment says of an earlier run, if it is asked for.
    fn legacy(&self) -> Result<Option<LegacyStart>> {
        if self.legacy_start { super::legacy_start().map(Some) } else { Ok(None) }
    }

    fn params(&self) -> Result<PlanParams> {
        let ranks = Rank::new(0, self.world_size)?;
        let groups = ranks.data_parallel(
            self.tensor_parallel,
            self.context_parallel,
            self.pipeline_parallel,
        )?;
        let mut params = PlanParams::new(groups.world_size(), self.workers);
        params.lanes = self.lanes;
        params.order = match self.order {
            OrderArg::Pid => Order::Pid {
                world_size: params.world_size,
                num_workers: params.num_workers,
                shuffle: !self.no_shuffle_shards,
            },
            _ if self.no_shuffle_shards => Order::Listed,
            OrderArg::Shuffled => Order::Shuffled { seed: self.seed },
            OrderArg::Resampled => Order::Resampled { seed: self.seed },
        };
        params.tail = match self.tail {
            TailArg::Pad => Tail::Pad,
            TailArg::Drop => Tail::Drop,
            TailArg::Uneven => Tail::Uneven,
        };
        params.epoch = self.legacy()?.map_or(self.epoch, |start| start.epoch);
        if self.batch_size == Some(0) || self.steps == Some(0) {
            return Err(Error::config("--batch-size and --steps count from 1"));
        }
        params.batch = self.batch_size;
        params.drop_last = self.drop_last;
        params.steps = self.steps;
        params.allow_uneven = self.allow_uneven;
        Ok(params)
    }
}

#[derive(Debug, Serialize)]
struct Report {
    manifest: String,
    shards: u64,
    samples: Option<u64>,
    epoch: u64,
    lanes: u32,
    tail: Tail,
    /// Steps of every rank, if they are known and the same.
    steps: Option<u64>,
    repeated: u64,
    dropped: Vec<String>,
    uneven: Vec<String>,
    /// With --legacy-start: shards that each lane leaves out at its head, and samples that each rank sees again.
    #[serde(skip_serializing_if = "Option::is_none")]
    legacy_start: Option<LegacyReport>,
    ranks: Vec<RankReport>,
    workers: Vec<WorkerReport>,
}

#[derive(Debug, Serialize)]
struct LegacyReport {
    shards_of_lane: u64,
    repeated_samples: u64,
}

#[derive(Debug, Serialize)]
struct RankReport {
    rank: u32,
    shards: u64,
    repeats: u64,
    samples: Option<u64>,
    steps: Option<u64>,
}

#[derive(Debug, Serialize)]
struct WorkerReport {
    rank: u32,
    worker: u32,
    lanes: Vec<u32>,
    samples: Option<u64>,
    shards: Vec<String>,
    /// Which of the shards are padding, by their number in the list.
    repeats: Vec<usize>,
}

impl Report {
    fn new(manifest: &Manifest, plan: &Plan, only: Option<u32>) -> Result<Self> {
        let params = plan.params();
        let ranks = match only {
            Some(rank) => vec![Rank::new(rank, params.world_size)?],
            None => (0..params.world_size)
                .map(|rank| Rank::new(rank, params.world_size))
                .collect::<Result<_>>()?,
        };
        let mut workers = Vec::new();
        for &rank in &ranks {
            for worker in 0..params.num_workers {
                workers.push(WorkerReport::new(
                    manifest,
                    plan,
                    rank,
                    Worker::new(worker, params.num_workers)?,
                ));
            }
        }
        Ok(Self {
            manifest: manifest.hash().to_owned(),
            shards: manifest.len(),
            samples: manifest.total_samples(),
            epoch: params.epoch,
            lanes: plan.order().lanes(),
            tail: params.tail,
            steps: plan.steps(),
            repeated: plan.repeated(),
            dropped: plan.order().dropped().map(|shard| manifest.path(shard)).collect(),
            uneven: plan.uneven().to_vec(),
            legacy_start: None,
            ranks: ranks.iter().map(|&rank| RankReport::new(rank, plan.of_rank(rank))).collect(),
            workers,
        })
    }

    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { shards, epoch, lanes, tail, .. } = self;
        writeln!(
            out,
            "epoch {epoch}: {shards} shards, {} samples, {lanes} lanes, tail {tail}",
            known(self.samples)
        )?;
        writeln!(
            out,
            "{:>6} {:>6} {:>10} {:>10} {:>12} {:>10}",
            "rank", "worker", "shards", "repeated", "samples", "steps"
        )?;
        for rank in &self.ranks {
            for worker in self.workers.iter().filter(|worker| worker.rank == rank.rank) {
                let (shards, repeats) = (worker.shards.len(), worker.repeats.len());
                let samples = known(worker.samples);
                writeln!(
                    out,
                    "{:>6} {:>6} {shards:>10} {repeats:>10} {samples:>12}",
                    rank.rank, worker.worker
                )?;
            }
            let RankReport { rank, shards, repeats, samples, steps } = rank;
            let (samples, steps) = (known(*samples), known(*steps));
            writeln!(
                out,
                "{rank:>6} {:>6} {shards:>10} {repeats:>10} {samples:>12} {steps:>10}",
                "all"
            )?;
        }
        if self.repeated > 0 {
            writeln!(
                out,
                "repeated: {} shards from the head of the order fill the last round",
                self.repeated
            )?;
        }
        if !self.dropped.is_empty() {
            writeln!(
                out,
                "dropped: {} shards are not read: {}",
                self.dropped.len(),
                self.dropped.join(" ")
            )?;
        }
        if let Some(LegacyReport { shards_of_lane, repeated_samples }) = &self.legacy_start {
            writeln!(
                out,
                "legacy start: each lane leaves out its first {shards_of_lane} shards, each rank sees about {repeated_samples} samples again"
            )?;
        }
        for reason in &self.uneven {
            writeln!(out, "uneven: {reason}")?;
        }
        match self.steps {
            Some(steps) => writeln!(out, "steps: {steps} for every rank"),
            None => Ok(()),
        }
    }
}

impl RankReport {
    const fn new(rank: Rank, share: Share) -> Self {
        let Share { shards, repeats, samples, steps } = share;
        Self { rank: rank.rank(), shards, repeats, samples, steps }
    }
}

impl WorkerReport {
    fn new(manifest: &Manifest, plan: &Plan, rank: Rank, worker: Worker) -> Self {
        let planned: Vec<_> = plan.shards(rank, worker).collect();
        Self {
            rank: rank.rank(),
            worker: worker.worker(),
            lanes: worker.lanes(rank, plan.order().lanes()).collect(),
            samples: plan.of_worker(rank, worker).samples,
            shards: planned.iter().map(|planned| manifest.path(planned.shard)).collect(),
            repeats: planned
                .iter()
                .enumerate()
                .filter(|(_, planned)| planned.repeat)
                .map(|(i, _)| i)
                .collect(),
        }
    }
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::task("the runtime can't start").with_source(e))?;
    let (_, manifest) = runtime.block_on(args.data.load())?;
    let plan = Plan::new(&manifest, args.params()?)?;
    let mut report = Report::new(&manifest, &plan, args.rank)?;
    if let Some(start) = args.legacy()? {
        let skip = start.of_run(
            &manifest,
            plan.params().tail,
            plan.order().lanes(),
            plan.params().world_size,
        )?;
        report.legacy_start = Some(LegacyReport {
            shards_of_lane: skip.shards_of_lane,
            repeated_samples: skip.repeated_samples,
        });
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match args.json {
        true => serde_json::to_writer(&mut out, &report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        false => report.write_table(&mut out),
    };
    match written.and_then(|()| out.flush()) {
        // Who closes the pipe has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::task("standard output").with_source(error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
