//! Shards that exist, packed anew: in other sizes, orders or folders, with more modalities, or without some samples.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::content::Content;
use super::leaves::{self, LeafFolder};
use super::options::PackOptions;
use super::report::{Finding, Reason};
use super::root::Root;
use super::scan::{Raw, Samples};
use super::spool::Spool;
use super::walk::walk;
use crate::error::Result;
use crate::sample::key::{is_data, pid_stem, split};

/// Lists the members of all shards at or below a folder. What follows a broken place in a tar is reported.
pub(crate) fn list(
    folder: &Path,
    options: &PackOptions,
    found: &mut Vec<Raw>,
    samples: &mut Samples,
) -> Result<()> {
    for leaf in leaves::find(folder, options.stores.as_ref())? {
        if let Some(Err(error)) = leaf.manifest {
            return Err(error);
        }
        let modalities = leaf.modalities();
        // With twins a key goes up to the last dot, as in PiD; a tar that holds all fields of a sample has them behind the first.
        let twins = modalities.len() > 1;
        for modality in &modalities {
            if !options.modalities.is_empty() && !options.modalities.contains(modality) {
                samples.other_folders.push(modality.clone());
                continue;
            }
            let name: Arc<str> = modality.as_str().into();
            for shard in leaf.shards() {
                let twin = match Twin::open(&leaf, modality, &shard, samples) {
                    Ok(twin) => twin,
                    Err(error) => {
                        let name = leaf.shard_name(&shard);
                        let finding = Finding::new(Reason::Unreadable, name, error.to_string());
                        samples.findings.push(finding);
                        continue;
                    }
                };
                let mut strange = Vec::new();
                let walked = walk(&twin.root, &twin.name, false, |member| {
                    let key = if twins {
                        pid_stem(&member.name)
                    } else {
                        split(&member.name).map(|(key, _)| key)
                    };
                    let Some(key) = key.filter(|_| is_data(&member.name)) else {
                        strange.push(String::from_utf8_lossy(&member.name).into_owned());
                        return Ok(());
                    };
                    found.push(Raw {
                        key: Bytes::copy_from_slice(key).into(),
                        modality: Arc::clone(&name),
                        extension: member.name[key.len() + 1..].into(),
                        content: twin.content(member.data_offset, member.data.len() as u64),
                    });
                    Ok(())
                });
                samples.findings.extend(strange.into_iter().map(|member| {
                    Finding::new(
                        Reason::Name,
                        member,
                        format!("has no key, in {}", twin.root.shown(&twin.name)),
                    )
                }));
                if let Err(error) = walked {
                    let name = leaf.shard_name(&shard);
                    samples.findings.push(Finding::new(
                        Reason::Unreadable,
                        name,
                        error.to_string(),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A tar whose members are packed anew.
struct Twin {
    root: Arc<Root>,
    name: Arc<str>,
    /// Where it lies, if that is on the disk.
    path: Option<Arc<Path>>,
}

impl Twin {
    /// A compressed one is unpacked first.
    fn open(leaf: &LeafFolder, modality: &str, shard: &str, samples: &mut Samples) -> Result<Self> {
        let name = leaf.twin(modality, shard);
        let Some(spool) = Spool::of(&leaf.root, &name)? else {
            return Ok(Self::at(leaf.root.clone(), name.into()));
        };
        let folder = spool.path().parent().unwrap_or(Path::new(""));
        let file = spool.path().file_name().unwrap_or_default().to_string_lossy();
        let twin = Self::at(Root::open(folder, None)?, file.into());
        samples.spools.push(spool);
        Ok(twin)
    }

    fn at(root: Root, name: Arc<str>) -> Self {
        let path = root.disk().map(|folder| folder.join(&*name).into());
        Self { root: Arc::new(root), name, path }
    }

    /// Some of its bytes.
    fn content(&self, offset: u64, size: u64) -> Content {
        match &self.path {
            Some(path) => Content::Slice { path: Arc::clone(path), offset, size },
            None => {
                let (root, name) = (Arc::clone(&self.root), Arc::clone(&self.name));
                Content::Object { root, name, offset, size }
            }
        }
    }
}
