//! Buckets whose rests are kept for the next epoch: once, in order, through every checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt};
use shardstream::certificate::certify;
use shardstream::loader::Builder;
use shardstream::prelude::*;
use shardstream::shard::DataSet;
use shardstream::stages::{Rest, mix};
use shardstream::store::{ByteRange, ByteStream};
use shardstream::testing::{self, assert_resumes};

/// Texts, and what was drawn for each.
type Told = Batch<(Vec<String>, Vec<u64>)>;

/// Kinds by what is in the samples: three common ones, and `s2_k0` alone.
fn kind(text: &str) -> usize {
    if text == "s2_k0" { 9 } else { text.len() + text.ends_with(['1', '4', '7']) as usize }
}

fn chain(
    lane: &Lane,
    store: &Arc<dyn Store>,
    mean: u64,
) -> impl Stream<Item = Result<Told>> + Send + use<> {
    let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
    let samples = shards.open_twins(Arc::clone(store)).expand().group_by_keys().shuffle(mean);
    let texts = samples.decode(Decoder::default()).augment(|fields, rng| {
        let text = fields.iter().next().and_then(|(_, text)| text.as_text());
        Ok((text.unwrap_or_default().to_owned(), rng.next_u64()))
    });
    texts.batch_by(|(text, _)| kind(text), Bucketing::new(4).hold(30).rest(Rest::Keep))
}

fn builder(manifest: &Manifest, store: impl Store + 'static, mean: u64) -> Builder<Told> {
    let store: Arc<dyn Store> = Arc::new(store);
    Loader::builder(manifest, move |lane: &Lane| chain(lane, &store, mean)).seed(5)
}

fn data() -> (Manifest, Memory) {
    testing::ragged_shards(&[7, 0, 11, 3, 1, 12, 9])
}

/// The epoch of each sample in a batch, and its text.
fn samples(batch: &Told) -> Vec<(u64, String)> {
    let epochs = batch.heads.iter().map(|head| head.origin.epoch);
    epochs.zip(batch.data.0.iter().cloned()).collect()
}

async fn rest(loader: Loader<Told>) -> Vec<Told> {
    loader.map(Result::unwrap).collect().await
}

#[tokio::test]
async fn what_does_not_fill_a_batch_comes_first_in_the_next_epoch() {
    let (manifest, store) = data();
    let mut loader = builder(&manifest, store, 9).epochs(4).start().unwrap();
    let mut came = BTreeMap::<(u64, String), u64>::new();
    let mut late = Vec::new();
    for epoch in 0..4 {
        let mut batches = loader.epoch().unwrap();
        let mut short = 0;
        while let Some(batch) = batches.next().await {
            let batch = batch.unwrap();
            let of: Vec<_> = batch.heads.iter().map(|head| head.origin.epoch).collect();
            // Kept ones stand in front, and none was kept twice.
            assert!(of.is_sorted() && of.iter().all(|&e| e == epoch || e + 1 == epoch), "{of:?}");
            let kept = of.iter().filter(|&&e| e < epoch).count();
            short += usize::from(of.len() < 4);
            assert!(of.len() == 4 || kept > 0 || epoch == 3, "{of:?} in epoch {epoch}");
            late.extend((kept > 0).then_some(of));
            for sample in samples(&batch) {
                *came.entry(sample).or_default() += 1;
            }
        }
        assert!(epoch < 3 || short > 0, "rests of the last epoch");
    }
    assert!(late.iter().any(|of| of[0] != of[of.len() - 1]), "of two epochs: {late:?}");
    assert!(late.contains(&vec![0, 1]), "the rare one, kept until there are two: {late:?}");
    assert!(came.len() == 4 * 43 && came.values().all(|&times| times == 1), "{came:?}");
}

#[tokio::test]
async fn every_checkpoint_resumes() {
    for (lanes, mean, tail) in
        [(1, 13, Tail::Pad), (2, 1, Tail::Pad), (3, 20, Tail::Uneven), (6, 5, Tail::Drop)]
    {
        let (manifest, store) = data();
        let build = || {
            let builder = builder(&manifest, store.clone(), mean);
            builder.lanes(lanes).epochs(4).tail(tail)
        };
        let batches = assert_resumes(build, |batch| (samples(batch), batch.data.1.clone())).await;
        assert!(batches > 36, "{batches}");
        let build = || build().with_epoch(7).epochs(5);
        let batches = assert_resumes(build, |batch| (samples(batch), batch.data.1.clone())).await;
        assert_eq!(batches, 35);
    }
}

