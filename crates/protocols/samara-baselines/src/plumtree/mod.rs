//! Plumtree: messages travel along a tree, and are announced on all other links.

mod forest;
mod tables;

use std::sync::Arc;

use hashbrown::HashMap;
use samara_engine::config::ConfigError;
use samara_engine::outbox::Owe;
use samara_engine::{
    Engine, Frame, Input, Outbox, PeerId, PeerIdentity, PeerMap, PeerSet, Time, TimerToken, Topic,
};

use crate::app::{Baseline, Command, Cx, Event, Ignored, Metrics, RequestError, handle_command};
use crate::config::{CONTROL, FORWARDED, PlumtreeConfig};
use crate::core::{Core, Publisher};
use crate::message::{Graft, IHave, Message, MessageId, PlumtreeFrame};

pub use forest::Forest;
use tables::{Announcers, Cache, Missing};

/// Fires when a missing message may be due for a GRAFT.
const GRAFT: u64 = 0;
/// Fires when collected announcements are due.
const DISPATCH: u64 = 1;
/// Number of timers of a tree.
const TIMERS: u64 = 2;

/// A Plumtree node as a state machine (Leitão, Pereira, Rodrigues: "Epidemic Broadcast Trees",
/// SRDS 2007).
///
/// It serves one topic over a **static neighbour set**: all links that the driver provides take
/// part. There is no membership protocol (the paper runs over HyParView), and the engine neither
/// dials nor closes links. All neighbours are eager when their links come up.
///
/// As in the paper and in iroh-gossip, all senders share one tree. It forms and heals while
/// messages come one after another, or from one sender. Concurrent messages of several senders
/// prune different links of the same cycle, so a tree that has not settled yet stays unsettled
/// under such a load: nothing is lost, but copies are redundant.
///
/// Drive it through [`Engine::handle`], or through [`Baseline`] if the application owns the engine.
/// Create its outbox from [`Common::outbox_config`](crate::Common::outbox_config). A node forwards
/// messages from the start; joining the topic only determines whether it reports them to the
/// application.
#[derive(Debug)]
pub struct Plumtree {
    core: Core,
    config: Arc<PlumtreeConfig>,
    /// The number of the tree among those of the node.
    number: u32,
    topic: Topic,
    joined: bool,
    peers: PeerMap<Neighbour>,
    /// Neighbours that get complete messages.
    eager: PeerSet,
    /// The other neighbours, which get announcements.
    lazy: PeerSet,
    cache: Cache,
    missing: Missing,
    /// The earliest pending timer for missing messages.
    graft_timer: Option<Time>,
    dispatching: bool,
}

#[derive(Debug, Default)]
struct Neighbour {
    /// Announcements waiting for the next dispatch.
    announcements: Vec<(MessageId, u32)>,
    /// The current second, and the number of messages sent in it by GRAFT.
    grafts: (u64, u32),
}

impl Plumtree {
    /// Returns a node with this identity on this topic. It does nothing before [`Input::Start`].
    pub fn new(
        config: impl Into<Arc<PlumtreeConfig>>,
        identity: PeerIdentity,
        topic: Topic,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self::numbered(config, identity, topic, 0))
    }

    /// Returns a node's tree with this number. The configuration must be valid.
    fn numbered(config: Arc<PlumtreeConfig>, identity: PeerIdentity, topic: Topic, number: u32) -> Self {
        Self {
            core: Core::numbered(&config.common, identity, number),
            number,
            topic,
            joined: false,
            peers: PeerMap::default(),
            eager: PeerSet::default(),
            lazy: PeerSet::default(),
            cache: Cache::new(config.cache_ttl, config.cache_messages_max, config.cache_bytes_max),
            missing: Missing::new(&config),
            graft_timer: None,
            dispatching: false,
            config,
        }
    }

    fn token(&self, timer: u64) -> TimerToken {
        TimerToken(TIMERS * u64::from(self.number) + timer)
    }

    /// Returns the neighbours that get complete messages, sorted.
    pub fn eager_peers(&self) -> &[PeerId] {
        &self.eager
    }

    /// Returns the neighbours that get announcements, sorted.
    pub fn lazy_peers(&self) -> &[PeerId] {
        &self.lazy
    }

    /// Returns the sizes of the node's tables.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            seen: self.core.seen.len(),
            cached: self.cache.len(),
            missing: self.missing.len(),
            deadlines: self.missing.deadlines(),
        }
    }

    fn start(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.core.start(cx);
        self.missing.entries = HashMap::with_hasher(cx.rng().table_hasher());
    }

    fn link_up(&mut self, peer: PeerId) {
        // A driver that reports a link twice must not duplicate its state.
        self.link_down(peer);
        self.peers.insert(peer, Neighbour::default());
        self.eager.insert(peer);
    }

    fn link_down(&mut self, peer: PeerId) {
        if self.peers.remove(peer).is_some() {
            self.eager.remove(peer);
            self.lazy.remove(peer);
            self.missing.forget_peer(peer);
        }
    }

    fn receive(&mut self, from: PeerId, frame: PlumtreeFrame, cx: &mut Cx<'_, PlumtreeFrame>) {
        if !self.core.admits(self.peers.contains(from), &frame) {
            return;
        }
        if !frame.topic().is_some_and(|topic| topic.is(&self.topic)) {
            self.core.metrics.ignore(Ignored::OtherTopic, 1);
            return;
        }
        match frame {
            PlumtreeFrame::Gossip { message, round } => self.receive_gossip(from, message, round, cx),
            PlumtreeFrame::IHave(ihave) => self.receive_ihave(from, &ihave.messages, cx),
            PlumtreeFrame::Graft(graft) => self.receive_graft(from, graft.id, cx),
            PlumtreeFrame::Prune(_) => {
                self.core.metrics.prunes_received += 1;
                self.make_lazy(from);
            }
            PlumtreeFrame::Subscriptions(_) => unreachable!("the frame has no topic"),
        }
    }

    fn check_topic(&self, topic: &Topic) -> Result<(), RequestError> {
        if topic.is(&self.topic) {
            return Ok(());
        }
        Err(RequestError::OtherTopic { found: topic.clone(), expected: self.topic.clone() })
    }
}

