//! A `Learner` of `burn` fed from tar shards, in place of `burn`'s own data loader: from which of two photographs is a crop?
//!
//!     cargo run --manifest-path examples/burn/Cargo.toml
//!
//! Says the loss before and after, and fails if it did not fall by half.

use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::lr_scheduler::constant::ConstantLr;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Int, Tensor};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::LossMetric;
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
};
use shardstream::adapters::BurnLoader;
use shardstream::augment::{Augment, Normalize, RandomCrop};
use shardstream::prelude::{Tensor as Numbers, *};
use shardstream::sample::Data;
use shardstream::testing;
use tokio::runtime::Runtime;

const SIDE: u32 = 64;
const EPOCHS: usize = 8;
const PHOTOS: [&str; 2] = ["photo-a.png", "photo-b.png"];

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Pixels `[B, 3 * SIDE * SIDE]` and classes, on a device.
#[derive(Clone, Debug)]
struct Crops {
    pixels: Tensor<2>,
    classes: Tensor<1, Int>,
}

#[derive(Module, Debug)]
struct Model {
    linear: Linear,
}

impl Model {
    fn output(&self, crops: Crops) -> ClassificationOutput {
        let scores = self.linear.forward(crops.pixels);
        let loss = CrossEntropyLossConfig::new()
            .init(&scores.device())
            .forward(scores.clone(), crops.classes.clone());
        ClassificationOutput::new(loss, scores, crops.classes)
    }
}

impl TrainStep for Model {
    type Input = Crops;
    type Output = ClassificationOutput;

    fn step(&self, crops: Crops) -> TrainOutput<ClassificationOutput> {
        let output = self.output(crops);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Model {
    type Input = Crops;
    type Output = ClassificationOutput;

    fn step(&self, crops: Crops) -> ClassificationOutput {
        self.output(crops)
    }
}

fn main() -> Outcome<()> {
    // The loader's tasks run here; the learner stays on this thread.
    let runtime = Runtime::new()?;
    let device = Device::flex();
    let training = loader(&runtime, &device, 7)?;
    let validation: Arc<dyn DataLoader<Crops>> = Arc::new(loader(&runtime, &device, 8)?);

    let model = Model {
        linear: LinearConfig::new((3 * SIDE * SIDE) as usize, 2).init(&device.clone().autodiff()),
    };
    let before = loss(&model, &*validation)?;
    let learner = Learner::new(model, SgdConfig::new().init(), ConstantLr::new(0.001));
    let scratch = std::env::temp_dir().join(format!("shardstream-burn-{}", std::process::id()));
    let result = SupervisedTraining::new(&scratch, Arc::new(training), Arc::clone(&validation))
        .num_epochs(EPOCHS)
        .metric_train_numeric(LossMetric::new())
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .launch(learner);
    // What the learner may have left there.
    let _ = std::fs::remove_dir_all(&scratch);
    let after = loss(&result.model, &*validation)?;
    println!("loss before {before:.3}, after {EPOCHS} epochs {after:.3}");
    if after < before / 2.0 { Ok(()) } else { Err("the loss did not fall by half".into()) }
}

/// Mean loss over an epoch.
fn loss(model: &Model, loader: &dyn DataLoader<Crops>) -> Outcome<f32> {
    let mut losses = Vec::new();
    for crops in loader.iter() {
        losses.push(model.output(crops?).loss.into_scalar::<f32>());
    }
    Ok(losses.iter().sum::<f32>() / losses.len() as f32)
}

/// Four shards, each with twenty samples of either photograph: every epoch other crops of them, without end.
fn loader(
    runtime: &Runtime,
    device: &Device,
    seed: u64,
) -> Outcome<impl DataLoader<Crops> + use<>> {
    let (manifest, store) = data()?;
    let crop = Arc::new((RandomCrop::new(SIDE, SIDE), Normalize::symmetric()));
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(40);
        let crop = Arc::clone(&crop);
        let numbers = move |mut fields: Fields<Value>, rng: &mut Rng| {
            crop.apply(&mut fields, rng)?;
            match (fields.take("png")?.1, fields.take("cls")?.1) {
                (Value::Normalized(pixels), Value::Int(class)) => Ok((pixels, class)),
                _ => Err(Error::augment("not a picture and its class")),
            }
        };
        samples.decode(Decoder::default()).augment(numbers).batch(16)
    };
    let batcher = |batch: Batch<(Numbers, Vec<i64>)>, device: &Device| {
        let (mut pixels, classes) = batch.data;
        pixels.shape = vec![classes.len(), (3 * SIDE * SIDE) as usize];
        let classes = Numbers { shape: vec![classes.len()], data: Data::I64(classes) };
        Ok(Crops {
            pixels: Tensor::from_data(pixels.into_burn()?, device),
            classes: Tensor::from_data(classes.into_burn()?, device),
        })
    };
    let _inside = runtime.enter();
    let loader = Loader::builder(&manifest, recipe).seed(seed).repeat().start()?;
    Ok(BurnLoader::new(loader, runtime.handle().clone(), device.clone(), 160, batcher))
}

fn data() -> Outcome<(Manifest, Memory)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/decode");
    let photos = [std::fs::read(folder.join(PHOTOS[0]))?, std::fs::read(folder.join(PHOTOS[1]))?];
    Ok(testing::classes(4, 40, "png", &photos))
}
