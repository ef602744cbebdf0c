//! A manifest that rank 0 reads for all.

use bytes::Bytes;
use futures::FutureExt;
use serde::{Deserialize, Serialize};

use super::data_set::DataSet;
use super::leaf::Leaf;
use super::manifest::Manifest;
use crate::broadcast::Broadcast;
use crate::error::{Error, Result};
use crate::store::Store;

/// A manifest on its way.
#[derive(Debug, Serialize, Deserialize)]
struct Wire {
    hash: String,
    sources: Vec<(String, Vec<Leaf>)>,
}

impl Manifest {
    /// As [`Manifest::of_data_sets`], but read by rank 0 alone, once for all ranks.
    ///
    /// # Errors
    /// On every rank that of rank 0, if it fails; or if this rank would have another manifest.
    pub async fn shared(
        broadcast: &dyn Broadcast,
        store: &dyn Store,
        data_sets: &[(String, DataSet)],
    ) -> Result<Self> {
        let make = async { Self::of_data_sets(store, data_sets).await?.to_bytes() }.boxed();
        let bytes = broadcast.share("manifest", make).await?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|e| {
            Error::manifest(format!("what rank 0 sent to {} can't be read", broadcast.rank()))
                .with_source(e)
        })?;
        let mut sources = wire.sources;
        if sources.len() != data_sets.len() {
            return Err(Error::manifest(format!(
                "rank 0 has {} data sets, {} has {}",
                sources.len(),
                broadcast.rank(),
                data_sets.len()
            )));
        }
        for ((_, leaves), (_, data_set)) in sources.iter_mut().zip(data_sets) {
            // Stores don't travel: each rank has its own.
            leaves.iter_mut().for_each(|leaf| leaf.store = data_set.store.clone());
        }
        let manifest = Self::of_leaves(sources)?;
        if manifest.hash() != wire.hash {
            let rank = broadcast.rank();
            return Err(Error::manifest(format!(
                "{rank} has the hash {}, rank 0 has {}",
                manifest.hash(),
                wire.hash
            )));
        }
        Ok(manifest)
    }

    fn to_bytes(&self) -> Result<Bytes> {
        let sources = (0..self.sources().len()).map(|number| {
            let source = self.of_source(number);
            let leaves = source.leaves().iter().map(|leaf| Leaf::clone(leaf)).collect();
            (self.sources()[number].name.clone(), leaves)
        });
        let wire = Wire { hash: self.hash().to_owned(), sources: sources.collect() };
        Ok(serde_json::to_vec(&wire)
            .map_err(|e| Error::manifest("can't be sent").with_source(e))?
            .into())
    }
}
