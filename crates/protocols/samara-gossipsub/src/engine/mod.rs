//! The router: it assigns recipients to messages and maintains meshes.
//!
//! | file | concern |
//! |---|---|
//! | `publish` | own messages, single and in batches; the recipients of every message |
//! | `receive` | RPCs; a message from its arrival through validation to its delivery |
//! | `mesh` | JOIN, LEAVE, GRAFT, PRUNE; maintenance, fanout, peer exchange |
//! | `gossip` | IHAVE, IWANT and IDONTWANT |
//! | `partial` | parts of messages |
//! | `spread` | pushes to some mesh peers, announcements to others, one request at a time |
//! | `links` | peers that connect and leave, announcements, lanes, losses, retries |
//! | `streams` | the frames that begin a stream; peers that begin anew, and peers that cannot be heard |
//! | `tables`, `metrics`, `event` | tables and types |

mod event;
mod gossip;
mod invariants;
mod links;
mod mesh;
mod metrics;
mod partial;
mod publish;
mod receive;
mod spread;
mod streams;
pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use samara_engine::config::check;
use samara_engine::outbox::Lost;
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{Context, Engine, Input, Outbox, PeerId, PeerIdentity, Time, TimerToken};

use crate::cache::{MessageCache, SeenCache};
use crate::config::{Config, ConfigError, Lanes, MeshRules};
use crate::memory::{Backoffs, Promises, PrunedPeers};
use crate::rpc::{Control, IHave, RpcFrame, Topic};
use crate::score::TopicScoreParams;
use crate::score::{PeerScores, ScoreBreakdown};

use gossip::Unwanted;
use receive::PendingValidations;
use tables::{PeerTable, TopicTable};

pub use event::{Acceptance, BatchReceipt, Command, Event, PublishError, Receipt, Trace};
pub use metrics::{Ignored, Metrics};
pub use partial::ProvideError;
pub use streams::WithGossipSub;
pub use tables::Protocol;

/// The context of a [`GossipSub`].
pub type Cx<'a> = Context<'a, RpcFrame, Event>;

/// The timers of the engine.
const HEARTBEAT: TimerToken = TimerToken(0);
const DECAY: TimerToken = TimerToken(1);
const CONNECT_DIRECT: TimerToken = TimerToken(2);
const PARTIALS: TimerToken = TimerToken(3);
const SPREAD: TimerToken = TimerToken(4);

/// Stands for this node where a function expects a peer.
const SELF: PeerId = PeerId(u32::MAX);

/// A GossipSub router (v1.0 to v1.3 with partial messages) as a state machine.
///
/// A driver calls [`Engine::handle`]. An application sends [`Command`]s as inputs. If it owns the
/// engine, it can also call methods with the [`Context`] of its driver:
///
/// - [`subscribe`](Self::subscribe), [`subscribe_all`](Self::subscribe_all),
///   [`unsubscribe`](Self::unsubscribe), [`publish`](Self::publish),
///   [`publish_message`](Self::publish_message), [`publish_batch`](Self::publish_batch),
///   [`report_validation`](Self::report_validation), [`set_app_score`](Self::set_app_score),
///   [`add_direct_peer`](Self::add_direct_peer), ...
/// - getters: [`mesh_peers`](Self::mesh_peers), [`topic_peers`](Self::topic_peers),
///   [`fanout`](Self::fanout), [`peer_score`](Self::peer_score), [`metrics`](Self::metrics), ...
///
/// The outbox must be created with [`Config::outbox_config`].
#[derive(Debug)]
pub struct GossipSub {
    config: Arc<Config>,
    identity: PeerIdentity,
    lanes: Lanes,
    topics: TopicTable,
    peers: PeerTable,
    seen: SeenCache,
    mcache: MessageCache,
    promises: Promises,
    pruned: PrunedPeers,
    backoffs: Backoffs,
    scores: PeerScores,
    unwanted: Unwanted,
    pending: PendingValidations,
    partials: partial::Groups,
    announcements: spread::Announcements,
    pulls: spread::Pulls,
    /// Control messages that leave together at the end of a heartbeat.
    outgoing: BTreeMap<PeerId, Control>,
    direct: BTreeSet<PeerIdentity>,
    /// Peers whose messages the application refuses.
    blacklist: BTreeSet<PeerIdentity>,
    /// Parameters of scores that replace those of the configuration.
    topic_scores: BTreeMap<Topic, TopicScoreParams>,
    observers: BTreeSet<PeerIdentity>,
    report_to: BTreeSet<PeerIdentity>,
    /// Peers that peer exchange is dialling.
    dialling: BTreeSet<PeerIdentity>,
    /// All joined topics, in as few frames as possible, for new links. `None` if the joined topics
    /// have changed since.
    greeting: Option<Vec<RpcFrame>>,
    /// Whether the driver requests the first frames of each stream.
    greets_by_stream: bool,
    /// Announcements that wait for the next RPC to their peer.
    waiting_gossip: BTreeMap<PeerId, Vec<IHave>>,
    /// Time from the initial delay to the first heartbeat, if it is not random.
    heartbeat_offset: Option<Duration>,
    /// Number of heartbeats so far.
    ticks: u64,
    next_seqno: u64,
    metrics: Metrics,
    lost: Vec<Lost>,
}

