//! `shardstream certify`: whether an epoch was covered exactly once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::output::{say, say_json};
use crate::certificate::{Certificate, certify};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::progress::Late;
use crate::shard::{DataSet, Manifest};
use crate::store::{StoreOptions, Stores};

/// Say whether an epoch was covered exactly once, from the parts of a checkpoint taken at its end.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  shardstream certify rank*.json                  all lanes ended, what was skipped or repeated
  shardstream certify --data data/ rank*.json     and exactly the samples that wdinfo.json counts")]
pub(crate) struct Args {
    /// The parts that the ranks wrote.
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// The data set: with the counts of its wdinfo.json the positions settled are compared with those that should be.
    #[arg(long, value_name = "SHARD", num_args = 1..)]
    data: Vec<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    async fn manifest(&self) -> Result<Option<Manifest>> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let stores = Stores::new(StoreOptions::default())?;
        DataSet::at_all(&self.data).load(&stores).await.map(Some)
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let parts = args.parts.iter().map(Checkpoint::load).collect::<Result<Vec<_>>>()?;
    let certificate = certify(parts, args.manifest().await?.as_ref())?;
    if args.json {
        say_json(&certificate)?;
    } else {
        say(&describe(&certificate))?;
    }
    Ok(if certificate.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(c: &Certificate) -> String {
    let mut lines = vec![format!(
        "epoch {}: {}",
        c.epoch,
        if c.is_complete() { "covered exactly once" } else { "NOT covered exactly once" }
    )];
    lines.push(format!(
        "  {} samples delivered (of which {} repeated by padding), {} skipped, {} dropped without a word",
        c.delivered, c.repeated, c.skipped, c.silent
    ));
    if c.kept > 0 {
        lines.push(format!("  {} kept in buckets for the epoch that follows", c.kept));
    }
    if c.late != Late::default() {
        lines.push(format!(
            "  of those that the epoch before had kept: {} delivered, {} skipped, {} dropped without a word",
            c.late.delivered, c.late.skipped, c.late.silent
        ));
        lines.extend(c.late.skips.iter().map(|skip| {
            format!(
                "    skipped: shard at place {}, sample {}: {}",
                skip.place, skip.index, skip.reason
            )
        }));
    }
    if !c.ended {
        lines.push(format!("  lanes that have not ended in it: {:?}", c.lanes_open));
    }
    let or_kept = if c.kept > 0 { " or kept" } else { "" };
    match &c.expected {
        Some(expected) if *expected == c.digest => lines.push(format!("  exactly the positions that the manifest counts were settled{or_kept}")),
        Some(expected) => lines.push(format!("  {} positions were settled{or_kept}, the manifest counts {}", c.digest.count, expected.count)),
        None => lines.push("  the manifest was not given, or does not count samples: what should have come is not known".into()),
    }
    if let Some(dropped) = c.shards_dropped.filter(|&dropped| dropped > 0) {
        lines.push(format!("  {dropped} shards left out by the tail policy"));
    }
    lines.extend(c.skips.iter().map(|skip| {
        format!("  skipped: shard at place {}, sample {}: {}", skip.place, skip.index, skip.reason)
    }));
    let hidden = c.skipped - (c.skips.len() as u64).min(c.skipped);
    if hidden > 0 {
        lines.push(format!("  and {hidden} more skipped"));
    }
    lines.join("\n")
}
