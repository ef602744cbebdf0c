//! Buckets: S3, Google Cloud Storage and Azure, through the signing clients of `object_store`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutOptions,
};

use super::http::content_range;
use super::retry::{retry_after, unix_now};
use super::transport::{Attempt, Failure, FailureKind, Reply, Transport, chain};
use super::{ByteRange, Meta};

/// A bucket. A path is `s3://bucket/key` (or another provider's), the key as it stands, without any encoding.
#[derive(Clone)]
pub struct Bucket {
    /// Scheme and bucket: what every path begins with.
    name: Arc<str>,
    store: Arc<dyn ObjectStore>,
    /// The same store, as one that takes objects in parts.
    parts: Arc<dyn MultipartStore>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.name).finish()
    }
}

impl Bucket {
    /// `name` is scheme and bucket, `s3://bucket`. The store must not retry by itself, and not limit the time of a whole request:
    /// both are done here.
    pub fn new<S: ObjectStore + MultipartStore>(name: &str, store: S) -> Self {
        let store = Arc::new(store);
        Self { name: name.into(), parts: Arc::<S>::clone(&store), store }
    }

    fn key(&self, path: &str) -> Attempt<Path> {
        let key = path
            .strip_prefix(&*self.name)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or_default();
        let refused = |why: &str| {
            Err(Failure::new(FailureKind::Final, format!("not a key that can be asked for: {why}")))
        };
        if key.is_empty() || key.ends_with('/') {
            return refused("it is empty or ends in a slash");
        }
        Path::parse(key).or_else(|error| refused(&chain(&error)))
    }

    fn meta(&self, found: ObjectMeta) -> Meta {
        let path = format!("{}/{}", self.name, found.location);
        Meta {
            path,
            size: Some(found.size),
            etag: found.e_tag,
            modified: Some(found.last_modified.into()),
        }
    }

    async fn get(&self, path: &str, range: ByteRange, etag: Option<&str>) -> Attempt<Reply> {
        let (note, mut options) = (Note::default(), GetOptions::default());
        options.range = Some(
            range
                .end
                .map_or(GetRange::Offset(range.start), |end| GetRange::Bounded(range.start..end)),
        );
        options.if_match = etag.filter(|etag| !etag.starts_with("W/")).map(str::to_owned);
        options.extensions.insert(note.clone());
        let result = self
            .store
            .get_opts(&self.key(path)?, options)
            .await
            .map_err(|error| note.failure(&error))?;
        let (etag, size, found) =
            (result.meta.e_tag.clone(), result.meta.size, result.range.clone());
        let body = result.into_stream().map_err(|error| Failure::broken(&error)).boxed();
        Ok(Reply {
            ranged: true,
            start: found.start,
            end: Some(found.end),
            size: Some(size),
            etag,
            body,
        })
    }

    async fn head(&self, path: &str) -> Attempt<Meta> {
        let (note, mut options) = (Note::default(), GetOptions::default());
        options.head = true;
        options.extensions.insert(note.clone());
        let found = self
            .store
            .get_opts(&self.key(path)?, options)
            .await
            .map_err(|error| note.failure(&error))?;
        Ok(Meta { path: path.to_owned(), ..self.meta(found.meta) })
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Attempt<()> {
        let (note, mut options) = (Note::default(), PutOptions::default());
        options.extensions.insert(note.clone());
        self.store
            .put_opts(&self.key(path)?, bytes.into(), options)
            .await
            .map(drop)
            .map_err(|error| note.failure(&error))
    }
}

impl Transport for Bucket {
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

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Attempt<Meta>> {
        let prefix = prefix.trim_end_matches('/');
        let folder = if prefix == &*self.name { Ok(None) } else { self.key(prefix).map(Some) };
        match folder {
            Ok(folder) => {
                let found = self.store.list(folder.as_ref());
                found.map(|found| found.map(|found| self.meta(found)).map_err(unnoted)).boxed()
            }
            Err(failure) => futures::stream::iter([Err(failure)]).boxed(),
        }
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Attempt<()>> {
        self.put(path, bytes).boxed()
    }

    fn begin<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<String>> {
        async move { self.parts.create_multipart(&self.key(path)?).await.map_err(unnoted) }.boxed()
    }

    fn part<'a>(
        &'a self,
        path: &'a str,
        upload: &'a str,
        index: usize,
        bytes: Bytes,
    ) -> BoxFuture<'a, Attempt<String>> {
        async move {
            let (key, upload) = (self.key(path)?, upload.to_owned());
            let sent = self.parts.put_part(&key, &upload, index, bytes.into()).await;
            sent.map(|part| part.content_id).map_err(unnoted)
        }
        .boxed()
    }

