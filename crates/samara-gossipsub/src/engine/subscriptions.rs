//! Topics of this node and of its peers, and peers that come and go.

use samara_engine::{PeerId, PeerInfo};
use thin_vec::ThinVec;

use super::peers::{Counts, Peer, Protocol};
use super::{Cx, Event, GossipSub, Ignored, Trace};
use crate::ids::TopicIdx;
use crate::rpc::{SubOpts, Topic};

impl GossipSub {
    /// Joins a topic: tells all peers, and forms a mesh. `false` if it was joined already.
    pub fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_>) -> bool {
        self.subscribe_all(std::slice::from_ref(topic), cx) > 0
    }

    /// Joins several topics at once, with one announcement and one GRAFT to each peer. Returns how many were not joined
    /// before.
    pub fn subscribe_all(&mut self, topics: &[Topic], cx: &mut Cx<'_>) -> usize {
        let mut fresh = Vec::new();
        for name in topics {
            let topic = self.use_topic(name);
            if !self.topics.get(topic).joined {
                self.set_joined(topic, true);
                fresh.push(topic);
            }
        }
        if fresh.is_empty() {
            return 0;
        }
        self.announce_to_all(&fresh, cx);
        for topic in &fresh {
            self.join(*topic, cx);
        }
        self.flush(cx);
        fresh.len()
    }

    /// Leaves a topic: tells all peers, and dissolves the mesh. `false` if it was not joined.
    pub fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_>) -> bool {
        let Some(topic) = self.topics.find(topic) else { return false };
        if !self.topics.get(topic).joined {
            return false;
        }
        self.set_joined(topic, false);
        self.announce_to_all(&[topic], cx);
        self.leave(topic, cx);
        true
    }

    /// The number of a topic that this node uses itself.
    pub(super) fn use_topic(&mut self, name: &Topic) -> TopicIdx {
        let topic = self.intern(name);
        let state = self.topics.get_mut(topic);
        if !state.local {
            state.local = true;
            if let Some(params) = self.config.topic_score_of(name) {
                // Validated with the configuration.
                let _ = self.scores.set_topic_params(topic, params.clone());
            }
        }
        topic
    }

    fn set_joined(&mut self, topic: TopicIdx, joined: bool) {
        self.topics.set_joined(topic, joined);
        self.greeting = None;
    }

    fn intern(&mut self, name: &Topic) -> TopicIdx {
        let config = &self.config;
        self.topics.intern(name, || config.topics.contains_key(name))
    }

    fn announce_to_all(&mut self, topics: &[TopicIdx], cx: &mut Cx<'_>) {
        let frames = self.announcement(topics);
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            self.announce(peer, topics, &frames, cx);
        }
    }

    pub(super) fn link_up(&mut self, id: PeerId, info: PeerInfo, cx: &mut Cx<'_>) {
        self.dialling.remove(&info.identity);
        if self.peers.get(id).is_some() {
            // A driver that reports a link twice must not double what hangs on it.
            self.link_down(id, cx);
        }
        let peer = Peer {
            protocol: Protocol::of(&info.protocol),
            direct: self.direct.contains(&info.identity),
            observer: self.observers.contains(&info.identity),
            topics: Vec::new(),
            extensions: None,
            signed_record: None,
            retry: None,
            unannounced: ThinVec::new(),
            unwanted: 0,
            counts: Counts::default(),
            info,
        };
        let extended = peer.protocol.has_extensions();
        let reported_to = self.report_to.contains(&peer.info.identity);
        self.scores.add_peer(cx.now(), id, peer.info.address);
        self.peers.insert(id, peer);
        if reported_to {
            self.peers.reported_to.insert(id);
        }
        if extended {
            let joined = self.topics.joined().to_vec();
            self.announce_extensions(id, &joined, cx);
        } else if !self.topics.joined().is_empty() {
            let joined = self.topics.joined().to_vec();
            // Shared by all links: with many links and topics it would weigh more than anything else that a node keeps.
            let frames = self.greeting.take().unwrap_or_else(|| self.announcement(&joined));
            self.announce(id, &joined, &frames, cx);
            self.greeting = Some(frames);
        }
    }

    pub(super) fn link_down(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        self.turned_away.forget_peer(id);
        let Some(peer) = self.peers.remove(id) else { return };
        for topic in &peer.topics {
            let state = self.topics.get_mut(*topic);
            state.subscribers.remove(id);
            state.always.remove(id);
            self.topics.release(*topic);
        }
        // A peer can be in a mesh without having subscribed.
        for at in 0..self.topics.joined().len() {
            let topic = self.topics.joined()[at];
            if self.topics.get_mut(topic).mesh.remove(id) {
                let name = self.topics.get(topic).name.clone();
                self.trace(cx, || Trace::Pruned { peer: id, topic: name, by_peer: true });
            }
        }
        for at in 0..self.topics.fanouts().len() {
            let topic = self.topics.fanouts()[at];
            self.topics.get_mut(topic).fanout.remove(id);
        }
        if peer.unwanted > 0 {
            self.unwanted.forget_peer(id);
        }
        self.outgoing.remove(&id);
        self.scores.remove_peer(cx.now(), id);
    }

    /// Forgets what outlives a link: score, backoffs, promises. For drivers that give the number of a peer that is gone to
    /// another, which must not answer for it. Nothing happens as long as there is a link.
    pub fn forget_peer(&mut self, peer: PeerId) {
        if self.peers.get(peer).is_none() {
            self.scores.forget_peer(peer);
            self.backoffs.forget_peer(peer);
            self.promises.forgive(peer);
        }
    }

    /// Takes note of what a peer joins and leaves.
    pub(super) fn receive_subscriptions(&mut self, from: PeerId, changes: &[SubOpts], cx: &mut Cx<'_>) {
        let limits = &self.config.subscriptions;
        if changes.len() > limits.per_rpc_max {
            self.metrics.ignore(Ignored::SubscriptionsOverLimit, changes.len() as u64);
            return;
        }
        for change in changes {
            if change.subscribe {
                self.peer_subscribed(from, &change.topic, cx);
            } else {
                self.peer_unsubscribed(from, &change.topic, cx);
            }
        }
    }

    fn peer_subscribed(&mut self, from: PeerId, name: &Topic, cx: &mut Cx<'_>) {
        let limits = &self.config.subscriptions;
        if !limits.filter.allows(name) {
            self.metrics.ignore(Ignored::SubscriptionFiltered, 1);
            return;
        }
        let Some(peer) = self.peers.get(from) else { return };
        let known = self.topics.find(name);
        if known.is_some_and(|topic| peer.topics.binary_search(&topic).is_ok()) {
            return;
        }
        if peer.topics.len() >= limits.per_peer_max {
            self.metrics.ignore(Ignored::SubscriptionPeerFull, 1);
            return;
        }
        let always = peer.direct || !peer.protocol.has_mesh();
        let topic = known.unwrap_or_else(|| self.intern(name));
        let state = self.topics.get_mut(topic);
        state.subscribers.insert(from);
        if always {
            state.always.insert(from);
        }
        if let Some(peer) = self.peers.get_mut(from)
            && let Err(at) = peer.topics.binary_search(&topic)
        {
            peer.topics.insert(at, topic);
        }
        if self.config.report_subscriptions {
            cx.emit(Event::PeerSubscribed { peer: from, topic: name.clone() });
        }
        if self.config.graft_on_subscribe {
            self.graft_newcomer(from, topic, cx);
        }
    }

    fn peer_unsubscribed(&mut self, from: PeerId, name: &Topic, cx: &mut Cx<'_>) {
        let Some(topic) = self.topics.find(name) else { return };
        let Some(peer) = self.peers.get_mut(from) else { return };
        let Ok(at) = peer.topics.binary_search(&topic) else { return };
        peer.topics.remove(at);
        let state = self.topics.get_mut(topic);
        state.subscribers.remove(from);
        state.always.remove(from);
        state.fanout.remove(from);
        if state.mesh.contains(from) {
            self.remove_from_mesh(from, topic, true, cx);
        }
        self.topics.release(topic);
        if self.config.report_subscriptions {
            cx.emit(Event::PeerUnsubscribed { peer: from, topic: name.clone() });
        }
    }
}
