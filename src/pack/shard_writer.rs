//! [`ShardWriter`]: for programs that make samples themselves.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::content::Content;
use super::group::{Load, ShardLimit};
use super::layout;
use super::root::{Found, Root};
use super::twins::{NewMember, TwinFacts, TwinWriter};
use crate::error::{Error, Result};
use crate::sample::Key;
use crate::shard::wdinfo::{FILE_NAME, Wdinfo};
use crate::store::Stores;

/// Bytes of samples that may wait to be written, beyond one sample of any size.
const WAITING: usize = 32 << 20;
/// Samples that may wait.
const QUEUE: usize = 256;

/// How [`ShardWriter`] cuts and names its shards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShardParams {
    /// How much goes into a shard; bytes count members of all modalities.
    pub limit: ShardLimit,
    /// Shards in a folder `part_NNNNNN`; 0 for no such folders.
    pub part_size: u64,
    /// What to write as `root` into `wdinfo.json`, in place of the folder's absolute path.
    pub root: Option<String>,
    /// What reaches URLs. If `None`: with settings from the environment alone.
    pub stores: Option<Stores>,
}

impl Default for ShardParams {
    fn default() -> Self {
        Self { limit: ShardLimit::default(), part_size: 1000, root: None, stores: None }
    }
}

impl ShardParams {
    /// Sets how much goes into a shard.
    #[must_use]
    pub fn limit(mut self, limit: ShardLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Sets what reaches URLs.
    #[must_use]
    pub fn stores(mut self, stores: Stores) -> Self {
        self.stores = Some(stores);
        self
    }
}

/// One file of a sample: the modality whose tar it goes to, its extension, its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackField {
    /// Modality: folder below the data set (`image`).
    pub modality: String,
    /// Extension without the dot in front (`jpg`); may have dots inside.
    pub extension: String,
    /// Contents.
    pub bytes: Bytes,
}

impl<M: Into<String>, E: Into<String>, B: Into<Bytes>> From<(M, E, B)> for PackField {
    fn from((modality, extension, bytes): (M, E, B)) -> Self {
        Self { modality: modality.into(), extension: extension.into(), bytes: bytes.into() }
    }
}

/// Writes samples that a program makes into twin tars and, at the end, `wdinfo.json`.
///
/// [`write`](Self::write) waits while too much is waiting to be written (32 MiB, or 256 samples): memory stays bounded however fast the
/// program is. Shards get their names only when they are whole and on the disk. A writer that is dropped before
/// [`finish`](Self::finish) leaves the shards it completed, and no manifest.
///
/// ```
/// use shardstream::pack::{ShardLimit, ShardParams, ShardWriter};
/// # tokio_test::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let mut writer = ShardWriter::create(folder, ["image", "caption"], ShardParams::default().limit(ShardLimit::samples(2)))?;
/// for i in 0..5 {
///     let caption = format!(r#"{{"prompt": "picture {i}"}}"#);
///     writer.write(format!("id_{i}"), [("image", "jpg", vec![0u8; 100]), ("caption", "json", caption.into_bytes())]).await?;
/// }
/// let wdinfo = writer.finish().await?;
/// assert_eq!(wdinfo.data_list, ["part_000000/000000.tar", "part_000000/000001.tar", "part_000000/000002.tar"]);
/// assert!(folder.join("image/part_000000/000002.tar").exists() && folder.join("wdinfo.json").exists());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "without `finish` there is no manifest"]
pub struct ShardWriter {
    modalities: Arc<[String]>,
    queue: mpsc::Sender<Job>,
    budget: Arc<Semaphore>,
    task: Option<JoinHandle<Result<Wdinfo>>>,
}

#[derive(Debug)]
enum Job {
    Sample { key: Key, members: Vec<(usize, Vec<u8>, Content)>, _budget: OwnedSemaphorePermit },
    Finish,
}

