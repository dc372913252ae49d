//! What the parts of a node share: the clock, requests to their tasks, and records of what happened.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use samara_net::mix::Gone;
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for a task.
const REQUESTS_MAX: usize = 64;
/// Entries that a record keeps: the last ones.
const KEPT_MAX: usize = 200_000;

/// The machine's clock in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    unix_ns_of(SystemTime::now())
}

/// Nanoseconds since 1970; 0 before that.
pub(crate) fn unix_ns_of(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Wrong(String),
    /// The node has stopped, or is about to.
    Stopping,
}

impl From<Gone> for Refusal {
    fn from(_: Gone) -> Self {
        Self::Stopping
    }
}

/// A request to the task `T`.
pub(crate) type Request<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The two ends of the queue of requests to a task.
pub(crate) fn requests<T>() -> (mpsc::Sender<Request<T>>, mpsc::Receiver<Request<T>>) {
    mpsc::channel(REQUESTS_MAX)
}

/// Asks a task, and waits for its answer.
pub(crate) async fn ask<T: 'static, R: Send + 'static>(
    requests: &mpsc::Sender<Request<T>>,
    request: impl FnOnce(&mut T) -> R + Send + 'static,
) -> Result<R, Refusal> {
    let (answer, answered) = oneshot::channel();
    // Whoever asked may have gone away meanwhile: then the answer is for nobody.
    let request: Request<T> = Box::new(move |task| drop(answer.send(request(task))));
    requests.send(request).await.map_err(|_| Refusal::Stopping)?;
    answered.await.map_err(|_| Refusal::Stopping)
}

/// Whether a node, or a part of it, is about to stop: then it takes nothing new from clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(Arc<AtomicBool>);

impl Stopping {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Refuses what is new once it is about to stop.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.get() { Err(Refusal::Stopping) } else { Ok(()) }
    }
}

/// What happened, numbered from 0; the last entries are kept.
#[derive(Debug)]
pub(crate) struct Record<T> {
    /// The number of the first entry that is kept.
    first: u64,
    kept: VecDeque<T>,
}

impl<T> Record<T> {
    pub(crate) const fn new() -> Self {
        Self { first: 0, kept: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(entry);
    }

    /// Entries from a number on that are still known, `max` of them at most; with the number of the first of them, and
    /// that to ask for next.
    pub(crate) fn page<R>(&self, from: u64, max: usize, show: impl FnMut(&T) -> R) -> (u64, u64, Vec<R>) {
        let skip = from.saturating_sub(self.first).min(self.kept.len() as u64);
        let start = self.first + skip;
        let page: Vec<R> = self.kept.iter().skip(skip as usize).take(max).map(show).collect();
        (start, start + page.len() as u64, page)
    }
}
