//! Azure Blob Storage as azurite understands it.

use std::net::SocketAddr;

use shardstream::store::{ByteRange, Stores};

use crate::conformance::{conforms, uploads, whole};
use crate::harmed::{each_sample_comes_once, fill, in_bucket};

/// The emulator's key, the same for everybody.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn stores(address: SocketAddr, part: u64, key: &str) -> Stores {
    let settings = [
        ("azure_storage_account_name", "devstoreaccount1"),
        ("azure_storage_account_key", key),
        ("azure_storage_endpoint", &format!("http://{address}/devstoreaccount1")),
        ("proxy_excludes", "127.0.0.1"),
        ("aws_region", "somebody else's"),
    ];
    crate::stores(&settings, part)
}

#[tokio::test]
async fn azurite_keeps_the_laws() {
    let Some(server) = crate::server("SHARDSTREAM_AZURITE") else { return };
    let stores = stores(server, 1 << 20, KEY);
    conforms(&stores, "az://bucket/base", 3_500_001).await;
    uploads(&stores, "az://bucket/up").await;
}

#[tokio::test]
async fn harmed_connections_never_change_the_data() {
    let Some(server) = crate::server("SHARDSTREAM_AZURITE") else { return };
    let base = "az://bucket/harmed";
    fill(&stores(server, 100_000, KEY), base).await;
    let through = |proxy| stores(proxy, 100_000, KEY);
    each_sample_comes_once(server, through, |_, shard| in_bucket(base, shard)).await;
}

#[tokio::test]
async fn wrong_keys_are_final_and_not_shown() {
    let Some(server) = crate::server("SHARDSTREAM_AZURITE") else { return };
    let wrong = "d3Jvbmcta2V5LXdyb25nLWtleQ==";
    let stores = stores(server, 100_000, wrong);
    let error = whole(&stores, "az://bucket/x.tar", ByteRange::ALL).await.unwrap_err();
    let text = format!("{error} {error:?} {stores:?}");
    assert!(
        text.contains("status 403") && !text.contains(wrong) && !error.is_transient(),
        "{text}"
    );
}
