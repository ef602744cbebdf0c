//! `shardstream pack`: folders of files -> twin tars and wdinfo.json.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgAction, Args};

use super::output::{say, say_json};
use super::progress::{Progress, watch};
use super::units::{self, plural};
use crate::error::{Error, Result};
use crate::pack::{
    AddOptions, DurationBins, Existing, Input, PackOptions, PackReport, Part, ShardLimit,
    add_modality, merge, pack_with,
};

/// Exit status if all went well but some of the input was left out.
const LEFT_OUT: u8 = 3;

/// Packs folders of files into twin tars with wdinfo.json.
///
/// The input folder has a sub-folder for each modality (video, image, caption, umt5); files with the same name but for the extension are one sample.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Pack {
    /// Folder with a sub-folder for each modality
    #[arg(long, value_name = "DIR", required_unless_present_any = ["merge", "input_list", "input_shards"])]
    input_dir: Option<PathBuf>,
    /// List of samples: JSON lines or parquet, with paths by modality, `prompt` texts, `key`; may be repeated
    #[arg(long, value_name = "FILE")]
    input_list: Vec<PathBuf>,
    /// Data set of shards to pack anew, a folder or a URL; joined by key with the other inputs; may be repeated
    #[arg(long, value_name = "DIR")]
    input_shards: Vec<PathBuf>,
    /// Leave out the samples whose keys stand in this file, one a line
    #[arg(long, value_name = "FILE")]
    drop_list: Option<PathBuf>,
    /// Folder of the data set to make, or its URL: s3://, gs://, az:// (credentials come from the environment)
    #[arg(long, value_name = "DIR", required_unless_present = "add_to")]
    output_dir: Option<PathBuf>,
    /// Add the modalities of --input-dir as new twins to this data set; its tars stay as they are
    #[arg(long, value_name = "DIR", requires = "input_dir", conflicts_with_all = ["output_dir", "input_list", "input_shards", "part", "merge", "dry_run", "existing"])]
    add_to: Option<PathBuf>,
    /// Samples in a shard; alone, or with --max-shard-size-mb, whichever is reached first [default: 20 if --max-shard-size-mb is 0]
    #[arg(long, value_name = "N")]
    shard_size: Option<u64>,
    /// MiB in a shard; 0 for no such limit [default: 500, or none with --shard-size]
    #[arg(long, value_name = "MIB")]
    max_shard_size_mb: Option<u64>,
    /// Modality whose bytes count for --max-shard-size-mb, or `all`
    #[arg(long, value_name = "MODALITY", default_value = "all")]
    size_based_on: String,
    /// Keep the order of the keys
    #[arg(long)]
    no_shuffle: bool,
    /// What the shuffled order depends on
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Pack only the first N samples in order of their keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// What every key begins with, before `__` [default: name of the input folder]
    #[arg(long, value_name = "NAME")]
    dataset_name: Option<String>,
    /// Say what would be made, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave out (and report) samples with a larger file
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    max_file_size_mb: u64,
    /// In a log: a line of progress every N samples [default: every 10 seconds]
    #[arg(long, value_name = "N")]
    progress_interval: Option<u64>,
    /// Shards written at the same time [default: number of cores]
    #[arg(long, value_name = "N")]
    num_workers: Option<usize>,
    /// Shards in a folder `part_NNNNNN`; 0 for no such folders
    #[arg(long, value_name = "N", default_value_t = 1000)]
    part_size: u64,
    /// Make a folder for each class of aspect ratio (this is the default)
    #[arg(long, overrides_with = "no_classify_aspect_ratio")]
    classify_aspect_ratio: bool,
    /// Pack into one folder
    #[arg(long, action = ArgAction::SetTrue)]
    no_classify_aspect_ratio: bool,
    /// Let the EXIF orientation of a picture count for its class
    #[arg(long)]
    exif: bool,
    /// Edges of the bins of duration in seconds, for videos
    #[arg(long, value_name = "EDGES", default_value_t)]
    duration_bins: DurationBins,
    /// Pictures and videos whose headers are read at the same time [default: twice the number of cores]
    #[arg(long, value_name = "N")]
    metadata_workers: Option<usize>,
    /// Modalities to pack, in place of the known ones
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    modalities: Vec<String>,
    /// Extensions of a modality, in place of the usual ones: image=jpg,png
    #[arg(long, value_name = "MODALITY=LIST", value_parser = extensions)]
    extensions: Vec<(String, Vec<String>)>,
    /// Go on with a run that was interrupted
    #[arg(long, group = "existing")]
    resume: bool,
    /// Replace the data set that is there, shard by shard
    #[arg(long, group = "existing")]
    overwrite: bool,
    /// Remove the data set that is there first
    #[arg(long, group = "existing")]
    clean: bool,
    /// Make only part I of N, counted from 0: one of N processes
    #[arg(long, value_name = "I/N", value_parser = part)]
    part: Option<Part>,
    /// Make one part on each rank of an mpirun, and put them together at the end
    #[cfg(feature = "mpi")]
    #[arg(long, conflicts_with_all = ["part", "merge", "add_to", "dry_run"])]
    mpi: bool,
    /// Put the parts together: check that all are there and write wdinfo.json
    #[arg(long, conflicts_with_all = ["input_dir", "input_list", "input_shards", "part", "dry_run", "existing"])]
    merge: bool,
    /// What wdinfo.json says as root, in place of the absolute path of the output folder
    #[arg(long, value_name = "PATH")]
    root: Option<String>,
    /// A shard with a single sample is in order
    #[arg(long)]
    allow_singletons: bool,
    /// No progress, and nothing on stdout
    #[arg(long, short)]
    quiet: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "\
Examples:
  shardstream pack --input-dir photos --output-dir shards
  shardstream pack --input-dir photos --output-dir shards --no-classify-aspect-ratio --shard-size 1000 --seed 7
  shardstream pack --input-dir photos --output-dir shards --resume      after a crash: the same bytes as without
  for i in 0 1 2; do shardstream pack --input-dir photos --output-dir shards --part $i/3 & done; wait
  shardstream pack --output-dir shards --merge
  shardstream pack --input-dir photos --output-dir s3://bucket/shards      in parts of 8 MiB, no shard is held whole; --part, --resume as well
  mpirun -n 8 shardstream pack --mpi --input-dir photos --output-dir shards      built with the feature mpi: parts and merge in one
  shardstream pack --add-to shards --input-dir photos --modalities umt5          a new twin for every shard
  shardstream pack --input-shards shards --output-dir small --shard-size 100 --drop-list bad-keys.txt
  shardstream pack --input-shards shards --input-dir latents --modalities image,caption,latent --dataset-name photos --output-dir more

