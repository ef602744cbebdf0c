//! From a `wdinfo.json` to a [`Leaf`]: where its data lies, and what it counts.

use std::sync::Arc;

use super::data_set::DataSet;
use super::leaf::{Counts, Leaf, Paths, join, without_query};
use super::path_list::PathList;
use super::wdinfo::Wdinfo;
use crate::error::Result;
use crate::store::{Store, read_all, redact};

/// The largest manifest file that is read: about a hundred million shards.
const LIMIT: u64 = 4 << 30;

/// The modalities of files that name none.
const MODALITIES: [&str; 2] = ["image", "caption"];

/// Reads one file.
pub(super) async fn load(store: &dyn Store, file: &str, data_set: &DataSet) -> Result<Leaf> {
    let text = read_all(store, file, LIMIT).await?;
    let mut wdinfo = Wdinfo::<PathList>::parse_list(&text, file)?;
    drop(text);
    wdinfo.check(wdinfo.data_list.iter()).map_err(|e| e.in_shard(redact(file)))?;
    let modalities: Vec<Arc<str>> = [&data_set.modalities, &wdinfo.data_keys]
        .into_iter()
        .find(|names| !names.is_empty())
        .map_or_else(
            || MODALITIES.map(Arc::from).to_vec(),
            |names| names.iter().map(|name| name.as_str().into()).collect(),
        );
    let root = match &data_set.root {
        Some(root) => root.clone(),
        None => {
            let recorded = wdinfo.root.as_deref().filter(|_| !data_set.ignore_root);
            find_root(store, file, recorded, &modalities, &wdinfo.data_list).await?
        }
    };
    let total = wdinfo.total();
    Ok(Leaf {
        root,
        modalities,
        aspect_ratio: aspect_ratio(without_query(file)),
        store: data_set.store.clone(),
        counts: counts(
            wdinfo.data_list_key_count.take(),
            wdinfo.chunk_size,
            total,
            wdinfo.data_list.len() as u64,
        ),
        total,
        paths: Paths::Listed(wdinfo.data_list),
    })
}

/// Where the data lies: at the recorded root, else at the recorded root below the folder of the file, else in that folder. A
/// place is believed if it has one of the twins of the first, middle or last shard. If no place has one, the recorded root is kept if it is absolute, so
/// that an error names it; else the folder.
async fn find_root(
    store: &dyn Store,
    file: &str,
    recorded: Option<&str>,
    modalities: &[Arc<str>],
    list: &PathList,
) -> Result<String> {
    let file = without_query(file);
    let folder = file.rfind('/').map_or("", |slash| &file[..slash.max(1)]);
    let Some(recorded) = recorded.filter(|root| !root.is_empty() && *root != ".") else {
        return Ok(folder.to_owned());
    };
    let absolute = recorded.starts_with('/') || recorded.contains("://");
    let places = if absolute {
        vec![recorded.to_owned(), folder.to_owned()]
    } else {
        vec![join(folder, recorded), folder.to_owned(), recorded.to_owned()]
    };
    let last = list.len() - 1;
    for root in &places {
        for place in [0, last / 2, last] {
            for modality in modalities {
                match store.head(&join(&join(root, modality), &list.get(place))).await {
                    Ok(_) => return Ok(root.clone()),
                    Err(error) if error.is_transient() => return Err(error),
                    Err(_) => {}
                }
            }
        }
    }
    Ok(places.into_iter().next().unwrap_or_default())
}

/// The counts of the shards. PiD's ancestors give one number for all: it is believed only if it adds up.
fn counts(
    each: Option<Vec<u32>>,
    chunk_size: Option<u64>,
    total: Option<u64>,
    shards: u64,
) -> Counts {
    match (each, chunk_size) {
        (Some(counts), _) => Counts::Each(counts),
        (None, Some(size)) if total.is_none() || size.checked_mul(shards) == total => {
            Counts::Same(size)
        }
        (None, _) => Counts::Unknown,
    }
}

/// The class that the innermost folder called `aspect_ratio_W_H` names: `W,H`.
pub(super) fn aspect_ratio(file: &str) -> Option<String> {
    file.split('/').rev().find_map(|folder| {
        let (width, height) = folder.strip_prefix("aspect_ratio_")?.split_once('_')?;
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (number(width) && number(height)).then(|| format!("{width},{height}"))
    })
}
