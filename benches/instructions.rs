//! What walk, join and shuffle cost in instructions: `.ci/instructions` counts them with callgrind and compares with `instructions.txt`.
//!
//! `instructions <walk|join|shuffle> <samples>` does the work once. Two runs with different numbers tell what a sample costs, free of what
//! it costs to start.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use bytes::Bytes;
use futures::{StreamExt, stream};
use shardstream::position::Mark;
use shardstream::prelude::*;
use shardstream::sample::{Head, Key};
use shardstream::shard::DataSet;
use shardstream::tar::{Parser, Step};
use shardstream::testing;

/// A tar of one file of 2 KB for each sample.
fn tar(samples: usize, extension: &str) -> Bytes {
    let names: Vec<_> = (0..samples).map(|i| format!("{i:07}.{extension}")).collect();
    let body = [7; 2048];
    testing::tar(&names.iter().map(|name| (name.as_str(), &body[..])).collect::<Vec<_>>())
}

/// What is counted: everything inside of it, and nothing else.
#[inline(never)]
fn measured(work: impl FnOnce() -> usize) -> usize {
    work()
}

/// Members of a tar that comes in chunks of 64 KiB.
fn walk(mut bytes: Bytes) -> usize {
    let (mut parser, mut members) = (Parser::new(), 0);
    loop {
        match parser.next().unwrap() {
            Step::Member(_) => members += 1,
            Step::Warning(warning) => panic!("{warning:?}"),
            Step::NeedMore if bytes.is_empty() => parser.finish(),
            Step::NeedMore => parser.push(bytes.split_to(bytes.len().min(64 << 10))),
            Step::End { .. } => return members,
        }
    }
}

/// Twins in memory.
async fn twins(samples: usize) -> (Manifest, Memory) {
    let store = Memory::new();
    store.insert("image/0.tar", tar(samples, "jpg"));
    store.insert("caption/0.tar", tar(samples, "json"));
    let set = DataSet::at_all(["0.tar"]).modalities(["image", "caption"]);
    (set.load(&store).await.unwrap(), store)
}

/// Samples of twins.
async fn join((manifest, store): (Manifest, Memory)) -> usize {
    shard_list(&manifest)
        .open_twins(store)
        .expand()
        .group_by_keys()
        .map(Result::unwrap)
        .count()
        .await
}

/// Samples from a shuffle of 1000.
async fn shuffle(samples: usize) -> usize {
    let origin = std::sync::Arc::default();
    let sample = move |ordinal: u64| {
        let mark = Mark { key: ordinal, ..Mark::read(ordinal, ordinal) };
        let head = Head::new(Key::default(), std::sync::Arc::clone(&origin), mark);
        Ok(Sample { head, body: ordinal })
    };
    stream::iter((0..samples as u64).map(sample)).shuffle(1000).map(Result::unwrap).count().await
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, samples) = match &arguments[..] {
        [what, samples, ..] => (what.as_str(), samples.parse().unwrap_or(100)),
        // As `cargo bench` and `cargo test` call it: everything once.
        _ => ("", 100),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for part in ["walk", "join", "shuffle"] {
        if what.is_empty() || what.starts_with('-') || what == part {
            let done = match part {
                "walk" => {
                    let bytes = tar(samples, "jpg");
                    measured(|| walk(bytes))
                }
                "join" => {
                    let twins = runtime.block_on(twins(samples));
                    measured(|| runtime.block_on(join(twins)))
                }
                _ => measured(|| runtime.block_on(shuffle(samples))),
            };
            assert_eq!(done, samples, "{part}");
        }
    }
}
