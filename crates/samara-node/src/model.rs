//! The JSON of the control API and of standard output, for nodes and for programs that drive them.
//!
//! Fields that a program of another implementation need not give have defaults; see
//! `docs/guides/testbed.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use samara_engine::outbox::ScheduleSpec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// A word of a fixed set, such as a role or a cause.
pub type Name = Cow<'static, str>;

/// A message to publish: exactly one of `data`, `text` and `random_bytes`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    pub topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_bytes: Option<usize>,
}

/// A publication of `POST /v1/schedule`: either a `batch`, or the keys of one message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    pub at_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Vec<MessageSpec>>,
    /// The order of the copies: a kind of schedule, or all of its keys.
    #[serde(default, deserialize_with = "schedule", skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_bytes: Option<usize>,
}

/// A transaction of `POST /v1/pool/schedule`, or a broadcast of `POST /v1/group/schedule`: exactly
/// one of `data`, `text` and `random_bytes`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    pub at_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_bytes: Option<usize>,
}

/// What the node does with a submission whose time is over when the request arrives.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// It refuses the whole request.
    #[default]
    Refuse,
    /// It makes the submission at once and reports the delay.
    Submit,
}

/// Reads a schedule: its kind alone, or the object that the configuration has.
pub(crate) fn schedule<'de, D>(source: D) -> Result<Option<ScheduleSpec>, D::Error>
where
    D: Deserializer<'de>,
{
    let spec = match Value::deserialize(source)? {
        Value::Null => return Ok(None),
        Value::String(kind) => json!({ "kind": kind }),
        spec => spec,
    };
    ScheduleSpec::deserialize(spec).map(Some).map_err(Error::custom)
}

/// The first line on standard output: the node can be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Always true.
    pub ready: bool,
    pub peer_id: String,
    /// Addresses that it listens on, with its peer id.
    #[serde(default)]
    pub listen: Vec<String>,
    pub control: Option<SocketAddr>,
    /// The address of `/metrics`, if it has a server of its own.
    pub metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolReady>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupReady>,
    /// The node of a pool that mixes, or its scheduler, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixReady>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReady {
    pub id: String,
    pub listen: Option<SocketAddr>,
    /// What others dial, if it listens at one address: `id@host:port`.
    pub address: Option<String>,
}

/// The last line on standard output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stopped {
    /// Always true.
    pub stopped: bool,
    pub drained: bool,
    /// Copies that have not, when the time was over.
    pub left_copies: usize,
    pub left: BTreeMap<String, usize>,
    /// Copies whose link went down meanwhile.
    pub lost_copies: usize,
    pub cancelled_publications: usize,
    /// What was left in the transaction pool's queues, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStopped>,
    /// How the member of a group has ended, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStopped>,
    /// How the node of a pool that mixes, or its scheduler, has ended, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixStopped>,
    pub trace: Option<TraceReport>,
}

/// What was left in the transaction pool's queues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolStopped {
    pub left_copies: usize,
    pub left: BTreeMap<String, usize>,
    pub cancelled_submissions: usize,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceReport {
    pub written: u64,
    /// Events that the queue had no room for.
    pub dropped: u64,
    /// Events that were not written because of an error.
    pub failed: u64,
    pub error: Option<String>,
}

/// `GET /v1/status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    pub peer_id: String,
    pub listen: Vec<String>,
    pub started_at_unix_ns: u64,
    pub stopping: bool,
    /// Connected peers, sorted by id.
    pub peers: Vec<PeerStatus>,
    /// Joined topics, sorted by name.
    pub topics: Vec<TopicStatus>,
    /// Copies of messages that are owed still, or on their way into a stream.
    pub owed_copies: usize,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    pub peer_id: String,
    /// The protocol of its link; null as long as there is none.
    pub protocol: Option<String>,
    /// Its score; 0 where scoring is off.
    pub score: f64,
    pub owed_copies: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TopicStatus {
    pub topic: String,
    pub subscribers: Vec<String>,
    pub mesh: Vec<String>,
}

/// `GET /v1/batches/{id}`, and the answer to what publishes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchReport {
    pub batch: u64,
    pub published_at_unix_ns: u64,
    /// Copies that were owed at first.
    pub copies: usize,
    /// Copies that have left, answers to IWANT included.
    pub sent: usize,
    /// Copies that are owed still, or on their way into a stream.
    pub owed: usize,
    /// Copies that will not leave: withdrawn because the peer has the message, or lost with its link.
    pub not_sent: usize,
    /// Whether nothing is owed any more.
    pub complete: bool,
    pub messages: Vec<MessageReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageReport {
    Published {
        topic: String,
        /// Its id, in hexadecimal.
        id: String,
        /// Copies that were owed at first.
        copies: usize,
        /// Copies that did not fit into queues.
        lost: usize,
        sent: usize,
        owed: usize,
        not_sent: usize,
        /// The copies that have left, in that order.
        sent_copies: Vec<SentCopy>,
        /// Peers that are still owed a copy.
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
    /// When it was written to the stream.
    pub at_unix_ns: u64,
    /// How many copies of the message left before.
    pub rank: u32,
}

/// A publication of `GET /v1/schedule`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedReport {
    pub number: u64,
    pub at_unix_ns: u64,
    pub state: PlannedState,
    pub messages: usize,
    /// When it was made: the clock right before.
    pub actual_unix_ns: Option<u64>,
    pub late_ns: Option<i64>,
    pub took_ns: Option<u64>,
    pub batch: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedState {
    #[default]
    Waiting,
    Published,
    /// The node was stopped before.
    Cancelled,
}

/// `GET /v1/pool`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolStatus {
    pub id: String,
    /// What others dial, if it listens at one address: `id@host:port`.
    pub address: Option<String>,
    /// The height of the last block.
    pub height: u64,
    /// Transactions in it.
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
    /// Whether it is in the pool from now on.
    pub added: bool,
    pub refused: Option<Name>,
    /// When it was submitted: the clock right before.
    pub at_unix_ns: u64,
    pub took_ns: u64,
}

