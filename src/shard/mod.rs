//! What exists: manifests, data sets, shards, and who reads which.

mod arguments;
mod braces;
mod data_set;
mod epoch_order;
mod glob;
mod leaf;
mod manifest;
mod mt19937;
mod path_list;
mod pid_order;
pub mod wdinfo;
mod wdinfo_leaf;

pub use braces::Braces;
pub use data_set::DataSet;
pub use epoch_order::{EpochOrder, Order, Tail};
pub use leaf::Leaf;
pub use manifest::{Manifest, Source};
pub use pid_order::{LegacySkip, LegacyStart};
