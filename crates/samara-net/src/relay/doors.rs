//! Which links calls may come by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};

use super::identity::Fingerprint;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// It is coming up: calls wait.
    Connecting,
    Open,
    Shut,
}

struct Entry {
    peer: Fingerprint,
    state: watch::Sender<LinkState>,
    waiting: Arc<Semaphore>,
}

/// The links of this one, as calls that come in find them.
#[derive(Clone, Default)]
pub(super) struct Doors(Arc<Mutex<BTreeMap<u64, Entry>>>);

/// What a call needs.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    state: watch::Receiver<LinkState>,
    /// KiB of frames that may wait for the engine.
    pub(super) waiting: Arc<Semaphore>,
}

impl Pass {
    /// Waits until the link is up. Whether it is.
    pub(super) async fn opened(&mut self) -> bool {
        let state = self.state.wait_for(|state| *state != LinkState::Connecting).await;
        state.is_ok_and(|state| *state == LinkState::Open)
    }

    /// Waits until the link is down.
    pub(super) async fn shut(&mut self) {
        // Fails only if it is already, and forgotten.
        let _ = self.state.wait_for(|state| *state == LinkState::Shut).await;
    }
}

impl Doors {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link is coming up. Whether its number is new, as random numbers of 64 bits are.
    pub(super) fn prepare(&self, link: u64, peer: Fingerprint, waiting_kib: u32) -> bool {
        let waiting = Arc::new(Semaphore::new(waiting_kib as usize));
        let entry = Entry { peer, state: watch::Sender::new(LinkState::Connecting), waiting };
        let mut entries = self.entries();
        let is_new = !entries.contains_key(&link);
        if is_new {
            entries.insert(link, entry);
        }
        is_new
    }

    pub(super) fn open(&self, link: u64) {
        if let Some(entry) = self.entries().get(&link) {
            entry.state.send_replace(LinkState::Open);
        }
    }

    pub(super) fn shut(&self, link: u64) {
        if let Some(entry) = self.entries().remove(&link) {
            entry.state.send_replace(LinkState::Shut);
        }
    }

    pub(super) fn shut_all(&self) {
        let entries = std::mem::take(&mut *self.entries());
        for entry in entries.values() {
            entry.state.send_replace(LinkState::Shut);
        }
    }

    /// What a call by a link needs, if it is a link with whoever calls.
    pub(super) fn pass(&self, link: u64, peer: Fingerprint) -> Option<Pass> {
        let entries = self.entries();
        let entry = entries.get(&link).filter(|entry| entry.peer == peer)?;
        Some(Pass { state: entry.state.subscribe(), waiting: Arc::clone(&entry.waiting) })
    }
}
