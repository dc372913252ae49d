//! The behaviour of rust-libp2p as its tests see it, with the engine inside.
//!
//! The tests read and change fields. The fields here are copies of the engine's state, renewed after
//! each call. A call first passes on to the engine what the test has changed in them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use libp2p_core::multiaddr::Protocol;
use libp2p_core::transport::PortUse;
use libp2p_core::{Endpoint, Multiaddr};
use libp2p_identity::{Keypair, PeerId};
use libp2p_swarm::behaviour::{ConnectionClosed, ConnectionEstablished, FromSwarm};
use libp2p_swarm::dial_opts::DialOpts;
use libp2p_swarm::{ConnectionDenied, ConnectionId, NetworkBehaviour, ToSwarm, dummy};
use samara_engine::LinkRequest;
use samara_gossipsub::config::SubscriptionFilter;
use samara_gossipsub::rpc::{Control, IHave as OurIHave, Topic as OurTopic};
use samara_gossipsub::{Acceptance, Event as OurEvent, PublishError as OurPublishError};
use web_time::Instant;

use crate::config::Config;
use crate::handler::HandlerEvent;
use crate::node::{Node, Shared, capacity_of};
use crate::peer_score::{PeerScore, PeerScoreParams, PeerScoreState, PeerScoreThresholds};
use crate::queue::Queue;
use crate::rpc_proto::proto;
use crate::settings::{Author, Settings};
use crate::types::{
    ControlAction, FailedMessages, Graft, IHave, IWant, Message, MessageAcceptance, MessageId, PeerDetails,
    PeerInfo, PeerKind, Prune, RawMessage, RpcOut, Subscription, SubscriptionAction,
};
use crate::{
    AllowAllSubscriptionFilter, DataTransform, Hasher, IdentityTransform, MaxCountSubscriptionFilter,
    PublishError, SubscriptionError, Topic, TopicHash, TopicSubscriptionFilter, frames,
};

include!(concat!(env!("OUT_DIR"), "/tests.rs"));

/// The author and the signature of a node's own messages. The engine leaves cryptography to its
/// driver, so that a node with a key only names itself.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "the tests construct it like this")]
pub(crate) enum MessageAuthenticity {
    Signed(Keypair),
    RandomAuthor,
    Anonymous,
}

#[derive(Debug)]
#[allow(dead_code, reason = "the tests look at some of the fields")]
pub(crate) enum Event {
    Message { propagation_source: PeerId, message_id: MessageId, message: Message },
    Subscribed { peer_id: PeerId, topic: TopicHash },
    Unsubscribed { peer_id: PeerId, topic: TopicHash },
    SlowPeer { peer_id: PeerId, failed_messages: FailedMessages },
}

pub(crate) struct Behaviour<D = IdentityTransform, F = MaxCountSubscriptionFilter<AllowAllSubscriptionFilter>>
{
    config: Config,
    events: VecDeque<ToSwarm<Event, Infallible>>,
    publish_config: PublishConfig,
    connected_peers: HashMap<PeerId, PeerDetails>,
    mesh: HashMap<TopicHash, BTreeSet<PeerId>>,
    fanout: HashMap<TopicHash, BTreeSet<PeerId>>,
    mcache: MessageCache,
    peer_score: PeerScoreState,
    data_transform: D,
    node: Shared,
    /// The copies of meshes and fanouts as they were after the last call.
    renewed: [HashMap<TopicHash, BTreeSet<PeerId>>; 2],
    /// Topics without a subscription on which the test has published.
    published: BTreeSet<TopicHash>,
    filter: PhantomData<F>,
}

/// The author of a node's own messages.
struct PublishConfig(Option<PeerId>);

impl PublishConfig {
    fn get_own_id(&self) -> Option<&PeerId> {
        self.0.as_ref()
    }
}

/// The message cache of the engine.
struct MessageCache(Shared);

impl MessageCache {
    /// Publishes the message: the engine stores no others on topics that it has not joined.
    fn put(&mut self, _: &MessageId, raw: RawMessage) -> bool {
        self.0.borrow_mut().publish_message(&raw).is_ok()
    }

