//! A process that is killed and started again makes the same bytes as one that was left in peace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shardstream::random::Rng;
use tempfile::tempdir;

use crate::support::{assert_same, shardstream, stderr, tree, write_samples};

/// How often to kill: more by `SHARDSTREAM_KILLS`.
fn kills() -> u64 {
    std::env::var("SHARDSTREAM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6)
}

fn args<'a>(input: &'a Path, output: &'a Path) -> Vec<&'a str> {
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    let mut args = vec!["pack", "--input-dir", input, "--output-dir", output, "--quiet"];
    args.extend([
        "--no-classify-aspect-ratio",
        "--shard-size",
        "10",
        "--num-workers",
        "2",
        "--root",
        "/data",
    ]);
    args
}

/// How many shards the record says are finished.
fn finished(output: &Path) -> usize {
    let text =
        fs::read_to_string(output.join(".shardstream/part-0-of-1.jsonl")).unwrap_or_default();
    text.lines().count().saturating_sub(1)
}

#[test]
fn killed_at_any_moment_and_resumed() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 600);
    let whole = folder.path().join("whole");
    let done = shardstream(&args(&input, &whole));
    assert!(done.status.success(), "{}", stderr(&done));
    let want: BTreeMap<PathBuf, Vec<u8>> = tree(&whole);
    let mut rng = Rng::keyed(&[8]);
    let mut interrupted = 0;
    for _ in 0..kills() {
        let _ = fs::remove_dir_all(&output);
        let mut moment = rng.below(60);
        loop {
            let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
            command
                .args(args(&input, &output))
                .arg("--resume")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            // The moment is a number of finished shards, so that it does not depend on the speed of the machine.
            let killed = loop {
                if child.try_wait().unwrap().is_some() {
                    break false;
                }
                if finished(&output) as u64 >= moment {
                    child.kill().unwrap();
                    break true;
                }
                std::thread::yield_now();
            };
            let status = child.wait().unwrap();
            if !killed || status.success() {
                assert!(status.success());
                break;
            }
            interrupted += 1;
            moment += 1 + rng.below(30);
        }
        assert_same(&want, &tree(&output));
    }
    assert!(interrupted > 0, "never killed in time");
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 50);
    assert!(shardstream(&args(&input, &output)).status.success());
    let before = tree(&output);
    let tar = output.join("image/part_000000/000001.tar");
    let written = fs::metadata(&tar).unwrap().modified().unwrap();
    assert!(shardstream(&[&args(&input, &output)[..], &["--resume"]].concat()).status.success());
    assert_same(&before, &tree(&output));
    assert_eq!(fs::metadata(&tar).unwrap().modified().unwrap(), written, "was written again");
    // What a killed process left under a temporary name goes away; a shard that went missing is made again, a torn last line of the record does not count.
    fs::remove_file(&tar).unwrap();
    for left in [".shardstream/.123-1.tmp", ".456-1.tmp", "image/part_000000/.000001.tar.tmp"] {
        fs::write(output.join(left), "half").unwrap();
    }
    let record = output.join(".shardstream/part-0-of-1.jsonl");
    let text = fs::read(&record).unwrap();
    fs::write(&record, &text[..text.len() - 30]).unwrap();
    assert!(shardstream(&[&args(&input, &output)[..], &["--resume"]].concat()).status.success());
    assert_same(&before, &tree(&output));
}

#[test]
fn killed_before_the_record_was_there() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 20);
    fs::create_dir_all(output.join(".shardstream")).unwrap();
    fs::write(output.join(".shardstream/.123-1.tmp"), "half a record").unwrap();
    let done = shardstream(&[&args(&input, &output)[..], &["--resume"]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(!output.join(".shardstream/.123-1.tmp").exists());
}

#[test]
fn another_run_is_not_resumed() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 50);
    assert!(shardstream(&args(&input, &output)).status.success());
    let before = tree(&output);
    for other in [
        &["--resume", "--seed", "9"][..],
        &["--resume", "--limit", "20"],
        &["--resume", "--allow-singletons"],
        &[],
    ] {
        let refused = shardstream(&[&args(&input, &output)[..], other].concat());
        assert_eq!(refused.status.code(), Some(1), "{other:?}");
        let line = stderr(&refused);
        assert!(line.contains("can't resume") || line.contains("is not empty"), "{line}");
        assert_same(&before, &tree(&output));
    }
}

#[test]
#[cfg(unix)]
fn interrupted_by_the_keyboard() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 600);
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
    let mut child = command.args(args(&input, &output)).stderr(Stdio::piped()).spawn().unwrap();
    while finished(&output) < 2 {
        assert!(child.try_wait().unwrap().is_none(), "ended too soon");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = child.wait_with_output().unwrap();
    if ended.status.success() {
        // It was faster than the signal.
        return;
    }
    assert_eq!(
        stderr(&ended),
        "shardstream: pack: interrupted; the same command with --resume goes on\n"
    );
    let left = tree(&output);
    assert!(!left.keys().any(|path| path.to_string_lossy().ends_with(".tmp")), "{:?}", left.keys());
    assert!(!left.contains_key(Path::new("wdinfo.json")));
    assert!(shardstream(&[&args(&input, &output)[..], &["--resume"]].concat()).status.success());
    let whole = folder.path().join("whole");
    assert!(shardstream(&args(&input, &whole)).status.success());
    assert_same(&tree(&whole), &tree(&output));
}