impl Engine for Plumtree {
    type Frame = PlumtreeFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<PlumtreeFrame, Command>, cx: &mut Cx<'_, PlumtreeFrame>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, .. } => self.link_up(peer),
            Input::LinkDown { peer } => self.link_down(peer),
            Input::Frame { peer, frame } => self.receive(peer, frame, cx),
            Input::Timer(token) if token == self.token(GRAFT) => self.graft_missing(cx),
            Input::Timer(token) if token == self.token(DISPATCH) => self.dispatch(cx),
            Input::Command(command) => handle_command(self, command, cx),
            Input::Timer(_) | Input::DialFailed { .. } => {}
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<PlumtreeFrame>) {
        outbox.assert_invariants();
        for peer in self.peers.connected() {
            let (eager, lazy) = (self.eager.contains(*peer), self.lazy.contains(*peer));
            assert!(eager != lazy, "{peer:?} is eager ({eager}) and lazy ({lazy})");
        }
        let links = self.peers.connected().len();
        assert_eq!(self.eager.len() + self.lazy.len(), links, "eager and lazy peers have links");
        let (config, sizes) = (&self.config, self.sizes());
        assert!(sizes.missing <= config.missing_max, "{} messages are missing", sizes.missing);
        assert!(sizes.cached <= config.cache_messages_max, "{} messages are cached", sizes.cached);
    }
}

impl Baseline for Plumtree {
    fn subscribe(&mut self, topic: &Topic, _: &mut Cx<'_, PlumtreeFrame>) -> Result<bool, RequestError> {
        self.check_topic(topic)?;
        Ok(!std::mem::replace(&mut self.joined, true))
    }

    fn unsubscribe(&mut self, topic: &Topic, _: &mut Cx<'_, PlumtreeFrame>) -> Result<bool, RequestError> {
        self.check_topic(topic)?;
        Ok(std::mem::replace(&mut self.joined, false))
    }

    fn targets(&self, topic: &Topic) -> usize {
        if topic.is(&self.topic) { self.eager.len() } else { 0 }
    }

    fn metrics(&self) -> Metrics {
        self.core.metrics.clone()
    }
}

