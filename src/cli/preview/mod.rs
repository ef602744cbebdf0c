//! `shardstream preview`: pictures and captions as a contact sheet and as a page, in the order in which a rank sees them.

mod page;
mod sheet;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::data::Data;
use super::info::is_picture;
use super::output::{say, say_json};
use super::units;
use crate::augment::{Augment, Pipeline, resize};
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::loader::{Lane, Loader, OnError};
use crate::random::Rng;
use crate::sample::{Batch, Collate, Data as Pixels, Fields, Image, Value};
use crate::shard::{EpochOrder, Manifest, Order, Tail};
use crate::stages::{MemberStream, SampleStream, ShardStream, TwinStream};
use crate::store::Stores;
use crate::store::local::write_atomically;
use crate::topology::Rank;

/// Draws a contact sheet (PNG) or a page (HTML) of samples: pictures with captions, key, shard and sizes.
///
/// The samples come through the real loader: with --from they are those that a rank would get, with --recipe as it would get them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  shardstream preview shards/ --output sheet.png
  shardstream preview shards/ --output page.html --samples 100
  shardstream preview shards/ --output sheet.png --from 3/1/0/500 --world-size 8 --workers 4 --shuffle 1000 --batch 64 --seed 7
  shardstream preview shards/ --output sheet.png --from 3/1/0/500 --shuffle 1000 --batch 64 --recipe augment.json
  shardstream preview shards/ --output sheet.png --recipe image_caption_augmentor:1024

A recipe is a JSON list of parts, the one that a trainer gives to Pipeline::from_json:
  [\"strip_extensions\", {\"random_resized_crop\": {\"width\": 224, \"height\": 224}}, {\"random_flip\": {\"probability\": 0.5}},
   {\"colour_jitter\": {\"brightness\": 0.2}}, {\"normalize\": {\"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5]}}]
It draws what it draws in `.shuffle(N).decode(..).augment(recipe).batch(B)`, in that sample, epoch and seed. Pictures are shown before they are normalised;
a sample that the recipe leaves out, or that is broken, is not there.")]
pub(crate) struct Preview {
    #[command(flatten)]
    data: Data,
    /// File to write: .png or .html; may be repeated
    #[arg(long, short, value_name = "FILE", required = true)]
    output: Vec<PathBuf>,
    /// How many samples
    #[arg(long, short = 'n', value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Pictures in a row of the sheet
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=30))]
    columns: u16,
    /// Longer side of a picture on the sheet, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 256, value_parser = clap::value_parser!(u16).range(64..=1024))]
    size: u16,
    /// Begin with this batch of a worker, all counted from 0
    #[arg(long, value_name = "RANK/WORKER/EPOCH/STEP", value_parser = from, default_value = "0/0/0/0")]
    from: From,
    /// Number of ranks
    #[arg(long, default_value_t = 1)]
    world_size: u32,
    /// Workers of each rank
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Seed of every order
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Shuffle samples with this mean delay, and shards
    #[arg(long, value_name = "N")]
    shuffle: Option<u64>,
    /// Samples in a batch: what STEP counts
    #[arg(long, value_name = "B", default_value_t = 1)]
    batch: usize,
    /// Turn pictures upright as their EXIF data say
    #[arg(long)]
    orient: bool,
    /// Show samples as this recipe makes them: a JSON file, or `image_caption_augmentor:RESOLUTION` or
    /// `image_caption_multi_resolution_augmentor:RESOLUTION`
    #[arg(long, value_name = "FILE")]
    recipe: Option<String>,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
    /// Print the samples that were drawn as JSON
    #[arg(long)]
    json: bool,
}

/// Which batch to begin with.
#[derive(Debug, Clone, Copy)]
struct From {
    rank: u32,
    worker: u32,
    epoch: u64,
    step: u64,
}

fn from(text: &str) -> Result<From, String> {
    let parts: Option<Vec<u64>> = text.split('/').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[rank, worker, epoch, step]) => {
            let small = |n: u64| u32::try_from(n).map_err(|_| format!("{n} is too large"));
            Ok(From { rank: small(rank)?, worker: small(worker)?, epoch, step })
        }
        _ => Err("expected RANK/WORKER/EPOCH/STEP, such as 0/0/0/0".to_owned()),
    }
}

/// What is shown of one sample.
#[derive(Debug, Clone, Default, Serialize)]
struct Cell {
    key: String,
    shard: String,
    place: String,
    caption: String,
    /// Fields with their sizes, and what is wrong with them.
    fields: Vec<String>,
    /// Small, for the sheet: RGB.
    #[serde(skip)]
    picture: Option<Image>,
    /// For the page: type and bytes.
    #[serde(skip)]
    encoded: Option<(&'static str, Bytes)>,
}

impl Collate for Cell {
    type Output = Vec<Self>;

    fn check(&self, _: &Self) -> Result<()> {
        Ok(())
    }

