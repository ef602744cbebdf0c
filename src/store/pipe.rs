//! The bytes of one part, on their way from the task that reads them to the stream that hands them out. Bounded in bytes.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::budget::Reservation;
use crate::error::Error;

/// What comes out of a pipe.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// The part is whole.
    End,
    Failed(Error),
}

/// Where the reading task puts bytes.
#[derive(Debug)]
pub(super) struct Inlet {
    sender: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
    most: u32,
}

/// Where they come out. Holds the reservation, and gives it back as bytes are taken.
#[derive(Debug)]
pub(super) struct Outlet {
    receiver: mpsc::UnboundedReceiver<Piece>,
    room: Arc<Semaphore>,
    most: u32,
    reservation: Reservation,
}

/// Nobody takes the bytes any more.
#[derive(Debug)]
pub(super) struct Abandoned;

/// A pipe for `capacity` bytes, which `reservation` stands for. (The channel has no limit of its own: the room has.)
pub(super) fn pipe(capacity: u64, reservation: Reservation) -> (Inlet, Outlet) {
    let most = u32::try_from(capacity).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(most as usize));
    let (sender, receiver) = mpsc::unbounded_channel();
    (Inlet { sender, room: Arc::clone(&room), most }, Outlet { receiver, room, most, reservation })
}

impl Inlet {
    /// Whether the bytes can be put in without waiting for whoever takes them.
    pub(super) fn has_room(&self, bytes: &Bytes) -> bool {
        self.room.available_permits() >= weight(bytes, self.most) as usize
    }

    /// Waits for room, and puts the bytes in.
    pub(super) async fn put(&self, bytes: Bytes) -> Result<(), Abandoned> {
        if bytes.is_empty() {
            return Ok(());
        }
        let room =
            self.room.acquire_many(weight(&bytes, self.most)).await.map_err(|_| Abandoned)?;
        room.forget();
        self.sender.send(Piece::Bytes(bytes)).map_err(|_| Abandoned)
    }

    /// The last piece.
    pub(super) fn finish(self, last: Result<(), Error>) {
        // If nobody listens there is nobody to tell.
        let _ = self.sender.send(last.map_or_else(Piece::Failed, |()| Piece::End));
    }
}

/// A chunk larger than the pipe fits when the pipe is empty.
fn weight(bytes: &Bytes, most: u32) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(most)
}

impl Outlet {
    /// The next piece; `None` only if the task went away without a last one.
    pub(super) async fn take(&mut self) -> Option<Piece> {
        let piece = self.receiver.recv().await;
        if let Some(Piece::Bytes(bytes)) = &piece {
            self.room.add_permits(weight(bytes, self.most) as usize);
            self.reservation.give_back(bytes.len() as u64);
        }
        piece
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.room.close();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::store::Budget;

    #[test]
    fn no_more_than_its_capacity() {
        let budget = Budget::new(10);
        let (inlet, mut outlet) = pipe(10, budget.try_reserve(10).unwrap());
        let put =
            |text: &'static str| inlet.put(Bytes::from_static(text.as_bytes())).now_or_never();
        assert!(put("1234567").unwrap().is_ok());
        assert!(!inlet.has_room(&Bytes::from_static(b"1234")));
        assert!(put("1234").is_none());
        assert!(put("").unwrap().is_ok());
        assert!(
            matches!(outlet.take().now_or_never(), Some(Some(Piece::Bytes(b))) if b.len() == 7)
        );
        assert_eq!(budget.reserved(), 3);
        // Larger than the pipe: alone.
        assert!(put("123456789012").unwrap().is_ok());
        assert!(put("1").is_none());
        assert!(
            matches!(outlet.take().now_or_never(), Some(Some(Piece::Bytes(b))) if b.len() == 12)
        );
        assert!(put("1234567890").unwrap().is_ok());
        assert!(!inlet.has_room(&Bytes::from_static(b"1")));
        drop(outlet);
        assert!(put("1").unwrap().is_err());
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn the_end_is_told() {
        let (inlet, mut outlet) = pipe(10, Reservation::none());
        inlet.finish(Ok(()));
        assert!(matches!(outlet.take().now_or_never(), Some(Some(Piece::End))));
        assert!(matches!(outlet.take().now_or_never(), Some(None)));
    }
}
