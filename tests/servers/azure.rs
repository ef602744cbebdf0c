//! Azure Blob Storage as azurite understands it.

use crate::conformance::conforms;

#[tokio::test]
async fn azurite_keeps_the_laws() {
    let Some(endpoint) = crate::server("SHARDSTREAM_AZURITE") else { return };
    let settings = [
        ("azure_storage_account_name", "devstoreaccount1"),
        // The emulator's key, the same for everybody.
        (
            "azure_storage_account_key",
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        ),
        ("azure_storage_endpoint", &endpoint),
        ("azure_allow_http", "true"),
    ];
    conforms(&crate::stores(&settings, 1 << 20), "az://bucket/base", 3_500_001).await;
}
