//! S3 as moto understands it; and, since it believes any signature, plain HTTP with ranges.

use std::net::SocketAddr;

use shardstream::store::Stores;

use crate::conformance::{conforms, uploads};
use crate::harmed::{each_sample_comes_once, fill, in_bucket, in_url};

fn stores(endpoint: &str, part: u64) -> Stores {
    let settings = [
        ("aws_access_key_id", "fake-key"),
        ("aws_secret_access_key", "fake-secret"),
        ("aws_region", "us-east-1"),
        ("aws_endpoint", endpoint),
        ("proxy_excludes", "127.0.0.1"),
    ];
    crate::stores(&settings, part)
}

#[tokio::test]
async fn moto_keeps_the_laws() {
    let Some(server) = crate::server("SHARDSTREAM_MOTO") else { return };
    let stores = stores(&format!("http://{server}"), 1 << 20);
    conforms(&stores, "s3://bucket/base", 3_500_001).await;
    uploads(&stores, "s3://bucket/up").await;
}

#[tokio::test]
async fn harmed_connections_never_change_the_data() {
    let Some(server) = crate::server("SHARDSTREAM_MOTO") else { return };
    let base = "s3://bucket/harmed";
    fill(&stores(&format!("http://{server}"), 100_000), base).await;
    let through = |proxy: SocketAddr| stores(&format!("http://{proxy}"), 100_000);
    each_sample_comes_once(server, through, |_, shard| in_bucket(base, shard)).await;
}

#[tokio::test]
async fn plain_http_with_ranges() {
    let Some(server) = crate::server("SHARDSTREAM_MOTO") else { return };
    fill(&stores(&format!("http://{server}"), 100_000), "s3://bucket/http").await;
    let url = |proxy, shard| {
        let url = in_url(&format!("http://{proxy}/bucket/http"), shard);
        format!("{url}?X-Amz-Signature=any")
    };
    each_sample_comes_once(server, |_| crate::stores(&[], 100_000), url).await;
}
