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

fn weight(event: &Event) -> usize {
    match event {
        Event::Delivered { payload, .. } => payload.len() + OVERHEAD,
        _ => OVERHEAD,
    }
}

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
pub struct Events {
    queue: mpsc::UnboundedReceiver<Event>,
    shared: Arc<Shared>,
    half: usize,
}

impl Events {
    /// Returns the next event, or `None` at the end.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.queue.recv().await?;
        self.took(&event);
        Some(event)
    }

    fn took(&self, event: &Event) {
        let weight = weight(event);
        let before = self.shared.bytes.fetch_sub(weight, Ordering::AcqRel);
        if before > self.half && before - weight <= self.half {
            self.shared.taken.notify_one();
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = self.queue.poll_recv(cx);
        if let Poll::Ready(Some(event)) = &event {
            self.took(event);
        }
        event
    }
}

#[derive(Debug)]
pub(super) struct Outlet {
    queue: mpsc::UnboundedSender<Event>,
    shared: Arc<Shared>,
    max: usize,
}

pub(super) fn outlet(max: usize) -> (Outlet, Events) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared::default());
    let events = Events { queue: receiver, shared: Arc::clone(&shared), half: max / 2 };
    (Outlet { queue: sender, shared, max }, events)
}

impl Outlet {
    pub(super) fn push(&self, event: Event) {
        let weight = weight(&event);
        self.shared.bytes.fetch_add(weight, Ordering::AcqRel);
        if self.queue.send(event).is_err() {
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
