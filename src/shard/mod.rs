//! What exists: manifests, data sets, shards, and who reads which.

mod braces;
mod data_set;
mod leaf;
mod manifest;
mod path_list;
pub mod wdinfo;
mod wdinfo_leaf;

pub use braces::Braces;
pub use data_set::DataSet;
pub use leaf::Leaf;
pub use manifest::{Manifest, Source};
