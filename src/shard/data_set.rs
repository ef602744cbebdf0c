//! [`DataSet`]: where shards are to be found, and which of them.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::leaf::Leaf;
use super::manifest::Manifest;
use super::wdinfo::{self, inside};
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
/// # shardstream::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct DataSet {
    /// Folders that hold `wdinfo.json` files, or such files.
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
    /// The data set of a folder or a `wdinfo.json`.
    #[must_use]
    pub fn at(path: impl Into<String>) -> Self {
        Self { paths: vec![path.into()], ..Self::default() }
    }

    /// Adds another folder or file.
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
        let mut files = Vec::new();
        for path in &self.paths {
            files.extend(find(store, path).await?);
        }
        let files = self.wanted(files)?;
        let loads: Vec<_> = files.iter().map(|file| wdinfo_leaf::load(store, file, self)).collect();
        futures::stream::iter(loads).buffered(AT_ONCE).try_collect().await
    }

    /// The files that pass the filters. Never none.
    fn wanted(&self, files: Vec<String>) -> Result<Vec<String>> {
        let found = files.len();
        let has = |file: &str, tags: &[String]| tags.iter().any(|tag| file.contains(tag.as_str()));
        let mut kept: Vec<String> = files
            .into_iter()
            .filter(|file| {
                !has(file, &self.exclude) && (self.include.is_empty() || has(file, &self.include))
            })
            .collect();
        if kept.is_empty() {
            return Err(Error::manifest(format!(
                "include and exclude leave none of {found} wdinfo.json files"
            )));
        }
        if self.aspect_ratios.is_empty() {
            return Ok(kept);
        }
        let classes: Vec<String> =
            self.aspect_ratios.iter().map(|class| class.replace([':', '_'], ",")).collect();
        let there: Vec<String> =
            kept.iter().filter_map(|file| wdinfo_leaf::aspect_ratio(file)).collect();
        if let Some(missing) = classes.iter().find(|class| !there.contains(class)) {
            return Err(Error::manifest(format!(
                "no leaf of aspect ratio {missing}, there are: {}",
                there.join(" ")
            )));
        }
        kept.retain(|file| {
            wdinfo_leaf::aspect_ratio(file).is_some_and(|class| classes.contains(&class))
        });
        Ok(kept)
    }
}

/// The `wdinfo.json` files at a path: the file itself, or those in the folder and below, sorted.
async fn find(store: &dyn Store, path: &str) -> Result<Vec<String>> {
    if path.ends_with(".json") {
        return Ok(vec![path.to_owned()]);
    }
    let mut files: Vec<String> = store
        .list(path)
        .await?
        .into_iter()
        .map(|meta| meta.path)
        .filter(|path| is_wdinfo(path))
        .collect();
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return Err(Error::manifest("holds no wdinfo.json").in_shard(path));
    }
    Ok(files)
}

pub(super) fn is_wdinfo(path: &str) -> bool {
    path.rsplit('/').next() == Some(wdinfo::FILE_NAME)
}
