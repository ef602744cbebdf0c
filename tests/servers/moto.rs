//! S3 as moto understands it.

use shardstream::store::{ByteRange, Store};

use crate::conformance::{conforms, pattern, whole};

#[tokio::test]
async fn moto_keeps_the_laws() {
    let Some(endpoint) = crate::server("SHARDSTREAM_MOTO") else { return };
    let settings = [
        ("aws_access_key_id", "fake-key"),
        ("aws_secret_access_key", "fake-secret"),
        ("aws_region", "us-east-1"),
        ("aws_endpoint", &endpoint),
    ];
    // moto takes its time for each request.
    let mut stores = crate::stores(&settings, 1 << 20);
    conforms(&stores, "s3://bucket/base", 3_500_001).await;
    stores = crate::stores(&settings, 100_000);
    stores.put("s3://bucket/x.tar", pattern(750_000)).await.unwrap();
    assert!(whole(&stores, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap() == pattern(750_000));
}
