//! FloodSub and RandomSub: messages go to all or to some of the subscribed peers.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::config::ConfigError;
use samara_engine::outbox::Owe;
use samara_engine::settings::Ranges;
use samara_engine::{
    Engine, Frame, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, PeerKeyed, PeerMap, PeerSet,
    TimerToken, Topic,
};

use crate::app::{Baseline, Command, Cx, Event, Ignored, Metrics, RequestError, handle_command};
use crate::config::{CONTROL, PubSubConfig};
use crate::core::{Core, Publisher};
use crate::message::{Message, RpcFrame, SubOpts};

/// Fires when announcements that found no room are due for another attempt.
const RETRY: TimerToken = TimerToken(0);

/// Minimum number of peers that RandomSub sends a message to: `RandomSubD` in go-libp2p-pubsub's
/// `randomsub.go`.
const FANOUT_MIN: usize = 6;

/// A FloodSub or RandomSub node as a state machine.
///
/// - FloodSub: every new message goes to all peers that have joined its topic, except its sender
///   and its author ([libp2p specs, `pubsub/README.md`], `floodsub.go` in go-libp2p-pubsub).
/// - RandomSub: of these peers, every new message goes to those that speak FloodSub, and to `max(6,
///   ceil(sqrt(network size)))` others, drawn anew for each message (`RandomSubRouter.Publish` in
///   go-libp2p-pubsub's `randomsub.go`).
///
/// Drive it through [`Engine::handle`], or through [`Baseline`] if the application owns the engine.
/// Create its outbox from [`Common::outbox_config`](crate::Common::outbox_config).
///
/// [libp2p specs, `pubsub/README.md`]: https://github.com/libp2p/specs/tree/master/pubsub
#[derive(Debug)]
pub struct PubSub {
    core: Core,
    config: Arc<PubSubConfig>,
    /// Number of peers that RandomSub sends a message to; `None` for FloodSub, which has no limit.
    fanout: Option<usize>,
    topics: TopicTable,
    peers: PeerMap<Peer>,
    by_identity: HashMap<PeerIdentity, PeerId, PeerKeyed>,
    /// All joined topics in one frame, for new links; `None` if subscriptions have changed since
    /// the last link.
    greeting: Option<RpcFrame>,
    retrying: bool,
}

/// A peer with a link.
#[derive(Debug)]
struct Peer {
    identity: PeerIdentity,
    /// The peer speaks FloodSub, and so gets every message.
    floods: bool,
    /// The remembered topics that the peer has joined, sorted.
    topics: Vec<TopicIdx>,
    /// Own topics whose announcement to the peer found no room.
    unannounced: Vec<Topic>,
}

impl PubSub {
    /// Returns a FloodSub node with this identity. It does nothing before [`Input::Start`].
    pub fn floodsub(
        config: impl Into<Arc<PubSubConfig>>,
        identity: PeerIdentity,
    ) -> Result<Self, ConfigError> {
        Self::new(config.into(), identity, None)
    }

    /// Returns a RandomSub node with this identity. `network_size` is the approximate number of
    /// nodes; the protocol takes it as a parameter and does not measure it. The node does nothing
    /// before [`Input::Start`].
    pub fn randomsub(
        config: impl Into<Arc<PubSubConfig>>,
        identity: PeerIdentity,
        network_size: usize,
    ) -> Result<Self, ConfigError> {
        let floor = network_size.isqrt();
        let root = floor + usize::from(floor * floor < network_size);
        Self::new(config.into(), identity, Some(root.max(FANOUT_MIN)))
    }

    fn new(
        config: Arc<PubSubConfig>,
        identity: PeerIdentity,
        fanout: Option<usize>,
    ) -> Result<Self, ConfigError> {
        config.check_ranges()?;
        Ok(Self {
            core: Core::new(&config.common, identity),
            config,
            fanout,
            topics: TopicTable::default(),
            peers: PeerMap::default(),
            by_identity: HashMap::default(),
            greeting: None,
            retrying: false,
        })
    }

