//! Topics of this node and of its peers, and peers that come and go.

use std::time::Duration;

use samara_engine::{PeerId, PeerInfo};

use super::{Peer, PubSub, RETRY, Route, RpcFrame, SubOpts};
use crate::app::{Cx, RequestError};
use crate::message::Topic;
use crate::metrics::Ignored;

/// The longest wait before an announcement that found no room is tried again: 1 to 1,000 ms, drawn at random, in
/// `announceRetry` of go-libp2p-pubsub's `pubsub.go`.
const RETRY_AFTER_MAX_MS: u64 = 1000;

/// What a peer speaks that gets every message (`FloodSubID` in go-libp2p-pubsub's `floodsub.go`).
const FLOODSUB: &str = "/floodsub/1.0.0";

impl<R: Route> PubSub<R> {
    pub(super) fn join(&mut self, name: &Topic, cx: &mut Cx<'_, RpcFrame>) -> Result<bool, RequestError> {
        let (found, allowed) = (name.as_str().len(), self.config.topic_bytes_max);
        if found > allowed {
            return Err(RequestError::TopicTooLong { found, allowed });
        }
        let topic = self.topics.intern(name);
        let state = self.topics.get_mut(topic);
        if state.joined {
            return Ok(false);
        }
        state.joined = true;
        self.announce_to_all(name, true, cx);
        Ok(true)
    }

    pub(super) fn leave(&mut self, name: &Topic, cx: &mut Cx<'_, RpcFrame>) -> bool {
        let Some(topic) = self.topics.find(name) else { return false };
        let state = self.topics.get_mut(topic);
        if !state.joined {
            return false;
        }
        state.joined = false;
        self.topics.release(topic);
        self.announce_to_all(name, false, cx);
        true
    }

    fn announce_to_all(&mut self, name: &Topic, subscribe: bool, cx: &mut Cx<'_, RpcFrame>) {
        self.greeting = None;
        let frame = RpcFrame::Subscriptions([SubOpts { subscribe, topic: name.clone() }].into());
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            self.announce(peer, frame.clone(), cx);
        }
    }

    /// Tells a peer about joined and left topics; again later if there is no room.
    fn announce(&mut self, id: PeerId, frame: RpcFrame, cx: &mut Cx<'_, RpcFrame>) {
        if self.core.owe(id, self.core.lanes.control, frame.clone(), None, cx) {
            return;
        }
        let (RpcFrame::Subscriptions(changes), Some(peer)) = (&frame, self.peers.get_mut(id)) else { return };
        for change in &changes[..] {
            if !peer.unannounced.contains(&change.topic) {
                peer.unannounced.push(change.topic.clone());
            }
        }
        if !self.retrying {
            self.retrying = true;
            let wait = Duration::from_millis(1 + cx.rng().below(RETRY_AFTER_MAX_MS));
            let at = cx.now() + wait;
            cx.set_timer(at, RETRY);
        }
    }

    pub(super) fn retry(&mut self, cx: &mut Cx<'_, RpcFrame>) {
        self.retrying = false;
        for at in 0..self.peers.connected().len() {
            let id = self.peers.connected()[at];
            let Some(peer) = self.peers.get_mut(id) else { continue };
            if peer.unannounced.is_empty() {
                continue;
            }
            let unannounced = std::mem::take(&mut peer.unannounced);
            let topics = &mut self.topics;
            // What is true now, not what was to be said then.
            let change = |topic: Topic| {
                let subscribe = topics.find(&topic).is_some_and(|topic| topics.get(topic).joined);
                SubOpts { subscribe, topic }
            };
            let changes = unannounced.into_iter().map(change).collect();
            self.announce(id, RpcFrame::Subscriptions(changes), cx);
        }
    }

    pub(super) fn link_up(&mut self, id: PeerId, info: &PeerInfo, cx: &mut Cx<'_, RpcFrame>) {
        // A driver that reports a link twice must not double what hangs on it.
        self.link_down(id);
        self.by_identity.insert(info.identity.clone(), id);
        let peer = Peer {
            identity: info.identity.clone(),
            floods: *info.protocol == *FLOODSUB,
            topics: Vec::new(),
            unannounced: Vec::new(),
        };
        self.peers.insert(id, peer);
        let greeting = self.greeting.take().unwrap_or_else(|| {
            let of = |topic| SubOpts { subscribe: true, topic: self.topics.get(topic).name.clone() };
            RpcFrame::Subscriptions(self.topics.joined().map(of).collect())
        });
        self.greeting = Some(greeting.clone());
        if !matches!(&greeting, RpcFrame::Subscriptions(changes) if changes.is_empty()) {
            self.announce(id, greeting, cx);
        }
    }

    pub(super) fn link_down(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(id) else { return };
        self.by_identity.remove(&peer.identity);
        for topic in peer.topics {
            self.topics.get_mut(topic).subscribers.remove(id);
            self.topics.release(topic);
        }
    }

    /// Takes note of what a peer joins and leaves.
    pub(super) fn receive_subscriptions(&mut self, from: PeerId, changes: &[SubOpts]) {
        if changes.len() > self.config.subscriptions_per_rpc_max {
            self.core.metrics.ignore(Ignored::SubscriptionsOverLimit, changes.len() as u64);
            return;
        }
        for change in changes {
            if change.subscribe {
                if let Err(cause) = self.peer_joined(from, &change.topic) {
                    self.core.metrics.ignore(cause, 1);
                }
            } else {
                self.peer_left(from, &change.topic);
            }
        }
    }

    fn peer_joined(&mut self, from: PeerId, name: &Topic) -> Result<(), Ignored> {
        if name.as_str().len() > self.config.topic_bytes_max {
            return Err(Ignored::SubscriptionTopicTooLong);
        }
        let known = self.topics.find(name);
        let Some(peer) = self.peers.get_mut(from) else { return Err(Ignored::FrameUnknownPeer) };
        if known.is_some_and(|topic| peer.topics.binary_search(&topic).is_ok()) {
            return Ok(());
        }
        if peer.topics.len() >= self.config.topics_per_peer_max {
            return Err(Ignored::SubscriptionPeerFull);
        }
        let topic = known.unwrap_or_else(|| self.topics.intern(name));
        if let Err(at) = peer.topics.binary_search(&topic) {
            peer.topics.insert(at, topic);
        }
        self.topics.get_mut(topic).subscribers.insert(from);
        Ok(())
    }

    fn peer_left(&mut self, from: PeerId, name: &Topic) {
        let Some(topic) = self.topics.find(name) else { return };
        let Some(peer) = self.peers.get_mut(from) else { return };
        let Ok(at) = peer.topics.binary_search(&topic) else { return };
        peer.topics.remove(at);
        self.topics.get_mut(topic).subscribers.remove(from);
        self.topics.release(topic);
    }
}
