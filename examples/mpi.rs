//! Rank 0 reads the manifests of a data set once, all ranks of an MPI job get them:
//!
//!     mpirun -n 4 target/debug/examples/mpi DATA_SET [SECONDS_TO_WAIT [RANK_THAT_STAYS_AWAY]]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use shardstream::Result;
use shardstream::broadcast::{Broadcast, Mpi};
use shardstream::shard::{DataSet, Manifest};
use shardstream::store::{StoreOptions, Stores};

async fn run(mpi: &Mpi, path: String) -> Result<String> {
    let store = Stores::new(StoreOptions::default())?;
    let manifest = Manifest::shared(mpi, &store, &[("data".into(), DataSet::at(path))]).await?;
    Ok(format!(
        "{} shards, {:?} samples, {}",
        manifest.len(),
        manifest.total_samples(),
        manifest.hash()
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| ".".into());
    let seconds = args.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(600.0);
    let away: Option<u32> = args.next().and_then(|rank| rank.parse().ok());
    let mpi = match Mpi::new() {
        Ok(mpi) => mpi.deadline(Duration::from_secs_f64(seconds)),
        Err(error) => panic!("{error}"),
    };
    let started = Instant::now();
    let (text, code) = match away == Some(mpi.rank().rank()) {
        true => {
            tokio::time::sleep(Duration::from_secs_f64(seconds * 1.5)).await;
            ("stayed away".into(), ExitCode::SUCCESS)
        }
        false => match run(&mpi, path).await {
            Ok(text) => (text, ExitCode::SUCCESS),
            Err(error) => (format!("error: {error}"), ExitCode::FAILURE),
        },
    };
    use std::io::Write;
    let _ = writeln!(
        std::io::stdout(),
        "{} after {:.3} s: {text}",
        mpi.rank(),
        started.elapsed().as_secs_f64()
    );
    code
}
