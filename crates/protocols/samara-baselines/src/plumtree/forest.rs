//! Plumtree on several topics: a tree for each topic, over shared links.

use std::sync::Arc;

use hashbrown::HashMap;
use samara_engine::config::ConfigError;
use samara_engine::outbox::Owe;
use samara_engine::{
    Counted, Engine, Input, Outbox, PeerId, PeerIdentity, PeerKeyed, PeerMap, TimerToken, Topic,
};

use super::{Plumtree, TIMERS};
use crate::app::{Baseline, Command, Cx, Event, Ignored, Metrics, RequestError, handle_command};
use crate::config::{CONTROL, PlumtreeConfig};
use crate::core::{Core, Publisher};
use crate::message::{Message, PlumtreeFrame, SubOpts};

/// Maximum number of topics remembered per peer, as for [`PubSub`](crate::PubSub).
const TOPICS_PER_PEER_MAX: usize = 4096;

/// A node with a [`Plumtree`] for each topic that it joins.
///
/// The paper's nodes all belong to one broadcast group. Here, neighbours announce the topics that
/// they join, as in libp2p's pubsub. A tree's neighbours are those that have joined its topic. A
/// node publishes only on topics that it has joined, since it is a part of no other tree.
#[derive(Debug)]
pub struct Forest {
    /// Frames of the node itself, its outbox and its losses.
    core: Core,
    config: Arc<PlumtreeConfig>,
    /// The trees, by number. A left topic keeps its tree, without neighbours.
    trees: Vec<Plumtree>,
    numbers: HashMap<Topic, u32, PeerKeyed>,
    /// The topics that each peer has announced.
    peers: PeerMap<Vec<Topic>>,
}

impl Forest {
    /// Returns a node with this identity. It does nothing before [`Input::Start`].
    pub fn new(config: impl Into<Arc<PlumtreeConfig>>, identity: PeerIdentity) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            core: Core::new(&config.common, identity),
            config,
            trees: Vec::new(),
            numbers: HashMap::default(),
            peers: PeerMap::default(),
        })
    }

    /// Returns the tree of a topic that the node has joined.
    pub fn tree(&self, topic: &Topic) -> Option<&Plumtree> {
        self.number(topic).map(|number| &self.trees[number]).filter(|tree| tree.joined)
    }

    fn number(&self, topic: &Topic) -> Option<usize> {
        self.numbers.get(topic).map(|number| *number as usize)
    }

    fn start(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.core.start(cx);
        // Peers choose the keys of this table.
        self.numbers = HashMap::with_hasher(cx.rng().table_hasher());
    }

    fn link_up(&mut self, peer: PeerId, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.link_down(peer);
        self.peers.insert(peer, Vec::new());
        let joined = self.trees.iter().filter(|tree| tree.joined);
        let changes: Arc<[SubOpts]> =
            joined.map(|tree| SubOpts { subscribe: true, topic: tree.topic.clone() }).collect();
        if !changes.is_empty() {
            self.core.owe(peer, CONTROL, PlumtreeFrame::Subscriptions(changes), None, cx);
        }
    }

    fn link_down(&mut self, peer: PeerId) {
        for topic in self.peers.remove(peer).map_or(Vec::new(), |topics| *topics) {
            if let Some(number) = self.number(&topic) {
                self.trees[number].link_down(peer);
            }
        }
    }

    fn receive(&mut self, from: PeerId, frame: PlumtreeFrame, cx: &mut Cx<'_, PlumtreeFrame>) {
        if let PlumtreeFrame::Subscriptions(changes) = &frame {
            if self.core.admits(self.peers.contains(from), &frame) {
                changes.iter().for_each(|change| self.take_change(from, change));
            }
            return;
        }
        match frame.topic().and_then(|topic| self.number(topic)) {
            Some(number) => self.trees[number].receive(from, frame, cx),
            None => self.core.metrics.ignore(Ignored::OtherTopic, 1),
        }
    }

    fn take_change(&mut self, from: PeerId, SubOpts { subscribe, topic }: &SubOpts) {
        let number = self.number(topic);
        let Some(topics) = self.peers.get_mut(from) else { return };
        let known = topics.iter().position(|known| known.is(topic));
        match (subscribe, known) {
            (true, None) if topics.len() >= TOPICS_PER_PEER_MAX => {
                self.core.metrics.ignore(Ignored::SubscriptionPeerFull, 1);
            }
            (true, None) => {
                topics.push(topic.clone());
                if let Some(tree) = number.map(|number| &mut self.trees[number]).filter(|tree| tree.joined) {
                    tree.link_up(from);
                }
            }
            (false, Some(at)) => {
                topics.swap_remove(at);
                if let Some(number) = number {
                    self.trees[number].link_down(from);
                }
            }
            _ => {}
        }
    }

    fn announce(&mut self, topic: &Topic, subscribe: bool, cx: &mut Cx<'_, PlumtreeFrame>) {
        let frame = PlumtreeFrame::Subscriptions([SubOpts { subscribe, topic: topic.clone() }].into());
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            self.core.owe(peer, CONTROL, frame.clone(), None, cx);
        }
    }

    /// Returns the connected peers that have announced a topic.
    fn members(&self, topic: &Topic) -> Vec<PeerId> {
        let has =
            |peer: &PeerId| self.peers.get(*peer).is_some_and(|topics| topics.iter().any(|t| t.is(topic)));
        self.peers.connected().iter().copied().filter(has).collect()
    }
}

