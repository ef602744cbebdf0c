//! Manifests of millions of shards: `cargo bench --bench manifest [-- SHARDS]` (1,000,000 and 10,000,000 unless told otherwise).
//!
//! How long it takes to parse one and to list the shards of one rank of 64, median of five, and what it holds in memory.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use futures::StreamExt;
use shardstream::prelude::*;
use support::{medians, status_mb};

/// Twins of a thousand samples, a thousand shards in a folder.
fn write(path: &Path, shards: usize) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut text = String::from(r#"{"data_keys":["image","caption"],"root":".","data_list":["#);
    let mut list = |text: &mut String, item: &dyn Fn(usize, &mut String)| {
        for shard in 0..shards {
            item(shard, text);
            text.push(if shard + 1 < shards { ',' } else { ']' });
            if text.len() > 1 << 20 {
                file.write_all(text.as_bytes()).unwrap();
                text.clear();
            }
        }
    };
    list(&mut text, &|shard, text| {
        write!(text, r#""part_{:06}/{:06}.tar""#, shard / 1000, shard % 1000).unwrap();
    });
    text.push_str(r#","data_list_key_count":["#);
    list(&mut text, &|_, text| text.push_str("1000"));
    write!(text, r#","total_key_count":{}}}"#, shards * 1000).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn measure(runtime: &tokio::runtime::Runtime, shards: usize, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("wdinfo.json"), shards);
    let path = folder.path().to_str().unwrap();
    let load = || runtime.block_on(Manifest::load(&Local, path)).unwrap();
    let before = status_mb("VmRSS");
    let manifest = load();
    let (held, peak) = (status_mb("VmRSS") - before, status_mb("VmHWM") - before);
    let each = |mb: f64| mb * 1024.0 * 1024.0 / shards as f64;
    let of_rank = |manifest: &Manifest| {
        let list = shard_list(manifest).shuffle_shards().rank(Rank::new(3, 64).unwrap());
        let mine = runtime.block_on(list.split_by_rank().count());
        assert_eq!(mine, shards.div_ceil(64));
    };
    let mut runs: Vec<Box<dyn FnMut() + '_>> =
        vec![Box::new(|| of_rank(&load())), Box::new(|| of_rank(&manifest))];
    let took = medians(rounds, &mut runs);
    println!(
        "{shards} shards: parsed, and those of one rank of 64 listed in {:.3} s ({:.2} CPU s), the listing alone {:.4} s; {:.0} bytes each held, {:.0} at the peak",
        took[0].wall.as_secs_f64(),
        took[0].cpu,
        took[1].wall.as_secs_f64(),
        each(held),
        each(peak),
    );
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let told = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    let sizes = told.map_or_else(
        || if is_test { vec![1000] } else { vec![1_000_000, 10_000_000] },
        |shards| vec![shards],
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for shards in sizes {
        measure(&runtime, shards, if is_test { 1 } else { 5 });
    }
}
