use std::collections::HashMap;

use proptest::prelude::*;
use shardstream::topology::{
    Rank, Worker, lane_of_place, places_of_lane, rank_of_lane, worker_of_lane,
};

fn from(vars: &[(&str, &str)]) -> Result<Rank, String> {
    let vars: HashMap<&str, &str> = vars.iter().copied().collect();
    Rank::from_vars(|name| vars.get(name).map(|&value| value.to_owned())).map_err(|e| e.to_string())
}

#[test]
fn launchers() {
    let rank = |rank, size| Ok(Rank::new(rank, size).unwrap());
    assert_eq!(from(&[]), rank(0, 1));
    assert_eq!(from(&[("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")]), rank(3, 8));
    assert_eq!(from(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]), rank(2, 4));
    assert_eq!(from(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), rank(1, 2));
    assert_eq!(from(&[("SLURM_PROCID", "5"), ("SLURM_NTASKS", "16")]), rank(5, 16));
    // A step of 4 tasks in an allocation of 16.
    assert_eq!(
        from(&[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "16"), ("SLURM_STEP_NUM_TASKS", "4")]),
        rank(3, 4)
    );
    // torchrun inside an allocation of SLURM; a job script, which is no task.
    assert_eq!(
        from(&[("RANK", "1"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]),
        rank(1, 2)
    );
    assert_eq!(from(&[("SLURM_NTASKS", "16")]), rank(0, 1));
}

#[test]
fn errors_name_the_variable() {
    for (vars, want) in [
        (&[("RANK", "3")][..], "config: RANK is set (torchrun) but WORLD_SIZE is not"),
        (&[("PMI_SIZE", "3")], "config: PMI_SIZE is set (PMI) but PMI_RANK is not"),
        (
            &[("RANK", "x"), ("WORLD_SIZE", "8")],
            "config: RANK=\"x\" is no count: invalid digit found in string",
        ),
        (
            &[("RANK", "0"), ("WORLD_SIZE", "-1")],
            "config: WORLD_SIZE=\"-1\" is no count: invalid digit found in string",
        ),
        (
            &[("SLURM_PROCID", "4"), ("SLURM_NTASKS", "4")],
            "config: SLURM_PROCID and SLURM_NTASKS (SLURM): rank 4 of world size 4: ranks count from 0",
        ),
    ] {
        assert_eq!(from(vars).unwrap_err(), want);
    }
}

#[test]
fn groups_in_megatrons_order() {
    // 16 processes, tensor 2, context 2, pipeline 2: two groups of 8.
    let group = |process| Rank::new(process, 16).unwrap().data_parallel(2, 2, 2).unwrap().rank();
    assert_eq!(
        (0..16).map(group).collect::<Vec<_>>(),
        [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]
    );
    // PiD's rule without a pipeline: groups of neighbours.
    let group = |process| Rank::new(process, 4).unwrap().data_parallel(2, 1, 1).unwrap().rank();
    assert_eq!((0..4).map(group).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let error = Rank::new(0, 12).unwrap().data_parallel(8, 1, 1).unwrap_err().to_string();
    assert_eq!(error, "config: world size 12 is no multiple of tensor 8 * context 1 * pipeline 1");
    assert!(Rank::new(0, 12).unwrap().data_parallel(u32::MAX, u32::MAX, 2).is_err());
    assert!(Rank::new(0, 12).unwrap().data_parallel(0, 1, 1).is_err());
}

#[test]
fn groups_as_given() {
    let rank = Rank::new(2, 4).unwrap();
    assert_eq!(rank.in_groups(&[vec![0, 2], vec![1, 3]]).unwrap(), Rank::new(0, 2).unwrap());
    assert_eq!(
        Rank::new(3, 4).unwrap().in_groups(&[vec![0, 2], vec![1, 3]]).unwrap(),
        Rank::new(1, 2).unwrap()
    );
    for (groups, want) in [
        (vec![vec![0, 2], vec![1]], "config: process 3 of world size 4 is in no group"),
        (vec![vec![0, 2], vec![1, 3, 0]], "config: process 0 is in group 0 and in group 1"),
        (vec![vec![0, 2], vec![1, 4]], "config: group 1: process 4 of world size 4"),
        (vec![vec![0, 1, 2, 3], vec![]], "config: group 1 has no process"),
    ] {
        assert_eq!(rank.in_groups(&groups).unwrap_err().to_string(), want);
    }
}

proptest! {
    /// Each lane is run by exactly one worker of one rank, and the functions agree on which.
    #[test]
    fn lanes_are_partitioned(lanes in 1u32..200, world_size in 1u32..20, num_workers in 1u32..10) {
        let mut runs = vec![0; lanes as usize];
        for r in 0..world_size {
            let rank = Rank::new(r, world_size).unwrap();
            let mut of_rank = vec![];
            for k in 0..num_workers {
                let worker = Worker::new(k, num_workers).unwrap();
                for lane in worker.lanes(rank, lanes) {
                    runs[lane as usize] += 1;
                    prop_assert!(worker.runs(rank, lane));
                    prop_assert_eq!((rank_of_lane(lane, world_size), worker_of_lane(lane, world_size, num_workers)), (r, k));
                    of_rank.push(lane);
                }
                prop_assert_eq!((0..lanes).filter(|&l| worker.runs(rank, l)).count(), worker.lanes(rank, lanes).count());
            }
            of_rank.sort_unstable();
            prop_assert_eq!(of_rank, rank.lanes(lanes).collect::<Vec<_>>());
        }
        prop_assert!(runs.iter().all(|&n| n == 1), "{:?}", runs);
    }

    /// With one lane for each worker this is `list[r::R][k::K]`.
    #[test]
    fn lanes_are_the_familiar_slices(places in 0u64..100, world_size in 1u32..8, num_workers in 1u32..5) {
        let lanes = world_size * num_workers;
        for r in 0..world_size {
            for k in 0..num_workers {
                let worker = Worker::new(k, num_workers).unwrap();
                let lane: Vec<u32> = worker.lanes(Rank::new(r, world_size).unwrap(), lanes).collect();
                let familiar: Vec<u64> = (0..places).skip(r as usize).step_by(world_size as usize)
                    .skip(k as usize).step_by(num_workers as usize).collect();
                prop_assert_eq!((0..places).filter(|&p| lane == [lane_of_place(p, lanes)]).collect::<Vec<_>>(), familiar.clone());
                prop_assert_eq!(places_of_lane(places, lane[0], lanes), familiar.len() as u64);
            }
        }
    }
}
