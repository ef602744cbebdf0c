//! Checkpoints: what is settled of some lanes of a run, as versioned JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::progress::LaneProgress;
use crate::random::hash_bytes;
use crate::recipe::Note;
use crate::shard::{EpochOrder, Manifest, Order, Tail};
use crate::store::local::write_atomically;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
/// Far larger than any real checkpoint.
const LARGEST: u64 = 1 << 30;

/// What must be the same for a run to go on where another stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// A name for the run that the user may give; parts of runs with different names don't go together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Seed of the run.
    pub seed: u64,
    /// How many lanes it has, whatever the number of ranks and workers.
    pub lanes: u32,
    /// What happens to shards that can't be dealt out evenly.
    pub tail: String,
    /// Batches in a rank's epoch, where that is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_epoch: Option<u64>,
    /// Content hash of the manifest.
    pub manifest: String,
    /// The stages of the recipe with their parameters, in order.
    pub recipe: Vec<String>,
}

impl Identity {
    /// What a recipe says of itself, as it is kept.
    pub(crate) fn stages(notes: &[Note]) -> Vec<String> {
        notes.iter().map(|note| note.text.clone()).collect()
    }

    /// A hash of the recipe.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        hash_bytes(self.recipe.join("\n").as_bytes())
    }

    /// The order of shards that the recipe asks for in an epoch, if it is one of the simple ones.
    pub(crate) fn epoch_order(
        &self,
        manifest: &Manifest,
        tail: Tail,
        epoch: u64,
    ) -> Option<EpochOrder> {
        if self.recipe.iter().any(|stage| stage.starts_with("order(") || stage.starts_with("mix("))
        {
            return None;
        }
        let shuffled = self.recipe.iter().any(|stage| stage == "shuffle_shards");
        let order = if shuffled { Order::Shuffled { seed: self.seed } } else { Order::Listed };
        EpochOrder::new(order, tail, manifest.len(), self.lanes, epoch, 0).ok()
    }

    /// Refuses another run, and says what differs.
    fn check(&self, other: &Self) -> Result<()> {
        let refuse = |what: &str, theirs: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
            Err(Error::checkpoint(format!(
                "it belongs to another run: {what} {theirs:?}, and not {ours:?}"
            )))
        };
        if self.run != other.run {
            return refuse("run", &other.run, &self.run);
        }
        if self.manifest != other.manifest {
            return refuse("manifest", &other.manifest, &self.manifest);
        }
        if self.seed != other.seed {
            return refuse("seed", &other.seed, &self.seed);
        }
        if self.lanes != other.lanes {
            return refuse("lanes", &other.lanes, &self.lanes);
        }
        if self.tail != other.tail {
            return refuse("tail", &other.tail, &self.tail);
        }
        if self.with_epoch != other.with_epoch {
            return refuse("with_epoch", &other.with_epoch, &self.with_epoch);
        }
        if self.recipe != other.recipe {
            let differs = (0..self.recipe.len().max(other.recipe.len()))
                .find(|&i| self.recipe.get(i) != other.recipe.get(i));
            let stage = |recipe: &[String]| {
                differs.and_then(|i| recipe.get(i).cloned()).unwrap_or_else(|| "nothing".into())
            };
            return refuse("recipe", &stage(&other.recipe), &stage(&self.recipe));
        }
        Ok(())
    }
}

/// What is settled of some lanes of a run. Each rank writes the part for its lanes; any set of parts that covers all lanes restores
/// any number of ranks and workers.
///
/// Versioned JSON of a few KiB: no secrets, no paths, nothing that can be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    #[serde(flatten)]
    identity: Identity,
    progress: BTreeMap<u32, LaneProgress>,
}

impl Checkpoint {
    pub(crate) fn new(identity: Identity, progress: BTreeMap<u32, LaneProgress>) -> Self {
        Self { version: VERSION, identity, progress }
    }

    /// What the run is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The lanes that this part is about.
    pub fn lanes(&self) -> impl Iterator<Item = (u32, &LaneProgress)> {
        self.progress.iter().map(|(&lane, progress)| (lane, progress))
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never, unless memory runs out.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::checkpoint("can't be written as JSON").with_source(error))
    }

    /// From JSON.
    ///
    /// # Errors
    /// If it is no checkpoint, or one of another version.
    pub fn from_json(text: &str) -> Result<Self> {
        /// Read first: another version may have other fields.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let bad = |error| Error::checkpoint("not a checkpoint").with_source(error);
        let Version { version } = serde_json::from_str(text).map_err(bad)?;
        if version != VERSION {
            return Err(Error::checkpoint(format!(
                "version {version}; this program reads version {VERSION}"
            )));
        }
        let checkpoint: Self = serde_json::from_str(text).map_err(bad)?;
        if let Some(lane) =
            checkpoint.progress.keys().find(|&&lane| lane >= checkpoint.identity.lanes)
        {
            return Err(Error::checkpoint(format!(
                "lane {lane} of {} lanes",
                checkpoint.identity.lanes
            )));
        }
        Ok(checkpoint)
    }

    /// Writes it to a file, so that a crash leaves the old file or the new one, whole.
    ///
    /// # Errors
    /// Of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |error| {
            Error::checkpoint("can't be written")
                .with_source(error)
                .in_shard(path.to_string_lossy())
        };
        write_atomically(path, self.to_json()?.as_bytes()).map_err(failed)
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// Of the file system, and as [`Checkpoint::from_json`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let read = || {
            if std::fs::metadata(path)?.len() > LARGEST {
                return Err(std::io::Error::other("too large for a checkpoint"));
            }
            std::fs::read_to_string(path)
        };
        let text = read().map_err(|error| {
            Error::checkpoint("can't be read").with_source(error).in_shard(path.to_string_lossy())
        })?;
        Self::from_json(&text).map_err(|error| error.in_shard(path.to_string_lossy()))
    }

    /// Joins the parts of all ranks.
    ///
    /// # Errors
    /// If there are none, they belong to different runs, a lane is in two of them, or a lane is in none.
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or_else(|| Error::checkpoint("no parts were given"))?;
        for part in parts {
            whole.identity.check(&part.identity)?;
            for (lane, progress) in part.progress {
                if whole.progress.insert(lane, progress).is_some() {
                    return Err(Error::checkpoint(format!("lane {lane} is in two of the parts")));
                }
            }
        }
        if let Some(lane) =
            (0..whole.identity.lanes).find(|lane| !whole.progress.contains_key(lane))
        {
            let have = whole.progress.len();
            return Err(Error::checkpoint(format!(
                "lane {lane} is in none of the parts: {have} of {} lanes were given",
                whole.identity.lanes
            )));
        }
        Ok(whole)
    }

    /// Takes out the lanes that a rank runs, after comparing with what it is about to run.
    pub(crate) fn take(
        mut self,
        identity: &Identity,
        lanes: impl Iterator<Item = u32>,
    ) -> Result<BTreeMap<u32, LaneProgress>> {
        identity.check(&self.identity)?;
        Ok(lanes.filter_map(|lane| Some((lane, self.progress.remove(&lane)?))).collect())
    }
}