/// A new process, on other ranks, behind every batch.
#[tokio::test]
async fn resumed_again_and_again_on_other_ranks() {
    let (manifest, store) = data();
    let build = |rank| {
        let builder = builder(&manifest, store.clone(), 9).rank(rank).epochs(3);
        builder.allow_uneven()
    };
    let by_lane = |came: &mut BTreeMap<u32, Vec<_>>, batch: &Told| {
        came.entry(batch.heads[0].origin.lane).or_default().push(samples(batch));
    };
    let mut due = BTreeMap::new();
    for batch in rest(build(Rank::SINGLE).lanes(4).start().unwrap()).await {
        by_lane(&mut due, &batch);
    }
    let mut came = BTreeMap::new();
    let mut parts = vec![build(Rank::SINGLE).lanes(4).start().unwrap().checkpoint()];
    let mut worlds = [1, 4, 2, 1, 2, 4].into_iter().cycle();
    let mut with_kept = 0;
    loop {
        let (world, before) = (worlds.next().unwrap(), parts);
        parts = Vec::new();
        let mut batches = 0;
        for rank in 0..world {
            let build = build(Rank::new(rank, world).unwrap()).workers(1 + rank);
            let mut loader = build.resume(before.clone()).unwrap();
            if let Some(batch) = loader.next().await {
                by_lane(&mut came, &batch.unwrap());
                batches += 1;
            }
            let text = loader.checkpoint().to_json().unwrap();
            with_kept += usize::from(text.contains("\"kept\""));
            parts.push(Checkpoint::from_json(&text).unwrap());
        }
        // At the end of an epoch ranks with fewer batches wait for the others.
        if batches == 0 && world == 1 {
            break;
        }
    }
    assert!(with_kept > 10, "{with_kept}");
    assert_eq!(came, due);
}

/// A manifest that counts its samples.
async fn counted(shards: &[usize]) -> (Manifest, Memory) {
    let store = Memory::new();
    let (_, tars) = testing::ragged_shards(shards);
    let names: Vec<_> = (0..shards.len()).map(|n| format!("{n:06}.tar")).collect();
    for name in &names {
        store.insert(format!("d/caption/{name}"), tars.get(name).unwrap());
    }
    let total: usize = shards.iter().sum();
    let info = format!(
        r#"{{"data_keys":["caption"],"data_list":{names:?},"data_list_key_count":{shards:?},"root":"d","total_key_count":{total}}}"#
    );
    store.insert("d/wdinfo.json", info);
    (Manifest::load(&store, "d").await.unwrap(), store)
}

#[tokio::test]
async fn a_certificate_says_what_is_kept_and_what_became_of_it() {
    let (manifest, store) = counted(&[7, 11, 3, 1, 12, 9]).await;
    let mut loader = builder(&manifest, store.clone(), 9).lanes(2).epochs(3).start().unwrap();
    let mut kept = 0;
    for epoch in 0..3 {
        let mut batches = loader.epoch().unwrap();
        while let Some(batch) = batches.next().await {
            batch.unwrap();
            // What the epoch before has kept is none of this one's.
            let so_far = certify([batches.loader().checkpoint()], None).unwrap();
            assert!(so_far.kept == 0 || so_far.lanes_open.len() < 2, "{so_far:?}");
        }
        let checkpoint = loader.checkpoint();
        let certificate = certify([checkpoint.clone()], Some(&manifest)).unwrap();
        assert!(certificate.is_complete() && certificate.epoch == epoch, "{certificate:?}");
        assert!(certificate.expected.is_some());
        assert_eq!(certificate.late.delivered, kept, "{certificate:?}");
        assert_eq!(certificate.delivered + certificate.kept, 43);
        assert_eq!(certificate.kept > 0, epoch < 2, "{certificate:?}");
        kept = certificate.kept;
        // Whoever forgets a kept sample can't say that all was covered.
        if kept > 0 {
            let text = checkpoint.to_json().unwrap();
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json["progress"]["0"]["kept"]["shards"][0]["owed"].as_array_mut().unwrap().pop();
            let forged = Checkpoint::from_json(&json.to_string()).unwrap();
            assert!(!certify([forged], Some(&manifest)).unwrap().is_complete());
        }
    }
}

/// What a checkpoint says is kept: the places of the shards, and how many samples.
fn kept(checkpoint: &Checkpoint) -> Vec<(u64, usize)> {
    let lanes = checkpoint.lanes().filter_map(|(_, lane)| lane.kept.as_ref());
    lanes.flat_map(|kept| &kept.shards).map(|shard| (shard.place, shard.owed.len())).collect()
}

