//! Real processes, killed at random moments, continued on another number of ranks.
//!
//! `SHARDSTREAM_KILLS=50 cargo test --test loader kill` repeats it as often as is asked for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shardstream::prelude::*;
use shardstream::testing;

const LANES: u32 = 4;

/// `(lane, lane_batch)` -> keys, as they were printed.
type Printed = BTreeMap<(u64, u64), Vec<String>>;

fn cat(
    folder: &Path,
    rank: u32,
    world: u32,
    workers: u32,
    parts: &[PathBuf],
    part: &Path,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
    command.arg("cat").args(["--lanes", &LANES.to_string(), "--shuffle", "30", "--batch", "3"]);
    command.args([
        "--rank",
        &rank.to_string(),
        "--world-size",
        &world.to_string(),
        "--workers",
        &workers.to_string(),
    ]);
    command.arg("--checkpoint").arg(part).args(["--checkpoint-every", "1"]);
    for part in parts {
        command.arg("--resume").arg(part);
    }
    if parts.is_empty() {
        command.args(["--seed", "11"]);
    }
    command.arg("--").arg(folder.join("data")).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Reads lines until the end, or kills the process after so many.
fn run(mut command: Command, kill_after: Option<u64>, printed: &mut Printed) {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut batches: Printed = BTreeMap::new();
    let mut count = 0;
    while kill_after.is_none_or(|most| count < most) {
        let Some(Ok(line)) = lines.next() else { break };
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let place = (line["lane"].as_u64().unwrap(), line["lane_batch"].as_u64().unwrap());
        batches.entry(place).or_default().push(line["key"].as_str().unwrap().to_owned());
        count += 1;
    }
    if kill_after.is_some() {
        // SIGKILL: no handler, no flush.
        child.kill().unwrap();
    }
    // What is still in the pipe was printed too.
    for line in lines.map_while(|line| line.ok()) {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { break };
        let place = (line["lane"].as_u64().unwrap(), line["lane_batch"].as_u64().unwrap());
        batches.entry(place).or_default().push(line["key"].as_str().unwrap().to_owned());
    }
    child.wait().unwrap();
    for (place, keys) in batches {
        // A batch of which only a part had been printed comes again, whole.
        let before = printed.entry(place).or_default();
        let common = before.len().min(keys.len());
        assert_eq!(before[..common], keys[..common], "lane and batch {place:?}");
        if keys.len() > before.len() {
            *before = keys;
        }
    }
}

#[test]
fn killed_and_continued_on_other_ranks() {
    let rounds = std::env::var("SHARDSTREAM_KILLS").map_or(4, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for (shard, samples) in [120, 80, 0, 150, 33, 97, 61].into_iter().enumerate() {
        let files: Vec<_> = (0..samples)
            .map(|i| (format!("s{shard}_k{i:04}.txt"), format!("{shard} {i}")))
            .collect();
        let files: Vec<_> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
        std::fs::write(data.join(format!("{shard:06}.tar")), testing::tar(&files)).unwrap();
    }
    let mut whole = Printed::new();
    run(cat(folder.path(), 0, 1, 1, &[], &folder.path().join("whole.json")), None, &mut whole);
    // 7 shards on 4 lanes: padding reads one again.
    assert!(whole.values().flatten().count() >= 541, "{}", whole.len());
    for round in 0..rounds {
        let mut rng = Rng::keyed(&[99, round]);
        let mut printed = Printed::new();
        let mut parts: Vec<PathBuf> = Vec::new();
        let mut killed = 0;
        for generation in 0.. {
            let world = [1, 2, 4][rng.below(3) as usize];
            let last = generation == 3;
            let mut next = Vec::new();
            for rank in 0..world {
                let part = folder.path().join(format!("r{round}_g{generation}_{rank}.json"));
                let kill = (!last).then(|| rng.below(150));
                killed += u64::from(kill.is_some());
                let command =
                    cat(folder.path(), rank, world, 1 + rng.below(3) as u32, &parts, &part);
                run(command, kill, &mut printed);
                if !part.exists() {
                    // Killed before its first checkpoint: it had printed nothing, and begins again.
                    let command = cat(folder.path(), rank, world, 1, &parts, &part);
                    run(command, Some(200), &mut printed);
                }
                next.push(part);
            }
            parts = next;
            if last {
                break;
            }
        }
        assert!(killed > 0);
        assert_eq!(printed, whole, "round {round}");
        let certify = Command::new(env!("CARGO_BIN_EXE_shardstream"))
            .arg("certify")
            .args(&parts)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&certify.stdout).into_owned();
        assert!(
            certify.status.success() && said.contains("covered exactly once"),
            "round {round}: {said}"
        );
    }
}