    fn get(&self, id: &MessageId) -> Option<RawMessage> {
        self.0.borrow_mut().cached(id)
    }

    fn shift(&mut self) {
        self.0.borrow_mut().heartbeat();
    }
}

fn get_random_peers(
    _: &HashMap<PeerId, PeerDetails>,
    _: &TopicHash,
    _: usize,
    _: impl FnMut(&PeerId) -> bool,
) -> BTreeSet<PeerId> {
    panic!("no counterpart: a function that is not part of a behaviour")
}

/// Returns the address behind which other peers can be.
fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().find_map(|part| match part {
        Protocol::Ip4(address) => Some(address.into()),
        Protocol::Ip6(address) => Some(address.into()),
        _ => None,
    })
}

impl<D: Default, F: TopicSubscriptionFilter + Default + Send + 'static> Behaviour<D, F> {
    pub(crate) fn new(authenticity: MessageAuthenticity, config: Config) -> Result<Self, &'static str> {
        Self::new_with_subscription_filter_and_transform(authenticity, config, F::default(), D::default())
    }
}

impl<D, F: TopicSubscriptionFilter + Send + 'static> Behaviour<D, F> {
    pub(crate) fn new_with_subscription_filter_and_transform(
        authenticity: MessageAuthenticity,
        config: Config,
        filter: F,
        data_transform: D,
    ) -> Result<Self, &'static str> {
        let author = match authenticity {
            MessageAuthenticity::Signed(key) => Author::Own(key.public().to_peer_id()),
            MessageAuthenticity::RandomAuthor => Author::Random,
            MessageAuthenticity::Anonymous => Author::Absent,
        };
        let filter = Mutex::new(filter);
        let allows = move |topic: &OurTopic| {
            let mut filter = filter.lock().unwrap_or_else(PoisonError::into_inner);
            filter.can_subscribe(&frames::hash(topic))
        };
        let settings = Settings {
            config: config.clone(),
            scores: None,
            author,
            filter: SubscriptionFilter::Custom(Arc::new(allows)),
            queue_len: None,
        };
        let node = Node::new(settings);
        Ok(Self {
            config,
            events: VecDeque::new(),
            publish_config: PublishConfig(if let Author::Own(peer) = author { Some(peer) } else { None }),
            connected_peers: HashMap::new(),
            mesh: HashMap::new(),
            fanout: HashMap::new(),
            mcache: MessageCache(Shared::clone(&node)),
            peer_score: PeerScoreState::Disabled,
            data_transform,
            node,
            renewed: Default::default(),
            published: BTreeSet::new(),
            filter: PhantomData,
        })
    }
}

// The state.
impl<D, F> Behaviour<D, F> {
    fn call<R>(&mut self, call: impl FnOnce(&mut Node) -> R) -> R {
        self.pass_on_changes();
        let result = call(&mut self.node.borrow_mut());
        self.renew();
        result
    }

    /// Passes on to the engine what the test has changed in the copies of its state.
    fn pass_on_changes(&mut self) {
        let mut node = self.node.borrow_mut();
        let fresh: Vec<_> = self.connected_peers.iter().filter(|(peer, _)| !node.knows(peer)).collect();
        if let Some(shortest) = fresh.iter().map(|(_, details)| capacity_of(&details.messages)).min()
            && shortest < self.config.connection_handler_queue_len()
        {
            node.settings.queue_len = Some(shortest);
        }
        for (peer, details) in fresh {
            node.connect(*peer, (details.kind, details.outbound, None), details.messages.clone());
            if !details.topics.is_empty() {
                node.receive(peer, frames::subscribed(&details.topics));
            }
        }
        let [mesh, fanout] = &self.renewed;
        assert!(*fanout == self.fanout, "no counterpart: a fanout that the test fills");
        for (topic, members) in &self.mesh {
            // A topic with a mesh is a joined one.
            node.subscribe(&frames::topic(topic));
            let known = mesh.get(topic);
            for peer in members.iter().filter(|peer| known.is_none_or(|known| !known.contains(peer))) {
                let graft = vec![frames::topic(topic)];
                node.receive(peer, frames::control(Control { graft, ..Control::default() }));
            }
        }
        if node.unwanted() == 0 {
            for (peer, details) in &self.connected_peers {
                let idontwant: Vec<_> = details.dont_send.keys().map(frames::id).collect();
                if !idontwant.is_empty() {
                    node.receive(peer, frames::control(Control { idontwant, ..Control::default() }));
                }
            }
        }
    }

