use proptest::prelude::*;
use shardstream::shard::{DataSet, Manifest, Order, Plan, PlanParams, Tail};
use shardstream::store::Memory;
use shardstream::topology::{Rank, Worker};

fn counted(counts: &[u32]) -> Manifest {
    let store = Memory::new();
    let list: Vec<String> = (0..counts.len()).map(|i| format!("{i}.tar")).collect();
    store.insert(
        "d/wdinfo.json",
        serde_json::json!({"data_list": list, "data_list_key_count": counts}).to_string(),
    );
    tokio_test::block_on(DataSet::at("d").load(&store)).unwrap()
}

fn params(world_size: u32, num_workers: u32, tail: Tail) -> PlanParams {
    let mut params = PlanParams::new(world_size, num_workers);
    params.tail = tail;
    params.order = Order::Listed;
    params.allow_uneven = true;
    params
}

fn everybody(plan: &Plan) -> Vec<(Rank, Worker)> {
    let (ranks, workers) = (plan.params().world_size, plan.params().num_workers);
    let rank = |rank| Rank::new(rank, ranks).unwrap();
    (0..ranks)
        .flat_map(|r| (0..workers).map(move |k| (rank(r), Worker::new(k, workers).unwrap())))
        .collect()
}

fn refusal(manifest: &Manifest, mut params: PlanParams) -> String {
    params.allow_uneven = false;
    let error = Plan::new(manifest, params).unwrap_err().to_string();
    let reason = error.strip_prefix("config: ranks could end at different steps: ");
    reason.map_or(error.clone(), |reason| {
        reason.replace("; fix the steps of an epoch, or allow uneven ranks", "")
    })
}

proptest! {
    /// Over all workers of all ranks, for any number of lanes: every place once, samples and steps as counted shard by shard.
    #[test]
    fn the_plan_is_the_epoch(
        counts in prop::collection::vec(0u32..20, 1..60), world_size in 1u32..6, num_workers in 1u32..4, more_lanes in 0u32..5,
        tail in prop_oneof![Just(Tail::Pad), Just(Tail::Drop), Just(Tail::Uneven)], seed: u64, batch in 1u64..9, drop_last: bool,
    ) {
        let manifest = counted(&counts);
        let mut params = params(world_size, num_workers, tail);
        params.lanes = Some(world_size * num_workers + more_lanes);
        params.order = Order::Shuffled { seed };
        params.batch = Some(batch);
        params.drop_last = drop_last;
        let Ok(plan) = Plan::new(&manifest, params.clone()) else {
            prop_assert!(tail == Tail::Drop && (counts.len() as u32) < params.lanes.unwrap());
            return Ok(());
        };
        let mut places = vec![];
        for (rank, worker) in everybody(&plan) {
            let planned: Vec<_> = plan.shards(rank, worker).collect();
            prop_assert!(planned.windows(2).all(|pair| pair[0].place < pair[1].place));
            let share = plan.of_worker(rank, worker);
            prop_assert_eq!(share.shards, planned.len() as u64);
            prop_assert_eq!(share.repeats, planned.iter().filter(|p| p.repeat).count() as u64);
            prop_assert_eq!(share.samples, Some(planned.iter().map(|p| u64::from(counts[p.shard as usize])).sum()));
            places.extend(planned.iter().map(|p| p.place));
        }
        places.sort_unstable();
        prop_assert_eq!(places, (0..plan.order().places()).collect::<Vec<_>>());
        // Batches are made in each lane.
        let mut steps = vec![];
        for r in 0..world_size {
            let rank = Rank::new(r, world_size).unwrap();
            let of_lane = |lane| {
                let samples: u64 = plan.order().places_of(lane).map(|p| u64::from(counts[plan.order().shard_at(p).0 as usize])).sum();
                samples / batch + u64::from(!drop_last && !samples.is_multiple_of(batch))
            };
            steps.push(rank.lanes(plan.order().lanes()).map(of_lane).sum::<u64>());
            prop_assert_eq!(plan.of_rank(rank).steps, Some(steps[r as usize]));
        }
        let same = steps.iter().all(|&n| n == steps[0]);
        prop_assert_eq!(plan.steps(), same.then_some(steps[0]));
        // What is refused unless allowed.
        params.allow_uneven = false;
        prop_assert!(same || Plan::new(&manifest, params.clone()).is_err());
        prop_assert_eq!(Plan::new(&manifest, params.clone()).is_err(), !plan.uneven().is_empty());
        params.steps = Some(5);
        let fixed = Plan::new(&manifest, params).unwrap();
        prop_assert_eq!(fixed.steps(), Some(5));
    }
}

