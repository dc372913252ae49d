//! The way from the hub to the application.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use samara_mix::Event;
use tokio::sync::mpsc;

/// What happens at a node or at the scheduler, in order; never [`Event::Compute`]. It ends when that has stopped.
///
/// Nobody waits for an application that does not take what comes: further events are lost, and counted
/// ([`Counters::events_lost`](super::Counters::events_lost)).
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Event>);

impl Events {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// The hub's end.
#[derive(Debug)]
pub(super) struct Outlet {
    queue: mpsc::Sender<Event>,
    lost: AtomicU64,
}

/// A queue of so many events.
pub(super) fn outlet(max: usize) -> (Outlet, Events) {
    let (queue, receiver) = mpsc::channel(max);
    (Outlet { queue, lost: AtomicU64::new(0) }, Events(receiver))
}

impl Outlet {
    pub(super) fn tell(&self, event: Event) {
        // Of an application that is gone nothing is expected.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(event) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
