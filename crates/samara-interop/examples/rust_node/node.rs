//! The node: events of the swarm, ends of verifications, and requests to the control API.

use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::StreamExt;
use libp2p::gossipsub::{self, MessageId, PublishError, TopicHash};
use libp2p::swarm::SwarmEvent;
use samara_gossipsub::Config;
use samara_gossipsub::rpc::Topic;
use samara_node::Checked;
use samara_node::model::{PeerStatus, Status, TopicStatus};
use samara_trace::{Body, Counts, DeliverMessage, PublishMessage, TraceEvent, TraceWriter};
use tokio::sync::mpsc;

use crate::cells::{Cells, Changes, Key};
use crate::control::Request;
use crate::swarm::{BehaviourEvent, Host, id_of};

/// The behaviour sets the timer of its next heartbeat without polling it (0.50.1): without other
/// events, there is no heartbeat.
const POLL_AT_LEAST_EVERY: Duration = Duration::from_millis(50);
/// Time for queues to drain at the end. The library does not report when they are empty.
const DRAIN: Duration = Duration::from_millis(500);

pub(crate) struct Node {
    host: Host,
    config: Config,
    topics: Vec<Topic>,
    trace: TraceWriter,
    cells: Option<Cells>,
    published: u64,
    delivered: u64,
    delivered_bytes: u64,
    /// Frames with partial messages, or messages: the library does not report others.
    frames: u64,
}

impl Node {
    pub(crate) fn new(host: Host, config: &Checked, trace: TraceWriter) -> Self {
        let cells = config.cells.as_ref().map(|cells| Cells::new(cells, &config.topics));
        let (config, topics) = (config.engine.clone(), config.topics.clone());
        let (published, delivered, delivered_bytes, frames) = Default::default();
        Self { host, config, topics, trace, cells, published, delivered, delivered_bytes, frames }
    }

