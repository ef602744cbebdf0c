//! An HTTP server on the loopback address that does what a script says, also what no server should do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query, byte for byte.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Bytes,
    /// Requests for this target before this one.
    pub(crate) earlier: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// First byte and one past the last one of the range asked for.
    pub(crate) fn range(&self) -> Option<(usize, Option<usize>)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok().map(|last| last + 1)))
    }
}

/// What the server does, after the head of the answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Bytes),
    /// Nothing, for ever.
    Hang,
    /// Resets the connection. (Without it the connection is closed in the ordinary way.)
    Reset,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) steps: Vec<Step>,
}

impl Answer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), steps: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(old, _)| *old != name);
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(old, _)| *old != name);
        self
    }

    /// With this body and its length.
    pub(crate) fn body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let length = body.len();
        self.with("content-length", length).steps([Step::Send(body)])
    }

    pub(crate) fn steps(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.steps = steps.into();
        self
    }

    /// Only the first bytes of the body, then this.
    pub(crate) fn cut(mut self, keep: usize, then: &[Step]) -> Self {
        let Some(Step::Send(body)) = self.steps.first().cloned() else { return self };
        self.steps = [&[Step::Send(body.slice(..keep.min(body.len())))], then].concat();
        self
    }

    /// The body in chunks, without a length.
    pub(crate) fn chunked(mut self, terminated: bool) -> Self {
        let Some(Step::Send(body)) = self.steps.first().cloned() else { return self };
        let mut framed = Vec::new();
        for chunk in body.chunks(700) {
            framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            framed.extend_from_slice(chunk);
            framed.extend_from_slice(b"\r\n");
        }
        framed.extend_from_slice(if terminated { b"0\r\n\r\n" } else { b"" });
        self.steps = vec![Step::Send(framed.into())];
        self.without("content-length").with("transfer-encoding", "chunked")
    }
}

/// What an honest server answers.
pub(crate) fn honest(request: &Request, data: &Bytes, etag: &str) -> Answer {
    let size = data.len();
    if request.header("if-match").is_some_and(|wanted| wanted != etag) {
        return Answer::new(412).body("");
    }
    let Some((start, end)) = request.range() else {
        return Answer::new(200).with("etag", etag).body(data.clone());
    };
    let end = end.unwrap_or(size).min(size);
    if start >= end {
        return Answer::new(416).with("content-range", format!("bytes */{size}")).body("");
    }
    Answer::new(206)
        .with("etag", etag)
        .with("content-range", format!("bytes {start}-{}/{size}", end - 1))
        .body(data.slice(start..end))
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// Runs until dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, open, script) =
            (Arc::default(), Arc::new(AtomicUsize::new(0)), Arc::new(script));
        let (all, connections) = (Arc::clone(&seen), Arc::clone(&open));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, open, script) =
                    (Arc::clone(&all), Arc::clone(&connections), Arc::clone(&script));
                tokio::spawn(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    // A client that goes away is no fault of the server.
                    let _ = answer(stream, &seen, &*script).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen, open, task }
    }

    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until all connections are closed.
    pub(crate) async fn idle(&self) {
        while self.open.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    script: &Script,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let Some(request) = read_request(&mut stream, seen).await? else { return Ok(()) };
    let answer = script(&request);
    let mut head = format!("HTTP/1.1 {} Status\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    for step in answer.steps {
        match step {
            Step::Send(bytes) => stream.write_all(&bytes).await?,
            Step::Hang => {
                // Until the client goes away.
                let _ = stream.read(&mut [0; 1]).await;
                return Ok(());
            }
            Step::Reset => {
                // What was sent must have left before the reset, which would overtake it.
                tokio::time::sleep(Duration::from_millis(5)).await;
                stream.get_ref().set_zero_linger()?;
                return Ok(());
            }
        }
    }
    stream.shutdown().await?;
    // Reads the client's end, so that closing does not turn into a reset.
    let _ = stream.read(&mut [0; 1]).await;
    Ok(())
}

async fn read_request(
    stream: &mut BufReader<TcpStream>,
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let (method, target) =
        (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let mut seen = seen.lock().unwrap();
    let earlier = seen.iter().filter(|earlier| earlier.target == target).count();
    let request = Request { method, target, headers, body: body.into(), earlier };
    seen.push(request.clone());
    Ok(Some(request))
}
