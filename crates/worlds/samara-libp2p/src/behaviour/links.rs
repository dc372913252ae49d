//! Links for the engine, and the copies that leave on them. `life` decides which connection carries them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{CloseConnection, ConnectionId, NotifyHandler, ToSwarm};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::outbox::{Dispatch, Outgoing, Room};
use samara_engine::{Frame, Input, MessageKey, PeerId as Handle, PeerInfo, Time};
use samara_gossipsub::WithGossipSub;
use samara_gossipsub::rpc::RpcFrame;

use super::life::{Happened, Life, Step};
use super::uplink::{Gauge, Uplink};
use super::{Behaviour, DEPARTED_MAX};
use crate::event::LinkEvent;
use crate::handler::{Handler, ToHandler};

pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// The number of the newest stream that was requested.
    pub(super) stream: u64,
    /// The frames of the stream that is being opened or is open. Dropping them closes the stream.
    pub(super) frames: Option<UnboundedSender<RpcFrame>>,
    /// Whether the stream carries frames. At most one does for each peer.
    pub(super) writable: bool,
    /// Frames in flight, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) in_flight_bytes: usize,
    /// The address of the peer as the swarm reports it.
    pub(super) remote: Multiaddr,
    /// The transport's report, if it has one.
    pub(super) gauge: Option<Gauge>,
}

impl Connection {
    /// Returns the number of copies of messages that are in flight.
    fn copies_in_flight(&self) -> usize {
        self.in_flight.iter().filter(|frame| frame.copy.is_some()).count()
    }

    /// Returns the rest of the budget, or one frame of any length if nothing is in flight.
    fn room(&self, budget: usize) -> Room {
        match self.in_flight.is_empty() {
            true => Room(budget.max(1) as u64),
            false => Room(budget.saturating_sub(self.in_flight_bytes) as u64),
        }
    }

    /// Hands a frame to the stream. `message` is its message and rank, if it is a copy of one.
    fn send(&mut self, frame: RpcFrame, len: usize, message: Option<(MessageKey, u32)>, report: bool) {
        self.in_flight.push_back(InFlight {
            len,
            payload: frame.payload_len(),
            copy: message,
            frame: report.then(|| frame.clone()),
        });
        self.in_flight_bytes += len;
        // Fails only if the stream has just ended. The following event then counts the copy as lost.
        if let Some(frames) = &self.frames {
            let _ = frames.unbounded_send(frame);
        }
    }
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) len: usize,
    pub(super) payload: usize,
    /// The message and the rank, if the frame is a copy of one.
    pub(super) copy: Option<(MessageKey, u32)>,
    /// The frame, if it will be reported.
    pub(super) frame: Option<RpcFrame>,
}

#[derive(Default)]
pub(super) struct Peer {
    /// The number of the peer in the engine, once the peer speaks one of the protocols.
    pub(super) handle: Option<Handle>,
    pub(super) connections: Vec<Connection>,
    pub(super) life: Life,
}

impl Peer {
    pub(super) fn active(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.writable)
    }

    /// Returns the room on the link for a copy that the limit over all links lets pass. With a
    /// meter, it is what would leave at once, and none if the limit is reached. In any case it is at
    /// most the rest of the budget, and without a limit (`None`) it is that rest.
    fn room(&self, budget: usize, is_full: Option<bool>) -> Room {
        let Some(connection) = self.writable() else { return Room::NONE };
        let room = connection.room(budget);
        match (&connection.gauge, is_full) {
            (None, _) | (_, None) => room,
            (Some(_), Some(true)) => Room::NONE,
            (Some(gauge), Some(false)) => gauge.room().min(room),
        }
    }

    pub(super) fn writable(&self) -> Option<&Connection> {
        self.connections.iter().find(|connection| connection.writable)
    }
}

