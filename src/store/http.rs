//! Plain http and https servers.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap,
    HeaderName, IF_MATCH, RANGE, RETRY_AFTER,
};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};

use super::retry::{retry_after, unix_now};
use super::transport::{Attempt, Failure, FailureKind, Reply, Transport, chain};
use super::{ByteRange, Meta};
use crate::error::{Error, Result};

/// Hops that are followed when a server redirects.
const REDIRECTS: usize = 5;
/// Bytes of an error page that are read to find out what it says.
const ERROR_PAGE: usize = 8 << 10;

/// An http or https server, through `reqwest`. A path is a whole URL, which is sent as it is: signed URLs keep their signature.
/// A proxy is taken from the environment. Such servers can't list.
///
/// Bodies are asked for without content encoding. One that comes with gzip all the same is decoded.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
}

impl Http {
    /// With a client of its own.
    ///
    /// # Errors
    /// If the system has no usable TLS certificates.
    pub fn new() -> Result<Self> {
        let client = Self::builder()
            .build()
            .map_err(|error| Error::config("the HTTP client can't be set up").with_source(error))?;
        Ok(Self { client })
    }

    /// With a client made from [`Http::builder`], to which a proxy, certificates or headers were added.
    #[must_use]
    pub const fn with_client(client: Client) -> Self {
        Self { client }
    }

