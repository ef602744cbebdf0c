//! The file `wdinfo.json`: which shards a folder holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::redact;

/// Name of the manifest file in the folder of a data set.
pub const FILE_NAME: &str = "wdinfo.json";

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// What `wdinfo.json` says, as it stands in the file. The first five fields are what PiD writes and reads; the others are
/// ours, and PiD passes over them.
///
/// `L` is what holds the list of shards: `Vec<String>`, unless millions of them have to be held in little memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wdinfo<L = Vec<String>> {
    /// The modalities: folders below the root.
    #[serde(default)]
    pub data_keys: Vec<String>,
    /// The shards: paths of tars below the folder of each modality.
    pub data_list: L,
    /// Samples in each shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_list_key_count: Option<Vec<u32>>,
    /// The folder of the modalities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Samples in all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_key_count: Option<u64>,
    /// Samples in a shard, in files of older loaders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_size: Option<u64>,
    /// Version of the fields below, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Size of each shard's tar, by modality.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bytes: BTreeMap<String, Vec<u64>>,
    /// SHA-256 of each shard's tar in hexadecimal digits, by modality.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, Vec<String>>,
}

impl Wdinfo {
    /// Reads and checks the text of a `wdinfo.json`; `file` is its name in errors.
    ///
    /// # Errors
    /// If a field is missing or wrong; the error names file and field.
    pub fn parse(text: &[u8], file: &str) -> Result<Self> {
        let wdinfo = Self::parse_list(text, file)?;
        wdinfo.check(wdinfo.data_list.iter()).map_err(|e| e.in_shard(redact(file)))?;
        Ok(wdinfo)
    }

    /// The text of the file: indented by two blanks, fields in PiD's order, no newline at the end.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Strings and numbers only: this can't fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl<L> Wdinfo<L> {
    /// Reads the text; what is in the list is not checked.
    pub(super) fn parse_list<'a>(text: &'a [u8], file: &str) -> Result<Self>
    where
        L: Deserialize<'a>,
    {
        serde_json::from_slice(text)
            .map_err(|error| explain(text, &error).with_source(error).in_shard(redact(file)))
    }

    /// Samples in all shards, if that is known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let sum = self
            .data_list_key_count
            .as_ref()
            .map(|counts| counts.iter().map(|&count| u64::from(count)).sum());
        sum.or(self.total_key_count)
    }

    /// Checks the list and the rest of the fields.
    pub(super) fn check<S: AsRef<str> + Ord>(
        &self,
        list: impl ExactSizeIterator<Item = S> + Clone,
    ) -> Result<()> {
        if let Some(version) = self.version.filter(|&version| version == 0 || version > VERSION) {
            return Err(Error::manifest(format!(
                "is {version}, known are versions up to {VERSION}"
            ))
            .in_field("version"));
        }
        for modality in &self.data_keys {
            inside(modality).map_err(|why| Error::manifest(why).in_field("data_keys"))?;
        }
        if list.len() == 0 {
            return Err(Error::manifest("lists no shards").in_field("data_list"));
        }
        check_paths(list.clone()).map_err(|why| Error::manifest(why).in_field("data_list"))?;
        let same_length = |field: &str, len: usize| {
            if len == list.len() {
                return Ok(());
            }
            Err(Error::manifest(format!("has {len} entries for {} shards", list.len()))
                .in_field(field))
        };
        if let Some(counts) = &self.data_list_key_count {
            same_length("data_list_key_count", counts.len())?;
            let sum = self.total();
            if let Some(total) = self.total_key_count.filter(|&total| Some(total) != sum) {
                let sum = sum.unwrap_or_default();
                return Err(Error::manifest(format!(
                    "is {total}, but data_list_key_count adds up to {sum}"
                ))
                .in_field("total_key_count"));
            }
        }
        if self.chunk_size == Some(0) {
            return Err(
                Error::manifest("is 0, expected the samples in a shard").in_field("chunk_size")
            );
        }
        for (modality, sizes) in &self.bytes {
            same_length(&format!("bytes.{modality}"), sizes.len())?;
        }
        for (modality, sums) in &self.sha256 {
            same_length(&format!("sha256.{modality}"), sums.len())?;
            if let Some(bad) = sums
                .iter()
                .find(|sum| sum.len() != 64 || !sum.bytes().all(|b| b.is_ascii_hexdigit()))
            {
                return Err(Error::manifest(format!("{bad:?} is no SHA-256"))
                    .in_field(format!("sha256.{modality}")));
            }
        }
        Ok(())
    }
}

/// Refuses a path that would lead out of the folder that it is joined to.
pub(super) fn inside(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("an entry is empty".to_owned());
    }
    if path.starts_with('/') || path.contains("://") {
        return Err(format!("{path} is absolute, expected a path below the root"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("{path} leads out of its folder by `..`"));
    }
    if path.contains('\0') {
        return Err(format!("{path:?} holds a zero byte"));
    }
    Ok(())
}

