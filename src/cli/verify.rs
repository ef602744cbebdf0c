//! `shardstream verify`: what is wrong with a data set.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::output::{say, say_json};
use super::progress::{Progress, watch};
use super::units::{self, plural};
use crate::error::Result;
use crate::pack::{VerifyOptions, verify};

/// Checks the twins of every shard against each other and against wdinfo.json.
///
/// Finds everything in one pass: keys, order, counts, sizes, checksums, broken tars, shards that are missing or not listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  shardstream verify shards
  shardstream verify shards --decode --num-workers 16
  shardstream verify shards --fix-manifest
  shardstream verify s3://bucket/shards
  shardstream verify shards/image/part_000000/000000.tar

Exit status: 0 nothing is wrong (or all of it was fixed), 1 something is.")]
pub(crate) struct Verify {
    /// A data set: a folder or a URL with wdinfo.json in it or below it. Or a single tar
    #[arg(value_name = "DIR|TAR")]
    path: PathBuf,
    /// Decode every field, too
    #[arg(long)]
    decode: bool,
    /// Don't compute checksums
    #[arg(long)]
    no_checksums: bool,
    /// Shards read at the same time [default: number of cores]
    #[arg(long, value_name = "N")]
    num_workers: Option<usize>,
    /// Write wdinfo.json anew from the shards that are sound, if anything in it is wrong. A tar of the listed size with another checksum is not sound
    #[arg(long)]
    fix_manifest: bool,
    /// No progress; only what is wrong
    #[arg(long, short)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    /// Does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut options = VerifyOptions::new(&self.path);
        options.checksums = !self.no_checksums;
        options.decode = self.decode;
        options.fix_manifest = self.fix_manifest;
        options.num_workers = self.num_workers.unwrap_or(options.num_workers);
        let progress = Progress::new(self.quiet, None);
        let report = watch(progress, async |control| verify(options, control).await)?;
        if self.json {
            say_json(&report)?;
        } else {
            for fault in &report.faults {
                let fixed = if fault.fixed { " (fixed)" } else { "" };
                super::complain(&format!("{}: {}{fixed}", fault.place, fault.detail));
            }
            if !self.quiet {
                let found = match report.faults.len() as u64 {
                    0 => "nothing wrong".to_owned(),
                    n => plural(n, "fault"),
                };
                say(&format!(
                    "{}, {}, {} in {}: {found}",
                    plural(report.shards, "shard"),
                    plural(report.samples, "sample"),
                    units::bytes(report.bytes),
                    plural(report.folders, "folder"),
                ))?;
            }
        }
        Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
