//! An engine whose peers a test plays under the names of rust-libp2p.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use libp2p_identity::PeerId;
use samara_engine::testing::Single;
use samara_engine::{Input, LinkRequest, Outbox, PeerId as Handle, PeerIdentity, PeerInfo, TimerToken};
use samara_gossipsub::rpc::{Control, Rpc, RpcFrame, Topic};
use samara_gossipsub::{Acceptance, Cx, Event, GossipSub, PublishError, Receipt};

use crate::queue::Queue;
use crate::settings::{Settings, identity_of};
use crate::types::{MessageId, PeerKind, RawMessage};
use crate::{TopicHash, clock, frames};

pub(crate) type Shared = Rc<RefCell<Node>>;

/// Timers of the engine, which fire when a test says so.
const HEARTBEAT: TimerToken = TimerToken(0);
const DECAY: TimerToken = TimerToken(1);

/// The protocol of peers that the test does not know.
const V1_1: &str = "/meshsub/1.1.0";

pub(crate) struct Node {
    pub(crate) settings: Settings,
    /// The engine. It begins with the first event, when all settings are known.
    single: Option<Single<GossipSub>>,
    links: BTreeMap<Handle, Link>,
    handles: HashMap<PeerId, Handle>,
    next: u32,
    /// The peer that brings messages of senders without a link.
    stranger: Option<Handle>,
    /// Copies that found no room in a queue, for each peer since the last report.
    pub(crate) lost: BTreeMap<Handle, usize>,
}

/// A link to a peer that the test knows.
struct Link {
    peer: PeerId,
    info: PeerInfo,
    /// The addresses of all connections.
    addresses: Vec<IpAddr>,
    queue: Queue,
    /// Whether the test looks at a queue that is shorter than those of others: its copies stay in the
    /// outbox, as on a slow link.
    is_slow: bool,
}

impl Node {
    pub(crate) fn new(settings: Settings) -> Shared {
        Rc::new(RefCell::new(Self {
            settings,
            single: None,
            links: BTreeMap::new(),
            handles: HashMap::new(),
            next: 0,
            stranger: None,
            lost: BTreeMap::new(),
        }))
    }

    fn single(&mut self) -> &mut Single<GossipSub> {
        let settings = &self.settings;
        let single = self.single.get_or_insert_with(|| {
            let config = settings.engine();
            let outbox = Outbox::new(config.outbox_config());
            let engine = GossipSub::new(config, settings.identity())
                .unwrap_or_else(|error| panic!("the engine refuses the configuration: {error}"));
            let mut single = Single::new(engine, outbox, 1);
            single.now = clock::now();
            single.handle(Input::Start);
            single
        });
        single.now = clock::now();
        single
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut GossipSub, &mut Cx<'_>) -> R) -> R {
        let result = self.single().with(call);
        self.fill_queues();
        result
    }

    fn handle(&mut self, input: Input<RpcFrame, samara_gossipsub::Command>) {
        self.single().handle(input);
        self.fill_queues();
    }

    /// Moves all copies into the queues of the test.
    fn fill_queues(&mut self) {
        let Some(single) = &mut self.single else { return };
        for (handle, link) in &mut self.links {
            if link.is_slow {
                continue;
            }
            for frame in single.take(*handle) {
                for message in frames::queued(&frame, &self.settings.config) {
                    link.queue.try_push(message).expect("room in the queue of a test");
                }
            }
        }
    }

    // ---- links ----

    pub(crate) fn knows(&self, peer: &PeerId) -> bool {
        self.handles.contains_key(peer)
    }

    pub(crate) fn connect(
        &mut self,
        peer: PeerId,
        (kind, outbound, address): (PeerKind, bool, Option<IpAddr>),
        queue: Queue,
    ) {
        let is_slow = self.settings.queue_len == Some(capacity_of(&queue));
        let info =
            PeerInfo { identity: identity_of(&peer), outbound, address, protocol: protocol_of(kind).into() };
        let handle = self.new_handle();
        self.handles.insert(peer, handle);
        self.links.insert(
            handle,
            Link { peer, info: info.clone(), addresses: address.into_iter().collect(), queue, is_slow },
        );
        self.link_up(handle, info);
    }

    fn new_handle(&mut self) -> Handle {
        self.next += 1;
        Handle(self.next - 1)
    }

    fn link_up(&mut self, peer: Handle, info: PeerInfo) {
        self.single().outbox.link_up(peer);
        self.handle(Input::LinkUp { peer, info });
    }

    fn link_down(&mut self, peer: Handle) {
        self.single().outbox.link_down(peer);
        self.handle(Input::LinkDown { peer });
    }

