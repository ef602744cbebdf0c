//! [`DataSet`]: where shards are to be found, and which of them.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::arguments::{self, Found};
use super::leaf::{Leaf, Paths, join};
use super::manifest::Manifest;
use super::wdinfo::inside;
use super::wdinfo_leaf;
use crate::error::{Error, Result};
use crate::store::Store;

/// Manifest files that are read at the same time.
const AT_ONCE: usize = 16;

/// Where the shards of a data set are to be found, and which of them are wanted.
///
/// ```
/// use shardstream::shard::DataSet;
/// use shardstream::store::Memory;
/// # tokio_test::block_on(async {
/// let store = Memory::new();
/// store.insert("data/aspect_ratio_1_1/wdinfo.json", r#"{"data_list": ["0.tar"], "data_list_key_count": [7]}"#);
/// store.insert("data/aspect_ratio_16_9/wdinfo.json", r#"{"data_list": ["0.tar"], "data_list_key_count": [5]}"#);
/// let manifest = DataSet::at("data").aspect_ratios(["16,9"]).modalities(["image", "caption"]).load(&store).await?;
/// assert_eq!(manifest.total_samples(), Some(5));
/// assert_eq!(manifest.leaf(0).twin_path("image", "0.tar"), "data/aspect_ratio_16_9/image/0.tar");
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct DataSet {
    /// Each a `wdinfo.json`, a folder that holds such files or else tars, a tar (path or URL), a pattern with braces or wildcards,
    /// several of these joined by `::`, or `@file` for a file that has one a line. With modalities, shards that stand alone
    /// are paths below root and modality.
    pub paths: Vec<String>,
    /// The folder of the modalities, in place of what `wdinfo.json` says.
    pub root: Option<String>,
    /// Passes over the root that `wdinfo.json` says: the data lies in the folder of the file.
    pub ignore_root: bool,
    /// The modalities, in place of what `wdinfo.json` says.
    pub modalities: Vec<String>,
    /// Of the `wdinfo.json` files, only those with one of these in their path; all if empty.
    pub include: Vec<String>,
    /// Of the `wdinfo.json` files, none with one of these in its path.
    pub exclude: Vec<String>,
    /// Only leaves of these classes (`16,9`); all if empty.
    pub aspect_ratios: Vec<String>,
    /// Where files and shards are read, in place of the store of the manifest.
    #[serde(skip)]
    pub store: Option<Arc<dyn Store>>,
}

impl DataSet {
    /// What is found at a path; see [`DataSet::paths`].
    #[must_use]
    pub fn at(path: impl Into<String>) -> Self {
        Self { paths: vec![path.into()], ..Self::default() }
    }