Other than PiD's packer: samples are sorted and shuffled by --seed; --shard-size works without --max-shard-size-mb 0; --size-based-on counts all
modalities; --limit takes the first keys in order; --num-workers and --metadata-workers go by the cores; extensions are known in any case, .webp, .bmp,
.gif and .tiff too; dots in keys become hyphens, as PiD's loader reads them; fractions stay in the names of duration bins; the last sample alone joins another shard; the output folder has to be empty.

To a store, killed runs may leave parts of uploads which no listing shows: let the bucket's rules remove them after some days.
What could not be packed is listed in pack_report.jsonl in the output folder.
Exit status: 0 all of the input is in the output, 3 something was left out (or a shard has a single sample), 1 failed, 2 wrong usage.";

fn part(text: &str) -> Result<Part, String> {
    let parts = text.split_once('/').and_then(|(index, parts)| {
        Some(Part { index: index.parse().ok()?, parts: parts.parse().ok()? })
    });
    parts
        .filter(|part| part.index < part.parts)
        .ok_or_else(|| "expected I/N with I from 0 to N-1, such as 0/3".to_owned())
}

fn extensions(text: &str) -> Result<(String, Vec<String>), String> {
    let (modality, list) =
        text.split_once('=').ok_or("expected MODALITY=LIST, such as image=jpg,png")?;
    Ok((
        modality.to_owned(),
        list.split(',').map(|e| e.trim_start_matches('.').to_ascii_lowercase()).collect(),
    ))
}

