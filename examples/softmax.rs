//! Softmax regression by hand, on arrays of `ndarray` that the loader's batches become without a copy: from which of two photographs is a crop?
//!
//!     cargo run --example softmax --features ndarray
#![allow(clippy::print_stdout)]

use std::path::Path;

use futures::TryStreamExt;
use ndarray::{Array1, Array2, ArrayD, Axis};
use shardstream::augment::{Augment, Normalize, RandomCrop};
use shardstream::prelude::*;
use shardstream::testing;

const SIDE: u32 = 64;
const EPOCHS: u64 = 12;
const RATE: f32 = 0.002;

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (manifest, store) = data()?;
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store.clone()).expand().group_by_keys().shuffle(40);
        let crop = (RandomCrop::new(SIDE, SIDE), Normalize::symmetric());
        let numbers = move |mut fields: Fields<Value>, rng: &mut Rng| {
            crop.apply(&mut fields, rng)?;
            match (fields.take("png")?.1, fields.take("cls")?.1) {
                (Value::Normalized(pixels), Value::Int(class)) => Ok((pixels, class)),
                _ => Err(Error::augment("not a picture and its class")),
            }
        };
        samples.decode(Decoder::default()).augment(numbers).batch(16)
    };
    let mut loader = Loader::builder(&manifest, recipe).seed(7).epochs(EPOCHS).start()?;

    let mut weights = Array2::<f32>::zeros(((3 * SIDE * SIDE) as usize, 2));
    let mut bias = Array1::<f32>::zeros(2);
    let mut losses = Vec::new();
    while let Some(mut epoch) = loader.epoch() {
        let (mut loss, mut samples) = (0.0, 0);
        while let Some(batch) = epoch.try_next().await? {
            let (pixels, classes) = batch.data;
            let pixels: ArrayD<f32> = pixels.into_ndarray()?;
            let pixels = pixels.into_shape_with_order((classes.len(), weights.nrows()))?;
            // Probabilities, then the gradient of the cross entropy.
            let mut scores = pixels.dot(&weights) + &bias;
            for (mut row, &class) in scores.rows_mut().into_iter().zip(&classes) {
                let most = row.iter().copied().fold(f32::MIN, f32::max);
                row.mapv_inplace(|score| (score - most).exp());
                let sum = row.sum();
                row /= sum;
                let own = &mut row[usize::try_from(class)?];
                loss -= own.max(f32::MIN_POSITIVE).ln();
                *own -= 1.0;
            }
            samples += classes.len();
            let step = RATE / classes.len() as f32;
            weights.scaled_add(-step, &pixels.t().dot(&scores));
            bias.scaled_add(-step, &scores.sum_axis(Axis(0)));
        }
        losses.push(loss / samples as f32);
        println!("epoch {}: loss {:.3} over {samples} crops", losses.len(), loss / samples as f32);
    }
    match losses[..] {
        [first, .., last] if last < first / 2.0 => Ok(()),
        _ => Err(format!("the loss did not fall by half: {losses:?}").into()),
    }
}

/// Four shards, each with twenty samples of either photograph, in memory.
fn data() -> std::result::Result<(Manifest, Memory), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decode");
    let photos =
        [std::fs::read(folder.join("photo-a.png"))?, std::fs::read(folder.join("photo-b.png"))?];
    Ok(testing::classes(4, 40, "png", &photos))
}
