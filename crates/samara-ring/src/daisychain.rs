//! A plain daisy chain, as "Daisychaining in the clouds" (2010) describes DAISYCHAIN of JGroups, to compare the ring with.
//!
//! A message goes to the next member with a time to live of N-1 hops. Each member delivers it, takes a hop off, and
//! forwards it until none is left. Own and forwarded messages leave in turn. There is neither membership nor recovery: a
//! link that breaks takes its messages with it, and the chain stands still without any of its members.
//!
//! The post ran below the flow control of `tcp.xml`, and the chain needs some: where all N members fill their links, own messages
//! take half of each link, forwarded ones need (N-2)/(N-1) of it, and their queues would grow without end. Here it is one window for
//! each sender: the last member that gets messages is the predecessor of their sender, and grants it their bytes again.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, PeerId, PeerIdentity};

/// The configuration of a chain, the same at all members.
#[derive(Clone, Debug, PartialEq)]
pub struct DaisyConfig {
    /// The members, each before its successor; they never change.
    pub members: Vec<PeerIdentity>,
    /// Bytes of own messages that may be on their way (`max_credits` of MFC in `tcp.xml` is 2 MB).
    pub window_bytes: u64,
}

const CREDITS: Lane = Lane(0);
const OWN: Lane = Lane(1);
const FORWARDED: Lane = Lane(2);

impl DaisyConfig {
    /// A chain of these members.
    pub fn new(members: Vec<PeerIdentity>) -> Self {
        Self { members, window_bytes: 2_000_000 }
    }

    /// The outbox of a member: own and forwarded messages take turns. Of forwarded ones it takes as many as windows allow.
    pub fn outbox(&self) -> OutboxConfig {
        // A window can be exceeded by one message.
        let bytes = 2 * self.window_bytes * self.members.len() as u64;
        let capacity = LaneCapacity { bytes, ..LaneCapacity::UNBOUNDED };
        let forwarded = LaneConfig { capacity, ..LaneConfig::unbounded("forwarded", 1) };
        let lanes = vec![LaneConfig::unbounded("credits", 0), LaneConfig::unbounded("own", 1), forwarded];
        OutboxConfig { dispatch: Dispatch::PerLink, lanes }
    }
}

/// A frame between neighbours. There is no wire format: these frames exist in simulations alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaisyFrame {
    Message {
        /// The place of its sender among the members.
        origin: u16,
        /// The hops that are left, this one included.
        ttl: u16,
        content: Bytes,
    },
    /// The last member has got messages of the receiver that have so many bytes.
    Credit(u64),
}

impl Frame for DaisyFrame {
    fn encoded_len(&self) -> usize {
        // A kind, the length, and for messages the origin and the hops.
        match self {
            Self::Message { content, .. } => 9 + content.len(),
            Self::Credit(_) => 9,
        }
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Message { content, .. } => content.len(),
            Self::Credit(_) => 0,
        }
    }
}

/// An event for the application of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaisyEvent {
    /// A message.
    Delivered {
        /// Who broadcast it.
        origin: PeerIdentity,
        /// Its content.
        message: Bytes,
    },
    /// The window is open again after [`Refused`](Self::Refused).
    Room,
    /// A message found the window closed.
    Refused,
}

/// The counters of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaisyMetrics {
    /// Messages that were forwarded.
    pub forwarded: u64,
    /// Frames that no honest neighbour sends.
    pub ignored: u64,
    /// Messages that found the queue full and went no further.
    pub dropped: u64,
}

type Cx<'a> = Context<'a, DaisyFrame, DaisyEvent>;

/// A member of a plain daisy chain. See the [module](self).
#[derive(Debug)]
pub struct Daisychain {
    config: Arc<DaisyConfig>,
    place: usize,
    predecessor: Option<PeerId>,
    successor: Option<PeerId>,
    /// Bytes of own messages for which no credit has come.
    on_the_way: u64,
    /// Bytes of the successor's messages that ended here since the last credit.
    ended: u64,
    was_refused: bool,
    metrics: DaisyMetrics,
}

impl Daisychain {
    /// The member with this identity; `None` if it is not among the members.
    pub fn new(config: impl Into<Arc<DaisyConfig>>, identity: &PeerIdentity) -> Option<Self> {
        let config = config.into();
        let place = config.members.iter().position(|member| member == identity)?;
        Some(Self {
            config,
            place,
            predecessor: None,
            successor: None,
            on_the_way: 0,
            ended: 0,
            was_refused: false,
            metrics: DaisyMetrics::default(),
        })
    }

