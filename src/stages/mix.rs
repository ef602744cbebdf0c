//! `mix`: several sources, merged by virtual time in proportion to weights.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, FusedStream, Stream, StreamExt};

use crate::error::{Error, Result};
use crate::position::{Mark, TICKS};
use crate::progress::SourceProgress;
use crate::random::hash;
use crate::recipe;
use crate::sample::Sample;

/// Unit of weights: shares are rounded to 2^-32, so that times are integers, equal on every platform.
const UNIT: f64 = 4_294_967_296.0;

struct Source<T> {
    stream: BoxStream<'static, Result<Sample<T>>>,
    /// Its share in units of 2^-32.
    share: u64,
    head: Option<Result<Sample<T>>>,
    ended: bool,
    /// The time of the last sample that left it, those included that an earlier part of the run has settled.
    last: u64,
}

/// Stream for the [`mix`] function.
#[must_use = "streams do nothing unless polled"]
pub struct Mix<T> {
    sources: Vec<Source<T>>,
    first_exhausted: bool,
    ended: bool,
}

impl<T> fmt::Debug for Mix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mix")
            .field("sources", &self.sources.len())
            .field("first_exhausted", &self.first_exhausted)
            .finish_non_exhaustive()
    }
}

/// Merges sources (see [`Lane::source`](crate::loader::Lane::source)) so that each gives samples in proportion to its weight.
///
/// Each sample's time is divided by its source's share, and the smallest time goes first. A keyed jitter makes the pattern random rather
/// than regular. Weights count samples, not shards.
///
/// When it ends: with the last source, so that everything is delivered, and towards the end the shares are those of what is left; or with
/// the first ([`Mix::first_exhausted`]); or never, where each source begins again by itself ([`ShardList::repeat`](super::ShardList::repeat)):
/// then the shares hold for ever, and [`with_epoch`](crate::loader::Builder::with_epoch) says how long an epoch is.
///
/// Order: by time. Memory: one sample of each source.
///
/// # Resuming
/// Nothing to do: the order follows from times, and a time from the sample's identity.
///
/// # Errors
/// If there are no sources, or a weight is not a positive number.
///
/// # Examples
/// ```
/// use futures::TryStreamExt;
/// use shardstream::prelude::*;
/// use shardstream::stages::mix;
/// use shardstream::testing;
/// # tokio_test::block_on(async {
/// let (manifest, store) = testing::shards(2, 100);
/// let read = || shard_list(&manifest).open_twins(store.clone()).expand().group_by_keys();
/// let mixed = mix([(read(), 3.0), (read(), 1.0)])?.first_exhausted(&[]);
/// let samples: Vec<_> = mixed.try_collect().await?;
/// // All 200 of the first, and about a third as many of the second.
/// assert!((260..275).contains(&samples.len()), "{}", samples.len());
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
pub fn mix<S, T>(sources: impl IntoIterator<Item = (S, f64)>) -> Result<Mix<T>>
where
    S: Stream<Item = Result<Sample<T>>> + Send + 'static,
{
    let sources: Vec<_> = sources.into_iter().collect();
    let weights: Vec<_> = sources.iter().map(|(_, weight)| *weight).collect();
    if weights.is_empty() || weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0)) {
        return Err(Error::config(format!(
            "weights {weights:?}: a mix needs at least one source, and positive weights"
        )));
    }
    recipe::note(|| format!("mix({weights:?})"));
    let total: f64 = weights.iter().sum();
    let source = |(stream, weight): (S, f64)| Source {
        stream: stream.boxed(),
        share: ((weight / total * UNIT).round() as u64).max(1),
        head: None,
        ended: false,
        last: 0,
    };
    Ok(Mix {
        sources: sources.into_iter().map(source).collect(),
        first_exhausted: false,
        ended: false,
    })
}

impl<T> Mix<T> {
    /// Ends with the first source that ends: the shares hold to the end, and what the others still have is not delivered in this epoch.
    /// `progress` is what is settled of each source, in their order: [`Lane::progress`](crate::loader::Lane::progress), or nothing.
    pub fn first_exhausted(mut self, progress: &[SourceProgress]) -> Self {
        recipe::note(|| "first_exhausted".into());
        self.first_exhausted = true;
        for (source, progress) in self.sources.iter_mut().zip(progress) {
            source.last = progress.mixed;
        }
        self
    }

