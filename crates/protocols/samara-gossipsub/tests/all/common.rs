//! One node driven by hand: the test acts as all of its peers, and inspects the frames in its
//! outbox.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::Lane;
use samara_engine::testing::Single;
use samara_engine::{Outbox, PeerId, PeerIdentity};
use samara_gossipsub::rpc::{Control, IHave, Message, MessageId, Prune, Rpc, RpcFrame, SubOpts, Topic};
use samara_gossipsub::score::{PeerScoreParams, PeerScoreThresholds};
use samara_gossipsub::{Config, Event, GossipSub, Ignored};

pub(crate) const V1_0: &str = "/meshsub/1.0.0";
pub(crate) const V1_1: &str = "/meshsub/1.1.0";
pub(crate) const V1_2: &str = "/meshsub/1.2.0";
pub(crate) const FLOODSUB: &str = "/floodsub/1.0.0";

/// A node, and the number of peers that it has had so far.
pub(crate) struct Node {
    single: Single<GossipSub>,
    peers: u32,
}

samara_engine::deref_to!(Node => single: Single<GossipSub>);

/// A configuration with heartbeats at known times (1.1 s, 2.1 s, ...), without flood publishing and
/// scoring, and with the gossip of the specification.
pub(crate) fn plain() -> Config {
    Config {
        heartbeat_spread: Some(Duration::ZERO),
        heartbeat_initial_delay: Duration::from_millis(100),
        flood_publish: false,
        peer_score: None,
        peer_exchange: false,
        gossip_to_pruned: false,
        ..Config::spec()
    }
}

/// Like [`plain`], with scores that the test sets by [`Node::set_score`], and with P7.
pub(crate) fn scored() -> Config {
    let params = PeerScoreParams {
        app_specific_weight: 1.0,
        behaviour_penalty_weight: -1.0,
        behaviour_penalty_decay: 0.9,
        ..PeerScoreParams::neutral()
    };
    let thresholds = PeerScoreThresholds {
        gossip: -10.0,
        publish: -20.0,
        graylist: -30.0,
        accept_px: 5.0,
        opportunistic_graft: 5.0,
    };
    Config { peer_score: Some(params), thresholds, ..plain() }
}

pub(crate) fn changed(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name)
}

pub(crate) fn identity(number: u32) -> PeerIdentity {
    PeerIdentity::new(format!("peer-{number}").as_bytes())
}

/// Builds an unsigned message of the author `author`.
pub(crate) fn message(name: &str, number: u64, len: usize) -> Arc<Message> {
    let data = Bytes::from(vec![number as u8; len]);
    Arc::new(Message::with_author(topic(name), data, Bytes::from_static(b"author"), number))
}

/// Returns the id of such a message.
pub(crate) fn id_of(message: &Message) -> MessageId {
    samara_gossipsub::message_id::MessageIdFn::FromSeqno.id(message)
}

pub(crate) fn publish(messages: impl IntoIterator<Item = Arc<Message>>) -> Rpc {
    Rpc { publish: messages.into_iter().collect(), ..Rpc::default() }
}

pub(crate) fn control(control: Control) -> Rpc {
    Rpc { control: Some(Box::new(control)), ..Rpc::default() }
}

pub(crate) fn graft(names: &[&str]) -> Rpc {
    control(Control { graft: names.iter().map(|name| topic(name)).collect(), ..Control::default() })
}

pub(crate) fn prune(name: &str, backoff: Option<Duration>) -> Rpc {
    let prune = vec![Prune { topic: topic(name), peers: Vec::new(), backoff }];
    control(Control { prune, ..Control::default() })
}

pub(crate) fn ihave(name: &str, ids: Vec<MessageId>) -> Rpc {
    control(Control { ihave: vec![IHave { topic: topic(name), ids }], ..Control::default() })
}

pub(crate) fn iwant(ids: Vec<MessageId>) -> Rpc {
    control(Control { iwant: ids, ..Control::default() })
}

pub(crate) fn idontwant(ids: Vec<MessageId>) -> Rpc {
    control(Control { idontwant: ids, ..Control::default() })
}

