//! The cache as it is used on a node: real processes on one folder, at once, killed, short of room.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use bytes::Bytes;
use shardstream::testing::tar;
use tokio::process::Command;

use crate::server::{Answer, Request, Server, Step, honest};

const SHARDS: usize = 4;

/// 2.5 MB in 25 samples.
fn shard(n: usize) -> Bytes {
    let body: Vec<u8> = (0..100_000u32).map(|i| (i / 5) as u8 ^ n as u8).collect();
    let names: Vec<_> = (0..25).map(|i| format!("s{n}_k{i:02}.bin")).collect();
    tar(&names.iter().map(|name| (name.as_str(), &body[..])).collect::<Vec<_>>())
}

/// A server of all shards that harms the answers to those requests which the closure picks.
async fn serve(hangs: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Server {
    let shards: Vec<Bytes> = (0..SHARDS).map(shard).collect();
    Server::start(move |request| {
        let n: usize = request.target[1..2].parse().unwrap();
        let answer = honest(request, &shards[n], "\"v1\"");
        if hangs(request) { answer.cut(1_500_000, &[Step::Hang]) } else { answer }
    })
    .await
}

/// A request for data; a process also asks for one byte, to learn version and size.
fn is_fetch(request: &Request) -> bool {
    request.range() != Some((0, Some(1)))
}

fn fetches(server: &Server) -> Vec<String> {
    let mut all: Vec<_> =
        server.seen().into_iter().filter(is_fetch).map(|request| request.target).collect();
    all.sort();
    all
}

fn cat(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
    command.arg("cat").args(arguments).arg("--");
    command.args((0..SHARDS).map(|n| server.url(&format!("/{n}.tar"))));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// What it prints if all is well.
fn printed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.filter(|path| !path.ends_with(".lock")).collect()
}

async fn without_cache(server: &Server) -> String {
    let all = printed(&cat(server, &[]).output().await.unwrap());
    assert_eq!(all.lines().count(), 25 * SHARDS);
    all
}

#[tokio::test]
async fn processes_at_once_fetch_each_shard_once() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(|_| false).await);
    let want = without_cache(&server).await;
    let before = fetches(&server).len();
    let dir = folder.path().to_str().unwrap();
    let processes = (0..5).map(|_| cat(&server, &["--cache-dir", dir]).output());
    for output in futures::future::join_all(processes).await {
        assert!(printed(&output.unwrap()) == want);
    }
    assert_eq!(fetches(&server).len() - before, SHARDS, "{:?}", fetches(&server));
    assert_eq!(files(folder.path()).len(), SHARDS);
    // And from disk alone, later.
    assert!(printed(&cat(&server, &["--cache-dir", dir]).output().await.unwrap()) == want);
    assert_eq!(fetches(&server).len() - before, SHARDS);
}

#[tokio::test]
async fn a_process_killed_in_the_middle_of_a_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap().to_owned();
    // The first who asks for the third shard gets half of it.
    let server =
        serve(|request| is_fetch(request) && request.target == "/2.tar" && request.earlier < 2)
            .await;
    let mut killed = cat(&server, &["--cache-dir", &dir, "--stall-timeout", "1h"]).spawn().unwrap();
    // A block of it has come to the disk, and the others are there, whole: they are opened ahead.
    let half_there = || {
        let is_part = |path: &PathBuf| path.extension().is_some_and(|e| e == "part");
        let (parts, whole): (Vec<_>, Vec<_>) = files(folder.path()).into_iter().partition(is_part);
        let written = |part: &PathBuf| part.metadata().is_ok_and(|found| found.blocks() > 0);
        whole.len() == SHARDS - 1 && parts.len() == 1 && parts.iter().all(written)
    };
    while !half_there() {
        tokio::task::yield_now().await;
    }
    // SIGKILL: no handler, no clean up.
    killed.kill().await.unwrap();
    assert!(half_there(), "it was not in the middle");
    let before = fetches(&server).len();
    let got = printed(&cat(&server, &["--cache-dir", &dir]).output().await.unwrap());
    let fetched = fetches(&server).len() - before;
    assert!(got == without_cache(&server).await);
    assert_eq!(fetched, 1);
    assert_eq!(files(folder.path()).len(), SHARDS);
}

#[tokio::test]
async fn processes_at_once_keep_to_the_size() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(|_| false).await);
    let want = without_cache(&server).await;
    let dir = folder.path().to_str().unwrap();
    let processes =
        (0..4).map(|_| cat(&server, &["--cache-dir", dir, "--cache-size", "6MB"]).output());
    for output in futures::future::join_all(processes).await {
        assert!(printed(&output.unwrap()) == want);
    }
    let used: u64 = files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!((2_500_000..=6_000_000).contains(&used), "{used}");
}

