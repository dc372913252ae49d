//! The view of a run and its changes, shared by all pages that show it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::state::View;

/// Maximum number of changes kept for pages that are slow or reconnect. Beyond, a page gets a
/// snapshot.
const KEPT: usize = 256;
/// Maximum number of bytes of kept changes.
const KEPT_BYTES: usize = 8 << 20;

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
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// Differs between starts, so that ids of an earlier process are not mistaken for current ones.
    epoch: u64,
    seq: u64,
    parts: BTreeMap<String, Arc<str>>,
    kept: VecDeque<(u64, Message)>,
    kept_bytes: usize,
    /// Number of open pages.
    pages: usize,
    is_closed: bool,
    /// Whether the view contains all that its files had at the start.
    is_ready: bool,
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
            pages: 0,
            is_closed: false,
            is_ready: false,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a page is open.
    pub(crate) fn has_pages(&self) -> bool {
        self.lock().pages > 0
    }

    /// Ends all pages.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Records that the view contains all that its files had at the start.
    pub(crate) fn set_ready(&self) {
        self.lock().is_ready = true;
        self.changed.notify_all();
    }

    /// Waits for this; returns false if it takes longer.
    pub(crate) fn is_ready_within(&self, timeout: Duration) -> bool {
        let waits = |inner: &mut Inner| !inner.is_closed && !inner.is_ready;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ready
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
        self.changed.notify_all();
    }

    /// Opens a page that knows the state after `last_id`, or none.
    pub(crate) fn join(self: &Arc<Self>, last_id: Option<&str>) -> Page {
        let mut inner = self.lock();
        inner.pages += 1;
        let seen = last_id.and_then(|id| inner.seq_of(id));
        Page { hub: Arc::clone(self), seen }
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

    /// The number of the state with this id, unless another process has given it.
    fn seq_of(&self, id: &str) -> Option<u64> {
        let (epoch, seq) = id.split_once('-')?;
        let (epoch, seq): (u64, u64) = (epoch.parse().ok()?, seq.parse().ok()?);
        (epoch == self.epoch && seq <= self.seq).then_some(seq)
    }

    /// The changes after a state, or all parts if some of the changes are not kept.
    fn since(&self, seen: Option<u64>) -> Vec<Message> {
        let first_kept = self.kept.front().map_or(self.seq + 1, |(first, _)| *first);
        match seen {
            Some(seen) if seen + 1 >= first_kept => {
                let after = self.kept.iter().filter(|(number, _)| *number > seen);
                after.map(|(_, message)| message.clone()).collect()
            }
            _ => vec![self.snapshot()],
        }
    }
}

/// A page that receives updates. The hub does not wait for it.
#[derive(Debug)]
pub(crate) struct Page {
    hub: Arc<Hub>,
    /// The number of the state that the page has.
    seen: Option<u64>,
}

impl Page {
    /// Waits for changes; returns nothing after the timeout, and `None` if the hub is closed.
    pub(crate) fn next(&mut self, timeout: Duration) -> Option<Vec<Message>> {
        let inner = self.hub.lock();
        let is_idle = |inner: &mut Inner| !inner.is_closed && self.seen == Some(inner.seq);
        let waited = self.hub.changed.wait_timeout_while(inner, timeout, is_idle);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if inner.is_closed {
            return None;
        }
        let messages = inner.since(self.seen);
        self.seen = Some(inner.seq);
        Some(messages)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.hub.lock().pages -= 1;
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

    fn next(page: &mut Page) -> Vec<Message> {
        page.next(Duration::ZERO).unwrap()
    }

    #[test]
    fn only_changes_are_sent() {
        let hub = Arc::new(Hub::new());
        hub.publish(view(&[("a", json!(1)), ("b", json!([1, 2]))]));
        let mut page = hub.join(None);
        let first = next(&mut page);
        assert_eq!((first.len(), first[0].kind), (1, Kind::Snapshot));
        hub.publish(view(&[("a", json!(1)), ("b", json!([1, 2]))]));
        assert!(next(&mut page).is_empty(), "the view has not changed");
        hub.publish(view(&[("a", json!(2))]));
        assert_eq!(&*next(&mut page)[0].json, r#"{"a":2,"b":null}"#);
    }

    #[test]
    fn pages_wait_for_changes_and_end_with_their_hub() {
        let hub = Arc::new(Hub::new());
        let mut page = hub.join(None);
        assert!(hub.has_pages());
        next(&mut page);
        let (sender, lengths) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            while let Some(messages) = page.next(Duration::from_secs(60)) {
                sender.send(messages.len()).unwrap();
            }
        });
        hub.publish(view(&[("a", json!(1))]));
        assert_eq!(lengths.recv(), Ok(1));
        hub.close();
        waiting.join().unwrap();
        assert!(lengths.recv().is_err());
        assert!(!hub.has_pages());
    }