impl Pack {
    /// Does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let begun = Instant::now();
        let progress = Progress::new(self.quiet, self.progress_interval);
        let report = if let Some(data_set) = &self.add_to {
            let options = self.add_options(data_set);
            watch(progress, async |control| add_modality(options, control).await)?
        } else if self.merge {
            merge(self.output())?
        } else {
            match self.pack(self.options()?, progress).map_err(|error| self.hint(error))? {
                Some(report) => report,
                // Another rank tells.
                None => return Ok(ExitCode::SUCCESS),
            }
        };
        if self.json {
            say_json(&report)?;
        } else if !self.quiet {
            say(&self.describe(&report, begun.elapsed()))?;
        }
        if self.add_to.is_some() {
            for finding in &report.findings {
                super::complain(&format!("{}: {}", finding.key, finding.detail));
            }
        } else {
            for (reason, n) in report.counts() {
                let file = self.output().join("pack_report.jsonl");
                super::complain(&format!("{n} x {reason}: see {}", file.display()));
            }
        }
        Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(LEFT_OUT) })
    }

    fn pack(&self, options: PackOptions, progress: Progress) -> Result<Option<PackReport>> {
        #[cfg(feature = "mpi")]
        if self.mpi {
            return super::pack_mpi::pack(options, progress);
        }
        watch(progress, async |control| pack_with(options, control).await).map(Some)
    }

    fn output(&self) -> &Path {
        self.output_dir.as_deref().unwrap_or(Path::new(""))
    }

    fn add_options(&self, data_set: &Path) -> AddOptions {
        let input = self.input_dir.clone().unwrap_or_default();
        let mut options = AddOptions::new(data_set, input);
        options.modalities.clone_from(&self.modalities);
        options.dataset_name.clone_from(&self.dataset_name);
        options.num_workers = self.num_workers.unwrap_or(options.num_workers);
        options
    }

    /// What to do about an interruption.
    fn hint(&self, error: Error) -> Error {
        if error.message() == "interrupted" && !self.dry_run {
            return Error::pack("interrupted; the same command with --resume goes on");
        }
        error
    }

    fn options(&self) -> Result<PackOptions> {
        let mut options = PackOptions::new("", self.output());
        let folders = self.input_dir.iter().cloned().map(Input::Folders);
        let lists = self.input_list.iter().cloned().map(Input::List);
        let shards = self.input_shards.iter().cloned().map(Input::Shards);
        options.inputs = folders.chain(lists).chain(shards).collect();
        options.drop_list.clone_from(&self.drop_list);
        let mib = |n: u64| {
            n.checked_mul(1 << 20)
                .ok_or_else(|| Error::config(format!("{n} MiB are more than can be counted")))
        };
        let bytes = match (self.max_shard_size_mb, self.shard_size) {
            (Some(0), _) | (None, Some(_)) => None,
            (Some(n), _) => Some(mib(n)?),
            (None, None) => Some(500 << 20),
        };
        options.limit = ShardLimit {
            bytes,
            samples: self.shard_size.or(if bytes.is_none() { Some(20) } else { None }),
        };
        options.size_based_on =
            Some(self.size_based_on.clone()).filter(|modality| modality != "all");
        options.shuffle = !self.no_shuffle;
        options.seed = self.seed;
        options.limit_samples = self.limit;
        options.dataset_name.clone_from(&self.dataset_name);
        options.dry_run = self.dry_run;
        options.max_file_size = mib(self.max_file_size_mb)?;
        options.num_workers = self.num_workers.unwrap_or(options.num_workers);
        options.metadata_workers = self.metadata_workers.unwrap_or(options.metadata_workers);
        options.part_size = self.part_size;
        options.classify_aspect_ratio = !self.no_classify_aspect_ratio;
        options.exif = self.exif;
        options.duration_bins = self.duration_bins.clone();
        options.modalities.clone_from(&self.modalities);
        options.extensions = self.extensions.iter().cloned().collect();
        options.existing = match (self.resume, self.overwrite, self.clean) {
            (true, _, _) => Existing::Resume,
            (_, true, _) => Existing::Overwrite,
            (_, _, true) => Existing::Clean,
            _ => Existing::Refuse,
        };
        options.part = self.part;
        options.root.clone_from(&self.root);
        options.allow_singletons = self.allow_singletons;
        Ok(options)
    }

    fn describe(&self, report: &PackReport, took: Duration) -> String {
        let verb = if self.dry_run { "would pack" } else { "packed" };
        let (samples, shards) = (plural(report.samples, "sample"), plural(report.shards, "shard"));
        let mut lines = vec![format!(
            "{verb} {samples} of {} into {shards}, {}, in {:.1} s",
            report.modalities.join(" + "),
            units::bytes(report.bytes),
            took.as_secs_f64()
        )];
        if report.resumed_shards > 0 {
            lines.push(format!("  {} from an earlier run", plural(report.resumed_shards, "shard")));
        }
        for (bucket, samples) in report.buckets.iter().filter(|(bucket, _)| !bucket.is_empty()) {
            lines.push(format!("  {bucket}: {}", plural(*samples, "sample")));
        }
        if report.not_wanted > 0 {
            lines.push(format!("  {} not wanted", plural(report.not_wanted, "sample")));
        }
        if !report.other_folders.is_empty() {
            lines.push(format!(
                "  other folders of the input, not packed (name them with --modalities): {}",
                report.other_folders.join(", ")
            ));
        }
        if let Some(part) = self.part.filter(|_| !self.dry_run) {
            lines.push(format!(
                "  part {} of {}: when all are there, --merge writes wdinfo.json",
                part.index, part.parts
            ));
        }
        lines.join("\n")
    }
}
