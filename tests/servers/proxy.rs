//! A proxy on the loopback address that harms connections: delays, cuts, resets, throttles, stalls.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What happens to the bytes that come back on one connection.
#[derive(Debug, Clone, Copy)]
pub enum Harm {
    None,
    /// All are late.
    Late(Duration),
    /// The connection is reset after so many.
    Reset(usize),
    /// The connection is closed after so many.
    Close(usize),
    /// After so many there come no more.
    Stall(usize),
    /// Only so many at a time, with a pause between.
    Throttle(usize, Duration),
}

/// Runs until dropped.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    harmed: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of a server. The plan says what happens to the n-th connection.
    pub async fn start(
        upstream: SocketAddr,
        plan: impl Fn(usize) -> Harm + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let harmed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&harmed);
        let task = tokio::spawn(async move {
            for n in 0.. {
                let (client, _) = listener.accept().await.unwrap();
                let (harm, count) = (plan(n), Arc::clone(&count));
                tokio::spawn(async move {
                    // Ends with either side.
                    let _ = carry(client, upstream, harm, &count).await;
                });
            }
        });
        Self { address, harmed, task }
    }

    /// Connections that were cut, reset or stalled.
    pub fn harmed(&self) -> usize {
        self.harmed.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    client: TcpStream,
    upstream: SocketAddr,
    harm: Harm,
    harmed: &AtomicUsize,
) -> std::io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    let (mut from_server, mut to_server) = server.into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let up = tokio::spawn(async move {
        tokio::io::copy(&mut from_client, &mut to_server).await.map(|_| from_client)
    });
    let (mut passed, mut buffer) = (0, vec![0; 16 << 10]);
    loop {
        let (most, limit) = match harm {
            Harm::Throttle(most, _) => (most, None),
            Harm::Reset(limit) | Harm::Close(limit) | Harm::Stall(limit) => {
                (buffer.len(), Some(limit))
            }
            Harm::None | Harm::Late(_) => (buffer.len(), None),
        };
        let most = limit.map_or(most, |limit| most.min(limit - passed)).min(buffer.len());
        if most == 0 {
            break;
        }
        let read = from_server.read(&mut buffer[..most]).await?;
        if read == 0 {
            return to_client.shutdown().await;
        }
        if let Harm::Late(pause) | Harm::Throttle(_, pause) = harm {
            tokio::time::sleep(pause).await;
        }
        to_client.write_all(&buffer[..read]).await?;
        passed += read;
    }
    harmed.fetch_add(1, Ordering::SeqCst);
    match harm {
        Harm::Stall(_) => {
            // Until the client goes away.
            let _ = up.await;
        }
        Harm::Reset(_) => to_client.as_ref().set_zero_linger()?,
        _ => to_client.shutdown().await?,
    }
    Ok(())
}
