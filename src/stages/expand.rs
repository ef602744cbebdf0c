//! `expand`: the members of the twins, joined by key.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::align::{Align, LookAhead, Next};
use super::open_twins::{Tar, Twins};
use crate::error::{Error, Result, Scope};
use crate::recipe;
use crate::sample::key::{self, Key};
use crate::shard::Shard;
use crate::store::ByteStream;
use crate::tar::{self, Parser, Step};

/// One file of a shard.
#[derive(Debug, Clone)]
pub struct Member {
    /// The shard it comes from.
    pub shard: Arc<Shard>,
    /// Its modality; none for a single tar.
    pub modality: Option<Arc<str>>,
    /// Its name in the tar.
    pub name: Bytes,
    /// Its contents.
    pub data: Bytes,
    /// Where its contents begin in the tar.
    pub offset: u64,
}

/// What `expand` yields.
#[derive(Debug)]
pub enum Entry {
    /// A member. Those of one key follow one another, those of one modality together.
    Member(Member),
    /// A key, or what is left of the shard (see [`Error::scope`]), is lost.
    Lost(Arc<Shard>, Error),
    /// The shard has ended.
    End(Arc<Shard>),
}

pin_project! {
    /// Stream for the [`expand`](super::TwinStream::expand) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct Expand<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        look_ahead: LookAhead,
        open: Option<Open>,
    }
}

impl<St: Stream> fmt::Debug for Expand<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expand").field("look_ahead", &self.look_ahead).finish_non_exhaustive()
    }
}

impl<St: Stream> Expand<St> {
    pub(super) fn new(stream: St) -> Self {
        recipe::note(|| "expand".into());
        Self { stream: stream.fuse(), look_ahead: LookAhead::default(), open: None }
    }

    /// How far ahead a common key is looked for where the twins differ.
    pub fn look_ahead(mut self, look_ahead: LookAhead) -> Self {
        recipe::note(|| format!("look_ahead({look_ahead:?})"));
        self.look_ahead = look_ahead;
        self
    }
}

/// The shard that is being read.
struct Open {
    shard: Arc<Shard>,
    sides: Vec<Side>,
    /// None for a single tar: nothing to join.
    align: Option<Align>,
}

/// One tar of it.
struct Side {
    modality: Option<Arc<str>>,
    path: String,
    bytes: ByteStream,
    parser: Parser,
}

impl Side {
    fn new(tar: Tar) -> Self {
        Self { modality: tar.modality, path: tar.path, bytes: tar.bytes, parser: Parser::new() }
    }

    /// The next member that has a key, `None` at the end of the tar.
    fn poll_member(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<tar::Member>>> {
        loop {
            match self.parser.next() {
                Ok(Step::Member(member))
                    if key::split(&member.name).is_some() && key::is_data(&member.name) =>
                {
                    return Poll::Ready(Ok(Some(member)));
                }
                Ok(Step::Member(_)) => {}
                Ok(Step::Warning(warning)) => {
                    tracing::warn!("{}", Error::from(warning).in_shard(self.path.as_str()))
                }
                Ok(Step::NeedMore) => match ready!(self.bytes.poll_next_unpin(cx)) {
                    Some(Ok(chunk)) => self.parser.push(chunk),
                    Some(Err(error)) => return Poll::Ready(Err(self.explain(error))),
                    None => self.parser.finish(),
                },
                Ok(Step::End { clean }) => {
                    if !clean {
                        tracing::warn!(
                            "{}",
                            Error::tar("no end mark: members may be missing")
                                .in_shard(self.path.as_str())
                        );
                    }
                    return Poll::Ready(Ok(None));
                }
                Err(error) => return Poll::Ready(Err(self.explain(error))),
            }
        }
    }

    fn explain(&self, error: Error) -> Error {
        let error = error.in_shard(self.path.as_str());
        // Whatever failed below, it is the rest of the shard that can't be read.
        if error.scope() == Scope::Run { error } else { error.with_scope(Scope::Shard) }
    }
}

impl Open {
    fn new(twins: Twins, look_ahead: LookAhead) -> Self {
        let sides: Vec<_> = twins.tars.into_iter().map(Side::new).collect();
        let names =
            || sides.iter().map(|side| side.modality.as_deref().unwrap_or_default().to_owned());
        let align = (sides.len() > 1).then(|| Align::new(names(), look_ahead));
        Self { shard: twins.shard, sides, align }
    }

    /// The next entry, and whether the shard is done with it.
    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<(Entry, bool)> {
        let lost = |shard: &Arc<Shard>, error| (Entry::Lost(Arc::clone(shard), error), true);
        loop {
            let next = match &mut self.align {
                Some(align) => align.next(),
                None => match ready!(self.sides[0].poll_member(cx)) {
                    Ok(Some(member)) => Next::Take(0, member),
                    Ok(None) => Next::End,
                    Err(error) => return Poll::Ready(lost(&self.shard, error)),
                },
            };
            return Poll::Ready(match next {
                Next::Read(side) => {
                    match (ready!(self.sides[side].poll_member(cx)), &mut self.align) {
                        (Ok(Some(member)), Some(align)) => {
                            align.push(side, member);
                            continue;
                        }
                        (Ok(None), Some(align)) => {
                            align.end(side);
                            continue;
                        }
                        (Err(error), _) => lost(&self.shard, error),
                        (Ok(_), None) => (Entry::End(Arc::clone(&self.shard)), true),
                    }
                }
                Next::Take(side, member) => {
                    let tar::Member { name, data, data_offset: offset, .. } = member;
                    let modality = self.sides[side].modality.clone();
                    (
                        Entry::Member(Member {
                            shard: Arc::clone(&self.shard),
                            modality,
                            name,
                            data,
                            offset,
                        }),
                        false,
                    )
                }
                Next::Lost { key, lacks, message } => {
                    let error = Error::twins(message)
                        .of_key(Key::from(key).to_string())
                        .in_shard(self.sides[lacks].path.as_str());
                    (Entry::Lost(Arc::clone(&self.shard), error), false)
                }
                Next::TooFar { message } => lost(
                    &self.shard,
                    Error::twins(message).in_shard(self.shard.name()).with_scope(Scope::Shard),
                ),
                Next::End => (Entry::End(Arc::clone(&self.shard)), true),
            });
        }
    }
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
            match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(Ok(twins)) => *this.open = Some(Open::new(twins, *this.look_ahead)),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // How many members a shard has is not known before it is read.
        (0, if self.is_terminated() { Some(0) } else { None })
    }
}

impl<St: Stream<Item = Result<Twins>>> FusedStream for Expand<St> {
    fn is_terminated(&self) -> bool {
        self.open.is_none() && self.stream.is_terminated()
    }
}
