//! DAISYCHAIN of JGroups with the protocols of `tcp.xml` around it: the setting of "Daisychaining in
//! the clouds" (2010), to compare the ring with.
//!
//! Modelled from the sources of JGroups of 13 August 2010, the day of the post:
//!
//! - **DAISYCHAIN** ([`Path`]): a multicast goes to the next member of the view with a time to live
//!   of N-1 hops; each member decrements it, forwards the message while hops are left, and delivers
//!   it. It neither numbers messages nor looks for duplicates. Since October 2021 (JGroups 5.2) there
//!   is no time to live: a member forwards unless its successor is the original sender.
//! - A member without a view bypasses the chain: the transport sends its multicasts N-1 times.
//! - **NAKACK**: sequence numbers for each sender. A receiver requests the numbers of a gap after 300
//!   ms, and again after 600, 1,200, 2,400 and 4,800 ms, from a member that [`Requests`] names.
//! - **FC**: 2 MB of credits for each receiver. A receiver grants new credits once it has consumed
//!   60 % of them (`min_threshold`), and a sender waits for its slowest receiver.
//! - **GMS**: the coordinator sends each new view. The successor of a member follows from the view.
//!
//! Everything that a member sends to another shares one queue, as one connection does: credits wait
//! behind messages.
//!
//! Assumptions where the real protocols differ: views and suspicions travel directly (in JGroups they
//! are multicasts, and so travel into a broken chain; [`VERIFY`] is the only delay here). Each member
//! sees all connections close (FD_SOCK watches the successor only). A digest every second stands for
//! those of STABLE. Bundling, fragmentation, merges and thread pools are not modelled.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, PeerId, PeerIdentity, Time, TimerToken};

/// `max_credits` of FC.
const CREDITS: u64 = 2_000_000;
/// Consumed bytes after which a receiver grants new credits: `min_threshold` of FC, 0.6.
const GRANT: u64 = CREDITS / 10 * 6;
/// First and last wait before a request (`retransmit_timeout` of NAKACK).
const REQUEST_AFTER: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(4_800)];
/// Time from a closed connection to the view without the member (`timeout` of VERIFY_SUSPECT).
pub const VERIFY: Duration = Duration::from_millis(1_500);
/// Bytes of each sender that a member keeps for requests. A receiver that has not delivered them
/// has granted no credits for them, so no more than `CREDITS` can be missing anywhere.
const KEPT: u64 = 2 * CREDITS;
/// Interval of a member's checks of its gaps and suspicions, in JGroups timers of their own.
const TICK: Duration = Duration::from_millis(50);
const DIGEST: Duration = Duration::from_secs(1);
/// Bytes of a message besides its content: addresses (16 bytes and a type each), headers of NAKACK,
/// FC and DAISYCHAIN, flags and lengths. An estimate; at 8 KB it is 0.7 %.
const OVERHEAD: usize = 60;

samara_engine::names! {
    /// The path of a multicast.
    pub enum Path {
        /// The sender sends it to each member: TCP without DAISYCHAIN.
        Direct = "direct",
        /// Along the chain, with a time to live of N-1 hops: DAISYCHAIN from 2010 to 2021.
        TimeToLive = "time-to-live",
        /// Along the chain, until the successor is the original sender: DAISYCHAIN since 2021.
        UntilOrigin = "until-origin",
    }
}

samara_engine::names! {
    /// The member that a request for missing messages goes to.
    #[derive(Default)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
    #[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
    pub enum Requests {
        /// The original sender, which sends the messages to the requester: the default of NAKACK.
        #[default]
        Origin = "origin",
        /// All members, by a multicast (`use_mcast_xmit_req`). Each one that has the messages sends
        /// them to the requester.
        Ring = "ring",
        /// The predecessor, which sends the messages along the chain again: an idea of the post's
        /// author in a comment.
        Predecessor = "predecessor",
    }
}

