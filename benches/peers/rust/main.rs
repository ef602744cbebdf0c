//! One piece of work over local tars, timed: `webdataset-crate WORK TAR...` prints samples and seconds as JSON.
//!
//! `samples-1`, `samples-2`: on 1 or 2 threads; `samples-async`: by its async half. `decode`, `decode-4k`, `mean`, `mean-4k`: as in
//! `../ours/main.rs`, 2 workers. The crate has no resizing: it is done as in ours, by `fast_image_resize`.

use std::hint::black_box;
use std::time::Instant;

use fast_image_resize as fir;
use fir::images::{Image, ImageRef};
use futures_util::StreamExt;
use webdataset::asynch::AsyncWebDataset;
use webdataset::{Error, Result, Sample, SampleIteratorExt, Tensor, Value, WebDataset};

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

fn dataset(tars: &[String]) -> Result<WebDataset> {
    WebDataset::builder_verbatim(tars.to_vec()).build()
}

fn samples(tars: &[String], workers: usize) -> Result<usize> {
    let mut samples = 0;
    for sample in dataset(tars)?.loader().with_workers(workers).with_prefetch(64).iter() {
        black_box(sample?);
        samples += 1;
    }
    Ok(samples)
}

fn samples_async(tars: &[String]) -> Result<usize> {
    let dataset = AsyncWebDataset::builder_verbatim(tars.to_vec()).build()?;
    futures_executor::block_on(async {
        let (mut samples, mut stream) = (0, dataset.stream());
        while let Some(sample) = stream.next().await {
            black_box(sample?);
            samples += 1;
        }
        Ok(samples)
    })
}

/// Shortest side to `shortest`, the middle `crop` x `crop`, normalised, channels first.
fn prepare(picture: &Tensor, shortest: u32, crop: u32) -> Result<Tensor> {
    let fail = |error: &dyn std::fmt::Display| Error::value(error.to_string());
    let [height, width, 3] = *picture.shape() else {
        return Err(Error::value("no RGB picture"));
    };
    let (width, height) = (width as u32, height as u32);
    let scale =
        |side: u32| (u64::from(side) * u64::from(shortest) / u64::from(width.min(height))) as u32;
    let (to_width, to_height) = (scale(width), scale(height));
    let resized;
    let pixels: &[u8] = if (to_width, to_height) == (width, height) {
        picture.data()
    } else {
        let source = ImageRef::new(width, height, picture.data(), fir::PixelType::U8x3)
            .map_err(|error| fail(&error))?;
        let mut to = Image::new(to_width, to_height, fir::PixelType::U8x3);
        let options = fir::ResizeOptions::new()
            .resize_alg(fir::ResizeAlg::Convolution(fir::FilterType::Bilinear));
        fir::Resizer::new().resize(&source, &mut to, &options).map_err(|error| fail(&error))?;
        resized = to.into_vec();
        &resized
    };
    let (left, top) = (((to_width - crop) / 2) as usize, ((to_height - crop) / 2) as usize);
    let (row, side) = (to_width as usize * 3, crop as usize);
    let mut out = Vec::with_capacity(3 * side * side);
    for channel in 0..3 {
        let table: [f32; 256] =
            std::array::from_fn(|v| (v as f32 / 255.0 - MEAN[channel]) / STD[channel]);
        for y in top..top + side {
            let line = &pixels[y * row + left * 3..][..side * 3];
            out.extend(line[channel..].iter().step_by(3).map(|&v| table[usize::from(v)]));
        }
    }
    Ok(Tensor::from_f32_shaped(&out, vec![3, side, side]))
}

/// Sees every batch.
fn decode(
    tars: &[String],
    (shortest, crop, batch): (u32, u32, usize),
    mut see: impl FnMut(&Tensor),
) -> Result<usize> {
    let pictures = dataset(tars)?.decode_images("rgb8")?.map(move |sample| {
        let picture = sample.get("jpg").and_then(Value::as_tensor);
        let picture = picture.ok_or_else(|| Error::value("no picture"))?;
        let mut out = Sample::new();
        out.insert("jpg", Value::Tensor(prepare(picture, shortest, crop)?));
        Ok(Some(out))
    });
    let mut samples = 0;
    for batch in pictures.loader().with_workers(2).with_prefetch(64).iter().batched(batch, true) {
        let batch = batch?;
        let pictures = batch.get("jpg").and_then(Value::as_tensor);
        let pictures = pictures.ok_or_else(|| Error::value("no pictures of one size"))?;
        samples += pictures.shape()[0];
        see(pictures);
    }
    Ok(samples)
}

fn mean(tars: &[String], work: (u32, u32, usize)) -> Result<f64> {
    let (mut sum, mut values) = (0.0, 0);
    decode(tars, work, |pictures| {
        let numbers = pictures.to_f32_vec();
        sum += numbers.iter().map(|&number| f64::from(number)).sum::<f64>();
        values += numbers.len();
    })?;
    Ok(sum / values as f64)
}

const SMALL: (u32, u32, usize) = (256, 224, 64);
const LARGE: (u32, u32, usize) = (1024, 1024, 8);

fn run(work: &str, tars: &[String]) -> Result<()> {
    let began = Instant::now();
    let see = |pictures: &Tensor| {
        black_box(pictures);
    };
    let done = match work {
        "samples-1" => samples(tars, 1),
        "samples-2" => samples(tars, 2),
        "samples-async" => samples_async(tars),
        "decode" => decode(tars, SMALL, see),
        "decode-4k" => decode(tars, LARGE, see),
        "mean" | "mean-4k" => {
            let work = if work == "mean" { SMALL } else { LARGE };
            println!("{{\"mean\":{}}}", mean(tars, work)?);
            return Ok(());
        }
        _ => Err(Error::value(format!("no such work: {work}"))),
    }?;
    println!("{{\"done\":{done},\"seconds\":{}}}", began.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    match run(&work, &arguments.collect::<Vec<_>>()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
