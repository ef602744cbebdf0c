//! Reading over distance: `cargo bench --bench remote [-- MiB]`.
//!
//! A server on the loopback address answers after 50 ms, gives each connection 40 MB/s and all together 400 MB/s. One connection is bound
//! by its own limit; ranges read ahead should reach the server's. Then again with 1 % of requests refused and 1 % stalling.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use shardstream::random::Rng;
use shardstream::store::{Budget, ByteRange, Http, Remote, RemoteOptions, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const LATENCY: Duration = Duration::from_millis(50);
const EACH: f64 = 40e6;
const ALL: f64 = 400e6;
const PIECE: usize = 128 << 10;

struct Server {
    size: u64,
    data: Bytes,
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
    fn through_link(&self) -> Instant {
        let now = self.began.elapsed().as_nanos() as u64;
        let takes = (PIECE as f64 / ALL * 1e9) as u64;
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
            let (mut range, mut line) = (None, String::new());
            loop {
                line.clear();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                    range = value.trim().split_once('-').map(|(a, b)| {
                        (a.parse().unwrap_or(0), b.parse().map_or(self.size, |b: u64| b + 1))
                    });
                }
            }
            tokio::time::sleep(LATENCY).await;
            let n = self.requests.fetch_add(1, Ordering::Relaxed);
            let roll = Rng::keyed(&[1, n]).below(100);
            if roll < self.failing {
                stream.write_all(b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            }
            let (start, end) = range.unwrap_or((0, self.size));
            let end = end.min(self.size);
            let head = format!(
                "HTTP/1.1 206 Partial\r\ncontent-length: {}\r\ncontent-range: bytes {start}-{}/{}\r\netag: \"v1\"\r\n\r\n",
                end - start,
                end - 1,
                self.size
            );
            stream.write_all(head.as_bytes()).await?;
            let stalls_at = if roll < self.failing + self.stalling {
                start + (end - start) / 2
            } else {
                u64::MAX
            };
            let (began, mut at) = (Instant::now(), start);
            while at < end {
                if at >= stalls_at {
                    // Until the client goes away.
                    let _ = stream.read(&mut [0; 1]).await;
                    return Ok(());
                }
                let len = PIECE.min((end - at) as usize);
                let own = began + Duration::from_secs_f64((at - start + len as u64) as f64 / EACH);
                tokio::time::sleep_until(own.max(self.through_link()).into()).await;
                stream.write_all(&self.data[..len]).await?;
                at += len as u64;
            }
        }
    }
}

async fn start(size: u64, failing: u64, stalling: u64) -> (String, Arc<Server>) {
    let (data, requests, link) = (vec![7; PIECE].into(), AtomicU64::new(0), AtomicU64::new(0));
    let server =
        Arc::new(Server { size, data, failing, stalling, requests, began: Instant::now(), link });
    let counts = Arc::clone(&server);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback address");
    let url = format!("http://{}/shard.tar", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that goes away is no fault of the server.
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.serve(stream).await });
        }
    });
    (url, counts)
}

/// Reads some objects at once, and prints how fast.
async fn run(name: &str, size: u64, streams: u64, faults: (u64, u64), options: RemoteOptions) {
    let (url, server) = start(size, faults.0, faults.1).await;
    let client = Http::builder().no_proxy().build().expect("a client");
    let store = Remote::new(Http::with_client(client), options).expect("options");
    let began = Instant::now();
    let readers = (0..streams).map(|_| {
        let mut stream = store.read(&url, ByteRange::ALL);
        tokio::spawn(async move {
            let (mut read, mut first) = (0, None);
            while let Some(chunk) = stream.next().await {
                read += chunk.expect("faults heal").len() as u64;
                if read >= 1 << 20 && first.is_none() {
                    first = Some(began.elapsed());
                }
            }
            (read, first.unwrap_or_default())
        })
    });
    let done: Vec<_> = futures::future::join_all(readers)
        .await
        .into_iter()
        .map(|done| done.expect("no panic"))
        .collect();
    let (seconds, bytes) =
        (began.elapsed().as_secs_f64(), done.iter().map(|(read, _)| read).sum::<u64>());
    assert_eq!(bytes, size * streams, "lost bytes");
    let first = done.iter().map(|(_, first)| first.as_secs_f64()).fold(0.0, f64::max);
    let speed = bytes as f64 / seconds;
    println!(
        "{name:42} {:6.1} MB/s  {:5.1} % of the server   first MiB after {:3.0} ms   {} requests",
        speed / 1e6,
        speed / ALL * 100.0,
        first * 1e3,
        server.requests.load(Ordering::Relaxed)
    );
}

fn main() {
    let mib = std::env::args().skip(1).find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(2048);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let size = mib << 20;
        let single = || {
            let mut options = RemoteOptions::default();
            (options.part, options.ranges, options.budget) = (1 << 30, 1, Budget::new(2 << 30));
            options
        };
        run("one connection", size / 8, 1, (0, 0), single()).await;
        run("one object, ranges read ahead", size, 1, (0, 0), RemoteOptions::default()).await;
        run("four objects, ranges read ahead", size / 4, 4, (0, 0), RemoteOptions::default()).await;
        run("one object, 1 % fail, 1 % stall", size, 1, (1, 1), RemoteOptions::default()).await;
        run("four objects, 1 % fail, 1 % stall", size / 4, 4, (1, 1), RemoteOptions::default())
            .await;
    });
}