impl ShardWriter {
    /// Begins a data set in `folder`, or below a URL in a store, which must not hold one yet. Needs a tokio runtime. Shards go to a store in
    /// parts of 8 MiB as they are made, and appear there when they are whole.
    ///
    /// # Errors
    /// If there is a `wdinfo.json` or one of the modalities already (in a store that is found out by the first
    /// [`write`](Self::write)), or if a modality or the limit can't be used.
    pub fn create<M: Into<String>>(
        folder: impl Into<PathBuf>,
        modalities: impl IntoIterator<Item = M>,
        params: ShardParams,
    ) -> Result<Self> {
        let folder: PathBuf = folder.into();
        let mut modalities: Vec<String> = modalities.into_iter().map(Into::into).collect();
        modalities.sort();
        check(&modalities, params.limit)?;
        let folder = Root::open(&folder, params.stores.as_ref())?;
        if folder.disk().is_some() {
            refuse(&folder, &modalities)?;
        }
        let modalities: Arc<[String]> = modalities.into();
        let (queue, jobs) = mpsc::channel(QUEUE);
        let run = Run {
            folder,
            modalities: Arc::clone(&modalities),
            params,
            load: Load::default(),
            keys: HashSet::new(),
            open: None,
            done: Vec::new(),
        };
        let task = tokio::task::spawn_blocking(move || run.run(jobs));
        Ok(Self { modalities, queue, budget: Arc::new(Semaphore::new(WAITING)), task: Some(task) })
    }

    /// Adds a sample: at least one field in each modality. Waits while the queue is full.
    ///
    /// # Errors
    /// If the sample can't be written, in which case the writer goes on without it; or if writing has failed, in which case every
    /// later call fails too.
    ///
    /// # Cancel safety
    /// A call that is dropped before it returns has not added the sample.
    pub async fn write<F: Into<PackField>>(
        &mut self,
        key: impl Into<String>,
        fields: impl IntoIterator<Item = F>,
    ) -> Result<()> {
        let key: String = key.into();
        let members = self
            .members(&key, fields.into_iter().map(Into::into))
            .map_err(|e| e.of_key(key.as_str()))?;
        let size: u64 = members.iter().map(|(_, _, content)| content.size()).sum();
        let cost = size.clamp(1, WAITING as u64) as u32;
        // The semaphore is never closed.
        let budget = Arc::clone(&self.budget)
            .acquire_many_owned(cost)
            .await
            .map_err(|_| Error::task("the budget is closed"))?;
        let job = Job::Sample { key: Key::from(key.as_str()), members, _budget: budget };
        match self.queue.send(job).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    /// Ends the last shard, writes `wdinfo.json`, and returns what it says.
    ///
    /// # Errors
    /// If a shard or the manifest can't be written, or if there was no sample.
    pub async fn finish(mut self) -> Result<Wdinfo> {
        // If nobody takes it the task has failed, and says so below.
        let _ = self.queue.send(Job::Finish).await;
        self.join().await
    }

    fn members(
        &self,
        key: &str,
        fields: impl Iterator<Item = PackField>,
    ) -> Result<Vec<(usize, Vec<u8>, Content)>> {
        let mut members: Vec<(usize, Vec<u8>, Content)> = Vec::new();
        for PackField { modality, extension, bytes } in fields {
            let Ok(twin) = self.modalities.binary_search(&modality) else {
                let known = self.modalities.join(", ");
                return Err(Error::group(format!(
                    "is none of the modalities of this data set: {known}"
                ))
                .in_modality(modality));
            };
            let name = format!("{key}.{extension}").into_bytes();
            let last = key.rsplit('/').next().unwrap_or_default();
            let wrong = layout::refuse_member(&name)
                .or_else(|| {
                    last.contains('.')
                        .then_some("the key has a dot: readers end the key at the first one")
                })
                .or_else(|| {
                    (extension.is_empty() || extension.contains('/'))
                        .then_some("that is no extension")
                })
                .or_else(|| {
                    members
                        .iter()
                        .any(|(t, n, _)| *t == twin && *n == name)
                        .then_some("the member comes twice")
                });
            if let Some(wrong) = wrong {
                return Err(Error::group(wrong)
                    .in_member(String::from_utf8_lossy(&name))
                    .in_modality(modality));
            }
            members.push((twin, name, Content::Bytes(bytes)));
        }
        // In the order of the modalities, then as given.
        members.sort_by_key(|(twin, _, _)| *twin);
        match (0..self.modalities.len()).find(|at| !members.iter().any(|(twin, _, _)| twin == at)) {
            Some(missing) => Err(Error::twins("has no field in this modality")
                .in_modality(self.modalities[missing].as_str())),
            None => Ok(members),
        }
    }

    async fn failure(&mut self) -> Error {
        match self.join().await {
            Err(error) => error,
            Ok(_) => Error::task("the writer ended before its time"),
        }
    }

    async fn join(&mut self) -> Result<Wdinfo> {
        match self.task.take() {
            None => Err(Error::pack("the writer has failed before")),
            Some(task) => match task.await {
                Ok(result) => result,
                Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
                Err(_) => Err(Error::task("the runtime is shutting down")),
            },
        }
    }
}

fn check(modalities: &[String], limit: ShardLimit) -> Result<()> {
    if modalities.is_empty() {
        return Err(Error::config("a data set needs a modality"));
    }
    if let Some(pair) = modalities.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::config(format!("modality {} is named twice", pair[0])));
    }
    for modality in modalities {
        layout::check_modality(modality)?;
    }
    if limit.samples == Some(0) || limit.bytes == Some(0) {
        return Err(Error::config("a shard of nothing: the limit of a shard must not be 0"));
    }
    Ok(())
}

