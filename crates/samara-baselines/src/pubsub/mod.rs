//! FloodSub and RandomSub: messages go to peers that have subscribed, to all of them or to some.
//!
//! | file | concern |
//! |---|---|
//! | `route` | whom a message goes to |
//! | `messages` | the way of a message |
//! | `subscriptions` | topics of this node and of its peers, and peers that come and go |
//! | `topics`, `config`, `frame` | tables and types |

mod config;
mod frame;
mod messages;
mod route;
mod subscriptions;
mod topics;

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use samara_engine::{Engine, Input, PeerId, PeerIdentity, PeerKeyed, TimerToken};

use crate::app::{Baseline, Command, Cx, Event, Receipt, RequestError, handle_command};
use crate::common::ConfigError;
use crate::core::Core;
use crate::message::{Message, Topic};
use crate::metrics::Metrics;
use crate::peers::PeerTable;
use topics::{TopicIdx, TopicTable};

pub use config::PubSubConfig;
pub use frame::{RpcFrame, SubOpts};
pub use route::{AtRandom, Everybody, Route};

/// FloodSub as a state machine: every new message goes to all peers that have joined its topic, but not to the one it came
/// from and not to its author ([libp2p specs, `pubsub/README.md`], `floodsub.go` in go-libp2p-pubsub).
///
/// [libp2p specs, `pubsub/README.md`]: https://github.com/libp2p/specs/tree/master/pubsub
pub type FloodSub = PubSub<Everybody>;

/// RandomSub as a state machine: as [`FloodSub`], but every new message goes to `max(6, ceil(sqrt(network size)))` of these
/// peers, drawn at random (`randomsub.go` in go-libp2p-pubsub).
pub type RandomSub = PubSub<AtRandom>;

/// Announcements that found no room are tried again.
const RETRY: TimerToken = TimerToken(0);

/// What [`FloodSub`] and [`RandomSub`] are made of. Driven through [`Engine::handle`], or through [`Baseline`] where the
/// application owns the engine. Its outbox must be made from [`PubSubConfig::outbox_config`].
#[derive(Debug)]
pub struct PubSub<R> {
    core: Core,
    config: Arc<PubSubConfig>,
    route: R,
    topics: TopicTable,
    peers: PeerTable<Peer>,
    by_identity: HashMap<PeerIdentity, PeerId, PeerKeyed>,
    /// All joined topics in one frame, for the links to come; `None` if what is joined has changed since.
    greeting: Option<RpcFrame>,
    retrying: bool,
}

/// A peer with a link.
#[derive(Debug)]
struct Peer {
    identity: PeerIdentity,
    /// Speaks FloodSub, and so gets every message.
    floods: bool,
    /// Topics that it has joined (and that are remembered), sorted.
    topics: Vec<TopicIdx>,
    /// Own topics whose announcement found no room.
    unannounced: Vec<Topic>,
}

impl FloodSub {
    /// A node with this name. It does nothing before [`Input::Start`].
    ///
    /// # Errors
    /// The first impossible value of the configuration.
    pub fn new(config: impl Into<Arc<PubSubConfig>>, identity: PeerIdentity) -> Result<Self, ConfigError> {
        Self::with_route(config, identity, Everybody)
    }
}

impl RandomSub {
    /// A node with this name in a network of about so many nodes. It does nothing before [`Input::Start`].
    ///
    /// # Errors
    /// The first impossible value of the configuration.
    pub fn new(
        config: impl Into<Arc<PubSubConfig>>,
        identity: PeerIdentity,
        network_size: usize,
    ) -> Result<Self, ConfigError> {
        Self::with_route(config, identity, AtRandom::new(network_size))
    }

    /// How many peers a message goes to, if there are so many.
    pub fn fanout(&self) -> usize {
        self.route.fanout()
    }
}

impl<R: Route> PubSub<R> {
    /// A node with this name that chooses recipients in its own way.
    ///
    /// # Errors
    /// The first impossible value of the configuration.
    pub fn with_route(
        config: impl Into<Arc<PubSubConfig>>,
        identity: PeerIdentity,
        route: R,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            core: Core::new(&config.common, identity),
            config,
            route,
            topics: TopicTable::new(PeerKeyed::unset()),
            peers: PeerTable::new(),
            by_identity: HashMap::with_hasher(PeerKeyed::unset()),
            greeting: None,
            retrying: false,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<PubSubConfig> {
        &self.config
    }

    /// The name of this node.
    pub fn identity(&self) -> &PeerIdentity {
        &self.core.identity
    }

    /// The peers that have joined a topic, sorted.
    pub fn topic_peers(&mut self, topic: &Topic) -> &[PeerId] {
        self.topics.find(topic).map_or(&[], |topic| self.topics.get(topic).subscribers.as_slice())
    }

    /// How much is remembered, in entries: topics, and ids that were seen.
    pub fn sizes(&self) -> (usize, usize) {
        (self.topics.len(), self.core.seen.len())
    }

    fn start(&mut self, cx: &mut Cx<'_, RpcFrame>) {
        self.core.start(cx);
        // Peers choose the keys of these tables.
        self.topics = TopicTable::new(cx.rng().table_hasher());
        self.by_identity = HashMap::with_hasher(cx.rng().table_hasher());
    }
}

impl<R: Route> Engine for PubSub<R> {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Cx<'_, RpcFrame>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, &info, cx),
            Input::LinkDown { peer } => self.link_down(peer),
            Input::Frame { peer, frame } => {
                if !self.core.lets_in(self.peers.contains(peer), &frame) {
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
}

impl<R: Route> Baseline for PubSub<R> {
    fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, RpcFrame>) -> Result<bool, RequestError> {
        self.join(topic, cx)
    }

    fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, RpcFrame>) -> Result<bool, RequestError> {
        Ok(self.leave(topic, cx))
    }

    fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message> {
        self.core.compose(topic, data)
    }

    fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, RpcFrame>,
    ) -> Result<Receipt, RequestError> {
        self.publish_own(message, cx)
    }

    fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }
}
