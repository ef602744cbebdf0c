//! `shardstream info`: what a data set holds.

use std::collections::BTreeMap;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use futures::StreamExt;
use serde::Serialize;

use super::data::Data;
use super::output::{say, say_json};
use super::units::{self, count, plural};
use crate::error::Result;
use crate::pack::{ASPECT_RATIOS, Dimensions, aspect_ratio, picture_dimensions};
use crate::sample::{Fields, Sample};
use crate::shard::{Manifest, Shard};
use crate::stages::{MemberStream, ShardStream, TwinStream, shard_list};
use crate::store::{Store, Stores};

/// Sizes of more tars than this are not asked for; the mean of so many stands for all.
const HEADS: u64 = 2000;
/// Bars of a histogram are at most so wide.
const BAR: usize = 40;

/// Shows what a data set holds.
///
/// Shards, samples, bytes, fields, sizes and aspect ratios. Counts come from wdinfo.json; fields from some shards, evenly spread.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  shardstream info shards/
  shardstream info shards/ --all-shards --json
  shardstream info shards/ --batch 64 --world-size 8 --workers 4 --shuffle 1000    steps and memory, too")]
pub(crate) struct Info {
    #[command(flatten)]
    data: Data,
    /// Look into so many shards for the fields
    #[arg(long, value_name = "N", default_value_t = 4)]
    look_into: u64,
    /// Look into all shards
    #[arg(long)]
    all_shards: bool,
    /// Samples in a batch: tells steps and memory
    #[arg(long, value_name = "B")]
    batch: Option<u64>,
    /// Number of ranks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    world_size: u64,
    /// Workers of each rank
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    workers: u64,
    /// Mean number of samples in each worker's shuffle buffer
    #[arg(long, value_name = "N", default_value_t = 0)]
    shuffle: u64,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Facts {
    folders: u64,
    shards: u64,
    /// `None` if the manifests have no counts and not all shards were looked into.
    samples: Option<u64>,
    bytes: Option<u64>,
    /// Whether `bytes` is the mean of some tars times their number.
    bytes_estimated: bool,
    modalities: Vec<String>,
    shards_looked_into: u64,
    samples_looked_into: u64,
    fields: BTreeMap<String, Field>,
    aspect_ratios: BTreeMap<String, u64>,
    faults: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
}

#[derive(Debug, Default, Serialize)]
struct Field {
    samples: u64,
    bytes: u64,
    smallest: u64,
    largest: u64,
    /// Values with at least 2^n and less than 2^(n+1) bytes, by n; empty ones are counted with those of one byte.
    sizes: BTreeMap<u32, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pictures: Option<Pictures>,
}

#[derive(Debug, Default, Serialize)]
struct Pictures {
    smallest: (u32, u32),
    largest: (u32, u32),
    pixels: u64,
    counted: u64,
}

/// What a run with these numbers would be like.
#[derive(Debug, Serialize)]
struct Run {
    /// Whole batches of each rank in an epoch, if shards were divided evenly.
    steps: Option<u64>,
    /// Encoded bytes in the shuffle buffers of a rank.
    shuffle_bytes: u64,
    /// A batch of decoded pictures, 3 bytes a pixel.
    batch_bytes: u64,
}

/// Runs the command.
pub(crate) async fn run(info: Info) -> Result<ExitCode> {
    let (stores, manifest) = info.data.load().await?;
    let mut facts = Facts {
        folders: manifest.leaves().len() as u64,
        shards: manifest.len(),
        samples: manifest.total_samples(),
        ..Facts::default()
    };
    let modalities = manifest.leaves().iter().flat_map(|leaf| leaf.modalities());
    facts.modalities = modalities.map(ToString::to_string).collect();
    facts.modalities.sort();
    facts.modalities.dedup();
    bytes(&mut facts, &manifest, &stores).await?;
    let wanted = if info.all_shards { manifest.len() } else { info.look_into };
    look_into(&mut facts, &manifest, &stores, wanted).await;
    if facts.samples.is_none()
        && facts.shards_looked_into == facts.shards
        && facts.faults.is_empty()
    {
        facts.samples = Some(facts.samples_looked_into);
    }
    facts.run = info.batch.map(|batch| info.estimate(&facts, batch));
    if info.json {
        say_json(&facts)?;
    } else {
        say(&info.describe(&facts))?;
        for fault in &facts.faults {
            super::complain(fault);
        }
    }
    Ok(if facts.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Evenly spread numbers below `n`, at most `wanted` of them.
fn spread(n: u64, wanted: u64) -> impl Iterator<Item = u64> {
    let wanted = wanted.min(n);
    (0..wanted).map(move |i| {
        u64::try_from(u128::from(i) * u128::from(n) / u128::from(wanted)).unwrap_or(0)
    })
}

async fn bytes(facts: &mut Facts, manifest: &Manifest, stores: &Stores) -> Result<()> {
    let mut paths = Vec::new();
    for shard in spread(manifest.len(), HEADS) {
        let (leaf, path) = (manifest.leaf(shard), manifest.path(shard));
        if leaf.modalities().is_empty() {
            paths.push(leaf.tar_path(&path));
        }
        paths.extend(leaf.modalities().iter().map(|modality| leaf.twin_path(modality, &path)));
    }
    let asked = paths.len() as u64;
    let mut sizes = futures::stream::iter(paths)
        .map(|path| async move { (stores.head(&path).await, path) })
        .buffer_unordered(16);
    let mut sum = Some(0u64);
    while let Some((head, path)) = sizes.next().await {
        match head {
            Ok(meta) => sum = sum.zip(meta.size).map(|(sum, size)| sum + size),
            Err(error) => {
                facts.faults.push(error.in_shard(path).to_string());
                sum = None;
            }
        }
    }
    facts.bytes_estimated = manifest.len() > HEADS;
    facts.bytes = match sum {
        Some(sum) if facts.bytes_estimated => {
            let shards = spread(manifest.len(), HEADS).count() as u64;
            let mean = sum as f64 / shards as f64;
            Some((mean * manifest.len() as f64) as u64)
        }
        sum => sum.filter(|_| asked > 0),
    };
    Ok(())
}

async fn look_into(facts: &mut Facts, manifest: &Manifest, stores: &Stores, wanted: u64) {
    let places: Vec<u64> = spread(manifest.len(), wanted).collect();
    facts.shards_looked_into = places.len() as u64;
    let shards = shard_list(manifest).filter(move |shard: &Result<Shard>| {
        let chosen =
            shard.as_ref().map_or(true, |shard| places.binary_search(&shard.place).is_ok());
        std::future::ready(chosen)
    });
    let mut samples = Box::pin(shards.open_twins(stores.clone()).expand().group_by_keys());
    while let Some(sample) = samples.next().await {
        match sample {
            Ok(sample) => facts.add(sample),
            Err(error) => facts.faults.push(error.to_string()),
        }
    }
}

impl Facts {
    fn add(&mut self, sample: Sample<Fields<Bytes>>) {
        self.samples_looked_into += 1;
        let mut counted = false;
        for (name, bytes) in sample.body {
            let size = bytes.len() as u64;
            let field = self
                .fields
                .entry(name.to_string())
                .or_insert_with(|| Field { smallest: u64::MAX, ..Field::default() });
            field.samples += 1;
            field.bytes += size;
            field.smallest = field.smallest.min(size);
            field.largest = field.largest.max(size);
            *field.sizes.entry(size.max(1).ilog2()).or_default() += 1;
            let picture = is_picture(&name).then(|| picture_dimensions(&bytes)).flatten();
            if let Some(picture) = picture {
                field.pictures.get_or_insert_default().add(picture);
                if !counted {
                    let (w, h) = aspect_ratio(picture);
                    *self.aspect_ratios.entry(format!("{w}:{h}")).or_default() += 1;
                    counted = true;
                }
            }
        }
    }

    /// Mean encoded size of a sample.
    fn mean_bytes(&self) -> u64 {
        let bytes: u64 = self.fields.values().map(|field| field.bytes).sum();
        bytes.checked_div(self.samples_looked_into).unwrap_or(0)
    }

    /// Mean pixels of a sample.
    fn mean_pixels(&self) -> u64 {
        let pictures = self.fields.values().filter_map(|field| field.pictures.as_ref());
        pictures.map(|p| p.pixels.checked_div(p.counted).unwrap_or(0)).sum()
    }
}

impl Pictures {
    fn add(&mut self, Dimensions { width, height }: Dimensions) {
        let area = |(w, h): (u32, u32)| u64::from(w) * u64::from(h);
        let this = (width, height);
        if self.counted == 0 || area(this) < area(self.smallest) {
            self.smallest = this;
        }
        if area(this) > area(self.largest) {
            self.largest = this;
        }
        self.pixels += area(this);
        self.counted += 1;
    }
}

/// Whether a field is a picture, by its extension.
pub(super) fn is_picture(field: &str) -> bool {
    let extension = field.rsplit('.').next().unwrap_or_default();
    matches!(extension, "jpg" | "jpeg" | "png" | "webp" | "gif" | "bmp" | "tif" | "tiff")
}

impl Info {
    fn estimate(&self, facts: &Facts, batch: u64) -> Run {
        Run {
            steps: facts.samples.and_then(|samples| (samples / self.world_size).checked_div(batch)),
            shuffle_bytes: self.workers * self.shuffle * facts.mean_bytes(),
            batch_bytes: batch * facts.mean_pixels() * 3,
        }
    }

    fn describe(&self, facts: &Facts) -> String {
        let mut lines = Vec::new();
        let samples = facts
            .samples
            .map_or("an unknown number of samples".to_owned(), |n| plural(n, "sample"));
        let about = if facts.bytes_estimated { "about " } else { "" };
        let bytes = facts
            .bytes
            .map_or("unknown size".to_owned(), |n| format!("{about}{}", units::bytes(n)));
        let modalities = facts.modalities.join(" + ");
        let of = if modalities.is_empty() { String::new() } else { format!(" of {modalities}") };
        lines.push(format!(
            "{samples}{of} in {} ({bytes}), {}",
            plural(facts.shards, "shard"),
            plural(facts.folders, "folder")
        ));
        if facts.samples_looked_into > 0 {
            let (samples, shards) = (
                plural(facts.samples_looked_into, "sample"),
                plural(facts.shards_looked_into, "shard"),
            );
            lines.push(format!("\nin the {samples} of {shards} looked into:"));
        }
        let width = facts.fields.keys().map(|name| name.len()).max().unwrap_or(0);
        for (name, field) in &facts.fields {
            let mean = field.bytes.checked_div(field.samples).unwrap_or(0);
            let [mean, low, high] = [mean, field.smallest, field.largest].map(units::bytes);
            let mut line = format!(
                "  {name:width$}  in {} samples, mean {mean} ({low} to {high})",
                count(field.samples)
            );
            if let Some(pictures) = &field.pictures {
                let ((a, b), (c, d)) = (pictures.smallest, pictures.largest);
                line += &format!(", {a}x{b} to {c}x{d} pixels");
            }
            lines.push(line);
        }
        for (name, field) in facts.fields.iter().filter(|(_, field)| field.sizes.len() > 1) {
            lines.push(format!("\nsize of {name}"));
            let (first, last) = (field.sizes.keys().next(), field.sizes.keys().next_back());
            let range = first.copied().unwrap_or(0)..=last.copied().unwrap_or(0);
            let rows = range.map(|n| {
                let from = if n == 0 { 0 } else { 1u64 << n };
                (format!("from {}", units::bytes(from)), field.sizes.get(&n).copied().unwrap_or(0))
            });
            lines.extend(histogram(rows.collect()));
        }
        if !facts.aspect_ratios.is_empty() {
            lines.push("\naspect ratio (nearest class)".to_owned());
            let classes = ASPECT_RATIOS.iter().map(|(w, h)| format!("{w}:{h}"));
            let rows = classes.map(|class| {
                (class.clone(), facts.aspect_ratios.get(&class).copied().unwrap_or(0))
            });
            lines.extend(histogram(rows.filter(|(_, n)| *n > 0).collect()));
        }
        if let Some(run) = &facts.run {
            let steps = run.steps.map_or("an unknown number of steps".to_owned(), |n| {
                format!("about {}", plural(n, "step"))
            });
            lines.push(format!("\na rank of {}: {steps} an epoch", self.world_size));
            lines.push(format!(
                "  shuffle buffers hold about {}, a decoded batch {}",
                units::bytes(run.shuffle_bytes),
                units::bytes(run.batch_bytes)
            ));
        }
        lines.join("\n")
    }
}

/// Rows of label, bar and number.
fn histogram(rows: Vec<(String, u64)>) -> Vec<String> {
    let most = rows.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let bar = |n: u64| {
        // Eighths of a cell.
        let eighths = (u128::from(n) * BAR as u128 * 8).div_ceil(u128::from(most));
        let eighths = usize::try_from(eighths).unwrap_or(0);
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        "█".repeat(eighths / 8) + rest
    };
    rows.iter().map(|(label, n)| format!("  {label:>width$}  {} {}", bar(*n), count(*n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        let rows =
            histogram(vec![("a".into(), 80), ("bb".into(), 40), ("c".into(), 1), ("d".into(), 0)]);
        assert_eq!(rows[0], format!("   a  {} 80", "█".repeat(40)));
        assert_eq!(rows[1], format!("  bb  {} 40", "█".repeat(20)));
        assert_eq!(rows[2], "   c  ▌ 1");
        assert_eq!(rows[3], "   d   0");
    }

    #[test]
    fn spread_is_even() {
        assert_eq!(spread(10, 4).collect::<Vec<_>>(), [0, 2, 5, 7]);
        assert_eq!(spread(3, 10).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spread(0, 10).count(), 0);
        assert_eq!(spread(u64::MAX, 2).collect::<Vec<_>>(), [0, u64::MAX / 2]);
    }
}
