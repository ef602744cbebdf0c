//! Random recipes on random shards, with random delays and faults, cut at random steps and continued on other numbers of ranks and
//! workers: the sequence of every lane's batches equals the uncut run's.
//!
//! `SHARDSTREAM_SCHEDULES=10000 cargo test --release --test loader simulation` runs as many schedules as are asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use shardstream::prelude::*;
use shardstream::shard::Shard;
use shardstream::stages::{Bucketing, Rest, mix};
use shardstream::store::{ByteRange, ByteStream};
use shardstream::testing;

use super::sample_index::write_indexes;

/// Texts, and what was drawn for each.
type Told = Batch<(Vec<String>, Vec<u64>)>;

/// A store that takes its time (on the paused clock) and gives chunks of odd sizes.
#[derive(Debug, Clone)]
struct Slow {
    store: Memory,
    seed: u64,
}

impl Store for Slow {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        let mut rng = Rng::keyed(&[self.seed, shardstream::random::hash_bytes(path.as_bytes())]);
        let bytes = self.store.get(path);
        let whole = self.store.read(path, range);
        let Some(bytes) = bytes else { return whole };
        let place = |offset: u64| (offset as usize).min(bytes.len());
        let bytes = bytes.slice(place(range.start)..range.end.map_or(bytes.len(), place));
        let stream = futures::stream::unfold(bytes, move |mut bytes| {
            let (size, delay) = (1 + rng.below(3000), rng.below(40));
            async move {
                if bytes.is_empty() {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(delay.saturating_sub(20))).await;
                let chunk = bytes.split_to(bytes.len().min(size as usize));
                Some((Ok(chunk), bytes))
            }
        });
        stream.boxed()
    }

    forward_to!(store);
}

type Body = (String, u64);
type Item = Result<Sample<Body>>;

/// What is drawn for one schedule.
#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    shards: Vec<usize>,
    lanes: u32,
    epochs: u64,
    with_epoch: Option<u64>,
    tail: Tail,
    shuffle_shards: bool,
    interleave: Option<u32>,
    /// Whether there are indexes of samples.
    indexed: bool,
    mixed: bool,
    first_exhausted: bool,
    /// Sources begin again and again.
    never_ends: bool,
    stages: Vec<Stage>,
    end: End,
}

#[derive(Debug, Clone)]
enum Stage {
    Shuffle(u64),
    Filter,
    Augment,
    Foreign,
    Prefetch(usize),
}

