//! Reading over distance: `cargo bench --bench remote [-- MiB [MB/s]] [loader] [ahead=N]`.
//!
//! A server (a process of its own, on the loopback address) answers after 50 ms, takes 50 ms for a handshake, gives each connection
//! 40 MB/s and all together 400 MB/s, or what is said. One connection is bound by its own limit; ranges read ahead should reach the
//! server's. Then again with 1 % of requests refused and 1 % stalling, and through the whole loader. With `SHARDSTREAM_PYTHON` set to a
//! Python that has `webdataset`, that reads the same shards beside it, through `pipe:curl`.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use shardstream::prelude::*;
use shardstream::random::Rng;
use shardstream::store::{Budget, ByteRange, Http, Remote, RemoteOptions};
use shardstream::testing;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const LATENCY: Duration = Duration::from_millis(50);
const EACH: f64 = 40e6;
const PIECE: usize = 256 << 10;
/// Samples of 100 KB in a shard of the loader's, and in its batches.
const SAMPLES: usize = 640;
const BATCH: usize = 16;

/// What is served: as many bytes of this tar, over and over, as the path begins with: `/<bytes>/name.tar`.
struct Server {
    data: Bytes,
    /// Bytes a second, all connections together.
    limit: f64,
    /// In a hundred.
    failing: u64,
    stalling: u64,
    requests: AtomicU64,
    began: Instant,
    /// Nanoseconds after `began` at which the link is free again.
    link: AtomicU64,
}

impl Server {
    /// When a piece that is sent now will have left, by the limit of the whole server.
    fn through_link(&self, bytes: usize) -> Instant {
        let now = self.began.elapsed().as_nanos() as u64;
        let takes = (bytes as f64 / self.limit * 1e9) as u64;
        let free = self
            .link
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(free.max(now) + takes));
        self.began + Duration::from_nanos(free.unwrap_or(now).max(now) + takes)
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> std::io::Result<()> {
        // The handshake.
        tokio::time::sleep(LATENCY).await;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        loop {
            let (mut size, mut range, mut line) = (0, None, String::new());
            loop {
                line.clear();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                if let Some(path) = line.strip_prefix("GET /") {
                    size = path.split('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                    let (first, last) = value.trim().split_once('-').unwrap_or_default();
                    range = first.parse().ok().map(|first: u64| (first, last.parse().ok()));
                }
            }
            tokio::time::sleep(LATENCY).await;
            let n = self.requests.fetch_add(1, Ordering::Relaxed);
            let roll = Rng::keyed(&[1, n]).below(100);
            if roll < self.failing {
                stream.write_all(b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            }
            let (start, last) = range.unwrap_or((0, None));
            let end = last.map_or(size, |last: u64| last + 1).min(size);
            let status = if range.is_some() {
                format!("206 Partial\r\ncontent-range: bytes {start}-{}/{size}", end - 1)
            } else {
                "200 OK".to_owned()
            };
            let length = end - start;
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: \"v1\"\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let stalls_at =
                if roll < self.failing + self.stalling { start + length / 2 } else { u64::MAX };
            let (began, mut at) = (Instant::now(), start);
            while at < end {
                if at >= stalls_at {
                    // Until the client goes away.
                    let _ = stream.read(&mut [0; 1]).await;
                    return Ok(());
                }
                let place = (at % self.data.len() as u64) as usize;
                let len = PIECE.min((end - at) as usize).min(self.data.len() - place);
                let own = began + Duration::from_secs_f64((at - start + len as u64) as f64 / EACH);
                tokio::time::sleep_until(own.max(self.through_link(len)).into()).await;
                stream.write_all(&self.data[place..place + len]).await?;
                at += len as u64;
            }
        }
    }
}

/// Serves until its standard input is closed.
async fn serve(limit: f64, failing: u64, stalling: u64) {
    let (requests, link) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let server =
        Arc::new(Server { data: shard(), limit, failing, stalling, requests, began, link });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    while let Ok((stream, _)) = listener.accept().await {
        // A client that goes away is no fault of the server.
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.serve(stream).await });
    }
}

/// A tar of samples of 100 KB.
fn shard() -> Bytes {
    let body = vec![7; 100_000];
    let names: Vec<_> = (0..SAMPLES).map(|i| format!("{i:06}.bin")).collect();
    testing::tar(&names.iter().map(|name| (name.as_str(), &body[..])).collect::<Vec<_>>())
}

/// A server in a process of its own.
struct Remotely {
    child: Child,
    url: String,
}