    fn link_again(&mut self, handle: Handle, joined: &BTreeSet<TopicHash>) {
        let info = self.links[&handle].info.clone();
        self.link_up(handle, info);
        self.receive_from(handle, frames::subscribed(joined));
    }

    pub(crate) fn disconnect(&mut self, peer: &PeerId) {
        if let Some(handle) = self.handles.remove(peer) {
            self.links.remove(&handle);
            self.link_down(handle);
        }
    }

    /// Connects a peer that the test does not know.
    fn connect_hidden(&mut self) -> Handle {
        let handle = self.new_handle();
        let identity = PeerIdentity::new(format!("hidden {}", handle.0).as_bytes());
        let info = PeerInfo { identity, outbound: false, address: None, protocol: V1_1.into() };
        self.link_up(handle, info);
        handle
    }

    /// Adds an address to those of a peer.
    pub(crate) fn add_address(&mut self, peer: &PeerId, address: IpAddr) {
        let handle = self.handles[peer];
        if let Some(link) = self.links.get_mut(&handle) {
            link.addresses.push(address);
            let addresses = link.addresses.clone();
            self.with(|engine, _| engine.set_addresses(handle, addresses));
        }
    }

    // ---- RPCs ----

    /// Delivers an RPC from a peer. One from a peer without a link arrives, too.
    pub(crate) fn receive(&mut self, peer: &PeerId, rpc: Rpc) {
        let handle = self.handles.get(peer).copied().unwrap_or(Handle(u32::MAX - 1));
        self.receive_from(handle, rpc);
    }

    fn receive_from(&mut self, peer: Handle, rpc: Rpc) {
        self.handle(Input::Frame { peer, frame: RpcFrame::new(rpc) });
    }

    /// Delivers a message of a peer, which need not have a link.
    pub(crate) fn receive_message(&mut self, peer: &PeerId, raw: &RawMessage) {
        let known = self.handles.get(peer).copied().or(self.stranger);
        let handle = known.unwrap_or_else(|| self.connect_hidden());
        if !self.handles.contains_key(peer) {
            self.stranger = Some(handle);
        }
        self.receive_from(handle, frames::publish(raw));
    }

    // ---- the application ----

    pub(crate) fn subscribe(&mut self, topic: &Topic) -> Option<bool> {
        let allowed = self.single().engine.config().subscriptions.filter.allows(topic);
        allowed.then(|| self.with(|engine, cx| engine.subscribe(topic, cx)))
    }

    pub(crate) fn unsubscribe(&mut self, topic: &Topic) -> bool {
        self.with(|engine, cx| engine.unsubscribe(topic, cx))
    }

    pub(crate) fn publish(&mut self, topic: &Topic, data: Vec<u8>) -> Result<Receipt, PublishError> {
        self.with(|engine, cx| engine.publish(topic, data.into(), cx))
    }

    pub(crate) fn publish_message(&mut self, raw: &RawMessage) -> Result<Receipt, PublishError> {
        let message = Arc::new(frames::message(raw));
        self.with(|engine, cx| engine.publish_message(message, cx))
    }

    pub(crate) fn report(&mut self, id: &MessageId, acceptance: Acceptance) -> bool {
        let id = frames::id(id);
        self.with(|engine, cx| engine.report_validation(&id, acceptance, cx))
    }

    pub(crate) fn add_direct_peer(&mut self, peer: &PeerId) {
        let identity = identity_of(peer);
        self.with(|engine, cx| engine.add_direct_peer(identity, cx));
    }

    pub(crate) fn set_app_score(&mut self, peer: &PeerId, score: f64) -> bool {
        let Some(handle) = self.handles.get(peer).copied() else { return false };
        self.single().engine.set_app_score(handle, score);
        true
    }

    // ---- time ----

    pub(crate) fn heartbeat(&mut self) {
        self.handle(Input::Timer(HEARTBEAT));
    }

    /// Makes the engine gossip, which it does at heartbeats. They also prune full meshes, so that one
    /// member of each leaves, and joins again afterwards.
    pub(crate) fn gossip(&mut self) {
        let config = Arc::clone(self.single().engine.config());
        let topics: Vec<Topic> = self.single().engine.subscriptions().cloned().collect();
        let mut left = Vec::new();
        for topic in topics {
            let (full, mesh) = (config.mesh_of(&topic).d_high, self.single().engine.mesh_peers(&topic));
            let members: Vec<Handle> = mesh.to_vec();
            for handle in members.into_iter().skip(full - 1) {
                left.push((handle, topic.clone(), self.topics_of(&self.links[&handle].peer)));
                self.link_down(handle);
            }
        }
        self.heartbeat();
        for (handle, topic, joined) in left {
            self.link_again(handle, &joined);
            self.receive_from(handle, graft(&topic));
        }
    }

