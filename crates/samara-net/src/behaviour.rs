//! GossipSub for a libp2p swarm.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::mpsc::unbounded;
use futures_timer::Delay;
use indexmap::IndexMap;
use libp2p::core::transport::PortUse;
use libp2p::core::{Endpoint, PeerRecord, SignedEnvelope};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandlerInEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::outbox::{Copy, Counters, Dispatch, Lane, Room, Schedule};
use samara_engine::{
    Frame, Input, LinkRequest, MessageKey, NodeRng, Outbox, PeerId as Handle, PeerInfo, Purpose, Time,
};
use samara_gossipsub::config::{ConfigError, SignerHook, VerifierHook};
use samara_gossipsub::rpc::{MessageId, RpcFrame, Topic};
use samara_gossipsub::{Acceptance, BatchReceipt, Config, GossipSub, PublishError, Receipt};

use crate::driver::Driver;
use crate::event::{Event, Traffic};
use crate::handler::{FromHandler, Handler};
use crate::identity::{KeySigner, KeyVerifier, identity_of, peer_id_of};
use crate::options::Options;
use crate::peer::{Connection, InFlight, Peer, Sizes};

/// A [`NetworkBehaviour`] around the GossipSub engine.
///
/// Peers are neighbours as soon as they are connected and speak one of the [protocols](Options::protocols); whom to connect
/// to is for other behaviours to decide, except for direct peers and those that peer exchange recommends.
pub struct Behaviour {
    driver: Driver<GossipSub>,
    options: Options,
    protocols: Arc<[StreamProtocol]>,
    limits: Arc<samara_gossipsub::wire::Limits>,
    dispatch: Dispatch,
    peers: HashMap<PeerId, Peer>,
    /// Who has which number.
    handles: Vec<Option<PeerId>>,
    /// Peers whose link is gone, with their numbers: the engine remembers scores and backoffs by them. The oldest first.
    departed: IndexMap<PeerId, Handle>,
    /// Addresses from signed records of recommended peers, until they are dialled.
    recommended: BTreeMap<PeerId, Vec<Multiaddr>>,
    /// Links to offer room to.
    ready: Vec<Handle>,
    actions: VecDeque<ToSwarm<Event, std::convert::Infallible>>,
    traffic: Traffic,
    timer: Delay,
    timer_at: Option<Instant>,
}

/// Recommended peers whose addresses are kept at most.
const RECOMMENDED_MAX: usize = 256;

/// Peers without a link that are remembered at most. Enough that whoever wants a bad score forgotten needs as many identities, and
/// little enough that searching them costs nothing beside a handshake.
const DEPARTED_MAX: usize = 1024;

impl Behaviour {
    /// A behaviour for the identity of this key pair, which signs where the configuration asks for it.
    ///
    /// # Errors
    /// A value of the configuration is not possible.
    pub fn new(keypair: &Keypair, mut config: Config, options: Options) -> Result<Self, ConfigError> {
        if config.authenticity.policy.signs() {
            let verifier = || VerifierHook::new(KeyVerifier);
            config.authenticity.signer.get_or_insert_with(|| SignerHook::new(KeySigner::new(keypair)));
            config.authenticity.verifier.get_or_insert_with(verifier);
        }
        let outbox = Outbox::new(config.outbox_config());
        let dispatch = config.sending.dispatch;
        let engine = GossipSub::new(config, identity_of(&keypair.public().to_peer_id()))?;
        // The hasher of the standard library is seeded by the operating system.
        let seed = std::hash::RandomState::new().build_hasher().finish();
        Ok(Self {
            driver: Driver::new(engine, outbox, NodeRng::new(seed, 0, Purpose::Engine)),
            protocols: Arc::clone(&options.protocols),
            limits: Arc::new(options.limits.clone()),
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
        })
    }

    /// Joins a topic.
    pub fn subscribe(&mut self, topic: &Topic) {
        self.call(|engine, cx| engine.subscribe(topic, cx));
    }

    /// Leaves a topic.
    pub fn unsubscribe(&mut self, topic: &Topic) {
        self.call(|engine, cx| engine.unsubscribe(topic, cx));
    }

    /// Publishes one message.
    ///
    /// # Errors
    /// It is not new, too long, or cannot be signed.
    pub fn publish(&mut self, topic: &Topic, data: impl Into<Bytes>) -> Result<Receipt, PublishError> {
        let data = data.into();
        self.call(|engine, cx| engine.publish(topic, data, cx))
    }

