//! The real chain over a network that harms connections: every sample comes once, unchanged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use servers::{Harm, Proxy};
use shardstream::prelude::*;
use shardstream::random::Rng;
use shardstream::store::Stores;
use shardstream::testing::tar;

const SHARDS: usize = 3;
const SAMPLES: usize = 25;

fn body(shard: usize, sample: usize) -> Vec<u8> {
    let mut rng = Rng::keyed(&[shard as u64, sample as u64]);
    (0..2_000 + rng.below(18_000)).map(|_| rng.below(256) as u8).collect()
}

fn name(base: &str, shard: usize) -> String {
    format!("{base}/odd name %20+#{shard}.tar")
}

/// Puts the shards where they are read from.
pub(crate) async fn fill(store: &dyn Store, base: &str) {
    for shard in 0..SHARDS {
        let files: Vec<_> = (0..SAMPLES)
            .map(|sample| (format!("s{shard}_k{sample}.bin"), body(shard, sample)))
            .collect();
        let files: Vec<_> = files.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
        store.put(&name(base, shard), tar(&files)).await.unwrap();
    }
}

/// Reads what [`fill`] has put there, several times, each time through another proxy that harms connections in other ways. `store` says which
/// store goes through the proxy at an address, and `url` how a shard is called there.
pub(crate) async fn each_sample_comes_once(
    upstream: SocketAddr,
    store: impl Fn(SocketAddr) -> Stores,
    url: impl Fn(SocketAddr, usize) -> String,
) {
    let mut harmed = 0;
    for seed in 0..4 {
        let proxy = Proxy::start(upstream, move |n| {
            let mut rng = Rng::keyed(&[seed, n as u64]);
            let after = rng.below(60_000) as usize;
            match rng.below(8) {
                0 => Harm::Reset(after),
                1 => Harm::Close(after),
                2 if n % 3 == 0 => Harm::Stall(after),
                3 => Harm::Late(Duration::from_millis(5)),
                4 => Harm::Throttle(4_000, Duration::from_millis(1)),
                _ => Harm::None,
            }
        })
        .await;
        let paths = (0..SHARDS).map(|shard| url(proxy.address, shard));
        let manifest = Manifest::of_shards(paths).unwrap();
        let chain = shard_list(&manifest).open_twins(store(proxy.address)).expand();
        let mut samples = chain.group_by_keys();
        let mut came: BTreeMap<String, Bytes> = BTreeMap::new();
        while let Some(sample) = samples.next().await {
            let sample = sample.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let (key, fields) = (sample.head.key.to_string(), sample.body);
            let data = fields.iter().next().unwrap().1.clone();
            assert!(came.insert(key.clone(), data).is_none(), "seed {seed}: {key} came twice");
        }
        assert_eq!(came.len(), SHARDS * SAMPLES, "seed {seed}");
        for (shard, sample) in (0..SHARDS).flat_map(|s| (0..SAMPLES).map(move |k| (s, k))) {
            assert!(
                came[&format!("s{shard}_k{sample}")] == body(shard, sample),
                "seed {seed}: other bytes"
            );
        }
        harmed += proxy.harmed();
    }
    assert!(harmed > 3, "{harmed}: nothing was tried");
}

/// A shard's path in a bucket.
pub(crate) fn in_bucket(base: &str, shard: usize) -> String {
    name(base, shard)
}

/// The same path in a URL.
pub(crate) fn in_url(base: &str, shard: usize) -> String {
    format!("{base}/odd%20name%20%2520%2B%23{shard}.tar")
}
