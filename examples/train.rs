//! Trains a small model on real photographs, streamed from tar shards, and resumes in the middle.
//!
//!     cargo run --example train [FOLDER]
//!
//! FOLDER holds `photos/NAME.jpg` and `captions/NAME.json` (default: `tests/data` of this repository). Crops of the photographs are
//! packed with their captions into twin tars in a temporary folder, and the model learns which caption belongs to a crop. In the middle
//! the loader is dropped, and another one goes on from the saved checkpoint with exactly the batch that was due.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use candle_core::{D, DType, Device, Module, Tensor as Array};
use candle_nn::{Activation, AdamW, Conv2dConfig, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use futures::{Stream, TryStreamExt};
use image::{ColorType, ImageFormat};
use indicatif::{ProgressBar, ProgressStyle};
use shardstream::augment::resize::{self, Filter, Region};
use shardstream::augment::{Augment, Normalize, RandomCrop, RandomFlip};
use shardstream::pack::{ShardLimit, ShardParams, ShardWriter};
use shardstream::prelude::*;
use shardstream::sample::{Data, Image};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CROPS_OF_EACH: u64 = 24;
const PACKED_SIDE: u32 = 56;
const SEEN_SIDE: u32 = 48;
const EPOCHS: u64 = 7;
const SEED: u64 = 7;

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the recipe makes: pixels `[B, 3, H, W]`, and for each sample the number of its caption.
type Crops = Batch<(Tensor, Vec<u32>)>;

// The future of `tokio::main` runs beside the runtime's workers, not on one: a model that computes here holds up none of the loader's tasks.
#[tokio::main]
async fn main() -> ExitCode {
    let outcome = tokio::select! {
        outcome = run() => outcome,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

async fn run() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folder = arguments.next().unwrap_or_else(ours);
    if let Some(extra) = arguments.next() {
        return Err(format!("one folder is enough; what is {}?", extra.display()).into());
    }
    let scratch = tempfile::tempdir()?;
    let captions = pack(&folder, scratch.path()).await?;
    train(scratch.path(), captions).await
}

/// Packs crops of all photographs with their captions into twin tars, and returns the captions.
async fn pack(folder: &Path, shards: &Path) -> Outcome<Vec<String>> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| named(path, &error));
    let photos = folder.join("photos");
    let listed = std::fs::read_dir(&photos).map_err(|error| named(&photos, &error))?;
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: no .jpg in it", photos.display()).into());
    }

    let (mut pictures, mut captions) = (Vec::new(), Vec::new());
    for path in &paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let beside = folder.join("captions").join(format!("{stem}.json"));
        let json = read(&beside)?;
        captions.push(prompt(&serde_json::from_slice(&json)?).ok_or("no prompt_short")?.to_owned());
        match Decoder::default().decode_field("jpg", read(path)?.into()) {
            Ok(Value::Image(photo)) => pictures.push((stem, photo, json)),
            Ok(_) => return Err(named(path, &"not a picture")),
            Err(error) => return Err(named(path, &error)),
        }
    }

    let params = ShardParams::default().limit(ShardLimit::samples(34));
    let mut writer = ShardWriter::create(shards, ["image", "caption"], params)?;
    for round in 0..CROPS_OF_EACH {
        for (number, (stem, photo, json)) in pictures.iter().enumerate() {
            let png = crop(photo, &mut Rng::keyed(&[SEED, number as u64, round]))?;
            let fields = [("image", "png", png), ("caption", "json", json.clone())];
            writer.write(format!("{round:02}_{stem}"), fields).await?;
        }
    }
    let (crops, shards) = (CROPS_OF_EACH * paths.len() as u64, writer.finish().await?.data_list);
    println!("packed {crops} crops of {} photographs into {} shards", paths.len(), shards.len());
    Ok(captions)
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> Box<dyn std::error::Error> {
    format!("{}: {error}", path.display()).into()
}

fn prompt(caption: &serde_json::Value) -> Option<&str> {
    caption["prompt_short"].as_str()
}

/// A random square of a photograph, small, as a PNG.
fn crop(photo: &Image, rng: &mut Rng) -> Outcome<Vec<u8>> {
    let short = photo.width.min(photo.height);
    let mut up_to = |most: u32| rng.below(u64::from(most) + 1) as u32;
    let side = short / 2 + up_to(short / 4);
    let (x, y) = (up_to(photo.width - side), up_to(photo.height - side));
    let region = Region { x, y, width: side, height: side };
    let small = resize::region(photo, region, (PACKED_SIDE, PACKED_SIDE), Filter::Bilinear)?;
    let (mut png, pixels) = (Cursor::new(Vec::new()), small.data.as_bytes());
    let (width, height) = (small.width, small.height);
    let format = ImageFormat::Png;
    image::write_buffer_with_format(&mut png, pixels, width, height, ColorType::Rgb8, format)?;
    Ok(png.into_inner())
}

/// The chain of one lane, from shards to batches.
fn recipe(lane: &Lane, captions: Vec<String>) -> impl Stream<Item = Result<Crops>> + use<> {
    let change = (
        RandomCrop::new(SEEN_SIDE, SEEN_SIDE),
        RandomFlip::horizontal(0.5),
        Normalize::symmetric(),
    );
    lane.shard_list()
        .shuffle_shards()
        .split_by_rank()
        .split_by_worker()
        .open_twins(Local)
        .expand()
        .group_by_keys()
        .shuffle(100)
        .decode(Decoder::default())
        .augment(move |mut fields, rng| {
            change.apply(&mut fields, rng)?;
            let (pixels, caption) = (fields.remove("image.png"), fields.get("caption.json"));
            let (Some(Value::Normalized(pixels)), Some(Value::Json(caption))) = (pixels, caption)
            else {
                return Err(Error::augment("a crop has an image.png and a caption.json"));
            };
            let number = captions.iter().position(|known| prompt(caption) == Some(known));
            let number = number.ok_or_else(|| Error::augment("a caption that nobody packed"))?;
            Ok((pixels, number as u32))
        })
        .batch(16)
}

