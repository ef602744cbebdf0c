//! [`Manifest`]: all shards there are, in a fixed order.

use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use super::braces::Braces;
use super::data_set::DataSet;
use super::leaf::{Counts, Leaf, Paths, without_query};
use crate::error::{Error, Result};
use crate::store::Store;

/// All shards there are, in a fixed order: sources as declared, in each the `wdinfo.json` files sorted by path, in each the
/// listed order. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Manifest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    leaves: Vec<Arc<Leaf>>,
    /// The first shard of each leaf, and one past the last of all.
    starts: Vec<u64>,
    sources: Vec<Source>,
    hash: OnceLock<String>,
}

/// A data set of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its shards.
    pub shards: Range<u64>,
}

impl Manifest {
    /// Single tars, given as paths or URLs; nothing in them is expanded.
    ///
    /// ```
    /// use shardstream::shard::Manifest;
    /// let manifest = Manifest::of_shards(["data/000000.tar", "data/000001.tar"])?;
    /// assert_eq!(manifest.len(), 2);
    /// assert_eq!(manifest.path(1), "data/000001.tar");
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none.
    pub fn of_shards(shards: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let list = shards.into_iter().map(Into::into).collect();
        Self::of_leaves(vec![("shards".to_owned(), vec![Leaf::new(Paths::Listed(list))])])
    }

    /// The shards of a brace pattern, which is never written out, all with the same number of samples if it is known.
    ///
    /// ```
    /// use shardstream::shard::Manifest;
    /// let manifest = Manifest::of_pattern("part_{000..999}/{0000..0999}.tar", Some(1000))?;
    /// assert_eq!((manifest.len(), manifest.total_samples()), (1_000_000, Some(1_000_000_000)));
    /// assert_eq!(manifest.path(999_999), "part_999/0999.tar");
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the pattern can't be understood; see [`Braces`].
    pub fn of_pattern(pattern: &str, samples: Option<u64>) -> Result<Self> {
        let mut leaf = Leaf::new(Paths::Pattern(Braces::parse(pattern)?));
        if let Some(samples) = samples {
            leaf.counts = Counts::Same(samples);
            leaf.total = leaf.len().checked_mul(samples);
        }
        Self::of_leaves(vec![("shards".to_owned(), vec![leaf])])
    }

    /// What one `wdinfo.json` lists, or all of those in a folder and the folders below it, sorted by path. With other roots or
    /// modalities, or only part of what there is: [`DataSet::load`].
    ///
    /// # Errors
    /// If there is none, it can't be read, or a field of it is wrong; the error names file and field.
    pub async fn load(store: &dyn Store, path: &str) -> Result<Self> {
        DataSet::at(path).load(store).await
    }

    /// Several data sets in one manifest: each becomes a [`Source`].
    ///
    /// # Errors
    /// As [`DataSet::load`]; or if there are none or a name comes twice.
    pub async fn of_data_sets(store: &dyn Store, data_sets: &[(String, DataSet)]) -> Result<Self> {
        let mut sources = Vec::new();
        for (name, data_set) in data_sets {
            sources.push((name.clone(), data_set.leaves(store).await?));
        }
        Self::of_leaves(sources)
    }

    /// Puts together what was found, source by source.
    pub(super) fn of_leaves(sources: Vec<(String, Vec<Leaf>)>) -> Result<Self> {
        let (mut leaves, mut starts, mut named) = (Vec::new(), vec![0], Vec::<Source>::new());
        let mut next = 0u64;
        for (name, found) in sources {
            let first = next;
            for leaf in found {
                next = next
                    .checked_add(leaf.len())
                    .ok_or_else(|| Error::manifest("more shards than can be counted"))?;
                starts.push(next);
                leaves.push(Arc::new(leaf));
            }
            if next == first {
                return Err(Error::manifest(format!("source {name} has no shards")));
            }
            if named.iter().any(|source| source.name == name) {
                return Err(Error::config(format!("source {name} is declared twice")));
            }
            named.push(Source { name, shards: first..next });
        }
        if next == 0 {
            return Err(Error::manifest("no shards"));
        }
        Ok(Self(Arc::new(Inner { leaves, starts, sources: named, hash: OnceLock::new() })))
    }