impl Remotely {
    fn start(limit: f64, (failing, stalling): (u64, u64)) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(format!("serve={limit},{failing},{stalling}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        Self { child, url: format!("http://{}", line.trim()) }
    }
}

impl Drop for Remotely {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU seconds of a process and of its children that have ended (from `/proc`; 0 elsewhere).
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime, stime, cutime, cstime, in hundredths of a second.
    let ticks = fields.get(11..15).unwrap_or_default().iter();
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Runs something that returns how many bytes it read and when the first ones were there, and prints how fast it was.
fn measure(name: &str, limit: f64, faults: (u64, u64), run: impl FnOnce(&str) -> (u64, Duration)) {
    let server = Remotely::start(limit, faults);
    let id = server.child.id().to_string();
    let (ours, theirs, began) = (cpu_seconds("self"), cpu_seconds(&id), Instant::now());
    let (bytes, first) = run(&server.url);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{name:44} {:6.1} MB/s {:5.1} % of the server   first after {:4.0} ms ({:3.1} round trips)   CPU s {:4.1} + server's {:4.1} in {seconds:4.1} s",
        bytes as f64 / seconds / 1e6,
        bytes as f64 / seconds / limit * 100.0,
        first.as_secs_f64() * 1e3,
        first.as_secs_f64() / LATENCY.as_secs_f64(),
        cpu_seconds("self") - ours,
        cpu_seconds(&id) - theirs,
    );
}

fn remote(options: RemoteOptions) -> Remote<Http> {
    Remote::new(Http::with_client(Http::builder().no_proxy().build().unwrap()), options).unwrap()
}

/// Reads some objects at once; the first MiB of each counts as the first.
fn objects(url: &str, size: u64, streams: u64, options: RemoteOptions) -> (u64, Duration) {
    runtime().block_on(async {
        let store = remote(options);
        let began = Instant::now();
        let readers = (0..streams).map(|n| {
            let mut stream = store.read(&format!("{url}/{size}/{n}.tar"), ByteRange::ALL);
            tokio::spawn(async move {
                let (mut read, mut first) = (0, Duration::ZERO);
                while let Some(chunk) = stream.next().await {
                    read += chunk.unwrap().len() as u64;
                    if read >= 1 << 20 && first.is_zero() {
                        first = began.elapsed();
                    }
                }
                assert_eq!(read, size, "lost bytes");
                first
            })
        });
        let firsts = futures::future::join_all(readers).await;
        let first = firsts.into_iter().map(|first| first.unwrap()).max();
        (size * streams, first.unwrap_or_default())
    })
}

/// Reads shards one after another through the whole loader, without decoding.
fn loader(url: &str, shards: u64, options: RemoteOptions) -> (u64, Duration) {
    let size = shard().len();
    runtime().block_on(async {
        let began = Instant::now();
        let store = remote(options);
        let names: Vec<_> = (0..shards).map(|n| format!("{url}/{size}/{n}.tar")).collect();
        let mut twins = shard_list(&Manifest::of_shards(names).unwrap()).open_twins(store);
        if let Some(ahead) = argument("ahead=") {
            twins = twins.ahead(ahead.parse().unwrap());
        }
        let mut batches = twins.expand().group_by_keys().batch(BATCH);
        let (mut samples, mut first) = (0, Duration::ZERO);
        while let Some(batch) = batches.next().await {
            samples += batch.unwrap().data.len();
            if first.is_zero() {
                first = began.elapsed();
            }
        }
        assert_eq!(samples, SAMPLES * shards as usize, "lost samples");
        (size as u64 * shards, first)
    })
}

/// The same shards in Python.
fn webdataset(url: &str, shards: u64, python: &str) -> (u64, Duration) {
    const PROGRAM: &str = "
import sys, time, webdataset
began, samples, first = time.time(), 0, 0
urls = [f'pipe:curl -s -f {url}' for url in sys.argv[3:]]
for batch in webdataset.WebDataset(urls, shardshuffle=False).to_tuple('bin').batched(int(sys.argv[1]), partial=True):
    samples += len(batch[0])
    first = first or time.time() - began
assert samples == int(sys.argv[2]), samples
print(first)";
    let size = shard().len() as u64;
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, &BATCH.to_string(), &(SAMPLES as u64 * shards).to_string()]);
    command.args((0..shards).map(|n| format!("{url}/{size}/{n}.tar")));
    let output = command.env("NO_PROXY", "127.0.0.1").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "webdataset failed");
    let first: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    (size * shards, Duration::from_secs_f64(first))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// The rest of the argument that begins so.
fn argument(prefix: &str) -> Option<String> {
    std::env::args().find_map(|argument| argument.strip_prefix(prefix).map(str::to_owned))
}

fn main() {
    if let Some(what) = argument("serve=") {
        let numbers: Vec<f64> = what.split(',').map(|number| number.parse().unwrap()).collect();
        return runtime().block_on(serve(numbers[0], numbers[1] as u64, numbers[2] as u64));
    }
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let size = numbers.next().unwrap_or(2048) << 20;
    let limit = numbers.next().unwrap_or(400) as f64 * 1e6;
    let usual = RemoteOptions::default;
    let single = || {
        let mut options = RemoteOptions::default();
        (options.part, options.ranges, options.budget) = (1 << 30, 1, Budget::new(2 << 30));
        options
    };
    let shards = size / shard().len() as u64;
    println!("a server of {} MB/s, {} MB/s for each connection", limit / 1e6, EACH / 1e6);
    let (none, some) = ((0, 0), (1, 1));
    if std::env::args().all(|argument| argument != "loader") {
        measure("one connection a shard", limit, none, |url| objects(url, size / 8, 1, single()));
        measure("one object, ranges read ahead", limit, none, |url| objects(url, size, 1, usual()));
        measure("four objects at once", limit, none, |url| objects(url, size / 4, 4, usual()));
        measure("one object, 1 % fail, 1 % stall", limit, some, |url| {
            objects(url, size, 1, usual())
        });
        measure("four objects, 1 % fail, 1 % stall", limit, some, |url| {
            objects(url, size / 4, 4, usual())
        });
    }
    measure("loader, one connection a shard", limit, none, |url| loader(url, shards / 8, single()));
    measure("loader", limit, none, |url| loader(url, shards, usual()));
    measure("loader, 1 % fail, 1 % stall", limit, some, |url| loader(url, shards, usual()));
    match std::env::var("SHARDSTREAM_PYTHON") {
        Ok(python) => measure("webdataset (Python), pipe:curl", limit, none, |url| {
            webdataset(url, shards / 8, &python)
        }),
        Err(_) => println!("webdataset (Python): SHARDSTREAM_PYTHON is not set"),
    }
}
