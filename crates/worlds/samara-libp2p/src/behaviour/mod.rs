//! GossipSub for a libp2p swarm.

mod life;
mod links;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tests;
mod uplink;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures_timer::Delay;
use indexmap::IndexMap;
use libp2p::core::transport::PortUse;
use libp2p::core::{Endpoint, PeerRecord, SignedEnvelope};
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandlerInEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};
#[cfg(doc)]
use samara_engine::outbox::FeedbackSource;
use samara_engine::outbox::{ByLane, Dispatch, Schedule, Weight};
use samara_engine::{Driver, Frame, Input, LinkRequest, MessageKey, NodeRng, Outbox, PeerId as Handle};
use samara_gossipsub::config::{ConfigError, Hook};
use samara_gossipsub::partial::Content;
use samara_gossipsub::rpc::{MessageId, RpcFrame, Topic};
use samara_gossipsub::score::TopicScoreParams;
use samara_gossipsub::wire::Limits;
use samara_gossipsub::{
    Acceptance, BatchReceipt, Config, GossipSub, Protocol, ProvideError, PublishError, Receipt, WithGossipSub,
};

use crate::event::{Event, LinkEvent, Options, ScheduleError, Sizes, Traffic};
use crate::handler::{FromHandler, Handler, ToHandler};
use crate::identity::{KeySigner, KeyVerifier};
use crate::terms::{Libp2pTerms, Terms};
use crate::unfinished::Memory;

use life::Happened;
use links::Peer;
use uplink::Uplink;

/// A [`NetworkBehaviour`] around the GossipSub engine.
///
/// A connected peer becomes a neighbour as soon as it speaks one of the
/// [protocols](Options::protocols). Other behaviours decide whom to connect to, except for direct
/// peers and peers recommended by peer exchange.
///
/// [`around`](Self::around) puts an application with the engine inside (`A`) into the swarm, in place
/// of the engine alone. The behaviour then reports events of type `T`.
pub struct Behaviour<A: WithGossipSub = GossipSub, T = Event> {
    driver: Driver<A>,
    terms: Arc<dyn Terms>,
    /// Returns what is reported of an event of the engine or the application.
    report: fn(&mut Self, A::Event) -> Option<T>,
    options: Options,
    limits: Arc<Limits>,
    /// The memory of frames that have begun and not ended.
    unfinished: Arc<Memory>,
    dispatch: Dispatch,
    peers: HashMap<PeerId, Peer>,
    /// The peers by their numbers.
    handles: Vec<Option<PeerId>>,
    /// Peers without a link and their numbers, which the engine uses for scores and backoffs.
    /// Oldest first.
    departed: IndexMap<PeerId, Handle>,
    /// Addresses from the signed records of recommended peers, kept until they are dialled.
    recommended: BTreeMap<PeerId, Vec<Multiaddr>>,
    /// Links that may have room for copies.
    ready: Vec<Handle>,
    /// The limit over all links, with one order over them.
    uplink: Option<Uplink>,
    /// Whether a link without a meter was reported.
    has_warned: bool,
    actions: VecDeque<ToSwarm<T, ToHandler>>,
    traffic: Traffic,
    timer: Delay,
    timer_at: Option<Instant>,
    #[cfg(feature = "metrics")]
    pub(crate) export: Option<crate::metrics::Export>,
}

/// The reason why a topic was not joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// The filter of the configuration excludes the topic, so that no peer would count as subscribed.
    #[error("the filter of subscriptions does not allow the topic {0:?}")]
    NotAllowed(Topic),
}

/// Maximum number of recommended peers whose addresses are kept.
const RECOMMENDED_MAX: usize = 256;

/// Maximum number of remembered peers without a link. To have a bad score forgotten, an attacker
/// needs as many identities. The number is small enough that a search costs little compared with a
/// handshake.
const DEPARTED_MAX: usize = 1024;

