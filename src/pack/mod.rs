//! Making data sets: [`ShardWriter`] for samples that a program makes, [`pack`] for folders of files.
//!
//! Both write twin tars and, at the end, `wdinfo.json` in the layout of PiD: `<modality>/part_000000/000000.tar`, one member for each file, the
//! same keys in the same order in all twins. What is written depends on names, contents, options and seed alone.
//!
//! A data set may lie in a store as well as in a folder: `s3://bucket/shards`, `gs://`, `az://`. Shards are sent there in parts while they are
//! made, so that none is ever held whole, and appear when they are complete. A process that is killed may leave parts which no listing
//! shows: let the bucket's own rules remove them after some days.

mod add;
mod classes;
mod content;
mod dimensions;
mod existing;
mod folders;
mod group;
mod index_shard;
mod journal;
mod layout;
mod leaves;
mod list;
mod manifest;
mod merge;
mod mp4;
mod old_shards;
mod options;
mod parallel;
mod plan;
mod progress;
mod report;
mod root;
mod run;
mod scan;
mod shard_writer;
mod sink;
mod spool;
mod twins;
mod ustar;
mod verify;
mod verify_shard;
mod video;
mod walk;
mod webm;

use std::sync::Arc;

pub use add::{AddOptions, add_modality};
pub use classes::{ASPECT_RATIOS, Dimensions, DurationBins, aspect_ratio};
pub use group::ShardLimit;
pub use index_shard::index_shard;
pub use merge::{merge, merge_in};
pub use options::{Existing, Input, PackOptions, Part};
pub use progress::{PackControl, Phase};
pub use report::{Finding, PackReport, Reason};
pub use shard_writer::{PackField, ShardParams, ShardWriter};
pub use verify::{Fault, FaultKind, VerifyOptions, VerifyReport, verify};

use crate::error::{Error, Result};

/// Packs folders of files into shards. Dropping the future ends the work.
///
/// What could not be packed is in the report, and in `pack_report.jsonl` beside the data.
///
/// ```
/// use shardstream::pack::{PackOptions, pack};
/// # tokio_test::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let (input, output) = (folder.path().join("photos"), folder.path().join("shards"));
/// for modality in ["image", "caption"] {
///     std::fs::create_dir_all(input.join(modality))?;
/// }
/// for i in 0..3 {
///     std::fs::write(input.join(format!("image/{i}.jpg")), b"not looked into")?;
///     std::fs::write(input.join(format!("caption/{i}.json")), br#"{"prompt": "a picture"}"#)?;
/// }
/// let report = pack(PackOptions::new(&input, &output).flat()).await?;
/// assert_eq!((report.samples, report.shards), (3, 1));
/// assert!(report.is_complete() && output.join("wdinfo.json").exists());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// If the options can't work, the input can't be listed, or the output can't be written.
pub async fn pack(options: PackOptions) -> Result<PackReport> {
    pack_with(options, Arc::default()).await
}

/// As [`pack`], with a window on its progress and a switch to stop it.
///
/// # Errors
/// As [`pack`]; and if it was stopped.
pub async fn pack_with(options: PackOptions, control: Arc<PackControl>) -> Result<PackReport> {
    blocking(control, move |control| run::run(&options, control)).await
}

/// Width and height of an encoded picture as stored, from its header. `None` if it is no picture that is known, or a broken one.
#[must_use]
pub fn picture_dimensions(bytes: &bytes::Bytes) -> Option<Dimensions> {
    dimensions::of_picture(&content::Content::Bytes(bytes.clone()), false).ok()
}

/// Runs work that blocks away from the runtime's threads; it is told to stop when the future is dropped.
async fn blocking<T: Send + 'static>(
    control: Arc<PackControl>,
    work: impl FnOnce(&PackControl) -> Result<T> + Send + 'static,
) -> Result<T> {
    struct StopOnDrop(Arc<PackControl>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    let _stop = StopOnDrop(Arc::clone(&control));
    match tokio::task::spawn_blocking(move || work(&control)).await {
        Ok(result) => result,
        Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
        Err(_) => Err(Error::task("the runtime is shutting down")),
    }
}