    /// Returns the maximum number of peers that a message goes to; `None` for all.
    pub fn fanout(&self) -> Option<usize> {
        self.fanout
    }

    /// Returns the peers that have joined a topic, sorted.
    pub fn topic_peers(&mut self, topic: &Topic) -> &[PeerId] {
        self.topics.find(topic).map_or(&[], |topic| &*self.topics.get(topic).subscribers)
    }

    /// Returns the number of remembered topics and of remembered message ids.
    pub fn sizes(&self) -> (usize, usize) {
        (self.topics.len(), self.core.seen.len())
    }

    fn start(&mut self, cx: &mut Cx<'_, RpcFrame>) {
        self.core.start(cx);
        // Peers choose the keys of these tables.
        self.topics.by_name = HashMap::with_hasher(cx.rng().table_hasher());
        self.by_identity = HashMap::with_hasher(cx.rng().table_hasher());
    }
}

impl Engine for PubSub {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Cx<'_, RpcFrame>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, &info, cx),
            Input::LinkDown { peer } => self.link_down(peer),
            Input::Frame { peer, frame } => {
                if !self.core.admits(self.peers.contains(peer), &frame) {
                    return;
                }
                match frame {
                    RpcFrame::Publish(message) => self.receive_message(peer, message, cx),
                    RpcFrame::Subscriptions(changes) => self.receive_subscriptions(peer, &changes),
                }
            }
            Input::Timer(RETRY) => self.retry(cx),
            Input::Command(command) => handle_command(self, command, cx),
            Input::Timer(_) | Input::DialFailed { .. } => {}
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<RpcFrame>) {
        outbox.assert_invariants();
        for peer in outbox.owed_peers() {
            assert!(self.peers.contains(peer), "copies are owed to {peer:?}, which is gone");
        }
        for id in self.peers.connected() {
            let topics = self.peers.get(*id).map_or(0, |peer| peer.topics.len());
            assert!(topics <= self.config.topics_per_peer_max, "{id:?} has {topics} topics");
        }
    }
}

impl Baseline for PubSub {
    fn subscribe(&mut self, name: &Topic, cx: &mut Cx<'_, RpcFrame>) -> Result<bool, RequestError> {
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

    fn unsubscribe(&mut self, name: &Topic, cx: &mut Cx<'_, RpcFrame>) -> Result<bool, RequestError> {
        let Some(topic) = self.topics.find(name) else { return Ok(false) };
        let state = self.topics.get_mut(topic);
        if !state.joined {
            return Ok(false);
        }
        state.joined = false;
        self.topics.release(topic);
        self.announce_to_all(name, false, cx);
        Ok(true)
    }

    fn targets(&self, topic: &Topic) -> usize {
        let topic = self.topics.by_name.get(topic);
        topic.map_or(0, |topic| self.topics.get(*topic).subscribers.len())
    }

    fn metrics(&self) -> Metrics {
        self.core.metrics.clone()
    }
}

impl Publisher for PubSub {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn prepare(
        &mut self,
        message: &Arc<Message>,
        cx: &mut Cx<'_, RpcFrame>,
    ) -> Result<(Owe<RpcFrame>, Option<Event>), RequestError> {
        let (found, allowed) = (message.topic().as_str().len(), self.config.topic_bytes_max);
        if found > allowed {
            return Err(RequestError::TopicTooLong { found, allowed });
        }
        let frame = RpcFrame::Publish(Arc::clone(message));
        let key = self.core.take_own(message, frame.encoded_len(), cx)?;
        let topic = self.topics.find(message.topic());
        let peers = topic.map_or_else(Vec::new, |topic| self.recipients(topic, message, None, cx));
        let joined = topic.is_some_and(|topic| self.topics.get(topic).joined);
        let event = || Event::Message { key, message: Arc::clone(message), from: None, hops: None };
        Ok((Owe { message: key, frame, peers, deadline: None }, joined.then(event)))
    }
}

impl PubSub {
    fn receive_message(&mut self, from: PeerId, message: Arc<Message>, cx: &mut Cx<'_, RpcFrame>) {
        let now = cx.now();
        self.core.metrics.messages_received += 1;
        // Checked first because most copies are duplicates. A message can only be marked as seen
        // while its topic is joined.
        if let Some(key) = self.core.seen.get(now, message.id()) {
            self.core.duplicate(from, key, cx);
            return;
        }
        let topic = self.topics.find(message.topic()).filter(|topic| self.topics.get(*topic).joined);
        let Some(topic) = topic else {
            self.core.metrics.ignore(Ignored::MessageNotSubscribed, 1);
            return;
        };
        // As in `shouldPush` of go-libp2p-pubsub's `pubsub.go`: another node claims to be this one.
        if *message.author() == self.core.identity {
            self.core.metrics.ignore(Ignored::MessageFromSelf, 1);
            return;
        }
        let key = self.core.seen.insert(now, message.id());
        self.core.metrics.messages_delivered += 1;
        let peers = self.recipients(topic, &message, Some(from), cx);
        self.core.owe_forwarded(key, RpcFrame::Publish(Arc::clone(&message)), peers, cx);
        cx.emit(Event::Message { key, message, from: Some(from), hops: None });
    }