impl Behaviour {
    /// Creates a behaviour for the identity of this key pair, which signs messages if the
    /// configuration requires it.
    ///
    /// # Errors
    /// A value of the configuration is out of range, or the options do not agree with it.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    pub fn new(keypair: &Keypair, mut config: Config, options: Options) -> Result<Self, ConfigError> {
        if config.authenticity.policy.signs() {
            config.authenticity.signer.get_or_insert_with(|| Hook(Arc::new(KeySigner::new(keypair))));
            config.authenticity.verifier.get_or_insert_with(|| Hook(Arc::new(KeyVerifier)));
        }
        options.check(&config)?;
        let outbox = Outbox::new(options.outbox_config(&config));
        let own = Libp2pTerms.identity(&keypair.public().to_peer_id());
        let engine = GossipSub::new(config, own)?;
        let rng =
            NodeRng::from_entropy(getrandom::fill).expect("the operating system provides random numbers");
        let driver = Driver::new(engine, outbox, rng);
        Ok(Self::around(driver, Arc::new(Libp2pTerms), options, Self::translate))
    }

    /// Joins a topic. Returns false if it was already joined.
    ///
    /// # Errors
    /// The filter of the configuration excludes the topic.
    pub fn subscribe(&mut self, topic: &Topic) -> Result<bool, SubscriptionError> {
        if !self.engine().config().subscriptions.filter.allows(topic) {
            return Err(SubscriptionError::NotAllowed(topic.clone()));
        }
        Ok(self.call(|engine, cx| engine.subscribe(topic, cx)))
    }

    /// Leaves a topic. Returns false if it was not joined.
    pub fn unsubscribe(&mut self, topic: &Topic) -> bool {
        self.call(|engine, cx| engine.unsubscribe(topic, cx))
    }

    /// Publishes one message. A topic without known subscribers is no error: [`Receipt::peers`] is 0.
    ///
    /// # Errors
    /// The message is not new, it or its frame is too long, or it cannot be signed or transformed; or
    /// [`Config::schedule_publish`] orders by what this node cannot know ([`ScheduleError`]).
    pub fn publish(
        &mut self,
        topic: impl Borrow<Topic>,
        data: impl Into<Bytes>,
    ) -> Result<Receipt, PublishError> {
        let (topic, data) = (topic.borrow(), data.into());
        let schedule = &self.engine().config().schedule_publish;
        if schedule.weight().is_some() || schedule.is_observed() {
            let schedule = schedule.clone();
            self.prepare(&schedule, std::slice::from_ref(topic))
                .map_err(|error| PublishError::Schedule(error.to_string()))?;
        }
        self.call(|engine, cx| engine.publish(topic, data, cx))
    }

    /// Publishes several messages together, in the order of a schedule.
    ///
    /// # Errors
    /// The schedule orders by what this node cannot know.
    pub fn publish_batch(
        &mut self,
        messages: impl IntoIterator<Item = (Topic, Bytes)>,
        schedule: &Schedule,
    ) -> Result<BatchReceipt, ScheduleError> {
        let messages: Vec<(Topic, Bytes)> = messages.into_iter().collect();
        let topics: Vec<Topic> = messages.iter().map(|(topic, _)| topic.clone()).collect();
        self.prepare(schedule, &topics)?;
        Ok(self.call(|engine, cx| engine.publish_batch(messages, schedule, cx)))
    }

    /// Checks that this node knows what a schedule orders by, and brings weights up to date.
    fn prepare(&mut self, schedule: &Schedule, topics: &[Topic]) -> Result<(), ScheduleError> {
        if schedule.is_observed() && self.driver.outbox().observers() == 0 {
            let configured = self.engine().observers().len();
            return Err(ScheduleError::NotObserved { configured });
        }
        match schedule.weight() {
            Some(weight @ (Weight::Latency | Weight::Bandwidth)) => self.measure(weight, topics),
            Some(Weight::Score) | None => Ok(()),
        }
    }

    /// Replaces [`Config::observers`]: peers that get no messages from this node, and whose
    /// announcements count for [`FeedbackSource::Observers`]. An observer names this node in
    /// [`Config::report_to`].
    pub fn set_observers<'a>(&mut self, observers: impl IntoIterator<Item = &'a PeerId>) {
        let observers: Vec<_> = observers.into_iter().map(|peer| self.terms.identity(peer)).collect();
        self.call(|engine, cx| engine.set_observers(observers, cx));
    }

    /// Reports the verdict on a message of [`Event::NeedsValidation`]. Returns false if no such message
    /// waits: it has its verdict, or its time is over.
    pub fn report_validation(&mut self, id: &MessageId, acceptance: Acceptance) -> bool {
        self.call(|engine, cx| engine.report_validation(id, acceptance, cx))
    }

    /// Adds the parts that the application has to a group, and requests the others if the configuration
    /// says so for the topic. Returns the number of parts that are still missing.
    ///
    /// # Errors
    /// Those of [`GossipSub::provide`].
    pub fn provide(&mut self, topic: &Topic, group: &Bytes, content: Content) -> Result<u32, ProvideError> {
        self.call(|engine, cx| engine.provide(topic, group, content, cx))
    }

    /// Reports the verdict on [`Event::Parts`]. Returns false if no such parts wait.
    pub fn report_parts(&mut self, ticket: u64, acceptance: Acceptance) -> bool {
        self.call(|engine, cx| engine.report_parts(ticket, acceptance, cx))
    }

    /// Keeps a link to a peer, and sends it every message ("explicit peering agreement", specification
    /// v1.1). The swarm must know its address, and the peer must do the same.
    pub fn add_explicit_peer(&mut self, peer: &PeerId) {
        let identity = self.terms.identity(peer);
        self.call(|engine, cx| engine.add_direct_peer(identity, cx));
    }

    /// Treats an explicit peer like others again. Its link stays open.
    pub fn remove_explicit_peer(&mut self, peer: &PeerId) {
        let identity = self.terms.identity(peer);
        self.call(|engine, cx| engine.remove_direct_peer(&identity, cx));
    }

    /// Drops messages that a peer sends or that it has written, from now on. Its connections stay open;
    /// a behaviour such as `libp2p-allow-block-list` closes them.
    pub fn blacklist_peer(&mut self, peer: &PeerId) {
        let identity = self.terms.identity(peer);
        self.call(|engine, _| engine.blacklist_peer(identity));
    }

    /// Accepts messages of a peer again. Returns false if it was not blacklisted.
    pub fn remove_blacklisted_peer(&mut self, peer: &PeerId) -> bool {
        let identity = self.terms.identity(peer);
        self.call(|engine, _| engine.remove_blacklisted_peer(&identity))
    }

    /// Sets the application's score of a peer (P5). Returns false if there is no link to it or scores are
    /// off.
    pub fn set_application_score(&mut self, peer: &PeerId, score: f64) -> bool {
        let Some(handle) = self.handle(peer) else { return false };
        self.call(|engine, _| engine.set_app_score(handle, score));
        self.engine().config().peer_score.is_some()
    }

    /// Sets the parameters with which a topic counts in scores, in place of those of the configuration.
    ///
    /// # Errors
    /// Scores are off, or a value is out of range.
    pub fn set_topic_params(&mut self, topic: &Topic, params: TopicScoreParams) -> Result<(), ConfigError> {
        self.call(|engine, _| engine.set_topic_params(topic, params))
    }

    /// Returns the parameters with which a topic counts in scores.
    pub fn topic_params(&self, topic: &Topic) -> Option<&TopicScoreParams> {
        self.engine().topic_params(topic)
    }

    /// Returns the score of a peer; `None` if there is no link to it or scores are off.
    pub fn peer_score(&self, peer: &PeerId) -> Option<f64> {
        let handle = self.handle(peer).filter(|_| self.engine().config().peer_score.is_some())?;
        Some(self.engine().peer_score(handle))
    }

    /// Returns the joined topics.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.engine().subscriptions()
    }

    /// Returns the peers with a link, each with the topics that it has joined.
    pub fn all_peers(&self) -> impl Iterator<Item = (PeerId, Vec<&Topic>)> {
        let engine = self.engine();
        engine.peers().iter().filter_map(|handle| Some((self.peer_id(*handle)?, engine.topics_of(*handle))))
    }

    /// Returns the protocol of the link to each peer, as the engine distinguishes them.
    pub fn peer_protocols(&self) -> impl Iterator<Item = (PeerId, Protocol)> {
        let engine = self.engine();
        let protocol = |handle: &Handle| Some((self.peer_id(*handle)?, engine.protocol_of(*handle)?));
        engine.peers().iter().filter_map(protocol)
    }

    /// Sets the signed record of a peer with a link, which identify provides
    /// ([`Info::signed_peer_record`](https://docs.rs/libp2p-identify/latest/libp2p_identify/struct.Info.html)).
    /// Peer exchange passes it on, so that a pruned peer learns an address. Returns false if the
    /// record is not signed by its own peer, or there is no link.
    pub fn set_signed_record(&mut self, record: &SignedEnvelope) -> bool {
        let Ok(about) = PeerRecord::from_signed_envelope(record.clone()) else { return false };
        let Some(handle) = self.handle(&about.peer_id()) else { return false };
        let record = record.clone().into_protobuf_encoding();
        self.call(|engine, _| engine.set_signed_record(handle, record.into()));
        true
    }

    /// Returns the members of all meshes, each once.
    pub fn all_mesh_peers(&self) -> BTreeSet<PeerId> {
        self.topics().flat_map(|topic| self.mesh_peers(topic)).collect()
    }

    /// Returns the members of a topic's mesh.
    pub fn mesh_peers(&self, topic: &Topic) -> Vec<PeerId> {
        self.engine().mesh_peers(topic).iter().filter_map(|handle| self.peer_id(*handle)).collect()
    }

    fn translate(&mut self, event: samara_gossipsub::Event) -> Option<Event> {
        use samara_gossipsub::Event as Engine;
        Some(match event {
            Engine::Message { id, key, topic, message, from } => {
                let from = from.and_then(|from| self.peer_id(from));
                Event::Message { id, key, topic, message, from }
            }
            Engine::NeedsValidation { id, topic, message, from, .. } => {
                Event::NeedsValidation { id, topic, message, from: self.peer_id(from)? }
            }
            Engine::Group { topic, group, from } => Event::Group { topic, group, from: self.peer_id(from)? },
            Engine::Parts { ticket, topic, group, from, header, parts } => match self.peer_id(from) {
                Some(from) => Event::Parts { ticket, topic, group, from, header, parts },
                None => {
                    // The parts can be asked for elsewhere.
                    self.report_parts(ticket, Acceptance::Ignore);
                    return None;
                }
            },
            Engine::Duplicate { key, from } => Event::Duplicate { key, from: self.peer_id(from)? },
            // The behaviour never publishes through commands.
            Engine::Published(_) => return None,
            Engine::Subscription { peer, topic, joined } => {
                Event::Subscription { peer: self.peer_id(peer)?, topic, joined }
            }
            Engine::PeerExchanged { identity, signed_record, .. } => {
                self.recommend(self.terms.peer(&identity)?, &signed_record?);
                return None;
            }
            Engine::Lost(lost) => Event::Lost(lost),
            Engine::Trace(trace) => {
                let peer = trace.peer().and_then(|peer| self.peer_id(peer));
                Event::Trace { trace, peer }
            }
        })
    }

    /// Stores the addresses of a recommended peer if the peer itself signed them.
    fn recommend(&mut self, peer: PeerId, signed_record: &[u8]) {
        let record = SignedEnvelope::from_protobuf_encoding(signed_record)
            .ok()
            .and_then(|envelope| PeerRecord::from_signed_envelope(envelope).ok());
        match record {
            Some(record) if record.peer_id() == peer => {
                if self.recommended.len() >= RECOMMENDED_MAX {
                    self.recommended.pop_first();
                }
                self.recommended.insert(peer, record.addresses().to_vec());
            }
            _ => tracing::debug!(%peer, "ignored a recommended peer whose record it has not signed"),
        }
    }
}

