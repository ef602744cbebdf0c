//! `expand`: the members of the twins, joined by key.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{Fuse, FusedStream, StreamExt};
use futures::{FutureExt, Stream};
use pin_project_lite::pin_project;

use super::align::{Align, Keyed, LookAhead, Next};
use super::open_twins::Twins;
use super::side::Side;
use super::wanted::Wanted;
use crate::error::{Error, Result, Scope};
use crate::recipe;
use crate::sample::key::{Key, KeyRule};
use crate::shard::{KeyIndex, Shard};
use crate::store::Store;

/// One file of a shard.
#[derive(Debug, Clone)]
pub struct Member {
    /// The shard it comes from.
    pub shard: Arc<Shard>,
    /// Its modality; none for a single tar.
    pub modality: Option<Arc<str>>,
    /// Its name in the tar.
    pub name: Bytes,
    /// How many bytes of its name are the key: a dot and the extension follow.
    pub key: usize,
    /// What makes the key of a sample out of that.
    pub rule: KeyRule,
    /// Its contents.
    pub data: Bytes,
    /// Where its contents begin in the tar.
    pub offset: u64,
    /// Whether the tar is broken in front of it: other members of its sample may have been lost there.
    pub behind_gap: bool,
}

/// What `expand` yields.
#[derive(Debug)]
pub enum Entry {
    /// A member. Those of one key follow one another, those of one modality together.
    Member(Member),
    /// A key, or what is left of the shard (see [`Error::scope`]), is lost.
    Lost(Arc<Shard>, Error),
    /// A tar is broken here, and is read on behind it (see [`Expand::resync`]): the key before it may lack members.
    Gap(Arc<Shard>, Error),
    /// The shard has ended.
    End(Arc<Shard>),
}

/// Key indexes: which keys of a shard are wanted, and in which order.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum KeyList {
    /// One index for all shards: a key that is not in it is left out; the order is that of the tars.
    All(Arc<KeyIndex>),
    /// The index of the one shard there is: keys come in its order, as far as the look-ahead reaches; one that is not in every twin is
    /// left out. Both are warned of.
    Shard(Arc<KeyIndex>),
    /// As [`KeyList::Shard`], one file for each shard: its path below a folder, with `.parquet` for its extension.
    Folder(Arc<dyn Store>, String),
}

pin_project! {
    /// Stream for the [`expand`](super::TwinStream::expand) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Expand<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        options: Options,
        keys: Option<KeyList>,
        open: Option<Open>,
        opening: Option<Opening>,
    }
}

/// How tars are read.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    look_ahead: LookAhead,
    rule: KeyRule,
    resync: bool,
}

impl Options {
    /// Whether samples are counted as a sample index counts them.
    fn fit_an_index(&self) -> bool {
        self.rule == KeyRule::WebDataset && !self.resync
    }
}

/// A shard whose key index is being read.
struct Opening {
    twins: Twins,
    index: BoxFuture<'static, Result<KeyIndex>>,
}

impl<St: Stream> fmt::Debug for Expand<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expand").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<St: Stream> Expand<St> {
    pub(super) fn new(stream: St) -> Self {
        recipe::note(|| "expand".into());
        Self {
            stream: stream.fuse(),
            options: Options::default(),
            keys: None,
            open: None,
            opening: None,
        }
    }

    /// How far ahead a common key is looked for where the twins differ.
    pub fn look_ahead(mut self, look_ahead: LookAhead) -> Self {
        recipe::note(|| format!("look_ahead({look_ahead:?})"));
        self.options.look_ahead = look_ahead;
        self
    }

    /// Where the key ends in a member's name. With [`KeyRule::Pid`] the keys of an index are compared with the renamed ones.
    pub fn key_rule(mut self, rule: KeyRule) -> Self {
        recipe::note(|| format!("key_rule({rule:?})"));
        self.options.rule = rule;
        self
    }

    /// Goes on inside a broken tar at the next good header, if there is one; at first the rest of the shard is given up.
    ///
    /// The broken place is an [`Entry::Gap`]. What is lost in it is not known, so `group_by_keys` delivers the samples before and behind it
    /// only if they have all the fields of the sample before them; with twins, a key that was lost in one of them is named because the
    /// others have it. The member right behind it is left out with a warning unless an extended header names it, since its name may be
    /// wrong. In the body of a member that is a tar itself, its headers may be taken for good ones.
    pub fn resync(mut self, resync: bool) -> Self {
        recipe::note(|| format!("resync({resync})"));
        self.options.resync = resync;
        self
    }

    /// Takes only the keys that an index lists.
    pub fn keys(mut self, keys: KeyList) -> Self {
        recipe::note(|| match &keys {
            KeyList::All(index) => format!("keys(all, {})", index.len()),
            KeyList::Shard(index) => format!("keys(shard, {})", index.len()),
            KeyList::Folder(_, folder) => format!("keys(folder {folder})"),
        });
        self.keys = Some(keys);
        self
    }
}

