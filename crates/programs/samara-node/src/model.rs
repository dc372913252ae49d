//! The JSON of the control API and of standard output, for nodes and for programs that drive them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A word of a fixed set, such as a role or a cause.
pub type Name = Cow<'static, str>;

/// The first line on standard output: the node is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Always true, to identify the line.
    pub ready: bool,
    pub peer_id: String,
    /// Addresses that the node listens on, with its peer id.
    pub listen: Vec<String>,
    pub control: Option<SocketAddr>,
    /// The address of the separate server for `/metrics`, if there is one.
    pub metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolReady>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupReady>,
    /// The node of a mix pool, or its scheduler, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixReady>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReady {
    pub id: String,
    pub listen: Option<SocketAddr>,
    /// The address for dialling, as `id@host:port`, if the pool listens at one address.
    pub address: Option<String>,
}

/// The last line on standard output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stopped {
    /// Always true, to identify the line.
    pub stopped: bool,
    pub drained: bool,
    /// Copies that had not left at the end of the time.
    pub left_copies: usize,
    pub left: BTreeMap<String, usize>,
    /// Copies whose link went down during the stop.
    pub lost_copies: usize,
    /// Leftovers in the transaction pool's queues, if there is a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStopped>,
    /// The end of the member of a group, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStopped>,
    /// The end of the node of a mix pool, or of its scheduler, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixStopped>,
    pub trace: Option<TraceReport>,
}

/// Leftovers in the transaction pool's queues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolStopped {
    pub left_copies: usize,
    pub left: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceReport {
    pub written: u64,
    /// Events for which the queue had no room.
    pub dropped: u64,
    /// Events that were not written because of an error.
    pub failed: u64,
    pub error: Option<String>,
}

/// `GET /v1/status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub peer_id: String,
    pub listen: Vec<String>,
    pub started_at_unix_ns: u64,
    pub stopping: bool,
    /// Connected peers, sorted by id.
    pub peers: Vec<PeerStatus>,
    /// Joined topics, sorted by name.
    pub topics: Vec<TopicStatus>,
    /// Owed copies of messages, including copies in flight into a stream.
    pub owed_copies: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerStatus {
    pub peer_id: String,
    /// The protocol of the link; null before the link is up.
    pub protocol: Option<String>,
    /// The peer's score; 0 if scoring is off.
    pub score: f64,
    pub owed_copies: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TopicStatus {
    pub topic: String,
    pub subscribers: Vec<String>,
    pub mesh: Vec<String>,
}

/// `GET /v1/batches/{id}`, and the answer to requests that publish.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchReport {
    pub batch: u64,
    pub published_at_unix_ns: u64,
    /// Copies that the batch owed at first.
    pub copies: usize,
    /// Copies that have left, including answers to IWANT.
    pub sent: usize,
    /// Owed copies, including copies in flight into a stream.
    pub owed: usize,
    /// Copies that will not leave: withdrawn because the peer has the message, or lost with its
    /// link.
    pub not_sent: usize,
    /// Whether no copy is owed any more.
    pub complete: bool,
    pub messages: Vec<MessageReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageReport {
    Published {
        topic: String,
        /// The id of the message, in hexadecimal.
        id: String,
        /// Copies that the message owed at first.
        copies: usize,
        /// Copies that did not fit into queues.
        lost: usize,
        sent: usize,
        owed: usize,
        not_sent: usize,
        /// The reason why nobody receives the message, if it owed no copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The copies that have left, in order.
        sent_copies: Vec<SentCopy>,
        /// Peers to which a copy is still owed.
        owed_to: Vec<String>,
    },
    Failed {
        topic: String,
        error: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SentCopy {
    pub peer: String,
    /// Time at which the copy was written to the stream.
    pub at_unix_ns: u64,
    /// Number of copies of the message that left before.
    pub rank: u32,
}

/// `GET /v1/pool`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolStatus {
    pub id: String,
    /// The address for dialling, as `id@host:port`, if the pool listens at one address.
    pub address: Option<String>,
    /// The height of the last block.
    pub height: u64,
    /// Transactions in the pool.
    pub txs: usize,
    pub bytes: u64,
    pub peers: Vec<PoolPeer>,
    pub owed_copies: usize,
    pub in_flight_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolPeer {
    pub id: String,
    pub moniker: String,
    pub protocol: String,
    pub outbound: bool,
    pub owed_copies: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submitted {
    pub key: String,
    /// Whether the transaction was added to the pool.
    pub added: bool,
    pub refused: Option<Name>,
    /// Time of the submission: the clock right before it.
    pub at_unix_ns: u64,
    pub took_ns: u64,
}

/// `GET /v1/pool/arrivals/{from}`: transactions that entered the pool, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrivals {
    /// The number of the first arrival in the answer; larger than the requested one if that is
    /// forgotten.
    pub first: u64,
    /// The number for the next request.
    pub next: u64,
    pub arrivals: Vec<Arrival>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrival {
    pub key: String,
    pub at_unix_ns: u64,
    /// The sender; null if a client submitted the transaction here.
    pub from: Option<String>,
}

/// The address of the member of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupReady {
    /// The member's name, which is the address for dialling.
    pub address: SocketAddr,
}

/// The end of the member of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupStopped {
    /// Whether the member has left. In that case all remaining members have its broadcasts.
    pub left: bool,
}

/// `GET /v1/group`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupStatus {
    pub address: SocketAddr,
    /// The counter of the view; null before the first view.
    pub epoch: Option<u64>,
    pub shape: Option<Name>,
    /// The members by rank. The first one is the coordinator.
    pub members: Vec<GroupMember>,
    pub links: usize,
    /// The seeds without a link, each with the reason why the last attempt to reach it failed.
    pub failed_seeds: BTreeMap<SocketAddr, String>,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub queued_bytes: usize,
    /// Bytes of own messages that may be in flight.
    pub window_bytes: u64,
    /// Bytes of messages kept until all members have them.
    pub kept_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupMember {
    pub address: String,
    /// The member's incarnation, in hexadecimal.
    pub incarnation: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broadcast {
    pub bytes: usize,
    /// Time of the broadcast: the clock right before it.
    pub at_unix_ns: u64,
    /// Nanoseconds until there was room for the message.
    pub took_ns: u64,
}

/// `GET /v1/group/deliveries/{from}`: delivered messages, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deliveries {
    /// The number of the first delivery in the answer; larger than the requested one if that is
    /// forgotten.
    pub first: u64,
    /// The number for the next request.
    pub next: u64,
    pub deliveries: Vec<Delivery>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub origin: String,
    /// The counter of the message's view; null if it was sent before the first view.
    pub epoch: Option<u64>,
    /// The message's ordinal among those of its sender in that view.
    pub number: u64,
    pub bytes: usize,
    pub at_unix_ns: u64,
}

/// The addresses and the name of the node of a mix pool, or of its scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixReady {
    /// Either "node" or "scheduler".
    pub role: Name,
    /// The node's number: its place in the pool, or the number after the last for the scheduler.
    pub number: u32,
    /// The node's name: SHA-256 of its certificate.
    pub fingerprint: String,
    pub address: SocketAddr,
    /// The address for senders, if there is one.
    pub gateway: Option<SocketAddr>,
}

/// The end of the node of a mix pool, or of its scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixStopped {
    /// Unfinished rounds of this node.
    pub left_rounds: usize,
}