impl<A: WithGossipSub, T: From<LinkEvent>> Behaviour<A, T> {
    /// Puts an engine, or an application around it, into a swarm. The driver owns it and has its clock;
    /// `report` returns what the behaviour reports of its events.
    pub fn around(
        mut driver: Driver<A>,
        terms: Arc<dyn Terms>,
        options: Options,
        report: fn(&mut Self, A::Event) -> Option<T>,
    ) -> Self {
        let limits = driver.with(|engine, cx| {
            engine.with_gossipsub(cx, |engine, _| {
                engine.greet_streams();
                options.limits_with(engine.config())
            })
        });
        let dispatch = driver.outbox().config().dispatch;
        Self {
            driver,
            terms,
            report,
            limits: Arc::new(limits),
            unfinished: Memory::new(options.unfinished_bytes),
            uplink: options.uplink.filter(|_| dispatch == Dispatch::Node).map(Uplink::new),
            has_warned: false,
            options,
            dispatch,
            peers: HashMap::new(),
            handles: Vec::new(),
            departed: IndexMap::new(),
            recommended: BTreeMap::new(),
            ready: Vec::new(),
            actions: VecDeque::new(),
            traffic: Traffic::default(),
            timer: Delay::new(std::time::Duration::ZERO),
            timer_at: None,
            #[cfg(feature = "metrics")]
            export: None,
        }
    }