impl Publisher for Plumtree {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// `Broadcast` of the paper, except for the sending.
    fn prepare(
        &mut self,
        message: &Arc<Message>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> Result<(Owe<PlumtreeFrame>, Option<Event>), RequestError> {
        self.check_topic(message.topic())?;
        let frame = PlumtreeFrame::Gossip { message: Arc::clone(message), round: 0 };
        let key = self.core.take_own(message, frame.encoded_len(), cx)?;
        // Neighbours may have announced it if another node composed it.
        self.missing.remove(message.id());
        self.cache.put(cx.now(), key, Arc::clone(message), 0);
        self.lazy_push(message.id(), 0, None, cx);
        let owe = Owe { message: key, frame, peers: self.eager_peers().to_vec(), deadline: None };
        let event = || Event::Message { key, message: Arc::clone(message), from: None, hops: Some(0) };
        Ok((owe, self.joined.then(event)))
    }
}

samara_engine::counters! {
    /// Sizes of a node's tables, in entries. See [`Plumtree::sizes`].
    #[derive(Copy, Eq)]
    pub struct Sizes {
        /// Ids in the seen cache.
        pub seen: usize,
        /// Messages kept to answer GRAFT.
        pub cached: usize,
        /// Messages that were announced and have not arrived.
        pub missing: usize,
        /// Deadlines of missing messages, including obsolete ones.
        pub deadlines: usize,
    }
}

impl Plumtree {
    /// `Receive(GOSSIP)` of the paper. `round` counts the links before the one that the message
    /// arrived on.
    fn receive_gossip(
        &mut self,
        from: PeerId,
        message: Arc<Message>,
        round: u32,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let now = cx.now();
        let id = message.id();
        self.core.metrics.messages_received += 1;
        if let Some(key) = self.core.seen.get(now, id) {
            self.core.duplicate(from, key, cx);
            self.prune(from, cx);
            return;
        }
        let key = self.core.seen.insert(now, id);
        self.core.metrics.messages_delivered += 1;
        let announcers = self.missing.remove(id);
        let hops = round.saturating_add(1);
        self.cache.put(now, key, Arc::clone(&message), hops);

        let eager = self.eager_peers();
        let mut peers = Vec::with_capacity(eager.len());
        peers.extend(eager.iter().filter(|peer| **peer != from));
        let frame = PlumtreeFrame::Gossip { message: Arc::clone(&message), round: hops };
        self.core.owe_forwarded(key, frame, peers, cx);
        self.lazy_push(id, hops, Some(from), cx);

        self.make_eager(from);
        if !announcers.is_empty() {
            self.optimize(from, round, &announcers, cx);
        }
        if self.joined {
            cx.emit(Event::Message { key, message, from: Some(from), hops: Some(hops) });
        }
    }

    /// Replaces the link that delivered a message by one that announced it with far fewer hops
    /// (`Optimize`).
    fn optimize(
        &mut self,
        from: PeerId,
        round: u32,
        announcers: &Announcers,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let Some(threshold) = self.config.optimization_threshold else { return };
        let better = |best: u32| best < round && round - best >= threshold;
        let best = announcers.iter().filter(|(peer, _)| *peer != from).min_by_key(|(_, round)| *round);
        let Some((peer, best)) = best.copied().filter(|(_, best)| better(*best)) else { return };
        self.core.metrics.optimizations += 1;
        if !self.eager.contains(peer) {
            self.graft(peer, None, best, cx);
        }
        self.prune(from, cx);
    }

    fn receive_graft(&mut self, from: PeerId, id: Option<MessageId>, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.core.metrics.grafts_received += 1;
        self.make_eager(from);
        if let Some(id) = id
            && let Err(cause) = self.answer(from, id, cx)
        {
            self.core.metrics.ignore(cause, 1);
        }
    }

    /// Sends a message that a neighbour has requested.
    fn answer(&mut self, to: PeerId, id: MessageId, cx: &mut Cx<'_, PlumtreeFrame>) -> Result<(), Ignored> {
        let now = cx.now();
        let key = self.core.seen.get(now, id).ok_or(Ignored::GraftUnknown)?;
        let (message, round) = self.cache.get(now, key).ok_or(Ignored::GraftUnknown)?;
        let message = Arc::clone(message);
        if cx.outbox().owes(to, key) {
            return Err(Ignored::GraftOwed);
        }
        // A GRAFT is far smaller than the message it requests, so the answers to a peer need a
        // limit.
        let second = now.as_nanos() / 1_000_000_000;
        let Some(peer) = self.peers.get_mut(to) else { return Err(Ignored::FrameUnknownPeer) };
        if peer.grafts.0 != second {
            peer.grafts = (second, 0);
        }
        if peer.grafts.1 >= self.config.grafts_per_second_max {
            return Err(Ignored::GraftOverLimit);
        }
        peer.grafts.1 += 1;
        self.core.metrics.answered_copies += 1;
        let frame = PlumtreeFrame::Gossip { message, round };
        self.core.owe(to, FORWARDED, frame, Some(key), cx);
        Ok(())
    }

