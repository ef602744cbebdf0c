//! The shard that `group_by_keys` has open: its samples so far, the one that is being gathered, and what is owed of it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::expand::Member;
use super::field_names::modality_prefix;
use super::seen::{Came, Seen};
use crate::error::{Error, Result};
use crate::memory::Charge;
use crate::position::Mark;
use crate::sample::key::{Key, KeyRule};
use crate::sample::{Collate, Fields, Head, Name, Origin, Sample};
use crate::shard::Shard;

/// Samples and faults that wait to be taken.
pub(super) type Grouped = VecDeque<Result<Sample<Fields<Bytes>>>>;

/// The shard that is being grouped.
pub(super) struct OpenShard {
    pub(super) shard: Arc<Shard>,
    origin: Arc<Origin>,
    pub(super) first: u64,
    /// How many samples have been closed.
    pub(super) index: u64,
    /// Whether one of them was whole.
    had_a_sample: bool,
    pub(super) pending: Option<Pending>,
    /// What the sample before had: by it a sample in front of a fault is known to be whole.
    fields_before: Vec<Name>,
    seen: Seen,
}

/// The sample that is being gathered.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) key: Bytes,
    /// The part of its members' names that they share, where the rule makes another key of it.
    renamed_from: Option<Bytes>,
    rule: KeyRule,
    pub(super) fields: Fields<Bytes>,
    /// The broken place behind the members so far.
    pub(super) gap: Option<Error>,
    /// Whether there is a broken place in front of a member.
    pub(super) behind_gap: bool,
    /// Whether there is one between its members.
    pub(super) torn: bool,
    /// Another sample of the shard has its key.
    collision: Option<Error>,
}

impl Pending {
    /// The part of its members' names that they share.
    pub(super) fn stem(&self) -> &Bytes {
        self.renamed_from.as_ref().unwrap_or(&self.key)
    }
}

impl OpenShard {
    pub(super) fn new(shard: Arc<Shard>, next: u64) -> Self {
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
    pub(super) fn look_back(&self, out: &mut Grouped) {
        let Some(round) = &self.shard.context.round else { return };
        if !round.goes_on(self.had_a_sample) {
            let error = Error::config(
                "none of the last shards of this lane had a sample, and they are repeated without end",
            );
            out.push_back(Err(error.in_shard(self.origin.shard.as_str())));
        }
    }

    /// Begins the sample of a member, whose name becomes the key.
    pub(super) fn begin(&mut self, member: &mut Member, out: &mut Grouped) {
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

    pub(super) fn head(&self, key: Key, index: u64, last: bool) -> Head {
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
    pub(super) fn owes(&self, index: u64) -> bool {
        let given_up = self.shard.state.and_then(|state| state.end).is_some_and(|end| index >= end);
        !given_up && self.shard.context.owes(self.ordinal(index))
    }

    /// The next sample that is still to be delivered, as far as is known that there is one; else just the next.
    pub(super) fn first_owed(&self) -> u64 {
        let known = [self.shard.samples, self.shard.state.and_then(|state| state.end)];
        let end = known.into_iter().flatten().min().unwrap_or(u64::MAX);
        (self.index..end).find(|&index| self.owes(index)).unwrap_or(self.index)
    }

    /// Whether the manifest's count leaves room for a sample at this index.
    pub(super) fn is_counted(&self, index: u64) -> bool {
        self.shard.samples.is_none_or(|samples| index < samples)
    }

    /// Closes the pending sample.
    pub(super) fn flush(&mut self, last: bool, out: &mut Grouped) {
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
    pub(super) fn tell(&self, error: Error, out: &mut Grouped) {
        if self.owes(self.index) {
            out.push_back(Err(error.in_shard(self.origin.shard.as_str())));
        }
    }

    /// Reports something that costs no sample.
    pub(super) fn notice(
        &self,
        key: &Bytes,
        message: &'static str,
        member: Option<&Member>,
        out: &mut Grouped,
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
    pub(super) fn is_whole(&self, pending: &Pending, error: &Error) -> bool {
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