    /// What is found at several paths; see [`DataSet::paths`].
    #[must_use]
    pub fn at_all(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds another path.
    #[must_use]
    pub fn and(mut self, path: impl Into<String>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// The folder of the modalities, in place of what `wdinfo.json` says.
    #[must_use]
    pub fn root(mut self, root: impl Into<String>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Passes over the root that `wdinfo.json` says: the data lies in the folder of the file.
    #[must_use]
    pub const fn ignore_root(mut self) -> Self {
        self.ignore_root = true;
        self
    }

    /// The modalities, in place of what `wdinfo.json` says.
    #[must_use]
    pub fn modalities(mut self, modalities: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.modalities = modalities.into_iter().map(Into::into).collect();
        self
    }

    /// Of the `wdinfo.json` files, takes only those with one of these in their path.
    #[must_use]
    pub fn include(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.include.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Of the `wdinfo.json` files, takes none with one of these in its path.
    #[must_use]
    pub fn exclude(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exclude.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Takes only leaves of these classes: `16,9`, or as `16:9` or `16_9`.
    #[must_use]
    pub fn aspect_ratios(mut self, classes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.aspect_ratios.extend(classes.into_iter().map(Into::into));
        self
    }

    /// Reads files and shards from here, in place of the store of the manifest.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The manifest of this data set alone.
    ///
    /// # Errors
    /// If nothing is found, a file can't be read, or a field of it is wrong; the error names file and field.
    pub async fn load(&self, store: &dyn Store) -> Result<Manifest> {
        Manifest::of_leaves(vec![("shards".to_owned(), self.leaves(store).await?)])
    }

    /// What is found, in order.
    pub(super) async fn leaves(&self, store: &dyn Store) -> Result<Vec<Leaf>> {
        let store = self.store.as_deref().unwrap_or(store);
        for modality in &self.modalities {
            inside(modality).map_err(|why| Error::config(format!("modalities: {why}")))?;
        }
        let root = self.root.as_deref().unwrap_or_default();
        let base = self.modalities.first().map_or(root.to_owned(), |modality| join(root, modality));
        let mut found = Vec::new();
        for path in &self.paths {
            found.extend(arguments::resolve(store, &base, path).await?);
        }
        let found = self.wanted(found)?;
        let files = found.iter().filter_map(|found| match found {
            Found::Wdinfo(file) => Some(wdinfo_leaf::load(store, file, self)),
            _ => None,
        });
        let loads: Vec<_> = files.collect();
        let loaded: Vec<Leaf> =
            futures::stream::iter(loads).buffered(AT_ONCE).try_collect().await?;
        self.in_order(found, loaded)
    }

    /// Puts shards, patterns and the leaves of the manifest files in the order of the arguments. Neighbouring shards make one leaf.
    fn in_order(&self, found: Vec<Found>, loaded: Vec<Leaf>) -> Result<Vec<Leaf>> {
        let (mut leaves, mut shards, mut loaded) = (Vec::new(), Vec::new(), loaded.into_iter());
        for found in found {
            if !matches!(found, Found::Shard(_)) && !shards.is_empty() {
                leaves.push(self.plain(Paths::Listed(shards.drain(..).collect()))?);
            }
            match found {
                Found::Shard(path) => shards.push(path),
                Found::Pattern(pattern) => leaves.push(self.plain(Paths::Pattern(pattern))?),
                Found::Wdinfo(_) => leaves.extend(loaded.next()),
            }
        }
        if !shards.is_empty() {
            leaves.push(self.plain(Paths::Listed(shards.into_iter().collect()))?);
        }
        Ok(leaves)
    }

    /// A leaf of which only the paths are known.
    fn plain(&self, paths: Paths) -> Result<Leaf> {
        let leaf = Leaf {
            root: self.root.clone().unwrap_or_default(),
            modalities: self.modalities.iter().map(|name| name.as_str().into()).collect(),
            store: self.store.clone(),
            ..Leaf::new(paths)
        };
        if !leaf.modalities.is_empty() {
            for path in leaf.hashed_paths() {
                inside(&path)
                    .map_err(|why| Error::config(format!("shards below a modality: {why}")))?;
            }
        }
        Ok(leaf)
    }

    /// What passes the filters, which look at manifest files alone. Never nothing.
    fn wanted(&self, mut found: Vec<Found>) -> Result<Vec<Found>> {
        let has = |file: &str, tags: &[String]| tags.iter().any(|tag| file.contains(tag.as_str()));
        if found.is_empty() {
            return Err(Error::config("no shards are given"));
        }
        let before = found.len();
        found.retain(|found| match found {
            Found::Wdinfo(file) => {
                !has(file, &self.exclude) && (self.include.is_empty() || has(file, &self.include))
            }
            Found::Shard(_) | Found::Pattern(_) => true,
        });
        if found.is_empty() {
            return Err(Error::manifest(format!(
                "include and exclude leave none of {before} wdinfo.json files"
            )));
        }
        if self.aspect_ratios.is_empty() {
            return Ok(found);
        }
        let classes: Vec<String> =
            self.aspect_ratios.iter().map(|class| class.replace([':', '_'], ",")).collect();
        let class = |found: &Found| match found {
            Found::Wdinfo(file) => wdinfo_leaf::aspect_ratio(file),
            Found::Shard(_) | Found::Pattern(_) => None,
        };
        let there: Vec<String> = found.iter().filter_map(class).collect();
        if let Some(missing) = classes.iter().find(|class| !there.contains(class)) {
            return Err(Error::manifest(format!(
                "no leaf of aspect ratio {missing}, there are: {}",
                there.join(" ")
            )));
        }
        found.retain(|found| class(found).is_some_and(|class| classes.contains(&class)));
        Ok(found)
    }
}
