//! Google Cloud Storage: as fake-gcs-server understands it (it reads as the real one, and takes objects by another interface than is used
//! here), and what is sent to a scripted server.

use std::net::SocketAddr;

use shardstream::store::{ByteRange, Memory, Store, Stores};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::conformance::{pattern, whole};
use crate::harmed::{each_sample_comes_once, fill, in_bucket};
use crate::scripted::{Answer, Server, honest};

const UNSIGNED: &str =
    r#"{"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": true}"#;

fn stores(address: SocketAddr, settings: &[(&str, &str)]) -> Stores {
    let url = format!("http://{address}");
    crate::stores(&[&[("google_base_url", url.as_str())], settings].concat(), 100_000)
}

/// Uploads by the JSON interface.
async fn upload(server: SocketAddr, key: &str, data: &[u8]) {
    let name: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let head = format!(
        "POST /upload/storage/v1/b/bucket/o?uploadType=media&name={name} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        data.len()
    );
    let mut stream = tokio::net::TcpStream::connect(server).await.unwrap();
    stream.write_all(&[head.as_bytes(), data].concat()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn fake_gcs_server_through_harmed_connections() {
    let Some(server) = crate::server("SHARDSTREAM_GCS") else { return };
    let memory = Memory::new();
    fill(&memory, "base").await;
    for meta in memory.list("base").await.unwrap() {
        upload(server, &meta.path, &memory.get(&meta.path).unwrap()).await;
    }
    // It answers under its own name alone: the harm is done by what passes for a proxy of the web.
    let through = |proxy: SocketAddr| {
        let proxy = format!("http://{proxy}");
        stores(server, &[("google_service_account_key", UNSIGNED), ("proxy_url", &proxy)])
    };
    let url = |_, shard| in_bucket("gs://bucket/base", shard);
    each_sample_comes_once(server, through, url).await;
    let stores = |address| stores(address, &[("google_service_account_key", UNSIGNED)]);
    let listed = stores(server).list("gs://bucket/base").await.unwrap();
    assert_eq!(listed.len(), memory.list("base").await.unwrap().len());
    let path = in_bucket("gs://bucket/base", 0);
    let all = memory.get(&in_bucket("base", 0)).unwrap();
    assert_eq!(stores(server).head(&path).await.unwrap().size, Some(all.len() as u64));
    let range = ByteRange { start: 99_999, end: Some(200_001) };
    assert!(whole(&stores(server), &path, range).await.unwrap() == all[99_999..200_001]);
    let error = whole(&stores(server), "gs://bucket/none.tar", ByteRange::ALL).await.unwrap_err();
    assert!(error.to_string().contains("404") && !error.is_transient(), "{error}");
}

#[tokio::test]
async fn tokens_and_none() {
    let data = pattern(250_000);
    let served = data.clone();
    let server = Server::start(move |request| {
        let date = "Mon, 30 Nov 2026 00:00:00 GMT";
        match request.earlier {
            0 => Answer::new(503).with("retry-after", date).with("date", date).body(""),
            _ => honest(request, &served, "\"v1\"").with("last-modified", date),
        }
    })
    .await;
    let address = server.url("").trim_start_matches("http://").parse().unwrap();
    for (n, (setting, sent)) in [
        (("google_bearer_token", "t0ken"), Some("Bearer t0ken")),
        (("google_skip_signature", "true"), None),
    ]
    .into_iter()
    .enumerate()
    {
        let stores = stores(address, &[setting]);
        let path = format!("gs://bucket/a b%{n}#.tar");
        let before = server.seen().len();
        assert!(whole(&stores, &path, ByteRange::ALL).await.unwrap() == data);
        let seen = &server.seen()[before..];
        assert_eq!(seen.len(), 4);
        for request in seen {
            assert_eq!(request.target, format!("/bucket/a%20b%25{n}%23%2Etar"));
            assert_eq!(request.header("authorization"), sent);
        }
        assert!(!format!("{stores:?}").contains("t0ken"));
    }
    let wrong = stores(address, &[("google_bukket", "x")]);
    let error = whole(&wrong, "gs://bucket/x", ByteRange::ALL).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("google_bukket"), "{error}");
}
