//! Links come and go, and messages of nodes that are not in a view yet.

use bytes::Bytes;
use samara_engine::{PeerId, PeerIdentity};

use super::{Cx, Event, Ring};
use crate::{Payload, RingFrame};

impl Ring {
    pub(super) fn link_up(&mut self, peer: PeerId, identity: PeerIdentity, cx: &mut Cx<'_>) {
        self.peers.link_up(peer, identity.clone(), cx.now());
        self.send_heartbeat(peer, cx);
        let Some(current) = &mut self.current else { return };
        let Some(rank) = current.view.members.iter().position(|member| member.identity == identity) else {
            return;
        };
        current.peers[rank] = Some(peer);
        if let Some(hop) = current.hops.iter_mut().find(|hop| usize::from(hop.rank) == rank) {
            // It says where to go on.
            hop.peer = Some(peer);
            hop.is_waiting = true;
            hop.reset();
        }
        if self.flush.is_some() {
            self.ask_for_repair(cx);
        } else if current.is_parent(peer) {
            self.ask_to_resume(peer, cx);
        }
    }

    pub(super) fn link_down(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        self.peers.link_down(peer, cx.now());
        if self.has_left {
            return;
        }
        self.resumes.retain(|(other, _)| *other != peer);
        let Some(current) = &mut self.current else { return };
        if let Some(index) = current.hops.iter().position(|hop| hop.peer == Some(peer)) {
            let hop = &mut current.hops[index];
            hop.is_waiting = true;
            hop.reset();
            if let Some(flush) = &mut self.flush {
                flush.repair = flush.repair.take().filter(|repair| repair.hop != index);
            }
        }
        if current.rank_of(peer).is_some()
            && let Some(identity) = self.peers.get(peer).map(|state| state.identity.clone())
        {
            // Whether the member or the link has failed shows at once.
            self.peers.keep(&identity, cx.now(), cx.now() + self.config.membership.forget_after);
            cx.dial(identity);
        }
    }

    pub(super) fn dial_failed(&mut self, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        self.peers.dial_failed(identity, cx.now(), self.config.membership.redial);
        let Some(peer) = self.peers.id_of(identity).and_then(|id| self.peers.get_mut(id)) else { return };
        if !peer.is_up {
            peer.is_unreachable = true;
            self.report_suspects(cx);
            self.evaluate(cx);
        }
    }

    /// Forgets a peer, so that its number can go to another node. Returns false, and forgets nothing, if its link is up or it is a
    /// member of the view.
    pub fn forget_peer(&mut self, peer: PeerId) -> bool {
        let is_member = self.current.as_ref().is_some_and(|current| current.rank_of(peer).is_some());
        if is_member || self.peers.is_up(peer) {
            return false;
        }
        self.peers.remove(peer);
        self.early.retain(|(from, _)| *from != peer);
        self.early_bytes = self.early.iter().map(|(_, data)| data.weight()).sum();
        // What it proposed, and what was proposed to it, comes to nothing.
        if let Some(flush) = self.flush.as_mut().filter(|flush| flush.proposer == Some(peer)) {
            flush.proposer = None;
        }
        self.proposal.take_if(|proposal| proposal.has_participant(peer));
        true
    }

    // ---- before there is a view ----

    /// Sends a message to everybody, as a node does that is in no ring yet; it gets it itself too.
    pub(super) fn send_early(&mut self, message: Bytes, cx: &mut Cx<'_>) {
        let up: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| peer.is_up).map(|(id, _)| id).collect();
        for peer in up {
            self.send(peer, RingFrame::Early(message.clone()), cx);
        }
        self.deliver_early(self.me.clone(), message, cx);
    }

    pub(super) fn on_early(&mut self, peer: PeerId, message: &Bytes, cx: &mut Cx<'_>) {
        if let Some(origin) = self.peers.get(peer).and_then(|state| state.member()) {
            self.deliver_early(origin, message.clone(), cx);
        }
    }

    fn deliver_early(&mut self, origin: crate::Member, message: Bytes, cx: &mut Cx<'_>) {
        self.metrics.delivered += 1;
        self.metrics.delivered_bytes += message.len() as u64;
        let payload = Payload::from(message);
        self.outlet.emit(Event::Delivered { view: None, origin, rank: 0, number: 0, payload }, cx);
    }
}