/// The configuration of a group, the same at all members.
#[derive(Clone, Debug, PartialEq)]
pub struct JgroupsConfig {
    /// The members of the first view, by rank. Processes that start at time 0 begin with it; later
    /// ones join.
    pub members: Vec<PeerIdentity>,
    pub path: Path,
    pub requests: Requests,
}

impl JgroupsConfig {
    pub fn outbox() -> OutboxConfig {
        OutboxConfig { dispatch: Dispatch::PerLink, lanes: vec![LaneConfig::unbounded("messages", 0)] }
    }
}

/// A process at a place of [`JgroupsConfig::members`]. A process that starts again is another
/// member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Address {
    pub place: u16,
    /// When it started, in nanoseconds.
    pub life: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct JgroupsView {
    pub id: u64,
    /// The members by rank; the first is the coordinator.
    pub members: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub enum Multicast {
    /// A message with its number; 0 without a view, which nobody puts in order.
    Message(u64, #[cfg_attr(feature = "config", serde(with = "samara_engine::octets"))] Bytes),
    /// Asks for messages of this sender, the last one included.
    Request { of: Address, first: u64, last: u64 },
    /// The highest number of its sender.
    Digest(u64),
}

impl Multicast {
    fn content_len(&self) -> usize {
        match self {
            Self::Message(_, content) => content.len(),
            Self::Request { .. } | Self::Digest(_) => 0,
        }
    }
}

/// A frame between members. It has no wire format of its own: only simulations and hosts of
/// experiments have these frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub enum JgroupsFrame {
    /// A multicast on the chain. `ttl` is the number of hops left, this one included.
    Chained {
        origin: Address,
        ttl: u16,
        multicast: Arc<Multicast>,
    },
    /// A multicast for the receiver only.
    Direct {
        origin: Address,
        multicast: Arc<Multicast>,
    },
    /// Bytes of the receiver that the sender has consumed in total.
    Credit(u64),
    /// The sender, a process without a view that started at this time, wants to join.
    Join(u64),
    /// The view, and for a joiner the last delivered number of each member.
    View(Arc<JgroupsView>, Option<Arc<[u64]>>),
    Leave,
    Goodbye,
}

impl Frame for JgroupsFrame {
    fn encoded_len(&self) -> usize {
        OVERHEAD
            + self.payload_len()
            + match self {
                Self::View(view, digest) => {
                    17 * view.members.len() + digest.as_ref().map_or(0, |d| 8 * d.len())
                }
                _ => 0,
            }
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Chained { multicast, .. } | Self::Direct { multicast, .. } => multicast.content_len(),
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub enum JgroupsCommand {
    Broadcast(Bytes),
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JgroupsEvent {
    Delivered {
        origin: PeerIdentity,
        message: Bytes,
    },
    Suspected(PeerIdentity),
    /// There are credits again after [`Refused`](Self::Refused).
    Room,
    /// There were no credits when a message was broadcast.
    Refused,
    Left,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JgroupsMetrics {
    /// Messages forwarded along the chain.
    pub forwarded: u64,
    /// Requests sent by this member.
    pub requests: u64,
    /// Messages sent in answer to requests.
    pub resent: u64,
    pub views: u64,
    /// Messages of senders that are not in the view: not delivered, but forwarded.
    pub strangers: u64,
}

type Cx<'a> = Context<'a, JgroupsFrame, JgroupsEvent>;

/// Messages of one sender by number, without holes. The oldest go beyond [`KEPT`] bytes.
#[derive(Debug, Default)]
struct Kept {
    /// The number of the last message that is gone.
    gone: u64,
    messages: VecDeque<Arc<Multicast>>,
    bytes: u64,
}

impl Kept {
    fn push(&mut self, message: Arc<Multicast>) {
        self.bytes += message.content_len() as u64;
        self.messages.push_back(message);
        while self.bytes > KEPT
            && let Some(oldest) = self.messages.pop_front()
        {
            self.bytes -= oldest.content_len() as u64;
            self.gone += 1;
        }
    }

    fn get(&self, number: u64) -> Option<&Arc<Multicast>> {
        self.messages.get(usize::try_from(number.checked_sub(self.gone + 1)?).ok()?)
    }
}

/// Numbers that were missing when a later one arrived.
#[derive(Debug)]
struct Gap {
    numbers: RangeInclusive<u64>,
    due: Time,
    wait: Duration,
}

/// The messages of one sender at a receiver.
#[derive(Debug, Default)]
struct Window {
    /// All messages up to this number were delivered.
    delivered: u64,
    waiting: BTreeMap<u64, Arc<Multicast>>,
    highest: u64,
    gaps: Vec<Gap>,
    /// Delivered messages, if this member answers requests for them.
    kept: Kept,
    consumed: u64,
    granted: u64,
}

impl Window {
    fn after(delivered: u64) -> Self {
        let kept = Kept { gone: delivered, ..Kept::default() };
        Self { delivered, highest: delivered, kept, ..Self::default() }
    }

    /// Notes that the sender has sent everything up to this number.
    fn hear_of(&mut self, number: u64, now: Time) {
        if number > self.highest {
            let [wait, _] = REQUEST_AFTER;
            self.gaps.push(Gap { numbers: self.highest + 1..=number, due: now + wait, wait });
            self.highest = number;
        }
    }

    fn insert(&mut self, number: u64, message: &Arc<Multicast>, now: Time) {
        self.hear_of(number - 1, now);
        self.highest = self.highest.max(number);
        if number > self.delivered {
            self.waiting.entry(number).or_insert_with(|| Arc::clone(message));
        }
    }

    fn next(&mut self) -> Option<Arc<Multicast>> {
        let next = self.waiting.remove(&(self.delivered + 1))?;
        self.delivered += 1;
        Some(next)
    }

    /// Returns the ranges of missing numbers whose time has come, and forgets gaps that were filled.
    fn due(&mut self, now: Time) -> Vec<(u64, u64)> {
        let (mut ranges, [_, longest]): (Vec<(u64, u64)>, _) = (Vec::new(), REQUEST_AFTER);
        self.gaps.retain_mut(|gap| {
            if gap.due > now {
                return true;
            }
            let known = ranges.len();
            for number in gap.numbers.clone() {
                if number <= self.delivered || self.waiting.contains_key(&number) {
                    continue;
                }
                match ranges[known..].last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => ranges.push((number, number)),
                }
            }
            gap.wait = (2 * gap.wait).min(longest);
            gap.due = now + gap.wait;
            ranges.len() > known
        });
        ranges
    }
}

/// What a sender knows of a receiver.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    /// Bytes sent before the receiver was a member.
    base: u64,
    consumed: u64,
}

/// A member. See the [module](self).
#[derive(Debug)]
pub struct Jgroups {
    config: Arc<JgroupsConfig>,
    me: Address,
    view: Option<Arc<JgroupsView>>,
    /// The connections to the processes at all places.
    peers: Vec<Option<PeerId>>,
    windows: BTreeMap<Address, Window>,
    sent: Kept,
    last: u64,
    sent_bytes: u64,
    receivers: BTreeMap<Address, Receiver>,
    suspects: BTreeMap<Address, Time>,
    next_digest: Time,
    was_refused: bool,
    has_left: bool,
    metrics: JgroupsMetrics,
}

impl Jgroups {
    /// Returns the member with this identity, or `None` if it is not among the members.
    pub fn new(config: impl Into<Arc<JgroupsConfig>>, identity: &PeerIdentity) -> Option<Self> {
        let config = config.into();
        let place = config.members.iter().position(|member| member == identity)? as u16;
        Some(Self {
            peers: vec![None; config.members.len()],
            config,
            me: Address { place, life: 0 },
            view: None,
            windows: BTreeMap::new(),
            sent: Kept::default(),
            last: 0,
            sent_bytes: 0,
            receivers: BTreeMap::new(),
            suspects: BTreeMap::new(),
            next_digest: Time::ZERO,
            was_refused: false,
            has_left: false,
            metrics: JgroupsMetrics::default(),
        })
    }

    pub fn metrics(&self) -> &JgroupsMetrics {
        &self.metrics
    }

    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    pub fn view(&self) -> Option<&JgroupsView> {
        self.view.as_deref()
    }

    // ---- the chain ----

    /// Returns the neighbour on the chain this many places after this member, unless it is alone.
    fn neighbour(&self, places: usize) -> Option<Address> {
        let members = &self.view.as_ref()?.members;
        let place = members.iter().position(|member| *member == self.me)?;
        Some(members[(place + places) % members.len()]).filter(|member| *member != self.me)
    }

    fn successor(&self) -> Option<Address> {
        self.neighbour(1)
    }

    fn predecessor(&self) -> Option<Address> {
        self.neighbour(self.view.as_ref()?.members.len() - 1)
    }

    fn send(&self, to: Address, frame: JgroupsFrame, cx: &mut Cx<'_>) {
        if let Some(peer) = self.peers[usize::from(to.place)] {
            let now = cx.now();
            // A frame for a connection that has closed is lost.
            let _ = cx.outbox().owe(now, peer, Lane(0), frame, None, None);
        }
    }

    fn others(&self) -> Vec<Address> {
        let members = self.view.iter().flat_map(|view| &view.members);
        members.copied().filter(|member| *member != self.me).collect()
    }

    /// Sends a multicast to all other members. Without a view it bypasses the chain.
    fn multicast(&self, multicast: Multicast, cx: &mut Cx<'_>) {
        let (origin, multicast) = (self.me, Arc::new(multicast));
        let direct = || JgroupsFrame::Direct { origin, multicast: Arc::clone(&multicast) };
        let Some(view) = &self.view else {
            for place in (0..self.peers.len() as u16).filter(|place| *place != self.me.place) {
                self.send(Address { place, life: 0 }, direct(), cx);
            }
            return;
        };
        if self.config.path == Path::Direct {
            self.others().into_iter().for_each(|member| self.send(member, direct(), cx));
        } else if let Some(next) = self.successor() {
            let ttl = (view.members.len() - 1) as u16;
            self.send(next, JgroupsFrame::Chained { origin, ttl, multicast }, cx);
        }
    }

    /// Forwards a multicast from the chain, and then delivers it. Forwarding depends neither on its
    /// sender nor on whether it was here before.
    fn on_chained(&mut self, origin: Address, ttl: u16, multicast: &Arc<Multicast>, cx: &mut Cx<'_>) {
        let ttl = ttl.saturating_sub(1);
        let next = self.successor().filter(|next| match self.config.path {
            Path::UntilOrigin => *next != origin,
            Path::Direct | Path::TimeToLive => ttl > 0,
        });
        if let Some(next) = next {
            self.metrics.forwarded += u64::from(matches!(**multicast, Multicast::Message(..)));
            let multicast = Arc::clone(multicast);
            self.send(next, JgroupsFrame::Chained { origin, ttl, multicast }, cx);
        }
        self.on_multicast(origin, multicast, cx);
    }

    // ---- NAKACK and FC ----

    /// Broadcasts a message. Returns false without credits; [`JgroupsEvent::Room`] follows.
    pub fn broadcast(&mut self, content: Bytes, cx: &mut Cx<'_>) -> bool {
        let number = if self.view.is_some() {
            if !self.has_credits(content.len() as u64) {
                self.was_refused = true;
                return false;
            }
            self.last += 1;
            self.sent_bytes += content.len() as u64;
            self.sent.push(Arc::new(Multicast::Message(self.last, content.clone())));
            self.last
        } else {
            0
        };
        self.multicast(Multicast::Message(number, content.clone()), cx);
        self.deliver(self.me, content, cx);
        true
    }

    /// Returns true if every receiver has credits for this many bytes.
    fn has_credits(&self, len: u64) -> bool {
        let left = |receiver: &Receiver| {
            (CREDITS + receiver.base + receiver.consumed).saturating_sub(self.sent_bytes)
        };
        self.receivers.values().all(|receiver| left(receiver) >= len.min(CREDITS))
    }

    fn offer_room(&mut self, cx: &mut Cx<'_>) {
        if self.was_refused && self.has_credits(1) {
            self.was_refused = false;
            cx.emit(JgroupsEvent::Room);
        }
    }

    fn deliver(&self, origin: Address, message: Bytes, cx: &mut Cx<'_>) {
        let origin = self.config.members[usize::from(origin.place)].clone();
        cx.emit(JgroupsEvent::Delivered { origin, message });
    }

    fn on_multicast(&mut self, origin: Address, multicast: &Arc<Multicast>, cx: &mut Cx<'_>) {
        match &**multicast {
            Multicast::Message(0, content) => self.deliver(origin, content.clone(), cx),
            Multicast::Message(number, _) => self.on_message(origin, *number, multicast, cx),
            Multicast::Request { of, first, last } => self.answer(origin, *of, *first..=*last, cx),
            Multicast::Digest(last) => {
                if let Some(window) = self.windows.get_mut(&origin) {
                    window.hear_of(*last, cx.now());
                    // The sender may have missed the last grant.
                    let granted = window.granted;
                    self.send(origin, JgroupsFrame::Credit(granted), cx);
                }
            }
        }
    }

    fn on_message(&mut self, origin: Address, number: u64, message: &Arc<Multicast>, cx: &mut Cx<'_>) {
        let keeps = self.config.requests != Requests::Origin;
        let Some(window) = self.windows.get_mut(&origin) else {
            self.metrics.strangers += u64::from(origin != self.me);
            return;
        };
        window.insert(number, message, cx.now());
        let mut delivered = Vec::new();
        while let Some(next) = window.next() {
            if let Multicast::Message(_, content) = &*next {
                window.consumed += content.len() as u64;
                delivered.push(content.clone());
            }
            if keeps {
                window.kept.push(next);
            }
        }
        let grant = (window.consumed - window.granted >= GRANT).then_some(window.consumed);
        window.granted = grant.unwrap_or(window.granted);
        delivered.into_iter().for_each(|content| self.deliver(origin, content, cx));
        if let Some(consumed) = grant {
            self.send(origin, JgroupsFrame::Credit(consumed), cx);
        }
    }

    /// Sends the requested messages that this member has.
    fn answer(&mut self, to: Address, of: Address, numbers: RangeInclusive<u64>, cx: &mut Cx<'_>) {
        let window = self.windows.get(&of);
        let find = |number| {
            let kept = if of == self.me { Some(&self.sent) } else { window.map(|window| &window.kept) };
            kept?.get(number).or_else(|| window?.waiting.get(&number)).cloned()
        };
        let found: Vec<Arc<Multicast>> = numbers.filter_map(find).collect();
        self.metrics.resent += found.len() as u64;
        let hops = self.view.as_ref().and_then(|view| {
            let place = |address| view.members.iter().position(|member| *member == address);
            let (of, to, members) = (place(of)?, place(to)?, view.members.len());
            Some(((of + members - to) % members) as u16)
        });
        for multicast in found {
            let along = self.config.requests == Requests::Predecessor && self.successor() == Some(to);
            let frame = match hops.filter(|_| along) {
                Some(ttl) => JgroupsFrame::Chained { origin: of, ttl, multicast },
                None => JgroupsFrame::Direct { origin: of, multicast },
            };
            self.send(to, frame, cx);
        }
    }

    fn request_missing(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let due = |(of, window): (&Address, &mut Window)| {
            window.due(now).into_iter().map(move |(first, last)| (*of, first, last)).collect::<Vec<_>>()
        };
        let requests: Vec<_> = self.windows.iter_mut().flat_map(due).collect();
        self.metrics.requests += requests.len() as u64;
        for (of, first, last) in requests {
            let request = Multicast::Request { of, first, last };
            let to = match self.config.requests {
                Requests::Ring => {
                    self.multicast(request, cx);
                    continue;
                }
                Requests::Origin => Some(of),
                Requests::Predecessor => self.predecessor(),
            };
            if let Some(to) = to {
                self.send(to, JgroupsFrame::Direct { origin: self.me, multicast: Arc::new(request) }, cx);
            }
        }
    }

    // ---- GMS ----

    fn install(&mut self, view: &Arc<JgroupsView>, digest: Option<&[u64]>, cx: &mut Cx<'_>) {
        let is_newer = self.view.as_ref().is_none_or(|current| current.id < view.id);
        if !is_newer || !view.members.contains(&self.me) {
            return;
        }
        // Messages that are missing of a former member stay missing.
        self.windows.retain(|member, _| view.members.contains(member));
        self.receivers.retain(|member, _| view.members.contains(member));
        self.suspects.retain(|member, _| view.members.contains(member));
        for (rank, member) in view.members.iter().enumerate().filter(|(_, member)| **member != self.me) {
            let delivered = digest.map_or(0, |digest| digest[rank]);
            self.windows.entry(*member).or_insert_with(|| Window::after(delivered));
            self.receivers.entry(*member).or_insert(Receiver { base: self.sent_bytes, consumed: 0 });
        }
        self.view = Some(Arc::clone(view));
        self.metrics.views += 1;
        self.offer_room(cx);
    }

    /// Returns true if this is the first member that is not suspected. The joiner at a place is not
    /// the member that was there.
    fn is_coordinator(&self, joiner: Option<Address>) -> bool {
        let mut members = self.view.iter().flat_map(|view| &view.members);
        let is_there = |member: &&Address| {
            !self.suspects.contains_key(member) && joiner.is_none_or(|joiner| joiner.place != member.place)
        };
        members.find(is_there) == Some(&self.me)
    }

    /// Installs a view of these members here and at all others, as the coordinator.
    fn propose(&mut self, members: Vec<Address>, joiner: Option<Address>, cx: &mut Cx<'_>) {
        let id = self.view.as_ref().map_or(0, |view| view.id) + 1;
        let view = Arc::new(JgroupsView { id, members });
        self.install(&view, None, cx);
        let delivered = |member: &Address| match self.windows.get(member) {
            Some(window) => window.delivered,
            None => self.last,
        };
        let digest: Arc<[u64]> = view.members.iter().map(delivered).collect();
        for member in self.others() {
            let digest = (Some(member) == joiner).then(|| Arc::clone(&digest));
            self.send(member, JgroupsFrame::View(Arc::clone(&view), digest), cx);
        }
    }

    fn suspect(&mut self, place: u16, cx: &mut Cx<'_>) {
        let due = cx.now() + VERIFY;
        for member in self.others().into_iter().filter(|member| member.place == place) {
            if self.suspects.insert(member, due).is_none() {
                cx.emit(JgroupsEvent::Suspected(self.config.members[usize::from(place)].clone()));
            }
        }
    }

    fn remove_suspects(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.is_coordinator(None) && self.suspects.values().any(|due| *due <= now) {
            let Some(view) = &self.view else { return };
            let stays = |member: &Address| self.suspects.get(member).is_none_or(|due| *due > now);
            let members = view.members.iter().copied().filter(stays).collect();
            self.propose(members, None, cx);
        }
    }

    fn on_join(&mut self, joiner: Address, cx: &mut Cx<'_>) {
        if !self.is_coordinator(Some(joiner)) {
            return;
        }
        // An earlier process at the same place is gone.
        let mut members = self.others();
        members.retain(|member| member.place != joiner.place);
        members.insert(0, self.me);
        members.push(joiner);
        self.propose(members, Some(joiner), cx);
    }

    fn on_tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + TICK, TimerToken(0));
        self.request_missing(cx);
        self.remove_suspects(cx);
        if now >= self.next_digest {
            self.next_digest = now + DIGEST;
            if self.view.is_some() {
                self.multicast(Multicast::Digest(self.last), cx);
            } else {
                let places = (0..self.peers.len() as u16).filter(|place| *place != self.me.place);
                let join = JgroupsFrame::Join(self.me.life);
                places.for_each(|place| self.send(Address { place, life: 0 }, join.clone(), cx));
            }
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.me.life = now.as_nanos();
        let places = 0..self.config.members.len() as u16;
        let is_first = now == Time::ZERO;
        if is_first {
            let members = places.clone().map(|place| Address { place, life: 0 }).collect();
            self.install(&Arc::new(JgroupsView { id: 1, members }), None, cx);
        }
        self.next_digest = now + DIGEST;
        // Members do not check all at the same moment.
        let phase = cx.rng().below(TICK.as_nanos() as u64);
        cx.set_timer(now.plus_nanos(phase), TimerToken(0));
        for place in places.filter(|place| *place > self.me.place || !is_first && *place != self.me.place) {
            cx.dial(self.config.members[usize::from(place)].clone());
        }
    }

    fn leave(&mut self, cx: &mut Cx<'_>) {
        let coordinator = self.others().into_iter().find(|member| !self.suspects.contains_key(member));
        match coordinator {
            Some(coordinator) => self.send(coordinator, JgroupsFrame::Leave, cx),
            None => self.end(cx),
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        self.has_left = true;
        self.peers.iter().flatten().for_each(|peer| cx.close(*peer));
        cx.emit(JgroupsEvent::Left);
    }

    fn place_of(&self, identity: &PeerIdentity) -> Option<u16> {
        self.config.members.iter().position(|member| member == identity).map(|place| place as u16)
    }

    fn on_frame(&mut self, peer: PeerId, frame: JgroupsFrame, cx: &mut Cx<'_>) {
        let Some(place) = self.peers.iter().position(|known| *known == Some(peer)) else { return };
        let place = place as u16;
        let from = self.others().into_iter().find(|member| member.place == place);
        match frame {
            JgroupsFrame::Chained { origin, ttl, multicast } => self.on_chained(origin, ttl, &multicast, cx),
            JgroupsFrame::Direct { origin, multicast } => self.on_multicast(origin, &multicast, cx),
            JgroupsFrame::Credit(consumed) => {
                if let Some(receiver) = from.and_then(|from| self.receivers.get_mut(&from)) {
                    receiver.consumed = receiver.consumed.max(consumed);
                }
                self.offer_room(cx);
            }
            JgroupsFrame::Join(life) => self.on_join(Address { place, life }, cx),
            JgroupsFrame::View(view, digest) => self.install(&view, digest.as_deref(), cx),
            JgroupsFrame::Leave => {
                let members = self.view.iter().flat_map(|view| &view.members).copied();
                let members = members.filter(|member| Some(*member) != from).collect();
                self.propose(members, None, cx);
                self.send(Address { place, life: 0 }, JgroupsFrame::Goodbye, cx);
            }
            JgroupsFrame::Goodbye => self.end(cx),
        }
    }
}

impl Engine for Jgroups {
    type Frame = JgroupsFrame;
    type Command = JgroupsCommand;
    type Event = JgroupsEvent;

    fn handle(&mut self, input: Input<JgroupsFrame, JgroupsCommand>, cx: &mut Cx<'_>) {
        if self.has_left {
            return;
        }
        match input {
            Input::Start => self.on_start(cx),
            Input::LinkUp { peer, info } => {
                let Some(place) = self.place_of(&info.identity) else { return };
                self.peers[usize::from(place)] = Some(peer);
                self.suspects.retain(|member, _| member.place != place);
            }
            Input::LinkDown { peer } => {
                if let Some(place) = self.peers.iter().position(|known| *known == Some(peer)) {
                    self.peers[place] = None;
                    self.suspect(place as u16, cx);
                }
            }
            Input::DialFailed { identity } => {
                if let Some(place) = self.place_of(&identity) {
                    self.suspect(place, cx);
                }
            }
            Input::Frame { peer, frame } => self.on_frame(peer, frame, cx),
            Input::Timer(_) => self.on_tick(cx),
            Input::Command(JgroupsCommand::Broadcast(content)) => {
                if !self.broadcast(content, cx) {
                    cx.emit(JgroupsEvent::Refused);
                }
            }
            Input::Command(JgroupsCommand::Leave) => self.leave(cx),
        }
    }
}