    /// The settings that this store needs: one connection for each request (HTTP/1.1), bounded redirects that don't hand a signed
    /// URL on as referer, no time limit for a whole body.
    pub fn builder() -> reqwest::ClientBuilder {
        Client::builder()
            .http1_only()
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS))
            .referer(false)
            .connect_timeout(Duration::from_secs(10))
            .tcp_keepalive(Duration::from_secs(60))
            .user_agent(concat!("shardstream/", env!("CARGO_PKG_VERSION")))
    }

    async fn send(&self, request: RequestBuilder) -> Attempt<Response> {
        let reply = request
            .header(ACCEPT_ENCODING, "identity")
            .send()
            .await
            .map_err(|error| failure(&error))?;
        let status = reply.status();
        if status.is_success() {
            return Ok(reply);
        }
        match status {
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let size = header(reply.headers(), &CONTENT_RANGE)
                    .and_then(content_range)
                    .and_then(|(_, size)| size);
                Err(Failure::new(
                    FailureKind::PastEnd { size },
                    "the object ends before the bytes that were asked for",
                ))
            }
            StatusCode::PRECONDITION_FAILED => {
                Err(Failure::new(FailureKind::Changed, "the object has changed while it was read"))
            }
            _ => {
                let date = header(reply.headers(), &DATE);
                let wish = header(reply.headers(), &RETRY_AFTER)
                    .and_then(|wish| retry_after(wish, date, unix_now()));
                Err(Failure::status(status.as_u16(), wish, &error_page(reply).await))
            }
        }
    }

    async fn get(&self, url: &str, range: ByteRange, etag: Option<&str>) -> Attempt<Reply> {
        let ask = |ranged: bool| {
            let mut request = self.client.get(url);
            if ranged {
                let last =
                    range.end.map_or_else(String::new, |end| end.saturating_sub(1).to_string());
                request = request.header(RANGE, format!("bytes={}-{last}", range.start));
            }
            // A weak ETag never matches here; it is compared when the answer comes.
            match etag.filter(|etag| !etag.starts_with("W/")) {
                Some(etag) => request.header(IF_MATCH, etag),
                None => request,
            }
        };
        let mut reply = self.send(ask(true)).await?;
        let encoding = |reply: &Response| {
            let name = header(reply.headers(), &CONTENT_ENCODING)
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            Some(name).filter(|name| !name.is_empty() && name != "identity")
        };
        let mut encoded = encoding(&reply);
        if encoded.is_some() && reply.status() == StatusCode::PARTIAL_CONTENT {
            // A part of something encoded can't be decoded: take the whole.
            reply = self.send(ask(false)).await?;
            encoded = encoding(&reply);
        }
        let headers = reply.headers();
        let etag = header(headers, &ETAG).map(str::to_owned);
        let length = header(headers, &CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let ranged = reply.status() == StatusCode::PARTIAL_CONTENT;
        let (start, end, size) =
            match ranged.then(|| header(headers, &CONTENT_RANGE).and_then(content_range)) {
                None => (0, length, length),
                Some(Some((Some((start, end)), size))) => (start, Some(end), size),
                Some(_) => {
                    return Err(Failure::mismatch(
                        "the server answers for a range and doesn't say which",
                    ));
                }
            };
        let body = reply.bytes_stream().map_err(|error| failure(&error)).boxed();
        match encoded {
            None => Ok(Reply { ranged, start, end, size, etag, body }),
            // Lengths are those of the encoded body.
            Some(encoding) => Ok(Reply {
                ranged,
                start: 0,
                end: None,
                size: None,
                etag,
                body: decode(&encoding, body)?,
            }),
        }
    }

    async fn head(&self, url: &str) -> Attempt<Meta> {
        // Not HEAD: a URL may be signed for GET alone.
        let found = |size, etag| Meta { path: url.to_owned(), size, etag, modified: None };
        match self.get(url, ByteRange { start: 0, end: Some(1) }, None).await {
            Ok(reply) => Ok(found(reply.size, reply.etag)),
            Err(Failure { kind: FailureKind::PastEnd { size }, .. }) => {
                Ok(found(Some(size.unwrap_or(0)), None))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Transport for Http {
    fn get<'a>(
        &'a self,
        path: &'a str,
        range: ByteRange,
        etag: Option<&'a str>,
    ) -> BoxFuture<'a, Attempt<Reply>> {
        self.get(path, range, etag).boxed()
    }

    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<Meta>> {
        self.head(path).boxed()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxStream<'a, Attempt<Meta>> {
        let why = "an http server can't list what it has: name the shards, or the wdinfo.json that lists them";
        futures::stream::iter([Err(Failure::new(FailureKind::Final, why))]).boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Attempt<()>> {
        self.send(self.client.request(Method::PUT, path).body(bytes))
            .map(|sent| sent.map(drop))
            .boxed()
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The range (last byte not included) and the size of the object, as far as they are told.
pub(super) type Content = (Option<(u64, u64)>, Option<u64>);

/// Reads `bytes 0-99/200`, `bytes 0-99/*` or `bytes */200`.
pub(super) fn content_range(header: &str) -> Option<Content> {
    let (range, size) = header.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let size = if size == "*" { None } else { Some(size.parse().ok()?) };
    if range == "*" {
        return Some((None, size));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((Some((first, last.checked_add(1).filter(|end| *end > first)?)), size))
}

/// What a failed exchange means. The URL is left out: it may be signed.
fn failure(error: &reqwest::Error) -> Failure {
    // The chain of causes does not hold the URL, only the outermost text does.
    let text =
        std::error::Error::source(error).map_or_else(|| "the request failed".to_owned(), chain);
    if error.is_redirect() {
        Failure::new(
            FailureKind::Final,
            format!("more than {REDIRECTS} redirects, or one that leads nowhere: {text}"),
        )
    } else if error.is_builder() {
        Failure::new(FailureKind::Final, format!("not a URL: {text}"))
    } else if error.is_connect() {
        Failure::new(FailureKind::Broken, format!("can't connect: {text}"))
    } else {
        Failure::new(FailureKind::Broken, format!("the connection broke: {text}"))
    }
}

/// The beginning of what a server says about an error, if it comes soon.
async fn error_page(reply: Response) -> String {
    let mut page = Vec::new();
    let mut body = reply.bytes_stream();
    let read = async {
        while let Some(Ok(chunk)) = body.next().await {
            page.extend_from_slice(&chunk);
            if page.len() >= ERROR_PAGE {
                break;
            }
        }
    };
    // What has come by then is enough.
    let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    String::from_utf8_lossy(&page).into_owned()
}

#[cfg(feature = "compression")]
fn decode(
    encoding: &str,
    body: BoxStream<'static, Attempt<Bytes>>,
) -> Attempt<BoxStream<'static, Attempt<Bytes>>> {
    use async_compression::tokio::bufread::GzipDecoder;
    use tokio_util::io::{ReaderStream, StreamReader};

    if !matches!(encoding, "gzip" | "x-gzip") {
        return Err(Failure::new(
            FailureKind::Final,
            format!("the server sends the content encoding {encoding}, unasked"),
        ));
    }
    let body = body.map_err(|failure| std::io::Error::other(failure.message));
    let mut plain = GzipDecoder::new(StreamReader::new(body));
    plain.multiple_members(true);
    Ok(ReaderStream::with_capacity(plain, 64 << 10).map_err(|error| undecoded(&error)).boxed())
}

/// Why a body can't be decoded. The line may have broken; what the decoder itself refuses is no better when it is asked for again.
#[cfg(feature = "compression")]
fn undecoded(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::Other | std::io::ErrorKind::UnexpectedEof => Failure::broken(error),
        _ => Failure::new(
            FailureKind::Final,
            format!("the server sends the content encoding gzip, and no whole gzip data: {error}"),
        ),
    }
}

#[cfg(not(feature = "compression"))]
fn decode(
    encoding: &str,
    _: BoxStream<'static, Attempt<Bytes>>,
) -> Attempt<BoxStream<'static, Attempt<Bytes>>> {
    Err(Failure::new(
        FailureKind::Final,
        format!("the server sends the content encoding {encoding}, unasked"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        for (header, want) in [
            ("bytes 0-99/200", Some((Some((0, 100)), Some(200)))),
            (" bytes 5-5/*", Some((Some((5, 6)), None))),
            ("bytes */200", Some((None, Some(200)))),
            ("bytes 5-4/200", None),
            ("bytes 0-18446744073709551615/200", None),
            ("bytes 0-/200", None),
            ("bytes 0-9", None),
            ("bytes 0-9/x", None),
            ("items 0-9/10", None),
            ("", None),
        ] {
            assert_eq!(content_range(header), want, "{header}");
        }
    }
}