/// A loader whose first epoch has ended.
async fn after_an_epoch(builder: Builder<Told>) -> Loader<Told> {
    let mut loader = builder.start().unwrap();
    let mut first = loader.epoch().unwrap();
    while let Some(batch) = first.next().await {
        batch.unwrap();
    }
    loader
}

#[tokio::test]
async fn a_shard_that_breaks_before_its_kept_samples_are_read_again() {
    let (manifest, store) = data();
    let loader = after_an_epoch(builder(&manifest, store.clone(), 1).epochs(2)).await;
    let checkpoint = loader.checkpoint();
    let owed: usize = kept(&checkpoint).iter().map(|(_, owed)| owed).sum();
    let due: BTreeSet<_> = rest(loader).await.iter().flat_map(samples).collect();
    let mut broken = 0;
    for shard in 0..7 {
        let path = format!("{shard:06}.tar");
        let whole = store.get(&path).unwrap();
        store.insert(path.clone(), "<html>503 Slow Down</html>");
        let resumed = |on_error| {
            let builder = builder(&manifest, store.clone(), 1).epochs(2).on_error(on_error);
            builder.resume([checkpoint.clone()]).unwrap()
        };
        // Nothing but what was in the shard is missing.
        let mut loader = resumed(OnError::skip());
        let mut came = BTreeSet::new();
        while let Some(batch) = loader.next().await {
            came.extend(samples(&batch.unwrap()));
        }
        let of_shard = format!("s{shard}_");
        let lost: BTreeSet<_> = due.difference(&came).collect();
        assert!(lost.iter().all(|(_, text)| text.starts_with(&of_shard)), "{lost:?}");
        let lost_late = lost.iter().filter(|(epoch, _)| *epoch == 0).count();
        let late = &loader.lanes().next().unwrap().1.late;
        assert_eq!(late.delivered as usize, owed - lost_late, "{late:?}");
        assert_eq!((late.skipped as usize, late.silent), (lost_late, 0), "shard {shard}");
        if lost_late > 0 {
            broken += 1;
            assert!(late.skips.len() == 1 && late.skips[0].rest, "{late:?}");
            let error = resumed(OnError::Stop).next().await.unwrap().unwrap_err();
            assert!(error.to_string().contains(&path), "{error}");
        }
        store.insert(path, whole);
    }
    assert!(broken > 1, "{broken}");
}

/// A store that notes what is read.
#[derive(Debug, Clone)]
struct Noted {
    store: Memory,
    read: Arc<Mutex<Vec<String>>>,
}

impl Store for Noted {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.read.lock().unwrap().push(path.to_owned());
        self.store.read(path, range)
    }

    forward_to!(store);
}

#[tokio::test]
async fn only_shards_that_hold_kept_samples_are_opened_again_and_the_checkpoint_is_small() {
    let (manifest, store) = testing::shards(60, 8);
    let read = Arc::default();
    let noted = Noted { store, read: Arc::clone(&read) };
    let mut loader = builder(&manifest, noted.clone(), 1).epochs(2).start().unwrap();
    let mut due = Vec::new();
    // The end of epoch 0 is behind the batch that is the first with a sample of epoch 1.
    let mut cuts = Vec::new();
    while let Some(batch) = loader.next().await {
        due.push(samples(&batch.unwrap()));
        cuts.push(loader.checkpoint());
    }
    // The rare sample waits longest: to the end of epoch 1.
    let at = due.len() - 4;
    let [(place, 1)] = kept(&cuts[at])[..] else { panic!("{:?}", kept(&cuts[at])) };
    let text = cuts[at].to_json().unwrap();
    let kept =
        text.find("\"kept\"").map(|from| &text[from..text[from..].find("]}]}").unwrap() + from]);
    assert!(kept.unwrap().len() < 90, "{text}");
    read.lock().unwrap().clear();
    let resumed = builder(&manifest, noted, 1).epochs(2).resume([cuts[at].clone()]).unwrap();
    let came: Vec<_> = rest(resumed).await.iter().map(samples).collect();
    assert_eq!(came, due[at + 1..]);
    let opened: Vec<_> = read.lock().unwrap().clone();
    assert_eq!(opened[0], "000002.tar", "at place {place}");
    assert!(opened.len() < 8, "{opened:?}");
}