    /// Copies the state of the engine, and its events.
    fn renew(&mut self) {
        let mut node = self.node.borrow_mut();
        self.mesh = node.meshes();
        let fanouts = self.published.iter().filter(|topic| !self.mesh.contains_key(topic));
        self.fanout = fanouts.map(|topic| (topic.clone(), node.fanout(topic))).collect();
        self.renewed = [self.mesh.clone(), self.fanout.clone()];
        self.connected_peers.retain(|peer, _| node.knows(peer));
        for (peer, details) in &mut self.connected_peers {
            details.topics = node.topics_of(peer);
            if node.unwanted() == 0 {
                details.dont_send.clear();
            }
        }
        let (events, links) = node.take_events();
        for event in events {
            if let Some(event) = event_of(&mut node, event) {
                self.events.push_back(ToSwarm::GenerateEvent(event));
            }
        }
        for link in links {
            if let LinkRequest::Dial(identity) = link
                && let Ok(peer) = PeerId::from_bytes(identity.as_bytes())
            {
                self.events.push_back(ToSwarm::Dial { opts: DialOpts::peer_id(peer).build() });
            }
        }
    }
}

/// Returns an event of the engine as rust-libp2p has it.
fn event_of(node: &mut Node, event: OurEvent) -> Option<Event> {
    match event {
        OurEvent::Message { id, message, from: Some(from), .. }
        | OurEvent::NeedsValidation { id, message, from, .. } => Some(Event::Message {
            // A sender without a link has any name.
            propagation_source: node.peer_of(from).unwrap_or_else(PeerId::random),
            message_id: MessageId::new(id.as_bytes()),
            message: frames::message_of(&message),
        }),
        OurEvent::Subscription { peer, topic, joined } => {
            let (peer_id, topic) = (node.peer_of(peer)?, frames::hash(&topic));
            let joins = Event::Subscribed { peer_id, topic: topic.clone() };
            Some(if joined { joins } else { Event::Unsubscribed { peer_id, topic } })
        }
        OurEvent::Lost(lost) => {
            *node.lost.entry(lost.peer).or_default() += 1;
            None
        }
        _ => None,
    }
}

// The application.
impl<D, F> Behaviour<D, F> {
    pub(crate) fn with_peer_score(
        &mut self,
        params: PeerScoreParams,
        thresholds: PeerScoreThresholds,
    ) -> Result<(), String> {
        self.peer_score =
            PeerScoreState::Active(Box::new(PeerScore::new(Shared::clone(&self.node), params.clone())));
        self.node.borrow_mut().settings.scores = Some((params, thresholds));
        Ok(())
    }

    pub(crate) fn subscribe<H: Hasher>(&mut self, topic: &Topic<H>) -> Result<bool, SubscriptionError> {
        let topic = frames::topic(&topic.hash());
        self.call(|node| node.subscribe(&topic)).ok_or(SubscriptionError::NotAllowed)
    }

    pub(crate) fn unsubscribe<H: Hasher>(&mut self, topic: &Topic<H>) -> bool {
        let topic = frames::topic(&topic.hash());
        self.call(|node| node.unsubscribe(&topic))
    }