    /// Publishes messages that belong together, in the order of a schedule.
    pub fn publish_batch(
        &mut self,
        messages: impl IntoIterator<Item = (Topic, Bytes)>,
        schedule: &Schedule,
    ) -> BatchReceipt {
        self.call(|engine, cx| engine.publish_batch(messages, schedule, cx))
    }

    /// Answers [`Event::NeedsValidation`].
    pub fn report_validation(&mut self, id: &MessageId, acceptance: Acceptance) {
        let id = id.clone();
        self.driver.input(Input::Command(samara_gossipsub::Command::ReportValidation { id, acceptance }));
        self.after_call();
    }

    /// Keeps a link to a peer, and sends it everything. Its address must be known to the swarm.
    pub fn add_direct_peer(&mut self, peer: &PeerId) {
        self.driver.input(Input::Command(samara_gossipsub::Command::AddDirectPeer(identity_of(peer))));
        self.after_call();
    }

    /// The signed record of a peer with a link, which identify brings
    /// ([`Info::signed_peer_record`](https://docs.rs/libp2p-identify/latest/libp2p_identify/struct.Info.html)): peer exchange
    /// passes it on, so that whoever is pruned knows an address. `false` if it is not about the one who signed it, or
    /// there is no link.
    pub fn set_signed_record(&mut self, record: &SignedEnvelope) -> bool {
        let Ok(about) = PeerRecord::from_signed_envelope(record.clone()) else { return false };
        let Some(handle) = self.handle(&about.peer_id()) else { return false };
        let record = record.clone().into_protobuf_encoding();
        self.call(|engine, _| engine.set_signed_record(handle, record.into()));
        true
    }

    /// How much is kept here.
    pub fn sizes(&self) -> Sizes {
        let connections = || self.peers.values().flat_map(|peer| &peer.connections);
        Sizes {
            peers: self.peers.len(),
            connections: connections().count(),
            handles: self.handles.len(),
            recommended: self.recommended.len(),
            in_flight_bytes: connections().map(|connection| connection.in_flight_bytes).sum(),
            actions: self.actions.len(),
        }
    }

    /// The engine: topics, meshes, scores, metrics.
    pub fn engine(&self) -> &GossipSub {
        self.driver.engine()
    }

    /// Copies that are owed, over all links.
    pub fn pending(&mut self) -> usize {
        self.driver.outbox().pending()
    }

    /// Who is owed a copy of a message still, and for whom one is on its way into a stream: once for each copy.
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

    /// How many copies of messages each peer is owed, or are on their way into its stream. Peers without any are left out.
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

    /// What became of the copies of each lane, by its name.
    pub fn counters(&mut self) -> Vec<(&'static str, Counters)> {
        let outbox = self.driver.outbox();
        let lanes = outbox.config().lanes.iter().zip(0..);
        lanes.map(|(lane, at)| (lane.name, *outbox.counters(Lane(at)))).collect()
    }

    /// What went over the streams.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Who has a number in the engine.
    pub fn peer_id(&self, handle: Handle) -> Option<PeerId> {
        self.handles.get(handle.index()).copied().flatten()
    }

    /// The engine's number of a peer whose link is up.
    pub fn handle(&self, peer: &PeerId) -> Option<Handle> {
        self.peers.get(peer)?.handle
    }