impl<A: WithGossipSub, T: From<LinkEvent>> Behaviour<A, T> {
    /// Moves copies to links with room, in the order of the outbox.
    pub(super) fn drain(&mut self) {
        let now = self.driver.now();
        self.driver.outbox().take_touched(&mut self.ready);
        let budget = self.options.in_flight_bytes;
        if self.dispatch == Dispatch::Node {
            self.drain_in_one_order(now, budget);
            return;
        }
        while let Some(handle) = self.ready.pop() {
            while self.has_room(handle, budget) {
                let Some(copy) = self.driver.pop(|outbox| outbox.pop_for(now, handle)) else { break };
                self.hand_over(now, copy);
            }
            // A copy that leaves can release a copy for another link.
            if self.ready.is_empty() {
                self.driver.outbox().take_touched(&mut self.ready);
            }
        }
    }

    /// Moves copies in one order over all links with room, as far as the limit lets them pass.
    /// Urgent copies may exceed it.
    fn drain_in_one_order(&mut self, now: Time, budget: usize) {
        let has_meters = self.uplink.is_some();
        while has_meters && let Some(handle) = self.ready.pop() {
            while self.uplink.as_ref().is_some_and(Uplink::passes_urgent)
                && self.has_room(handle, budget)
                && let Some(copy) = self.driver.pop(|outbox| outbox.pop_urgent_for(now, handle))
            {
                self.hand_over(now, copy);
            }
            if self.ready.is_empty() {
                self.driver.outbox().take_touched(&mut self.ready);
            }
        }
        self.ready.clear();
        loop {
            let is_full = self.uplink.as_mut().map(|uplink| uplink.is_full(now));
            let (handles, peers) = (&self.handles, &self.peers);
            let is_foreign = |peer: &Peer| peer.writable().is_some_and(|link| link.gauge.is_none());
            if is_full == Some(true) && !peers.values().any(is_foreign) {
                // Spares a search over all copies that wait.
                return;
            }
            let room = |handle: Handle| {
                let peer = handles.get(handle.index()).copied().flatten();
                let peer = peer.and_then(|peer| peers.get(&peer));
                peer.map_or(Room::NONE, |peer| peer.room(budget, is_full))
            };
            let Some(copy) = self.driver.pop(|outbox| outbox.pop(now, room)) else { return };
            self.hand_over(now, copy);
        }
    }

    /// Returns true if a link takes a copy whatever the limit over all links.
    fn has_room(&self, handle: Handle, budget: usize) -> bool {
        let peer = self.peer_id(handle).and_then(|peer| self.peers.get(&peer));
        let connection = peer.and_then(Peer::writable);
        connection.is_some_and(|connection| connection.room(budget).is_some())
    }

    fn hand_over(&mut self, now: Time, copy: Outgoing<RpcFrame>) {
        let Some(peer_id) = self.peer_id(copy.peer) else { return };
        let connection = self.peers.get_mut(&peer_id).and_then(Peer::active);
        let Some(connection) = connection else { return };
        if let Some(uplink) = &mut self.uplink {
            uplink.note_handed(now, copy.peer, connection, copy.len as usize);
        } else if let Some(gauge) = &mut connection.gauge {
            gauge.refresh(now, connection.in_flight_bytes, self.driver.outbox(), copy.peer);
        }
        let message = copy.message.map(|key| (key, copy.rank));
        connection.send(copy.frame, copy.len as usize, message, self.options.report_frames);
    }

    pub(super) fn connected(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        local: Option<&Multiaddr>,
        remote: &Multiaddr,
    ) -> Handler {
        let is_outbound = local.is_none();
        let address = remote.iter().find_map(|part| match part {
            Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
            Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
            _ => None,
        });
        // All nodes of one machine, and all peers behind a proxy on it, share the loopback address.
        // It is no evidence of sybils (P6 of the score).
        let address = address.filter(|address| !address.is_loopback());
        let meter = self.options.meters.claim(&peer, local, remote);
        let connection = Connection {
            id,
            stream: 0,
            frames: None,
            writable: false,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            remote: remote.clone(),
            gauge: meter.map(Gauge::new),
        };
        self.peers.entry(peer).or_default().connections.push(connection);
        self.live(peer, id, Happened::Connected { is_outbound, address });
        let protocols = self.terms.protocols(&peer, is_outbound);
        Handler::new(
            protocols.unwrap_or_else(|| Arc::clone(&self.options.protocols)),
            Arc::clone(&self.limits),
            Arc::clone(&self.unfinished),
        )
    }

