//! What may follow a stream of samples that have fields, decoded or not: operators on fields, by name.

use futures::Stream;

use super::assert_stream;
use super::map_body::MapBody;
use crate::error::{Error, Result};
use crate::sample::{Fields, Sample};

impl<St: Stream<Item = Result<Sample<Fields<V>>>>, V> FieldStream<V> for St {}

/// A change to the fields of a sample.
pub type FieldFn<V, U> = Box<dyn FnMut(Fields<V>) -> Result<U> + Send>;

/// Combinators on a stream of [`Sample`]s with [`Fields`]. They work on the spot, so they are for what is cheaper than handing it to a thread;
/// for the rest there is [`augment`](super::SampleStream::augment), whose parts [`Rename`](crate::augment::Rename),
/// [`Keep`](crate::augment::Keep) and [`on`](crate::augment::on) do the same.
///
/// A field is named as the sample has it: `jpg` in a single tar, `image.jpg` with twins. `jpg;png` means the first of them that is there.
///
/// ```
/// use futures::TryStreamExt;
/// use shardstream::prelude::*;
/// use shardstream::testing;
/// # tokio_test::block_on(async {
/// let store = Memory::new();
/// store.insert("0.tar", testing::tar(&[("a.png", b"picture"), ("a.cls", b"3"), ("b.jpg", b"photo"), ("b.cls", b"4")]));
/// let samples = shard_list(&Manifest::of_shards(["0.tar"])?).open_twins(store).expand().group_by_keys();
/// let pairs = samples
///     .map_field("cls", |bytes| Ok([&bytes[..], b"0"].concat().into()))
///     .to_tuple(["jpg;png", "cls"]);
/// let pairs: Vec<_> = pairs.map_ok(|sample| sample.body).try_collect().await?;
/// assert_eq!(pairs, [["picture", "30"], ["photo", "40"]]);
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
///
/// Order of all of them: kept. Memory: nothing.
///
/// # Resuming
/// Nothing to do.
pub trait FieldStream<V>: Stream<Item = Result<Sample<Fields<V>>>> {
    /// Changes one field.
    ///
    /// # Errors
    /// A sample without it; what `f` returns, with sample and field. The sample is lost, the stream goes on.
    fn map_field<F>(
        self,
        names: impl Into<String>,
        mut f: F,
    ) -> MapBody<Self, FieldFn<V, Fields<V>>>
    where
        Self: Sized,
        F: FnMut(V) -> Result<V> + Send + 'static,
    {
        let names = names.into();
        let note = format!("map_field({names:?})");
        let change: FieldFn<V, Fields<V>> = Box::new(move |mut fields| {
            fields.map_field(&names, &mut f)?;
            Ok(fields)
        });
        assert_stream::<Result<Sample<Fields<V>>>, _>(MapBody::noted(self, note, change))
    }

    /// Gives fields other names: pairs of old and new ones. Those that a sample doesn't have are left alone.
    ///
    /// # Errors
    /// A sample in which two fields would have one name.
    fn rename<A, B>(
        self,
        pairs: impl IntoIterator<Item = (A, B)>,
    ) -> MapBody<Self, FieldFn<V, Fields<V>>>
    where
        Self: Sized,
        A: Into<String>,
        B: Into<String>,
    {
        let pairs: Vec<(String, String)> =
            pairs.into_iter().map(|(old, new)| (old.into(), new.into())).collect();
        let note = format!("rename({pairs:?})");
        let change: FieldFn<V, Fields<V>> = Box::new(move |mut fields| {
            fields.rename(&pairs)?;
            Ok(fields)
        });
        assert_stream::<Result<Sample<Fields<V>>>, _>(MapBody::noted(self, note, change))
    }

    /// Keeps only these fields, in this order.
    ///
    /// # Errors
    /// A sample that lacks one.
    fn keep<N: Into<String>>(
        self,
        names: impl IntoIterator<Item = N>,
    ) -> MapBody<Self, FieldFn<V, Fields<V>>>
    where
        Self: Sized,
    {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let note = format!("keep({names:?})");
        let change: FieldFn<V, Fields<V>> = Box::new(move |mut fields| {
            fields.keep(&names)?;
            Ok(fields)
        });
        assert_stream::<Result<Sample<Fields<V>>>, _>(MapBody::noted(self, note, change))
    }

    /// Makes the body a list of the values of these fields, in this order: `let [image, class] = sample.body`. A batch of them is a list of
    /// columns.
    ///
    /// # Errors
    /// A sample that lacks one.
    fn to_tuple<const N: usize>(self, names: [&str; N]) -> MapBody<Self, FieldFn<V, [V; N]>>
    where
        Self: Sized,
    {
        let names = names.map(str::to_owned);
        let note = format!("to_tuple({names:?})");
        let change: FieldFn<V, [V; N]> = Box::new(move |mut fields| {
            let values: Vec<V> =
                names.iter().map(|names| Ok(fields.take(names)?.1)).collect::<Result<_>>()?;
            values.try_into().map_err(|_| Error::augment("another number of fields"))
        });
        assert_stream::<Result<Sample<[V; N]>>, _>(MapBody::noted(self, note, change))
    }
}
