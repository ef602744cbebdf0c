//! `group_by_keys`: consecutive members of one key become a sample, which gets its place in the order.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::expand::{Entry, Member};
use super::field_names::Names;
use super::open_shard::{Grouped, OpenShard};
use crate::error::{Error, Result, Scope};
use crate::recipe;
use crate::sample::key::Key;
use crate::sample::{Fields, Sample};
use crate::shard::Shard;

pin_project! {
    /// Stream for the [`group_by_keys`](super::MemberStream::group_by_keys) method.
    #[must_use = "streams do nothing unless polled"]
    pub struct GroupByKeys<St> where St: Stream {
        #[pin]
        stream: Fuse<St>,
        group: Group,
    }
}

impl<St: Stream> fmt::Debug for GroupByKeys<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupByKeys").finish_non_exhaustive()
    }
}

impl<St: Stream> GroupByKeys<St> {
    pub(super) fn new(stream: St) -> Self {
        recipe::note(|| "group_by_keys".into());
        Self { stream: stream.fuse(), group: Group::default() }
    }
}

impl<St: Stream<Item = Result<Entry>>> Stream for GroupByKeys<St> {
    type Item = Result<Sample<Fields<Bytes>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(item) = this.group.out.pop_front() {
                return Poll::Ready(Some(item));
            }
            match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(Ok(Entry::Member(member))) => this.group.member(member),
                Some(Ok(Entry::Lost(shard, error))) => this.group.lost(shard, error),
                Some(Ok(Entry::Gap(shard, error))) => this.group.gap(&shard, error),
                Some(Ok(Entry::End(shard))) => this.group.end(shard),
                Some(Err(error)) => this.group.out.push_back(Err(error)),
                // A foreign adapter may have cut the stream inside a shard: what is whole so far comes out.
                None if this.group.open.is_some() => this.group.close(),
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = self.group.out.len();
        (waiting, (self.stream.is_terminated() && self.group.open.is_none()).then_some(waiting))
    }
}

impl<St: Stream<Item = Result<Entry>>> FusedStream for GroupByKeys<St> {
    fn is_terminated(&self) -> bool {
        self.group.out.is_empty() && self.group.open.is_none() && self.stream.is_terminated()
    }
}

/// Members in, samples out: everything but the polling.
#[derive(Default)]
struct Group {
    open: Option<OpenShard>,
    names: Names,
    /// Ordinal at which the next shard begins.
    next: u64,
    out: Grouped,
}

impl Group {
    fn member(&mut self, mut member: Member) {
        let (Some(stem), Some(extension)) =
            (member.name.get(..member.key), member.name.get(member.key + 1..))
        else {
            return;
        };
        let name = self.names.get(member.modality.as_deref(), extension);
        let open = Self::opened(&mut self.open, &mut self.next, &mut self.out, &member.shard);
        if open.pending.as_ref().is_none_or(|pending| pending.stem() != stem) {
            open.flush(false, &mut self.out);
            open.begin(&mut member, &mut self.out);
        }
        let Some(pending) = &mut open.pending else { return };
        pending.torn |= pending.gap.is_some();
        pending.behind_gap |= member.behind_gap;
        if pending.fields.get(&name).is_some() {
            let key = pending.key.clone();
            open.notice(
                &key,
                "a member of this name was there already: the first one counts",
                Some(&member),
                &mut self.out,
            );
        } else {
            pending.fields.push(name, member.data);
        }
    }

    /// A tar is broken here, and was read on behind it.
    fn gap(&mut self, shard: &Arc<Shard>, error: Error) {
        let open = Self::opened(&mut self.open, &mut self.next, &mut self.out, shard);
        match &mut open.pending {
            Some(pending) if pending.gap.is_none() => pending.gap = Some(error),
            _ => open.tell(error, &mut self.out),
        }
    }

    fn lost(&mut self, shard: Arc<Shard>, error: Error) {
        let open = Self::opened(&mut self.open, &mut self.next, &mut self.out, &shard);
        let rest = error.scope() != Scope::Sample;
        if !rest || open.pending.as_ref().is_some_and(|pending| open.is_whole(pending, &error)) {
            open.flush(false, &mut self.out);
        }
        let key = open.pending.take().map(|pending| {
            pending.gap.into_iter().for_each(|gap| open.tell(gap, &mut self.out));
            Key::from(pending.key)
        });
        // What is settled is no loss; what is owed behind it is.
        let index = if rest { open.first_owed() } else { open.index };
        open.index = index + 1;
        if open.owes(index) && open.is_counted(index) {
            let head = open.head(key.clone().unwrap_or_default(), index, rest);
            let error = if let Some(key) = key { error.of_key(key.to_string()) } else { error };
            self.out
                .push_back(Err(error.in_shard(shard.name()).settling(head.position(), head.mark)));
        } else if open.owes(index) {
            self.out.push_back(Err(error.in_shard(shard.name())));
        }
        if rest {
            self.leave();
        }
    }

    fn end(&mut self, shard: Arc<Shard>) {
        Self::opened(&mut self.open, &mut self.next, &mut self.out, &shard);
        self.close();
    }

    /// The shard has ended: its last sample comes out, and its samples are compared with the manifest's count.
    fn close(&mut self) {
        if let Some(open) = &mut self.open {
            open.flush(true, &mut self.out);
            let known_to_end =
                open.shard.partial || open.shard.state.is_some_and(|state| state.end.is_some());
            if let Some(samples) =
                open.shard.samples.filter(|&samples| open.index < samples && !known_to_end)
            {
                let head = open.head(Key::default(), open.index, true);
                let message = format!(
                    "the manifest counts {samples} samples, the shard ends after {}",
                    open.index
                );
                let error =
                    Error::group(message).with_scope(Scope::Shard).in_shard(open.shard.name());
                self.out.push_back(Err(error.settling(head.position(), head.mark)));
                open.index += 1;
            }
        }
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(open) = self.open.take() {
            self.next = open.first + open.shard.samples.unwrap_or(open.index);
            open.look_back(&mut self.out);
        }
    }

    /// The state of a shard; another one that is open is closed first.
    fn opened<'a>(
        slot: &'a mut Option<OpenShard>,
        next: &mut u64,
        out: &mut Grouped,
        shard: &Arc<Shard>,
    ) -> &'a mut OpenShard {
        if slot.as_ref().is_some_and(|open| !Arc::ptr_eq(&open.shard, shard))
            && let Some(mut open) = slot.take()
        {
            open.flush(true, out);
            *next = open.first + open.shard.samples.unwrap_or(open.index);
            open.look_back(out);
        }
        slot.get_or_insert_with(|| OpenShard::new(Arc::clone(shard), *next))
    }
}