    fn collate(cells: Vec<Self>) -> Result<Vec<Self>> {
        Ok(cells)
    }
}

/// Runs the command.
pub(crate) async fn run(preview: Preview) -> Result<ExitCode> {
    for path in &preview.output {
        kind(path)?;
    }
    let cells = preview.cells().await?;
    if cells.is_empty() {
        return Err(Error::config("no sample there: that rank and worker have none at that step"));
    }
    for path in &preview.output {
        let bytes = match kind(path)? {
            Kind::Sheet => {
                sheet::draw(&cells, usize::from(preview.columns), u32::from(preview.size))?
            }
            Kind::Page => page::write(&cells).into_bytes(),
        };
        write_atomically(path, &bytes).map_err(|e| {
            Error::store("can't write").with_source(e).in_shard(path.to_string_lossy())
        })?;
        if !preview.quiet && !preview.json {
            say(&format!("{}: {}", path.display(), units::plural(cells.len() as u64, "sample")))?;
        }
    }
    if preview.json {
        say_json(&json!({ "files": preview.output, "samples": cells }))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Sheet,
    Page,
}

fn kind(path: &Path) -> Result<Kind> {
    match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("png") => Ok(Kind::Sheet),
        Some("html" | "htm") => Ok(Kind::Page),
        _ => Err(Error::config(format!(
            "{}: expected a name that ends in .png or .html",
            path.display()
        ))),
    }
}

impl Preview {
    async fn cells(&self) -> Result<Vec<Cell>> {
        let (stores, manifest) = self.data.load().await?;
        let From { rank, worker, epoch, step } = self.from;
        if worker >= self.workers {
            return Err(Error::config(format!(
                "worker {worker} of {}: counted from 0",
                self.workers
            )));
        }
        if self.batch == 0 {
            return Err(Error::config("--batch 0: a batch has at least one sample"));
        }
        let chain = Chain {
            stores,
            shuffle: self.shuffle,
            batch: self.batch,
            recipe: self.recipe.as_deref().map(recipe).transpose()?,
            decoder: Decoder::new().orient(self.orient),
            size: u32::from(self.size),
        };
        let builder = Loader::builder(&manifest, move |lane: &Lane| chain.build(lane));
        let builder =
            builder.rank(Rank::new(rank, self.world_size)?).workers(self.workers).seed(self.seed);
        // To look at data nobody waits for anybody; what is broken is shown as such.
        let mut loader = builder
            .first_epoch(epoch)
            .allow_uneven()
            .tail(Tail::Pad)
            .on_error(OnError::skip())
            .start()?;
        let lanes = self.world_size.saturating_mul(self.workers);
        let rule = if self.shuffle.is_some() {
            Order::Shuffled { seed: self.seed }
        } else {
            Order::Listed
        };
        let order = EpochOrder::new(rule, Tail::Pad, manifest.len(), lanes, epoch, 0)?;
        let mut cells = Vec::new();
        let mut seen = 0;
        while let Some(batch) = loader.next().await {
            let batch: Batch<Vec<Cell>> = batch?;
            let lane = batch.heads.first().map_or(0, |head| head.origin.lane);
            if lane / self.world_size % self.workers != worker {
                continue;
            }
            seen += 1;
            if seen <= step {
                continue;
            }
            for (head, mut cell) in batch.heads.iter().zip(batch.data) {
                cell.key = head.key.to_string();
                let position = head.position();
                cell.shard = shard_name(&manifest, order.shard_at(position.place).0);
                cell.place = format!(
                    "epoch {} lane {} sample {}",
                    position.epoch, position.lane, position.ordinal
                );
                cells.push(cell);
                if cells.len() == usize::from(self.samples) {
                    break;
                }
            }
            if cells.len() == usize::from(self.samples) {
                break;
            }
        }
        let left_out = loader.stats().filtered;
        if left_out > 0 {
            let line = format!("the recipe left out {}", units::plural(left_out, "sample"));
            super::complain(&line);
        }
        Ok(cells)
    }
}

/// A recipe from a file, or one of `PiD`'s by its name.
pub(super) fn recipe(text: &str) -> Result<Arc<Pipeline>> {
    let named = ["image_caption_augmentor", "image_caption_multi_resolution_augmentor"];
    let json = match text.split_once(':') {
        Some((name, resolution)) if named.contains(&name) => {
            format!(r#"[{{"{name}": {{"resolution": {resolution}}}}}]"#)
        }
        _ => std::fs::read_to_string(text).map_err(|error| {
            Error::config("can't read the recipe").with_source(error).in_shard(text)
        })?,
    };
    Ok(Arc::new(Pipeline::for_display(&json).map_err(|error| error.in_shard(text))?))
}

/// A shard as a person tells it from others: with its folder, if there are several.
fn shard_name(manifest: &Manifest, shard: u64) -> String {
    let path = manifest.path(shard);
    let folder = manifest.leaf(shard).root().trim_end_matches('/').rsplit('/').next();
    match folder {
        Some(folder) if manifest.leaves().len() > 1 => format!("{folder}/{path}"),
        _ => path,
    }
}

/// What is done with each lane.
#[derive(Debug, Clone)]
struct Chain {
    stores: Stores,
    shuffle: Option<u64>,
    batch: usize,
    decoder: Decoder,
    size: u32,
    recipe: Option<Arc<Pipeline>>,
}

impl Chain {
    fn build(&self, lane: &Lane) -> BoxStream<'static, Result<Batch<Vec<Cell>>>> {
        let mut shards = lane.shard_list();
        if self.shuffle.is_some() {
            shards = shards.shuffle_shards();
        }
        let shards = shards.split_by_rank().split_by_worker();
        let samples = shards.open_twins(self.stores.clone()).expand().group_by_keys();
        let (decoder, size, recipe) = (self.decoder.clone(), self.size, self.recipe.clone());
        let cell = move |fields: Fields<Bytes>, rng: &mut Rng| match &recipe {
            None => Ok(cell(fields, &decoder, size)),
            Some(recipe) => {
                let mut values = decoder.decode(fields)?;
                recipe.apply(&mut values, rng)?;
                made(values, size)
            }
        };
        match self.shuffle {
            Some(n) if n > 0 => samples.shuffle(n).augment(cell).batch(self.batch).boxed(),
            _ => samples.augment(cell).batch(self.batch).boxed(),
        }
    }
}

/// Largest picture that goes into a page as it is.
const AS_IT_IS: usize = 300 << 10;

fn cell(fields: Fields<Bytes>, decoder: &Decoder, size: u32) -> Cell {
    let mut cell = Cell::default();
    for (name, bytes) in fields {
        let mut line = format!("{name} {}", units::bytes(bytes.len() as u64));
        match decoder.decode_field(&name, bytes.clone()) {
            Ok(Value::Image(image)) => {
                line += &format!(" {}x{}", image.width, image.height);
                if cell.picture.is_none() {
                    cell.picture = resize::longest(&image, size).ok();
                    cell.encoded = encoded(&name, bytes, cell.picture.as_ref());
                }
            }
            Ok(Value::Text(text)) => cell.caption.push_str(&text),
            Ok(Value::Json(json)) => cell.caption.push_str(&caption(&json)),
            Ok(_) => {}
            Err(error) => line += &format!(": {error}"),
        }
        cell.fields.push(line);
    }
    cell
}

/// A sample as a recipe made it.
fn made(values: Fields<Value>, size: u32) -> Result<Cell> {
    let mut cell = Cell::default();
    for (name, value) in values {
        match value {
            Value::Image(image) => {
                cell.fields.push(format!("{name} {}x{}", image.width, image.height));
                if cell.picture.is_none() {
                    // Not enlarged: what the trainer sees has no more pixels.
                    let small = image.width.max(image.height) <= size;
                    let shown = if small { image } else { resize::longest(&image, size)? };
                    cell.encoded = png(&shown);
                    cell.picture = Some(shown);
                }
            }
            Value::Text(text)
                if &*name == "caption" || cell.caption.is_empty() && text.len() > 30 =>
            {
                cell.caption = text;
            }
            Value::Text(text) => cell.fields.push(format!("{name} {text}")),
            Value::Json(json) if cell.caption.is_empty() && json.get("prompt").is_some() => {
                cell.caption = caption(&json).into_owned();
            }
            Value::Json(json) => cell.fields.push(format!("{name} {json}")),
            Value::Int(int) => cell.fields.push(format!("{name} {int}")),
            Value::Bytes(bytes) => {
                cell.fields.push(format!("{name} {}", units::bytes(bytes.len() as u64)));
            }
            other => cell.fields.push(format!("{name} {}", other.describe())),
        }
    }
    Ok(cell)
}

/// What of a caption's JSON is read first.
fn caption(json: &Json) -> Cow<'_, str> {
    let texts = ["prompt", "prompt_medium", "prompt_short", "caption"];
    match texts.iter().find_map(|name| json.get(name)?.as_str()) {
        Some(text) => text.into(),
        None => json.to_string().into(),
    }
}

/// A picture for the page: as it is if a browser knows it and it is small, otherwise the small one as PNG.
fn encoded(name: &str, bytes: Bytes, small: Option<&Image>) -> Option<(&'static str, Bytes)> {
    let kind = match name.rsplit('.').next() {
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("png") => "image/png",
        Some("webp") => "image/webp",
        Some("gif") => "image/gif",
        _ => "",
    };
    if is_picture(name) && !kind.is_empty() && bytes.len() <= AS_IT_IS {
        return Some((kind, bytes));
    }
    png(small?)
}

fn png(image: &Image) -> Option<(&'static str, Bytes)> {
    let Pixels::U8(pixels) = &image.data else { return None };
    Some(("image/png", sheet::png(image.width, image.height, pixels).ok()?.into()))
}