    /// Whether a source has ended before what is due now.
    fn is_exhausted(&self, due: u64) -> bool {
        self.first_exhausted
            && self
                .sources
                .iter()
                .any(|source| source.ended && source.head.is_none() && source.last <= due)
    }
}

/// The time of a sample among all sources: its own time, moved by a keyed jitter of less than a sample and divided by the share.
/// Monotone: between two samples' places the jitter is interpolated, so a source's samples keep their order.
fn mixed_time(time: u64, share: u64, jitter: impl Fn(u64) -> u64) -> u64 {
    let (slot, inside) = (time / TICKS, time % TICKS);
    let knot = |slot: u64| u128::from(slot) * u128::from(TICKS) + u128::from(jitter(slot) % TICKS);
    let (low, high) = (knot(slot), knot(slot + 1));
    let moved = low + (high - low) * u128::from(inside) / u128::from(TICKS);
    u64::try_from((moved << 32) / u128::from(share)).unwrap_or(u64::MAX)
}

impl<T> Source<T> {
    /// The time at which its head goes out, with the source's number for ties; `None` if it has no place in the order.
    fn due(&self, number: usize) -> Option<(u64, usize)> {
        let (mark, [seed, epoch, lane]) = match self.head.as_ref()? {
            Ok(sample) => (
                sample.head.mark,
                [sample.head.origin.seed, sample.head.origin.epoch, sample.head.origin.lane.into()],
            ),
            // An error knows no seed: it goes out where its sample would have gone, but for the jitter.
            Err(error) => {
                let (position, mark) = error.mark()?;
                (mark, [0, position.epoch, position.lane.into()])
            }
        };
        let time = mixed_time(mark.time, self.share, |slot| {
            hash(&[seed, epoch, lane, number as u64, slot])
        });
        Some((time, number))
    }
}

// Nothing in it is pinned in place.
impl<T> Unpin for Mix<T> {}

impl<T> Stream for Mix<T> {
    type Item = Result<Sample<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut pending = false;
        for source in
            this.sources.iter_mut().filter(|source| source.head.is_none() && !source.ended)
        {
            match source.stream.poll_next_unpin(cx) {
                Poll::Ready(Some(item)) => source.head = Some(item),
                Poll::Ready(None) => source.ended = true,
                Poll::Pending => pending = true,
            }
        }
        if this.ended {
            return Poll::Ready(None);
        }
        // An error without a place in the order is told at once.
        let unplaced = |source: &&mut Source<T>| matches!(&source.head, Some(Err(error)) if error.mark().is_none());
        if let Some(source) = this.sources.iter_mut().find(unplaced) {
            return Poll::Ready(source.head.take());
        }
        if pending {
            return Poll::Pending;
        }
        let due =
            this.sources.iter().enumerate().filter_map(|(number, source)| source.due(number)).min();
        let Some((time, number)) = due.filter(|&(time, _)| !this.is_exhausted(time)) else {
            this.ended = true;
            return Poll::Ready(None);
        };
        this.sources[number].last = this.sources[number].last.max(time);
        let mut item = this.sources[number].head.take();
        let stamp = |mark: &mut Mark| {
            mark.time = time;
            mark.mixed = time;
            mark.stage += 1;
        };
        match &mut item {
            Some(Ok(sample)) => stamp(&mut sample.head.mark),
            Some(Err(error)) => {
                if let Some(mark) = error.mark_mut() {
                    stamp(mark);
                }
            }
            None => {}
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl<T> FusedStream for Mix<T> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_times_keep_the_order_of_a_source() {
        let jitter = |slot| hash(&[7, slot]);
        let mut last = 0;
        for time in (0..2000 * TICKS).step_by(997) {
            let mixed = mixed_time(time, 1 << 30, jitter);
            assert!(mixed >= last, "{time}");
            last = mixed;
        }
        // A quarter of the samples: four times as far apart.
        let far = mixed_time(1000 * TICKS, 1 << 30, jitter) / TICKS;
        assert!((4000..4004).contains(&far), "{far}");
    }
}
