//! Decoding and resizing on two threads with nothing around it: what a pipeline's throughput is measured against. Pictures of 4K and of
//! about 256 pixels; with the feature `turbojpeg` also at the smallest scale that covers what is needed.
//!
//! `cargo bench --bench decode --features turbojpeg`
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::path::Path;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardstream::augment::{Augment, CenterCrop, Filter, ResizeShortest};
use shardstream::decode::Decoder;
use shardstream::random::Rng;
use shardstream::sample::{Fields, Value};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: usize = 2;
/// Pictures decoded by each thread in one go.
const EACH: usize = 8;

fn read(path: &str) -> Bytes {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path))
        .unwrap()
        .into()
}

/// The bare loop: decode, resize, crop.
fn run(jpeg: &Bytes, decoder: &Decoder, augment: &impl Augment) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for i in 0..EACH {
                    let fields = Fields::from_iter([("jpg".into(), jpeg.clone())]);
                    let mut fields: Fields<Value> = decoder.decode(fields).unwrap();
                    augment
                        .apply(&mut fields, &mut Rng::keyed(&[thread as u64, i as u64]))
                        .unwrap();
                    black_box(fields);
                }
            });
        }
    });
}

fn decode(c: &mut Criterion) {
    for (name, file, side) in [
        ("4k to 1024", "images/4k/valley-midnight.jpg", 1024),
        ("150 x 103 to 64", "images/jpeg/go/video-001.progressive.jpeg", 64),
    ] {
        let jpeg = read(file);
        let resize =
            (ResizeShortest::new(side).filter(Filter::Lanczos), CenterCrop::new(side, side));
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements((THREADS * EACH) as u64)).sample_size(10);
        let decoder = Decoder::new();
        group.bench_function("decode", |b| b.iter(|| run(&jpeg, &decoder, &())));
        group.bench_function("decode, resize", |b| b.iter(|| run(&jpeg, &decoder, &resize)));
        if cfg!(feature = "turbojpeg") {
            let (width, height) = resize.needs().size().unwrap();
            let scaled = decoder.clone().at_least(width, height);
            group.bench_function("decode scaled", |b| b.iter(|| run(&jpeg, &scaled, &())));
            group.bench_function("decode scaled, resize", |b| {
                b.iter(|| run(&jpeg, &scaled, &resize))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
