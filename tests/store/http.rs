//! HTTP servers that misbehave: the data never changes, and what can't be had is an error with a name.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use shardstream::store::{ByteRange, Http, Remote, RemoteOptions, RetryOptions, Store};

use crate::conformance::{pattern, whole};
use crate::server::{Answer, Request, Server, Step, honest};

const V1: &str = "\"v1\"";

fn options() -> RemoteOptions {
    let mut retry = RetryOptions::default();
    retry.attempts = 6;
    retry.first_delay = Duration::from_millis(1);
    retry.longest_delay = Duration::from_millis(2);
    retry.stall_timeout = Duration::from_millis(100);
    retry.seed = Some(1);
    let mut options = RemoteOptions::default();
    options.retry = retry;
    options.part = 10_000;
    options
}

fn store() -> Remote<Http> {
    // Straight to the loopback address, whatever proxy the environment names.
    Remote::new(Http::with_client(Http::builder().no_proxy().build().unwrap()), options()).unwrap()
}

fn data() -> Bytes {
    pattern(35_000)
}

/// Reads the whole object from a server with this script.
async fn read(
    script: impl Fn(&Request, &Bytes) -> Answer + Send + Sync + 'static,
) -> (Result<Bytes, shardstream::Error>, Vec<Request>) {
    let data = data();
    let server = Server::start(move |request| script(request, &data)).await;
    let result = whole(&store(), &server.url("/dir/shard.tar?sig=secret"), ByteRange::ALL).await;
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(text.contains("/dir/shard.tar") && !text.contains("secret"), "{text}");
    }
    (result, server.seen())
}

/// Must give the data, whatever the script does.
async fn heals(
    script: impl Fn(&Request, &Bytes) -> Answer + Send + Sync + 'static,
) -> Vec<Request> {
    let (result, seen) = read(script).await;
    assert!(result.unwrap() == data());
    seen
}

/// Must fail, with these words.
async fn fails(
    words: &[&str],
    script: impl Fn(&Request, &Bytes) -> Answer + Send + Sync + 'static,
) -> Vec<Request> {
    let (result, seen) = read(script).await;
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    seen
}

#[tokio::test]
async fn an_honest_server_is_asked_once_for_each_part() {
    let seen = heals(|request, data| honest(request, data, V1)).await;
    let mut ranges: Vec<_> = seen.iter().map(|request| request.range().unwrap()).collect();
    ranges.sort_unstable();
    let part = |start, end| (start, Some(end));
    assert_eq!(
        ranges,
        [part(0, 10_000), part(10_000, 20_000), part(20_000, 30_000), part(30_000, 35_000)]
    );
    for request in &seen[1..] {
        assert_eq!(request.header("if-match"), Some(V1));
    }
    for request in &seen {
        assert_eq!(request.target, "/dir/shard.tar?sig=secret");
        assert_eq!(request.header("accept-encoding"), Some("identity"));
    }
}

#[tokio::test]
async fn a_reset_is_resumed_at_its_byte() {
    let first = Mutex::new(true);
    let seen = heals(move |request, data| match std::mem::take(&mut *first.lock().unwrap()) {
        true => honest(request, data, V1).cut(3_000, &[Step::Reset]),
        false => honest(request, data, V1),
    })
    .await;
    let again: Vec<_> = seen
        .iter()
        .filter_map(Request::range)
        .filter(|(start, _)| (1..10_000).contains(start))
        .collect();
    assert_eq!(again, [(3_000, Some(10_000))]);
}

#[tokio::test]
async fn every_thousand_bytes_a_reset() {
    heals(|request, data| {
        let answer = honest(request, data, V1);
        let (start, end) = request.range().unwrap();
        if end.unwrap() - start > 1000 { answer.cut(1000, &[Step::Reset]) } else { answer }
    })
    .await;
}