#[derive(Debug, Clone)]
enum End {
    Batch(usize, bool),
    Buckets(usize, usize, usize, Rest),
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        let shards = (0..1 + rng.below(12))
            .map(|_| if rng.chance(0.1) { 0 } else { rng.below(30) as usize })
            .collect();
        let stage = |rng: &mut Rng| match rng.below(5) {
            0 => Stage::Shuffle(1 + rng.below(40)),
            1 => Stage::Filter,
            2 => Stage::Augment,
            3 => Stage::Foreign,
            _ => Stage::Prefetch(1 + rng.below(4) as usize),
        };
        let size = 1 + rng.below(7) as usize;
        let with_epoch = rng.chance(0.25).then(|| 1 + rng.below(6));
        Self {
            seed: rng.next_u64() >> 20,
            shards,
            lanes: [1, 2, 3, 4, 6, 8, 12, 16][rng.below(8) as usize],
            epochs: 1 + rng.below(3),
            with_epoch,
            tail: [Tail::Pad, Tail::Drop, Tail::Uneven][rng.below(3) as usize],
            shuffle_shards: rng.chance(0.8),
            interleave: rng.chance(0.3).then(|| 1 + rng.below(4) as u32),
            indexed: rng.chance(0.4),
            mixed: rng.chance(0.25),
            first_exhausted: rng.chance(0.5),
            never_ends: with_epoch.is_some() && rng.chance(0.5),
            stages: (0..rng.below(5)).map(|_| stage(rng)).collect(),
            end: if rng.chance(0.5) {
                End::Batch(size, rng.chance(0.3))
            } else {
                let rest = [Rest::Short, Rest::Drop, Rest::Keep, Rest::Keep][rng.below(4) as usize];
                let bytes = if rng.chance(0.5) { 1 << 30 } else { rng.below(1000) as usize };
                End::Buckets(size, 1 + rng.below(20) as usize, bytes, rest)
            },
        }
    }

    /// Shards in memory; some are missing, cut off or broken.
    async fn data(&self, rng: &mut Rng) -> (Manifest, Memory) {
        let (manifest, store) = testing::ragged_shards(&self.shards);
        if self.indexed {
            write_indexes(&manifest, &store).await;
        }
        for shard in 0..self.shards.len() {
            let path = format!("{shard:06}.tar");
            let Some(bytes) = store.get(&path) else { continue };
            if rng.chance(0.05) {
                store.insert(path, bytes.slice(..rng.below(bytes.len() as u64 + 1) as usize));
            } else if rng.chance(0.03) {
                store.insert(path, "<html>503 Slow Down</html>");
            } else if rng.chance(0.05) {
                let mut bytes = bytes.to_vec();
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
                store.insert(path, bytes);
            }
        }
        (manifest, store)
    }

    fn chain(&self, lane: &Lane, store: &Slow) -> BoxStream<'static, Result<Told>> {
        let source = |list: shardstream::stages::ShardList| {
            let list = if self.shuffle_shards { list.shuffle_shards() } else { list };
            let list = if self.never_ends { list.repeat() } else { list };
            let shards = list.split_by_rank().split_by_worker();
            let (store, indexed) = (store.clone(), self.indexed);
            let read = move |shards: BoxStream<'static, Result<Shard>>| {
                let twins = shards.open_twins(store.clone());
                let twins = if indexed { twins.sample_index(None) } else { twins };
                twins.expand().group_by_keys()
            };
            let samples = match self.interleave {
                Some(width) => shards.interleave(width, read).boxed(),
                None => read(shards.boxed()).boxed(),
            };
            samples
                .decode(Decoder::default())
                .augment(|fields, rng| {
                    let text =
                        fields.get("txt").and_then(Value::as_text).unwrap_or_default().to_owned();
                    Ok((text, rng.next_u64()))
                })
                .boxed()
        };
        let mut samples: BoxStream<'static, Item> = if self.mixed {
            let sources =
                [(source(lane.shard_list()), 2.0), (source(lane.source(1).unwrap()), 1.0)];
            let mixed = mix(sources).unwrap();
            if self.first_exhausted {
                mixed.first_exhausted(lane.progress()).boxed()
            } else {
                mixed.boxed()
            }
        } else {
            source(lane.shard_list())
        };
        for stage in &self.stages {
            samples = match *stage {
                Stage::Shuffle(mean) => samples.shuffle(mean).boxed(),
                Stage::Filter => samples.filter_samples(|sample| sample.body.1 % 7 != 0).boxed(),
                Stage::Augment => samples
                    .augment(|(text, n), rng| match rng.below(20) {
                        0 => Err(Error::filter("unlucky")),
                        1 => Err(Error::augment("broken")),
                        _ => Ok((text, n ^ rng.next_u64())),
                    })
                    .boxed(),
                // An adapter that knows nothing of marks drops samples without a word.
                Stage::Foreign => samples
                    .filter(|item| {
                        std::future::ready(!matches!(item, Ok(sample) if sample.body.1 % 11 == 0))
                    })
                    .boxed(),
                Stage::Prefetch(n) => samples.prefetch(n).boxed(),
            };
        }
        match self.end {
            End::Batch(size, drop_last) => {
                samples.batch(Batching::new(size).drop_last(drop_last)).boxed()
            }
            End::Buckets(size, hold, bytes, rest) => samples
                .batch_by(
                    |body: &Body| body.1 % 3,
                    Bucketing::new(size).hold(hold).bytes(bytes).rest(rest),
                )
                .boxed(),
        }
    }
}

/// What each lane gave, in order.
type Lanes = BTreeMap<u32, Vec<(u64, Vec<String>, Vec<u64>)>>;