    pub(crate) fn decay(&mut self) {
        self.handle(Input::Timer(DECAY));
    }

    // ---- state ----

    pub(crate) fn score(&mut self, peer: &PeerId) -> f64 {
        let handle = self.handles.get(peer).copied();
        handle.map_or(0.0, |handle| self.single().engine.peer_score(handle))
    }

    fn names(&self, handles: &[Handle]) -> BTreeSet<PeerId> {
        handles.iter().filter_map(|handle| Some(self.links.get(handle)?.peer)).collect()
    }

    pub(crate) fn meshes(&self) -> HashMap<TopicHash, BTreeSet<PeerId>> {
        let Some(single) = &self.single else { return HashMap::new() };
        let mesh = |topic: &Topic| (frames::hash(topic), self.names(single.engine.mesh_peers(topic)));
        single.engine.subscriptions().map(mesh).collect()
    }

    pub(crate) fn fanout(&self, topic: &TopicHash) -> BTreeSet<PeerId> {
        let Some(single) = &self.single else { return BTreeSet::new() };
        self.names(single.engine.fanout(&frames::topic(topic)))
    }

    pub(crate) fn topics_of(&self, peer: &PeerId) -> BTreeSet<TopicHash> {
        let known = self.single.as_ref().zip(self.handles.get(peer));
        known.map_or_else(BTreeSet::new, |(single, handle)| {
            single.engine.topics_of(*handle).into_iter().map(frames::hash).collect()
        })
    }

    /// Returns the number of IDONTWANT that the engine remembers.
    pub(crate) fn unwanted(&self) -> usize {
        self.single.as_ref().map_or(0, |single| single.engine.sizes().unwanted)
    }

    pub(crate) fn peer_of(&self, handle: Handle) -> Option<PeerId> {
        self.links.get(&handle).map(|link| link.peer)
    }

    pub(crate) fn take_events(&mut self) -> (Vec<Event>, Vec<LinkRequest>) {
        let Some(single) = &mut self.single else { return (Vec::new(), Vec::new()) };
        (std::mem::take(&mut single.events), std::mem::take(&mut single.links))
    }

    /// Returns a cached message: what an unknown peer gets when it asks.
    pub(crate) fn cached(&mut self, id: &MessageId) -> Option<RawMessage> {
        let asker = self.connect_hidden();
        let iwant = vec![frames::id(id)];
        self.receive_from(asker, frames::control(Control { iwant, ..Control::default() }));
        let frames = self.single().take(asker);
        self.link_down(asker);
        let mut messages = frames.iter().flat_map(|frame| frame.rpc().publish.iter());
        messages.next().map(|message| frames::raw_of(message))
    }

    /// Makes the engine send PRUNE to a peer: other peers fill the mesh, and the peer's GRAFT comes too
    /// late. A member first leaves with its link, which has no backoff.
    pub(crate) fn prune(&mut self, peer: &PeerId, hash: &TopicHash) {
        let Some(handle) = self.handles.get(peer).copied() else { return };
        let topic = frames::topic(hash);
        let joined = self.topics_of(peer);
        if self.single().engine.mesh_peers(&topic).contains(&handle) {
            self.link_down(handle);
        }
        let full = self.single().engine.config().mesh_of(&topic).d_high;
        let mut hidden = Vec::new();
        while self.single().engine.mesh_peers(&topic).len() < full {
            let other = self.connect_hidden();
            self.receive_from(other, graft(&topic));
            hidden.push(other);
        }
        if self.single().engine.protocol_of(handle).is_none() {
            self.link_again(handle, &joined);
        }
        self.receive_from(handle, graft(&topic));
        for other in hidden {
            self.link_down(other);
        }
    }
}

fn graft(topic: &Topic) -> Rpc {
    frames::control(Control { graft: vec![topic.clone()], ..Control::default() })
}

fn protocol_of(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::NotSupported => "",
        PeerKind::Floodsub => "/floodsub/1.0.0",
        PeerKind::Gossipsub => "/meshsub/1.0.0",
        PeerKind::Gossipsubv1_1 => V1_1,
        PeerKind::Gossipsubv1_2 => "/meshsub/1.2.0",
        PeerKind::Gossipsubv1_3 => "/meshsub/1.3.0",
    }
}

/// Returns the number of messages that fit into a queue of a test, which does not say it.
pub(crate) fn capacity_of(queue: &Queue) -> usize {
    // `Shared { inner: .., capacity: Some(1), id: 1 }`: the last one is that of messages.
    let text = format!("{:?}", queue.non_priority);
    let capacity = text.rsplit_once("capacity: Some(").and_then(|(_, rest)| rest.split(')').next());
    capacity.and_then(|number| number.parse().ok()).expect("a queue with a capacity")
}
