//! The way from the hub to the application.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::Stream;
use samara_mix::{Event, Phase};
use tokio::sync::mpsc;

/// Something that has happened.
#[derive(Debug)]
pub struct Happened {
    /// When.
    pub at: SystemTime,
    /// What.
    pub what: What,
}

/// What has happened.
#[derive(Debug)]
pub enum What {
    /// What the protocol tells; never [`Event::Compute`].
    Event(Event),
    /// The last slots of a phase have been worked on: how long processors took for the phase, all threads together. Where the system does not
    /// tell the processor time of a thread, its time.
    Worked {
        /// Of which round.
        round: u64,
        /// Of which phase; none are keys and secrets, before the first phase.
        phase: Option<Phase>,
        /// How long.
        cpu: Duration,
    },
}

/// What happens at a node or at the scheduler, in order. It ends when that has stopped.
///
/// Nobody waits for an application that does not take what comes: further events are lost, and counted
/// ([`Counters::events_lost`](super::Counters::events_lost)).
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Happened>);

impl Events {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Happened> {
        self.0.recv().await
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Happened> {
        self.0.try_recv().ok()
    }
}

impl Stream for Events {
    type Item = Happened;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Happened>> {
        self.0.poll_recv(cx)
    }
}

/// The hub's end.
#[derive(Debug)]
pub(super) struct Outlet {
    queue: mpsc::Sender<Happened>,
    lost: AtomicU64,
}

/// A queue of so many events.
pub(super) fn outlet(max: usize) -> (Outlet, Events) {
    let (queue, receiver) = mpsc::channel(max);
    (Outlet { queue, lost: AtomicU64::new(0) }, Events(receiver))
}

impl Outlet {
    pub(super) fn tell(&self, what: What) {
        let happened = Happened { at: SystemTime::now(), what };
        // Of an application that is gone nothing is expected.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(happened) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
