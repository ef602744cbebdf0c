//! Who reads what: [`Rank`], [`Worker`], and the lanes they run. Pure arithmetic.
//!
//! The shard at place `p` of an epoch's order belongs to lane `p mod L`. Rank `r` of `R` runs the lanes with `l mod R == r`; in
//! it, worker `k` of `K` runs those with `(l div R) mod K == k`.

use std::fmt;

use crate::error::{Error, Result};

/// One of the processes that share the data: `rank` of `world_size`. With tensor, context or pipeline parallelism the group
/// whose members must see the same batches is the rank: see [`Rank::data_parallel`] and [`Rank::in_groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rank {
    rank: u32,
    world_size: u32,
}

/// One of the workers of a rank: `worker` of `num_workers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Worker {
    worker: u32,
    num_workers: u32,
}

/// The variables by which a launcher tells a process its rank and the world size, in the order in which they are asked. A
/// launcher that runs inside another's allocation comes first.
const LAUNCHERS: [(&str, &str, &[&str]); 4] = [
    ("torchrun", "RANK", &["WORLD_SIZE"]),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
    ("PMI", "PMI_RANK", &["PMI_SIZE"]),
    ("SLURM", "SLURM_PROCID", &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
];

impl Rank {
    /// The only rank there is.
    pub const SINGLE: Self = Self { rank: 0, world_size: 1 };

    /// Rank `rank` of `world_size`.
    ///
    /// # Errors
    /// If `world_size` is 0 or `rank` is not below it.
    pub fn new(rank: u32, world_size: u32) -> Result<Self> {
        if world_size == 0 {
            return Err(Error::config("world size 0: there is at least one rank"));
        }
        if rank >= world_size {
            return Err(Error::config(format!(
                "rank {rank} of world size {world_size}: ranks count from 0"
            )));
        }
        Ok(Self { rank, world_size })
    }

    /// What the launcher (torchrun, Open MPI, PMI, SLURM: in this order) put into the environment of this process;
    /// [`Rank::SINGLE`] without one.
    ///
    /// # Errors
    /// If one of a pair of variables is missing, or a value is no number or out of range; the error names the variable.
    pub fn from_env() -> Result<Self> {
        Self::from_vars(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// As [`Rank::from_env`], with the variables from anywhere.
    ///
    /// ```
    /// use shardstream::topology::Rank;
    /// let rank = Rank::from_vars(|name| match name {
    ///     "RANK" => Some("3".into()),
    ///     "WORLD_SIZE" => Some("8".into()),
    ///     _ => None,
    /// })?;
    /// assert_eq!((rank.rank(), rank.world_size()), (3, 8));
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Rank::from_env`].
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self> {
        for (launcher, rank_name, size_names) in LAUNCHERS {
            let size = size_names.iter().find_map(|name| var(name).map(|value| (*name, value)));
            match (var(rank_name), size) {
                (None, None) => {}
                // A SLURM job script sees the number of tasks without being one of them.
                (None, Some(_)) if launcher == "SLURM" => {}
                (None, Some((size_name, _))) => {
                    return Err(Error::config(format!(
                        "{size_name} is set ({launcher}) but {rank_name} is not"
                    )));
                }
                (Some(_), None) => {
                    return Err(Error::config(format!(
                        "{rank_name} is set ({launcher}) but {} is not",
                        size_names[0]
                    )));
                }
                (Some(rank), Some((size_name, size))) => {
                    let (rank, world_size) = (number(rank_name, &rank)?, number(size_name, &size)?);
                    return Self::new(rank, world_size).map_err(|e| {
                        Error::config(format!(
                            "{rank_name} and {size_name} ({launcher}): {}",
                            e.message()
                        ))
                    });
                }
            }
        }
        Ok(Self::SINGLE)
    }

    /// This rank, from 0.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn world_size(self) -> u32 {
        self.world_size
    }

    /// The data-parallel group of this process, as a rank, when the model is cut into `tensor * context * pipeline` parts.
    /// Processes are numbered in Megatron's default order: tensor fastest, then context, data, pipeline. All members of a group get
    /// the same batches, since they are the same rank.
    ///
    /// ```
    /// use shardstream::topology::Rank;
    /// // 16 processes, tensor 2, pipeline 2: four groups; processes 2, 3, 10 and 11 are group 1.
    /// assert_eq!(Rank::new(11, 16)?.data_parallel(2, 1, 2)?, Rank::new(1, 4)?);
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a size is 0, or the world size is no multiple of their product.
    pub fn data_parallel(self, tensor: u32, context: u32, pipeline: u32) -> Result<Self> {
        let parts = [tensor, context, pipeline]
            .iter()
            .try_fold(1u32, |product, &size| product.checked_mul(size));
        let groups = match parts {
            Some(parts) if parts > 0 && self.world_size.is_multiple_of(parts) => {
                self.world_size / parts
            }
            _ => {
                return Err(Error::config(format!(
                    "world size {} is no multiple of tensor {tensor} * context {context} * pipeline {pipeline}",
                    self.world_size
                )));
            }
        };
        Self::new(self.rank / (tensor * context) % groups, groups)
    }

    /// The group of this process, as a rank, when the groups are given as lists of processes.
    ///
    /// # Errors
    /// If a process is in no group or in two, or does not exist.
    pub fn in_groups(self, groups: &[impl AsRef<[u32]>]) -> Result<Self> {
        let mut group_of = vec![None; self.world_size as usize];
        for (group, members) in groups.iter().enumerate() {
            for &member in members.as_ref() {
                match group_of.get_mut(member as usize) {
                    None => {
                        return Err(Error::config(format!(
                            "group {group}: process {member} of world size {}",
                            self.world_size
                        )));
                    }
                    Some(Some(other)) => {
                        return Err(Error::config(format!(
                            "process {member} is in group {other} and in group {group}"
                        )));
                    }
                    Some(free) => *free = Some(group),
                }
            }
        }
        if let Some(alone) = group_of.iter().position(Option::is_none) {
            return Err(Error::config(format!(
                "process {alone} of world size {} is in no group",
                self.world_size
            )));
        }
        if let Some(empty) = groups.iter().position(|members| members.as_ref().is_empty()) {
            return Err(Error::config(format!("group {empty} has no process")));
        }
        let group = group_of[self.rank as usize].unwrap_or_default();
        // No group is empty, so there are at most as many as processes.
        Self::new(group as u32, groups.len() as u32)
    }

    /// Whether this rank runs a lane.
    #[must_use]
    pub const fn runs(self, lane: u32) -> bool {
        lane % self.world_size == self.rank
    }

    /// The lanes that this rank runs, of `lanes`.
    pub fn lanes(self, lanes: u32) -> impl Iterator<Item = u32> + Clone + Send + use<> {
        (self.rank..lanes).step_by(self.world_size as usize)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.world_size)
    }
}

impl Worker {
    /// The only worker of its rank.
    pub const SINGLE: Self = Self { worker: 0, num_workers: 1 };

    /// Worker `worker` of `num_workers`.
    ///
    /// # Errors
    /// If `num_workers` is 0 or `worker` is not below it.
    pub fn new(worker: u32, num_workers: u32) -> Result<Self> {
        if num_workers == 0 {
            return Err(Error::config("0 workers: a rank has at least one"));
        }
        if worker >= num_workers {
            return Err(Error::config(format!(
                "worker {worker} of {num_workers}: workers count from 0"
            )));
        }
        Ok(Self { worker, num_workers })
    }

    /// This worker, from 0.
    #[must_use]
    pub const fn worker(self) -> u32 {
        self.worker
    }

    /// How many workers the rank has.
    #[must_use]
    pub const fn num_workers(self) -> u32 {
        self.num_workers
    }

    /// Whether this worker of `rank` runs a lane.
    #[must_use]
    pub const fn runs(self, rank: Rank, lane: u32) -> bool {
        rank.runs(lane) && lane / rank.world_size % self.num_workers == self.worker
    }

    /// The lanes that this worker of `rank` runs, of `lanes`.
    pub fn lanes(self, rank: Rank, lanes: u32) -> impl Iterator<Item = u32> + Clone + Send + use<> {
        rank.lanes(lanes).skip(self.worker as usize).step_by(self.num_workers as usize)
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of {}", self.worker, self.num_workers)
    }
}

/// The lane of the shard at a place of the epoch's order.
///
/// # Panics
/// If there are no lanes.
#[must_use]
pub const fn lane_of_place(place: u64, lanes: u32) -> u32 {
    (place % lanes as u64) as u32
}

/// How many of the first `places` places belong to a lane.
///
/// # Panics
/// If there are no lanes.
#[must_use]
pub const fn places_of_lane(places: u64, lane: u32, lanes: u32) -> u64 {
    let (lane, lanes) = (lane as u64, lanes as u64);
    places / lanes + (lane < places % lanes) as u64
}

/// The rank that runs a lane.
///
/// # Panics
/// If `world_size` is 0.
#[must_use]
pub const fn rank_of_lane(lane: u32, world_size: u32) -> u32 {
    lane % world_size
}

/// The worker that runs a lane, in the lane's rank.
///
/// # Panics
/// If `world_size` or `num_workers` is 0.
#[must_use]
pub const fn worker_of_lane(lane: u32, world_size: u32, num_workers: u32) -> u32 {
    lane / world_size % num_workers
}

fn number(name: &str, value: &str) -> Result<u32> {
    value
        .trim()
        .parse()
        .map_err(|e| Error::config(format!("{name}={value:?} is no count")).with_source(e))
}