#[tokio::test]
async fn what_no_run_can_have_kept_is_refused() {
    let (manifest, store) = data();
    let loader = after_an_epoch(builder(&manifest, store.clone(), 1).epochs(2)).await;
    let text = loader.checkpoint().to_json().unwrap();
    let resume = |text: &str| {
        let part = Checkpoint::from_json(text).unwrap();
        builder(&manifest, store.clone(), 1).epochs(2).resume([part])
    };
    assert!(resume(&text).is_ok());
    let (kept, other) = ("\"kept\":{\"epoch\":0", "\"kept\":{\"epoch\":7");
    let error = resume(&text.replacen(kept, other, 1)).unwrap_err();
    assert!(error.is_checkpoint() && error.to_string().contains("epoch 7"), "{error}");
    let error =
        resume(&text.replacen("\"owed\":[", "\"owed\":[18446744073709551615,", 1)).unwrap_err();
    assert!(error.is_checkpoint() && error.to_string().contains("can't be"), "{error}");
}

/// An epoch whose samples are all kept is no epoch in which nothing came.
#[tokio::test]
async fn an_epoch_without_a_batch() {
    let (manifest, store) = testing::shards(1, 3);
    store.insert("000000.tar", testing::tar(&[("a.txt", b"a"), ("b.json", b"{"), ("c.txt", b"c")]));
    for with_epoch in [false, true] {
        let builder = builder(&manifest, store.clone(), 1).epochs(4).on_error(OnError::skip());
        let builder = if with_epoch { builder.with_epoch(1) } else { builder };
        let came: Vec<_> = rest(builder.start().unwrap()).await.iter().map(samples).collect();
        let epochs: Vec<Vec<u64>> =
            came.iter().map(|batch| batch.iter().map(|(epoch, _)| *epoch).collect()).collect();
        assert_eq!(epochs[..2], [[0, 0, 1, 1], [2, 2, 3, 3]]);
        assert_eq!(epochs.len(), if with_epoch { 4 } else { 2 });
    }
}

/// A shard that is sound but shorter now: a kept sample that it held does not come again, and the books say so.
#[tokio::test]
async fn a_kept_sample_that_is_gone_is_counted() {
    let (manifest, store) = testing::shards(1, 7);
    let build = || builder(&manifest, store.clone(), 1).epochs(2);
    let mut loader = build().start().unwrap();
    let mut first = loader.epoch().unwrap();
    while let Some(batch) = first.next().await {
        batch.unwrap();
    }
    let checkpoint = loader.checkpoint();
    let owed: usize = kept(&checkpoint).iter().map(|(_, owed)| owed).sum();
    assert!(owed > 0);
    store.insert("000000.tar", testing::tar(&[("x.txt", b"s0_k0")]));
    let mut loader = build().resume([checkpoint]).unwrap();
    let mut came = Vec::new();
    while let Some(batch) = loader.next().await {
        came.extend(samples(&batch.unwrap()));
    }
    let late = &loader.lanes().next().unwrap().1.late;
    assert_eq!((late.delivered + late.silent, late.skipped), (owed as u64, 0));
    assert_eq!(came.iter().filter(|(epoch, _)| *epoch == 0).count(), late.delivered as usize);
    assert!(late.silent > 0, "{late:?}");
    assert!(!certify([loader.checkpoint()], None).unwrap().is_complete());
}

/// Several shards at once from two data sets, of which the first that ends ends the epoch.
#[tokio::test]
async fn every_checkpoint_of_a_mix_resumes() {
    let (_, store) = data();
    let set = |n: usize| DataSet::at_all((0..n).map(|i| format!("{i:06}.tar")));
    let sets = [("a".to_owned(), set(7)), ("b".to_owned(), set(4))];
    let manifest = Manifest::of_data_sets(&store, &sets).await.unwrap();
    let build = || {
        let store = store.clone();
        let recipe = move |lane: &Lane| {
            let source = |number| {
                let list = lane.source(number).unwrap().shuffle_shards();
                let store = store.clone();
                let shards = list.split_by_rank().split_by_worker();
                let read = shards.interleave(3, move |shards| {
                    shards.open_twins(store.clone()).expand().group_by_keys()
                });
                read.augment(|_, rng| Ok(rng.next_u64()))
            };
            let mixed = mix([(source(0), 2.0), (source(1), 1.0)]).unwrap();
            let mixed = mixed.first_exhausted(lane.progress());
            mixed.batch_by(|drawn| drawn % 3, Bucketing::new(4).rest(Rest::Keep))
        };
        Loader::builder(&manifest, recipe).epochs(4).lanes(2)
    };
    let told = |batch: &Batch<Vec<u64>>| {
        let heads = batch.heads.iter();
        let of = heads.map(|head| (head.origin.epoch, head.origin.source, head.key.to_string()));
        (of.collect::<Vec<_>>(), batch.data.clone())
    };
    assert!(assert_resumes(build, told).await > 20);
}
