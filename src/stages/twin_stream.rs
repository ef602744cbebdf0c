//! What may follow opened twins, and members.

use bytes::Bytes;
use futures::Stream;

use super::assert_stream;
use super::expand::{Entry, Expand};
use super::group_by_keys::GroupByKeys;
use super::open_twins::Twins;
use crate::error::Result;
use crate::sample::{Fields, Sample};

impl<St: Stream<Item = Result<Twins>>> TwinStream for St {}
impl<St: Stream<Item = Result<Entry>>> MemberStream for St {}

/// Combinators on a stream of opened [`Twins`].
pub trait TwinStream: Stream<Item = Result<Twins>> {
    /// Walks the tars and joins the twins by key: all members of a key from the first modality, then from the next.
    ///
    /// A key that is missing in a twin, extra, or out of order is an [`Entry::Lost`] that names it; the next key that all twins have is
    /// looked for within a bounded look-ahead ([`Expand::look_ahead`]). A member without a key (a directory, `._x`, `README`) is passed over.
    ///
    /// Order: that of the tars. Memory: one member, and the look-ahead where the twins differ.
    ///
    /// # Resuming
    /// Nothing to do.
    ///
    /// # Errors
    /// None of its own in the stream: what is lost of a shard is an [`Entry::Lost`], so that it can be given its place in the order.
    fn expand(self) -> Expand<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Entry>, _>(Expand::new(self))
    }
}

/// Combinators on a stream of members.
pub trait MemberStream: Stream<Item = Result<Entry>> {
    /// Gathers consecutive members of one key into a [`Sample`], and gives it its place in the order (see [`Mark`](crate::position::Mark)).
    ///
    /// Fields are named by the part of the member's name behind the first dot, in lower case, and with twins the modality before it:
    /// `image.jpg`. A shard's border always ends a sample. Samples that are settled already are left out.
    ///
    /// Order: kept. Memory: one sample, and a hash of each key of the shard.
    ///
    /// # Resuming
    /// Counts ordinals; where a shard's first ordinal is known, from that.
    ///
    /// # Errors
    /// What `expand` lost, with its place. A key that comes back after its sample was closed, or a field that comes twice (the first
    /// one counts): these cost no sample. A shard with fewer or more samples than the manifest counts.
    fn group_by_keys(self) -> GroupByKeys<Self>
    where
        Self: Sized,
    {
        assert_stream::<Result<Sample<Fields<Bytes>>>, _>(GroupByKeys::new(self))
    }
}
