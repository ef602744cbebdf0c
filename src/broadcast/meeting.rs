//! [`Meeting`]: any store as the place where ranks meet.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::{Broadcast, DEADLINE, failed, in_words};
use crate::error::{Error, Result};
use crate::random::{Rng, hash};
use crate::store::{Store, read_all};
use crate::topology::Rank;

/// The first wait between two looks, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// The largest verdict and the largest value that are read.
const LIMITS: (u64, u64) = (1 << 28, 8 << 30);

/// Ranks that see the same store meet in a folder of it. Each leaves a mark when it comes; rank 0 waits for all marks, then writes the
/// value and after it the verdict, once and whole; the others look for the verdict, less and less often.
///
/// Every call leaves a random mark, and a verdict counts only for the marks that it lists: what is left of an earlier
/// run is never taken for an answer. Still every run should have an id of its own: old marks make it look as if their ranks had come.
#[derive(Debug, Clone)]
pub struct Meeting {
    store: Arc<dyn Store>,
    folder: String,
    rank: Rank,
    deadline: Duration,
}

/// What rank 0 found.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    /// The marks of those whom it concerns.
    marks: BTreeSet<String>,
    /// SHA-256 of the value; what went wrong if there is none.
    value: Result<String, String>,
}

impl Meeting {
    /// A meeting of all ranks in `folder` of `store`, under an id that all ranks of this run know and no other run has: the job's number, say.
    ///
    /// # Errors
    /// If the id is empty or holds a slash.
    pub fn new(store: Arc<dyn Store>, folder: &str, run_id: &str, rank: Rank) -> Result<Self> {
        if run_id.is_empty() || run_id.contains('/') {
            return Err(Error::config(format!(
                "run id {run_id:?}: expected a name without a slash"
            )));
        }
        let folder = format!("{}/{run_id}", folder.trim_end_matches('/'));
        Ok(Self { store, folder, rank, deadline: DEADLINE })
    }

    /// How long ranks wait for each other; 10 minutes unless told otherwise.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    async fn run(&self, name: &str, make: BoxFuture<'_, Result<Bytes>>) -> Result<Bytes> {
        let meeting = At {
            folder: format!("{}/{name}", self.folder),
            mark: new_mark(),
            started: Instant::now(),
            of: self,
        };
        meeting
            .store()
            .put(
                &meeting.path(&mark_name(self.rank.rank(), &meeting.mark)),
                Bytes::from_static(b"here"),
            )
            .await?;
        if self.rank.rank() == 0 { meeting.lead(make).await } else { meeting.follow().await }
    }
}

impl Broadcast for Meeting {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn share<'a>(
        &'a self,
        name: &'a str,
        make: BoxFuture<'a, Result<Bytes>>,
    ) -> BoxFuture<'a, Result<Bytes>> {
        self.run(name, make).boxed()
    }
}

/// One call of [`Broadcast::share`].
struct At<'a> {
    of: &'a Meeting,
    folder: String,
    mark: String,
    started: Instant,
}

