use proptest::prelude::*;
use shardstream::shard::{EpochOrder, LegacyStart, Order, Tail};

fn tails() -> impl Strategy<Value = Tail> {
    prop_oneof![Just(Tail::Pad), Just(Tail::Drop), Just(Tail::Uneven)]
}

fn lane(order: &EpochOrder, lane: u32) -> Vec<u64> {
    order.places_of(lane).map(|place| order.shard_at(place).0).collect()
}

proptest! {
    /// The lanes partition the places; the shards read are all of them, plus what is repeated, less what is dropped.
    #[test]
    fn the_epoch_is_covered(shards in 1u64..300, world_size in 1u32..8, num_workers in 1u32..5, tail in tails(), kind in 0..3usize, seed: u64, epoch in 0u64..3) {
        let lanes = world_size * num_workers;
        let order = [Order::Listed, Order::Shuffled { seed }, Order::Pid { world_size, num_workers, shuffle: seed % 2 == 0 }][kind];
        let order = EpochOrder::new(order, tail, shards, lanes, epoch, 0).unwrap();
        let mut places: Vec<u64> = (0..lanes).flat_map(|lane| order.places_of(lane)).collect();
        prop_assert!(places.iter().all(|&place| order.places_of(order.lane_of(place)).any(|p| p == place)));
        places.sort_unstable();
        prop_assert_eq!(&places, &(0..order.places()).collect::<Vec<_>>());
        let (mut first, mut repeats) = (vec![], vec![]);
        for place in places {
            let (shard, repeat) = order.shard_at(place);
            if repeat { repeats.push(shard) } else { first.push(shard) }
        }
        let dropped: Vec<u64> = order.dropped().collect();
        prop_assert!(repeats.len() < lanes as usize && dropped.len() < lanes as usize);
        prop_assert!(tail == Tail::Pad || repeats.is_empty());
        prop_assert!(tail == Tail::Drop || dropped.is_empty());
        first.extend(dropped);
        first.sort_unstable();
        prop_assert_eq!(first, (0..shards).collect::<Vec<_>>());
        let lengths: Vec<usize> = (0..lanes).map(|lane| order.places_of(lane).count()).collect();
        prop_assert!(tail == Tail::Uneven || lengths.iter().all(|&len| len == lengths[0]), "{:?}", lengths);
    }
}

#[test]
fn another_epoch_seed_or_source_gives_another_assignment() {
    let of = |seed, epoch, source| {
        let order =
            EpochOrder::new(Order::Shuffled { seed }, Tail::Pad, 100, 4, epoch, source).unwrap();
        let mut shards = lane(&order, 0);
        shards.sort_unstable();
        shards
    };
    assert_eq!(of(1, 0, 0), of(1, 0, 0));
    for other in [of(1, 1, 0), of(2, 0, 0), of(1, 0, 1)] {
        assert_ne!(of(1, 0, 0), other);
    }
}

/// These values are a contract: checkpoints rely on them.
#[test]
fn the_order_is_fixed() {
    let order = EpochOrder::new(Order::Shuffled { seed: 42 }, Tail::Pad, 10, 4, 1, 0).unwrap();
    let shards: Vec<(u64, bool)> = (0..12).map(|place| order.shard_at(place)).collect();
    assert_eq!(
        shards.iter().map(|s| s.0).collect::<Vec<_>>(),
        [2, 9, 6, 0, 8, 3, 4, 5, 7, 1, 2, 9]
    );
    assert_eq!(shards.iter().filter(|s| s.1).count(), 2);
}

#[test]
fn resampled_draws_with_replacement() {
    let order = EpochOrder::new(Order::Resampled { seed: 3 }, Tail::Pad, 1000, 4, 0, 0).unwrap();
    let mut drawn: Vec<u64> = (0..order.places()).map(|place| order.shard_at(place).0).collect();
    drawn.sort_unstable();
    drawn.dedup();
    // 1 - 1/e of them come at least once.
    assert!((600..665).contains(&drawn.len()), "{}", drawn.len());
    let again = EpochOrder::new(Order::Resampled { seed: 3 }, Tail::Pad, 1000, 4, 1, 0).unwrap();
    assert_ne!(lane(&order, 0), lane(&again, 0));
}

