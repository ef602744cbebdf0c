//! What a loader costs around its work, in numbers that a trainer feels.
//!
//! `cargo bench --bench loader` prints, medians of runs taken in turns where there are several:
//! - growth: the rate with 10 and with 1,000,000 shards listed, the same tars behind them;
//! - first batch: from the start of a new process to its first batch, from twins on disk;
//! - trainer: how long one that is slower than the loader waits for its batches;
//! - budget: the most that a loader with a budget of bytes held by its own count, and peak resident memory, which is more by what the
//!   allocator keeps: thousands of small samples and one of 200 MB, batches as far ahead as they may be before a trainer that takes its time;
//! - order: work that takes heavy-tailed times, delivered in order, against threads that do it in no order at all.
//!
//! `-- growth first trainer budget order` runs some of them; `-- --test` runs everything once on little data.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use shardstream::prelude::*;
use shardstream::random::Rng;
use shardstream::testing;
use support::endless::{Ten, endless, plain, take};
use support::{cores, line, medians, runtime, status_mb, twins};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn growth(rounds: usize, samples: usize) {
    let (_, tars) = testing::shards(10, 1000);
    let store = Ten(tars);
    let listed = |n: usize| Manifest::of_shards((0..n).map(|i| format!("{i:07}.tar"))).unwrap();
    let (few, many) = (listed(10), listed(1_000_000));
    let runtime = runtime();
    let run = |manifest: &Manifest| {
        let builder = plain(manifest, store.clone()).workers(2).epochs(1 << 20);
        runtime.block_on(async { take(&mut builder.start().unwrap(), samples).await });
    };
    let mut runs: Vec<Box<dyn FnMut() + '_>> =
        vec![Box::new(|| run(&few)), Box::new(|| run(&many))];
    let took = medians(rounds, &mut runs);
    println!("growth: {samples} samples, with the start of the loader");
    line("10 shards listed", took[0], samples, None);
    line("1,000,000 shards listed", took[1], samples, Some(took[0]));
}

/// In a process of its own: the first batch of the twins in a folder, and how long that took.
fn first_batch(folder: &str) {
    let began = Instant::now();
    runtime().block_on(async {
        let manifest = Manifest::load(&Local, folder).await.unwrap();
        take(&mut plain(&manifest, Local).workers(2).start().unwrap(), 64).await;
    });
    println!("{}", began.elapsed().as_secs_f64() * 1e3);
    // The rest of the run is of no interest.
    std::process::exit(0);
}

fn first(rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    twins(folder.path(), 4, 5000, |i| Bytes::from(vec![i as u8; 4096]));
    let mut waits: Vec<(f64, f64)> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            let output = Command::new(std::env::current_exe().unwrap())
                .arg(format!("first={}", folder.path().display()))
                .output()
                .unwrap();
            let whole = began.elapsed().as_secs_f64() * 1e3;
            (whole, String::from_utf8_lossy(&output.stdout).trim().parse().unwrap())
        })
        .collect();
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (whole, inside) = waits[waits.len() / 2];
    println!(
        "first batch of 64 (shuffle 1000, 2 lanes): {inside:.1} ms after main, {whole:.1} ms with the process, longest {:.1} ms of {rounds}",
        waits.last().unwrap().0
    );
}

fn trainer(batches: usize) {
    runtime().block_on(async {
        let mut loader = endless().start().unwrap();
        take(&mut loader, 64).await;
        let (began, before) = (Instant::now(), loader.stats().waited);
        for _ in 0..batches {
            // A step of training: many times what a batch takes to be made.
            tokio::time::sleep(Duration::from_millis(5)).await;
            take(&mut loader, 64).await;
        }
        let waited = (loader.stats().waited - before).as_secs_f64();
        println!(
            "trainer of 5 ms a step: waits {:.2} % of the time ({:.1} us a batch)",
            waited / began.elapsed().as_secs_f64() * 100.0,
            waited / batches as f64 * 1e6
        );
    });
}