    /// Requests complete messages from now on, and the missing message `id`, if any. Returns true
    /// if the outbox accepted the request.
    fn graft(
        &mut self,
        peer: PeerId,
        id: Option<MessageId>,
        round: u32,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> bool {
        self.make_eager(peer);
        self.core.metrics.grafts_sent += 1;
        let frame = PlumtreeFrame::Graft(Arc::new(Graft { topic: self.topic.clone(), id, round }));
        self.core.owe(peer, CONTROL, frame, None, cx)
    }

    /// Requests only announcements from now on. Sent for every duplicate, as in the paper: the peer
    /// may have made this node eager again since the last PRUNE, or that PRUNE found no room.
    fn prune(&mut self, peer: PeerId, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.make_lazy(peer);
        self.core.metrics.prunes_sent += 1;
        let frame = PlumtreeFrame::Prune(self.topic.clone());
        self.core.owe(peer, CONTROL, frame, None, cx);
    }

    fn make_eager(&mut self, peer: PeerId) {
        if self.peers.contains(peer) && self.eager.insert(peer) {
            self.lazy.remove(peer);
        }
    }

    fn make_lazy(&mut self, peer: PeerId) {
        if self.peers.contains(peer) && self.lazy.insert(peer) {
            self.eager.remove(peer);
        }
    }

    /// Queues an announcement of a message to all lazy neighbours for the next dispatch
    /// (`LazyPush`).
    fn lazy_push(&mut self, id: MessageId, round: u32, from: Option<PeerId>, cx: &mut Cx<'_, PlumtreeFrame>) {
        let mut waiting = false;
        for peer in self.lazy.iter() {
            let Some(neighbour) = self.peers.get_mut(*peer).filter(|_| Some(*peer) != from) else { continue };
            if neighbour.announcements.len() >= self.config.ihave_queue_max {
                self.core.metrics.ihave_ids_dropped += 1;
                continue;
            }
            neighbour.announcements.push((id, round));
            waiting = true;
        }
        if waiting && !self.dispatching {
            self.dispatching = true;
            let at = cx.now() + self.config.dispatch_interval;
            cx.set_timer(at, self.token(DISPATCH));
        }
    }

    /// Sends the collected announcements (`dispatch` of the paper).
    fn dispatch(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.dispatching = false;
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            let Some(neighbour) = self.peers.get_mut(peer) else { continue };
            let mut messages = std::mem::take(&mut neighbour.announcements);
            while !messages.is_empty() {
                let rest = messages.split_off(messages.len().min(self.config.ihave_ids_max));
                self.core.metrics.ihave_ids_sent += messages.len() as u64;
                let ihave = IHave { topic: self.topic.clone(), messages };
                let frame = PlumtreeFrame::IHave(Arc::new(ihave));
                self.core.owe(peer, CONTROL, frame, None, cx);
                messages = rest;
            }
        }
    }

    fn receive_ihave(&mut self, from: PeerId, messages: &[(MessageId, u32)], cx: &mut Cx<'_, PlumtreeFrame>) {
        let now = cx.now();
        let considered = messages.len().min(self.config.ihave_ids_max);
        self.core.metrics.ihave_ids_received += messages.len() as u64;
        self.core.metrics.ignore(Ignored::IHaveIdsOverLimit, (messages.len() - considered) as u64);
        for (id, round) in &messages[..considered] {
            if let Some(key) = self.core.seen.get(now, *id) {
                self.core.peer_has(from, key, cx);
            } else if let Err(cause) = self.missing.announce(now, *id, from, *round) {
                self.core.metrics.ignore(cause, 1);
            }
        }
        self.set_graft_timer(cx);
    }

    /// Requests each overdue message from its first announcer that was not yet asked (`Timer`).
    fn graft_missing(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        let now = cx.now();
        self.graft_timer = self.graft_timer.filter(|at| *at > now);
        while let Some(id) = self.missing.next_due(now) {
            let Some((peer, round)) = self.missing.take_announcer(id) else {
                // No announcer is left. A new announcement starts again with the first timeout.
                self.missing.remove(id);
                self.core.metrics.missing_given_up += 1;
                continue;
            };
            if !self.graft(peer, Some(id), round, cx) {
                self.missing.put_back(id, peer, round);
            }
            self.missing.wait_for_retry(now, id);
        }
        self.set_graft_timer(cx);
    }

    fn set_graft_timer(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        let Some(at) = self.missing.wake_at() else { return };
        if self.graft_timer.is_none_or(|set| at < set) {
            self.graft_timer = Some(at);
            cx.set_timer(at, self.token(GRAFT));
        }
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::testing::{Single, identity_of};

    use super::*;

    #[test]
    #[should_panic(expected = "peer0 is eager (true) and lazy (true)")]
    fn a_peer_in_both_lists_is_found() {
        let config = PlumtreeConfig::default();
        let outbox = Outbox::new(config.common.outbox_config());
        let tree = Plumtree::new(config, identity_of(0), Topic::new("t")).expect("a valid configuration");
        let mut node = Single::start(tree, outbox, 1);
        node.connect(PeerId(0), identity_of(1), "", true);
        node.with(|tree, _| tree.lazy.insert(PeerId(0)));
    }
}