pub(crate) fn subscriptions(subscribe: bool, names: &[String]) -> Rpc {
    let change = |name: &String| SubOpts {
        subscribe,
        topic: topic(name),
        partial: Default::default(),
        unknown: Bytes::new(),
    };
    Rpc { subscriptions: names.iter().map(change).collect(), ..Rpc::default() }
}

/// Returns made-up ids.
pub(crate) fn ids(from: u64, count: u64) -> Vec<MessageId> {
    (from..from + count).map(|number| MessageId::new(&number.to_be_bytes())).collect()
}

impl Node {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_seed(config, 1)
    }

    pub(crate) fn with_seed(config: Config, seed: u64) -> Self {
        let outbox = Outbox::new(config.outbox_config());
        let engine = GossipSub::new(config, PeerIdentity::new(b"me")).unwrap();
        Self { single: Single::start(engine, outbox, seed), peers: 0 }
    }

    /// Creates a node on a topic with `count` peers, in the order of their numbers. The node has
    /// dialled the first `outbound` peers.
    pub(crate) fn on_topic(config: Config, name: &str, count: usize, outbound: usize) -> (Self, Vec<PeerId>) {
        let mut node = Self::new(config);
        let peers: Vec<PeerId> = (0..count).map(|at| node.join_peer(name, at < outbound)).collect();
        node.subscribe(name);
        node.sent();
        (node, peers)
    }

    // ---- inputs ----

    /// Advances the time by exactly one heartbeat.
    pub(crate) fn heartbeat(&mut self) {
        let before = self.engine.metrics().heartbeats;
        while self.engine.metrics().heartbeats == before {
            self.advance(Duration::from_millis(10));
        }
    }

    pub(crate) fn heartbeats(&mut self, count: usize) {
        (0..count).for_each(|_| self.heartbeat());
    }

    pub(crate) fn connect_as(&mut self, protocol: &str, outbound: bool) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers - 1);
        self.connect_identity(peer, identity(peer.0), protocol, outbound);
        peer
    }

    pub(crate) fn connect_identity(
        &mut self,
        peer: PeerId,
        identity: PeerIdentity,
        protocol: &str,
        outbound: bool,
    ) {
        self.peers = self.peers.max(peer.0 + 1);
        self.single.connect(peer, identity, protocol, outbound);
    }

    pub(crate) fn connect(&mut self) -> PeerId {
        self.connect_as(V1_2, false)
    }

    pub(crate) fn join_as(&mut self, protocol: &str, name: &str, outbound: bool) -> PeerId {
        let peer = self.connect_as(protocol, outbound);
        self.rpc(peer, subscriptions(true, &[name.to_owned()]));
        peer
    }

    pub(crate) fn join_peer(&mut self, name: &str, outbound: bool) -> PeerId {
        self.join_as(V1_2, name, outbound)
    }

    pub(crate) fn join_peers(&mut self, name: &str, count: usize, outbound: bool) -> Vec<PeerId> {
        (0..count).map(|_| self.join_peer(name, outbound)).collect()
    }

    /// Delivers the same RPC from each of these peers.
    pub(crate) fn rpcs(&mut self, from: &[PeerId], rpc: Rpc) {
        from.iter().for_each(|peer| self.rpc(*peer, rpc.clone()));
    }

    pub(crate) fn rpc(&mut self, from: PeerId, rpc: Rpc) {
        self.frame(from, RpcFrame::new(rpc));
    }

    pub(crate) fn subscribe(&mut self, name: &str) {
        self.with(|engine, cx| engine.subscribe(&topic(name), cx));
    }

    pub(crate) fn unsubscribe(&mut self, name: &str) {
        self.with(|engine, cx| engine.unsubscribe(&topic(name), cx));
    }

    pub(crate) fn publish(&mut self, name: &str, len: usize) -> samara_gossipsub::Receipt {
        let data = Bytes::from(vec![7; len]);
        self.with(|engine, cx| engine.publish(&topic(name), data, cx)).unwrap()
    }

    /// Sets the score of a peer, not counting penalties.
    pub(crate) fn set_score(&mut self, peer: PeerId, score: f64) {
        self.engine.set_app_score(peer, score);
    }

    // ---- results ----

    pub(crate) fn mesh(&self, name: &str) -> Vec<PeerId> {
        self.engine.mesh_peers(&topic(name)).to_vec()
    }

    pub(crate) fn ignored(&self, cause: Ignored) -> u64 {
        self.engine.metrics().ignored(cause)
    }

    /// Takes all frames out of the outbox.
    pub(crate) fn sent(&mut self) -> Sent {
        let mut frames = Vec::new();
        let now = self.now;
        for peer in (0..self.peers).map(PeerId) {
            while let Some(copy) = self.outbox.pop_for(now, peer) {
                frames.push((peer, copy.lane, copy.frame));
            }
        }
        Sent(frames)
    }

    /// Returns only the frames that one heartbeat adds to the outbox.
    pub(crate) fn sent_at_heartbeat(&mut self) -> Sent {
        self.sent();
        self.heartbeat();
        self.sent()
    }

    pub(crate) fn delivered(&mut self) -> Vec<Arc<Message>> {
        let events = std::mem::take(&mut self.events);
        let messages = events.into_iter().filter_map(|event| match event {
            Event::Message { message, .. } => Some(message),
            _ => None,
        });
        messages.collect()
    }
}