    /// The members of a topic's mesh.
    pub fn mesh_peers(&self, topic: &Topic) -> Vec<PeerId> {
        self.engine().mesh_peers(topic).iter().filter_map(|handle| self.peer_id(*handle)).collect()
    }

    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut GossipSub, &mut samara_engine::Context<'_, RpcFrame, samara_gossipsub::Event>) -> R,
    ) -> R {
        let answer = self.driver.with(call);
        self.after_call();
        answer
    }

    /// Takes what a call has left: events, links, copies.
    fn after_call(&mut self) {
        self.tell_events();
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Dial(identity) => match peer_id_of(&identity) {
                    Some(peer) => {
                        let addresses = self.recommended.remove(&peer).unwrap_or_default();
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

    fn tell_events(&mut self) {
        for event in self.driver.take_events() {
            if let Some(event) = self.translate(event) {
                self.actions.push_back(ToSwarm::GenerateEvent(event));
            }
        }
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
            Engine::Duplicate { key, from } => Event::Duplicate { key, from: self.peer_id(from)? },
            Engine::Published(receipt) => Event::Published(receipt),
            Engine::PeerSubscribed { peer, topic } => Event::Subscribed { peer: self.peer_id(peer)?, topic },
            Engine::PeerUnsubscribed { peer, topic } => {
                Event::Unsubscribed { peer: self.peer_id(peer)?, topic }
            }
            Engine::PeerExchanged { identity, signed_record, .. } => {
                self.recommend(peer_id_of(&identity)?, &signed_record?);
                return None;
            }
            Engine::Lost(lost) => Event::Lost(lost),
            Engine::Trace(trace) => {
                let peer = trace.peer().and_then(|peer| self.peer_id(peer));
                Event::Trace { trace, peer }
            }
        })
    }

    /// Keeps the addresses of a recommended peer, if they are its own word.
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
            _ => tracing::debug!(%peer, "the record of a recommended peer is not its own"),
        }
    }

    /// Hands copies to links with room, in the order of the outbox.
    fn drain(&mut self) {
        let now = self.driver.now();
        self.driver.outbox().take_touched(&mut self.ready);
        let budget = self.options.in_flight_bytes;
        if self.dispatch == Dispatch::Node {
            self.ready.clear();
            loop {
                let (handles, peers) = (&self.handles, &self.peers);
                let room = |handle: Handle| {
                    let peer = handles.get(handle.index()).copied().flatten();
                    peer.and_then(|peer| peers.get(&peer)).map_or(Room::NONE, |peer| peer.room(budget))
                };
                let Some(copy) = self.driver.outbox().pop(now, room) else { return };
                self.hand_over(copy);
            }
        }
        while let Some(handle) = self.ready.pop() {
            while self.has_room(handle, budget) {
                let Some(copy) = self.driver.outbox().pop_for(now, handle) else { break };
                self.hand_over(copy);
            }
            // A copy that leaves can release one for another link.
            if self.ready.is_empty() {
                self.driver.outbox().take_touched(&mut self.ready);
            }
        }
    }

    fn has_room(&self, handle: Handle, budget: usize) -> bool {
        let peer = self.peer_id(handle).and_then(|peer| self.peers.get(&peer));
        peer.is_some_and(|peer| peer.room(budget).is_some())
    }

    fn hand_over(&mut self, copy: Copy<RpcFrame>) {
        let peer = self.peer_id(copy.peer).and_then(|peer| self.peers.get_mut(&peer));
        let Some(connection) = peer.and_then(Peer::active) else { return };
        let len = copy.len as usize;
        connection.in_flight.push_back(InFlight {
            len,
            payload: copy.frame.payload_len(),
            copy: copy.message.map(|key| (key, copy.rank)),
            frame: self.options.report_frames.then(|| copy.frame.clone()),
        });
        connection.in_flight_bytes += len;
        // Fails only if the connection has just closed, which is told right after: the copy then counts as lost there.
        let _ = connection.frames.unbounded_send(copy.frame);
    }

    fn connected(&mut self, peer: PeerId, id: ConnectionId, remote: &Multiaddr, outbound: bool) -> Handler {
        let (frames, receiver) = unbounded();
        let address = remote.iter().find_map(|part| match part {
            Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
            Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
            _ => None,
        });
        // All of a machine's own nodes, and whoever comes through a proxy on it, share the loopback address: it says nothing
        // about who is whose sybil (P6 of the score).
        let address = address.filter(|address| !address.is_loopback());
        let connection = Connection {
            id,
            frames,
            outbound,
            address,
            writable: false,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
        };
        self.peers
            .entry(peer)
            .or_insert_with(|| Peer { handle: None, connections: Vec::new() })
            .connections
            .push(connection);
        Handler::new(Arc::clone(&self.protocols), Arc::clone(&self.limits), receiver)
    }

    fn closed(&mut self, peer_id: PeerId, id: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(at) = peer.connections.iter().position(|connection| connection.id == id) else { return };
        let gone = peer.connections.swap_remove(at);
        let handle = peer.handle;
        let on_the_way = gone.in_flight.iter().filter(|frame| frame.copy.is_some()).count();
        if !peer.connections.is_empty() {
            // The link goes on over another connection.
            self.tell_cut(peer_id, on_the_way);
            self.ready.extend(handle);
            self.after_call();
            return;
        }
        self.peers.remove(&peer_id);
        if let Some(handle) = handle {
            let owed = self.driver.outbox().link_down(handle);
            self.driver.input(Input::LinkDown { peer: handle });
            // As long as it is known whose number that was.
            self.tell_events();
            self.handles[handle.index()] = None;
            self.departed.insert(peer_id, handle);
            let lost_copies = owed + on_the_way;
            self.actions.push_back(ToSwarm::GenerateEvent(Event::LinkDown { peer: peer_id, lost_copies }));
        }
        self.after_call();
    }

    fn tell_cut(&mut self, peer: PeerId, copies: usize) {
        if copies > 0 {
            self.actions.push_back(ToSwarm::GenerateEvent(Event::Cut { peer, copies }));
        }
    }

    fn speaks(&mut self, peer_id: PeerId, id: ConnectionId, protocol: StreamProtocol) {
        let Some(peer) = self.peers.get(&peer_id).filter(|peer| peer.handle.is_none()) else { return };
        let Some(connection) = peer.connections.iter().find(|connection| connection.id == id) else { return };
        let info = PeerInfo {
            identity: identity_of(&peer_id),
            outbound: connection.outbound,
            address: connection.address,
            protocol: protocol.as_ref().into(),
        };
        let handle = self.number(&peer_id);
        self.handles[handle.index()] = Some(peer_id);
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.handle = Some(handle);
        }
        self.driver.outbox().link_up(handle);
        self.driver.input(Input::LinkUp { peer: handle, info });
        self.actions.push_back(ToSwarm::GenerateEvent(Event::LinkUp { peer: peer_id, protocol }));
    }

    /// The number of a peer whose link comes up: its own, if it was here before; else one that is new, or that of
    /// whoever is gone for longest.
    fn number(&mut self, peer: &PeerId) -> Handle {
        if let Some(known) = self.departed.shift_remove(peer) {
            return known;
        }
        if self.departed.len() >= DEPARTED_MAX
            && let Some((_, oldest)) = self.departed.shift_remove_index(0)
        {
            self.driver.with(|engine, _| engine.forget_peer(oldest));
            return oldest;
        }
        self.handles.push(None);
        Handle(self.handles.len() as u32 - 1)
    }

    fn written(&mut self, peer_id: PeerId, id: ConnectionId, count: usize, arrived: bool) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let handle = peer.handle;
        let Some(connection) = peer.connections.iter_mut().find(|connection| connection.id == id) else {
            return;
        };
        let mut cut = 0;
        for _ in 0..count {
            let Some(InFlight { len, payload, copy, frame }) = connection.in_flight.pop_front() else {
                break;
            };
            connection.in_flight_bytes -= len;
            if !arrived {
                cut += usize::from(copy.is_some());
                continue;
            }
            self.traffic.payload_up += payload as u64;
            self.traffic.control_up += len.saturating_sub(payload) as u64;
            if let Some(frame) = frame {
                self.actions.push_back(ToSwarm::GenerateEvent(Event::FrameSent { peer: peer_id, frame }));
            }
            if let Some((key, rank)) = copy.filter(|_| self.options.report_sent) {
                self.actions.push_back(ToSwarm::GenerateEvent(Event::Sent { key, peer: peer_id, rank }));
            }
        }
        self.ready.extend(handle);
        self.tell_cut(peer_id, cut);
    }

    fn set_timer(&mut self, cx: &mut Context<'_>) {
        let at = self.driver.next_deadline();
        if at != self.timer_at {
            self.timer_at = at;
            if let Some(at) = at {
                self.timer.reset(at.saturating_duration_since(Instant::now()));
            }
        }
        if at.is_some() && self.timer.poll_unpin(cx).is_ready() {
            // It fires when this is polled again.
            self.timer_at = None;
            cx.waker().wake_by_ref();
        }
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.connected(peer, id, remote, false))
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        _role: Endpoint,
        _port: PortUse,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.connected(peer, id, remote, true))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionClosed(closed) => self.closed(closed.peer_id, closed.connection_id),
            // Another behaviour may have refused a connection that this one was asked for before.
            FromSwarm::ListenFailure(failure) => {
                if let Some(peer) = failure.peer_id {
                    self.closed(peer, failure.connection_id);
                }
            }
            FromSwarm::DialFailure(failure) => {
                if let Some(peer) = failure.peer_id {
                    self.closed(peer, failure.connection_id);
                }
                if let Some(peer) = failure.peer_id.filter(|peer| !self.peers.contains_key(peer)) {
                    self.driver.input(Input::DialFailed { identity: identity_of(&peer) });
                    self.after_call();
                }
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: FromHandler) {
        match event {
            FromHandler::Protocol(protocol) => self.speaks(peer, id, protocol),
            FromHandler::NotSupported => {
                self.actions.push_back(ToSwarm::GenerateEvent(Event::NotSupported { peer }));
            }
            FromHandler::Writable => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    if let Some(connection) = known.connections.iter_mut().find(|known| known.id == id) {
                        connection.writable = true;
                    }
                    self.ready.extend(known.handle);
                }
            }
            FromHandler::Broken(count) => {
                if let Some(known) = self.peers.get_mut(&peer)
                    && let Some(connection) = known.connections.iter_mut().find(|known| known.id == id)
                {
                    connection.writable = false;
                }
                self.written(peer, id, count, false);
                if let Some(handle) = self.handle(&peer) {
                    self.driver.with(|engine, _| engine.stream_broke(handle));
                }
            }
            FromHandler::GaveUp => {
                let connection = CloseConnection::One(id);
                self.actions.push_back(ToSwarm::CloseConnection { peer_id: peer, connection });
            }
            FromHandler::Written(count) => self.written(peer, id, count, true),
            FromHandler::Frame(frame) => {
                self.traffic.payload_down += frame.payload_len() as u64;
                self.traffic.control_down += (frame.encoded_len() - frame.payload_len()) as u64;
                if self.options.report_frames {
                    let frame = frame.clone();
                    self.actions.push_back(ToSwarm::GenerateEvent(Event::FrameReceived { peer, frame }));
                }
                if let Some(handle) = self.handle(&peer) {
                    self.driver.input(Input::Frame { peer: handle, frame });
                }
            }
            FromHandler::Malformed(error) => {
                self.actions.push_back(ToSwarm::GenerateEvent(Event::Malformed { peer, error }));
            }
        }
        self.after_call();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Event, THandlerInEvent<Self>>> {
        self.driver.fire_timers();
        self.after_call();
        if let Some(action) = self.actions.pop_front() {
            return Poll::Ready(action);
        }
        self.set_timer(cx);
        Poll::Pending
    }
}

