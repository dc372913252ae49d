//! Plumtree: messages travel in full along a tree, and are announced on all other links.
//!
//! | file | concern |
//! |---|---|
//! | `gossip` | the way of a message, and the tree |
//! | `lazy` | announcements: sending them, and asking for what they announce |
//! | `missing`, `cache` | messages that have been announced, messages that can be asked for |
//! | `config`, `frame` | types |

mod cache;
mod config;
mod frame;
mod gossip;
mod lazy;
mod missing;

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Engine, Input, PeerId, PeerIdentity, PeerKeyed, Time, TimerToken};

use crate::app::{Baseline, Command, Cx, Event, Receipt, RequestError, handle_command};
use crate::common::ConfigError;
use crate::core::Core;
use crate::message::{Message, MessageId, Topic};
use crate::metrics::{Ignored, Metrics};
use crate::peers::{PeerSet, PeerTable};
use cache::Cache;
use missing::Missing;

pub use config::PlumtreeConfig;
pub use frame::{Graft, IHave, PlumtreeFrame};

/// The time of a message that has not come may be over.
const GRAFT: TimerToken = TimerToken(0);
/// Collected announcements leave.
const DISPATCH: TimerToken = TimerToken(1);

/// A Plumtree node as a state machine (Leitão, Pereira, Rodrigues: "Epidemic Broadcast Trees", SRDS 2007).
///
/// It serves one topic over a **static neighbour set**: its neighbours are the links that the driver gives it, and all of
/// them take part. There is no membership protocol (the paper runs over HyParView), nothing is dialled and nothing is
/// closed. All neighbours are eager when their links come up.
///
/// As in the paper and in iroh-gossip all senders share one tree. It forms and heals while messages come one after another,
/// or from one sender. Messages of several senders that are on their way at once prune different links of the same cycle, so
/// that a tree that has not settled yet stays unsettled under such a load: nothing is lost, but copies are redundant.
///
/// Driven through [`Engine::handle`], or through [`Baseline`] where the application owns the engine. Its outbox must be made
/// from [`PlumtreeConfig::outbox_config`]. A node passes messages on from the start; joining the topic only decides whether
/// the application is told of them.
#[derive(Debug)]
pub struct Plumtree {
    core: Core,
    config: Arc<PlumtreeConfig>,
    topic: Topic,
    joined: bool,
    peers: PeerTable<Neighbour>,
    /// Neighbours that get messages in full.
    eager: PeerSet,
    /// The other ones, which get announcements.
    lazy: PeerSet,
    cache: Cache,
    missing: Missing,
    /// The earliest timer for missing messages that is set.
    graft_timer: Option<Time>,
    dispatching: bool,
}

/// A peer with a link.
#[derive(Debug, Default)]
struct Neighbour {
    /// Announcements for the next dispatch.
    announcements: Vec<(MessageId, u32)>,
    /// The second for which messages by GRAFT are counted, and how many there were.
    grafts: (u64, u32),
}

impl Plumtree {
    /// A node with this name on this topic. It does nothing before [`Input::Start`].
    ///
    /// # Errors
    /// The first impossible value of the configuration.
    pub fn new(
        config: impl Into<Arc<PlumtreeConfig>>,
        identity: PeerIdentity,
        topic: Topic,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            core: Core::new(&config.common, identity),
            topic,
            joined: false,
            peers: PeerTable::new(),
            eager: PeerSet::default(),
            lazy: PeerSet::default(),
            cache: Cache::new(config.cache_ttl, config.cache_messages_max, config.cache_bytes_max),
            missing: Self::nothing_missing(&config, PeerKeyed::unset()),
            graft_timer: None,
            dispatching: false,
            config,
        })
    }

    fn nothing_missing(config: &PlumtreeConfig, hasher: PeerKeyed) -> Missing {
        Missing::new(
            config.graft_timeout,
            config.graft_retry,
            config.missing_max,
            config.missing_per_peer_max,
            hasher,
        )
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<PlumtreeConfig> {
        &self.config
    }

    /// The name of this node.
    pub fn identity(&self) -> &PeerIdentity {
        &self.core.identity
    }

    /// Neighbours that get messages in full, sorted.
    pub fn eager_peers(&self) -> &[PeerId] {
        self.eager.as_slice()
    }

    /// Neighbours that get announcements, sorted.
    pub fn lazy_peers(&self) -> &[PeerId] {
        self.lazy.as_slice()
    }

    /// How much is remembered.
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
        self.missing = Self::nothing_missing(&self.config, cx.rng().table_hasher());
    }

    fn link_up(&mut self, peer: PeerId) {
        // A driver that reports a link twice must not double what hangs on it.
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
        if !self.core.lets_in(self.peers.contains(from), &frame) {
            return;
        }
        if !frame.topic().is(&self.topic) {
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
            Input::Timer(GRAFT) => self.graft_missing(cx),
            Input::Timer(DISPATCH) => self.dispatch(cx),
            Input::Command(command) => handle_command(self, command, cx),
            Input::Timer(_) | Input::DialFailed { .. } => {}
        }
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

    fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message> {
        self.core.compose(topic, data)
    }

    fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> Result<Receipt, RequestError> {
        self.check_topic(message.topic())?;
        self.broadcast(message, cx)
    }

    fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }
}

/// How much a node remembers, in entries. See [`Plumtree::sizes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Ids that were seen.
    pub seen: usize,
    /// Messages in full.
    pub cached: usize,
    /// Messages that were announced and have not come.
    pub missing: usize,
    /// Deadlines for them, also such that do not hold any more.
    pub deadlines: usize,
}
