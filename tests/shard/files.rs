use std::sync::Arc;

use futures::StreamExt;
use proptest::prelude::*;
use shardstream::shard::{DistributedSampler, FileList, file_list, image_folder};
use shardstream::stages::read_files;
use shardstream::store::{Local, Memory};
use shardstream::topology::Rank;

fn store(paths: &[&str]) -> Memory {
    let store = Memory::new();
    for path in paths {
        store.insert(*path, path.as_bytes().to_vec());
    }
    store
}

fn names(files: &FileList) -> Vec<String> {
    (0..files.len()).map(|file| files.name(file)).collect()
}

#[tokio::test]
async fn files_by_folder_then_name() {
    let store = store(&["d/b.txt", "d/a/z.txt", "d/a/b/0", "d/a-x/1", "dd/no", "d/0"]);
    let files = file_list(&store, "d/").await.unwrap();
    assert_eq!(names(&files), ["0", "b.txt", "a/z.txt", "a-x/1", "a/b/0"]);
    assert_eq!((files.path(2), files.class(2)), ("d/a/z.txt".into(), None));
    let error = file_list(&store, "none").await.unwrap_err().to_string();
    assert_eq!(error, "manifest: none: holds no files that are wanted");
}

#[tokio::test]
async fn classes_are_folders() {
    let store = store(&[
        "d/dog/1.jpg",
        "d/cat-x/1.webp",
        "d/cat/sub/2.PNG",
        "d/cat/9.tiff",
        "d/cat/x.txt",
        "d/top.jpg",
        "d/empty/x.md",
    ]);
    let files = image_folder(&store, "d").await.unwrap();
    assert_eq!(names(&files), ["cat/9.tiff", "cat/sub/2.PNG", "cat-x/1.webp", "dog/1.jpg"]);
    assert_eq!(files.classes(), ["cat", "cat-x", "dog"]);
    assert_eq!(
        (0..4).map(|file| files.class(file)).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(1), Some(2)]
    );
    assert!(image_folder(&store, "d/cat").await.is_ok_and(|files| files.classes() == ["sub"]));
    assert!(image_folder(&store, "d/dog").await.is_err());
}

fn of(len: usize, rank: u32, ranks: u32, drop_last: bool) -> Vec<usize> {
    let sampler = DistributedSampler::new(len, Rank::new(rank, ranks).unwrap()).unwrap().in_order();
    let sampler = if drop_last { sampler.drop_last() } else { sampler };
    let dealt: Vec<usize> = sampler.iter().collect();
    assert_eq!(dealt.len() as u64, sampler.len());
    dealt
}

/// What PyTorch's documentation and source say of its sampler, on small numbers.
#[test]
fn strided_padded_or_cut() {
    assert_eq!(
        (0..3).map(|rank| of(10, rank, 3, false)).collect::<Vec<_>>(),
        [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    );
    assert_eq!(
        (0..3).map(|rank| of(10, rank, 3, true)).collect::<Vec<_>>(),
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    );
    assert_eq!(
        (0..3).map(|rank| of(9, rank, 3, true)).collect::<Vec<_>>(),
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    );
    // Padded more than once round.
    assert_eq!(
        (0..5).map(|rank| of(2, rank, 5, false)).collect::<Vec<_>>(),
        [[0], [1], [0], [1], [0]]
    );
    assert_eq!(of(2, 0, 5, true), [0usize; 0]);
    assert!(DistributedSampler::new(0, Rank::SINGLE).is_err());
}

proptest! {
    #[test]
    fn everything_is_dealt_out(len in 1usize..200, ranks in 1u32..9, seed: u64, drop_last: bool) {
        let deal = |epoch| {
            let mut all = vec![];
            for rank in 0..ranks {
                let sampler = DistributedSampler::new(len, Rank::new(rank, ranks).unwrap()).unwrap().seed(seed);
                let mut sampler = if drop_last { sampler.drop_last() } else { sampler };
                sampler.set_epoch(epoch);
                all.push(sampler.iter().collect::<Vec<_>>());
            }
            all
        };
        let all = deal(0);
        prop_assert!(all.iter().all(|dealt| dealt.len() == all[0].len()));
        let mut seen = vec![0; len];
        all.iter().flatten().for_each(|&number| seen[number] += 1);
        let twice = all.iter().map(Vec::len).sum::<usize>().saturating_sub(len);
        if drop_last {
            prop_assert!(seen.iter().all(|&n| n <= 1));
            prop_assert!(seen.iter().filter(|&&n| n == 0).count() < ranks as usize);
        } else {
            prop_assert!(seen.iter().all(|&n| n >= 1) && twice < ranks as usize);
        }
        prop_assert_eq!(&all, &deal(0));
        prop_assert!(len < 30 || all != deal(1));
    }
}

#[tokio::test]
async fn files_become_samples() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    for class in ["a", "b"] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        for i in 0..5 {
            std::fs::write(folder.path().join(format!("{class}/{i}.x.jpg")), format!("{class}{i}"))
                .unwrap();
        }
    }
    let files = Arc::new(image_folder(&Local, root).await.unwrap());
    std::fs::remove_file(folder.path().join("a/3.x.jpg")).unwrap();
    let mut seen = vec![];
    for rank in 0..2 {
        let sampler =
            DistributedSampler::new(files.len(), Rank::new(rank, 2).unwrap()).unwrap().seed(9);
        let order: Vec<String> = sampler.iter().map(|file| files.name(file)).collect();
        let samples: Vec<_> =
            read_files(Arc::new(Local), Arc::clone(&files), &sampler, 3).collect().await;
        assert_eq!(samples.len(), 5);
        for (ordinal, (sample, name)) in samples.into_iter().zip(order).enumerate() {
            if name == "a/3.x.jpg" {
                let error = sample.unwrap_err();
                assert!(error.concerns_one_sample() && error.position().is_some(), "{error}");
                assert_eq!(
                    (error.key(), error.shard()),
                    (Some("a/3"), Some(&*format!("{root}/{name}")))
                );
                continue;
            }
            let sample = sample.unwrap();
            let position = sample.head.position();
            assert_eq!(
                (position.ordinal, position.lane, position.place),
                (ordinal as u64, rank, 2 * ordinal as u64 + u64::from(rank))
            );
            assert_eq!(sample.key().as_str(), name.strip_suffix(".x.jpg"));
            let bytes = sample.body.get("x.jpg").unwrap();
            assert_eq!(String::from_utf8_lossy(bytes), name.replace('/', "").replace(".x.jpg", ""));
            assert_eq!(
                &sample.body.get("cls").unwrap()[..],
                if name.starts_with('a') { b"0" } else { b"1" }
            );
            seen.push(name);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 9);
}
