//! One tar of a shard, walked in a task of its own: bytes in, members that have a key and may be wanted out, those of a chunk together.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use futures::{StreamExt, stream};

use super::align::Keyed;
use super::open_twins::Tar;
use super::pump::Pump;
use crate::error::{Error, Result, Scope};
use crate::memory::{Charge, Due, LaneMemory};
use crate::sample::key::KeyRule;
use crate::shard::KeyIndex;
use crate::store::{ByteStream, redact};
use crate::tar::{Parser, Step};

/// Groups of members that wait for the join: one would often let its two sides wait for each other.
const GROUPS: usize = 2;

/// A tar that is being read.
pub(super) struct Side {
    pub(super) modality: Option<Arc<str>>,
    pub(super) path: String,
    groups: Pump<Group>,
    members: vec::IntoIter<Result<Keyed>>,
    /// Of these members.
    charge: Charge,
    /// Of the last one that was handed out: it counts until the next one is, for its sample is being gathered until then.
    handed_out: Charge,
}

/// Members of a chunk, or of a few.
struct Group {
    members: Vec<Result<Keyed>>,
    charge: Charge,
}

impl Side {
    pub(super) fn new(
        tar: Tar,
        rule: KeyRule,
        resync: bool,
        filter: Option<Arc<KeyIndex>>,
        memory: Option<Arc<LaneMemory>>,
    ) -> Self {
        let path = redact(&tar.path).into_owned();
        let handed_out = Charge::new(memory.as_ref(), 0);
        let walk = Walk {
            path: path.clone(),
            bytes: tar.bytes,
            parser: Parser::new().starting_at(tar.start),
            rule,
            resync,
            filter,
            gap: None,
            parsing: Charge::new(memory.as_ref(), 0),
            due: Due::new(memory.as_ref()),
            members: 0,
            memory,
            _on_its_way: tar.charge,
        };
        let groups = stream::unfold(Some(walk), |walk| async { walk?.group().await });
        Self {
            modality: tar.modality,
            path,
            groups: Pump::spawn(groups, GROUPS),
            members: Vec::new().into_iter(),
            charge: Charge::default(),
            handed_out,
        }
    }

    /// The next member that has a key and may be wanted, `None` at the end of the tar.
    pub(super) fn poll_member(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Keyed>>> {
        loop {
            if let Some(member) = self.members.next() {
                if self.charge.counts() {
                    let bytes = member.as_ref().map_or(0, weight);
                    self.handed_out.set(bytes);
                    self.charge.give_back(bytes);
                }
                return Poll::Ready(member.map(Some));
            }
            match ready!(self.groups.poll_next_unpin(cx)) {
                Some(group) => {
                    self.members = group.members.into_iter();
                    self.charge = group.charge;
                }
                None => return Poll::Ready(Ok(None)),
            }
        }
    }
}

/// What a member counts for, in bytes.
fn weight(keyed: &Keyed) -> u64 {
    (size_of::<Keyed>() + keyed.member.data.len()) as u64
}

/// What the task does.
struct Walk {
    path: String,
    bytes: ByteStream,
    parser: Parser,
    rule: KeyRule,
    resync: bool,
    /// Members of other keys are passed over.
    filter: Option<Arc<KeyIndex>>,
    /// The broken place behind which a good member that is wanted is being looked for.
    gap: Option<Error>,
    /// Where what is held is counted, if there is a budget.
    memory: Option<Arc<LaneMemory>>,
    /// What the parser holds.
    parsing: Charge,
    /// What is still to come of a large member.
    due: Due,
    /// How many members the last group had: the next one has about as many.
    members: usize,
    _on_its_way: Charge,
}

impl Walk {
    /// The members of the next chunks in which there are any, and what is left to do: nothing after the end or an error. `None` at the
    /// end of the tar.
    async fn group(mut self) -> Option<(Group, Option<Self>)> {
        let mut group = Vec::with_capacity(self.members);
        loop {
            match self.parser.next() {
                Ok(Step::Member(member)) => {
                    let Some(key) = self.rule.key_length(&member.name) else { continue };
                    if self.passes_over(&member.name[..key]) {
                        continue;
                    }
                    let gap = self.gap.take();
                    if gap.is_some() {
                        self.warn(
                            Error::tar("reading goes on here, behind a broken place")
                                .at(member.header_offset),
                        );
                    }
                    let behind_gap = gap.is_some();
                    group.push(Ok(Keyed { member, key, gap, behind_gap }));
                }
                Ok(Step::Warning(warning)) => self.warn(warning.into()),
                Ok(Step::NeedMore) if !group.is_empty() => {
                    return Some((self.counted(group), Some(self)));
                }
                Ok(Step::NeedMore) => {
                    self.count();
                    if let Some(memory) = &self.memory {
                        memory.room(&mut self.due).await;
                    }
                    match self.bytes.next().await {
                        Some(Ok(chunk)) => {
                            self.parser.push(chunk);
                            self.count();
                        }
                        Some(Err(error)) => {
                            return Some((self.counted(vec![Err(self.explain(error))]), None));
                        }
                        None => self.parser.finish(),
                    }
                }
                Ok(Step::End { clean }) => {
                    // Nothing good was found: the rest of the tar is lost.
                    if let Some(error) = self.gap.take() {
                        group.push(Err(error.with_scope(Scope::Shard)));
                    } else if !clean {
                        self.warn(Error::tar("no end mark: members may be missing"));
                    }
                    return (!group.is_empty()).then(|| (self.counted(group), None));
                }
                Err(error) => {
                    let error = self.explain(error);
                    if !self.resync {
                        group.push(Err(error));
                        return Some((self.counted(group), None));
                    }
                    self.parser.resync();
                    if self.gap.is_some() {
                        // Not yet behind the broken place.
                        self.warn(error);
                    } else {
                        self.gap = Some(error.with_scope(Scope::Sample));
                    }
                }
            }
        }
    }

    /// Counts what the parser holds, and what it has to take in.
    fn count(&mut self) {
        self.parsing.set(self.parser.buffered() as u64);
        self.due.set(self.parser.lacks() as u64);
    }

    fn counted(&mut self, members: Vec<Result<Keyed>>) -> Group {
        self.members = members.len();
        let mut charge = Charge::default();
        self.count();
        if self.memory.is_some() {
            charge = Charge::new(self.memory.as_ref(), members.iter().flatten().map(weight).sum());
        }
        Group { members, charge }
    }

    fn passes_over(&self, key: &[u8]) -> bool {
        self.filter.as_ref().is_some_and(|index| index.place(&self.rule.key(key)).is_none())
    }

    fn warn(&self, warning: Error) {
        tracing::warn!("{}", warning.in_shard(self.path.as_str()));
    }

    fn explain(&self, error: Error) -> Error {
        let error = error.in_shard(self.path.as_str());
        // Whatever failed below, it is the rest of the shard that can't be read.
        if error.scope() == Scope::Run { error } else { error.with_scope(Scope::Shard) }
    }
}