    /// The counters.
    pub fn metrics(&self) -> &DaisyMetrics {
        &self.metrics
    }

    /// The place of the member this many places behind this one.
    fn behind(&self, places: usize) -> usize {
        (self.place + places) % self.config.members.len()
    }

    /// The hops from this member to the one at a place.
    fn hops_to(&self, place: usize) -> usize {
        let members = self.config.members.len();
        (place + members - self.place) % members
    }

    /// Takes a message to be broadcast. Returns false if the window is closed or the successor is not connected;
    /// [`DaisyEvent::Room`] follows.
    pub fn broadcast(&mut self, content: Bytes, cx: &mut Cx<'_>) -> bool {
        let hops = self.config.members.len() - 1;
        if hops > 0 {
            let Some(next) = self.successor.filter(|_| self.on_the_way < self.config.window_bytes) else {
                self.was_refused = true;
                return false;
            };
            self.on_the_way += content.len() as u64;
            let (origin, ttl) = (self.place as u16, hops as u16);
            self.send(next, OWN, DaisyFrame::Message { origin, ttl, content: content.clone() }, cx);
        }
        self.deliver(self.place, content, cx);
        true
    }

    fn send(&mut self, to: PeerId, lane: Lane, frame: DaisyFrame, cx: &mut Cx<'_>) {
        let now = cx.now();
        if cx.outbox().owe(now, to, lane, frame, None, None).is_err() {
            self.metrics.dropped += 1;
        }
    }

    fn deliver(&self, origin: usize, message: Bytes, cx: &mut Cx<'_>) {
        cx.emit(DaisyEvent::Delivered { origin: self.config.members[origin].clone(), message });
    }

    fn on_message(&mut self, origin: u16, ttl: u16, content: Bytes, cx: &mut Cx<'_>) {
        let place = usize::from(origin);
        let is_member = place < self.config.members.len() && place != self.place;
        if !is_member || usize::from(ttl) != self.hops_to(place) {
            self.metrics.ignored += 1;
            return;
        }
        if ttl > 1 {
            if let Some(next) = self.successor {
                self.metrics.forwarded += 1;
                let frame = DaisyFrame::Message { origin, ttl: ttl - 1, content: content.clone() };
                self.send(next, FORWARDED, frame, cx);
            }
        } else {
            self.ended += content.len() as u64;
            if let Some(next) = self.successor.filter(|_| self.ended >= self.config.window_bytes / 4) {
                let ended = std::mem::take(&mut self.ended);
                self.send(next, CREDITS, DaisyFrame::Credit(ended), cx);
            }
        }
        self.deliver(place, content, cx);
    }

    fn offer_room(&mut self, cx: &mut Cx<'_>) {
        if self.on_the_way < self.config.window_bytes && std::mem::take(&mut self.was_refused) {
            cx.emit(DaisyEvent::Room);
        }
    }
}

impl Engine for Daisychain {
    type Frame = DaisyFrame;
    /// A message to be broadcast.
    type Command = Bytes;
    type Event = DaisyEvent;

    fn handle(&mut self, input: Input<DaisyFrame, Bytes>, cx: &mut Cx<'_>) {
        let members = &self.config.members;
        match input {
            // Two members have one link.
            Input::Start if members.len() > 2 || members.len() == 2 && self.place == 0 => {
                cx.dial(members[self.behind(1)].clone());
            }
            Input::LinkUp { peer, info } => {
                if info.identity == members[self.behind(members.len() - 1)] {
                    self.predecessor = Some(peer);
                }
                if info.identity == members[self.behind(1)] {
                    self.successor = Some(peer);
                    self.offer_room(cx);
                }
            }
            Input::LinkDown { peer } => {
                self.predecessor = self.predecessor.filter(|known| *known != peer);
                self.successor = self.successor.filter(|known| *known != peer);
            }
            Input::Frame { peer, .. } if self.predecessor != Some(peer) => self.metrics.ignored += 1,
            Input::Frame { frame: DaisyFrame::Message { origin, ttl, content }, .. } => {
                self.on_message(origin, ttl, content, cx);
            }
            Input::Frame { frame: DaisyFrame::Credit(bytes), .. } => {
                self.on_the_way = self.on_the_way.saturating_sub(bytes);
                self.offer_room(cx);
            }
            Input::Command(content) => {
                if !self.broadcast(content, cx) {
                    cx.emit(DaisyEvent::Refused);
                }
            }
            Input::Start | Input::DialFailed { .. } | Input::Timer(_) => {}
        }
    }
}
