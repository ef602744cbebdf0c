//! [`Mpi`]: ranks that MPI connects.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Root, Source};
use tokio::time::{Instant, sleep};

use super::{Broadcast, DEADLINE, failed, in_words};
use crate::error::{Error, Result};
use crate::topology::Rank;

/// Between two looks for messages.
const WAIT: Duration = Duration::from_millis(10);
/// The most that one call of MPI takes.
const PART: usize = 1 << 30;
/// An error longer than this is cut: messages must be so short that sending them waits for nobody.
const LONGEST: usize = 2000;

/// The processes that `mpirun` (or `srun`) started. One for a process: making it starts MPI, dropping it ends MPI.
///
/// Ending MPI waits for all ranks. After an error by which a rank may be gone, leave by [`std::process::exit`], which ends without that.
pub struct Mpi {
    // Ends MPI when it is dropped.
    _universe: Universe,
    rank: Rank,
    deadline: Duration,
    calls: AtomicI32,
}

impl Mpi {
    /// Starts MPI.
    ///
    /// # Errors
    /// If MPI was started before, or can't be called from several threads.
    pub fn new() -> Result<Self> {
        let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Multiple)
        else {
            return Err(Error::config("MPI was started before"));
        };
        if threading < Threading::Multiple {
            return Err(Error::config(format!(
                "this MPI offers threads as {threading:?} only, expected Multiple"
            )));
        }
        let number = |number: i32| {
            u32::try_from(number)
                .map_err(|e| Error::config("MPI counts ranks below 0").with_source(e))
        };
        let world = universe.world();
        let rank = Rank::new(number(world.rank())?, number(world.size())?)?;
        Ok(Self { _universe: universe, rank, deadline: DEADLINE, calls: AtomicI32::new(0) })
    }

    /// How long ranks wait for each other; 10 minutes unless told otherwise.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Makes the value while the others come.
    async fn lead(&self, tag: Tags, mut make: BoxFuture<'_, Result<Bytes>>) -> Result<Bytes> {
        let started = Instant::now();
        let (mut made, mut here) = (None, BTreeSet::from([0]));
        loop {
            let came = tag.arrivals();
            here.extend(came.iter().copied());
            let missing = in_words(self.rank, |rank| here.contains(&rank));
            let late = started.elapsed() >= self.deadline;
            match &made {
                Some(Ok(value)) if missing.is_empty() => {
                    let value = Bytes::clone(value);
                    tag.tell(here.iter().copied(), &Ok(value.len()))?;
                    return blocking(move || broadcast(value.to_vec())).await;
                }
                // Who comes hears at once what went wrong.
                Some(Err(why)) => {
                    tag.tell(came.into_iter(), &Err(String::clone(why)))?;
                    if missing.is_empty() || late {
                        return Err(failed(why));
                    }
                }
                _ if late => {
                    let why = match missing.as_str() {
                        "" => format!("not done within {:?}", self.deadline),
                        ranks => format!("{ranks} did not come within {:?}", self.deadline),
                    };
                    tag.tell(here.iter().copied(), &Err(why.clone()))?;
                    return Err(failed(&why));
                }
                _ => {}
            }
            let told = matches!(made, Some(Err(_)));
            tokio::select! {
                value = &mut make, if made.is_none() => made = Some(value.map_err(|error| cut(&error.to_string()))),
                () = sleep(WAIT) => {}
            }
            if let (false, Some(Err(why))) = (told, &made) {
                tag.tell(here.iter().copied(), &Err(String::clone(why)))?;
            }
        }
    }

    async fn follow(&self, tag: Tags) -> Result<Bytes> {
        tag.come();
        // Rank 0 speaks at the deadline.
        let (started, patience) =
            (Instant::now(), self.deadline + self.deadline / 10 + Duration::from_secs(1));
        while started.elapsed() < patience {
            match tag.verdict()? {
                Some(Ok(len)) => return blocking(move || broadcast(vec![0; len])).await,
                Some(Err(why)) => return Err(failed(&why)),
                None => sleep(WAIT).await,
            }
        }
        Err(failed(&format!(
            "rank 0 of {} did not come within {:?}",
            self.rank.world_size(),
            self.deadline
        )))
    }
}

impl Broadcast for Mpi {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn share<'a>(
        &'a self,
        _: &'a str,
        make: BoxFuture<'a, Result<Bytes>>,
    ) -> BoxFuture<'a, Result<Bytes>> {
        // All ranks make the same calls in the same order.
        let call = self.calls.fetch_add(1, Ordering::Relaxed).rem_euclid(1 << 14);
        let tag = Tags { come: 2 * call, verdict: 2 * call + 1 };
        match self.rank.rank() {
            0 => self.lead(tag, make).boxed(),
            _ => self.follow(tag).boxed(),
        }
    }
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpi")
            .field("rank", &self.rank)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The messages of one call: short, and never waited for.
#[derive(Clone, Copy)]
struct Tags {
    come: i32,
    verdict: i32,
}

impl Tags {
    fn come(self) {
        SimpleCommunicator::world().process_at_rank(0).send_with_tag(&[0u8][..], self.come);
    }

    /// The ranks that came since the last time.
    fn arrivals(self) -> Vec<u32> {
        let world = SimpleCommunicator::world();
        let next = || {
            let message = world.any_process().immediate_matched_probe_with_tag(self.come)?;
            u32::try_from(message.matched_receive_vec::<u8>().1.source_rank()).ok()
        };
        std::iter::from_fn(next).collect()
    }

    /// Tells ranks (but not rank 0) how long the value is, or why there is none.
    fn tell(self, ranks: impl Iterator<Item = u32>, verdict: &Result<usize, String>) -> Result<()> {
        let text = serde_json::to_vec(verdict)
            .map_err(|e| Error::task("a verdict can't be written").with_source(e))?;
        let world = SimpleCommunicator::world();
        for rank in ranks.filter(|&rank| rank > 0) {
            // Ranks come from MPI, which counts them in i32.
            world.process_at_rank(rank as i32).send_with_tag(&text[..], self.verdict);
        }
        Ok(())
    }

    fn verdict(self) -> Result<Option<Result<usize, String>>> {
        let world = SimpleCommunicator::world();
        let Some(message) = world.process_at_rank(0).immediate_matched_probe_with_tag(self.verdict)
        else {
            return Ok(None);
        };
        let text = message.matched_receive_vec::<u8>().0;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|e| Error::task("is no verdict of rank 0").with_source(e))
    }
}

/// Sends what rank 0 has to all others, which have room for it.
fn broadcast(mut value: Vec<u8>) -> Bytes {
    let world = SimpleCommunicator::world();
    for part in value.chunks_mut(PART) {
        world.process_at_rank(0).broadcast_into(part);
    }
    value.into()
}

async fn blocking(f: impl FnOnce() -> Bytes + Send + 'static) -> Result<Bytes> {
    match tokio::task::spawn_blocking(f).await {
        Ok(value) => Ok(value),
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => Err(Error::task("the runtime is shutting down")),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST / 4).collect()
}