/// `GET /v1/pool/arrivals/{from}`: what entered the pool, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrivals {
    /// The number of the first one here; larger than what was asked for if that is forgotten.
    pub first: u64,
    /// The number to ask for next.
    pub next: u64,
    pub arrivals: Vec<Arrival>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrival {
    pub key: String,
    pub at_unix_ns: u64,
    /// The sender; null if it was submitted here.
    pub from: Option<String>,
}

/// How the member of a group can be reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupReady {
    /// Its name, and what others dial.
    pub address: SocketAddr,
}

/// How the member of a group has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupStopped {
    /// Whether it has left: then all that it broadcast is at all that stay.
    pub left: bool,
    pub cancelled_broadcasts: usize,
}

/// `GET /v1/group`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupStatus {
    pub address: SocketAddr,
    /// The counter of the view; null as long as there is none.
    pub epoch: Option<u64>,
    pub shape: Option<Name>,
    /// Its members by rank: the first one is the coordinator.
    pub members: Vec<GroupMember>,
    pub links: usize,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub queued_bytes: usize,
    /// Bytes of own messages that may be in flight.
    pub window_bytes: u64,
    /// Bytes kept until all members have them.
    pub kept_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupMember {
    pub address: String,
    /// Its incarnation, in hexadecimal.
    pub incarnation: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broadcast {
    pub bytes: usize,
    /// When it was handed in: the clock right before.
    pub at_unix_ns: u64,
    /// How long it took until there was room for it.
    pub took_ns: u64,
}

/// `GET /v1/group/deliveries/{from}`: what was delivered, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deliveries {
    /// The number of the first one here; larger than what was asked for if that is forgotten.
    pub first: u64,
    /// The number to ask for next.
    pub next: u64,
    pub deliveries: Vec<Delivery>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub origin: String,
    /// The counter of its view; null of one that was sent before there was a view.
    pub epoch: Option<u64>,
    /// Its ordinal among the messages of its sender in that view.
    pub number: u64,
    pub bytes: usize,
    pub at_unix_ns: u64,
}

/// How the node of a pool that mixes, or its scheduler, can be reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixReady {
    /// "node" or "scheduler".
    pub role: Name,
    /// Its number: the place in the pool, or the number after the last.
    pub number: u32,
    /// Its name: SHA-256 of its certificate.
    pub fingerprint: String,
    pub address: SocketAddr,
    /// The address for senders, if there is one.
    pub gateway: Option<SocketAddr>,
}

/// How the node of a pool that mixes, or its scheduler, has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixStopped {
    /// Rounds that it took part in and that were not over.
    pub left_rounds: usize,
}

/// `GET /v1/mix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixStatus {
    /// "node" or "scheduler".
    pub role: Name,
    pub number: u32,
    pub links: Vec<MixLink>,
    /// Rounds in progress, by state.
    pub rounds: BTreeMap<Name, usize>,
    /// At the scheduler: the nodes of each team.
    pub teams: Vec<Vec<u32>>,
    /// Rounds whose payloads came out here; at the scheduler, everywhere.
    pub completed: u64,
    pub failed: u64,
    /// Rounds that accept payloads; null without a gateway.
    pub open: Option<usize>,
    /// Accepted payloads; null without a gateway.
    pub payloads: Option<u64>,
    /// How long the last ping took around the team whose first node this is; null as long as there was none.
    pub loop_ms: Option<f64>,
}

/// A link of a node of a pool that mixes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixLink {
    /// The peer: a number of the pool, or the number after the last for the scheduler.
    pub node: u32,
    pub outbound: bool,
    /// The last ping, there and back; null as long as there was none.
    pub round_trip_ms: Option<f64>,
    pub owed_copies: usize,
    pub owed_bytes: u64,
}

/// `GET /v1/mix/events/{from}`: what happened, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixEvents {
    /// The number of the first one here; larger than what was asked for if that is forgotten.
    pub first: u64,
    /// The number to ask for next.
    pub next: u64,
    pub events: Vec<MixEvent>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixEvent {
    pub at_unix_ns: u64,
    #[serde(flatten)]
    pub what: MixWhat,
}

/// What happened at a node of a pool that mixes, or at its scheduler; see the events of `samara-mix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum MixWhat {
    /// A round takes payloads here.
    Open {
        round: u64,
    },
    Entered {
        round: u64,
        slots: u32,
    },
    /// Its payloads have come out. Nodes with the same `digest` have the same in the same order.
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
    /// This node is in another state with it.
    State {
        round: u64,
        state: Name,
    },
    Mark {
        round: u64,
        phase: Name,
        mark: Name,
    },
    /// A phase is worked on: processor time of all threads. Keys and secrets are no phase.
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
    /// It is in another state.
    Round {
        round: u64,
        state: Name,
    },
    Drawn {
        team: usize,
        nodes: Vec<u32>,
    },
    /// A batch or a sender was refused.
    Refused {
        round: Option<u64>,
    },
    /// A ping has gone around the team, or was lost.
    Looped {
        took_ns: Option<u64>,
    },
    /// An event that this version does not know; never sent.
    #[serde(other)]
    Unknown,
}