#[tokio::test]
async fn a_disk_without_room_costs_a_warning_and_no_sample() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(|_| false).await);
    let want = without_cache(&server).await;
    let cached = cat(&server, &["--cache-dir", folder.path().to_str().unwrap()]);
    // A limit on the size of files, in blocks of 512 or 1024 bytes, stands for the full disk: no shard fits below it.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$@\"", "sh"]);
    limited.arg(cached.as_std().get_program()).args(cached.as_std().get_args());
    let output = limited.output().await.unwrap();
    assert!(printed(&output) == want);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("is turned off").count(), 1, "{said}");
    assert!(files(folder.path()).iter().all(|file| file.extension().is_some()), "taken for whole");
}

/// Every header of every request, in words.
fn heads(server: &Server) -> Vec<String> {
    let line = |request: Request| format!("{} {:?}", request.target, request.headers);
    server.seen().into_iter().map(line).collect()
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn credentials_from_the_environment_and_from_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    std::fs::write(
        &file,
        "[default]\naws_access_key_id = of-default\naws_secret_access_key = s3cret\n\
         [team]\naws_access_key_id = of-team\naws_secret_access_key = s3cret\naws_session_token = t0ken\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let data = shard(0);
    let server = Server::start(move |request| {
        honest(request, &data, "\"v1\"").with("last-modified", "Mon, 30 Nov 2026 00:00:00 GMT")
    })
    .await;
    let endpoint = server.url("");
    let keys = [("AWS_ACCESS_KEY_ID", "of-env"), ("AWS_SECRET_ACCESS_KEY", "s3cret")];
    let files = [("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_CONFIG_FILE", "/none")];
    for (settings, there, missing) in [
        (
            [&keys[..], &[("AWS_REGION", "eu-7")]].concat(),
            "Credential=of-env/",
            "x-amz-security-token",
        ),
        ([&keys[..], &files[..]].concat(), "Credential=of-env/", "of-default"),
        (files.to_vec(), "Credential=of-default/", "x-amz-security-token"),
        ([&files[..], &[("AWS_PROFILE", "team")]].concat(), "Credential=of-team/", "of-default"),
        (
            [&files[..], &[("AWS_PROFILE", "team")]].concat(),
            "\"x-amz-security-token\": \"t0ken\"",
            "s3cret",
        ),
        (
            [&files[..], &[("AWS_REQUEST_PAYER", "true")]].concat(),
            "\"x-amz-request-payer\": \"requester\"",
            "s3cret",
        ),
        (vec![("AWS_SKIP_SIGNATURE", "true")], "/bucket/my%20%231.tar", "authorization"),
    ] {
        let before = heads(&server).len();
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
        command.args(["cat", "--", "s3://bucket/my #1.tar"]);
        // Nothing of this machine's own settings.
        command.env_clear().env("HOME", folder.path()).env("NO_PROXY", "127.0.0.1");
        command.env("AWS_ENDPOINT_URL", &endpoint).envs(settings.iter().copied());
        let output = command.output().await.unwrap();
        assert_eq!(printed(&output).lines().count(), 25, "{settings:?}");
        let asked = &heads(&server)[before..];
        assert!(
            asked.iter().all(|head| head.contains(there) && !head.contains(missing)),
            "{settings:?}: {asked:?}"
        );
    }
    let region =
        heads(&server).iter().filter(|head| head.contains("/eu-7/s3/aws4_request")).count();
    assert!(region > 0, "the region is not in the signature");
}

#[tokio::test]
async fn what_a_url_is_signed_with_is_printed_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = shard(0);
    let server = Server::start(move |request| match request.target.contains("bad") {
        true => {
            Answer::new(403).body("<Error><Code>AccessDenied</Code><Signed>S1G</Signed></Error>")
        }
        false => honest(request, &data, "\"v1\""),
    })
    .await;
    let checkpoint = folder.path().join("part.json");
    for name in ["good", "bad"] {
        let url = server
            .url(&format!("/{name}.tar?X-Sig=S1G&user=M3"))
            .replace("http://", "http://us3r:p4ss@");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardstream"));
        command.arg("cat").arg("--checkpoint").arg(&checkpoint).arg("--").arg(&url);
        let output = command.env("RUST_LOG", "trace").output().await.unwrap();
        assert_eq!(output.status.success(), name == "good");
        let said = [&output.stdout[..], b"\n", &output.stderr].concat();
        let mut said = String::from_utf8(said).unwrap();
        assert!(said.contains(&format!("/{name}.tar")), "{said}");
        said.push_str(&std::fs::read_to_string(&checkpoint).unwrap_or_default());
        for secret in ["S1G", "M3", "us3r", "p4ss"] {
            assert!(!said.contains(secret), "{secret} in {said}");
        }
    }
    assert!(checkpoint.exists());
}