    /// How many shards there are: at least one.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.starts[self.0.leaves.len()]
    }

    /// Never: a manifest has at least one shard.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path of a shard as it is listed: below root and modality, or alone.
    ///
    /// # Panics
    /// If `shard` is not below [`Manifest::len`].
    #[must_use]
    pub fn path(&self, shard: u64) -> String {
        let (leaf, place) = self.find(shard);
        leaf.path(place)
    }

    /// What a shard shares with its neighbours.
    ///
    /// # Panics
    /// If `shard` is not below [`Manifest::len`].
    #[must_use]
    pub fn leaf(&self, shard: u64) -> &Arc<Leaf> {
        self.find(shard).0
    }

    /// How many samples a shard has, if that is known.
    ///
    /// # Panics
    /// If `shard` is not below [`Manifest::len`].
    #[must_use]
    pub fn samples(&self, shard: u64) -> Option<u64> {
        let (leaf, place) = self.find(shard);
        leaf.samples(place)
    }

    /// How many samples there are, if that is known.
    #[must_use]
    pub fn total_samples(&self) -> Option<u64> {
        self.0.leaves.iter().try_fold(0u64, |sum, leaf| sum.checked_add(leaf.total?))
    }

    /// Whether the number of samples of every shard is known.
    #[must_use]
    pub fn has_counts(&self) -> bool {
        self.0.leaves.iter().all(|leaf| leaf.counts != Counts::Unknown)
    }

    /// How many samples each shard has, if it is the same number for all.
    #[must_use]
    pub fn samples_of_each(&self) -> Option<u64> {
        let mut each = self.0.leaves.iter().map(|leaf| match leaf.counts {
            Counts::Same(count) => Some(count),
            Counts::Unknown | Counts::Each(_) => None,
        });
        let first = each.next()??;
        each.all(|count| count == Some(first)).then_some(first)
    }

    /// The shards of one data set alone, as a manifest.
    ///
    /// # Panics
    /// If there is no such data set.
    #[must_use]
    pub fn of_source(&self, number: usize) -> Self {
        let Source { name, shards } = self.0.sources[number].clone();
        let own = |start: &u64| shards.contains(start);
        let leaves: Vec<Arc<Leaf>> = self
            .0
            .starts
            .iter()
            .zip(&self.0.leaves)
            .filter(|(start, _)| own(start))
            .map(|(_, leaf)| Arc::clone(leaf))
            .collect();
        let mut starts: Vec<u64> = self
            .0
            .starts
            .iter()
            .filter(|start| own(start))
            .map(|start| start - shards.start)
            .collect();
        let len = shards.end - shards.start;
        starts.push(len);
        Self(Arc::new(Inner {
            leaves,
            starts,
            sources: vec![Source { name, shards: 0..len }],
            hash: OnceLock::new(),
        }))
    }

    /// The data sets, in order; together they are all shards.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.0.sources
    }

    /// Shards that share root and modalities, in order.
    #[must_use]
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        &self.0.leaves
    }

    /// A hash of what the manifest says, in hexadecimal digits: paths, counts, modalities and where each source begins, but neither the
    /// roots nor a folder that all single tars share nor the query of a URL, so that data may be moved and URLs signed again.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.0.hash.get_or_init(|| {
            let mut hash = Sha256::new();
            let shared = shared_folder(&self.0.leaves);
            for source in &self.0.sources {
                hash.update(source.shards.end.to_le_bytes());
            }
            for leaf in &self.0.leaves {
                leaf.add_to_hash(if leaf.modalities.is_empty() { shared } else { 0 }, &mut hash);
            }
            hash.finalize().iter().fold(String::new(), |mut hex, byte| {
                // Writing to a String doesn't fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        })
    }

    fn find(&self, shard: u64) -> (&Arc<Leaf>, u64) {
        assert!(shard < self.len(), "shard {shard} of {}", self.len());
        let leaf = self.0.starts.partition_point(|&start| start <= shard) - 1;
        (&self.0.leaves[leaf], shard - self.0.starts[leaf])
    }
}

/// The length of the folder that all single tars are in, with its slash.
fn shared_folder(leaves: &[Arc<Leaf>]) -> usize {
    let mut shared: Option<String> = None;
    for path in
        leaves.iter().filter(|leaf| leaf.modalities.is_empty()).flat_map(|leaf| leaf.hashed_paths())
    {
        let path = without_query(&path);
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        match &mut shared {
            None => shared = Some(folder.to_owned()),
            Some(shared) if path.starts_with(shared.as_str()) => {}
            Some(shared) => {
                let same = shared.bytes().zip(folder.bytes()).take_while(|(a, b)| a == b).count();
                shared.truncate(
                    shared.as_bytes()[..same]
                        .iter()
                        .rposition(|&b| b == b'/')
                        .map_or(0, |slash| slash + 1),
                );
            }
        }
    }
    shared.map_or(0, |folder| folder.len())
}