impl GossipSub {
    /// Creates a node with this identity. It does nothing before [`Input::Start`].
    pub fn new(config: impl Into<Arc<Config>>, identity: PeerIdentity) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            identity,
            lanes: Lanes::of(config.sending.layout),
            topics: TopicTable::default(),
            peers: PeerTable::default(),
            seen: SeenCache::new(config.seen_ttl, config.seen_capacity, config.seen_strategy)
                .with_bytes_max(config.seen_bytes_max),
            mcache: MessageCache::new(config.history_length, config.history_gossip, config.history_bytes_max),
            promises: Promises::new(config.gossip.iwant_follow_up, config.gossip.promises_max),
            pruned: PrunedPeers::default(),
            backoffs: Backoffs::new(
                config.mesh_rules == MeshRules::Guarded,
                config.backoff_slack,
                config.remote_backoff_max,
            ),
            scores: PeerScores::new(config.peer_score.clone()),
            unwanted: Unwanted::default(),
            pending: PendingValidations::default(),
            partials: partial::Groups::default(),
            announcements: spread::Announcements::default(),
            pulls: spread::Pulls::default(),
            outgoing: BTreeMap::new(),
            direct: config.direct_peers.iter().cloned().collect(),
            blacklist: BTreeSet::new(),
            topic_scores: BTreeMap::new(),
            observers: config.observers.iter().cloned().collect(),
            report_to: config.report_to.iter().cloned().collect(),
            dialling: BTreeSet::new(),
            greeting: None,
            greets_by_stream: false,
            waiting_gossip: BTreeMap::new(),
            heartbeat_offset: None,
            ticks: 0,
            next_seqno: 0,
            metrics: Metrics::default(),
            lost: Vec::new(),
            config,
        })
    }

    // ---- getters ----

    /// Returns the configuration of the node.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the identity of this node.
    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }

    /// Returns the joined topics.
    pub fn subscriptions(&self) -> impl Iterator<Item = &Topic> {
        self.topics.joined().iter().map(|topic| &self.topics.get(*topic).name)
    }

    /// Returns true if a topic is joined.
    pub fn is_subscribed(&self, topic: &Topic) -> bool {
        self.topics.find(topic).is_some_and(|topic| self.topics.get(topic).joined)
    }

    /// Returns the topics that a peer has joined, of those that this node remembers.
    pub fn topics_of(&self, peer: PeerId) -> Vec<&Topic> {
        let topics = self.peers.get(peer).map_or(&[][..], |peer| &peer.topics);
        topics.iter().map(|topic| &self.topics.get(*topic).name).collect()
    }

    /// Returns what the link to a peer speaks; `None` without a link.
    pub fn protocol_of(&self, peer: PeerId) -> Option<Protocol> {
        self.peers.get(peer).map(|peer| peer.protocol)
    }

    /// Returns the mesh of a topic, sorted; empty if the topic is not joined.
    pub fn mesh_peers(&self, topic: &Topic) -> &[PeerId] {
        self.topics.find(topic).map_or(&[], |topic| &*self.topics.get(topic).mesh)
    }

    /// Returns the observers of this node, with a link or without.
    pub fn observers(&self) -> &BTreeSet<PeerIdentity> {
        &self.observers
    }

    /// Returns the peers that have joined a topic, sorted.
    pub fn topic_peers(&self, topic: &Topic) -> &[PeerId] {
        self.topics.find(topic).map_or(&[], |topic| &*self.topics.get(topic).subscribers)
    }

    /// Returns the fanout of a topic, sorted; empty if the topic is joined or has had no recent
    /// publication.
    pub fn fanout(&self, topic: &Topic) -> &[PeerId] {
        self.topics.find(topic).map_or(&[], |topic| &*self.topics.get(topic).fanout)
    }

    /// Returns the peers with a link, sorted.
    pub fn peers(&self) -> &[PeerId] {
        self.peers.connected()
    }

    /// Returns the peer with this identity, if there is a link to it.
    pub fn peer_of(&self, identity: &PeerIdentity) -> Option<PeerId> {
        self.peers.find(identity)
    }

    /// Returns the score of a peer; 0 if scoring is off or the peer is unknown.
    pub fn peer_score(&self, peer: PeerId) -> f64 {
        self.scores.score(peer)
    }

    /// Returns the score of a peer with its parts.
    pub fn peer_score_breakdown(&self, peer: PeerId) -> Option<ScoreBreakdown> {
        self.scores.breakdown(peer)
    }

    /// Returns the counters of the node.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the number of remembered entries of each kind and their bytes, for tests of limits and
    /// for gauges.
    pub fn sizes(&self) -> Sizes {
        let [groups, part_bytes, pending_parts] = self.partials.sizes();
        Sizes {
            topics: self.topics.len(),
            topic_bytes: self.topics.name_bytes(),
            extension_bytes: self.peers.extension_bytes(),
            seen: self.seen.len(),
            seen_bytes: self.seen.bytes,
            cached: self.mcache.len(),
            cached_bytes: self.mcache.bytes,
            backoffs: self.backoffs.len(),
            promises: self.promises.len(),
            wanted: self.pulls.len(),
            payloads: self.pulls.payloads(),
            unwanted: self.unwanted.len(),
            unwanted_bytes: self.unwanted.bytes,
            pending_validations: self.pending.len(),
            pending_validation_bytes: self.pending.bytes,
            groups,
            part_bytes,
            pending_parts,
            dialling: self.dialling.len(),
            seen_evicted: self.seen.evicted,
            cached_evicted: self.mcache.evicted,
            promises_refused: self.promises.refused,
            records_evicted: self.scores.records_evicted(),
        }
    }

    fn trace(&self, cx: &mut Cx<'_>, event: impl FnOnce() -> Trace) {
        if self.config.trace {
            cx.emit(Event::Trace(event()));
        }
    }

    // ---- inputs ----

    fn start(&mut self, cx: &mut Cx<'_>) {
        let config = Arc::clone(&self.config);
        // Peers choose the keys of these tables, which are still empty.
        let names = cx.rng().table_hasher();
        (self.topics.hasher, self.peers.hasher) = (names, names);
        self.seen.entries = HashMap::with_hasher(cx.rng().table_hasher());
        self.promises.by_id = HashMap::with_hasher(cx.rng().table_hasher());
        self.unwanted.by_id = HashMap::with_hasher(cx.rng().table_hasher());
        self.pending.by_id = HashMap::with_hasher(cx.rng().table_hasher());
        if self.config.spread.is_some() {
            self.pulls.by_id = HashMap::with_hasher(cx.rng().table_hasher());
        }
        self.next_seqno = cx.rng().next_u64() >> 1;

        let now = cx.now();
        let mut first = now + config.heartbeat_initial_delay;
        let spread = config.heartbeat_spread.unwrap_or(config.heartbeat_interval);
        match self.heartbeat_offset {
            Some(offset) => first += offset,
            None if spread.is_zero() => {}
            None => {
                let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
                first = first.plus_nanos(cx.rng().below(nanos));
            }
        }
        cx.set_timer(first, HEARTBEAT);
        if self.scores.is_enabled() {
            cx.set_timer(now + self.scores.params().decay_interval, DECAY);
        }
        cx.set_timer(now + config.direct_connect_initial_delay, CONNECT_DIRECT);
    }

    fn timer(&mut self, token: TimerToken, cx: &mut Cx<'_>) {
        let now = cx.now();
        match token {
            HEARTBEAT => {
                self.heartbeat(cx);
                cx.set_timer(now + self.config.heartbeat_interval, HEARTBEAT);
            }
            DECAY => {
                self.scores.refresh(now);
                cx.set_timer(now + self.scores.params().decay_interval, DECAY);
            }
            CONNECT_DIRECT => self.connect_direct(cx),
            PARTIALS => self.partials_timer(cx),
            SPREAD => self.spread_timer(cx),
            _ => {}
        }
    }

    fn command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Subscribe(topic) => _ = self.subscribe(&topic, cx),
            Command::SubscribeAll(topics) => _ = self.subscribe_all(&topics, cx),
            Command::Unsubscribe(topic) => _ = self.unsubscribe(&topic, cx),
            Command::Publish { topic, data } => {
                let receipt = self.publish(&topic, data, cx);
                cx.emit(Event::Published(BatchReceipt { messages: vec![receipt] }));
            }
            Command::PublishBatch { messages, schedule } => {
                let receipt = self.publish_batch(messages, &schedule, cx);
                cx.emit(Event::Published(receipt));
            }
        }
    }

    /// Sets the time from the initial delay to the first heartbeat, instead of a random one
    /// ([`Config::heartbeat_spread`]). Has an effect only before [`Input::Start`].
    pub fn set_heartbeat_offset(&mut self, offset: Duration) {
        self.heartbeat_offset = Some(offset);
    }

    /// Sets the parameters with which a topic counts in scores, in place of those of the configuration.
    ///
    /// # Errors
    /// Scores are off ([`Config::peer_score`]), or a value is out of range.
    pub fn set_topic_params(&mut self, topic: &Topic, params: TopicScoreParams) -> Result<(), ConfigError> {
        check(self.config.peer_score.is_some(), "peer_score", "no scores", "scores, in which topics count")?;
        params.check("topic_score")?;
        if let Some(known) = self.topics.find(topic).filter(|known| self.topics.get(*known).local) {
            self.scores.set_topic_params(known, params.clone());
        }
        self.topic_scores.insert(topic.clone(), params);
        Ok(())
    }

    /// Returns the parameters with which a topic counts in scores.
    pub fn topic_params(&self, topic: &Topic) -> Option<&TopicScoreParams> {
        self.topic_scores.get(topic).or_else(|| self.config.topic_score_of(topic))
    }

    /// Sets the application's score of a peer (P5).
    pub fn set_app_score(&mut self, peer: PeerId, score: f64) {
        self.scores.set_app_score(peer, score);
    }

    /// Sets the addresses of a peer with several connections: it counts at each of them (P6). The link
    /// brings one address. Does nothing for a peer without a link.
    pub fn set_addresses(&mut self, peer: PeerId, addresses: impl IntoIterator<Item = IpAddr>) {
        if self.peers.get(peer).is_some() {
            self.scores.set_addresses(peer, addresses);
        }
    }

    /// Sets the signed record of a peer, which peer exchange passes on. The driver receives it from
    /// the peer itself.
    pub fn set_signed_record(&mut self, peer: PeerId, record: Bytes) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.signed_record = Some(Box::new(record));
        }
    }
}

