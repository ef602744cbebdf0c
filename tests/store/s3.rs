//! The S3 client, against a scripted server: what is sent, and what is made of the answers. (Against a server of the protocol:
//! `tests/servers`.)

use std::time::Duration;

use bytes::Bytes;
use shardstream::store::{ByteRange, Store, StoreOptions, Stores};

use crate::conformance::{pattern, whole};
use crate::server::{Answer, Request, Server, Step, honest};

const V1: &str = "\"v1\"";

/// A store that knows this server alone, with keys that are good for nothing.
fn stores(server: &Server) -> Stores {
    let keys = [("aws_access_key_id", "fake-key"), ("aws_secret_access_key", "fake-secret")];
    stores_with(server, &keys)
}

fn stores_with(server: &Server, settings: &[(&str, &str)]) -> Stores {
    let mut options = StoreOptions::default();
    options.remote.part = 10_000;
    options.remote.retry.attempts = 5;
    options.remote.retry.first_delay = Duration::from_millis(1);
    options.remote.retry.longest_delay = Duration::from_millis(2);
    options.remote.retry.stall_timeout = Duration::from_millis(200);
    let endpoint = server.url("");
    let common = [
        ("aws_region", "us-east-1"),
        ("aws_endpoint", endpoint.as_str()),
        ("proxy_excludes", "127.0.0.1"),
        ("google_service_account", "somebody else's"),
    ];
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    options.settings = common.iter().chain(settings).map(owned).collect();
    Stores::new(options).unwrap()
}

/// Reads the object through a server with this script; with what was asked.
async fn read(
    script: impl Fn(&Request, &Bytes) -> Answer + Send + Sync + 'static,
) -> (Result<Bytes, shardstream::Error>, Vec<Request>) {
    let data = pattern(35_000);
    // S3 tells when an object was changed, in each answer.
    let served = move |request: &Request| {
        script(request, &data).with("last-modified", "Mon, 30 Nov 2026 00:00:00 GMT")
    };
    let server = Server::start(served).await;
    let result = whole(&stores(&server), "s3://bucket/dir/my shard#1.tar", ByteRange::ALL).await;
    if let Err(error) = &result {
        let text = format!("{error:?}");
        assert!(
            text.contains("s3://bucket/dir/my shard#1.tar") && !text.contains("fake-"),
            "{text}"
        );
    }
    (result, server.seen())
}

#[tokio::test]
async fn signed_ranges_of_one_version() {
    let (result, seen) = read(|request, data| honest(request, data, V1)).await;
    assert!(result.unwrap() == pattern(35_000));
    assert_eq!(seen.len(), 4);
    for (n, request) in seen.iter().enumerate() {
        assert_eq!(request.target, "/bucket/dir/my%20shard%231.tar");
        assert!(request.header("authorization").unwrap().contains("Credential=fake-key/"));
        assert_eq!(request.header("if-match"), (n > 0).then_some(V1));
    }
}

#[tokio::test]
async fn broken_bodies_and_impatient_servers() {
    let (result, seen) = read(|request, data| {
        let (start, end) = request.range().unwrap();
        match request.earlier {
            0 => {
                Answer::new(503).with("retry-after", 0).body("<Error><Code>SlowDown</Code></Error>")
            }
            _ if end.unwrap() - start > 3_000 => {
                honest(request, data, V1).cut(3_000, &[Step::Reset])
            }
            _ => honest(request, data, V1),
        }
    })
    .await;
    assert!(result.unwrap() == pattern(35_000));
    // Each cut costs one request: nobody below retries on top.
    assert_eq!(seen.len(), 1 + 3 * 4 + 2);
}

#[tokio::test]
async fn answers_of_which_the_error_says_nothing() {
    let (result, seen) = read(|_, _| {
        Answer::new(503).with("retry-after", 7200).body("<Error><Code>SlowDown</Code></Error>")
    })
    .await;
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("503") && text.contains("asks to wait 7200 s") && text.contains("SlowDown"),
        "{text}"
    );
    assert_eq!(seen.len(), 1);

    for (status, body, word) in [
        (403, "<Error><Code>AccessDenied</Code></Error>", "AccessDenied"),
        (404, "", "404"),
        (301, "", "301"),
    ] {
        let (result, seen) = read(move |_, _| Answer::new(status).body(body)).await;
        let error = result.unwrap_err();
        assert!(error.to_string().contains(word) && !error.is_transient(), "{error}");
        assert_eq!(seen.len(), 1, "{status}");
    }

    let (result, seen) = read(|_, _| Answer::new(500).body("")).await;
    assert!(result.unwrap_err().to_string().contains("gave up after 5 attempts"));
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn another_version_is_never_mixed_in() {
    let (result, _) = read(|request, data| {
        honest(request, data, if request.earlier == 0 { V1 } else { "\"v2\"" })
    })
    .await;
    let text = result.unwrap_err().to_string();
    assert!(text.contains("changed"), "{text}");
    // By a server that ignores If-Match.
    let (result, _) = read(|request, data| {
        let mut unasked = request.clone();
        unasked.headers.remove("if-match");
        honest(&unasked, data, if request.earlier == 0 { V1 } else { "\"v2\"" })
    })
    .await;
    let text = result.unwrap_err().to_string();
    assert!(text.contains("changed") && text.contains("v2"), "{text}");
}