    /// Returns the peers that should get a message, in random order.
    fn recipients(
        &self,
        topic: TopicIdx,
        message: &Message,
        from: Option<PeerId>,
        cx: &mut Cx<'_, RpcFrame>,
    ) -> Vec<PeerId> {
        let author = self.by_identity.get(message.author()).copied();
        let subscribers = &self.topics.get(topic).subscribers;
        let mut peers: Vec<PeerId> = Vec::with_capacity(subscribers.len());
        peers.extend(subscribers.iter().filter(|peer| Some(**peer) != from && Some(**peer) != author));
        if let Some(fanout) = self.fanout {
            self.draw(&mut peers, fanout, cx.rng());
        }
        // go-libp2p-pubsub iterates over a map, which has a random order.
        cx.rng().shuffle(&mut peers);
        peers
    }

    /// Keeps the peers that speak FloodSub, and `fanout` others.
    fn draw(&self, peers: &mut Vec<PeerId>, fanout: usize, rng: &mut NodeRng) {
        let mut flooding = 0;
        for at in 0..peers.len() {
            if self.peers.get(peers[at]).is_some_and(|peer| peer.floods) {
                peers.swap(at, flooding);
                flooding += 1;
            }
        }
        // The first steps of a Fisher-Yates shuffle draw without visiting the rest.
        let others = &mut peers[flooding..];
        let chosen = fanout.min(others.len());
        for at in 0..chosen {
            let drawn = at + rng.index(others.len() - at);
            others.swap(at, drawn);
        }
        peers.truncate(flooding + chosen);
    }
}

/// Maximum delay before an announcement that found no room is retried, in milliseconds.
/// `announceRetry` of go-libp2p-pubsub's `pubsub.go` draws 1 to 1,000 ms at random.
const RETRY_AFTER_MAX_MS: u64 = 1000;

/// The protocol id of peers that get every message (`FloodSubID` in go-libp2p-pubsub's
/// `floodsub.go`).
const FLOODSUB: &str = "/floodsub/1.0.0";

impl PubSub {
    fn announce_to_all(&mut self, name: &Topic, subscribe: bool, cx: &mut Cx<'_, RpcFrame>) {
        self.greeting = None;
        let frame = RpcFrame::Subscriptions([SubOpts { subscribe, topic: name.clone() }].into());
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            self.announce(peer, frame.clone(), cx);
        }
    }

