//! One tar of a shard: bytes in, members that have a key and may be wanted out.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::StreamExt;

use super::align::Keyed;
use super::open_twins::Tar;
use crate::error::{Error, Result, Scope};
use crate::sample::key::KeyRule;
use crate::shard::KeyIndex;
use crate::store::{ByteStream, redact};
use crate::tar::{Parser, Step};

/// A tar that is being read.
pub(super) struct Side {
    pub(super) modality: Option<Arc<str>>,
    pub(super) path: String,
    bytes: ByteStream,
    parser: Parser,
    rule: KeyRule,
    resync: bool,
    /// Members of other keys are passed over.
    filter: Option<Arc<KeyIndex>>,
    /// The broken place behind which a good member that is wanted is being looked for.
    gap: Option<Error>,
}

impl Side {
    pub(super) fn new(
        tar: Tar,
        rule: KeyRule,
        resync: bool,
        filter: Option<Arc<KeyIndex>>,
    ) -> Self {
        Self {
            modality: tar.modality,
            path: redact(&tar.path).into_owned(),
            bytes: tar.bytes,
            parser: Parser::new().starting_at(tar.start),
            rule,
            resync,
            filter,
            gap: None,
        }
    }

    /// The next member that has a key and may be wanted, `None` at the end of the tar.
    pub(super) fn poll_member(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Keyed>>> {
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
                    return Poll::Ready(Ok(Some(Keyed { member, key, gap, behind_gap })));
                }
                Ok(Step::Warning(warning)) => self.warn(warning.into()),
                Ok(Step::NeedMore) => match ready!(self.bytes.poll_next_unpin(cx)) {
                    Some(Ok(chunk)) => self.parser.push(chunk),
                    Some(Err(error)) => return Poll::Ready(Err(self.explain(error))),
                    None => self.parser.finish(),
                },
                Ok(Step::End { clean }) => {
                    // Nothing good was found: the rest of the tar is lost.
                    if let Some(error) = self.gap.take() {
                        return Poll::Ready(Err(error.with_scope(Scope::Shard)));
                    }
                    if !clean {
                        self.warn(Error::tar("no end mark: members may be missing"));
                    }
                    return Poll::Ready(Ok(None));
                }
                Err(error) => {
                    let error = self.explain(error);
                    if !self.resync {
                        return Poll::Ready(Err(error));
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
