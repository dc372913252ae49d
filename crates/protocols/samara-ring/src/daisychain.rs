//! A plain daisy chain, as "Daisychaining in the clouds" (2010) describes DAISYCHAIN of JGroups: a
//! baseline for the ring.
//!
//! A message goes to the next member with a time to live of N-1 hops. Each member delivers it,
//! decrements the hops, and forwards it until none is left. Own and forwarded messages alternate.
//! There is neither membership nor recovery: a broken link loses its messages, and the chain stops
//! if any member is missing.
//!
//! The post used the flow control of `tcp.xml`, and the chain needs some: where all N members fill
//! their links, own messages take half of each link, forwarded ones need (N-2)/(N-1) of it, and
//! their queues would grow without end. Here each sender has one window: the last member to receive
//! a message is the predecessor of its sender, and returns its bytes as credit.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, PeerId, PeerIdentity};

/// The configuration of a chain, the same at all members.
#[derive(Clone, Debug, PartialEq)]
pub struct DaisyConfig {
    /// The members in ring order, each before its successor. They never change.
    pub members: Vec<PeerIdentity>,
    /// Maximum bytes of own messages in flight (`max_credits` of MFC in `tcp.xml` is 2 MB).
    pub window_bytes: u64,
}

const CREDITS: Lane = Lane(0);
const OWN: Lane = Lane(1);
const FORWARDED: Lane = Lane(2);

impl DaisyConfig {
    pub fn new(members: Vec<PeerIdentity>) -> Self {
        Self { members, window_bytes: 2_000_000 }
    }

    /// Returns the outbox of a member. Own and forwarded messages alternate. The capacity for
    /// forwarded messages is what the windows allow.
    pub fn outbox(&self) -> OutboxConfig {
        // One message can exceed a window.
        let bytes = 2 * self.window_bytes * self.members.len() as u64;
        let capacity = LaneCapacity { bytes, ..LaneCapacity::UNBOUNDED };
        let forwarded = LaneConfig { capacity, ..LaneConfig::unbounded("forwarded", 1) };
        let lanes = vec![LaneConfig::unbounded("credits", 0), LaneConfig::unbounded("own", 1), forwarded];
        OutboxConfig { dispatch: Dispatch::PerLink, lanes }
    }
}

/// A frame between neighbours. It has no wire format of its own: only simulations and hosts of
/// experiments have these frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub enum DaisyFrame {
    /// A message of the member at place `origin`. `ttl` is the number of hops left, this one
    /// included.
    Message {
        origin: u16,
        ttl: u16,
        #[cfg_attr(feature = "config", serde(with = "samara_engine::octets"))]
        content: Bytes,
    },
    /// Bytes of the receiver's messages that have reached the last member.
    Credit(u64),
}

impl Frame for DaisyFrame {
    fn encoded_len(&self) -> usize {
        // The kind, the length, and for messages the origin and the hops.
        9 + self.payload_len()
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Message { content, .. } => content.len(),
            Self::Credit(_) => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaisyEvent {
    Delivered {
        origin: PeerIdentity,
        message: Bytes,
    },
    /// The window is open again after [`Refused`](Self::Refused).
    Room,
    /// The window was closed when a message was broadcast.
    Refused,
}

samara_engine::counters! {
    /// Counters of one member since its start.
    #[derive(Eq)]
    pub struct DaisyMetrics {
        /// Messages that were passed on.
        pub forwarded: u64,
        /// Frames that no honest neighbour sends.
        pub ignored: u64,
        /// Messages that were dropped because the queue was full.
        pub queue_drops: u64,
    }
}

type Cx<'a> = Context<'a, DaisyFrame, DaisyEvent>;

/// A member of a plain daisy chain. See the [module](self).
#[derive(Debug)]
pub struct Daisychain {
    config: Arc<DaisyConfig>,
    place: usize,
    predecessor: Option<PeerId>,
    successor: Option<PeerId>,
    /// Bytes of own messages without credit so far.
    in_flight: u64,
    /// Bytes of the successor's messages that ended here since the last credit was sent.
    ended: u64,
    was_refused: bool,
    metrics: DaisyMetrics,
}

impl Daisychain {
    /// Returns the member with this identity, or `None` if it is not among the members.
    pub fn new(config: impl Into<Arc<DaisyConfig>>, identity: &PeerIdentity) -> Option<Self> {
        let config = config.into();
        let place = config.members.iter().position(|member| member == identity)?;
        Some(Self {
            config,
            place,
            predecessor: None,
            successor: None,
            in_flight: 0,
            ended: 0,
            was_refused: false,
            metrics: DaisyMetrics::default(),
        })
    }

    pub fn metrics(&self) -> &DaisyMetrics {
        &self.metrics
    }

    /// Returns the place of the member this many places after this one.
    fn behind(&self, places: usize) -> usize {
        (self.place + places) % self.config.members.len()
    }

    /// Returns the number of hops from this member to the one at `place`.
    fn hops_to(&self, place: usize) -> usize {
        let members = self.config.members.len();
        (place + members - self.place) % members
    }

    /// Broadcasts a message. Returns false if the window is closed or the successor is not
    /// connected; [`DaisyEvent::Room`] follows.
    pub fn broadcast(&mut self, content: Bytes, cx: &mut Cx<'_>) -> bool {
        let hops = self.config.members.len() - 1;
        if hops > 0 {
            let Some(next) = self.successor.filter(|_| self.in_flight < self.config.window_bytes) else {
                self.was_refused = true;
                return false;
            };
            self.in_flight += content.len() as u64;
            let (origin, ttl) = (self.place as u16, hops as u16);
            self.send(next, OWN, DaisyFrame::Message { origin, ttl, content: content.clone() }, cx);
        }
        self.deliver(self.place, content, cx);
        true
    }

    fn send(&mut self, to: PeerId, lane: Lane, frame: DaisyFrame, cx: &mut Cx<'_>) {
        let now = cx.now();
        if cx.outbox().owe(now, to, lane, frame, None, None).is_err() {
            self.metrics.queue_drops += 1;
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
        if self.in_flight < self.config.window_bytes && std::mem::take(&mut self.was_refused) {
            cx.emit(DaisyEvent::Room);
        }
    }
}

impl Engine for Daisychain {
    type Frame = DaisyFrame;
    type Command = Bytes;
    type Event = DaisyEvent;

    fn handle(&mut self, input: Input<DaisyFrame, Bytes>, cx: &mut Cx<'_>) {
        let members = &self.config.members;
        match input {
            // Two members share one link.
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
                self.in_flight = self.in_flight.saturating_sub(bytes);
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
