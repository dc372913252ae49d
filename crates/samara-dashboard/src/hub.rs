//! The view of a run and its changes, shared by all pages that show it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::state::View;

/// Maximum number of changes kept for pages that reconnect.
const KEPT: usize = 256;
/// Maximum number of bytes of kept changes.
const KEPT_BYTES: usize = 8 << 20;
/// Maximum number of changes queued for a slow page. Beyond, the page gets a snapshot.
const WAITING: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Identifies the state of a page after this message.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// The parts by name; null for a removed part.
    pub(crate) json: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All parts of the view.
    Snapshot,
    /// The changed parts only.
    Delta,
}

/// The view of a run with its latest changes.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    changes: broadcast::Sender<Message>,
}

#[derive(Debug)]
struct Inner {
    /// Differs between starts, so that ids of an earlier process are not mistaken for current ones.
    epoch: u64,
    seq: u64,
    parts: BTreeMap<String, Arc<str>>,
    kept: VecDeque<(u64, Message)>,
    kept_bytes: usize,
}

impl Hub {
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let inner = Inner {
            epoch: since.as_nanos() as u64,
            seq: 0,
            parts: BTreeMap::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
        };
        Self { inner: Mutex::new(inner), changes: broadcast::channel(WAITING).0 }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a page is open.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Sends the differences between the current view and a new one to all pages.
    pub(crate) fn publish(&self, view: View) {
        let mut inner = self.lock();
        let mut changed: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for name in inner.parts.keys().filter(|name| !view.contains_key(*name)) {
            changed.insert(name.clone(), "null".into());
        }
        for name in changed.keys() {
            inner.parts.remove(name);
        }
        for (name, value) in view {
            let json: Arc<str> = value.to_string().into();
            if inner.parts.get(&name) != Some(&json) {
                inner.parts.insert(name.clone(), Arc::clone(&json));
                changed.insert(name, json);
            }
        }
        if changed.is_empty() {
            return;
        }
        inner.seq += 1;
        let message = Message { id: inner.id(), kind: Kind::Delta, json: object(&changed) };
        let seq = inner.seq;
        inner.kept_bytes += message.json.len();
        inner.kept.push_back((seq, message.clone()));
        while inner.kept.len() > KEPT || inner.kept_bytes > KEPT_BYTES {
            let Some((_, oldest)) = inner.kept.pop_front() else { break };
            inner.kept_bytes -= oldest.json.len();
        }
        // Fails only if no page is open.
        let _ = self.changes.send(message);
    }

    /// Returns the messages that a page needs after `last_id`, and a receiver of later ones.
    pub(crate) fn join(&self, last_id: Option<&str>) -> (Vec<Message>, broadcast::Receiver<Message>) {
        let inner = self.lock();
        // The lock prevents that a change is published in between.
        let changes = self.changes.subscribe();
        let first = last_id.and_then(|id| inner.since(id)).unwrap_or_else(|| vec![inner.snapshot()]);
        (first, changes)
    }

    /// Returns the whole current view.
    pub(crate) fn snapshot(&self) -> Message {
        self.lock().snapshot()
    }
}

impl Inner {
    fn id(&self) -> String {
        format!("{}-{}", self.epoch, self.seq)
    }

    fn snapshot(&self) -> Message {
        Message { id: self.id(), kind: Kind::Snapshot, json: object(&self.parts) }
    }

    /// The changes after an id, if all of them are still kept.
    fn since(&self, id: &str) -> Option<Vec<Message>> {
        let (epoch, seq) = id.split_once('-')?;
        let (epoch, seq): (u64, u64) = (epoch.parse().ok()?, seq.parse().ok()?);
        if epoch != self.epoch || seq > self.seq {
            return None;
        }
        let first_kept = self.kept.front().map_or(self.seq + 1, |(first, _)| *first);
        if seq + 1 < first_kept {
            return None;
        }
        let after = self.kept.iter().filter(|(number, _)| *number > seq);
        Some(after.map(|(_, message)| message.clone()).collect())
    }
}

fn object(parts: &BTreeMap<String, Arc<str>>) -> Arc<str> {
    let parts = parts.iter().map(|(name, json)| format!("{}:{json}", Value::from(name.as_str())));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(",")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(parts: &[(&str, Value)]) -> View {
        parts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn apply(page: &mut BTreeMap<String, Value>, message: &Message) {
        let parts: BTreeMap<String, Value> = serde_json::from_str(&message.json).unwrap();
        if message.kind == Kind::Snapshot {
            page.clear();
        }
        for (name, value) in parts {
            if value.is_null() && message.kind == Kind::Delta {
                page.remove(&name)
            } else {
                page.insert(name, value)
            };
        }
    }

    #[test]
    fn only_changes_are_sent() {
        let hub = Hub::new();
        hub.publish(view(&[("a", json!(1)), ("b", json!([1, 2]))]));
        let (first, mut changes) = hub.join(None);
        assert_eq!((first.len(), first[0].kind), (1, Kind::Snapshot));
        hub.publish(view(&[("a", json!(1)), ("b", json!([1, 2]))]));
        assert!(changes.try_recv().is_err(), "the view has not changed");
        hub.publish(view(&[("a", json!(2))]));
        assert_eq!(&*changes.try_recv().unwrap().json, r#"{"a":2,"b":null}"#);
    }

    #[test]
    fn reconnecting_page_gets_missed_changes_or_snapshot() {
        let hub = Hub::new();
        let mut page = BTreeMap::new();
        hub.publish(view(&[("n", json!(0)), ("gone", json!(1))]));
        let (first, _) = hub.join(None);
        apply(&mut page, &first[0]);
        let mut id = first[0].id.clone();
        for (n, missed) in [(1, 3), (4, KEPT), (300, KEPT + 5)] {
            (0..missed).for_each(|step| hub.publish(view(&[("n", json!(n + step))])));
            let (came, _) = hub.join(Some(&id));
            let is_snapshot = came.len() == 1 && came[0].kind == Kind::Snapshot;
            assert_eq!(is_snapshot, missed > KEPT);
            came.iter().for_each(|message| apply(&mut page, message));
            assert_eq!(page, view(&[("n", json!(n + missed - 1))]));
            id.clone_from(&came.last().unwrap().id);
            assert!(hub.join(Some(&id)).0.is_empty(), "the page missed nothing");
        }
    }

    #[test]
    fn ids_of_other_hubs_are_ignored() {
        let hub = Hub::new();
        hub.publish(view(&[("n", json!(0))]));
        let future = format!("{}-99", hub.snapshot().id.split_once('-').unwrap().0);
        for id in ["", "x", "1-0", "-", "18446744073709551616-1", &future] {
            assert_eq!(hub.join(Some(id)).0, [hub.snapshot()], "{id}");
        }
    }

    #[test]
    fn kept_changes_are_bounded() {
        let hub = Hub::new();
        (0..40).for_each(|n| hub.publish(view(&[("big", json!(format!("{n}{}", "x".repeat(1 << 20))))])));
        assert!(hub.lock().kept_bytes <= KEPT_BYTES && hub.lock().kept.len() < 9);
    }
}
