//! The queue of events from the member's task to the application.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use samara_ring::Event;
use tokio::sync::{Notify, mpsc};

/// Bytes that an event counts besides its payload, so that empty messages are bounded as well.
const OVERHEAD: usize = 64;

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicUsize,
    /// Notified when the queue falls to half of its bound.
    taken: Notify,
}

/// The events of a member in order: deliveries, views and suspicions. The stream ends when the
/// member has left or was dropped.
///
/// If the application does not take events, the group waits once the queue is full.
#[derive(Debug)]
pub struct Events<E = Event> {
    /// Each event with its weight.
    queue: mpsc::UnboundedReceiver<(E, usize)>,
    shared: Arc<Shared>,
    half: usize,
}

impl<E> Events<E> {
    /// Returns the next event, or `None` at the end.
    pub async fn next(&mut self) -> Option<E> {
        let (event, weight) = self.queue.recv().await?;
        self.took(weight);
        Some(event)
    }

    fn took(&self, weight: usize) {
        let before = self.shared.bytes.fetch_sub(weight, Ordering::AcqRel);
        if before > self.half && before - weight <= self.half {
            self.shared.taken.notify_one();
        }
    }
}

impl<E> Stream for Events<E> {
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E>> {
        let taken = self.queue.poll_recv(cx);
        taken.map(|taken| {
            let (event, weight) = taken?;
            self.took(weight);
            Some(event)
        })
    }
}

#[derive(Debug)]
pub(super) struct Outlet<E> {
    queue: mpsc::UnboundedSender<(E, usize)>,
    shared: Arc<Shared>,
    max: usize,
}

pub(super) fn outlet<E>(max: usize) -> (Outlet<E>, Events<E>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared::default());
    let events = Events { queue: receiver, shared: Arc::clone(&shared), half: max / 2 };
    (Outlet { queue: sender, shared, max }, events)
}

impl<E> Outlet<E> {
    /// Passes on an event with a payload of this length.
    pub(super) fn push(&self, event: E, payload_bytes: usize) {
        let weight = payload_bytes + OVERHEAD;
        self.shared.bytes.fetch_add(weight, Ordering::AcqRel);
        if self.queue.send((event, weight)).is_err() {
            // Without a receiver nothing waits.
            self.shared.bytes.fetch_sub(weight, Ordering::AcqRel);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.shared.bytes.load(Ordering::Acquire)
    }

    /// Returns true if the queue is full and the application still exists.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() > self.max && !self.queue.is_closed()
    }

    /// Returns true if a queue that was full has room again.
    pub(super) fn has_room(&self) -> bool {
        self.bytes() <= self.max / 2 || self.queue.is_closed()
    }

    /// Waits until there is room, or the application has dropped its end.
    pub(super) async fn wait_for_room(&self) {
        while !self.has_room() {
            tokio::select! {
                () = self.shared.taken.notified() => {}
                () = self.queue.closed() => {}
            }
        }
    }
}
