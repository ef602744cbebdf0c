//! Operators on fields, `select`, `slice`, `unbatch`, `compose`.

use bytes::Bytes;
use futures::stream::{self, FusedStream, Stream};
use futures::{StreamExt, TryStreamExt};
use shardstream::prelude::*;
use shardstream::testing;
use tokio_test::{assert_ready, task};

use super::support::{
    all, assert_chain_resumes, by_hand, fault, grouped, ordinal, samples, shown, tars,
};

fn pictures() -> (Manifest, Memory) {
    tars(&[&[
        ("a.png", "A"),
        ("a.cls", "1"),
        ("b.jpg", "B"),
        ("b.png", "b"),
        ("b.cls", "2"),
        ("c.webp", "C"),
        ("c.cls", "3"),
    ]])
}

async fn lines<S: Stream<Item = Result<Sample<Fields<Bytes>>>>>(stream: S) -> Vec<String> {
    all(stream.map(|item| shown(&item))).await
}

#[tokio::test]
async fn one_field_is_changed_in_its_place() {
    let (manifest, store) = pictures();
    let twice = |bytes: Bytes| Ok(Bytes::from(bytes.repeat(2)));
    let out = lines(grouped(&manifest, &store).map_field("jpg;png", twice)).await;
    assert_eq!(
        out,
        [
            "a: png=AA cls=1",
            "b: jpg=BB png=b cls=2",
            "augment: field jpg;png of sample c in 0.tar: the sample has no such field"
        ]
    );
    let broken = |_| Err(Error::augment("broken"));
    let out = lines(grouped(&manifest, &store).map_field("cls", broken)).await;
    assert_eq!(out[1], "augment: field cls of sample b in 0.tar: broken");
}

#[tokio::test]
async fn fields_are_renamed_and_kept() {
    let (manifest, store) = pictures();
    let names = [("jpg;webp", "image"), ("cls", "class"), ("txt", "text")];
    let out = lines(grouped(&manifest, &store).rename(names)).await;
    assert_eq!(out, ["a: png=A class=1", "b: image=B png=b class=2", "c: image=C class=3"]);
    let out = lines(grouped(&manifest, &store).rename([("png;jpg", "image")])).await;
    assert_eq!(out[1], "augment: field png of sample b in 0.tar: two fields would be named image");
    let out = lines(grouped(&manifest, &store).keep(["cls", "png;webp"])).await;
    assert_eq!(out, ["a: cls=1 png=A", "b: cls=2 png=b", "c: cls=3 webp=C"]);
    let out = lines(grouped(&manifest, &store).keep(["jpg"])).await;
    assert_eq!(out[0], "augment: field jpg of sample a in 0.tar: the sample has no such field");
}

#[tokio::test]
async fn fields_become_a_list_and_a_batch_of_lists_columns() {
    let (manifest, store) = pictures();
    let pairs = grouped(&manifest, &store)
        .decode(Decoder::new().without(["png", "jpg", "webp"]))
        .to_tuple(["jpg;png;webp", "cls"])
        .batch(3);
    let batch = pairs.try_collect::<Vec<_>>().await.unwrap().remove(0);
    let [pictures, classes] = batch.data;
    let bytes = ["A", "B", "C"].map(|text| Value::Bytes(text.into()));
    assert_eq!(pictures, Column::Values(bytes.to_vec()));
    let Column::Tensor(classes) = classes else { panic!() };
    assert_eq!(classes.data, shardstream::sample::Data::I64(vec![1, 2, 3]));
    let out = all(grouped(&manifest, &store).to_tuple(["png", "cls"])).await;
    assert!(out[0].is_ok() && out[1].is_ok());
    let error = out[2].as_ref().unwrap_err();
    assert_eq!(
        error.to_string(),
        "augment: field png of sample c in 0.tar: the sample has no such field"
    );
}

#[tokio::test]
async fn select_goes_by_the_body() {
    let out = all(stream::iter(samples(0, 4)).select(|body| body % 2 == 1)).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(out.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(out[0].as_ref().unwrap_err().is_filtered());
}

#[tokio::test]
async fn a_slice_goes_by_the_number_and_ends_early() {
    let items = stream::iter(samples(0, 5).chain([Ok(super::support::sample(0, 5))]));
    // What follows is not polled.
    let items = items.chain(stream::poll_fn(|_| panic!("polled beyond the slice")));
    let mut slice = std::pin::pin!(items.slice(1..=3));
    let mut out = Vec::new();
    while let Some(item) = slice.next().await {
        out.push(item);
    }
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(out[0].as_ref().unwrap_err().is_filtered() && out[1..].iter().all(Result::is_ok));
    assert!(slice.is_terminated() && slice.next().await.is_none());
    // A filter in front of it moves nothing, a fault in it passes.
    let items = [Err(fault(0, 0)), samples(0, 2).nth(1).unwrap()];
    let out = all(stream::iter(items).slice(..2)).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1]);
    assert!(!out[0].as_ref().unwrap_err().is_filtered());
    let bounds = |bounds| all(stream::iter(samples(0, 4)).slice(bounds));
    assert_eq!(bounds(2..9).await.iter().filter(|item| item.is_ok()).count(), 2);
    assert_eq!(bounds(0..0).await.len(), 0);
}

