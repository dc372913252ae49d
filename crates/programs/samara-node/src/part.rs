//! Shared by the parts of a node: requests to their tasks, and records of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use samara_net::Request;
use samara_net::mix::Gone;
use tokio::sync::mpsc;

/// Maximum number of requests that wait for a task.
const REQUESTS_MAX: usize = 64;
/// Number of the last entries that a record keeps.
const KEPT_MAX: usize = 200_000;

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

/// The two ends of the queue of requests to a task.
pub(crate) fn requests<T>() -> (mpsc::Sender<Request<T>>, mpsc::Receiver<Request<T>>) {
    mpsc::channel(REQUESTS_MAX)
}

/// Sends a request to a task, and waits for its answer.
pub(crate) async fn ask<T: 'static, R: Send + 'static>(
    requests: &mpsc::Sender<Request<T>>,
    request: impl FnOnce(&mut T) -> R + Send + 'static,
) -> Result<R, Refusal> {
    Ok(samara_net::ask(requests, request).await?)
}

/// Whether a node, or a part of it, is about to stop. If so, it accepts no new work from clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(Arc<AtomicBool>);

impl Stopping {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Rejects new work once the node is about to stop.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.get() { Err(Refusal::Stopping) } else { Ok(()) }
    }
}

/// Events numbered from 0, of which the record keeps the last ones.
#[derive(Debug)]
pub(crate) struct Record<T> {
    /// The number of the first entry in `kept`.
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

    /// Returns up to `max` known entries from the number `from` on, with the number of the first of
    /// them and the number for the next request.
    pub(crate) fn page<R>(&self, from: u64, max: usize, show: impl FnMut(&T) -> R) -> (u64, u64, Vec<R>) {
        let skip = from.saturating_sub(self.first).min(self.kept.len() as u64);
        let start = self.first + skip;
        let page: Vec<R> = self.kept.iter().skip(skip as usize).take(max).map(show).collect();
        (start, start + page.len() as u64, page)
    }
}