    pub(crate) fn publish(
        &mut self,
        topic: impl Into<TopicHash>,
        data: impl Into<Vec<u8>>,
    ) -> Result<MessageId, PublishError> {
        let hash = topic.into();
        self.published.insert(hash.clone());
        let topic = frames::topic(&hash);
        match self.call(|node| node.publish(&topic, data.into())) {
            Ok(receipt) if receipt.peers == 0 => Err(PublishError::NoPeersSubscribedToTopic),
            Ok(receipt) if receipt.lost == receipt.peers => Err(PublishError::AllQueuesFull(receipt.lost)),
            Ok(receipt) => Ok(MessageId::new(receipt.id.as_bytes())),
            Err(OurPublishError::Duplicate(_)) => Err(PublishError::Duplicate),
            Err(OurPublishError::TooLong { .. } | OurPublishError::FrameTooLong { .. }) => {
                Err(PublishError::MessageTooLarge)
            }
            Err(error) => panic!("no counterpart: {error}"),
        }
    }

    pub(crate) fn report_message_validation_result(
        &mut self,
        id: &MessageId,
        _: &PeerId,
        acceptance: MessageAcceptance,
    ) -> bool {
        let acceptance = match acceptance {
            MessageAcceptance::Accept => Acceptance::Accept,
            MessageAcceptance::Reject => Acceptance::Reject,
            MessageAcceptance::Ignore => Acceptance::Ignore,
        };
        self.call(|node| node.report(id, acceptance))
    }

    pub(crate) fn add_explicit_peer(&mut self, peer: &PeerId) {
        self.call(|node| node.add_direct_peer(peer));
    }

    pub(crate) fn set_application_score(&mut self, peer: &PeerId, score: f64) -> bool {
        self.call(|node| node.set_app_score(peer, score))
    }

    pub(crate) fn peer_score(&self, peer: &PeerId) -> Option<f64> {
        match &self.peer_score {
            PeerScoreState::Active(scores) => Some(scores.score_report(peer).score),
            PeerScoreState::Disabled => None,
        }
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicHash> {
        self.mesh.keys()
    }

    pub(crate) fn mesh_peers(&self, topic: &TopicHash) -> impl Iterator<Item = &PeerId> {
        self.mesh.get(topic).into_iter().flatten()
    }

    pub(crate) fn all_mesh_peers(&self) -> impl Iterator<Item = &PeerId> {
        self.mesh.values().flatten().collect::<BTreeSet<_>>().into_iter()
    }
}

// What rust-libp2p does by itself, or because of an RPC.
impl<D, F> Behaviour<D, F> {
    fn heartbeat(&mut self) {
        self.call(Node::heartbeat);
        let lost = std::mem::take(&mut self.node.borrow_mut().lost);
        for (handle, count) in lost {
            if let Some(peer_id) = self.node.borrow().peer_of(handle) {
                let failed_messages = FailedMessages { priority: 0, non_priority: count };
                self.events.push_back(ToSwarm::GenerateEvent(Event::SlowPeer { peer_id, failed_messages }));
            }
        }
    }

    fn emit_gossip(&mut self) {
        self.call(Node::gossip);
    }

    fn join(&mut self, topic: &TopicHash) {
        self.call(|node| node.subscribe(&frames::topic(topic)));
    }

    fn leave(&mut self, topic: &TopicHash) {
        self.call(|node| node.unsubscribe(&frames::topic(topic)));
    }

    fn receive(&mut self, peer: &PeerId, control: Control) {
        self.call(|node| node.receive(peer, frames::control(control)));
    }

    fn handle_graft(&mut self, peer: &PeerId, topics: Vec<TopicHash>) {
        self.receive(
            peer,
            Control { graft: topics.iter().map(frames::topic).collect(), ..Control::default() },
        );
    }

    fn handle_prune(&mut self, peer: &PeerId, prunes: Vec<(TopicHash, Vec<PeerInfo>, Option<u64>)>) {
        let prune =
            prunes.iter().map(|(topic, peers, backoff)| frames::prune(topic, peers, *backoff)).collect();
        self.receive(peer, Control { prune, ..Control::default() });
    }