    /// Passes a command to the application.
    pub fn command(&mut self, command: A::Command) {
        self.driver.input(Input::Command(command));
        self.after_call();
    }

    /// Calls a method of the GossipSub engine.
    pub(crate) fn gossip<R>(
        &mut self,
        call: impl FnOnce(&mut GossipSub, &mut samara_engine::Context<'_, RpcFrame, samara_gossipsub::Event>) -> R,
    ) -> R {
        self.driver.with(|engine, cx| engine.with_gossipsub(cx, call))
    }

    /// Calls a method of the GossipSub engine, and handles the results.
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut GossipSub, &mut samara_engine::Context<'_, RpcFrame, samara_gossipsub::Event>) -> R,
    ) -> R {
        let answer = self.gossip(call);
        self.after_call();
        answer
    }

    /// Handles the results of a call: events, link requests and copies.
    fn after_call(&mut self) {
        self.emit_events();
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Dial(identity) => match self.terms.peer(&identity) {
                    Some(peer) => {
                        let mut addresses = self.recommended.remove(&peer).unwrap_or_default();
                        addresses.extend(self.terms.addresses(&peer));
                        let opts = DialOpts::peer_id(peer)
                            .condition(PeerCondition::DisconnectedAndNotDialing)
                            .addresses(addresses)
                            .extend_addresses_through_behaviour()
                            .build();
                        self.actions.push_back(ToSwarm::Dial { opts });
                    }
                    None => self.driver.input(Input::DialFailed { identity }),
                },
                LinkRequest::Close(handle) => {
                    if let Some(peer_id) = self.peer_id(handle) {
                        let connection = CloseConnection::All;
                        self.actions.push_back(ToSwarm::CloseConnection { peer_id, connection });
                    }
                }
            }
        }
        self.drain();
    }

    fn emit_events(&mut self) {
        for event in self.driver.take_events() {
            if let Some(event) = (self.report)(self, event) {
                self.actions.push_back(ToSwarm::GenerateEvent(event));
            }
        }
    }

    fn emit(&mut self, event: LinkEvent) {
        self.actions.push_back(ToSwarm::GenerateEvent(event.into()));
    }

    /// Returns the number of entries that this behaviour keeps.
    pub fn sizes(&self) -> Sizes {
        let connections = || self.peers.values().flat_map(|peer| &peer.connections);
        Sizes {
            peers: self.peers.len(),
            connections: connections().count(),
            handles: self.handles.len(),
            recommended: self.recommended.len(),
            in_flight_bytes: connections().map(|connection| connection.in_flight_bytes).sum(),
            unfinished_bytes: self.unfinished.bytes(),
            actions: self.actions.len(),
        }
    }

    /// Returns the engine (topics, meshes, scores, metrics), or the application around it.
    pub fn engine(&self) -> &A {
        self.driver.engine()
    }

    /// Calls the application without an input, for what its runtime asks of it.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut A) -> R) -> R {
        self.driver.with(|application, _| call(application))
    }

    /// Returns the number of owed copies over all links.
    pub fn pending(&mut self) -> usize {
        self.driver.outbox().pending()
    }

    /// Returns the peers that are owed a copy of a message or for which one is in flight, once for
    /// each copy.
    pub fn owed_to(&mut self, message: MessageKey) -> Vec<PeerId> {
        let mut owed = Vec::new();
        let pending = self.driver.outbox().progress(message).is_some();
        for (at, peer) in self.handles.iter().enumerate() {
            let Some(peer) = *peer else { continue };
            if pending && self.driver.outbox().owes(Handle(at as u32), message) {
                owed.push(peer);
            }
            let connections = self.peers.get(&peer).into_iter().flat_map(|peer| &peer.connections);
            let on_their_way = connections.flat_map(|connection| &connection.in_flight);
            let copies = on_their_way.filter(|frame| frame.copy.is_some_and(|(key, _)| key == message));
            owed.extend(copies.map(|_| peer));
        }
        owed
    }

    /// Returns the number of copies owed to each peer or in flight to it. Peers without copies are
    /// omitted.
    pub fn owed_by_peer(&mut self) -> BTreeMap<PeerId, usize> {
        let mut owed = BTreeMap::new();
        for (handle, copies) in self.driver.outbox().pending_messages() {
            owed.extend(self.peer_id(handle).map(|peer| (peer, copies)));
        }
        for (peer, state) in &self.peers {
            let on_the_way = state.connections.iter().flat_map(|connection| &connection.in_flight);
            let copies = on_the_way.filter(|frame| frame.copy.is_some()).count();
            if copies > 0 {
                *owed.entry(*peer).or_default() += copies;
            }
        }
        owed
    }

    /// Returns the counters of copies in each lane, with the lane's name.
    pub fn counters(&mut self) -> ByLane {
        self.driver.outbox().by_lane()
    }

    /// Returns the traffic over all streams.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns the peer with this number in the engine.
    pub fn peer_id(&self, handle: Handle) -> Option<PeerId> {
        self.handles.get(handle.index()).copied().flatten()
    }

    /// Returns the engine's number of a peer whose link is up.
    pub fn handle(&self, peer: &PeerId) -> Option<Handle> {
        self.peers.get(peer)?.handle
    }
}