    fn complete<'a>(
        &'a self,
        path: &'a str,
        upload: &'a str,
        parts: Vec<String>,
    ) -> BoxFuture<'a, Attempt<()>> {
        async move {
            let (key, upload) = (self.key(path)?, upload.to_owned());
            let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
            self.parts.complete_multipart(&key, &upload, parts).await.map(drop).map_err(unnoted)
        }
        .boxed()
    }

    fn abort<'a>(&'a self, path: &'a str, upload: &'a str) -> BoxFuture<'a, Attempt<()>> {
        async move {
            let upload = upload.to_owned();
            self.parts.abort_multipart(&self.key(path)?, &upload).await.map_err(unnoted)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Attempt<()>> {
        async move {
            match self.store.delete(&self.key(path)?).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                done => done.map_err(unnoted),
            }
        }
        .boxed()
    }
}

/// What an error means of which nothing was noted.
fn unnoted(error: object_store::Error) -> Failure {
    Note::default().failure(&error)
}

/// The size of an object that is said to end before a range begins.
fn past_end_in(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("but object was only ")?;
    rest.split_once(" bytes long")?.0.parse().ok()
}

/// The status that an error speaks of, in words.
fn status_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// What the head of an answer said. The errors of `object_store` don't hand it on.
#[derive(Debug, Clone, Default)]
struct Note(Arc<Mutex<Option<Noted>>>);

#[derive(Debug, Clone, Copy)]
struct Noted {
    status: u16,
    retry_after: Option<Duration>,
    size: Option<u64>,
}

impl Note {
    /// What an error means, given what was noted.
    fn failure(&self, error: &object_store::Error) -> Failure {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = chain(error);
        match noted {
            Some(Noted { status: 416, size, .. }) => Failure::new(
                FailureKind::PastEnd { size },
                "the object ends before the bytes that were asked for",
            ),
            Some(Noted { status: 412, .. }) => {
                Failure::new(FailureKind::Changed, "the object has changed while it was read")
            }
            Some(Noted { status, retry_after, .. }) if !(200..300).contains(&status) => {
                Failure::status(status, retry_after, &text)
            }
            // Azure and others send the whole object, or nothing, when a range begins at its end; the client finds out.
            Some(_) => match past_end_in(&text) {
                size @ Some(_) => Failure::new(
                    FailureKind::PastEnd { size },
                    "the object ends before the bytes that were asked for",
                ),
                None => Failure::mismatch(text),
            },
            None if CREDENTIALS.iter().any(|place| text.contains(place)) => Failure::new(
                FailureKind::Credentials,
                format!(
                    "no credentials: set keys in the environment or a profile, or AWS_SKIP_SIGNATURE=true (GOOGLE_, AZURE_) for \
                     public data; the metadata service of this machine has none: {text}"
                ),
            ),
            None => match (kind(error), status_in(&text)) {
                (FailureKind::Broken, Some(code)) => Failure::status(code, None, &text),
                (kind, _) => Failure::new(kind, text),
            },
        }
    }
}

/// Where clients ask for credentials when they were given none: in the URLs of the metadata services of AWS, Google and Azure.
const CREDENTIALS: [&str; 5] = [
    "/latest/api/token",
    "/latest/meta-data/iam/",
    "/instance/service-accounts/",
    "/metadata/identity/",
    "169.254.169.254",
];

/// Of an error of which no answer is known.
fn kind(error: &object_store::Error) -> FailureKind {
    use object_store::Error as E;
    let code = match error {
        E::NotFound { .. } => 404,
        E::PermissionDenied { .. } => 403,
        E::Unauthenticated { .. } => 401,
        E::Precondition { .. } => return FailureKind::Changed,
        E::Generic { .. } | E::JoinError { .. } => return FailureKind::Broken,
        _ => return FailureKind::Final,
    };
    FailureKind::Status { code, retry_after: None }
}

/// Makes clients that take notes.
#[derive(Debug, Default)]
pub(super) struct Noting;

impl HttpConnector for Noting {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(NotingClient(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct NotingClient(HttpClient);

impl HttpService for NotingClient {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        's: 'f,
    {
        let note = request.extensions().get::<Note>().cloned();
        async move {
            let reply = self.0.execute(request).await?;
            if let Some(Note(note)) = note {
                let header = |name| reply.headers().get(name).and_then(|value| value.to_str().ok());
                let noted = Noted {
                    status: reply.status().as_u16(),
                    retry_after: header("retry-after")
                        .and_then(|wish| retry_after(wish, header("date"), unix_now())),
                    size: header("content-range")
                        .and_then(content_range)
                        .and_then(|(_, size)| size),
                };
                *note.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
            }
            Ok(reply)
        }
        .boxed()
    }
}
