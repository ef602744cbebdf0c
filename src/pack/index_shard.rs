//! `index_shard`: where each sample lies in the twins of a shard.

use futures::StreamExt;

use crate::error::{Error, Result};
use crate::shard::{IndexedTwin, Leaf, Places, SampleIndex};
use crate::store::decompress::Compression;
use crate::store::{ByteRange, Store, redact};
use crate::tar::{Parser, Step};

/// Walks the twins of a shard, named as its manifest lists it, and writes down where each sample lies. The caller puts it where
/// [`SampleIndex::path_of`] says, for [`sample_index`](crate::stages::OpenTwins::sample_index) to find it.
///
/// # Errors
/// A tar can't be read or is broken, is compressed, changes meanwhile, or its samples have no place of their own: a key that comes
/// back, or a global header that names its members.
///
/// # Examples
/// ```
/// use shardstream::pack::index_shard;
/// use shardstream::prelude::*;
/// use shardstream::shard::SampleIndex;
/// # tokio_test::block_on(async {
/// let (manifest, store) = shardstream::testing::shards(1, 3);
/// let (leaf, path) = (manifest.leaf(0), manifest.path(0));
/// let index = index_shard(&store, leaf, &path).await?;
/// assert_eq!(index.keys().len(), 3);
/// store.put(&SampleIndex::path_of(None, leaf, &path), index.encode()?).await?;
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
pub async fn index_shard(store: &dyn Store, leaf: &Leaf, path: &str) -> Result<SampleIndex> {
    let mut twins = Vec::new();
    for (modality, tar) in leaf.tars(path) {
        let modality = modality.as_deref().unwrap_or_default();
        let twin = IndexedTwin::new(modality, &store.head(&tar).await?)?;
        let places =
            walk(store, &tar, twin.size).await.map_err(|error| error.in_shard(redact(&tar)))?;
        // A tar that is being written while it is read.
        twin.check(&store.head(&tar).await?)?;
        twins.push((twin, places));
    }
    SampleIndex::join(twins)
}

async fn walk(store: &dyn Store, tar: &str, size: u64) -> Result<Places> {
    let (mut parser, mut places) = (Parser::new(), Places::new());
    let mut stream = store.read(tar, ByteRange::ALL);
    let mut is_first = true;
    loop {
        match parser.next()? {
            Step::Member(member) => places.add(&member)?,
            Step::Warning(warning) => {
                tracing::warn!("{}", Error::from(warning).in_shard(redact(tar)))
            }
            Step::End { .. } if parser.has_global_names() => {
                return Err(Error::index(
                    "a global PAX header names or sizes its members: they can't be read one by one",
                ));
            }
            Step::End { clean } => {
                if !clean {
                    tracing::warn!(
                        "{}",
                        Error::tar("no end mark: members may be missing")
                            .at(size)
                            .in_shard(redact(tar)),
                    );
                }
                return Ok(places);
            }
            Step::NeedMore => match stream.next().await.transpose()? {
                Some(chunk) => {
                    if let Some(compression) =
                        std::mem::take(&mut is_first).then(|| Compression::of(&chunk)).flatten()
                    {
                        return Err(Error::index(format!(
                            "{compression} data: samples in it have no place of their own"
                        )));
                    }
                    parser.push(chunk);
                }
                None => parser.finish(),
            },
        }
    }
}
