//! What became of the input: [`PackReport`], and what was left out and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why something is not in the output, or not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// A file whose extension is none of its modality.
    Extension,
    /// A key without a file in one of the modalities.
    Incomplete,
    /// A key with two files in one modality.
    Ambiguous,
    /// Two keys that PiD would take for one.
    Collision,
    /// A name that can't stand in a shard.
    Name,
    /// A file above the largest size allowed.
    Oversized,
    /// A file that can't be read, that changed, or whose width and height can't be found.
    Unreadable,
    /// A key to be left out that is not in the input.
    Unknown,
    /// A shard with a single sample, which PiD's loader can't read twice in a row. It is packed all the same.
    Singleton,
}

impl Reason {
    /// The word for it in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Extension => "extension",
            Self::Incomplete => "incomplete",
            Self::Ambiguous => "ambiguous",
            Self::Collision => "collision",
            Self::Name => "name",
            Self::Oversized => "oversized",
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
            Self::Singleton => "singleton",
        }
    }
}

/// One thing to know about the input: a line of `pack_report.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of thing.
    pub reason: Reason,
    /// The key of the sample, or the name of the file.
    pub key: String,
    /// More about it, in words.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(reason: Reason, key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { reason, key: key.into(), detail: detail.into() }
    }
}

/// What [`pack`](super::pack) did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PackReport {
    /// Modalities that were packed.
    pub modalities: Vec<String>,
    /// Samples in the output, or planned for it in a dry run. With parts: of this part.
    pub samples: u64,
    /// Shards in the output, counted likewise.
    pub shards: u64,
    /// Bytes of all tars (in a dry run: of all members).
    pub bytes: u64,
    /// Shards that an earlier run had finished.
    pub resumed_shards: u64,
    /// Samples by folder below the output; flat data sets have one folder, named by the empty string.
    pub buckets: BTreeMap<String, u64>,
    /// Samples left out because that was asked for: by a list, or by a limit.
    pub not_wanted: u64,
    /// Sub-folders (or columns) of the input that were not packed.
    pub other_folders: Vec<String>,
    /// What was left out, and what else a person should know. Empty if all of the input is in the output.
    pub findings: Vec<Finding>,
}

impl PackReport {
    /// Whether everything that was asked for was done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many findings there are of each kind.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for finding in &self.findings {
            *counts.entry(finding.reason.word()).or_default() += 1;
        }
        counts
    }
}