/// Fails if there is a data set already.
fn refuse(folder: &Root, modalities: &[String]) -> Result<()> {
    let mut names = modalities.iter().map(String::as_str).chain([FILE_NAME]);
    let found = match folder.disk() {
        Some(folder) => names.find(|name| folder.join(name).exists()).map(str::to_owned),
        None => {
            let there = folder.list()?;
            let is = |name: &str, file: &Found| {
                file.name
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            names.find(|name| there.iter().any(|file| is(name, file))).map(str::to_owned)
        }
    };
    match found {
        Some(name) => Err(Error::config(format!(
            "{} holds {name} already; write into a new folder",
            folder.shown("")
        ))),
        None => Ok(()),
    }
}

/// The blocking half.
struct Run {
    folder: Root,
    modalities: Arc<[String]>,
    params: ShardParams,
    load: Load,
    keys: HashSet<Key>,
    open: Option<(String, TwinWriter)>,
    done: Vec<(String, u32, Vec<TwinFacts>)>,
}

impl Run {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) -> Result<Wdinfo> {
        if self.folder.disk().is_none() {
            refuse(&self.folder, &self.modalities)?;
        }
        while let Some(job) = jobs.blocking_recv() {
            match job {
                Job::Sample { key, members, _budget } => self.sample(key, &members)?,
                Job::Finish => return self.finish(),
            }
        }
        Err(Error::pack("the writer was dropped before it was finished"))
    }

    fn sample(&mut self, key: Key, members: &[(usize, Vec<u8>, Content)]) -> Result<()> {
        let size = members.iter().map(|(_, _, content)| content.size()).sum();
        if self.load.add(size, self.params.limit) {
            self.close()?;
        }
        let writer = match &mut self.open {
            Some((_, writer)) => writer,
            None => {
                let shard = layout::shard_path(self.done.len() as u64, self.params.part_size);
                let writer = TwinWriter::create(&self.folder, &shard, &self.modalities)?;
                &mut self.open.insert((shard, writer)).1
            }
        };
        if !self.keys.insert(key.clone()) {
            let shard = self.done.len();
            return Err(Error::pack(format!("the key comes twice in shard {shard}"))
                .of_key(key.to_string()));
        }
        let members: Vec<_> = members
            .iter()
            .map(|(twin, name, content)| NewMember { twin: *twin, name, content })
            .collect();
        writer.append(&key, &members)
    }

    fn close(&mut self) -> Result<()> {
        self.keys.clear();
        if let Some((shard, writer)) = self.open.take() {
            let samples = writer.samples();
            self.done.push((shard, samples, writer.finish()?));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Wdinfo> {
        self.close()?;
        if self.done.is_empty() {
            return Err(Error::pack("no sample was written"));
        }
        let wdinfo = super::manifest::wdinfo(
            &self.folder,
            self.params.root.as_deref(),
            &self.modalities,
            &self.done,
        )?;
        super::manifest::write(&self.folder, &wdinfo)?;
        Ok(wdinfo)
    }
}