impl std::fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let now: Time = self.driver.now();
        f.debug_struct("Behaviour")
            .field("now", &now)
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use libp2p::swarm::{ListenError, ListenFailure};

    use super::*;

    /// A link comes up and goes down again. The number that it had.
    fn visit(behaviour: &mut Behaviour, peer: PeerId, number: usize) -> Handle {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        let id = ConnectionId::new_unchecked(number);
        behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
        behaviour.on_connection_handler_event(peer, id, FromHandler::Protocol(crate::PROTOCOLS[0].clone()));
        let handle = behaviour.handle(&peer).unwrap();
        assert_eq!(behaviour.peer_id(handle), Some(peer));
        behaviour.closed(peer, id);
        handle
    }

    #[test]
    fn a_peer_that_comes_back_has_its_number_and_nobody_else_has_it() {
        let key = Keypair::generate_ed25519();
        let mut behaviour = Behaviour::new(&key, Config::spec(), Options::default()).unwrap();
        let (known, other) = (PeerId::random(), PeerId::random());
        let first = visit(&mut behaviour, known, 0);
        assert_ne!(visit(&mut behaviour, other, 1), first);
        assert_eq!(visit(&mut behaviour, known, 2), first);
    }

    #[test]
    fn numbers_of_those_that_are_gone_for_longest_are_used_again() {
        let key = Keypair::generate_ed25519();
        let mut config = Config::spec();
        config.peer_score.as_mut().unwrap().ip_colocation_weight = 0.0;
        let mut behaviour = Behaviour::new(&key, config, Options::default()).unwrap();
        let bad = visit(&mut behaviour, PeerId::random(), 0);
        behaviour.call(|engine, _| engine.set_app_score(bad, -5.0));
        assert!(behaviour.engine().peer_score(bad) < 0.0, "what is known of it outlives the link");
        for number in 1..DEPARTED_MAX {
            assert_ne!(visit(&mut behaviour, PeerId::random(), number), bad);
        }
        assert_eq!(visit(&mut behaviour, PeerId::random(), DEPARTED_MAX), bad);
        // Whoever has it now does not answer for the other.
        assert_eq!(behaviour.engine().peer_score(bad), 0.0);
        assert_eq!(behaviour.sizes().handles, DEPARTED_MAX);
    }

    /// Otherwise whoever is refused by a limit on connections would fill memory here.
    #[test]
    fn connections_that_others_refuse_leave_nothing_behind() {
        let key = Keypair::generate_ed25519();
        let mut behaviour = Behaviour::new(&key, Config::spec(), Options::default()).unwrap();
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        for number in 0..100 {
            let (id, peer) = (ConnectionId::new_unchecked(number), PeerId::random());
            behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
            assert_eq!(behaviour.peers.len(), 1);
            behaviour.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
                local_addr: &address,
                send_back_addr: &address,
                error: &ListenError::Aborted,
                connection_id: id,
                peer_id: Some(peer),
            }));
            assert!(behaviour.peers.is_empty());
        }
    }
}
