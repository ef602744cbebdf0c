//! What people write for shards: paths, URLs, patterns, lists, folders, `wdinfo.json` files.

use super::braces::Braces;
use super::glob::{self, Glob, is_glob};
use super::leaf::{is_web_url, join, without_query};
use super::wdinfo;
use crate::error::{Error, Result};
use crate::store::{Meta, Store, read_all, redact};

/// The largest file of a list (`@file`) that is read.
const LIST_LIMIT: u64 = 1 << 30;

/// What one argument stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A manifest file.
    Wdinfo(String),
    /// One shard.
    Shard(String),
    /// Shards whose names follow a pattern.
    Pattern(Braces),
}

/// Finds out what an argument stands for. `base` is the folder that shards are relative to; manifest files are not.
///
/// In this order: `@file` is a list, one argument a line; `*.json` is a manifest; something that exists by this very name is a
/// shard; `a::b` is a list; braces are expanded; `*`, `?` and `[..]` are matched against what exists; a folder is the data sets or else the tars
/// in it and below, sorted.
pub(super) async fn resolve(store: &dyn Store, base: &str, argument: &str) -> Result<Vec<Found>> {
    let Some(file) = argument.strip_prefix('@') else { return one(store, base, argument).await };
    let text = read_all(store, file, LIST_LIMIT).await?;
    let text = std::str::from_utf8(&text)
        .map_err(|e| Error::config("is no text").with_source(e).in_shard(redact(file)))?;
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with('@') {
            return Err(Error::config(format!("{line}: a list can't name another list"))
                .in_shard(redact(file)));
        }
        found.extend(one(store, base, line).await?);
    }
    if found.is_empty() {
        return Err(Error::config("lists no shards").in_shard(redact(file)));
    }
    Ok(found)
}

async fn one(store: &dyn Store, base: &str, argument: &str) -> Result<Vec<Found>> {
    let parts = split_list(argument);
    let special = parts.len() > 1 || argument.contains('{') || is_glob(argument);
    if special && !is_web_url(argument) && exists(store, &join(base, argument)).await? {
        return Ok(vec![Found::Shard(argument.to_owned())]);
    }
    let mut found = Vec::new();
    for part in parts {
        if part.is_empty() {
            return Err(Error::config(format!("shards {:?}: an entry is empty", redact(argument))));
        }
        found.extend(piece(store, base, part).await?);
    }
    Ok(found)
}

async fn piece(store: &dyn Store, base: &str, part: &str) -> Result<Vec<Found>> {
    if without_query(part).ends_with(".json") {
        return Ok(vec![Found::Wdinfo(part.to_owned())]);
    }
    let braces = Braces::parse(part)?;
    if is_web_url(part) || !is_glob(part) {
        return match braces.is_plain() {
            true if is_web_url(part) || is_tar(part) => Ok(vec![Found::Shard(braces.get(0))]),
            true => folder(store, base, part).await,
            false => Ok(vec![Found::Pattern(braces)]),
        };
    }
    let mut found = Vec::new();
    for pattern in braces.iter() {
        let before = found.len();
        let glob = Glob::parse(&pattern);
        let names = names_below(store, base, glob::folder(&pattern)).await?;
        found.extend(names.into_iter().filter(|name| glob.matches(name)).map(Found::Shard));
        if found.len() == before {
            return Err(Error::config(format!("shard pattern {pattern}: matches nothing")));
        }
    }
    Ok(found)
}

/// A folder, or a shard whose name does not look like one.
async fn folder(store: &dyn Store, base: &str, path: &str) -> Result<Vec<Found>> {
    let mut files = paths(present(store.list(path).await)?);
    files.retain(|file| is_wdinfo(file));
    if !files.is_empty() {
        return Ok(files.into_iter().map(Found::Wdinfo).collect());
    }
    let names = names_below(store, base, path.trim_end_matches('/')).await?;
    let tars: Vec<Found> =
        names.iter().filter(|name| is_tar(name)).cloned().map(Found::Shard).collect();
    if !tars.is_empty() {
        return Ok(tars);
    }
    if !names.is_empty() {
        return Err(Error::manifest("holds neither wdinfo.json nor tars").in_shard(redact(path)));
    }
    if exists(store, &join(base, path)).await? {
        return Ok(vec![Found::Shard(path.to_owned())]);
    }
    Err(Error::manifest("there is no such file, folder or data set").in_shard(redact(path)))
}

/// Everything in a folder below `base` and in the folders in it, as it would be written relative to `base`; sorted.
async fn names_below(store: &dyn Store, base: &str, folder: &str) -> Result<Vec<String>> {
    let whole = join(base, folder);
    if whole.is_empty() {
        // The current directory, where the store has one; else everything.
        let all = paths(present(store.list(".").await)?);
        if !all.is_empty() {
            return Ok(all
                .into_iter()
                .map(|path| path.strip_prefix("./").map(str::to_owned).unwrap_or(path))
                .collect());
        }
    }
    let start = [base.trim_end_matches('/'), "/"].concat();
    let names = paths(present(store.list(&whole).await)?).into_iter();
    Ok(match base {
        "" => names.collect(),
        _ => names.filter_map(|path| path.strip_prefix(&start).map(str::to_owned)).collect(),
    })
}

fn paths(found: Vec<Meta>) -> Vec<String> {
    let mut paths: Vec<String> = found.into_iter().map(|meta| meta.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// What a listing found; nothing if there is no such folder.
fn present(listed: Result<Vec<Meta>>) -> Result<Vec<Meta>> {
    match listed {
        Err(error) if error.is_transient() => Err(error),
        other => Ok(other.unwrap_or_default()),
    }
}

async fn exists(store: &dyn Store, path: &str) -> Result<bool> {
    match store.head(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_transient() => Err(error),
        Err(_) => Ok(false),
    }
}

/// Splits at `::`, but not inside the address of a host (`http://[::1]/`).
fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut from) = (Vec::new(), 0, 0);
    while let Some(at) = text[from..].find("::").map(|at| from + at) {
        let host =
            text[start..at].rfind("//[").is_some_and(|open| !text[start + open..at].contains(']'));
        from = at + 2;
        if !host {
            parts.push(&text[start..at]);
            start = from;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Whether a name looks like a tar, compressed or not.
pub(crate) fn is_tar(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    [".tar", ".tgz", ".tbz2", ".txz", ".tzst"].iter().any(|ending| name.ends_with(ending))
        || [".gz", ".zst", ".bz2", ".xz"]
            .iter()
            .any(|ending| name.strip_suffix(ending).is_some_and(|name| name.ends_with(".tar")))
}

fn is_wdinfo(path: &str) -> bool {
    path.rsplit('/').next() == Some(wdinfo::FILE_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(split_list("a::b:c::"), ["a", "b:c", ""]);
        assert_eq!(
            split_list("http://[::1]:80/x::http://[fe80::2]/y"),
            ["http://[::1]:80/x", "http://[fe80::2]/y"]
        );
    }

    #[test]
    fn tars() {
        assert!(["a.tar", "b/A.TAR", "a.tar.gz", "a.tgz", "x.y.tar.zst"].into_iter().all(is_tar));
        assert!(!["a", "tar", "a.gz", "a.tar/b", "a.zip"].into_iter().any(is_tar));
    }
}
