use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use shardstream::broadcast::{Alone, Broadcast, Meeting};
use shardstream::shard::{DataSet, Manifest};
use shardstream::store::{ByteRange, ByteStream, Local, Memory, Meta, Store};
use shardstream::topology::Rank;
use shardstream::{Error, Result};

/// Counts what is opened.
#[derive(Debug)]
struct Counting {
    store: Memory,
    reads: AtomicUsize,
}

impl Store for Counting {
    fn read(&self, path: &str, range: ByteRange) -> ByteStream {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.read(path, range)
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Meta>> {
        self.store.head(path)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Meta>>> {
        self.store.list(prefix)
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.store.put(path, bytes)
    }
}

fn counting(files: &[(&str, &str)]) -> Counting {
    let store = Memory::new();
    for (path, text) in files {
        store.insert(*path, text.as_bytes().to_vec());
    }
    Counting { store, reads: AtomicUsize::new(0) }
}

fn meetings(place: &Memory, run: &str, ranks: u32) -> Vec<Meeting> {
    let meeting = |rank| {
        let rank = Rank::new(rank, ranks).unwrap();
        Meeting::new(Arc::new(place.clone()), "meet", run, rank)
            .unwrap()
            .deadline(Duration::from_secs(60))
    };
    (0..ranks).map(meeting).collect()
}

async fn share(meeting: &Meeting, value: Result<Bytes>) -> Result<Bytes, String> {
    meeting.share("x", async { value }.boxed()).await.map_err(|e| e.to_string())
}

/// What a rank other than 0 would give, which nobody must see.
fn wrong() -> Result<Bytes> {
    Ok(Bytes::from_static(b"wrong"))
}

const DATA: [(&str, &str); 2] = [
    (
        "a/wdinfo.json",
        r#"{"data_list": ["p/0.tar", "p/1.tar"], "data_list_key_count": [1, 2], "data_keys": ["image"]}"#,
    ),
    ("b/wdinfo.json", r#"{"data_list": ["x.tar"], "total_key_count": 9}"#),
];

#[tokio::test(start_paused = true)]
async fn manifests_are_read_once() {
    let store = counting(&DATA);
    let sets = [
        ("a".to_owned(), DataSet::at("a").store(Arc::new(store.store.clone()))),
        ("b".to_owned(), DataSet::at_all(["b", "y-{0..9}.tar", "z.tar"])),
    ];
    let place = Memory::new();
    let meetings = meetings(&place, "run", 4);
    let all =
        join_all(meetings.iter().map(|meeting| Manifest::shared(meeting, &store, &sets))).await;
    // The first data set has a store of its own.
    assert_eq!(store.reads.load(Ordering::Relaxed), 1);
    let own = Manifest::of_data_sets(&store, &sets).await.unwrap();
    for manifest in all {
        let manifest = manifest.unwrap();
        assert_eq!((manifest.hash(), manifest.sources()), (own.hash(), own.sources()));
        for i in 0..own.len() {
            assert_eq!((manifest.path(i), manifest.samples(i)), (own.path(i), own.samples(i)));
            assert_eq!(format!("{:?}", manifest.leaf(i)), format!("{:?}", own.leaf(i)));
            assert_eq!(manifest.leaf(i).store().is_some(), i < 2);
        }
    }
    let alone = Manifest::shared(&Alone, &store, &sets).await.unwrap();
    assert_eq!(alone.hash(), own.hash());
}

#[tokio::test(start_paused = true)]
async fn all_get_the_error_of_rank_0() {
    let store = counting(&[("a/wdinfo.json", r#"{"data_list": ["p/0.tar"], "root": 7}"#)]);
    let sets = [("a".to_owned(), DataSet::at("a"))];
    let place = Memory::new();
    let meetings = meetings(&place, "run", 4);
    let start = tokio::time::Instant::now();
    let all =
        join_all(meetings.iter().map(|meeting| Manifest::shared(meeting, &store, &sets))).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let errors: Vec<String> =
        all.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(errors[0].contains("manifest: field root in a/wdinfo.json: is wrong"), "{}", errors[0]);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_come_is_named() {
    for (absent, want) in [
        (vec![2], "task: meet/run/x: shared by rank 0: rank 2 of 4 did not come within 60s"),
        (vec![1, 3], "task: meet/run/x: shared by rank 0: ranks 1, 3 of 4 did not come within 60s"),
        (vec![0], "task: meet/run/x: shared by rank 0: rank 0 of 4 did not come within 60s"),
    ] {
        let place = Memory::new();
        let all = meetings(&place, "run", 4);
        let present = all.iter().enumerate().filter(|(rank, _)| !absent.contains(rank));
        for result in join_all(present.map(|(_, meeting)| share(meeting, Ok("v".into())))).await {
            assert_eq!(result.unwrap_err(), want);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn late_ranks_are_waited_for() {
    let place = Memory::new();
    let all = meetings(&place, "run", 3);
    let late = async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        share(&all[1], wrong()).await
    };
    let (first, second, third) =
        futures::join!(share(&all[0], Ok("value".into())), late, share(&all[2], wrong()));
    assert_eq!(
        [first, second, third],
        [Ok("value".into()), Ok("value".into()), Ok("value".into())]
    );
    // An error is heard before all have come.
    let all = meetings(&place, "run2", 3);
    let start = tokio::time::Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        share(&all[1], wrong()).await
    };
    let timed = async { (share(&all[2], wrong()).await, start.elapsed()) };
    let (first, second, (third, after)) =
        futures::join!(share(&all[0], Err(Error::manifest("bad"))), late, timed);
    assert!(after < Duration::from_secs(1), "{after:?}");
    assert!(first.is_err() && first == second && second == third);
}

#[tokio::test(start_paused = true)]
async fn rank_0_that_takes_too_long_is_named() {
    let place = Memory::new();
    let all = meetings(&place, "run", 2);
    let never = async {
        all[0].share("x", futures::future::pending().boxed()).await.map_err(|e| e.to_string())
    };
    let (first, second) = futures::join!(never, share(&all[1], wrong()));
    assert_eq!(
        first.clone().unwrap_err(),
        "task: meet/run/x: shared by rank 0: not done within 60s"
    );
    assert_eq!(first, second);
    // Rank 0 dies after it came.
    let all = meetings(&place, "run2", 2);
    let died = tokio::time::timeout(
        Duration::from_secs(1),
        all[0].share("x", futures::future::pending().boxed()),
    );
    let (died, second) = futures::join!(died, share(&all[1], wrong()));
    assert!(died.is_err());
    assert_eq!(
        second.unwrap_err(),
        "task: meet/run2/x: shared by rank 0: rank 0 came but said nothing within 60s"
    );
}

/// The remains of an earlier run under the same id are not taken for an answer.
#[tokio::test(start_paused = true)]
async fn old_answers_do_not_count() {
    let place = Memory::new();
    for value in ["old", "new"] {
        let all = meetings(&place, "run", 3);
        let late_lead = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            share(&all[0], Ok(value.into())).await
        };
        let (first, second, third) =
            futures::join!(late_lead, share(&all[1], wrong()), share(&all[2], wrong()));
        assert_eq!([first, second, third], [Ok(value.into()), Ok(value.into()), Ok(value.into())]);
    }
}

#[tokio::test]
async fn through_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let all: Vec<Meeting> = (0..3)
        .map(|rank| Meeting::new(Arc::new(Local), path, "7", Rank::new(rank, 3).unwrap()).unwrap())
        .collect();
    let value = || Ok(Bytes::from(vec![7; 1 << 20]));
    for result in join_all(all.iter().map(|meeting| share(meeting, value()))).await {
        assert_eq!(result.unwrap().len(), 1 << 20);
    }
    assert!(Meeting::new(Arc::new(Local), path, "", Rank::SINGLE).is_err());
    assert!(Meeting::new(Arc::new(Local), path, "a/b", Rank::SINGLE).is_err());
}