    /// A run whose files cannot be read does not hold its pages for ever.
    #[test]
    fn pages_wait_for_the_first_view_within_bounds() {
        let hub = Arc::new(Hub::new());
        assert!(!hub.is_ready_within(Duration::from_millis(1)));
        let other = Arc::clone(&hub);
        let waiting = std::thread::spawn(move || other.is_ready_within(Duration::from_secs(60)));
        hub.set_ready();
        assert!(waiting.join().unwrap());
    }

    /// The hub does not wait for a slow page, which still gets the final view.
    #[test]
    fn slow_page_gets_a_snapshot() {
        let hub = Arc::new(Hub::new());
        let mut page = hub.join(None);
        assert_eq!(&*next(&mut page)[0].json, "{}");
        (1..=1000).for_each(|n| hub.publish(view(&[("n", json!(n))])));
        let messages = next(&mut page);
        assert_eq!((messages[0].kind, &*messages[0].json), (Kind::Snapshot, r#"{"n":1000}"#));
        // Changes continue from the snapshot, without repetition.
        hub.publish(view(&[("n", json!(1001))]));
        let messages = next(&mut page);
        assert_eq!((messages[0].kind, &*messages[0].json), (Kind::Delta, r#"{"n":1001}"#));
    }

    #[test]
    fn reconnecting_page_gets_missed_changes_or_snapshot() {
        let hub = Arc::new(Hub::new());
        let mut page = BTreeMap::new();
        hub.publish(view(&[("n", json!(0)), ("gone", json!(1))]));
        let first = next(&mut hub.join(None));
        apply(&mut page, &first[0]);
        let mut id = first[0].id.clone();
        for (n, missed) in [(1, 3), (4, KEPT), (300, KEPT + 5)] {
            (0..missed).for_each(|step| hub.publish(view(&[("n", json!(n + step))])));
            let came = next(&mut hub.join(Some(&id)));
            let is_snapshot = came.len() == 1 && came[0].kind == Kind::Snapshot;
            assert_eq!(is_snapshot, missed > KEPT);
            came.iter().for_each(|message| apply(&mut page, message));
            assert_eq!(page, view(&[("n", json!(n + missed - 1))]));
            id.clone_from(&came.last().unwrap().id);
            assert!(next(&mut hub.join(Some(&id))).is_empty(), "the page missed nothing");
        }
    }

    #[test]
    fn ids_of_other_hubs_are_ignored() {
        let hub = Arc::new(Hub::new());
        hub.publish(view(&[("n", json!(0))]));
        let future = format!("{}-99", hub.snapshot().id.split_once('-').unwrap().0);
        for id in ["", "x", "1-0", "-", "18446744073709551616-1", &future] {
            assert_eq!(next(&mut hub.join(Some(id))), [hub.snapshot()], "{id}");
        }
    }

    #[test]
    fn kept_changes_are_bounded() {
        let hub = Hub::new();
        (0..40).for_each(|n| hub.publish(view(&[("big", json!(format!("{n}{}", "x".repeat(1 << 20))))])));
        assert!(hub.lock().kept_bytes <= KEPT_BYTES && hub.lock().kept.len() < 9);
    }
}