async fn train(shards: &Path, captions: Vec<String>) -> Outcome<()> {
    let manifest = Manifest::load(&Local, &shards.to_string_lossy()).await?;
    let mut trainer = Trainer::new(captions.len())?;
    let build = || {
        let captions = captions.clone();
        let builder = Loader::builder(&manifest, move |lane| recipe(lane, captions.clone()));
        builder.seed(SEED).workers(3).epochs(EPOCHS)
    };
    let mut loader = build().start()?;
    let steps = EPOCHS * loader.len().ok_or("a manifest without counts")?;
    trainer.bar.set_length(steps);
    trainer.run(&mut loader, steps / 2).await?;

    // A real run saves its model at the same step; here it stays in memory.
    let saved = shards.join("checkpoint.json");
    loader.checkpoint().save(&saved)?;
    let due = loader.try_next().await?.ok_or("no batch was due")?;
    drop(loader);

    let mut loader = build().resume([Checkpoint::load(&saved)?])?;
    let next = loader.try_next().await?.ok_or("no batch came after resuming")?;
    let keys = |batch: &Crops| batch.heads.iter().map(|head| head.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&next), keys(&due), "other samples than were due");
    assert_eq!(next.data, due.data, "other pixels than were due");
    let (crops, first) = (next.len(), &next.heads[0].key);
    let message =
        format!("resumed after {} steps: {crops} crops as due, from {first} on", steps / 2);
    trainer.bar.suspend(|| println!("{message}"));

    trainer.step(&next, &loader)?;
    trainer.run(&mut loader, steps).await?;
    trainer.end_epoch();
    trainer.bar.finish_and_clear();
    Ok(())
}

/// The model, and what the current epoch came to.
struct Trainer {
    model: candle_nn::Sequential,
    optimizer: AdamW,
    bar: ProgressBar,
    epoch: u64,
    began: Instant,
    samples: f64,
    loss: f64,
    right: f64,
}

impl Trainer {
    fn new(classes: usize) -> Outcome<Self> {
        let weights = VarMap::new();
        let build = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
        let config = Conv2dConfig { padding: 1, stride: 2, ..Default::default() };
        let mut model = candle_nn::seq();
        for (from, to) in [(3, 16), (16, 32), (32, 64)] {
            let layer = candle_nn::conv2d(from, to, 3, config, build.pp(format!("from{from}")))?;
            model = model.add(layer).add(Activation::Relu);
        }
        let last = candle_nn::linear(64, classes, build.pp("last"))?;
        let model = model.add_fn(|x| x.mean((2, 3))).add(last);
        let params = ParamsAdamW { lr: 3e-3, ..Default::default() };
        let optimizer = AdamW::new(weights.all_vars(), params)?;
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta} left")?;
        let bar = ProgressBar::new(0).with_style(style);
        let (epoch, began, samples, loss, right) = (0, Instant::now(), 0.0, 0.0, 0.0);
        Ok(Self { model, optimizer, bar, epoch, began, samples, loss, right })
    }

    /// Learns from this many batches, or from all there are.
    async fn run(&mut self, loader: &mut Loader<Crops>, steps: u64) -> Outcome<()> {
        for _ in 0..steps {
            let Some(batch) = loader.try_next().await? else { break };
            self.step(&batch, loader)?;
            // Lets Ctrl-C through where batches are always ready.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn step(&mut self, batch: &Crops, loader: &Loader<Crops>) -> Outcome<()> {
        if batch.heads[0].origin.epoch > self.epoch {
            self.end_epoch();
        }
        let (pixels, captions) = &batch.data;
        let Data::F32(values) = &pixels.data else { return Err("pixels are not f32".into()) };
        let pixels = Array::from_slice(values, pixels.shape.as_slice(), &Device::Cpu)?;
        let captions = Array::from_slice(captions, captions.len(), &Device::Cpu)?;
        let scores = self.model.forward(&pixels)?;
        let loss = candle_nn::loss::cross_entropy(&scores, &captions)?;
        let right = scores.argmax(D::Minus1)?.eq(&captions)?.to_dtype(DType::F32)?.sum_all()?;
        self.optimizer.backward_step(&loss)?;

        let loss = f64::from(loss.to_scalar::<f32>()?);
        self.samples += batch.len() as f64;
        self.loss += loss * batch.len() as f64;
        self.right += f64::from(right.to_scalar::<f32>()?);
        let rate = self.samples / self.began.elapsed().as_secs_f64();
        let waited = 100.0 * loader.stats().waiting_share();
        self.bar.set_message(format!("loss {loss:.2}, {rate:.0} samples/s, {waited:.0} % waited"));
        self.bar.inc(1);
        Ok(())
    }

    /// Says what the epoch came to: mean loss, captions told rightly, speed.
    fn end_epoch(&mut self) {
        let Self { epoch, samples, .. } = *self;
        let (loss, right) = (self.loss / samples, 100.0 * self.right / samples);
        let rate = samples / self.began.elapsed().as_secs_f64();
        let line =
            format!("epoch {epoch}: loss {loss:.2}, {right:.0} % right, {rate:.0} samples/s");
        self.bar.suspend(|| println!("{line}"));
        (self.epoch, self.began) = (epoch + 1, Instant::now());
        (self.samples, self.loss, self.right) = (0.0, 0.0, 0.0);
    }
}