    fn handle_ihave(&mut self, peer: &PeerId, ihaves: Vec<(TopicHash, Vec<MessageId>)>) {
        let ihave = |(topic, ids): &(TopicHash, Vec<MessageId>)| OurIHave {
            topic: frames::topic(topic),
            ids: ids.iter().map(frames::id).collect(),
        };
        self.receive(peer, Control { ihave: ihaves.iter().map(ihave).collect(), ..Control::default() });
    }

    fn handle_iwant(&mut self, peer: &PeerId, ids: Vec<MessageId>) {
        self.receive(peer, Control { iwant: ids.iter().map(frames::id).collect(), ..Control::default() });
    }

    fn handle_received_subscriptions(&mut self, changes: &[Subscription], peer: &PeerId) {
        self.call(|node| node.receive(peer, frames::subscriptions(changes)));
    }

    fn handle_received_message(&mut self, raw: RawMessage, peer: &PeerId) {
        self.call(|node| node.receive_message(peer, &raw));
    }

    fn send_graft_prune(
        &mut self,
        grafts: HashMap<PeerId, Vec<TopicHash>>,
        prunes: HashMap<PeerId, Vec<TopicHash>>,
        _: HashSet<PeerId>,
    ) {
        assert!(grafts.is_empty(), "no counterpart: a GRAFT to a chosen peer");
        for (peer, topics) in prunes {
            for topic in topics {
                self.call(|node| node.prune(&peer, &topic));
            }
        }
    }

    /// Forwards a message of its own for each call: the engine forwards none twice.
    fn forward_msg(
        &mut self,
        _: &MessageId,
        raw: RawMessage,
        _: Option<&PeerId>,
        _: HashSet<PeerId>,
    ) -> bool {
        let raw = RawMessage { sequence_number: Some(rand::random()), ..raw };
        self.call(|node| node.receive_message(&PeerId::random(), &raw));
        true
    }

    fn build_raw_message(&mut self, topic: TopicHash, data: Vec<u8>) -> Result<RawMessage, PublishError> {
        Ok(RawMessage {
            source: Some(PeerId::random()),
            data,
            sequence_number: Some(rand::random()),
            topic,
            signature: None,
            key: None,
            validated: true,
        })
    }

    pub(crate) fn on_connection_handler_event(&mut self, peer: PeerId, _: ConnectionId, event: HandlerEvent) {
        match event {
            HandlerEvent::Message { rpc, invalid_messages } => {
                let before = self.node.borrow().unwanted();
                let unwanted = rpc.control_msgs.iter().find_map(|action| match action {
                    ControlAction::IDontWant(idontwant) => Some(idontwant.message_ids.clone()),
                    _ => None,
                });
                self.call(|node| node.receive(&peer, frames::rpc(rpc, &invalid_messages)));
                let is_remembered = self.node.borrow().unwanted() > before;
                if let Some(details) = self.connected_peers.get_mut(&peer).filter(|_| is_remembered) {
                    details
                        .dont_send
                        .extend(unwanted.unwrap_or_default().into_iter().map(|id| (id, Instant::now())));
                }
            }
            // The link came up with this protocol.
            HandlerEvent::PeerKind(kind) => assert_eq!(kind, self.connected_peers[&peer].kind),
            other => panic!("no counterpart: {other:?}"),
        }
    }
}

impl<D: 'static, F: 'static> NetworkBehaviour for Behaviour<D, F> {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Event;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<dummy::ConnectionHandler, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<dummy::ConnectionHandler, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished { peer_id, endpoint, .. }) => {
                let details = &self.connected_peers[&peer_id];
                let address = ip_of(endpoint.get_remote_address());
                let (link, queue) = ((details.kind, details.outbound, address), details.messages.clone());
                let mut node = self.node.borrow_mut();
                match address {
                    Some(address) if node.knows(&peer_id) => node.add_address(&peer_id, address),
                    _ if node.knows(&peer_id) => {}
                    _ => node.connect(peer_id, link, queue),
                }
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, remaining_established: 0, .. }) => {
                self.call(|node| node.disconnect(&peer_id));
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: Infallible) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Event, Infallible>> {
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
