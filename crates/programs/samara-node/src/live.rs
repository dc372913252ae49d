//! `/live/N`: what a node does and counts, as the live lines that dashboards read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use samara_engine::Gauge;
use samara_trace::live::{Event, Feed};
use samara_trace::unix_ns;

use crate::metrics::{FeedState, GroupSnapshot, PoolSnapshot, Scrape, Snapshot};
use crate::mix::Met;
use crate::model::PeerStatus;

/// The media type of the answers.
pub(crate) const CONTENT_TYPE: &str = "application/x-ndjson";

/// The live lines of a node. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Live(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    feed: Feed,
    met: Met,
}

impl Live {
    /// Starts the lines of a node, or of a node of a mix with its links.
    pub(crate) fn start(name: Option<String>, role: &str, met: Met) -> Self {
        Self(Arc::new(Mutex::new(Inner { feed: Feed::start(name, role, unix_ns()), met })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn push(&self, at_ns: u64, event: Event) {
        self.lock().feed.push(at_ns, event);
    }

    pub(crate) fn state(&self) -> FeedState {
        let feed = &self.lock().feed;
        FeedState { kept_bytes: Gauge(feed.bytes() as u64), events_forgotten: feed.forgotten() }
    }

    /// Returns the events from a number on, and the counts of this moment.
    pub(crate) fn answer(&self, from: u64, peers: &[PeerStatus], scrape: &Scrape) -> String {
        let mut inner = self.lock();
        let mut counts = match &scrape.mix {
            Some(mix) => inner.met.counts(mix),
            None => Vec::new(),
        };
        // A node of a mix has no topics and no peers of GossipSub, unless it is more than that.
        if scrape.mix.is_none() || !peers.is_empty() {
            counts.extend(gossip(peers, &scrape.node));
        }
        counts.extend(scrape.pool.iter().flat_map(pool));
        counts.extend(scrape.group.iter().flat_map(group));
        counts.extend(scrape.errors());
        inner.feed.answer(from, unix_ns(), counts)
    }
}

/// A link that is up, of which only the owed copies are known.
fn link(peer: &str, owed: usize) -> Event {
    Event::Link {
        peer: peer.to_owned(),
        up: true,
        round_trip_ns: None,
        bytes_up: None,
        bytes_down: None,
        queued_frames: Some(owed as u64),
        queued_bytes: None,
    }
}

fn queue(queue: &str, entries: usize, bytes: Option<u64>) -> Event {
    Event::Queue { queue: queue.to_owned(), entries: entries as u64, bytes }
}

fn throughput(of: &str, total: u64, bytes: Option<u64>) -> Event {
    Event::Throughput { of: of.to_owned(), total, bytes }
}

fn gossip(peers: &[PeerStatus], node: &Snapshot) -> Vec<Event> {
    let up = peers.iter().filter(|peer| peer.protocol.is_some());
    let mut counts: Vec<Event> = up.map(|peer| link(&peer.peer_id, peer.owed_copies)).collect();
    counts.push(queue("owed copies", node.state.owed_copies, None));
    counts.push(throughput(
        "messages",
        node.engine.messages_delivered,
        Some(node.traffic.payload_bytes_down),
    ));
    counts
}

fn pool(pool: &PoolSnapshot) -> Vec<Event> {
    let peers = pool.status.peers.iter();
    let mut counts: Vec<Event> = peers.map(|peer| link(&peer.id.to_string(), peer.owed_copies)).collect();
    counts.push(queue("transactions", pool.state.size, Some(*pool.state.size_bytes)));
    counts.push(queue("owed frames of the pool", pool.status.owed_copies, None));
    counts.push(throughput("transactions", pool.pool.added_txs, Some(pool.pool.added_bytes)));
    counts
}

fn group(group: &GroupSnapshot) -> Vec<Event> {
    let status = &group.status;
    vec![
        queue("members of the group", group.members, None),
        queue("links of the group", status.links, None),
        throughput("broadcasts", status.ring.delivered, Some(status.ring.delivered_bytes)),
    ]
}
