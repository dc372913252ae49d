//! Peer exchange (specification v1.1, "Peer exchange"), direct peers ("Explicit peering agreements") and dialling.

use samara_engine::{PeerId, PeerIdentity};

use super::mesh::{candidates, draw};
use super::{Cx, Event, GossipSub, Ignored};
use crate::ids::TopicIdx;
use crate::rpc::ExchangedPeer;

impl GossipSub {
    /// Peers to recommend to one that is pruned: subscribers that are not in disgrace.
    pub(super) fn recommended(
        &mut self,
        pruned: PeerId,
        topic: TopicIdx,
        cx: &mut Cx<'_>,
    ) -> Vec<ExchangedPeer> {
        let (state, peers, scores) = (self.topics.get(topic), &self.peers, &self.scores);
        let fit = |peer| peer != pruned && scores.score(peer) >= 0.0;
        let chosen = candidates(state, peers, self.config.prune_peers, cx.rng(), fit);
        let chosen = chosen.into_iter().filter_map(|peer| peers.get(peer));
        let recommend = |peer: &super::peers::Peer| ExchangedPeer {
            identity: peer.info.identity.as_bytes().to_vec().into(),
            signed_record: peer.signed_record.clone().map(|record| *record),
        };
        chosen.map(recommend).collect()
    }

    /// Dials some of the peers that another recommends.
    pub(super) fn receive_exchange(&mut self, from: PeerId, peers: &[ExchangedPeer], cx: &mut Cx<'_>) {
        if self.config.prune_peers == 0 || self.scores.score(from) < self.config.thresholds.accept_px {
            self.metrics.ignore(Ignored::ExchangeScore, peers.len() as u64);
            return;
        }
        let mut chosen: Vec<&ExchangedPeer> = peers.iter().collect();
        draw(&mut chosen, self.config.prune_peers, cx.rng());
        self.metrics.ignore(Ignored::ExchangeOverLimit, (peers.len() - chosen.len()) as u64);
        for peer in chosen {
            let identity = PeerIdentity::new(&peer.identity);
            let known = identity == self.identity
                || self.peers.find(&identity).is_some()
                || self.dialling.contains(&identity);
            if known {
                continue;
            }
            if self.dialling.len() >= self.config.pending_dials_max {
                self.metrics.ignore(Ignored::ExchangeOverLimit, 1);
                continue;
            }
            self.dialling.insert(identity.clone());
            self.metrics.exchange_dials += 1;
            let signed_record = peer.signed_record.clone();
            cx.emit(Event::PeerExchanged { from, identity: identity.clone(), signed_record });
            cx.dial(identity);
        }
    }

    /// Keeps a link to a peer from now on and sends it everything. The peer must do the same.
    pub fn add_direct_peer(&mut self, identity: PeerIdentity, cx: &mut Cx<'_>) {
        if !self.direct.insert(identity.clone()) {
            return;
        }
        match self.peers.find(&identity) {
            None => cx.dial(identity),
            Some(peer) => self.set_direct(peer, true, cx),
        }
    }

    /// Treats a direct peer like others again. Its link is left as it is.
    pub fn remove_direct_peer(&mut self, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        if self.direct.remove(identity)
            && let Some(peer) = self.peers.find(identity)
        {
            self.set_direct(peer, false, cx);
        }
    }

    /// Replaces [`Config::observers`](crate::Config::observers): peers that never get messages, but whose announcements count.
    pub fn set_observers(&mut self, observers: impl IntoIterator<Item = PeerIdentity>, cx: &mut Cx<'_>) {
        self.observers = observers.into_iter().collect();
        for at in 0..self.peers.connected().len() {
            let id = self.peers.connected()[at];
            let Some(peer) = self.peers.get_mut(id) else { continue };
            peer.observer = self.observers.contains(&peer.info.identity);
            if peer.observer {
                self.drop_from_meshes(id, cx);
            }
        }
    }

    /// Replaces [`Config::report_to`](crate::Config::report_to): peers that get an IDONTWANT for every message.
    pub fn set_report_to(&mut self, report_to: impl IntoIterator<Item = PeerIdentity>) {
        self.report_to = report_to.into_iter().collect();
        let peers = &self.peers;
        let named =
            |id: &PeerId| peers.get(*id).is_some_and(|peer| self.report_to.contains(&peer.info.identity));
        self.peers.reported_to = peers.connected().iter().copied().filter(named).collect();
    }

    fn set_direct(&mut self, id: PeerId, direct: bool, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.direct = direct;
        let always = direct || !peer.protocol.has_mesh();
        for topic in peer.topics.clone() {
            let state = self.topics.get_mut(topic);
            if always {
                state.always.insert(id);
            } else {
                state.always.remove(id);
            }
        }
        if direct {
            self.drop_from_meshes(id, cx);
        }
    }

    /// Prunes a peer from all meshes and fanouts: its role has changed.
    fn drop_from_meshes(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        for topic in self.topics.joined().to_vec() {
            if self.topics.get(topic).mesh.contains(id) {
                self.remove_from_mesh(id, topic, false, cx);
                let prune = self.make_prune(id, topic, false, false, cx);
                self.send_control(id, crate::rpc::Control { prune: vec![prune], ..Default::default() }, cx);
            }
        }
        for topic in self.topics.fanouts().to_vec() {
            self.topics.get_mut(topic).fanout.remove(id);
        }
    }

    /// Dials direct peers that are not connected.
    pub(super) fn connect_direct(&mut self, cx: &mut Cx<'_>) {
        for identity in &self.direct {
            if self.peers.find(identity).is_none() {
                cx.dial(identity.clone());
            }
        }
    }
}
