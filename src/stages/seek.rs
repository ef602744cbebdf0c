//! Where reading begins in the tars of a shard of which some samples are settled already: what its sample index says.

use crate::error::{Error, Result};
use crate::shard::{SampleIndex, Shard};
use crate::store::{Store, read_all, redact};

/// Largest index that is read.
const LARGEST: u64 = 1 << 30;
/// So many of the settled samples are read again. If the shard is broken behind the last one, that is known to be whole by what the one
/// before it is made of.
const AGAIN: usize = 2;

/// How many samples at the head of a shard are passed over, and the offset in each twin at which the next one begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) samples: u64,
    pub(super) offsets: Vec<u64>,
}

/// Asks the index of a shard where to begin. `None` at the first byte: nothing to pass over, or the index does not say (with a warning).
pub(super) async fn seek(store: &dyn Store, shard: &Shard, folder: Option<&str>) -> Option<Start> {
    if settled(shard, AGAIN + 1) <= AGAIN {
        return None;
    }
    match ask(store, shard, folder).await {
        Ok(start) => start,
        Err(error) => {
            tracing::warn!("settled samples are read again: {}", error.in_shard(shard.name()));
            None
        }
    }
}

async fn ask(store: &dyn Store, shard: &Shard, folder: Option<&str>) -> Result<Option<Start>> {
    let path = SampleIndex::path_of(folder, &shard.leaf, &shard.path);
    let index = SampleIndex::decode(read_all(store, &path, LARGEST).await?, &redact(&path))?;
    let tars = shard.tars();
    let indexed = index.twins().iter().map(|twin| twin.modality.as_str());
    if !indexed.eq(tars.iter().map(|(modality, _)| modality.as_deref().unwrap_or_default())) {
        return Err(Error::index("it is the index of other modalities").in_shard(redact(&path)));
    }
    for (twin, (_, tar)) in index.twins().iter().zip(&tars) {
        twin.check(&store.head(tar).await?)?;
    }
    Ok(start(&index, settled(shard, index.keys().len())))
}

/// How many samples at the head of a shard are settled, counted up to a limit.
fn settled(shard: &Shard, limit: usize) -> usize {
    let Some(first) = shard.first else { return 0 };
    let is_settled = |index: &usize| !shard.context.owes(first + *index as u64 * shard.stride);
    (0..limit).take_while(is_settled).count()
}

fn start(index: &SampleIndex, settled: usize) -> Option<Start> {
    let passed = settled.checked_sub(AGAIN).filter(|&passed| passed > 0)?;
    let offsets = index.offsets_of(passed)?;
    Some(Start { samples: passed as u64, offsets })
}