/// `GET /v1/mix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixStatus {
    /// Either "node" or "scheduler".
    pub role: Name,
    pub number: u32,
    pub links: Vec<MixLink>,
    /// Rounds in progress, by state.
    pub rounds: BTreeMap<Name, usize>,
    /// At the scheduler: the nodes of each team.
    pub teams: Vec<Vec<u32>>,
    /// Rounds with a result here; at the scheduler, at all nodes.
    pub completed: u64,
    pub failed: u64,
    /// Rounds that accept payloads; null without a gateway.
    pub open: Option<usize>,
    /// Accepted payloads; null without a gateway.
    pub payloads: Option<u64>,
    /// Milliseconds of the last ping around the team that this node leads; null before the first.
    pub loop_ms: Option<f64>,
}

/// A link of a node of a mix pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixLink {
    /// The peer's number in the pool, or the number after the last for the scheduler.
    pub node: u32,
    pub outbound: bool,
    /// Round trip of the last ping in milliseconds; null before the first.
    pub round_trip_ms: Option<f64>,
    pub owed_copies: usize,
    pub owed_bytes: u64,
}

/// `GET /v1/mix/events/{from}`: events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixEvents {
    /// The number of the first event in the answer; larger than the requested one if that is
    /// forgotten.
    pub first: u64,
    /// The number for the next request.
    pub next: u64,
    pub events: Vec<MixEvent>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixEvent {
    pub at_unix_ns: u64,
    #[serde(flatten)]
    pub what: MixWhat,
}

/// An event of a node of a mix pool, or of its scheduler; see the events of `samara-mix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum MixWhat {
    /// A round accepts payloads at this node.
    Open {
        round: u64,
    },
    Entered {
        round: u64,
        slots: u32,
    },
    /// The payloads of a round have been delivered. Nodes with the same `digest` have the same
    /// payloads in the same order.
    Delivered {
        round: u64,
        slots: u32,
        void: u32,
        unreadable: u32,
        digest: String,
    },
    Failed {
        round: u64,
        cause: Name,
        culprit: Option<u32>,
    },
    /// This node's state in a round has changed.
    State {
        round: u64,
        state: Name,
    },
    Mark {
        round: u64,
        phase: Name,
        mark: Name,
    },
    /// A phase has ended: processor time of all threads. Keys and secrets are no phase.
    Worked {
        round: u64,
        phase: Option<Name>,
        cpu_ns: u64,
    },
    Made {
        round: u64,
        team: usize,
        nodes: Vec<u32>,
    },
    /// The state of a round has changed.
    Round {
        round: u64,
        state: Name,
    },
    Drawn {
        team: usize,
        nodes: Vec<u32>,
    },
    /// The node refused a batch or a sender.
    Refused {
        round: Option<u64>,
    },
    /// A ping has gone around the team, or was lost.
    Looped {
        took_ns: Option<u64>,
    },
    /// An event that this version does not know. Never sent.
    #[serde(other)]
    Unknown,
}
