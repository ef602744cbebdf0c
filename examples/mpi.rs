//! Rank 0 reads the manifests of a data set once, all ranks of an MPI job get them:
//!
//!     mpirun -n 4 target/debug/examples/mpi DATA_SET [SECONDS_TO_WAIT [RANK stays-away|is-killed]]
//!
//! Each rank prints what it got, how many reads it made for that, and when. `.ci/mpi` runs it.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::future::BoxFuture;
use shardstream::Result;
use shardstream::broadcast::{Broadcast, Mpi};
use shardstream::shard::{DataSet, Manifest};
use shardstream::store::{ByteRange, ByteStream, Local, Meta, Store};

/// Local files, and how many were read.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Store for Counting {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.0.fetch_add(1, Ordering::Relaxed);
        Local.read(path, range)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        Local.head(path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        Local.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        Local.put(path, bytes)
    }
}

async fn run(mpi: &Mpi, store: &Counting, path: String) -> Result<String> {
    let manifest = Manifest::shared(mpi, store, &[("data".into(), DataSet::at(path))]).await?;
    let (shards, samples) = (manifest.len(), manifest.total_samples().unwrap_or_default());
    Ok(format!("{shards} shards, {samples} samples, {}", manifest.hash()))
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| ".".into());
    let seconds = args.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(600.0);
    let odd: Option<u32> = args.next().and_then(|rank| rank.parse().ok());
    let mpi = match Mpi::new() {
        Ok(mpi) => mpi.deadline(Duration::from_secs_f64(seconds)),
        Err(error) => panic!("{error}"),
    };
    if odd == Some(mpi.rank().rank()) {
        if args.next().as_deref() == Some("is-killed") {
            let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
        }
        tokio::time::sleep(Duration::from_secs_f64(seconds * 1.5)).await;
        return ExitCode::SUCCESS;
    }
    let store = Counting::default();
    let (text, failed) = match run(&mpi, &store, path).await {
        Ok(text) => (text, false),
        Err(error) => (format!("error: {error}"), true),
    };
    let reads = store.0.load(Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let line = format!("{}, {reads} reads, at {now:.3}: {text}\n", mpi.rank());
    let _ = std::io::stdout().write_all(line.as_bytes());
    if failed {
        // Ending MPI would wait for a rank that is gone.
        std::process::exit(1);
    }
    ExitCode::SUCCESS
}
