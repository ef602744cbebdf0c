//! Packing by the real program, against `cp` of the same files and against a plain Python loop that writes the same tars:
//! pictures of 100 KB with captions, files of 2 KB with captions, and one large shard for the memory it takes.
//!
//! `cargo bench --bench pack`; `SHARDSTREAM_PACK_DIR` says where the files lie (default: the folder for temporary files), which should be the
//! disk in question. Everything is in the page cache; `cp` is followed by a sync of its folder, as the program syncs what it writes.
//! Each figure is the median of three runs taken in turns.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;

/// One sample in a row: a file of each modality into its twin, as people write it with `tarfile`.
const PYTHON: &str = r"
import io, os, sys, tarfile
source, target, per_shard = sys.argv[1], sys.argv[2], int(sys.argv[3])
folders = sorted(os.listdir(source))
names = [sorted(os.listdir(os.path.join(source, folder))) for folder in folders]
for folder, files in zip(folders, names):
    os.makedirs(os.path.join(target, folder))
    for start in range(0, len(files), per_shard):
        path = os.path.join(target, folder, '%06d.tar' % (start // per_shard))
        with open(path, 'wb') as out, tarfile.open(fileobj=out, mode='w') as tar:
            for name in files[start:start + per_shard]:
                data = open(os.path.join(source, folder, name), 'rb').read()
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            out.flush()
            os.fsync(out.fileno())
";

struct Input {
    name: &'static str,
    samples: usize,
    bytes: usize,
    per_shard: usize,
}

/// Bytes that no file system and no checksum finds simple.
fn body(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn make(input: &Input, folder: &Path) {
    for modality in ["image", "caption"] {
        fs::create_dir_all(folder.join(modality)).unwrap();
    }
    for i in 0..input.samples {
        let picture = body(input.bytes, i as u64 + 1);
        fs::write(folder.join(format!("image/{i:07}.jpg")), picture).unwrap();
        let caption = format!(r#"{{"prompt": "picture {i}"}}"#);
        fs::write(folder.join(format!("caption/{i:07}.json")), caption).unwrap();
    }
    run(Command::new("sync").arg("-f").arg(folder));
}

/// How long a program takes, and the most memory it held.
fn run(command: &mut Command) -> (Duration, u64) {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        peak = kilobytes.unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = began.elapsed();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(ended.success(), "{command:?}: {errors}");
    (took, peak << 10)
}

fn pack(input: &Input, source: &Path, target: &Path) -> (Duration, u64) {
    let program = env!("CARGO_BIN_EXE_shardstream");
    let mut command = Command::new(program);
    command.args(["pack", "--quiet", "--no-classify-aspect-ratio", "--max-shard-size-mb", "0"]);
    command.arg("--shard-size").arg(input.per_shard.to_string());
    run(command.arg("--input-dir").arg(source).arg("--output-dir").arg(target))
}

/// Runs something into a fresh folder, and removes what it made.
fn fresh<T>(target: &Path, work: impl FnOnce() -> T) -> T {
    let result = work();
    fs::remove_dir_all(target).unwrap();
    run(Command::new("sync").arg("-f").arg(target.parent().unwrap()));
    result
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn compare(input: &Input, folder: &Path) {
    let (source, target) = (folder.join("source"), folder.join("target"));
    make(input, &source);
    let (mut cp, mut python, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        cp.push(fresh(&target, || {
            let (copied, _) = run(Command::new("cp").arg("-r").arg(&source).arg(&target));
            copied + run(Command::new("sync").arg("-f").arg(&target)).0
        }));
        python.push(fresh(&target, || {
            let mut command = Command::new("python3");
            command.args(["-c", PYTHON]).arg(&source).arg(&target);
            run(command.arg(input.per_shard.to_string())).0
        }));
        ours.push(fresh(&target, || pack(input, &source, &target).0));
    }
    let (cp, python, ours) = (median(cp), median(python), median(ours));
    let samples = input.samples as f64;
    println!(
        "{}: cp and sync {:.0} samples/s, Python {:.0}, shardstream {:.0}: {:.0} % of cp, {:.1} times Python",
        input.name,
        samples / cp,
        samples / python,
        samples / ours,
        100.0 * cp / ours,
        python / ours,
    );
    fs::remove_dir_all(&source).unwrap();
}

fn memory(folder: &Path) {
    let (source, target) = (folder.join("source"), folder.join("target"));
    let input = Input { name: "", samples: 400, bytes: 4_000_000, per_shard: 1000 };
    make(&input, &source);
    let (took, peak) = fresh(&target, || pack(&input, &source, &target));
    println!(
        "one shard of 1.6 GB: {:.1} s, peak RSS {:.0} MB",
        took.as_secs_f64(),
        peak as f64 / 1e6
    );
    fs::remove_dir_all(&source).unwrap();
}

fn main() {
    // `cargo test --benches` and `-- --test` only want to know that it runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let folder = match std::env::var_os("SHARDSTREAM_PACK_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let scale = if quick { 100 } else { 1 };
    for input in [
        Input { name: "100 KB", samples: 10_000 / scale, bytes: 100_000, per_shard: 2500 },
        Input { name: "2 KB", samples: 100_000 / scale, bytes: 2000, per_shard: 25_000 },
    ] {
        compare(&input, folder.path());
    }
    if !quick {
        memory(folder.path());
    }
}