/// Frames by receiving peer.
pub(crate) struct Sent(pub(crate) Vec<(PeerId, Lane, RpcFrame)>);

impl Sent {
    fn controls(&self) -> impl Iterator<Item = (PeerId, &Control)> {
        self.0.iter().filter_map(|(peer, _, frame)| Some((*peer, frame.rpc().control.as_deref()?)))
    }

    pub(crate) fn grafts(&self, name: &str) -> Vec<PeerId> {
        let name = topic(name);
        self.controls().filter(|(_, control)| control.graft.contains(&name)).map(|(peer, _)| peer).collect()
    }

    pub(crate) fn prunes(&self, name: &str) -> Vec<(PeerId, Prune)> {
        let name = topic(name);
        let all = self
            .controls()
            .flat_map(|(peer, control)| control.prune.iter().map(move |prune| (peer, prune.clone())));
        all.filter(|(_, prune)| prune.topic == name).collect()
    }

    pub(crate) fn pruned(&self, name: &str) -> Vec<PeerId> {
        self.prunes(name).into_iter().map(|(peer, _)| peer).collect()
    }

    pub(crate) fn ihaves(&self) -> Vec<(PeerId, IHave)> {
        self.controls()
            .flat_map(|(peer, control)| control.ihave.iter().map(move |i| (peer, i.clone())))
            .collect()
    }

    pub(crate) fn iwants(&self) -> Vec<(PeerId, Vec<MessageId>)> {
        let all = self.controls().filter(|(_, control)| !control.iwant.is_empty());
        all.map(|(peer, control)| (peer, control.iwant.clone())).collect()
    }

    pub(crate) fn idontwants(&self) -> Vec<(PeerId, Vec<MessageId>)> {
        let all = self.controls().filter(|(_, control)| !control.idontwant.is_empty());
        all.map(|(peer, control)| (peer, control.idontwant.clone())).collect()
    }

    /// Returns the receivers of IDONTWANT.
    pub(crate) fn idontwant_receivers(&self) -> Vec<PeerId> {
        self.idontwants().into_iter().map(|(peer, _)| peer).collect()
    }

    pub(crate) fn messages(&self) -> Vec<(PeerId, Arc<Message>)> {
        let of = |(peer, _, frame): &(PeerId, Lane, RpcFrame)| {
            let peer = *peer;
            frame.rpc().publish.iter().map(move |message| (peer, Arc::clone(message))).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Returns the receivers of messages, sorted.
    pub(crate) fn receivers(&self) -> Vec<PeerId> {
        let mut peers: Vec<PeerId> = self.messages().into_iter().map(|(peer, _)| peer).collect();
        peers.sort_unstable();
        peers
    }

    pub(crate) fn announced(&self) -> Vec<(PeerId, bool, Topic)> {
        let of = |(peer, _, frame): &(PeerId, Lane, RpcFrame)| {
            let peer = *peer;
            let changes = frame.rpc().subscriptions.iter();
            changes.map(move |change| (peer, change.subscribe, change.topic.clone())).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }
}