    /// Runs until the control API is gone.
    pub(crate) async fn run(&mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let due = self.cells.as_ref().and_then(Cells::next_at);
            let poll = Instant::now() + POLL_AT_LEAST_EVERY;
            let wake = due.map_or(poll, |at| at.min(poll));
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                event = self.host.swarm.select_next_some() => self.on_event(event),
                request = requests.recv() => match request {
                    Some(request) => self.answer(request),
                    None => return,
                },
            }
            while let Some(changes) = self.cells.as_mut().and_then(Cells::due) {
                self.apply(changes);
            }
        }
    }

    /// Lets the rest leave, and completes the trace.
    pub(crate) async fn end(mut self) -> (Counts, io::Result<()>) {
        let until = Instant::now() + DRAIN;
        while tokio::time::timeout_at(until.into(), self.host.swarm.select_next_some()).await.is_ok() {}
        self.trace.finish()
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(event)) => self.on_gossip(event),
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), error, .. } => {
                tracing::warn!(%peer, %error, "cannot connect");
                self.host.dial_again(peer);
            }
            _ => {}
        }
    }

    fn on_gossip(&mut self, event: gossipsub::Event) {
        match event {
            gossipsub::Event::Message { propagation_source, message_id, message } => {
                self.frames += 1;
                self.delivered += 1;
                self.delivered_bytes += message.data.len() as u64;
                self.record(Body::DeliverMessage(DeliverMessage {
                    message_id: Some(message_id.0),
                    topic: Some(message.topic.to_string()),
                    received_from: Some(propagation_source.to_bytes()),
                }));
            }
            gossipsub::Event::Partial { topic_hash, peer_id, group_id, message, metadata } => {
                self.frames += 1;
                let Some(cells) = &mut self.cells else { return };
                let key = (topic_hash, Bytes::from(group_id));
                if let Err(error) = cells.receive(peer_id, key.clone(), message, metadata.is_some()) {
                    tracing::warn!(%peer_id, error, "a partial message is invalid");
                    self.host.swarm.behaviour_mut().gossip.report_invalid_partial(peer_id, &key.0);
                }
            }
            _ => {}
        }
    }

    fn record(&self, body: Body) {
        // The writer counts what it drops.
        self.trace.record(TraceEvent::new(&self.host.peer_id().to_bytes(), unix_ns(), body));
    }

    /// Sends what follows from a change.
    fn apply(&mut self, Changes { columns, header }: Changes) {
        for key in &columns {
            self.send(key);
            self.complete(key);
        }
        // The first topic of each peer carries the header.
        let Some(group) = header else { return };
        for topic in self.cells.as_ref().map(|cells| cells.topics.clone()).unwrap_or_default() {
            let gossip = &self.host.swarm.behaviour().gossip;
            let cells = self.cells.as_ref();
            if cells.is_some_and(|cells| cells.lacks_header(&group, gossip.mesh_peers(&topic))) {
                self.send(&(topic, group.clone()));
            }
        }
    }

    /// Has the library send what is new of a column.
    fn send(&mut self, key: &Key) {
        let Some(snapshot) = self.cells.as_ref().and_then(|cells| cells.snapshot(key)) else { return };
        let gossip = &mut self.host.swarm.behaviour_mut().gossip;
        match gossip.publish_partial(key.0.clone(), snapshot) {
            // Other implementations do not take this for an error.
            Ok(()) | Err(PublishError::NoPeersSubscribedToTopic) => {}
            Err(error) => tracing::warn!(topic = %key.0, %error, "cannot send cells"),
        }
    }

    /// Publishes a column whose cells are all there, to peers that want whole columns.
    fn complete(&mut self, key: &Key) {
        let Some(column) = self.cells.as_mut().and_then(|cells| cells.complete(key)) else { return };
        let topic = &key.0;
        let id = id_of(&self.config, topic, &column);
        match self.host.swarm.behaviour_mut().gossip.publish(topic.clone(), column.to_vec()) {
            // All peers request cells.
            Ok(_) | Err(PublishError::NoPeersSubscribedToTopic) => self.note_published(topic, id),
            // It has arrived whole.
            Err(PublishError::Duplicate) => {}
            Err(error) => tracing::warn!(%topic, %error, "cannot publish a column"),
        }
    }

    fn note_published(&mut self, topic: &TopicHash, id: MessageId) {
        self.published += 1;
        let (message_id, topic) = (Some(id.0), Some(topic.to_string()));
        self.record(Body::PublishMessage(PublishMessage { message_id, topic }));
    }

    fn answer(&mut self, request: Request) {
        // A client that has closed its connection needs no answer.
        match request {
            Request::Status(answer) => drop(answer.send(self.status())),
            Request::Metrics(answer) => drop(answer.send(self.metrics())),
            Request::Dial(address, answer) => drop(answer.send(self.host.dial(&address))),
        }
    }

    fn status(&self) -> Status {
        let gossip = &self.host.swarm.behaviour().gossip;
        let peers = gossip.peer_protocol().map(|(peer, kind)| PeerStatus {
            peer_id: peer.to_string(),
            // Until its stream is open, the library takes a peer for one of floodsub.
            protocol: Some(kind.to_string()).filter(|kind| kind.starts_with("Gossipsub")),
            ..PeerStatus::default()
        });
        let topic = |topic: &Topic| {
            let hash = TopicHash::from_raw(topic.as_str());
            let subscribers = gossip.all_peers().filter(|(_, topics)| topics.contains(&&hash));
            TopicStatus {
                topic: topic.as_str().to_owned(),
                subscribers: subscribers.map(|(peer, _)| peer.to_string()).collect(),
                mesh: gossip.mesh_peers(&hash).map(ToString::to_string).collect(),
            }
        };
        Status {
            peers: peers.collect(),
            topics: self.topics.iter().map(topic).collect(),
            ..Status::default()
        }
    }

    /// Returns the counters under the names of samara's nodes. The library reports no queues, duplicates
    /// and answers.
    fn metrics(&self) -> String {
        let (up, down) = self.host.bandwidth();
        let counts = self.cells.as_ref().map(|cells| &cells.counts);
        let of_cells = |value: fn(&crate::cells::Counts) -> u64| counts.map_or(0, value);
        let payload_up = self.cells.as_ref().map_or(0, Cells::sent_bytes);
        let payload_down = self.delivered_bytes + of_cells(|counts| counts.received_bytes);
        let rows = [
            ("messages_published_total", self.published),
            ("messages_delivered_total", self.delivered),
            ("rpcs_received_total", self.frames),
            ("partial_received_total{kind=\"parts\"}", of_cells(|counts| counts.parts)),
            ("partial_received_total{kind=\"headers\"}", of_cells(|counts| counts.headers)),
            ("partial_received_total{kind=\"metadata\"}", of_cells(|counts| counts.metadata)),
            ("ignored_total{cause=\"partial\"}", of_cells(|counts| counts.ignored)),
            ("cells_missing_total", of_cells(|counts| counts.missing)),
            ("columns_local_total", of_cells(|counts| counts.local)),
            ("bytes_up_total{kind=\"payload\"}", payload_up),
            ("bytes_up_total{kind=\"control\"}", up.saturating_sub(payload_up)),
            ("bytes_down_total{kind=\"payload\"}", payload_down),
            ("bytes_down_total{kind=\"control\"}", down.saturating_sub(payload_down)),
        ];
        let mut text = String::new();
        for (name, value) in rows {
            let _ = writeln!(text, "samara_{name} {value}");
        }
        let gossip = &self.host.swarm.behaviour().gossip;
        for topic in &self.topics {
            let mesh = gossip.mesh_peers(&TopicHash::from_raw(topic.as_str())).count();
            let _ = writeln!(text, "samara_mesh_size{{topic={:?}}} {mesh}", topic.as_str());
        }
        text + "# EOF\n"
    }
}

/// Returns the machine's clock in nanoseconds since 1970.
fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