#[tokio::test]
async fn a_slice_behind_a_shuffle_has_all_its_samples() {
    let out = all(stream::iter(samples(0, 300)).shuffle(20).slice(..100)).await;
    let mut kept: Vec<_> = out.iter().filter(|item| item.is_ok()).map(ordinal).collect();
    assert!(kept.windows(2).any(|pair| pair[0] > pair[1]), "not shuffled");
    kept.sort_unstable();
    assert_eq!(kept, (0..100).collect::<Vec<_>>());
    assert!(out.len() < 300, "read to the end");
}

#[tokio::test]
async fn unbatch_gives_the_samples_back_one_by_one() {
    let items = samples(0, 5).chain([Err(fault(0, 5))]);
    let out = all(stream::iter(items).batch(3).unbatch()).await;
    assert_eq!(out.iter().map(ordinal).collect::<Vec<_>>(), [0, 1, 2, 5, 3, 4]);
    let bodies: Vec<_> = out.iter().flatten().map(|sample| sample.body).collect();
    assert_eq!(bodies, [0, 1, 2, 3, 4]);
    // A floor vouches for nothing that is still held.
    for (at, sample) in
        out.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_ref().ok()?)))
    {
        let mark = sample.head.mark;
        let later = out[at + 1..].iter().map(ordinal).min().unwrap_or(u64::MAX);
        assert!(mark.floor <= later, "{} with floor {}", mark.ordinal, mark.floor);
    }
}

#[test]
fn unbatch_holds_a_batch_and_ends() {
    use shardstream::sample::Batch;
    let (sender, receiver) = by_hand::<Result<Batch<Vec<u64>>>>();
    let mut stream = task::spawn(receiver.unbatch());
    tokio_test::assert_pending!(stream.poll_next());
    let mut heads: Vec<_> = samples(0, 2).map(|sample| sample.unwrap().head).collect();
    // What is true of the batch as a whole.
    heads.iter_mut().for_each(|head| head.mark.floor = 2);
    sender.send(Ok(Batch { heads: heads.clone(), data: vec![7, 8] })).unwrap();
    assert!(stream.is_woken());
    let first = assert_ready!(stream.poll_next()).unwrap().unwrap();
    assert_eq!((first.body, first.head.mark.floor), (7, 1), "the second is still held");
    assert_eq!(stream.size_hint(), (1, None));
    let second = assert_ready!(stream.poll_next()).unwrap().unwrap();
    assert_eq!((second.body, second.head.mark.floor), (8, 2));
    sender.send(Ok(Batch { heads, data: vec![7] })).unwrap();
    let error = assert_ready!(stream.poll_next()).unwrap().unwrap_err();
    assert!(!error.concerns_one_sample());
    assert_eq!(error.message(), "a batch of 1 bodies for 2 samples");
    drop(sender);
    assert!(assert_ready!(stream.poll_next()).is_none() && stream.is_terminated());
    assert!(assert_ready!(stream.poll_next()).is_none());
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    assert_chain_resumes(|lane, store| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store).expand().group_by_keys();
        samples.slice(1..8).rename([("txt", "text")]).keep(["text"]).select(|_| true).batch(2)
    })
    .await;
    assert_chain_resumes(|lane, store| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store).expand().group_by_keys();
        samples.shuffle(4).batch(3).unbatch().to_tuple(["txt"]).batch(2)
    })
    .await;
    assert_chain_resumes(|lane, store| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store).expand().group_by_keys();
        samples.batch(3).unbatch().batch(2)
    })
    .await;
}

#[tokio::test]
async fn what_a_resume_could_not_honour_is_refused() {
    let (manifest, store) = testing::shards(2, 3);
    let build = |batching| {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards.open_twins(store.clone()).expand().group_by_keys().batch(batching).unbatch()
        };
        Loader::builder(&manifest, recipe).start()
    };
    assert!(build(Batching::new(2)).is_ok());
    let error = build(Batching::new(2).drop_last(true)).err().unwrap();
    assert!(error.is_config() && error.to_string().contains("unbatch behind batch(2"), "{error}");
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        let samples = shards.open_twins(store.clone()).expand().group_by_keys();
        samples.batch_by(|fields| fields.len(), 2).unbatch()
    };
    let error = Loader::builder(&manifest, recipe).start().err().unwrap();
    assert!(error.is_config() && error.to_string().contains("unbatch behind batch_by("), "{error}");
}

#[tokio::test]
async fn a_recipe_with_another_stage_of_ones_own_is_another_one() {
    let (manifest, store) = testing::shards(2, 3);
    let build = |name: &'static str| {
        let store = store.clone();
        Loader::builder(&manifest, move |lane: &Lane| {
            let shards = lane.shard_list().split_by_rank().split_by_worker();
            shards
                .open_twins(store.clone())
                .expand()
                .group_by_keys()
                .compose(name, |samples| samples)
        })
    };
    let checkpoint = build("mine(3)").start().unwrap().checkpoint();
    assert!(build("mine(3)").resume([checkpoint.clone()]).is_ok());
    let error = build("mine(4)").resume([checkpoint]).err().unwrap();
    assert!(error.is_checkpoint() && error.to_string().contains("compose(mine(3))"), "{error}");
}
