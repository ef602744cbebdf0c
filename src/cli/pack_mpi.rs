//! `shardstream pack --mpi`: each rank of an `mpirun` makes a part, rank 0 puts them together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::progress::{Progress, watch};
use crate::broadcast::{Broadcast, Mpi};
use crate::error::{Error, Result};
use crate::pack::{PackOptions, PackReport, Part, merge, pack_with};

/// How long ranks wait for the slowest. If one dies `mpirun` ends them all, so this is not what notices it.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Packs this rank's part. On rank 0 the report of the whole comes back, elsewhere nothing.
pub(super) fn pack(mut options: PackOptions, progress: Progress) -> Result<Option<PackReport>> {
    let mpi = Mpi::new()?.deadline(PATIENCE);
    let rank = mpi.rank();
    options.part = Some(Part { index: rank.rank(), parts: rank.world_size() });
    let output = options.output.clone();
    let progress = if rank.rank() == 0 { progress } else { Progress::new(true, None) };
    let packed = watch(progress, async |control| pack_with(options, control).await);

    let report = Mutex::new(None);
    let put_together = async {
        *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(merge(&output)?);
        Ok(Bytes::new())
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::config("can't start the runtime").with_source(error))?;
    let merged = runtime.block_on(async {
        // Nothing is put together before all have come. A rank that failed comes too; what is missing then is named to all.
        mpi.share("packed", async { Ok(Bytes::new()) }.boxed()).await?;
        mpi.share("merged", put_together.boxed()).await
    });
    packed?;
    merged?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}