impl Engine for GossipSub {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, info, cx),
            Input::LinkDown { peer } => self.link_down(peer, cx),
            Input::DialFailed { identity } => _ = self.dialling.remove(&identity),
            Input::Frame { peer, frame } => self.receive(peer, &frame, cx),
            Input::Timer(token) => self.timer(token, cx),
            Input::Command(command) => self.command(command, cx),
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<RpcFrame>) {
        self.check_invariants(outbox);
    }
}

samara_engine::counters! {
    /// The number of entries that a node remembers, and the losses of full tables since the start. See
    /// [`GossipSub::sizes`].
    #[derive(Copy, Eq)]
    pub struct Sizes {
        /// Topics that are joined or known from peers.
        pub topics: usize,
        /// Bytes of the names of these topics.
        pub topic_bytes: usize,
        /// Bytes of the extensions that peers have announced.
        pub extension_bytes: usize,
        /// Ids in the seen cache.
        pub seen: usize,
        /// Bytes of these ids, with their entries in tables.
        pub seen_bytes: usize,
        /// Messages in the message cache.
        pub cached: usize,
        /// Bytes of these messages.
        pub cached_bytes: usize,
        /// Pairs of a peer and a topic in backoff.
        pub backoffs: usize,
        /// Promises that are tracked.
        pub promises: usize,
        /// Announced messages that have not arrived, with one request at a time.
        pub wanted: usize,
        /// Payloads whose pieces are counted.
        pub payloads: usize,
        /// IDONTWANT ids received from peers.
        pub unwanted: usize,
        /// Bytes of these ids, with their entries in tables.
        pub unwanted_bytes: usize,
        /// Messages that await a verdict.
        pub pending_validations: usize,
        /// Bytes of the payloads that await their verdict.
        pub pending_validation_bytes: usize,
        /// Groups of parts.
        pub groups: usize,
        /// Bytes of these parts.
        pub part_bytes: usize,
        /// Bodies of partial messages that await their verdict.
        pub pending_parts: usize,
        /// Dials in progress.
        pub dialling: usize,
        /// Ids of seen messages that a full table forgot before they expired.
        pub seen_evicted: u64,
        /// Messages that a full message cache forgot before their time, or did not store.
        pub cached_evicted: u64,
        /// Announced messages that a full table did not track.
        pub promises_refused: u64,
        /// Records of deliveries that a full table forgot before they expired.
        pub records_evicted: u64,
    }
}