impl<A: WithGossipSub, T: From<LinkEvent> + Send + 'static> NetworkBehaviour for Behaviour<A, T>
where
    A: Send + 'static,
    A::Event: Send,
{
    type ConnectionHandler = Handler;
    type ToSwarm = T;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.connected(peer, id, Some(local), remote))
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        _role: Endpoint,
        _port: PortUse,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.connected(peer, id, None, remote))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionClosed(closed) => self.closed(closed.peer_id, closed.connection_id),
            // Another behaviour may have rejected a connection that this one accepted before.
            FromSwarm::ListenFailure(failure) => {
                if let Some(peer) = failure.peer_id {
                    self.closed(peer, failure.connection_id);
                }
            }
            FromSwarm::DialFailure(failure) => {
                let Some(peer) = failure.peer_id else { return };
                self.closed(peer, failure.connection_id);
                if !self.peers.contains_key(&peer) {
                    let identity = self.terms.identity(&peer);
                    self.driver.input(Input::DialFailed { identity });
                    self.after_call();
                }
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: FromHandler) {
        match event {
            FromHandler::Opened(number, protocol) if self.is_newest(&peer, id, number) => {
                self.live(peer, id, Happened::Opened(protocol));
            }
            FromHandler::Refused(number) if self.is_newest(&peer, id, number) => {
                self.live(peer, id, Happened::Refused);
            }
            // Another stream has been requested in the meantime.
            FromHandler::Opened(..) | FromHandler::Refused(_) => {}
            FromHandler::Broken(number) => self.broken(peer, id, number),
            FromHandler::TheirsOpened { protocol, is_late } => {
                self.live(peer, id, Happened::TheirsOpened { protocol, is_late });
            }
            FromHandler::TheirsEnded => self.live(peer, id, Happened::TheirsEnded),
            FromHandler::Written(count) => self.written(peer, id, count),
            FromHandler::Frame(frame, is_first) => {
                self.traffic.frames_down += 1;
                self.traffic.payload_bytes_down += frame.payload_len() as u64;
                self.traffic.control_bytes_down += (frame.encoded_len() - frame.payload_len()) as u64;
                if self.options.report_frames {
                    self.emit(LinkEvent::FrameReceived { peer, frame: frame.clone() });
                }
                if let Some(handle) = self.handle(&peer) {
                    if is_first {
                        self.gossip(|engine, cx| engine.stream_begins(handle, cx));
                    }
                    let frame = self.terms.recognise(frame);
                    self.driver.input(Input::Frame { peer: handle, frame });
                }
            }
            FromHandler::Malformed(error) => self.emit(LinkEvent::Malformed { peer, error }),
        }
        self.after_call();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<T, THandlerInEvent<Self>>> {
        self.driver.fire_timers();
        self.read_meters();
        self.after_call();
        #[cfg(feature = "metrics")]
        self.export_metrics();
        if let Some(action) = self.actions.pop_front() {
            return Poll::Ready(action);
        }
        let at = self.driver.next_deadline();
        if at != self.timer_at {
            self.timer_at = at;
            if let Some(at) = at {
                self.timer.reset(at.saturating_duration_since(Instant::now()));
            }
        }
        if at.is_some() && self.timer.poll_unpin(cx).is_ready() {
            // The timer fires at the next poll.
            self.timer_at = None;
            cx.waker().wake_by_ref();
        }
        self.poll_meters(cx);
        Poll::Pending
    }
}

impl<A: WithGossipSub, T> std::fmt::Debug for Behaviour<A, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behaviour").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}