/// In a process of its own: all batches of the twins in a folder, a budget in MiB (0 for none), and the peak of resident memory.
fn peak_of(told: &str) {
    let (budget, folder) = told.split_once(':').unwrap();
    let budget: u64 = budget.parse().unwrap();
    runtime().block_on(async {
        let manifest = Manifest::load(&Local, folder).await.unwrap();
        let mut builder = plain(&manifest, Local).workers(2).prefetch(1 << 20);
        if budget > 0 {
            builder = builder.memory(budget << 20);
        }
        let (mut loader, mut held) = (builder.start().unwrap(), 0);
        while let Some(batch) = loader.next().await {
            drop(batch.unwrap());
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                held = loader.memory_held().unwrap_or(0).max(held);
            }
        }
        println!("{} {}", held as f64 / f64::from(1 << 20), status_mb("VmHWM"));
    });
}

fn budget(samples: usize, large: usize, budgets: &[u64]) {
    let folder = tempfile::tempdir().unwrap();
    let picture = |i: usize| {
        let size = if i == samples / 2 { large } else { 1000 + i * 7919 % 80_000 };
        Bytes::from(vec![i as u8; size])
    };
    twins(folder.path(), 20, samples / 20, picture);
    println!(
        "budget: {samples} samples of 1 to 81 KB and one of {} MB, 2 lanes",
        large / 1_000_000
    );
    for budget in budgets {
        let output = Command::new(std::env::current_exe().unwrap())
            .arg(format!("peak={budget}:{}", folder.path().display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (held, peak) = text.trim().split_once(' ').unwrap();
        let (held, peak): (f64, f64) = (held.parse().unwrap(), peak.parse().unwrap());
        match budget {
            0 => println!("  no budget: peak RSS {peak:.0} MiB"),
            _ => println!(
                "  budget {budget} MiB: {held:.0} MiB counted at most, {:.0} %; peak RSS {peak:.0} MiB",
                held / *budget as f64 * 100.0
            ),
        }
    }
}

/// Works for so long: a Pareto distribution with a mean of about a millisecond, in which one in a thousand takes a hundred times as long.
fn work(number: u64) {
    let u = Rng::keyed(&[7, number]).unit().max(1e-5);
    let millis = (0.33 * u.powf(-1.0 / 1.5)).min(300.0);
    let until = Instant::now() + Duration::from_secs_f64(millis / 1e3);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn order(rounds: usize, samples: usize) {
    let (manifest, store) = testing::shards(4, samples / 4);
    let runtime = runtime();
    let chain = || shard_list(&manifest).open_twins(store.clone()).expand().group_by_keys();
    let in_order = || {
        let worked = chain().augment(|_, rng| {
            work(rng.next_u64());
            Ok(())
        });
        let done = runtime.block_on(worked.try_fold(0, |n, _| async move { Ok(n + 1) }));
        assert_eq!(done.unwrap(), samples);
    };
    // The same work in the same order of beginning, by threads that hand over to nobody: what no loader can surpass.
    let draws: Vec<u64> = runtime
        .block_on(chain().map(|sample| sample.unwrap().head.rng(0).next_u64()).collect::<Vec<_>>());
    let as_done = || {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..cores() {
                scope.spawn(|| {
                    while let Some(draw) = draws.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(*draw);
                    }
                });
            }
        });
    };
    let mut runs: Vec<Box<dyn FnMut() + '_>> = vec![Box::new(as_done), Box::new(in_order)];
    let took = medians(rounds, &mut runs);
    println!("order: {samples} samples of heavy-tailed work on {} threads", cores());
    line("each thread on its own, in no order", took[0], samples, None);
    line("augment(), in order", took[1], samples, Some(took[0]));
}

fn main() {
    let told = |prefix: &str| {
        std::env::args().find_map(|argument| argument.strip_prefix(prefix).map(str::to_owned))
    };
    if let Some(folder) = told("first=") {
        return first_batch(Path::new(&folder).to_str().unwrap());
    }
    if let Some(told) = told("peak=") {
        return peak_of(&told);
    }
    let is_test = std::env::args().any(|argument| argument == "--test");
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let size = |whole: usize, test: usize| if is_test { test } else { whole };
    if wanted("growth") {
        growth(size(7, 1), size(200_000, 2000));
    }
    if wanted("first") {
        first(size(21, 1));
    }
    if wanted("trainer") {
        trainer(size(400, 5));
    }
    if wanted("budget") {
        budget(size(20_000, 200), size(200_000_000, 10_000_000), &[0, 400, 600, 800]);
    }
    if wanted("order") {
        order(size(7, 1), size(2000, 20));
    }
}
