//! What the swarm asks and tells.

use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandlerInEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};
use samara_engine::{Frame, Input};

use super::Behaviour;
use crate::event::Event;
use crate::handler::{FromHandler, Handler};
use crate::identity::identity_of;

impl Behaviour {
    pub(super) fn set_timer(&mut self, cx: &mut Context<'_>) {
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