/// The shard that is being read.
struct Open {
    shard: Arc<Shard>,
    sides: Vec<Side>,
    join: Join,
    rule: KeyRule,
    /// What comes behind a broken place, while that is told.
    waiting: Option<Keyed>,
    /// A side that broke while others still had something to give.
    failed: Option<Error>,
}

/// How the twins are joined.
enum Join {
    /// A single tar: nothing to join.
    One,
    Align(Align),
    Wanted(Wanted),
}

impl Open {
    fn new(
        twins: Twins,
        Options { look_ahead, rule, resync }: Options,
        keys: Option<Arc<KeyIndex>>,
        ordered: bool,
    ) -> Self {
        let names: Vec<_> = twins
            .tars
            .iter()
            .map(|tar| tar.modality.as_deref().unwrap_or_default().to_owned())
            .collect();
        let (join, filter) = match keys {
            Some(index) if ordered => {
                (Join::Wanted(Wanted::new(names, index, rule, look_ahead)), None)
            }
            filter if names.len() > 1 => (Join::Align(Align::new(names, look_ahead)), filter),
            filter => (Join::One, filter),
        };
        let memory = &twins.shard.context.memory;
        let side = |tar| Side::new(tar, rule, resync, filter.clone(), memory.clone());
        let sides = twins.tars.into_iter().map(side).collect();
        Self { shard: twins.shard, sides, join, rule, waiting: None, failed: None }
    }

    /// The next entry, and whether the shard is done with it.
    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<(Entry, bool)> {
        loop {
            let path = &self.shard.path;
            let next = match &mut self.join {
                Join::One => match self.waiting.take() {
                    Some(keyed) => Next::Take(0, keyed),
                    None => match ready!(self.sides[0].poll_member(cx)) {
                        Ok(Some(mut keyed)) => match keyed.gap.take() {
                            Some(error) => {
                                self.waiting = Some(keyed);
                                Next::Gap(error)
                            }
                            None => Next::Take(0, keyed),
                        },
                        Ok(None) => Next::End,
                        Err(error) => return Poll::Ready(self.lost(error)),
                    },
                },
                Join::Align(align) if self.failed.is_some() && !align.is_inside_a_key() => {
                    Next::End
                }
                Join::Align(align) => align.next(),
                Join::Wanted(wanted) => wanted.next(|warning| warn(path, warning)),
            };
            return Poll::Ready(match next {
                Next::Read(side) => {
                    let member = ready!(self.sides[side].poll_member(cx));
                    match self.read(side, member) {
                        Ok(()) => continue,
                        Err(error) => self.lost(error),
                    }
                }
                Next::Take(side, Keyed { member, key, behind_gap, .. }) => {
                    let member = Member {
                        shard: Arc::clone(&self.shard),
                        modality: self.sides[side].modality.clone(),
                        name: member.name,
                        key,
                        rule: self.rule,
                        data: member.data,
                        offset: member.data_offset,
                        behind_gap,
                    };
                    (Entry::Member(member), false)
                }
                // With an index what is in front of the broken place was handed out whole, and the keys around it are left out.
                Next::Gap(error) if matches!(self.join, Join::Wanted(_)) => {
                    (Entry::Lost(Arc::clone(&self.shard), error), false)
                }
                Next::Gap(error) => (Entry::Gap(Arc::clone(&self.shard), error), false),
                Next::Lost { key, lacks, message } => {
                    let error = Error::twins(message).of_key(Key::from(key).to_string());
                    let error = error.in_shard(self.sides[lacks].path.as_str());
                    (Entry::Lost(Arc::clone(&self.shard), error), false)
                }
                Next::TooFar { message } => self.lost(
                    Error::twins(message).in_shard(self.shard.name()).with_scope(Scope::Shard),
                ),
                Next::End => match self.failed.take() {
                    Some(error) => self.lost(error),
                    None => (Entry::End(Arc::clone(&self.shard)), true),
                },
            });
        }
    }