#[test]
fn reasons_and_advice() {
    let even = counted(&[4; 8]);
    assert_eq!(Plan::new(&even, params(2, 2, Tail::Pad)).unwrap().uneven(), &[] as &[String]);
    let mut with_batch = params(2, 2, Tail::Pad);
    with_batch.batch = Some(3);
    // Each lane has 8 samples: 3 batches.
    assert_eq!(Plan::new(&even, with_batch.clone()).unwrap().steps(), Some(6));
    with_batch.drop_last = true;
    assert_eq!(Plan::new(&even, with_batch.clone()).unwrap().steps(), Some(4));

    assert_eq!(
        refusal(&even, params(3, 1, Tail::Uneven)),
        "ranks get 2 to 3 shards (tail pad or drop would help)"
    );
    assert_eq!(
        refusal(&even, params(5, 2, Tail::Uneven)),
        "8 shards for 10 lanes leave ranks with 1 to 2 shards (fewer ranks or workers, more and smaller shards, or tail pad would help)"
    );
    let mut lanes = params(3, 1, Tail::Pad);
    lanes.lanes = Some(4);
    assert_eq!(refusal(&even, lanes.clone()), "4 lanes can't be shared evenly by 3 ranks");
    lanes.lanes = Some(2);
    assert_eq!(
        refusal(&even, lanes),
        "config: 2 lanes for 3 ranks: a rank without a lane has nothing to read"
    );
    let uneven = counted(&[4, 4, 5, 4]);
    assert_eq!(refusal(&uneven, params(2, 1, Tail::Pad)), "ranks read 8 to 9 samples");
    let mut batches = params(2, 1, Tail::Pad);
    batches.batch = Some(4);
    assert_eq!(refusal(&uneven, batches.clone()), "ranks take 2 to 3 steps of 4 samples");
    batches.drop_last = true;
    assert_eq!(Plan::new(&uneven, batches).unwrap().steps(), Some(2));
    let unknown = Manifest::of_pattern("{0..7}.tar", None).unwrap();
    assert_eq!(
        refusal(&unknown, params(2, 1, Tail::Pad)),
        "the manifest does not count the samples of its shards"
    );
    // A single rank is never out of step.
    let mut alone = params(1, 3, Tail::Uneven);
    alone.allow_uneven = false;
    assert!(Plan::new(&unknown, alone).is_ok());
    assert_eq!(
        refusal(&even, params(5, 2, Tail::Drop)),
        "config: 8 shards for 10 lanes and tail drop: nothing is left to read; take fewer ranks or workers, more and smaller shards, or tail pad"
    );
    assert!(refusal(&even, params(u32::MAX, 2, Tail::Pad)).contains("too many"));
    assert!(
        refusal(&even, params(1 << 24, 2, Tail::Pad))
            .contains("lanes: there are from 1 to 16777216")
    );
    assert!(refusal(&even, params(0, 2, Tail::Pad)).contains("world size 0"));
}

#[test]
fn tails_are_reported() {
    let manifest = counted(&[1, 2, 3, 4, 5]);
    let padded = Plan::new(&manifest, params(2, 2, Tail::Pad)).unwrap();
    assert_eq!((padded.repeated(), padded.order().dropped().count()), (3, 0));
    assert_eq!(padded.of_rank(Rank::new(0, 2).unwrap()).samples, Some(1 + 5 + 3 + 2));
    let dropped = Plan::new(&manifest, params(2, 2, Tail::Drop)).unwrap();
    assert_eq!((dropped.repeated(), dropped.order().dropped().collect::<Vec<_>>()), (0, vec![4]));
    let mut one = params(4, 2, Tail::Pad);
    one.order = Order::Resampled { seed: 0 };
    assert_eq!(Plan::new(&manifest, one).unwrap().repeated(), 0);
}

#[test]
fn members_of_a_group_get_the_same() {
    let manifest = counted(&[3; 24]);
    let group = |process| Rank::new(process, 8).unwrap().data_parallel(2, 1, 2).unwrap();
    let shards = |process| {
        let mut params = params(group(process).world_size(), 2, Tail::Pad);
        params.order = Order::Shuffled { seed: 5 };
        let plan = Plan::new(&manifest, params).unwrap();
        plan.shards(group(process), Worker::new(1, 2).unwrap()).map(|p| p.shard).collect::<Vec<_>>()
    };
    // Tensor 2, pipeline 2: processes 0, 1, 4 and 5 are a group.
    assert_eq!(shards(0), shards(1));
    assert_eq!(shards(0), shards(5));
    assert_ne!(shards(0), shards(2));
}

#[test]
fn part_of_a_manifest() {
    let store = Memory::new();
    store.insert(
        "a/wdinfo.json",
        r#"{"data_list": ["0.tar", "1.tar"], "data_list_key_count": [1, 2]}"#,
    );
    store.insert("b/x/wdinfo.json", r#"{"data_list": ["2.tar"], "data_list_key_count": [3]}"#);
    store.insert("b/y/wdinfo.json", r#"{"data_list": ["3.tar"], "data_list_key_count": [4]}"#);
    let sets = [("a".to_owned(), DataSet::at("a")), ("b".to_owned(), DataSet::at("b"))];
    let all = tokio_test::block_on(Manifest::of_data_sets(&store, &sets)).unwrap();
    let b = all.of_source(1);
    assert_eq!(
        (b.len(), b.path(1), b.total_samples(), b.sources()[0].name.as_str()),
        (2, "3.tar".into(), Some(7), "b")
    );
    assert_eq!(
        all.of_source(0).hash(),
        tokio_test::block_on(DataSet::at("a").load(&store)).unwrap().hash()
    );
}