#[test]
fn a_huge_epoch_costs_nothing() {
    let order = EpochOrder::new(Order::Shuffled { seed: 1 }, Tail::Drop, 1_000_000_007, 1024, 9, 0)
        .unwrap();
    let (a, b) = (order.shard_at(999_999_000).0, order.shard_at(0).0);
    assert!(a != b && a < 1_000_000_007);
    assert!(EpochOrder::new(Order::Listed, Tail::Pad, u64::MAX, 2, 0, 0).is_err());
    assert!(EpochOrder::new(Order::Listed, Tail::Pad, 1, 0, 0, 0).is_err());
}

/// The values of PiD itself.
#[test]
fn pid_order() {
    let of = |shards, world_size, num_workers, shuffle, rank: u32, worker: u32| {
        let order = Order::Pid { world_size, num_workers, shuffle };
        let order =
            EpochOrder::new(order, Tail::Pad, shards, world_size * num_workers, 5, 0).unwrap();
        lane(&order, rank + world_size * worker)
    };
    for (rank, worker, listed, shuffled) in [
        (0, 0, [0, 4, 8], [0, 8, 4]),
        (0, 1, [2, 6, 0], [6, 0, 2]),
        (1, 0, [1, 5, 9], [5, 9, 1]),
        (1, 1, [3, 7, 1], [7, 1, 3]),
    ] {
        assert_eq!(of(10, 2, 2, false, rank, worker), listed);
        assert_eq!(of(10, 2, 2, true, rank, worker), shuffled);
    }
    // Long enough that every seed gives another order; by CPython's own `random`.
    let long = |rank, worker| of(30, 2, 2, true, rank, worker);
    assert_eq!(long(0, 0), [16, 4, 20, 8, 0, 12, 28, 24]);
    assert_eq!(long(0, 1), [14, 26, 6, 22, 0, 2, 18, 10]);
    assert_eq!(long(1, 0), [21, 13, 17, 5, 9, 25, 29, 1]);
    assert_eq!(long(1, 1), [3, 23, 1, 11, 7, 27, 19, 15]);
    let first = |rank| (0..4).map(|worker| of(3, 2, 4, true, rank, worker)).collect::<Vec<_>>();
    assert_eq!(first(0), [[0], [2], [1], [0]]);
    assert_eq!(first(1), [[1], [0], [2], [1]]);
    let error = EpochOrder::new(
        Order::Pid { world_size: 2, num_workers: 2, shuffle: true },
        Tail::Pad,
        9,
        8,
        0,
        0,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "config: PiD's order of 2 ranks with 2 workers needs as many lanes, not 8"
    );
}

#[test]
fn pid_resume() {
    let start = |index: &'static str| {
        LegacyStart::from_vars(|name| (name == "WDS_START_INDEX").then(|| index.to_owned()))
    };
    let skip = |index| {
        start(index)
            .unwrap()
            .unwrap()
            .skip(10, 2, 6)
            .map(|skip| (skip.shards_of_lane, skip.repeated_samples))
    };
    // 12 shards of 10 samples on 2 workers.
    assert_eq!(skip("0").unwrap(), (0, 0));
    assert_eq!(skip("19").unwrap(), (0, 19));
    assert_eq!(skip("20").unwrap(), (1, 0));
    assert_eq!(skip("39").unwrap(), (1, 19));
    assert_eq!(skip("40").unwrap(), (2, 0));
    let error = skip("120").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "config: WDS_START_INDEX=120: nothing is left of the epoch, which has 6 shards"
        ),
        "{error}"
    );
    // Case G07: 10 samples seen, shards of 4, 2 workers.
    let skipped = start("10").unwrap().unwrap().skip(4, 2, 3).unwrap();
    assert_eq!(skipped.shards_of_lane, 1);
    assert!(
        skipped
            .warning()
            .unwrap()
            .contains("leaves out its first 1, so that each rank sees about 2 samples again")
    );
    assert_eq!(start("20").unwrap().unwrap().skip(10, 2, 6).unwrap().warning(), None);
    assert!(
        start("1e3")
            .unwrap_err()
            .to_string()
            .starts_with("config: WDS_START_INDEX=\"1e3\" is no count")
    );
    assert_eq!(LegacyStart::from_vars(|_| None).unwrap(), None);
    assert!(start("5").unwrap().unwrap().skip(0, 2, 6).is_err());
}
