//! `group_by_keys`: consecutive members of one key become a sample, which gets its place in the order.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::{Fuse, FusedStream, StreamExt};
use pin_project_lite::pin_project;

use super::expand::{Entry, Member};
use super::field_names::{Names, modality_prefix};
use super::seen::{Came, Seen};
use crate::error::{Error, Result, Scope};
use crate::memory::Charge;
use crate::position::Mark;
use crate::recipe;
use crate::sample::key::{Key, KeyRule};
use crate::sample::{Collate, Fields, Head, Name, Origin, Sample};
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
    open: Option<Open>,
    names: Names,
    /// Ordinal at which the next shard begins.
    next: u64,
    out: VecDeque<Result<Sample<Fields<Bytes>>>>,
}

/// The shard that is being grouped.
struct Open {
    shard: Arc<Shard>,
    origin: Arc<Origin>,
    first: u64,
    /// How many samples have been closed.
    index: u64,
    /// Whether one of them was whole.
    had_a_sample: bool,
    pending: Option<Pending>,
    /// What the sample before had: by it a sample in front of a fault is known to be whole.
    fields_before: Vec<Name>,
    seen: Seen,
}

/// The sample that is being gathered.
#[derive(Default)]
struct Pending {
    key: Bytes,
    /// The part of its members' names that they share, where the rule makes another key of it.
    renamed_from: Option<Bytes>,
    rule: KeyRule,
    fields: Fields<Bytes>,
    /// The broken place behind the members so far.
    gap: Option<Error>,
    /// Whether there is a broken place in front of a member.
    behind_gap: bool,
    /// Whether there is one between its members.
    torn: bool,
    /// Another sample of the shard has its key.
    collision: Option<Error>,
}

impl Pending {
    /// The part of its members' names that they share.
    fn stem(&self) -> &Bytes {
        self.renamed_from.as_ref().unwrap_or(&self.key)
    }
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
        slot: &'a mut Option<Open>,
        next: &mut u64,
        out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>,
        shard: &Arc<Shard>,
    ) -> &'a mut Open {
        if slot.as_ref().is_some_and(|open| !Arc::ptr_eq(&open.shard, shard))
            && let Some(mut open) = slot.take()
        {
            open.flush(true, out);
            *next = open.first + open.shard.samples.unwrap_or(open.index);
            open.look_back(out);
        }
        slot.get_or_insert_with(|| Open::new(Arc::clone(shard), *next))
    }
}