#[tokio::test]
async fn an_empty_object_and_a_place_past_the_end() {
    let server = Server::start(|request| {
        let size = if request.target.ends_with("empty") { 0 } else { 100 };
        honest(request, &pattern(size), V1).with("last-modified", "Mon, 30 Nov 2026 00:00:00 GMT")
    })
    .await;
    let stores = stores(&server);
    assert_eq!(whole(&stores, "s3://bucket/empty", ByteRange::ALL).await.unwrap(), "");
    assert_eq!(
        whole(&stores, "s3://bucket/x", ByteRange { start: 100, end: None }).await.unwrap(),
        ""
    );
    assert_eq!(stores.head("s3://bucket/x").await.unwrap().size, Some(100));
}

#[tokio::test]
async fn keys_that_would_be_sent_as_others_are_refused() {
    let server = Server::start(|_| Answer::new(200).body("")).await;
    for path in
        ["s3://bucket", "s3://bucket/", "s3://bucket/a//b", "s3://bucket/a/../b", "s3://bucket/a/"]
    {
        let error = whole(&stores(&server), path, ByteRange::ALL).await.unwrap_err();
        assert!(error.to_string().contains("not a key"), "{error}");
    }
    assert!(server.seen().is_empty());
}

/// What was asked for the object itself.
fn of_object(seen: Vec<Request>) -> Vec<Request> {
    seen.into_iter().filter(|request| request.target.starts_with("/bucket/")).collect()
}

#[tokio::test]
async fn credentials_of_the_instance() {
    let data = pattern(35_000);
    let served = data.clone();
    let server = Server::start(move |request| match request.target.as_str() {
        "/latest/api/token" => Answer::new(200).body("session-of-metadata"),
        "/latest/meta-data/iam/security-credentials/" => Answer::new(200).body("the-role"),
        "/latest/meta-data/iam/security-credentials/the-role" => Answer::new(200).body(
            r#"{"AccessKeyId": "of-instance", "SecretAccessKey": "s", "Token": "of-role",
                "Expiration": "2099-01-01T00:00:00Z"}"#,
        ),
        _ => honest(request, &served, V1).with("last-modified", "Mon, 30 Nov 2026 00:00:00 GMT"),
    })
    .await;
    let stores = stores_with(&server, &[("aws_metadata_endpoint", &server.url(""))]);
    assert!(whole(&stores, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap() == data);
    let asked = of_object(server.seen());
    assert_eq!((asked.len(), server.seen().len()), (4, 7), "credentials are asked for once");
    for request in asked {
        assert!(request.header("authorization").unwrap().contains("Credential=of-instance/"));
        assert_eq!(request.header("x-amz-security-token"), Some("of-role"));
    }
    // No role: an error that says what is missing, in the end.
    let server = Server::start(|_| Answer::new(404).body("")).await;
    let stores = stores_with(&server, &[("aws_metadata_endpoint", &server.url(""))]);
    let error = whole(&stores, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("s3://bucket/x.tar") && text.contains("no credentials"), "{text}");
    assert!(of_object(server.seen()).is_empty(), "asked without credentials");
}

#[tokio::test]
async fn anonymous_and_paid_by_the_requester() {
    let data = pattern(35_000);
    let served = data.clone();
    let server = Server::start(move |request| {
        honest(request, &served, V1).with("last-modified", "Mon, 30 Nov 2026 00:00:00 GMT")
    })
    .await;
    let anonymous = stores_with(&server, &[("aws_skip_signature", "true")]);
    assert!(whole(&anonymous, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap() == data);
    assert!(server.seen().iter().all(|request| request.header("authorization").is_none()));
    let keys =
        [("aws_access_key_id", "k"), ("aws_secret_access_key", "s"), ("aws_request_payer", "true")];
    let paying = stores_with(&server, &keys);
    let before = server.seen().len();
    assert!(whole(&paying, "s3://bucket/x.tar", ByteRange::ALL).await.unwrap() == data);
    for request in &server.seen()[before..] {
        assert_eq!(request.header("x-amz-request-payer"), Some("requester"));
        assert!(request.header("authorization").unwrap().contains("x-amz-request-payer"));
    }
}

#[tokio::test]
async fn odd_keys_and_patience_until_a_date() {
    // What goes over the wire decodes to the key, to the byte.
    for (key, sent) in [
        ("a b.tar", "a%20b.tar"),
        ("100%.tar", "100%25.tar"),
        ("a%20b.tar", "a%2520b.tar"),
        ("s+p&q=r.tar", "s%2Bp%26q%3Dr.tar"),
        ("#1?v=2.tar", "%231%3Fv%3D2.tar"),
        ("é/猫.tar", "%C3%A9/%E7%8C%AB.tar"),
        ("a:b@c~d.tar", "a%3Ab%40c~d.tar"),
    ] {
        let server = Server::start(|request| {
            let date = "Mon, 30 Nov 2026 00:00:00 GMT";
            match request.earlier {
                0 => Answer::new(503).with("retry-after", date).with("date", date).body(""),
                _ => honest(request, &pattern(5_000), V1).with("last-modified", date),
            }
        })
        .await;
        let path = format!("s3://bucket/{key}");
        let got = whole(&stores(&server), &path, ByteRange::ALL).await.unwrap();
        assert!(got == pattern(5_000));
        assert_eq!(server.seen()[1].target, format!("/bucket/{sent}"), "{key}");
    }
    let (result, seen) = read(|_, _| {
        Answer::new(503)
            .with("date", "Mon, 30 Nov 2026 00:00:00 GMT")
            .with("retry-after", "Mon, 30 Nov 2026 02:00:00 GMT")
            .body("")
    })
    .await;
    let text = result.unwrap_err().to_string();
    assert!(text.contains("asks to wait 7200 s") && seen.len() == 1, "{text}");
}