/// Runs the ranks of a world until each has taken `steps` steps, or to the end; what came, and the parts of the checkpoint.
async fn run(
    plan: &Plan,
    data: &(Manifest, Memory),
    from: Option<&[Checkpoint]>,
    (ranks, workers): (u32, u32),
    steps: Option<u64>,
    delays: u64,
    lanes: &mut Lanes,
) -> Option<Vec<Checkpoint>> {
    let mut parts = Vec::new();
    for rank in 0..ranks {
        let (chain, store) = (plan.clone(), Slow { store: data.1.clone(), seed: delays });
        let mut builder = Loader::builder(&data.0, move |lane: &Lane| chain.chain(lane, &store))
            .rank(Rank::new(rank, ranks).unwrap())
            .workers(workers)
            .prefetch(1 + (delays % 3) as usize)
            .epochs(plan.epochs)
            .tail(plan.tail)
            .allow_uneven()
            .on_error(OnError::skip());
        if let Some(batches) = plan.with_epoch {
            builder = builder.with_epoch(batches);
        }
        let loader = match from {
            Some(parts) => builder.resume(parts.to_vec()),
            None => builder.seed(plan.seed).lanes(plan.lanes).start(),
        };
        let mut loader = loader.unwrap();
        let mut step = 0;
        while steps.is_none_or(|steps| step < steps) {
            let Some(batch) = loader.next().await else { break };
            // A rank of whose shards nothing came in an epoch ends in an error.
            let batch = batch.ok()?;
            let origin = &batch.heads[0].origin;
            let (texts, draws) = batch.data.clone();
            lanes.entry(origin.lane).or_default().push((origin.epoch, texts, draws));
            step += 1;
        }
        parts.push(loader.checkpoint());
    }
    Some(parts)
}

/// Runs a schedule; whether it went through without a rank that got nothing at all.
async fn schedule(number: u64) -> bool {
    let mut rng = Rng::keyed(&[2024, number]);
    let plan = Plan::draw(&mut rng);
    let (mut manifest, store) = plan.data(&mut rng).await;
    if plan.mixed {
        // Two data sets over the same shards.
        let set = || {
            shardstream::shard::DataSet::at_all(
                (0..plan.shards.len()).map(|i| format!("{i:06}.tar")),
            )
        };
        manifest =
            Manifest::of_data_sets(&store, &[("a".to_owned(), set()), ("b".to_owned(), set())])
                .await
                .unwrap();
    }
    let data = (manifest, store);
    let divisors: Vec<u32> = (1..=plan.lanes).filter(|r| plan.lanes.is_multiple_of(*r)).collect();
    // With epochs of so many batches a rank, their end depends on the number of ranks: there it stays the same.
    let ranks: Vec<u32> = if plan.with_epoch.is_some() {
        vec![divisors[rng.below(divisors.len() as u64) as usize]]
    } else {
        divisors
    };
    let world =
        |rng: &mut Rng| (ranks[rng.below(ranks.len() as u64) as usize], 1 + rng.below(4) as u32);
    let mut whole = Lanes::new();
    if run(&plan, &data, None, world(&mut rng), None, rng.next_u64(), &mut whole).await.is_none() {
        return false;
    }
    let total: usize = whole.values().map(Vec::len).sum();
    let mut cut = Lanes::new();
    let mut from: Option<Vec<Checkpoint>> = None;
    let cuts = 1 + rng.below(3);
    for n in 0..=cuts {
        let steps = (n < cuts).then(|| rng.below(total as u64 / 2 + 2));
        let (now, delays) = (world(&mut rng), rng.next_u64());
        let Some(parts) = run(&plan, &data, from.as_deref(), now, steps, delays, &mut cut).await
        else {
            return false;
        };
        // Through JSON, as a file would.
        let copy = |part: &Checkpoint| Checkpoint::from_json(&part.to_json().unwrap()).unwrap();
        from = Some(parts.iter().map(copy).collect());
    }
    for (lane, due) in &whole {
        let came = cut.get(lane).map_or(&[][..], Vec::as_slice);
        let differs = (0..due.len().max(came.len())).find(|&i| due.get(i) != came.get(i));
        if let Some(at) = differs {
            let near = |list: &[_]| {
                list.get(at.saturating_sub(1)..list.len().min(at + 3)).map(<[_]>::to_vec)
            };
            let (due, came) = (near(due), near(came));
            panic!(
                "schedule {number}, lane {lane}, batch {at}:\n due {due:?}\ncame {came:?}\n{plan:?}"
            );
        }
    }
    assert_eq!(cut.len(), whole.len(), "schedule {number}: {plan:?}");
    true
}

#[test]
fn simulation() {
    let schedules = std::env::var("SHARDSTREAM_SCHEDULES").map_or(150, |n| n.parse().unwrap());
    let first = std::env::var("SHARDSTREAM_FIRST").map_or(0, |n| n.parse().unwrap());
    let mut through = 0;
    for number in first..first + schedules {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        through += u64::from(runtime.block_on(schedule(number)));
    }
    println!(
        "{through} of {schedules} schedules compared whole; in the others a rank got no sample in an epoch"
    );
    assert!(through * 10 >= schedules * 8, "{through} of {schedules}");
}