impl At<'_> {
    fn store(&self) -> &dyn Store {
        &self.of.store
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Makes the value while the others come.
    async fn lead(&self, mut make: BoxFuture<'_, Result<Bytes>>) -> Result<Bytes> {
        let (mut made, mut told) = (None, 0);
        for turn in 0.. {
            let here = self.here().await?;
            let missing = self.missing(&here);
            let late = self.started.elapsed() >= self.of.deadline;
            match &made {
                Some(Ok(value)) if missing.is_empty() => {
                    self.store().put(&self.path("value"), Bytes::clone(value)).await?;
                    self.tell(&here, Ok(checksum(value))).await?;
                    return Ok(Bytes::clone(value));
                }
                // Those who came need not wait for the others to hear it.
                Some(Err(why)) if here.len() > told => {
                    told = here.len();
                    self.tell(&here, Err(String::clone(why))).await?;
                }
                _ if late => {
                    let why = format!("{missing} did not come within {:?}", self.of.deadline);
                    let why = if missing.is_empty() {
                        format!("not done within {:?}", self.of.deadline)
                    } else {
                        why
                    };
                    self.tell(&here, Err(why.clone())).await?;
                    return Err(self.failed(&why));
                }
                _ => {}
            }
            if let Some(Err(why)) = made.as_ref().filter(|_| missing.is_empty() || late) {
                return Err(self.failed(why));
            }
            tokio::select! {
                value = &mut make, if made.is_none() => made = Some(value.map_err(|error| error.to_string())),
                () = sleep(self.wait(turn)) => {}
            }
        }
        Err(self.failed("waited for ever"))
    }

    async fn follow(&self) -> Result<Bytes> {
        // Rank 0 speaks at the deadline; who hears nothing long after it speaks for itself.
        let patience = self.of.deadline + self.of.deadline / 10 + Duration::from_secs(1);
        for turn in 0.. {
            if let Some(verdict) = self.verdict().await? {
                return self.hear(verdict).await;
            }
            if self.started.elapsed() >= patience {
                break;
            }
            sleep(self.wait(turn)).await;
        }
        let missing = self.missing(&self.here().await?);
        let deadline = self.of.deadline;
        Err(self.failed(&match missing.is_empty() {
            true => format!("rank 0 came but said nothing within {deadline:?}"),
            false => format!("{missing} did not come within {deadline:?}"),
        }))
    }

    /// The verdict, if there is one that concerns this call.
    async fn verdict(&self) -> Result<Option<Verdict>> {
        let path = self.path("verdict");
        // Not there yet, or out of reach for a moment: the next look may see more.
        if self.store().head(&path).await.is_err() {
            return Ok(None);
        }
        let text = read_all(self.store(), &path, LIMITS.0).await?;
        let verdict: Verdict = serde_json::from_slice(&text)
            .map_err(|e| Error::task("is no verdict of a meeting").with_source(e).in_shard(path))?;
        Ok(Some(verdict).filter(|verdict| verdict.marks.contains(&self.mark)))
    }

    async fn hear(&self, verdict: Verdict) -> Result<Bytes> {
        let sum = verdict.value.map_err(|why| self.failed(&why))?;
        let value = read_all(self.store(), &self.path("value"), LIMITS.1).await?;
        if checksum(&value) != sum {
            return Err(self.failed("the value that was read is not the one that rank 0 wrote: is the run id used twice?"));
        }
        Ok(value)
    }

    async fn tell(
        &self,
        here: &BTreeMap<u32, Vec<String>>,
        value: Result<String, String>,
    ) -> Result<()> {
        let verdict = Verdict { marks: here.values().flatten().cloned().collect(), value };
        let text = serde_json::to_vec(&verdict)
            .map_err(|e| Error::task("a verdict can't be written").with_source(e))?;
        self.store().put(&self.path("verdict"), text.into()).await
    }

    /// The marks of each rank that came.
    async fn here(&self) -> Result<BTreeMap<u32, Vec<String>>> {
        let mut here = BTreeMap::<u32, Vec<String>>::new();
        for found in self.store().list(&self.folder).await? {
            let name = found.path.rsplit('/').next().unwrap_or_default();
            if let Some((rank, mark)) =
                name.strip_prefix("rank-").and_then(|name| name.split_once('-'))
                && let Ok(rank) = rank.parse()
            {
                here.entry(rank).or_default().push(mark.to_owned());
            }
        }
        Ok(here)
    }

    /// Who has not come, in words; empty if all have.
    fn missing(&self, here: &BTreeMap<u32, Vec<String>>) -> String {
        in_words(self.of.rank, |rank| here.contains_key(&rank))
    }

    /// The same error on every rank.
    fn failed(&self, why: &str) -> Error {
        failed(why).in_shard(self.folder.clone())
    }

    /// Longer from turn to turn, longer for more ranks, and not the same for two of them.
    fn wait(&self, turn: u32) -> Duration {
        let longest = WAITS.1.max(Duration::from_millis(self.of.rank.world_size().into()));
        let wait = WAITS.0.saturating_mul(1 << turn.min(16)).min(longest);
        let jitter =
            Rng::keyed(&[hash(&[u64::from(self.of.rank.rank())]), turn.into()]).between(0.5, 1.0);
        wait.mul_f64(jitter)
    }
}

fn mark_name(rank: u32, mark: &str) -> String {
    format!("rank-{rank:06}-{mark}")
}

/// A mark that no other call has.
fn new_mark() -> String {
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}

fn checksum(value: &[u8]) -> String {
    Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect()
}