/// Returns the time after which a copy is discarded unsent.
fn deadline(now: Time, span: Option<Duration>) -> Option<Time> {
    span.map(|span| now + span)
}

impl GossipSub {
    pub(super) fn heartbeat(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.ticks += 1;
        self.metrics.heartbeats += 1;
        self.backoffs.prune_expired(now);
        self.seen.expire(if is_planted(Bug::GossipsubSeen) { Time::MAX } else { now });
        self.expire_idontwants(now);
        self.expire_validations(cx);
        for (peer, count) in self.promises.broken(now) {
            self.metrics.promises_broken += u64::from(count);
            self.penalise(peer, count);
        }
        if self.ticks.is_multiple_of(self.config.direct_connect_ticks) {
            self.connect_direct(cx);
        }
        self.send_waiting_gossip(cx);
        for topic in self.topics.joined().to_vec() {
            self.balance(topic, cx);
            self.emit_gossip(topic, cx);
        }
        self.maintain_fanouts(cx);
        self.partials_heartbeat(cx);
        self.spread_heartbeat(cx);
        for id in self.peers.connected().to_vec() {
            if let Some(peer) = self.peers.get_mut(id) {
                peer.counts = Default::default();
            }
            self.streams_heartbeat(id, cx);
            self.retry(id, cx);
        }
        self.flush(cx);
        self.mcache.shift();
    }
}
