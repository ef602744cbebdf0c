//! Members of tar shards from memory and from local files, as a share of a bare read of the same bytes; and two lanes on two cores
//! against one lane on one core (`taskset`), beside what a bare read gains from the second core.
//!
//! `cargo bench --bench walk`, or `cargo bench --bench walk -- --test` to see that it runs.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use shardstream::store::{ByteRange, ByteStream, Local, Store};
use shardstream::tar::{Parser, Step};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Size of the chunks, as [`Local`] reads them.
const CHUNK: usize = 1 << 20;

/// A shard and how many members make up a sample.
struct Shard {
    name: &'static str,
    bytes: Bytes,
    members: usize,
    members_per_sample: usize,
}

fn header(name: &str, size: usize, kind: u8) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn append(archive: &mut Vec<u8>, name: &str, kind: u8, body: &[u8]) {
    archive.extend_from_slice(&header(name, body.len(), kind));
    archive.extend_from_slice(body);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// Bytes that differ from place to place.
fn body(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|place| (place.wrapping_mul(31) ^ seed) as u8).collect()
}

/// Pictures of 100 KB, plain headers.
fn large(bytes: usize) -> Shard {
    let mut archive = Vec::new();
    let members = bytes / 100_000;
    for number in 0..members {
        append(&mut archive, &format!("{number:08}.jpg"), b'0', &body(100_000, number));
    }
    finish("100 KB members", archive, members, 1)
}

/// An array of 4 KB and a little JSON, with a PAX header in front of each, as the webdataset library writes them.
fn small(bytes: usize) -> Shard {
    let mut archive = Vec::new();
    let samples = bytes / 7680;
    let pax = b"28 mtime=1700000000.1234567\n";
    for number in 0..samples {
        for (extension, size) in [("npy", 4224), ("json", 180)] {
            let name = format!("{number:08}.{extension}");
            append(&mut archive, "././@PaxHeader", b'x', pax);
            append(&mut archive, &name, b'0', &body(size, number));
        }
    }
    finish("4 KB npy + json with PAX headers", archive, 2 * samples, 2)
}

fn finish(
    name: &'static str,
    mut bytes: Vec<u8>,
    members: usize,
    members_per_sample: usize,
) -> Shard {
    bytes.resize(bytes.len() + 1024, 0);
    Shard { name, bytes: bytes.into(), members, members_per_sample }
}

/// Takes what the parser has; says how many members.
fn take(parser: &mut Parser) -> usize {
    let mut members = 0;
    loop {
        match parser.next().unwrap() {
            Step::Member(member) => {
                members += 1;
                black_box(member);
            }
            Step::Warning(_) => {}
            Step::NeedMore | Step::End { .. } => return members,
        }
    }
}

fn from_memory(chunks: &[Bytes]) -> usize {
    let mut parser = Parser::new();
    let members = chunks.iter().map(|chunk| {
        parser.push(chunk.clone());
        take(&mut parser)
    });
    members.sum()
}

async fn from_stream(mut stream: ByteStream) -> usize {
    let mut parser = Parser::new();
    let mut members = 0;
    while let Some(chunk) = stream.next().await {
        parser.push(chunk.unwrap());
        members += take(&mut parser);
    }
    members
}

