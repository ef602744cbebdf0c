//! One attempt at the wire: [`Transport`]. Retrying, resuming and running ahead are the business of [`Remote`](super::Remote).

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use super::{ByteRange, Meta};

/// `Result` of one attempt.
pub type Attempt<T> = Result<T, Failure>;

/// Asks a server once, and says what came of it. Never retries, never waits by itself for long: time limits are set from outside, and
/// a dropped future or body closes its connection.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The bytes of an object. With `etag`, only of that version: another one is [`FailureKind::Changed`]. A server may ignore the
    /// range and send the whole object; [`Reply::ranged`] says so.
    fn get<'a>(
        &'a self,
        path: &'a str,
        range: ByteRange,
        etag: Option<&'a str>,
    ) -> BoxFuture<'a, Attempt<Reply>>;

    /// Size and version.
    fn head<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<Meta>>;

    /// All objects below a folder, in any order.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Attempt<Meta>>;

    /// Writes a whole object.
    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Attempt<()>>;

    /// Begins an object that is sent in parts. Returns the server's name for the upload.
    fn begin<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, Attempt<String>> {
        no_parts()
    }

    /// Sends a part, counted from 0. Returns the server's name for it. May be done again.
    fn part<'a>(
        &'a self,
        _path: &'a str,
        _upload: &'a str,
        _index: usize,
        _bytes: Bytes,
    ) -> BoxFuture<'a, Attempt<String>> {
        no_parts()
    }

    /// Makes an object of the parts.
    fn complete<'a>(
        &'a self,
        _path: &'a str,
        _upload: &'a str,
        _parts: Vec<String>,
    ) -> BoxFuture<'a, Attempt<()>> {
        no_parts()
    }

    /// Removes the parts.
    fn abort<'a>(&'a self, _path: &'a str, _upload: &'a str) -> BoxFuture<'a, Attempt<()>> {
        no_parts()
    }

    /// Removes an object. One that is not there is no failure.
    fn delete<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, Attempt<()>> {
        no_parts()
    }
}

/// The answer of servers to which data sets can't be written.
fn no_parts<T: Send + 'static>() -> BoxFuture<'static, Attempt<T>> {
    let why = "no data set can be written here: write to a folder, or to s3://, gs:// or az://";
    std::future::ready(Err(Failure::new(FailureKind::Final, why))).boxed()
}

/// The answer to a request for bytes.
pub struct Reply {
    /// Whether the server answers for a range (206), not with the whole object (200).
    pub ranged: bool,
    /// First byte of the body, in the object; 0 unless ranged.
    pub start: u64,
    /// One past the last byte of the body, as announced.
    pub end: Option<u64>,
    /// Size of the object, as announced.
    pub size: Option<u64>,
    /// Version of the object.
    pub etag: Option<String>,
    /// The bytes.
    pub body: BoxStream<'static, Attempt<Bytes>>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("ranged", &self.ranged)
            .field("start", &self.start)
            .field("end", &self.end)
            .field("size", &self.size)
            .field("etag", &self.etag)
            .finish_non_exhaustive()
    }
}

/// Why an attempt failed. The message holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure: all that a decision looks at.
    pub kind: FailureKind,
    /// In words.
    pub message: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server answered with an error.
    Status {
        /// The HTTP status.
        code: u16,
        /// How long the server asks us to wait.
        retry_after: Option<Duration>,
    },
    /// Nothing was asked yet: there are no credentials to sign the request with.
    Credentials,
    /// The connection broke, or could not be made.
    Broken,
    /// Nothing came for too long.
    Stalled,
    /// Far too little came.
    Slow,
    /// The answer doesn't fit the question: another range, a body that is too long or too short.
    Mismatch,
    /// The object ends before the first byte asked for.
    PastEnd {
        /// Where it ends.
        size: Option<u64>,
    },
    /// The object is no longer the one whose first bytes were read.
    Changed,
    /// Trying again can't help.
    Final,
}

impl Failure {
    /// A failure in words.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A connection that broke.
    #[must_use]
    pub fn broken(error: &(dyn StdError + 'static)) -> Self {
        Self::new(FailureKind::Broken, chain(error))
    }

    /// An answer that doesn't fit the question.
    pub fn mismatch(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Mismatch, message)
    }

    /// An error status, with what the body says about it.
    #[must_use]
    pub fn status(code: u16, retry_after: Option<Duration>, body: &str) -> Self {
        let meaning = match code {
            401 => " (not authenticated)",
            403 => " (access denied, or the signature has expired)",
            404 => " (no such object)",
            429 => " (too many requests)",
            503 => " (slow down)",
            _ => "",
        };
        let wish = retry_after
            .map_or_else(String::new, |wish| format!(", asks to wait {} s", wish.as_secs()));
        let told = explanation(body).map_or_else(String::new, |text| format!(": {text}"));
        Self::new(
            FailureKind::Status { code, retry_after },
            format!("the server answered with status {code}{meaning}{wish}{told}"),
        )
    }
}

/// An error and its causes in one line, nothing said twice.
#[must_use]
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = cause.source();
    }
    line
}

/// `Code: Message` of the XML that object stores send with errors. Nothing else of the body is shown: it may repeat what was signed.
fn explanation(body: &str) -> Option<String> {
    let tag = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once("</")?;
        let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        (!text.is_empty()).then_some(text)
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => Some(format!("{code}: {message}")),
        (code, message) => code.or(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_error_body_only_code_and_message_are_shown() {
        let body = "<?xml?><Error><Code>AccessDenied</Code><Message>expired\n</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        assert_eq!(explanation(body).as_deref(), Some("AccessDenied: expired"));
        assert_eq!(explanation("<Code>SlowDown</Code>").as_deref(), Some("SlowDown"));
        for body in ["", "oops", "<Code>", "<Code></Code>"] {
            assert_eq!(explanation(body), None);
        }
        let shown = Failure::status(403, None, body).message;
        assert!(
            shown.contains("403") && shown.contains("AccessDenied") && !shown.contains("AKIA"),
            "{shown}"
        );
    }
}
