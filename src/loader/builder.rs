//! How a loader is set up, started and resumed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::stream::{Stream, StreamExt};

use super::lane::{self, Lane};
use super::legacy::LegacyProgress;
use super::{LaneRun, Loader, OnError, Recipe, State, Stats};
use crate::checkpoint::{Checkpoint, Identity};
use crate::error::{Error, Result};
use crate::memory::LaneMemory;
use crate::progress::LaneProgress;
use crate::recipe::{self, Note};
use crate::sample::Heads;
use crate::shard::{LegacyStart, Manifest, Tail};
use crate::stages::Pump;
use crate::topology::Rank;

/// Settings of a [`Loader`]; made by [`Loader::builder`].
#[must_use = "a builder does nothing before `start` or `resume`"]
pub struct Builder<B> {
    manifest: Manifest,
    recipe: Arc<Recipe<B>>,
    run: String,
    seed: Option<u64>,
    rank: Rank,
    workers: u32,
    lanes: Option<u32>,
    epochs: Option<u64>,
    first_epoch: u64,
    legacy: Option<LegacyStart>,
    with_epoch: Option<u64>,
    prefetch: usize,
    on_error: OnError,
    tail: Tail,
    allow_uneven: bool,
    memory: Option<u64>,
}

impl<B> fmt::Debug for Builder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("seed", &self.seed)
            .field("rank", &self.rank)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl<B: Heads + Send + 'static> Builder<B> {
    pub(super) fn new<S>(
        manifest: &Manifest,
        recipe: impl Fn(&Lane) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream<Item = Result<B>> + Send + 'static,
    {
        Self {
            manifest: manifest.clone(),
            recipe: Arc::new(move |lane| recipe(lane).boxed()),
            run: String::new(),
            seed: None,
            rank: Rank::SINGLE,
            workers: 1,
            lanes: None,
            epochs: Some(1),
            first_epoch: 0,
            legacy: None,
            with_epoch: None,
            prefetch: 2,
            on_error: OnError::Stop,
            tail: Tail::default(),
            allow_uneven: false,
            memory: None,
        }
    }

    /// Seed of every order and random choice (0). Resuming takes it from the checkpoint; another one is refused there.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// A name for the run: parts of checkpoints of runs with other names are refused.
    pub fn run_name(mut self, name: impl Into<String>) -> Self {
        self.run = name.into();
        self
    }

    /// Which rank this is (0 of 1). With tensor or context parallelism give the group as the rank.
    pub fn rank(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    /// Tasks that read at once (1). They never change the data of a lane; on the first run ranks times workers is the number of lanes.
    /// One is enough for pictures, which it decodes and collates on all cores; more help where a single reader can't keep up, and each
    /// holds batches of its own.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Number of lanes over all ranks (ranks times workers). Fixed for the life of a run; a multiple of every number of ranks that is to come.
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// How many epochs (1).
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Epochs without end.
    pub fn repeat(mut self) -> Self {
        self.epochs = None;
        self
    }

    /// The number of the first epoch (0), where a run begins in a later one without a checkpoint.
    pub fn first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = epoch;
        self
    }

    /// Begins where PiD would go on by `WDS_EPOCH_NUM` and `WDS_START_INDEX` ([`LegacyStart::from_env`]): whole shards are left
    /// out, and a warning says how many samples are seen again. For runs without `interleave` that have no checkpoint yet.
    pub fn legacy_start(mut self, start: LegacyStart) -> Self {
        self.first_epoch = start.epoch;
        self.legacy = Some(start);
        self
    }

    /// An epoch of a rank is this many batches, whatever its lanes have: each goes on into its next epoch's order on its own. All ranks
    /// take equal steps, whatever is skipped.
    pub fn with_epoch(mut self, batches: u64) -> Self {
        self.with_epoch = Some(batches);
        self
    }

    /// Batches that wait for the trainer, for each lane (2).
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// How many bytes the lanes of this rank may hold at once (no limit): what is read and not yet parsed, samples in every stage, batches
    /// until their heads are dropped. Each sample counts by its fields, decoded ones by their values, and in a batch by its part of it; of a
    /// file that is open 5 MiB are on their way. On top come what an allocator keeps, memory that is kept to be used again (at most 512 MiB of
    /// a type), and what a store reads ahead over a network, which has a budget of its own
    /// ([`RemoteOptions::budget`](crate::store::RemoteOptions)).
    ///
    /// Each lane has an equal part, and reads on beyond it only for a trainer that waits for it; or to take in a member of more than 8 MiB,
    /// whose room the other lanes lack until it is used. So what a recipe must hold at once (its open tars, its shuffle buffer, a batch)
    /// should be less than a part, and the largest sample fit in beside that; if they don't, only nothing is read ahead. Never changes the data.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// What is done about faults (stop).
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// What happens when the shards can't be dealt out evenly (pad).
    pub fn tail(mut self, tail: Tail) -> Self {
        self.tail = tail;
        self
    }

    /// Allows plans by which ranks may take different numbers of steps.
    pub fn allow_uneven(mut self) -> Self {
        self.allow_uneven = true;
        self
    }

    /// Begins at the first sample.
    ///
    /// # Errors
    /// If it can't work: no shards, lanes that the ranks can't share evenly, ranks that could take different numbers of steps.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Loader<B>> {
        let lanes =
            self.lanes.map_or_else(|| self.rank.world_size().checked_mul(self.workers), Some);
        let lanes = lanes.ok_or_else(|| Error::config("more lanes than can be counted"))?;
        self.check_even()?;
        let (identity, notes) = self.identity(lanes, self.seed.unwrap_or(0))?;
        let legacy = self.legacy.map(|start| {
            let ranks = self.rank.world_size();
            LegacyProgress::new(start, &self.manifest, self.tail, lanes, ranks)
        });
        let legacy = legacy.transpose()?;
        let progress = self
            .rank
            .lanes(lanes)
            .map(|lane| match &legacy {
                Some(legacy) => (lane, legacy.of_lane(lane)),
                None => (lane, LaneProgress::at(self.first_epoch, self.sources())),
            })
            .collect();
        self.run(identity, &notes, progress)
    }

    /// Goes on where a run stopped, with the parts that its ranks wrote; the number of ranks and workers may be another.
    ///
    /// # Errors
    /// If the parts don't cover all lanes exactly once, or belong to another manifest, seed, recipe, version or run; if the lanes can't
    /// be shared evenly by the ranks and that is not allowed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn resume(self, parts: impl IntoIterator<Item = Checkpoint>) -> Result<Loader<B>> {
        let whole = Checkpoint::join(parts)?;
        let lanes = whole.identity().lanes;
        if let Some(wanted) = self.lanes.filter(|&wanted| wanted != lanes) {
            return Err(Error::checkpoint(format!(
                "the run has {lanes} lanes, and {wanted} were asked for: their number is fixed for the life of a run"
            )));
        }
        let (identity, notes) = self.identity(lanes, self.seed.unwrap_or(whole.identity().seed))?;
        let mut progress = whole.take(&identity, self.rank.lanes(lanes))?;
        for lane in progress.values_mut() {
            lane.sources.resize_with(self.sources(), Default::default);
            lane.check()?;
        }
        self.run(identity, &notes, progress)
    }

    /// Begins where the lanes of this rank are said to be.
    #[cfg(feature = "cli")]
    pub(crate) fn start_at(
        self,
        lanes: u32,
        progress: BTreeMap<u32, LaneProgress>,
    ) -> Result<Loader<B>> {
        let (identity, notes) = self.identity(lanes, self.seed.unwrap_or(0))?;
        self.run(identity, &notes, progress)
    }

    fn sources(&self) -> usize {
        self.manifest.sources().len().max(1)
    }

    /// Refuses what can't work, before anything is read.
    fn identity(&self, lanes: u32, seed: u64) -> Result<(Identity, Vec<Note>)> {
        if self.workers == 0 || lanes == 0 {
            return Err(Error::config("there must be at least one worker and one lane"));
        }
        if self.prefetch == 0 {
            return Err(Error::config("prefetch 0: no batch could ever be handed over"));
        }
        if self.with_epoch == Some(0) {
            return Err(Error::config("with_epoch 0: an epoch has at least one batch"));
        }
        let ranks = self.rank.world_size();
        if !lanes.is_multiple_of(ranks) && !self.allow_uneven {
            return Err(Error::config(format!(
                "{lanes} lanes can't be shared evenly by a world size of {ranks}: ranks would take different numbers of steps. Use a world size that divides {lanes}, or allow uneven steps"
            )));
        }
        if self.manifest.is_empty() {
            return Err(Error::config("the manifest has no shards"));
        }
        // Build the recipe once, to hear what it says of itself.
        let (_, notes) = recipe::record(|| {
            (self.recipe)(&self.lane(0, lanes, seed, &LaneProgress::at(0, 0), None))
        });
        let recipe = Identity::stages(&notes);
        if lanes > 1
            && !["split_by_rank", "split_by_worker"]
                .iter()
                .all(|split| recipe.iter().any(|stage| stage == split))
        {
            return Err(Error::config(format!(
                "the recipe must split_by_rank and split_by_worker, or each of the {lanes} lanes would read everything"
            )));
        }
        let apart = recipe.iter().position(|stage| stage == "unbatch").unwrap_or(0);
        if let Some(stage) = recipe[..apart]
            .iter()
            .find(|stage| stage.starts_with("batch_by(") || stage.ends_with("drop_last true)"))
        {
            return Err(Error::config(format!(
                "unbatch behind {stage}: samples are delivered one by one, and a resume in the middle of a batch would fill it with others"
            )));
        }
        let (run, tail) = (self.run.clone(), format!("{:?}", self.tail).to_lowercase());
        Ok((
            Identity {
                run,
                seed,
                lanes,
                tail,
                with_epoch: self.with_epoch,
                manifest: self.manifest.hash().to_owned(),
                recipe,
            },
            notes,
        ))
    }

    /// Refuses ranks that could take different numbers of steps.
    fn check_even(&self) -> Result<()> {
        if self.rank.world_size() == 1 || self.allow_uneven || self.with_epoch.is_some() {
            return Ok(());
        }
        let count = self.manifest.samples(0);
        let why = if count.is_none() || !self.manifest.has_counts() {
            "the manifest does not count the samples of its shards"
        } else if (0..self.manifest.len()).any(|shard| self.manifest.samples(shard) != count) {
            "the shards have different numbers of samples"
        } else if self.tail == Tail::Uneven {
            "tail is uneven"
        } else {
            return Ok(());
        };
        Err(Error::config(format!(
            "{why}, so ranks could take different numbers of steps and wait for each other for ever: use with_epoch(batches), or allow_uneven()"
        )))
    }

    fn lane(
        &self,
        lane: u32,
        lanes: u32,
        seed: u64,
        progress: &LaneProgress,
        memory: Option<&Arc<LaneMemory>>,
    ) -> Lane {
        Lane {
            manifest: self.manifest.clone(),
            seed,
            tail: self.tail,
            lane,
            lanes,
            epoch: progress.epoch,
            progress: progress.sources.clone(),
            memory: memory.cloned(),
        }
    }

    fn run(
        self,
        identity: Identity,
        notes: &[Note],
        progress: BTreeMap<u32, LaneProgress>,
    ) -> Result<Loader<B>> {
        let stop = self.epochs.map(|epochs| self.first_epoch + epochs);
        // Lanes that roll over end with the loader, not at an epoch of their own.
        let lane_stop = if self.with_epoch.is_some() { None } else { stop };
        let budget = self.memory.map(|bytes| LaneMemory::of_lanes(progress.len(), bytes));
        let mut memories = budget.into_iter().flatten();
        let lanes: Vec<_> = progress
            .into_iter()
            .map(|(id, progress)| {
                let memory = memories.next();
                let lane = self.lane(id, identity.lanes, identity.seed, &progress, memory.as_ref());
                let counts = memory.clone();
                let (ended, kept) = (progress.ended, progress.kept.as_ref());
                let items = lane::run(lane, ended, kept, lane_stop, Arc::clone(&self.recipe));
                let items = items.inspect(move |item| {
                    if let (lane::Item::Batch(_), Some(memory)) = (item, &counts) {
                        memory.set_awaited(false);
                    }
                });
                let pump = Pump::spawn(items, self.prefetch);
                LaneRun { id, pump, progress, memory, empty_rounds: 0, skipping_since: None }
            })
            .collect();
        let epoch = match self.with_epoch {
            Some(n) => {
                self.first_epoch + lanes.iter().map(|lane| lane.progress.turns).sum::<u64>() / n
            }
            None => lanes.iter().map(|lane| lane.progress.epoch).min().unwrap_or(self.first_epoch),
        };
        let ended = stop.is_some_and(|stop| epoch >= stop) || lanes.is_empty();
        Ok(Loader {
            lanes,
            identity,
            manifest: self.manifest,
            on_error: self.on_error,
            epochs: stop,
            with_epoch: self.with_epoch,
            batch: notes.iter().rev().find_map(|note| note.batch),
            tail: self.tail,
            epoch,
            stats: Stats::new(),
            waiting: None,
            first_skip: None,
            state: if ended { State::Ended } else { State::Running },
        })
    }
}
