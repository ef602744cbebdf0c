//! [`Catalog`]: data sets by name, in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::data_set::DataSet;
use super::manifest::Manifest;
use crate::error::{Error, Result};
use crate::store::{Store, read_all, redact};

/// The largest catalog that is read.
const LIMIT: u64 = 1 << 26;

/// Sources by name (each a [`DataSet`]), and sets of them by name: what is called for is one of either.
///
/// ```
/// use shardstream::shard::Catalog;
/// let catalog = Catalog::parse(br#"{
///     "sources": {
///         "photos": {"paths": ["s3://bucket/photos"], "modalities": ["image", "caption"]},
///         "scans": {"paths": ["/data/scans"], "exclude": ["/old/"], "aspect_ratios": ["1,1"]}
///     },
///     "sets": {"all": ["photos", "scans"]}
/// }"#, "catalog.json")?;
/// let names: Vec<String> = catalog.data_sets("all")?.into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["photos", "scans"]);
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Catalog {
    /// Where each source is to be found.
    pub sources: BTreeMap<String, DataSet>,
    /// Which sources (or other sets) each set has, in order.
    #[serde(default)]
    pub sets: BTreeMap<String, Vec<String>>,
}

impl Catalog {
    /// Reads a catalog from JSON; `file` is its name in errors.
    ///
    /// # Errors
    /// If it is no catalog: the error names file and field. If a name means two things, or a set has something that does not exist or itself.
    pub fn parse(text: &[u8], file: &str) -> Result<Self> {
        let catalog: Self = serde_json::from_slice(text)
            .map_err(|e| explain(text).with_source(e).in_shard(redact(file)))?;
        if let Some(name) = catalog.sets.keys().find(|name| catalog.sources.contains_key(*name)) {
            return Err(
                Error::config(format!("{name} is a source and a set")).in_shard(redact(file))
            );
        }
        for name in catalog.sources.keys().chain(catalog.sets.keys()) {
            catalog.data_sets(name).map_err(|e| e.in_shard(redact(file)))?;
        }
        Ok(catalog)
    }

    /// Reads a catalog from a store.
    ///
    /// # Errors
    /// As [`Catalog::parse`]; or if it can't be read.
    pub async fn load(store: &dyn Store, file: &str) -> Result<Self> {
        Self::parse(&read_all(store, file, LIMIT).await?, file)
    }

    /// Adds a source.
    #[must_use]
    pub fn source(mut self, name: impl Into<String>, data_set: DataSet) -> Self {
        self.sources.insert(name.into(), data_set);
        self
    }

    /// Adds a set.
    #[must_use]
    pub fn set(
        mut self,
        name: impl Into<String>,
        sources: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.sets.insert(name.into(), sources.into_iter().map(Into::into).collect());
        self
    }

    /// The sources that a name stands for, in order: itself, or those of a set. For [`Manifest::of_data_sets`] and
    /// [`Manifest::shared`].
    ///
    /// # Errors
    /// If there is no such name, or a source would come twice.
    pub fn data_sets(&self, name: &str) -> Result<Vec<(String, DataSet)>> {
        let mut found = Vec::new();
        self.gather(name, &mut Vec::new(), &mut found)?;
        Ok(found)
    }

    /// The manifest of a source or a set.
    ///
    /// # Errors
    /// As [`Catalog::data_sets`] and [`DataSet::load`].
    pub async fn manifest(&self, store: &dyn Store, name: &str) -> Result<Manifest> {
        Manifest::of_data_sets(store, &self.data_sets(name)?).await
    }

    fn gather<'a>(
        &'a self,
        name: &'a str,
        path: &mut Vec<&'a str>,
        found: &mut Vec<(String, DataSet)>,
    ) -> Result<()> {
        if let Some(data_set) = self.sources.get(name) {
            if found.iter().any(|(known, _)| known == name) {
                return Err(Error::config(format!(
                    "set {}: source {name} comes twice",
                    path.first().unwrap_or(&name)
                )));
            }
            found.push((name.to_owned(), data_set.clone()));
            return Ok(());
        }
        if path.contains(&name) {
            return Err(Error::config(format!("set {name} has itself")));
        }
        let Some(members) = self.sets.get(name) else {
            let known: Vec<&str> =
                self.sources.keys().chain(self.sets.keys()).map(String::as_str).collect();
            let within = path.last().map_or(String::new(), |set| format!("set {set}: "));
            return Err(Error::config(format!(
                "{within}no source or set is called {name}, there are: {}",
                known.join(" ")
            )));
        };
        if members.is_empty() {
            return Err(Error::config(format!("set {name} has no sources")));
        }
        path.push(name);
        for member in members {
            self.gather(member, path, found)?;
        }
        path.pop();
        Ok(())
    }
}

/// Finds out which field is to blame.
fn explain(text: &[u8]) -> Error {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(text) else {
        return Error::config("is no JSON");
    };
    for (name, source) in value["sources"].as_object().into_iter().flatten() {
        if serde_json::from_value::<DataSet>(source.clone()).is_err() {
            return Error::config("is wrong").in_field(format!("sources.{name}"));
        }
    }
    for (name, set) in value["sets"].as_object().into_iter().flatten() {
        if serde_json::from_value::<Vec<String>>(set.clone()).is_err() {
            return Error::config("is wrong").in_field(format!("sets.{name}"));
        }
    }
    Error::config("is no catalog")
}
