//! S3, against a server of the protocol in this process, straight and through a proxy that harms connections.

use std::net::SocketAddr;
use std::path::Path;

use hyper_util::rt::{TokioExecutor, TokioIo};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use shardstream::store::{ByteRange, Stores};
use tokio::net::TcpListener;

use crate::conformance::{conforms, uploads, whole};
use crate::harmed::{each_sample_comes_once, fill, in_bucket};

/// Serves the folders below `root` as buckets.
async fn serve(root: &Path) -> SocketAddr {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    builder.set_auth(SimpleAuth::from_single("fake-key", "fake-secret"));
    let service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service.clone();
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // A client that goes away is no fault of the server.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// A store that knows this server alone.
fn stores(address: SocketAddr, part: u64, secret: &str) -> Stores {
    let settings = [
        ("aws_access_key_id", "fake-key"),
        ("aws_secret_access_key", secret),
        ("aws_region", "us-east-1"),
        ("aws_endpoint", &format!("http://{address}")),
        ("proxy_excludes", "127.0.0.1"),
    ];
    crate::stores(&settings, part)
}

fn stores_of(address: SocketAddr) -> Stores {
    stores(address, 30_000, "fake-secret")
}

fn bucket() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bucket")).unwrap();
    root
}

#[tokio::test]
async fn s3_keeps_the_laws() {
    let root = bucket();
    let stores = stores(serve(root.path()).await, 100_000, "fake-secret");
    conforms(&stores, "s3://bucket/base", 350_001).await;
    uploads(&stores, "s3://bucket/up").await;
}

#[tokio::test]
async fn wrong_keys_are_final_and_not_shown() {
    let root = bucket();
    let address = serve(root.path()).await;
    let stores = stores(address, 10_000, "another-secret");
    let error = whole(&stores, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap_err();
    let text = format!("{error} {error:?} {stores:?}");
    assert!(
        text.contains("status 403") && !text.contains("another-secret") && !error.is_transient(),
        "{text}"
    );
    // No bucket of that name.
    let error = whole(&stores_of(address), "s3://none/x.tar", ByteRange::ALL).await.unwrap_err();
    assert!(
        error.to_string().contains("404") && error.to_string().contains("s3://none/x.tar"),
        "{error}"
    );
}

#[tokio::test]
async fn harmed_connections_never_change_the_data() {
    let root = bucket();
    let server = serve(root.path()).await;
    fill(&stores_of(server), "s3://bucket/base").await;
    each_sample_comes_once(server, stores_of, |_, shard| in_bucket("s3://bucket/base", shard))
        .await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_in_time() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = whole(&stores_of(address), "s3://bucket/x.tar", ByteRange::ALL).await.unwrap_err();
    assert!(
        error.to_string().contains("gave up after 20 attempts") && error.is_transient(),
        "{error}"
    );
}
