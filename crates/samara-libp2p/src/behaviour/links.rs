//! Connections, the links that they form for the engine, and the copies that leave on them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{ConnectionId, ToSwarm};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::outbox::{Dispatch, Outgoing, Room};
use samara_engine::{Frame, Input, MessageKey, PeerId as Handle, PeerInfo};
use samara_gossipsub::rpc::RpcFrame;

use super::{Behaviour, DEPARTED_MAX};
use crate::event::Event;
use crate::handler::Handler;
use crate::identity::identity_of;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) frames: UnboundedSender<RpcFrame>,
    pub(super) outbound: bool,
    pub(super) address: Option<IpAddr>,
    pub(super) writable: bool,
    /// Frames in flight, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) in_flight_bytes: usize,
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

#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The number of the peer in the engine, once the peer speaks one of the protocols.
    pub(super) handle: Option<Handle>,
    pub(super) connections: Vec<Connection>,
}

impl Peer {
    pub(super) fn active(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.writable)
    }

    /// Returns the room on the link: the rest of the budget, or one frame of any length if nothing
    /// is in flight.
    pub(super) fn room(&self, budget: usize) -> Room {
        match self.connections.iter().find(|connection| connection.writable) {
            None => Room::NONE,
            Some(connection) if connection.in_flight.is_empty() => Room(budget.max(1) as u64),
            Some(connection) => Room(budget.saturating_sub(connection.in_flight_bytes) as u64),
        }
    }
}

impl Behaviour {
    /// Moves copies to links with room, in the order of the outbox.
    pub(super) fn drain(&mut self) {
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
            // A copy that leaves can release a copy for another link.
            if self.ready.is_empty() {
                self.driver.outbox().take_touched(&mut self.ready);
            }
        }
    }

    fn has_room(&self, handle: Handle, budget: usize) -> bool {
        let peer = self.peer_id(handle).and_then(|peer| self.peers.get(&peer));
        peer.is_some_and(|peer| peer.room(budget).is_some())
    }

    fn hand_over(&mut self, copy: Outgoing<RpcFrame>) {
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
        // Fails only if the connection has just closed. The following close event then counts the
        // copy as lost.
        let _ = connection.frames.unbounded_send(copy.frame);
    }

    pub(super) fn connected(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        remote: &Multiaddr,
        outbound: bool,
    ) -> Handler {
        let (frames, receiver) = unbounded();
        let address = remote.iter().find_map(|part| match part {
            Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
            Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
            _ => None,
        });
        // All nodes of one machine, and all peers behind a proxy on it, share the loopback address.
        // It is no evidence of sybils (P6 of the score).
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
        self.peers.entry(peer).or_default().connections.push(connection);
        Handler::new(Arc::clone(&self.options.protocols), Arc::clone(&self.limits), receiver)
    }

    pub(super) fn closed(&mut self, peer_id: PeerId, id: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(at) = peer.connections.iter().position(|connection| connection.id == id) else { return };
        let gone = peer.connections.swap_remove(at);
        let handle = peer.handle;
        let on_the_way = gone.in_flight.iter().filter(|frame| frame.copy.is_some()).count();
        if !peer.connections.is_empty() {
            // The link stays open over another connection.
            self.report_cut(peer_id, on_the_way);
            self.ready.extend(handle);
            self.after_call();
            return;
        }
        self.peers.remove(&peer_id);
        if let Some(handle) = handle {
            let owed = self.driver.outbox().link_down(handle);
            self.driver.input(Input::LinkDown { peer: handle });
            // Must happen while the number still belongs to this peer.
            self.emit_events();
            self.handles[handle.index()] = None;
            self.departed.insert(peer_id, handle);
            let lost_copies = owed + on_the_way;
            self.emit(Event::LinkDown { peer: peer_id, lost_copies });
        }
        self.after_call();
    }

    fn report_cut(&mut self, peer: PeerId, copies: usize) {
        if copies > 0 {
            self.emit(Event::Cut { peer, copies });
        }
    }

    pub(super) fn protocol_negotiated(
        &mut self,
        peer_id: PeerId,
        id: ConnectionId,
        protocol: StreamProtocol,
    ) {
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
        self.emit(Event::LinkUp { peer: peer_id, protocol });
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
            self.driver.with(|engine, _| engine.forget_peer(oldest));
            return oldest;
        }
        self.handles.push(None);
        Handle(self.handles.len() as u32 - 1)
    }

    pub(super) fn connection(&mut self, peer: &PeerId, id: ConnectionId) -> Option<&mut Connection> {
        self.peers.get_mut(peer)?.connections.iter_mut().find(|connection| connection.id == id)
    }

    pub(super) fn written(&mut self, peer_id: PeerId, id: ConnectionId, count: usize, arrived: bool) {
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
        self.report_cut(peer_id, cut);
    }
}