    /// Handles what happened on a connection, and carries out what follows from it.
    pub(super) fn live(&mut self, peer_id: PeerId, id: ConnectionId, happened: Happened) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        for step in peer.life.on(id, happened, Instant::now()) {
            match step {
                Step::Up(id, protocol) => self.link_up(peer_id, id, &protocol),
                Step::Down => self.link_down(peer_id),
                Step::Open(id) => {
                    let (sender, frames) = unbounded();
                    let Some(connection) = self.connection(&peer_id, id) else { continue };
                    connection.frames = Some(sender);
                    connection.stream += 1;
                    let event = ToHandler::Open(connection.stream, frames);
                    let handler = NotifyHandler::One(id);
                    self.actions.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
                }
                Step::Greet(id, protocol) => self.greet(peer_id, id, &protocol),
                Step::Finish(id) => {
                    if let Some(connection) = self.connection(&peer_id, id) {
                        connection.writable = false;
                        connection.frames = None;
                    }
                }
                Step::Heard(is_heard) => {
                    if let Some(handle) = self.handle(&peer_id) {
                        self.gossip(|engine, cx| engine.set_heard(handle, is_heard, cx));
                    }
                }
                Step::Repeat => {
                    // go-libp2p-pubsub forgets the topics of a peer when its own stream to it ends
                    // (`handleDeadPeers`), although the other stream stays open.
                    if let Some(handle) = self.handle(&peer_id) {
                        self.gossip(|engine, _| engine.stream_broke(handle));
                    }
                }
                Step::GiveUp(id) => {
                    self.emit(LinkEvent::GaveUp { peer: peer_id });
                    let connection = CloseConnection::One(id);
                    self.actions.push_back(ToSwarm::CloseConnection { peer_id, connection });
                }
                Step::NotSupported => self.emit(LinkEvent::NotSupported { peer: peer_id }),
            }
        }
        // A link has the address of the connection with the frames. The peer counts at all of them.
        if let (Some(peer), Some(handle)) = (self.peers.get(&peer_id), self.handle(&peer_id)) {
            let addresses = peer.life.addresses();
            self.gossip(|engine, _| engine.set_addresses(handle, addresses));
        }
    }

    /// Begins a stream: the frames of the greeting leave first.
    fn greet(&mut self, peer_id: PeerId, id: ConnectionId, protocol: &StreamProtocol) {
        let Some(handle) = self.handle(&peer_id) else { return };
        let Some(info) = self.info(&peer_id, id, protocol) else { return };
        let greeting = self.gossip(|engine, cx| engine.greeting(handle, info, cx)).into_iter();
        let greeting: Vec<_> = greeting.filter_map(|frame| self.driver.leaving(handle, frame)).collect();
        let report = self.options.report_frames;
        let Some(connection) = self.connection(&peer_id, id) else { return };
        connection.writable = true;
        self.meter_up(peer_id, handle);
        let Some(connection) = self.connection(&peer_id, id) else { return };
        for frame in greeting {
            let len = frame.encoded_len();
            connection.send(frame, len, None, report);
        }
        self.ready.push(handle);
    }

    fn info(&self, peer_id: &PeerId, id: ConnectionId, protocol: &StreamProtocol) -> Option<PeerInfo> {
        let (outbound, address) = self.peers.get(peer_id)?.life.origin(id);
        let protocol = protocol.as_ref().into();
        Some(PeerInfo { identity: self.terms.identity(peer_id), outbound, address, protocol })
    }

    pub(super) fn closed(&mut self, peer_id: PeerId, id: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(gone) = peer.connections.iter_mut().find(|connection| connection.id == id) else { return };
        gone.writable = false;
        let cut = gone.copies_in_flight();
        // The link goes down with the last connection.
        self.live(peer_id, id, Happened::Closed);
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        peer.connections.retain(|connection| connection.id != id);
        if peer.life.is_over() {
            self.peers.remove(&peer_id);
        } else {
            self.report_cut(peer_id, cut);
            self.ready.extend(self.handle(&peer_id));
        }
        self.after_call();
    }

    fn link_down(&mut self, peer_id: PeerId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(handle) = peer.handle.take() else { return };
        let in_flight: usize = peer.connections.iter().map(Connection::copies_in_flight).sum();
        let owed = self.driver.outbox().link_down(handle);
        self.meter_down(handle);
        self.driver.input(Input::LinkDown { peer: handle });
        // Must happen while the number still belongs to this peer.
        self.emit_events();
        self.handles[handle.index()] = None;
        self.departed.insert(peer_id, handle);
        self.emit(LinkEvent::Down { peer: peer_id, lost_copies: owed + in_flight });
    }

    fn report_cut(&mut self, peer: PeerId, copies: usize) {
        if copies > 0 {
            self.emit(LinkEvent::Cut { peer, copies });
        }
    }

    fn link_up(&mut self, peer_id: PeerId, id: ConnectionId, protocol: &StreamProtocol) {
        let Some(info) = self.info(&peer_id, id, protocol) else { return };
        let handle = self.number(&peer_id);
        self.handles[handle.index()] = Some(peer_id);
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.handle = Some(handle);
        }
        self.driver.outbox().link_up(handle);
        self.driver.input(Input::LinkUp { peer: handle, info });
        self.emit(LinkEvent::Up { peer: peer_id, protocol: protocol.clone() });
    }

    /// Returns the number of a peer whose link comes up: its earlier number if it was here before,
    /// and otherwise a new one or that of the longest departed peer.
    fn number(&mut self, peer: &PeerId) -> Handle {
        if let Some(known) = self.departed.shift_remove(peer) {
            return known;
        }
        if self.departed.len() >= DEPARTED_MAX
            && let Some((_, oldest)) = self.departed.shift_remove_index(0)
        {
            self.gossip(|engine, _| engine.forget_peer(oldest));
            self.driver.outbox().forget_weights(oldest);
            return oldest;
        }
        self.handles.push(None);
        Handle(self.handles.len() as u32 - 1)
    }

    pub(super) fn connection(&mut self, peer: &PeerId, id: ConnectionId) -> Option<&mut Connection> {
        self.peers.get_mut(peer)?.connections.iter_mut().find(|connection| connection.id == id)
    }

    /// Handles frames that a stream has written.
    pub(super) fn written(&mut self, peer_id: PeerId, id: ConnectionId, count: usize) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let handle = peer.handle;
        let Some(connection) = peer.connections.iter_mut().find(|connection| connection.id == id) else {
            return;
        };
        for _ in 0..count {
            let Some(InFlight { len, payload, copy, frame }) = connection.in_flight.pop_front() else {
                break;
            };
            connection.in_flight_bytes -= len;
            self.traffic.frames_up += 1;
            self.traffic.payload_bytes_up += payload as u64;
            self.traffic.control_bytes_up += len.saturating_sub(payload) as u64;
            if let Some(frame) = frame {
                let sent = LinkEvent::FrameSent { peer: peer_id, frame };
                self.actions.push_back(ToSwarm::GenerateEvent(sent.into()));
            }
            if let Some((key, rank)) = copy.filter(|_| self.options.report_sent) {
                let sent = LinkEvent::Sent { key, peer: peer_id, rank };
                self.actions.push_back(ToSwarm::GenerateEvent(sent.into()));
            }
        }
        self.ready.extend(handle);
    }

    /// Returns true if no stream was requested after this one.
    pub(super) fn is_newest(&mut self, peer: &PeerId, id: ConnectionId, stream: u64) -> bool {
        self.connection(peer, id).is_some_and(|connection| connection.stream == stream)
    }

    /// Handles a stream that broke with the frames in flight into it. Its successor has none yet.
    pub(super) fn broken(&mut self, peer_id: PeerId, id: ConnectionId, stream: u64) {
        let Some(connection) = self.connection(&peer_id, id) else { return };
        let cut = connection.copies_in_flight();
        connection.in_flight.clear();
        connection.in_flight_bytes = 0;
        connection.writable = false;
        let is_newest = connection.stream == stream;
        self.report_cut(peer_id, cut);
        if is_newest {
            self.live(peer_id, id, Happened::Broken);
        }
    }
}