/// Refuses paths that lead out of their folder or come twice. A sorted list, the usual case, is not copied.
fn check_paths<S: AsRef<str> + Ord>(list: impl Iterator<Item = S> + Clone) -> Result<(), String> {
    let (mut last, mut sorted) = (None, true);
    for path in list.clone() {
        inside(path.as_ref())?;
        sorted &= last.as_ref().is_none_or(|last| *last < path);
        last = Some(path);
    }
    if sorted {
        return Ok(());
    }
    let mut all: Vec<S> = list.collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("lists {} twice", pair[0].as_ref())),
        None => Ok(()),
    }
}

/// Finds out which field is to blame.
fn explain(text: &[u8], error: &serde_json::Error) -> Error {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(text) else {
        let found = if error.is_data() { "is no JSON object" } else { "is no JSON" };
        return Error::manifest(found);
    };
    if !fields.contains_key("data_list") {
        return Error::manifest("is missing").in_field("data_list");
    }
    // Each field alone: the one that can't be read is to blame.
    for (name, value) in fields {
        let rest = if name == "data_list" {
            serde_json::json!({})
        } else {
            serde_json::json!({ "data_list": [] })
        };
        let mut alone = rest;
        alone[&name] = value;
        if serde_json::from_value::<Wdinfo>(alone).is_err() {
            return Error::manifest("is wrong").in_field(name);
        }
    }
    Error::manifest("is wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Wdinfo::parse(text.as_bytes(), "d/wdinfo.json").unwrap_err().to_string()
    }

    #[test]
    fn text_is_what_pid_writes() {
        let text = "{\n  \"data_keys\": [\n    \"caption\",\n    \"image\"\n  ],\n  \"data_list\": [\n    \"part_000000/000000.tar\"\n  ],\n  \
                    \"data_list_key_count\": [\n    61\n  ],\n  \"root\": \"/data/x\",\n  \"total_key_count\": 61\n}";
        let wdinfo = Wdinfo::parse(text.as_bytes(), "wdinfo.json").unwrap();
        assert_eq!(wdinfo.data_list_key_count.as_deref(), Some(&[61][..]));
        assert_eq!(wdinfo.to_text(), text);
    }

    #[test]
    fn errors_name_file_and_field() {
        for (text, want) in [
            (
                r#"{"root": "/d", "total_key_count": 1}"#,
                "field data_list in d/wdinfo.json: is missing",
            ),
            (r#"{"data_list": "a.tar"}"#, "field data_list in d/wdinfo.json: is wrong"),
            (r#"{"data_list": []}"#, "field data_list in d/wdinfo.json: lists no shards"),
            (
                r#"{"data_list": ["/a.tar"]}"#,
                "field data_list in d/wdinfo.json: /a.tar is absolute",
            ),
            (
                r#"{"data_list": ["p/../../a.tar"]}"#,
                "field data_list in d/wdinfo.json: p/../../a.tar leads out",
            ),
            (
                r#"{"data_list": ["b.tar", "a.tar", "b.tar"]}"#,
                "field data_list in d/wdinfo.json: lists b.tar twice",
            ),
            (r#"{"data_list": ["a.tar"], "root": 3}"#, "field root in d/wdinfo.json: is wrong"),
            (
                r#"{"data_list": ["a.tar"], "data_keys": ["../x"]}"#,
                "field data_keys in d/wdinfo.json: ../x leads out",
            ),
            (
                r#"{"data_list": ["a.tar"], "data_list_key_count": [-1]}"#,
                "field data_list_key_count in d/wdinfo.json: is wrong",
            ),
            (
                r#"{"data_list": ["a.tar"], "data_list_key_count": [1, 2]}"#,
                "field data_list_key_count in d/wdinfo.json: has 2 entries for 1 shards",
            ),
            (
                r#"{"data_list": ["a.tar"], "data_list_key_count": [1], "total_key_count": 2}"#,
                "field total_key_count in d/wdinfo.json: is 2, but data_list_key_count adds up to 1",
            ),
            (
                r#"{"data_list": ["a.tar"], "chunk_size": 0}"#,
                "field chunk_size in d/wdinfo.json: is 0",
            ),
            (r#"{"data_list": ["a.tar"], "version": 9}"#, "field version in d/wdinfo.json: is 9"),
            (
                r#"{"data_list": ["a.tar"], "bytes": {"image": []}}"#,
                "field bytes.image in d/wdinfo.json: has 0 entries",
            ),
            (
                r#"{"data_list": ["a.tar"], "sha256": {"image": ["0f"]}}"#,
                "field sha256.image in d/wdinfo.json: \"0f\" is no SHA-256",
            ),
            (r#"["a.tar"]"#, "d/wdinfo.json: is no JSON object"),
            (r#"{"data_list": ["a.tar""#, "d/wdinfo.json: is no JSON: EOF"),
        ] {
            let got = complaint(text);
            assert!(got.starts_with(&format!("manifest: {want}")), "{text}: {got}");
        }
    }
}
