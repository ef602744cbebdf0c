//! Our loader as `burn`'s, for its `Learner`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_core::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn_core::data::dataset::DatasetError;
use burn_core::tensor::Device;
use futures::StreamExt;
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::loader::Loader;
use crate::sample::Heads;

/// A [`Loader`] as `burn`'s `DataLoader`: each iterator gives one epoch.
///
/// An iterator that is dropped in the middle of an epoch leaves the rest to the next one: nothing is read twice. All clones and
/// iterators share one loader; [`loader`](Self::loader) reaches it for checkpoints.
///
/// # Panics
/// Its iterators wait for the loader's tasks, so they can't be used in an async task, only in a thread of their own (as `Learner` does).
pub struct BurnLoader<B, O> {
    shared: Arc<Shared<B, O>>,
    device: Device,
    /// Whether somebody asked for a part of it.
    sliced: bool,
}

struct Shared<B, O> {
    loader: Mutex<Loader<B>>,
    runtime: Handle,
    items: usize,
    batcher: Box<Batcher<B, O>>,
}

/// Makes a batch into what the model takes, on a device.
type Batcher<B, O> = dyn Fn(B, &Device) -> Result<O> + Send + Sync;

impl<B, O> BurnLoader<B, O>
where
    B: Heads + Send + 'static,
    O: Send + 'static,
{
    /// Takes a loader over. `runtime` is where its tasks run, `items` how many samples its epochs have (for progress bars).
    pub fn new(
        loader: Loader<B>,
        runtime: Handle,
        device: Device,
        items: usize,
        batcher: impl Fn(B, &Device) -> Result<O> + Send + Sync + 'static,
    ) -> Self {
        let shared =
            Shared { loader: Mutex::new(loader), runtime, items, batcher: Box::new(batcher) };
        Self { shared: Arc::new(shared), device, sliced: false }
    }

    /// The loader itself, for checkpoints and counters. Let it go before the next batch is asked for.
    pub fn loader(&self) -> MutexGuard<'_, Loader<B>> {
        self.shared.loader()
    }
}

impl<B, O> Shared<B, O> {
    fn loader(&self) -> MutexGuard<'_, Loader<B>> {
        self.loader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B, O> Clone for BurnLoader<B, O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), device: self.device.clone(), sliced: self.sliced }
    }
}

impl<B, O> fmt::Debug for BurnLoader<B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BurnLoader").field("items", &self.shared.items).finish_non_exhaustive()
    }
}

impl<B, O> DataLoader<O> for BurnLoader<B, O>
where
    B: Heads + Send + 'static,
    O: Send + 'static,
{
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        Box::new(Epoch { loader: self, processed: 0, ended: false })
    }

    fn num_items(&self) -> usize {
        self.shared.items
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    /// A stream has no parts by number. What comes back gives one error that says what to do instead.
    fn slice(&self, _: usize, _: usize) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self { sliced: true, ..self.clone() })
    }
}

/// What is left of the current epoch.
struct Epoch<'a, B, O> {
    loader: &'a BurnLoader<B, O>,
    processed: usize,
    ended: bool,
}

impl<B: Heads + Send + 'static, O: Send + 'static> Epoch<'_, B, O> {
    fn batch(&mut self) -> Option<Result<O>> {
        let BurnLoader { shared, device, sliced } = self.loader;
        if *sliced {
            self.ended = true;
            return Some(Err(Error::config(
                "a stream of shards can't be cut by sample numbers: give each device a loader of its own rank",
            )));
        }
        let mut loader = shared.loader();
        let next = match loader.epoch() {
            Some(mut epoch) => shared.runtime.block_on(epoch.next()),
            None => None,
        };
        drop(loader);
        match next {
            Some(Ok(batch)) => {
                self.processed += batch.heads().len();
                Some((shared.batcher)(batch, device))
            }
            Some(Err(error)) => Some(Err(error)),
            None => {
                self.ended = true;
                None
            }
        }
    }
}

impl<B: Heads + Send + 'static, O: Send + 'static> Iterator for Epoch<'_, B, O> {
    type Item = std::result::Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.batch().map(|batch| batch.map_err(DatasetError::new))
    }
}

impl<B: Heads + Send + 'static, O: Send + 'static> DataLoaderIterator<O> for Epoch<'_, B, O> {
    fn progress(&self) -> Progress {
        Progress::new(self.processed, self.loader.shared.items, Some("samples".to_owned()))
    }
}