    /// Announces joined and left topics to a peer, and schedules a retry if there is no room.
    fn announce(&mut self, id: PeerId, frame: RpcFrame, cx: &mut Cx<'_, RpcFrame>) {
        if self.core.owe(id, CONTROL, frame.clone(), None, cx) {
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

    fn retry(&mut self, cx: &mut Cx<'_, RpcFrame>) {
        self.retrying = false;
        for at in 0..self.peers.connected().len() {
            let id = self.peers.connected()[at];
            let Some(peer) = self.peers.get_mut(id) else { continue };
            if peer.unannounced.is_empty() {
                continue;
            }
            let unannounced = std::mem::take(&mut peer.unannounced);
            let topics = &mut self.topics;
            // Announce the current state, which may differ from the one at the first attempt.
            let change = |topic: Topic| {
                let subscribe = topics.find(&topic).is_some_and(|topic| topics.get(topic).joined);
                SubOpts { subscribe, topic }
            };
            let changes = unannounced.into_iter().map(change).collect();
            self.announce(id, RpcFrame::Subscriptions(changes), cx);
        }
    }

    fn link_up(&mut self, id: PeerId, info: &PeerInfo, cx: &mut Cx<'_, RpcFrame>) {
        // A driver that reports a link twice must not duplicate its state.
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

    fn link_down(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(id) else { return };
        self.by_identity.remove(&peer.identity);
        for topic in peer.topics {
            self.topics.get_mut(topic).subscribers.remove(id);
            self.topics.release(topic);
        }
    }

    /// Records the topics that a peer joins and leaves.
    fn receive_subscriptions(&mut self, from: PeerId, changes: &[SubOpts]) {
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

/// A node's number for a topic, so that the topics of peers are stored as integers.
type TopicIdx = u32;

#[derive(Debug)]
struct TopicState {
    name: Topic,
    joined: bool,
    subscribers: PeerSet,
}

/// All topics that this node or one of its peers has joined. Other topics are forgotten, so that no
/// peer can grow the table beyond the number of its simultaneous subscriptions.
#[derive(Debug, Default)]
struct TopicTable {
    by_name: HashMap<Topic, TopicIdx, PeerKeyed>,
    states: Vec<TopicState>,
    free: Vec<TopicIdx>,
    /// The topic found last. Most traffic is on one topic, whose name then need not be hashed.
    last: TopicIdx,
}

impl TopicTable {
    fn find(&mut self, name: &Topic) -> Option<TopicIdx> {
        // A released number keeps its name until it is reused, but must not be found.
        if let Some(last) = self.states.get(self.last as usize)
            && last.is_used()
            && last.name.is(name)
        {
            return Some(self.last);
        }
        let found = self.by_name.get(name).copied()?;
        self.last = found;
        Some(found)
    }

    fn intern(&mut self, name: &Topic) -> TopicIdx {
        if let Some(known) = self.find(name) {
            return known;
        }
        let state = TopicState { name: name.clone(), joined: false, subscribers: PeerSet::default() };
        let topic = match self.free.pop() {
            Some(topic) => {
                self.states[topic as usize] = state;
                topic
            }
            None => {
                self.states.push(state);
                self.states.len() as TopicIdx - 1
            }
        };
        self.by_name.insert(name.clone(), topic);
        topic
    }

    /// Releases the number if neither this node nor a peer has joined the topic.
    fn release(&mut self, topic: TopicIdx) {
        let state = &self.states[topic as usize];
        if !state.is_used() && self.by_name.remove(&state.name).is_some() {
            self.free.push(topic);
        }
    }

    fn get(&self, topic: TopicIdx) -> &TopicState {
        &self.states[topic as usize]
    }

    fn get_mut(&mut self, topic: TopicIdx) -> &mut TopicState {
        &mut self.states[topic as usize]
    }

    /// Returns the joined topics in order of their numbers.
    fn joined(&self) -> impl Iterator<Item = TopicIdx> + '_ {
        self.states.iter().zip(0..).filter(|(state, _)| state.joined).map(|(_, topic)| topic)
    }

    fn len(&self) -> usize {
        self.by_name.len()
    }
}

impl TopicState {
    fn is_used(&self) -> bool {
        self.joined || !self.subscribers.is_empty()
    }
}