impl Open {
    fn new(shard: Arc<Shard>, next: u64) -> Self {
        let context = &shard.context;
        let origin = Origin {
            seed: context.seed,
            epoch: context.epoch,
            lane: context.lane,
            source: context.source,
            place: shard.place,
            repeat: shard.repeat,
            shard: shard.name(),
        };
        let first = shard.first.unwrap_or(next);
        Self {
            origin: Arc::new(origin),
            first,
            index: shard.passed,
            had_a_sample: shard.passed > 0,
            shard,
            pending: None,
            fields_before: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Ends a run that would read a repeated list for ever and find nothing.
    fn look_back(&self, out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>) {
        let Some(round) = &self.shard.context.round else { return };
        if !round.goes_on(self.had_a_sample) {
            let error = Error::config(
                "none of the last shards of this lane had a sample, and they are repeated without end",
            );
            out.push_back(Err(error.in_shard(self.origin.shard.as_str())));
        }
    }

    /// Begins the sample of a member, whose name becomes the key.
    fn begin(&mut self, member: &mut Member, out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>) {
        let mut stem = std::mem::take(&mut member.name);
        stem.truncate(member.key);
        let (key, renamed_from) = match member.rule.key(&stem) {
            Cow::Borrowed(_) => (stem, None),
            Cow::Owned(key) => (Bytes::from(key), Some(stem)),
        };
        let fields = Fields::with_capacity(self.fields_before.len());
        let mut pending =
            Pending { key, renamed_from, rule: member.rule, fields, ..Pending::default() };
        match self.seen.add(&pending.key, pending.stem(), member.rule) {
            Came::First => {}
            Came::Again => self.notice(
                &pending.key,
                "the key comes back after its sample was closed: its members are not adjacent, so it is in two halves",
                None,
                out,
            ),
            Came::Collides(other) => {
                let message = format!(
                    "its members are named {} and an earlier sample's {}, and renaming makes one key of both: this one is left out",
                    Key::from(pending.stem().clone()),
                    Key::from(other)
                );
                pending.collision = Some(Error::group(message).at(member.offset));
            }
        }
        self.pending = Some(pending);
    }

    fn ordinal(&self, index: u64) -> u64 {
        self.first + index * self.shard.stride
    }

    fn head(&self, key: Key, index: u64, last: bool) -> Head {
        let ordinal = self.ordinal(index);
        let mark = Mark {
            last,
            key: self.origin.random_key(ordinal),
            stride: u32::try_from(self.shard.stride).unwrap_or(u32::MAX),
            ..Mark::read(ordinal, index)
        };
        Head::new(key, Arc::clone(&self.origin), mark)
    }

    /// Whether the sample at an index is still to be delivered: not settled, and not beyond the place where the shard was given up.
    fn owes(&self, index: u64) -> bool {
        let given_up = self.shard.state.and_then(|state| state.end).is_some_and(|end| index >= end);
        !given_up && self.shard.context.owes(self.ordinal(index))
    }

    /// The next sample that is still to be delivered, as far as is known that there is one; else just the next.
    fn first_owed(&self) -> u64 {
        let known = [self.shard.samples, self.shard.state.and_then(|state| state.end)];
        let end = known.into_iter().flatten().min().unwrap_or(u64::MAX);
        (self.index..end).find(|&index| self.owes(index)).unwrap_or(self.index)
    }

    /// Whether the manifest's count leaves room for a sample at this index.
    fn is_counted(&self, index: u64) -> bool {
        self.shard.samples.is_none_or(|samples| index < samples)
    }

    /// Closes the pending sample.
    fn flush(&mut self, last: bool, out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>) {
        let Some(mut pending) = self.pending.take() else { return };
        let index = self.index;
        self.index += 1;
        let lost = self.why_lost(&mut pending);
        self.had_a_sample |= lost.is_none();
        let Pending { key, fields, gap, .. } = pending;
        if lost.is_none()
            && (self.fields_before.len() != fields.len()
                || self
                    .fields_before
                    .iter()
                    .zip(fields.iter())
                    .any(|(a, (b, _))| !Arc::ptr_eq(a, b)))
        {
            self.fields_before = fields.iter().map(|(name, _)| Arc::clone(name)).collect();
        }
        if !self.owes(index) {
            return;
        }
        let mut head = self.head(key.into(), index, last);
        out.push_back(match lost {
            _ if !self.is_counted(index) => {
                // Its ordinal belongs to the next shard: it can't be delivered.
                let samples = self.shard.samples.unwrap_or_default();
                let message = format!(
                    "the manifest counts {samples} samples in the shard, and this is one more"
                );
                Err(Error::group(message)
                    .of_key(head.key.to_string())
                    .in_shard(self.origin.shard.as_str()))
            }
            Some(error) => Err(error
                .of_key(head.key.to_string())
                .in_shard(self.origin.shard.as_str())
                .settling(head.position(), head.mark)),
            None => {
                head.charge = Charge::new(self.shard.context.memory.as_ref(), 0);
                head.weigh(|| fields.bytes());
                Ok(Sample { head, body: fields })
            }
        });
        gap.into_iter().for_each(|gap| self.tell(gap, out));
    }

    /// Why a sample can't be delivered, if it can't.
    fn why_lost(&self, pending: &mut Pending) -> Option<Error> {
        if let Some(error) = pending.collision.take() {
            return Some(error);
        }
        let torn = pending.torn
            || pending.gap.as_ref().is_some_and(|error| !self.is_whole(pending, error))
            || (pending.behind_gap && !self.is_like_before(pending));
        let around = || {
            Error::group(
                "it stands at a broken place of a tar, in which members of it may have been lost",
            )
        };
        torn.then(|| pending.gap.take().unwrap_or_else(around))
    }

    /// Reports a broken place that costs no sample that is known of.
    fn tell(&self, error: Error, out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>) {
        if self.owes(self.index) {
            out.push_back(Err(error.in_shard(self.origin.shard.as_str())));
        }
    }

    /// Reports something that costs no sample.
    fn notice(
        &self,
        key: &Bytes,
        message: &'static str,
        member: Option<&Member>,
        out: &mut VecDeque<Result<Sample<Fields<Bytes>>>>,
    ) {
        if self.owes(self.index) {
            let mut error = Error::group(message)
                .of_key(Key::from(key.clone()).to_string())
                .in_shard(self.origin.shard.as_str());
            if let Some(member) = member {
                error =
                    error.in_member(Key::from(member.name.clone()).to_string()).at(member.offset);
            }
            out.push_back(Err(error));
        }
    }

    /// Whether the sample in front of a fault has all its members, as far as can be known.
    fn is_whole(&self, pending: &Pending, error: &Error) -> bool {
        let has = |modality: &Arc<str>| {
            pending.fields.iter().any(|(name, _)| name.starts_with(&modality_prefix(modality)))
        };
        if !self.shard.leaf.modalities().iter().all(has) {
            return false;
        }
        // The fault is in a member of another key: this one was finished.
        if let Some(member) = error.member().map(str::as_bytes)
            && let Some(key) = pending.rule.key_length(member)
        {
            return member[..key] != pending.stem()[..];
        }
        // Else by comparison with the sample before. The first of a shard has none: then by having at least two fields.
        if self.fields_before.is_empty() {
            return pending.fields.len() >= 2;
        }
        self.is_like_before(pending)
    }

    /// Whether it has every field of the sample before, if there is one.
    fn is_like_before(&self, pending: &Pending) -> bool {
        !self.fields_before.is_empty()
            && self.fields_before.iter().all(|name| pending.fields.get(name).is_some())
    }
}