#[tokio::test]
async fn a_short_body_is_not_the_end() {
    let seen = heals(|request, data| {
        let answer = honest(request, data, V1);
        if request.earlier % 2 == 0 { answer.cut(777, &[]) } else { answer }
    })
    .await;
    assert!(seen.len() > 4);
    let seen = fails(&["gave up after 6 attempts", "at byte 500"], |request, data| {
        let (start, _) = request.range().unwrap();
        honest(request, data, V1).cut(500_usize.saturating_sub(start), &[])
    })
    .await;
    assert_eq!(
        seen.iter().filter(|request| request.range() == Some((500, Some(10_000)))).count(),
        5
    );
}

#[tokio::test]
async fn a_body_without_length() {
    let seen = heals(|_, data| Answer::new(200).body(data.clone()).chunked(true)).await;
    assert_eq!(seen.len(), 1);
    // Cut: the rest of the same version comes next.
    heals(|request, data| match request.earlier {
        0 => Answer::new(200)
            .with("etag", V1)
            .body(data.clone())
            .chunked(false)
            .cut(20_000, &[Step::Reset]),
        _ => honest(request, data, V1),
    })
    .await;
    // All there but for the last mark: the server says there is no more.
    heals(|request, data| match request.earlier {
        0 => Answer::new(200)
            .with("etag", V1)
            .body(data.clone())
            .chunked(false)
            .cut(usize::MAX, &[Step::Reset]),
        _ => honest(request, data, V1),
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ignores_ranges() {
    let seen = heals(|_, data| Answer::new(200).with("etag", V1).body(data.clone())).await;
    assert_eq!(seen.len(), 1, "nothing is asked for twice");
    // First ranges, then the whole object, once in the middle of a part.
    heals(|request, data| match request.earlier {
        0 => honest(request, data, V1).cut(4_000, &[Step::Reset]),
        _ => Answer::new(200).with("etag", V1).body(data.clone()),
    })
    .await;
    // A range of the object from a server that knows none.
    let data = data();
    let served = data.clone();
    let server = Server::start(move |_| Answer::new(200).body(served.clone())).await;
    for (start, end) in [
        (0, Some(12_345)),
        (20_000, None),
        (20_000, Some(34_000)),
        (35_000, None),
        (40_000, Some(50_000)),
    ] {
        let got = whole(&store(), &server.url("/x"), ByteRange { start, end }).await.unwrap();
        let (last, first) = (end.unwrap_or(35_000).min(35_000), start.min(35_000));
        assert!(got == data[first as usize..last.max(first) as usize], "{start}..{end:?}");
    }
}

#[tokio::test]
async fn another_range_than_asked_for() {
    heals(|request, data| match request.earlier {
        1 => honest(request, data, V1).with("content-range", "bytes 7-10006/35000"),
        _ => honest(request, data, V1),
    })
    .await;
    fails(&["asked for bytes from 0", "bytes from 7"], |request, data| {
        honest(request, data, V1).with("content-range", "bytes 7-10006/35000")
    })
    .await;
    fails(&["doesn't say which"], |request, data| {
        honest(request, data, V1).without("content-range")
    })
    .await;
}

#[tokio::test]
async fn a_body_longer_than_announced() {
    let long = |request: &Request, data: &Bytes| {
        let answer = honest(request, data, V1);
        let (start, _) = request.range().unwrap();
        Answer { steps: vec![Step::Send(data.slice(start..))], ..answer }.chunked(true)
    };
    // Every part but the last is too long; it is noticed, and no byte of it is handed out.
    let (result, _) = read(long).await;
    let text = result.unwrap_err().to_string();
    assert!(text.contains("goes on after its announced end"), "{text}");
}

#[tokio::test]
async fn another_version_is_never_mixed_in() {
    let other = |request: &Request, data: &Bytes| {
        let other: Bytes = data.iter().map(|byte| byte ^ 0x55).collect();
        honest(request, &other, "\"v2\"")
    };
    // The server honours If-Match.
    let seen = fails(&["changed"], move |request, data| match request.earlier {
        0 => honest(request, data, V1).cut(500, &[Step::Reset]),
        _ => other(request, data),
    })
    .await;
    assert!(seen.len() <= 5);
    // The server ignores it.
    fails(&["changed", "v2"], move |request, data| match request.earlier {
        0 => honest(request, data, V1).cut(500, &[Step::Reset]),
        _ => {
            let mut unasked = request.clone();
            unasked.headers.remove("if-match");
            other(&unasked, data)
        }
    })
    .await;
    // A weak ETag is not asked for, but compared.
    fails(&["changed"], move |request, data| match request.earlier {
        0 => honest(request, data, "W/\"v1\""),
        _ => {
            assert_eq!(request.header("if-match"), None);
            other(request, data)
        }
    })
    .await;
    // No ETag: the size must agree.
    fails(&["changed", "35000"], move |request, data| match request.earlier {
        0 => honest(request, data, V1).without("etag").cut(500, &[Step::Reset]),
        _ => honest(request, &data.slice(1..), V1).without("etag"),
    })
    .await;
}

#[tokio::test]
async fn what_is_final_is_asked_once() {
    for (status, body, words) in [
        (401, "", vec!["401"]),
        (
            403,
            "<Error><Code>AccessDenied</Code><Message>expired</Message></Error>",
            vec!["403", "AccessDenied: expired"],
        ),
        (404, "<Error><Code>NoSuchKey</Code></Error>", vec!["404", "NoSuchKey"]),
        (400, "", vec!["400"]),
    ] {
        let seen = fails(&words, move |_, _| Answer::new(status).body(body)).await;
        assert_eq!(seen.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_error_that_stays_is_asked_a_bounded_number_of_times() {
    let seen =
        fails(&["500", "gave up after 6 attempts"], |_, _| Answer::new(500).body("oops")).await;
    assert_eq!(seen.len(), 6);
}

#[tokio::test]
async fn a_server_that_asks_for_patience() {
    for status in [429, 503] {
        let seen = heals(move |request, data| match request.earlier {
            0 => Answer::new(status).with("retry-after", 0).body(""),
            _ => honest(request, data, V1),
        })
        .await;
        assert_eq!(seen.len(), 5);
    }
    // Longer than we are prepared to wait: told at once.
    let seen = fails(&["429", "asks to wait 3600 s"], |_, _| {
        Answer::new(429).with("retry-after", 3600).body("")
    })
    .await;
    assert_eq!(seen.len(), 1);
    // A date counts from the server's own.
    let seen = fails(&["503", "asks to wait 3600 s"], |_, _| {
        Answer::new(503)
            .with("date", "Mon, 30 Nov 2026 11:00:00 GMT")
            .with("retry-after", "Mon, 30 Nov 2026 12:00:00 GMT")
            .body("")
    })
    .await;
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn a_stalled_connection_is_opened_again() {
    heals(|request, data| match request.earlier {
        0 => honest(request, data, V1).cut(2_000, &[Step::Hang]),
        _ => honest(request, data, V1),
    })
    .await;
    // Before the head of the answer, too.
    let stalled = Mutex::new(true);
    heals(move |request, data| match std::mem::take(&mut *stalled.lock().unwrap()) {
        true => Answer { headers: Vec::new(), ..Answer::new(206) }.steps([Step::Hang]),
        false => honest(request, data, V1),
    })
    .await;
    fails(&["stalled", "at byte 2000"], |request, data| {
        let (start, _) = request.range().unwrap();
        honest(request, data, V1).cut(2_000_usize.saturating_sub(start), &[Step::Hang])
    })
    .await;
}

#[tokio::test]
async fn redirects_are_followed_so_far() {
    let seen = heals(|request, data| match request.target.as_str() {
        "/dir/shard.tar?sig=secret" => {
            Answer::new(302).with("location", "/cdn/shard.tar?token=x%2Fy").body("")
        }
        _ => honest(request, data, V1),
    })
    .await;
    assert_eq!(seen[1].target, "/cdn/shard.tar?token=x%2Fy");
    assert!(
        seen.iter().all(|request| request.header("referer").is_none()),
        "a signed URL goes to nobody else"
    );
    let seen = fails(&["redirects"], |request, _| {
        Answer::new(302).with("location", request.target.clone()).body("")
    })
    .await;
    assert_eq!(seen.len(), 6);
}

#[tokio::test]
async fn a_url_is_sent_as_it_is() {
    let data = data();
    let served = data.clone();
    let server = Server::start(move |request| honest(request, &served, V1)).await;
    for target in [
        "/a%20b%25/%E7%8C%AB.tar",
        "/signed?X-Amz-Expires=600&X-Amz-Signature=a%2Fb%3D&x=1+2",
        "/a//b/c+d.tar?%41=%2e&empty=&&=",
        "/a:b@c;d,e/(f)!$&'*.tar",
    ] {
        assert!(whole(&store(), &server.url(target), ByteRange::ALL).await.unwrap() == data);
        assert_eq!(server.seen().last().unwrap().target, target);
    }
}

#[cfg(feature = "compression")]
async fn gzip(bytes: &[u8]) -> Vec<u8> {
    use async_compression::tokio::bufread::GzipEncoder;
    use tokio::io::AsyncReadExt;

    let mut gzip = Vec::new();
    GzipEncoder::new(bytes).read_to_end(&mut gzip).await.unwrap();
    gzip
}

#[cfg(feature = "compression")]
#[tokio::test]
async fn an_encoded_body_is_decoded() {
    let data = data();
    let (head, tail) = data.split_at(12_345);
    let in_one = gzip(&data).await;
    let in_two = [gzip(head).await, gzip(tail).await].concat();
    for encoded in [in_one, in_two].map(Bytes::from) {
        let body = encoded.clone();
        heals(move |_, _| {
            Answer::new(200).with("etag", V1).with("content-encoding", "gzip").body(body.clone())
        })
        .await;
        // As ranges of the encoded form, and cut in the middle.
        heals(move |request, _| {
            let answer = honest(request, &encoded, V1).with("content-encoding", "gzip");
            if request.earlier < 2 { answer.cut(9_000, &[Step::Reset]) } else { answer }
        })
        .await;
    }
    fails(&["content encoding br"], |request, data| {
        honest(request, data, V1).with("content-encoding", "br")
    })
    .await;
}

/// What can't be decoded is told at once: it would be the same the next time.
#[cfg(feature = "compression")]
#[tokio::test]
async fn an_encoding_that_is_not_what_it_says() {
    let seen = fails(&["content encoding gzip", "no whole gzip data"], |_, data| {
        Answer::new(200).with("etag", V1).with("content-encoding", "gzip").body(data.clone())
    })
    .await;
    assert_eq!(seen.len(), 1);
    // Changed in its middle, junk behind its end.
    let mut encoded = gzip(&data()).await;
    let junk = [&encoded[..], b"junk behind the end"].concat();
    let middle = encoded.len() / 2;
    encoded[middle] ^= 0x10;
    for body in [encoded, junk].map(Bytes::from) {
        let seen = fails(&["content encoding gzip", "no whole gzip data"], move |_, _| {
            Answer::new(200).with("etag", V1).with("content-encoding", "gzip").body(body.clone())
        })
        .await;
        assert_eq!(seen.len(), 1);
    }
    // Ends too soon, each time at another place: there may be more next time.
    let encoded = Bytes::from(gzip(&data()).await);
    let seen = heals(move |request, _| {
        let end = (request.earlier + 1) * encoded.len() / 3;
        let part = encoded.slice(..end.min(encoded.len()));
        Answer::new(200).with("content-encoding", "gzip").body(part).chunked(true)
    })
    .await;
    assert_eq!(seen.len(), 3);
}

/// Compressed tars with and without an encoding, once and twice, whatever they are called: the right members come out.
#[cfg(feature = "compression")]
#[tokio::test]
async fn encoded_shards() {
    use shardstream::prelude::*;

    let body = vec![7; 20_000];
    let tar = shardstream::testing::tar(&[("a.bin", &body), ("b.bin", b"B")]);
    let (head, tail) = tar.split_at(9_000);
    let in_two = [gzip(head).await, gzip(tail).await].concat();
    let twice = gzip(&gzip(&tar).await).await;
    for (encoding, sent) in [
        ("gzip", gzip(&tar).await),
        ("x-gzip", in_two.clone()),
        ("identity", in_two),
        ("gzip", twice),
        ("identity", tar.to_vec()),
    ] {
        let sent = Bytes::from(sent);
        let server = Server::start(move |request| {
            honest(request, &sent, V1).with("content-encoding", encoding)
        })
        .await;
        for name in ["/x.tar", "/x.tar.gz"] {
            let manifest = Manifest::of_shards([server.url(name)]).unwrap();
            let twins = shard_list(&manifest).open_twins(store());
            let samples: Vec<_> =
                twins.expand().group_by_keys().map(Result::unwrap).collect().await;
            let sizes: Vec<_> = samples
                .iter()
                .map(|sample| (sample.key().to_string(), sample.body.get("bin").unwrap().len()))
                .collect();
            assert_eq!(sizes, [("a".to_owned(), 20_000), ("b".to_owned(), 1)], "{encoding} {name}");
        }
    }
}

#[tokio::test]
async fn ranges_head_and_put() {
    let data = data();
    let served = data.clone();
    let server = Server::start(move |request| match request.method.as_str() {
        "GET" if request.target == "/empty" => honest(request, &Bytes::new(), V1),
        "GET" => honest(request, &served, V1),
        _ => Answer::new(201).body(""),
    })
    .await;
    let (store, url) = (store(), server.url("/x"));
    for (start, end) in [
        (0, Some(1)),
        (9_999, Some(10_001)),
        (10_000, None),
        (34_999, Some(99_999)),
        (35_000, None),
        (5, Some(5)),
        (9, Some(2)),
    ] {
        let got = whole(&store, &url, ByteRange { start, end }).await.unwrap();
        let last = end.unwrap_or(35_000).min(35_000);
        assert!(got == data[start.min(last) as usize..last as usize], "{start}..{end:?}");
    }
    let meta = store.head(&url).await.unwrap();
    assert_eq!((meta.size, meta.etag.as_deref()), (Some(35_000), Some(V1)));
    assert_eq!(store.head(&server.url("/empty")).await.unwrap().size, Some(0));
    assert_eq!(whole(&store, &server.url("/empty"), ByteRange::ALL).await.unwrap(), "");

    store.put(&server.url("/new"), Bytes::from_static(b"written")).await.unwrap();
    let put = server.seen().pop().unwrap();
    assert_eq!(
        (put.method.as_str(), put.target.as_str(), &put.body[..]),
        ("PUT", "/new", &b"written"[..])
    );
    assert!(store.list(&server.url("/")).await.unwrap_err().to_string().contains("can't list"));
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connections() {
    let data = data();
    let server = Server::start(move |request| {
        let (start, _) = request.range().unwrap();
        honest(request, &data, V1).cut(if start == 0 { usize::MAX } else { 100 }, &[Step::Hang])
    })
    .await;
    let mut options = options();
    options.retry.stall_timeout = Duration::from_secs(3600);
    let budget = options.budget.clone();
    let limit = options.limit.clone();
    let free = limit.free();
    let store =
        Remote::new(Http::with_client(Http::builder().no_proxy().build().unwrap()), options)
            .unwrap();
    let mut stream = store.read(&server.url("/x"), ByteRange::ALL);
    let mut got = 0;
    while got < 10_100 {
        got += stream.next().await.unwrap().unwrap().len();
    }
    assert!(budget.reserved() > 0);
    drop(stream);
    server.idle().await;
    assert_eq!((budget.reserved(), limit.free()), (0, free));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_waited_for_without_a_connection() {
    // The stall timeout passes many times over while nobody takes a byte; the parts are in, and nothing is asked for again.
    let data = data();
    let served = data.clone();
    let server = Server::start(move |request| honest(request, &served, V1)).await;
    let store = store();
    let mut stream = store.read(&server.url("/x"), ByteRange::ALL);
    let mut all = stream.next().await.unwrap().unwrap().to_vec();
    while server.seen().len() < 4 {
        tokio::task::yield_now().await;
    }
    server.idle().await;
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    assert!(all == data);
    assert_eq!(server.seen().len(), 4);
}