    /// Hands what was read of a side to the join.
    fn read(&mut self, side: usize, member: Result<Option<Keyed>>) -> Result<()> {
        match (&mut self.join, member) {
            (Join::Align(align), Ok(Some(member))) => align.push(side, member),
            (Join::Align(align), Ok(None)) => align.end(side),
            (Join::Wanted(wanted), Ok(Some(member))) => {
                if let Some(warning) = wanted.push(side, member) {
                    warn(&self.shard.path, warning);
                }
            }
            (Join::Wanted(wanted), Ok(None)) => wanted.end(side),
            (Join::Wanted(wanted), Err(error)) => {
                // What waits is whole: it comes out before the error.
                wanted.end(side);
                self.failed.get_or_insert(error);
            }
            (Join::Align(align), Err(error)) => {
                // The key that is being handed out comes out first, from all sides.
                align.end(side);
                self.failed.get_or_insert(error);
            }
            (_, Err(error)) => return Err(error),
            (Join::One, Ok(_)) => {}
        }
        Ok(())
    }

    fn lost(&self, error: Error) -> (Entry, bool) {
        (Entry::Lost(Arc::clone(&self.shard), error), true)
    }
}

fn warn(shard: &str, warning: String) {
    tracing::warn!("{}", Error::index(warning).in_shard(shard));
}

impl<St: Stream<Item = Result<Twins>>> Stream for Expand<St> {
    type Item = Result<Entry>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(open) = this.open {
                let (entry, done) = ready!(open.poll_entry(cx));
                if done {
                    // Dropping the tars ends their tasks.
                    *this.open = None;
                }
                return Poll::Ready(Some(Ok(entry)));
            }
            if let Some(opening) = this.opening {
                let index = ready!(opening.index.poll_unpin(cx));
                let Some(Opening { twins, .. }) = this.opening.take() else { continue };
                match index {
                    Ok(index) => {
                        *this.open =
                            Some(Open::new(twins, *this.options, Some(Arc::new(index)), true));
                    }
                    Err(error) => {
                        let error = error.with_scope(Scope::Shard);
                        return Poll::Ready(Some(Ok(Entry::Lost(twins.shard, error))));
                    }
                }
                continue;
            }
            let twins = match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(Ok(mut twins)) => {
                    if twins.indexed && !(this.keys.is_none() && this.options.fit_an_index()) {
                        return Poll::Ready(Some(Err(Error::config(
                            "a sample index counts the samples of a whole tar by WebDataset's keys: open_twins().sample_index() does not go with a key index, another key rule, or resync",
                        ))));
                    }
                    if this.keys.is_some() {
                        Arc::make_mut(&mut twins.shard).partial = true;
                    }
                    twins
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            let (keys, ordered) = match this.keys {
                None => (None, false),
                Some(KeyList::All(index)) => (Some(Arc::clone(index)), false),
                Some(KeyList::Shard(index)) => (Some(Arc::clone(index)), true),
                Some(KeyList::Folder(store, folder)) => {
                    let index =
                        read_index(Arc::clone(store), KeyIndex::path_of(folder, &twins.shard.path));
                    *this.opening = Some(Opening { twins, index: index.boxed() });
                    continue;
                }
            };
            *this.open = Some(Open::new(twins, *this.options, keys, ordered));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // How many members a shard has is not known before it is read.
        (0, if self.is_terminated() { Some(0) } else { None })
    }
}

impl<St: Stream<Item = Result<Twins>>> FusedStream for Expand<St> {
    fn is_terminated(&self) -> bool {
        self.open.is_none() && self.opening.is_none() && self.stream.is_terminated()
    }
}

async fn read_index(store: Arc<dyn Store>, path: String) -> Result<KeyIndex> {
    KeyIndex::load(&*store, &path).await
}
