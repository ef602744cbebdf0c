//! A stream that runs in a task of its own, ahead of whoever polls.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Runs a stream in a task and holds what it yields in a bounded channel. Dropping it stops the task; a panic in the task comes out
/// of `poll_next`.
#[derive(Debug)]
pub(crate) struct Pump<T> {
    receiver: mpsc::Receiver<T>,
    task: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Pump<T> {
    /// # Panics
    /// Outside a tokio runtime, or if `ahead` is 0.
    pub(crate) fn spawn(stream: impl Stream<Item = T> + Send + 'static, ahead: usize) -> Self {
        let (sender, receiver) = mpsc::channel(ahead);
        let task = tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            // Ends when the stream ends or nobody listens.
            while let Some(item) = stream.next().await {
                if sender.send(item).await.is_err() {
                    return;
                }
            }
        });
        Self { receiver, task: Some(task) }
    }
}

impl<T> Stream for Pump<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(item) = ready!(self.receiver.poll_recv(cx)) {
            return Poll::Ready(Some(item));
        }
        // The channel is closed: the task has ended, well or with a panic.
        if let Some(task) = &mut self.task {
            let ended = ready!(Pin::new(task).poll(cx));
            self.task = None;
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        Poll::Ready(None)
    }
}

impl<T> Drop for Pump<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
