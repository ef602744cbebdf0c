//! Whether a loader's memory grows: resident bytes after a tenth of a million samples, and after all of them.
//!
//! `cargo bench --bench memory` prints them for a few processes, one after the other; `-- --test` runs it once on little data. With the
//! system's allocator, unlike the other benches: mimalloc asks the kernel for huge pages where it may, and resident memory then grows in
//! steps of 2 MiB by where its heaps happen to be touched.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod support;

use std::process::Command;

use support::endless::{endless, take};
use support::{runtime, status_mb};

/// In a process of its own: resident memory after each tenth of the samples.
fn memory_of(samples: usize) {
    runtime().block_on(async {
        let mut loader = endless().start().unwrap();
        for _ in 0..10 {
            take(&mut loader, samples / 10).await;
            print!("{} ", status_mb("VmRSS"));
        }
    });
    println!();
}

fn memory(samples: usize) {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg(format!("memory={samples}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let resident: Vec<f64> = text.split_whitespace().map(|mb| mb.parse().unwrap()).collect();
    let (first, last) = (resident[0], resident[resident.len() - 1]);
    let most = resident.iter().copied().fold(0.0, f64::max);
    println!(
        "{first:.1} MB after {} samples, {last:.1} MB after {samples} ({:+.1} %), at most {most:.1} MB",
        samples / 10,
        (last / first - 1.0) * 100.0
    );
}

fn main() {
    let mut arguments = std::env::args();
    if let Some(samples) = arguments.find_map(|a| a.strip_prefix("memory=").map(str::to_owned)) {
        return memory_of(samples.parse().unwrap());
    }
    let is_test = !std::env::args().any(|argument| argument == "--bench")
        || std::env::args().any(|argument| argument == "--test");
    let (runs, samples) = if is_test { (1, 10_000) } else { (10, 1_000_000) };
    (0..runs).for_each(|_| memory(samples));
}
