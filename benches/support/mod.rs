//! What the benches share: clocks, medians, and twin tars.

#![allow(dead_code, reason = "no bench uses all of it")]

pub(crate) mod endless;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardstream::testing;

/// Wall and CPU time of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) cpu: f64,
}

/// CPU seconds of this process so far, all threads (from `/proc/self/stat`; 0 elsewhere).
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // utime and stime, in hundredths of a second.
    (ticks(11) + ticks(12)) / 100.0
}

pub(crate) fn peak_rss_mb() -> f64 {
    status_mb("VmHWM")
}

/// A line of `/proc/self/status` in MB; 0 elsewhere.
pub(crate) fn status_mb(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn time(run: &mut dyn FnMut()) -> Took {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    run();
    Took { wall: began.elapsed(), cpu: cpu_seconds() - cpu }
}

/// The median of some runs of each, taken in turns.
pub(crate) fn medians(rounds: usize, runs: &mut [Box<dyn FnMut() + '_>]) -> Vec<Took> {
    let mut took: Vec<Vec<Took>> = vec![Vec::new(); runs.len()];
    for _ in 0..rounds {
        for (run, took) in runs.iter_mut().zip(&mut took) {
            took.push(time(run));
        }
    }
    let median = |mut took: Vec<Took>| {
        took.sort_by_key(|took| took.wall);
        took[took.len() / 2]
    };
    took.into_iter().map(median).collect()
}

pub(crate) fn line(name: &str, took: Took, samples: usize, against: Option<Took>) {
    let share = against.map(|ceiling| {
        format!("{:5.0} %", 100.0 * ceiling.wall.as_secs_f64() / took.wall.as_secs_f64())
    });
    let rate = samples as f64 / took.wall.as_secs_f64();
    println!(
        "  {name:44} {rate:10.0} samples/s {} {:6.2} CPU s",
        share.unwrap_or_else(|| "       ".into()),
        took.cpu
    );
}

/// Twin tars: a picture's bytes and a little JSON for each sample.
pub(crate) fn twins(
    folder: &Path,
    shards: usize,
    samples: usize,
    picture: impl Fn(usize) -> Bytes,
) {
    for modality in ["image", "caption"] {
        std::fs::create_dir_all(folder.join(modality)).unwrap();
        for shard in 0..shards {
            let name = |i: usize| {
                format!(
                    "{:07}.{}",
                    shard * samples + i,
                    if modality == "image" { "jpg" } else { "json" }
                )
            };
            let data = |i: usize| {
                if modality == "image" {
                    picture(shard * samples + i)
                } else {
                    Bytes::from_static(br#"{"prompt":"a photograph"}"#)
                }
            };
            let files: Vec<_> = (0..samples).map(|i| (name(i), data(i))).collect();
            let files: Vec<_> =
                files.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
            std::fs::write(
                folder.join(modality).join(format!("{shard:06}.tar")),
                testing::tar(&files),
            )
            .unwrap();
        }
    }
    let list: Vec<_> = (0..shards).map(|shard| format!("\"{shard:06}.tar\"")).collect();
    let counts = vec![samples.to_string(); shards];
    let wdinfo = format!(
        r#"{{"data_keys":["caption","image"],"data_list":[{}],"data_list_key_count":[{}],"root":{:?},"total_key_count":{}}}"#,
        list.join(","),
        counts.join(","),
        folder.to_str().unwrap(),
        shards * samples
    );
    std::fs::write(folder.join("wdinfo.json"), wdinfo).unwrap();
}