/// Looks at every byte of the memory once.
fn sum(chunks: &[Bytes]) -> u64 {
    let words = chunks.iter().flat_map(|chunk| chunk.as_chunks::<8>().0);
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

fn bare_read(path: &std::path::Path, buffer: &mut [u8]) -> usize {
    let mut file = std::fs::File::open(path).unwrap();
    let mut whole = 0;
    loop {
        match file.read(buffer).unwrap() {
            0 => return whole,
            read => whole += read,
        }
    }
}

/// What is measured, and how.
type Run<'a> = (&'a str, Box<dyn FnMut() + 'a>);

/// The median time of some runs, taken in turns so that what disturbs one disturbs all.
fn medians(rounds: usize, runs: &mut [Run<'_>]) -> Vec<Duration> {
    let mut times = vec![Vec::new(); runs.len()];
    for _ in 0..rounds {
        for ((_, run), times) in runs.iter_mut().zip(&mut times) {
            let begin = Instant::now();
            run();
            times.push(begin.elapsed());
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
        .collect()
}

fn measure(shard: &Shard, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.tar");
    std::fs::write(&path, &shard.bytes).unwrap();
    let name = path.to_str().unwrap();
    let chunks: Vec<Bytes> = shard.bytes.chunks(CHUNK).map(Bytes::copy_from_slice).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let mut buffer = vec![0; CHUNK];

    let mut runs: Vec<Run<'_>> = vec![
        ("memory, every byte looked at", Box::new(|| _ = black_box(sum(&chunks)))),
        ("members from memory", Box::new(|| assert_eq!(from_memory(&chunks), shard.members))),
        (
            "file, read() into one buffer",
            Box::new(|| assert_eq!(bare_read(&path, &mut buffer), shard.bytes.len())),
        ),
        (
            "members from the file",
            Box::new(|| {
                assert_eq!(
                    runtime.block_on(from_stream(Local.read(name, ByteRange::ALL))),
                    shard.members
                )
            }),
        ),
    ];
    let times = medians(rounds, &mut runs);
    println!("{} ({} members, {} MB)", shard.name, shard.members, shard.bytes.len() / 1_000_000);
    for (place, ((name, _), time)) in runs.iter().zip(&times).enumerate() {
        let seconds = time.as_secs_f64();
        let speed = shard.bytes.len() as f64 / 1e6 / seconds;
        if place % 2 == 0 {
            println!("  {name:32} {speed:8.0} MB/s");
        } else {
            let share = 100.0 * times[place - 1].as_secs_f64() / seconds;
            let samples = (shard.members / shard.members_per_sample) as f64 / seconds;
            println!("  {name:32} {speed:8.0} MB/s  {share:4.0} %  {samples:9.0} samples/s");
        }
    }
}

/// How often each lane goes through its tar, once more before the clock starts.
const TIMES: usize = 3;

/// In a process of its own, on the cores that it was given: each lane walks the tar a few times, or only reads it; how many seconds it
/// took.
fn lanes_alone(told: &str) {
    let mut words = told.splitn(3, ':');
    let mut word = || words.next().unwrap().to_owned();
    let (lanes, only_read, path) = (word().parse().unwrap(), word() == "read", word());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(lanes).build().unwrap();
    let run = |times: usize| {
        let begin = Instant::now();
        if only_read {
            std::thread::scope(|scope| {
                for _ in 0..lanes {
                    scope.spawn(|| {
                        let mut buffer = vec![0; CHUNK];
                        (0..times).for_each(|_| _ = bare_read(path.as_ref(), &mut buffer));
                    });
                }
            });
        } else {
            runtime.block_on(async {
                let lanes = (0..lanes).map(|_| {
                    let path = path.clone();
                    tokio::spawn(async move {
                        for _ in 0..times {
                            from_stream(Local.read(&path, ByteRange::ALL)).await;
                        }
                    })
                });
                futures::future::join_all(lanes).await
            });
        }
        begin.elapsed()
    };
    run(1);
    println!("{}", run(TIMES).as_secs_f64());
}

fn two_lanes(shard: &Shard, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.tar");
    std::fs::write(&path, &shard.bytes).unwrap();
    let run = |cores: &str, lanes: usize, what: &str| -> Option<f64> {
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).arg(std::env::current_exe().unwrap());
        let output =
            command.arg(format!("lanes={lanes}:{what}:{}", path.display())).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let runs = [("0", 1, "read"), ("0", 1, "walk"), ("0,1", 2, "read"), ("0,1", 2, "walk")];
    let mut times = runs.map(|_| Vec::new());
    for _ in 0..rounds {
        for (times, (cores, lanes, what)) in times.iter_mut().zip(runs) {
            let Some(time) = run(cores, lanes, what) else {
                println!("  two lanes: no taskset, or no second core");
                return;
            };
            times.push(time);
        }
    }
    let [read, walk, two_read, two_walk] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let samples = (TIMES * shard.members / shard.members_per_sample) as f64;
    println!(
        "  one lane on one core             {:16.0} samples/s, {:.0} % of read() there",
        samples / walk,
        100.0 * read / walk
    );
    println!(
        "  two lanes on two cores           {:16.0} samples/s, {:.2} times; read() {:.2} times",
        2.0 * samples / two_walk,
        2.0 * walk / two_walk,
        2.0 * read / two_read
    );
}

fn main() {
    if let Some(told) = std::env::args().find_map(|a| a.strip_prefix("lanes=").map(str::to_owned)) {
        return lanes_alone(&told);
    }
    // `cargo test --benches` and `-- --test` ask only whether it runs.
    let is_test = !std::env::args().any(|argument| argument == "--bench")
        || std::env::args().any(|argument| argument == "--test");
    let (bytes, rounds) = if is_test { (2_000_000, 1) } else { (200_000_000, 11) };
    for shard in [large(bytes), small(bytes)] {
        measure(&shard, rounds);
        two_lanes(&shard, rounds.min(7));
    }
}