impl Engine for Forest {
    type Frame = PlumtreeFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<PlumtreeFrame, Command>, cx: &mut Cx<'_, PlumtreeFrame>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, .. } => self.link_up(peer, cx),
            Input::LinkDown { peer } => self.link_down(peer),
            Input::Frame { peer, frame } => self.receive(peer, frame, cx),
            Input::Timer(TimerToken(token)) => {
                if let Some(tree) = self.trees.get_mut((token / TIMERS) as usize) {
                    tree.handle(Input::Timer(TimerToken(token)), cx);
                }
            }
            Input::Command(command) => handle_command(self, command, cx),
            Input::DialFailed { .. } => {}
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<PlumtreeFrame>) {
        self.trees.iter().for_each(|tree| tree.assert_invariants(outbox));
    }
}

impl Baseline for Forest {
    fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, PlumtreeFrame>) -> Result<bool, RequestError> {
        let number = self.number(topic).unwrap_or_else(|| {
            let (config, number) = (Arc::clone(&self.config), self.trees.len() as u32);
            let mut tree = Plumtree::numbered(config, self.core.identity.clone(), topic.clone(), number);
            tree.start(cx);
            self.trees.push(tree);
            self.numbers.insert(topic.clone(), number);
            number as usize
        });
        if std::mem::replace(&mut self.trees[number].joined, true) {
            return Ok(false);
        }
        for peer in self.members(topic) {
            self.trees[number].link_up(peer);
        }
        self.announce(topic, true, cx);
        Ok(true)
    }

    fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, PlumtreeFrame>) -> Result<bool, RequestError> {
        let Some(number) = self.number(topic) else { return Ok(false) };
        if !std::mem::replace(&mut self.trees[number].joined, false) {
            return Ok(false);
        }
        for peer in self.members(topic) {
            self.trees[number].link_down(peer);
        }
        self.announce(topic, false, cx);
        Ok(true)
    }

    fn targets(&self, topic: &Topic) -> usize {
        self.tree(topic).map_or(0, |tree| tree.eager.len())
    }

    fn metrics(&self) -> Metrics {
        let mut sum = self.core.metrics.clone();
        self.trees.iter().for_each(|tree| sum.add(&tree.core.metrics));
        sum
    }
}

impl Publisher for Forest {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn prepare(
        &mut self,
        message: &Arc<Message>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> Result<(Owe<PlumtreeFrame>, Option<Event>), RequestError> {
        match self.number(message.topic()).filter(|number| self.trees[*number].joined) {
            Some(number) => self.trees[number].prepare(message, cx),
            None => Err(RequestError::NotJoined { topic: message.topic().clone() }),
        }
    }
}
