//! DAISYCHAIN of JGroups 5.5.7 as it is, faults included, to be compared with in simulations.
//!
//! What is modelled is `DAISYCHAIN.java` directly above the transport and what its users have above it by `tcp.xml`:
//!
//! - *DAISYCHAIN*: the successor is the next member of the view; a message is passed on before it is delivered, unless the successor
//!   is its original sender; nothing else stops it. A member without view sends to everybody.
//! - *NAKACK2*: sequence numbers for each sender; gaps are asked for every second, from the original sender.
//! - *MFC*: 2 MB of credit for each receiver; 60 % of it is returned at once.
//! - *FD_SOCK2*: the predecessor sees the connection close. *FD_ALL3*: a heartbeat every 5 s, suspicion after 40 s. *VERIFY_SUSPECT2*:
//!   1.5 s. All suspicions are multicast, that is, go along the ring.
//! - *GMS*: the coordinator multicasts the new view along the old ring.
//!
//! Therefore: after a crash nothing goes on before the coordinator hears of it, which the predecessor's word does not reach; after a
//! leave, messages of the leaver can go round for ever, and what some lack is lost, because only the leaver had it; a joiner makes
//! members of the old view pass on in vain. Measured of the real one: 42 to 48 s without delivery after a crash (4 s if the victim's
//! predecessor is the coordinator), 43,000 forwards a second in an idle group after a leave, up to 5,000 when a group forms.
//!
//! Not modelled: bundling, fragmentation, merges (MERGE3), the coordinator leaving or failing while it changes the view, and STABLE:
//! what credit shows to be everywhere is not kept.

mod frame;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Input, PeerId, PeerIdentity, Time, TimerToken};

pub use frame::{DaisyFrame, DaisyView, Multicast};
use window::{Sent, Window};

/// Constants of the configuration that was measured: `tcp.xml` and `tcp-default.xml` of 5.5.7.
#[derive(Clone, Debug, PartialEq)]
pub struct DaisyConfig {
    /// The view that all of these begin with. A node that is not among them joins.
    pub members: Vec<PeerIdentity>,
    /// `xmit_interval` of NAKACK2.
    pub retransmit: Duration,
    /// `max_credits` of MFC.
    pub credits: u64,
    /// The share of the credits that a receiver has consumed when it returns them: 1 - `min_threshold`.
    pub consumed_share: f64,
    /// `interval` of FD_ALL3.
    pub heartbeat: Duration,
    /// `timeout` of FD_ALL3.
    pub timeout: Duration,
    /// `timeout` of VERIFY_SUSPECT2.
    pub verify: Duration,
    /// Most messages that wait for credit; beyond, they are refused (the real sender blocks).
    pub queue: usize,
}

impl DaisyConfig {
    /// The constants that were measured, for this first view.
    pub fn new(members: Vec<PeerIdentity>) -> Self {
        Self {
            members,
            retransmit: Duration::from_secs(1),
            credits: 2_000_000,
            consumed_share: 0.6,
            heartbeat: Duration::from_secs(5),
            timeout: Duration::from_secs(40),
            verify: Duration::from_millis(1_500),
            queue: 1_000,
        }
    }

    /// The outbox that such a member needs: one line, as a socket is.
    pub fn outbox(&self) -> OutboxConfig {
        OutboxConfig { dispatch: Dispatch::PerLink, lanes: vec![LaneConfig::unbounded("messages", 0)] }
    }
}

/// What a modelled member can be asked for.
#[derive(Clone, Debug)]
pub enum DaisyCommand {
    /// Sends a message to all members.
    Broadcast(Bytes),
    /// Leaves at once, as closing a channel does.
    Leave,
}

/// What a modelled member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaisyEvent {
    /// A message.
    Delivered {
        /// Who broadcast it.
        origin: PeerIdentity,
        /// Its content.
        message: Bytes,
    },
    /// A view is installed.
    View(Arc<DaisyView>),
    /// A message found the queue full.
    Refused,
    /// This member has left.
    Left,
}

/// Counters of one modelled member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaisyMetrics {
    /// Messages that were passed on.
    pub forwarded: u64,
    /// Requests to send again.
    pub requests: u64,
    /// Messages of senders that are not in the view: not delivered, but passed on.
    pub strangers: u64,
    /// Messages that were delivered.
    pub delivered: u64,
}

type Cx<'a> = Context<'a, DaisyFrame, DaisyEvent>;

const TICK: TimerToken = TimerToken(0);
/// How often things that are due are looked at.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// A member with DAISYCHAIN of JGroups. See the [module](self).
#[derive(Debug)]
pub struct Daisychain {
    config: Arc<DaisyConfig>,
    me: PeerIdentity,
    view: Option<Arc<DaisyView>>,
    peers: BTreeMap<PeerIdentity, PeerId>,
    names: BTreeMap<PeerId, PeerIdentity>,
    windows: BTreeMap<PeerIdentity, Window>,
    /// Own multicasts, for those who ask.
    sent: Sent,
    waiting: VecDeque<Bytes>,
    credits: BTreeMap<PeerIdentity, i64>,
    heard: BTreeMap<PeerIdentity, Time>,
    /// Who is suspected, and when it is removed if it does not answer.
    suspects: BTreeMap<PeerIdentity, Time>,
    next_heartbeat: Time,
    next_request: Time,
    has_left: bool,
    metrics: DaisyMetrics,
}

impl Daisychain {
    /// A node that has not started.
    pub fn new(config: impl Into<Arc<DaisyConfig>>, identity: PeerIdentity) -> Self {
        Self {
            config: config.into(),
            me: identity,
            view: None,
            peers: BTreeMap::new(),
            names: BTreeMap::new(),
            windows: BTreeMap::new(),
            sent: Sent::default(),
            waiting: VecDeque::new(),
            credits: BTreeMap::new(),
            heard: BTreeMap::new(),
            suspects: BTreeMap::new(),
            next_heartbeat: Time::ZERO,
            next_request: Time::ZERO,
            has_left: false,
            metrics: DaisyMetrics::default(),
        }
    }

    /// What was counted.
    pub fn metrics(&self) -> &DaisyMetrics {
        &self.metrics
    }

    /// The view, if there is one.
    pub fn view(&self) -> Option<&Arc<DaisyView>> {
        self.view.as_ref()
    }

    /// The successor (`Util.pickNext`): `None` without view, and alone.
    fn next(&self) -> Option<&PeerIdentity> {
        let members = &self.view.as_ref()?.members;
        let place = members.iter().position(|member| *member == self.me)?;
        Some(&members[(place + 1) % members.len()]).filter(|next| **next != self.me)
    }

    fn is_coordinator(&self) -> bool {
        let mut members = self.view.iter().flat_map(|view| &view.members);
        members.find(|member| !self.suspects.contains_key(*member)) == Some(&self.me)
    }

    fn send(&self, to: &PeerIdentity, frame: DaisyFrame, cx: &mut Cx<'_>) {
        if let Some(peer) = self.peers.get(to) {
            let now = cx.now();
            // What goes into a dead link is lost, as it is in a socket.
            let _ = cx.outbox().owe(now, *peer, Lane(0), frame, None, None);
        }
    }

    /// `down(msg)`: to the successor and to this member itself; without successor, to everybody.
    fn multicast(&mut self, multicast: Multicast, cx: &mut Cx<'_>) {
        let multicast = Arc::new(multicast);
        if multicast.sequence().is_some() {
            // Whoever lacked older ones had not returned the credit for them.
            self.sent.push(multicast.clone(), 2 * self.config.credits);
        }
        match self.next().cloned() {
            Some(next) => self.send(&next, DaisyFrame::Around(self.me.clone(), multicast.clone()), cx),
            None => {
                let all: Vec<PeerIdentity> = self.peers.keys().cloned().collect();
                for peer in all {
                    self.send(&peer, DaisyFrame::Direct(self.me.clone(), multicast.clone()), cx);
                }
            }
        }
        let me = self.me.clone();
        self.up(&me, &multicast, cx);
    }

    fn next_sequence(&self) -> u64 {
        self.sent.last() + 1
    }

    /// `up(msg)`: passed on in the receiving thread, before it is delivered.
    fn around(&mut self, original: &PeerIdentity, multicast: &Arc<Multicast>, cx: &mut Cx<'_>) {
        if let Some(next) = self.next().filter(|next| *next != original).cloned() {
            self.metrics.forwarded += 1;
            self.send(&next, DaisyFrame::Around(original.clone(), multicast.clone()), cx);
        }
        self.up(original, multicast, cx);
    }

    /// What the protocols above DAISYCHAIN do.
    fn up(&mut self, original: &PeerIdentity, multicast: &Arc<Multicast>, cx: &mut Cx<'_>) {
        self.heard.insert(original.clone(), cx.now());
        match &**multicast {
            Multicast::Suspect(member) => self.suspect(member, cx),
            Multicast::Heartbeat(last) => {
                if let Some(window) = self.windows.get_mut(original) {
                    window.hear_of(*last);
                }
            }
            Multicast::Message(sequence, _) | Multicast::View(sequence, _) => {
                let Some(window) = self.windows.get_mut(original) else {
                    self.metrics.strangers += 1;
                    return;
                };
                window.insert(*sequence, multicast);
                while let Some(next) = self.windows.get_mut(original).and_then(Window::next) {
                    self.deliver(original, &next, cx);
                }
            }
        }
    }

    fn deliver(&mut self, original: &PeerIdentity, multicast: &Multicast, cx: &mut Cx<'_>) {
        match multicast {
            Multicast::Message(_, message) => {
                self.metrics.delivered += 1;
                cx.emit(DaisyEvent::Delivered { origin: original.clone(), message: message.clone() });
                self.return_credit(original, message.len() as u64, cx);
            }
            Multicast::View(_, view) => self.install(view, &[], cx),
            Multicast::Suspect(_) | Multicast::Heartbeat(_) => {}
        }
    }

    fn return_credit(&mut self, to: &PeerIdentity, bytes: u64, cx: &mut Cx<'_>) {
        let share = (self.config.credits as f64 * self.config.consumed_share) as u64;
        let Some(window) = self.windows.get_mut(to) else { return };
        window.consumed += bytes;
        if window.consumed >= share && *to != self.me {
            let consumed = std::mem::take(&mut window.consumed);
            self.send(to, DaisyFrame::Credit(consumed), cx);
        }
    }

    fn install(&mut self, view: &Arc<DaisyView>, digest: &[u64], cx: &mut Cx<'_>) {
        let is_newer = self.view.as_ref().is_none_or(|current| current.id < view.id);
        if !is_newer || !view.members.contains(&self.me) {
            return;
        }
        // Windows of those who are gone are thrown away: what was missing of them stays missing.
        let members: BTreeSet<&PeerIdentity> = view.members.iter().collect();
        self.windows.retain(|member, _| members.contains(member));
        self.credits.retain(|member, _| members.contains(member));
        self.suspects.retain(|member, _| members.contains(member));
        for (place, member) in view.members.iter().enumerate() {
            let delivered = digest.get(place).copied().unwrap_or(0);
            self.windows.entry(member.clone()).or_insert_with(|| Window::from(delivered));
            if *member != self.me {
                self.credits.entry(member.clone()).or_insert(self.config.credits as i64);
            }
            self.heard.insert(member.clone(), cx.now());
        }
        self.view = Some(view.clone());
        cx.emit(DaisyEvent::View(view.clone()));
        self.send_waiting(cx);
    }

    /// Sends what waits as long as every member has credit.
    fn send_waiting(&mut self, cx: &mut Cx<'_>) {
        while self.credits.values().all(|credit| *credit > 0)
            && let Some(message) = self.waiting.pop_front()
        {
            self.credits.values_mut().for_each(|credit| *credit -= message.len() as i64);
            self.multicast(Multicast::Message(self.next_sequence(), message), cx);
        }
    }

    // ---- failures and views ----

    fn suspect(&mut self, member: &PeerIdentity, cx: &mut Cx<'_>) {
        let is_member = self.view.as_ref().is_some_and(|view| view.members.contains(member));
        if is_member && *member != self.me && !self.suspects.contains_key(member) {
            self.suspects.insert(member.clone(), cx.now() + self.config.verify);
            self.send(member, DaisyFrame::AreYouThere, cx);
        }
    }

    /// The coordinator casts a view: along the ring of the old one.
    fn cast_view(&mut self, members: Vec<PeerIdentity>, cx: &mut Cx<'_>) {
        let Some(view) = &self.view else { return };
        let view = Arc::new(DaisyView { id: view.id + 1, members });
        self.multicast(Multicast::View(self.next_sequence(), view), cx);
    }

    fn add(&mut self, joiner: &PeerIdentity, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone().filter(|_| self.is_coordinator()) else { return };
        let mut members = view.members.clone();
        if !members.contains(joiner) {
            members.push(joiner.clone());
            self.cast_view(members, cx);
        }
        let Some(view) = self.view.clone() else { return };
        let delivered = |member| self.windows.get(member).map_or(0, Window::delivered);
        let digest: Arc<[u64]> = view.members.iter().map(delivered).collect();
        self.send(joiner, DaisyFrame::Joined(view, digest), cx);
    }

    fn remove(&mut self, gone: &PeerIdentity, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone().filter(|view| view.members.contains(gone)) else { return };
        let members = view.members.iter().filter(|member| *member != gone).cloned().collect();
        self.cast_view(members, cx);
    }

    fn on_tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + TICK_INTERVAL, TICK);
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + self.config.heartbeat;
            if self.view.is_some() {
                self.multicast(Multicast::Heartbeat(self.sent.last()), cx);
            } else {
                let all: Vec<PeerIdentity> = self.peers.keys().cloned().collect();
                all.iter().for_each(|peer| self.send(peer, DaisyFrame::Join, cx));
            }
            self.look_for_silence(cx);
        }
        if now >= self.next_request {
            self.next_request = now + self.config.retransmit;
            let missing =
                |(member, window): (&PeerIdentity, &Window)| Some((member.clone(), window.missing()?));
            let requests: Vec<_> = self.windows.iter().filter_map(missing).collect();
            for (member, (first, last)) in requests.into_iter().filter(|(member, _)| *member != self.me) {
                self.metrics.requests += 1;
                self.send(&member, DaisyFrame::Request(first, last), cx);
            }
        }
        if self.is_coordinator() {
            let is_due = |(_, due): &(&PeerIdentity, &Time)| **due <= now;
            let due: Vec<PeerIdentity> =
                self.suspects.iter().filter(is_due).map(|(member, _)| member.clone()).collect();
            due.iter().for_each(|member| self.remove(member, cx));
        }
    }

    fn look_for_silence(&mut self, cx: &mut Cx<'_>) {
        let (now, timeout) = (cx.now(), self.config.timeout);
        let members = self.view.iter().flat_map(|view| view.members.clone());
        let is_silent = |member: &PeerIdentity| {
            *member != self.me && self.heard.get(member).is_some_and(|heard| now.since(*heard) > timeout)
        };
        let silent: Vec<PeerIdentity> = members.filter(is_silent).collect();
        for member in
            silent.into_iter().filter(|member| !self.suspects.contains_key(member)).collect::<Vec<_>>()
        {
            self.multicast(Multicast::Suspect(member), cx);
        }
    }

    // ---- inputs ----

    fn start(&mut self, cx: &mut Cx<'_>) {
        let members = self.config.members.clone();
        if members.contains(&self.me) {
            self.install(&Arc::new(DaisyView { id: 1, members }), &[], cx);
        }
        let phase = cx.rng().below(TICK_INTERVAL.as_nanos() as u64);
        cx.set_timer(cx.now().plus_nanos(phase), TICK);
        for member in self.config.members.iter().filter(|member| **member > self.me || self.view.is_none()) {
            cx.dial(member.clone());
        }
    }

    fn link_down(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(name) = self.names.get(&peer).cloned() else { return };
        self.peers.remove(&name);
        // FD_SOCK2 watches the successor. What it says goes where everything goes: into the link that is down.
        if self.next() == Some(&name) {
            self.multicast(Multicast::Suspect(name), cx);
        }
    }

    fn on_frame(&mut self, peer: PeerId, frame: &DaisyFrame, cx: &mut Cx<'_>) {
        let Some(from) = self.names.get(&peer).cloned() else { return };
        match frame {
            DaisyFrame::Around(original, multicast) => self.around(original, multicast, cx),
            DaisyFrame::Direct(original, multicast) => self.up(original, multicast, cx),
            DaisyFrame::Request(first, last) => {
                for multicast in self.sent.range(*first, *last) {
                    self.send(&from, DaisyFrame::Direct(self.me.clone(), multicast), cx);
                }
            }
            DaisyFrame::Credit(bytes) => {
                if let Some(credit) = self.credits.get_mut(&from) {
                    *credit += i64::try_from(*bytes).unwrap_or(0);
                }
                self.send_waiting(cx);
            }
            DaisyFrame::Join => self.add(&from, cx),
            DaisyFrame::Joined(view, digest) => self.install(view, digest, cx),
            DaisyFrame::Leave => {
                if self.is_coordinator() {
                    self.remove(&from, cx);
                    self.send(&from, DaisyFrame::Goodbye, cx);
                }
            }
            DaisyFrame::Goodbye => {
                self.has_left = true;
                cx.emit(DaisyEvent::Left);
            }
            DaisyFrame::AreYouThere => self.send(&from, DaisyFrame::IAmHere, cx),
            DaisyFrame::IAmHere => {
                self.suspects.remove(&from);
                self.heard.insert(from, cx.now());
            }
        }
    }
}

impl Engine for Daisychain {
    type Frame = DaisyFrame;
    type Command = DaisyCommand;
    type Event = DaisyEvent;

    fn handle(&mut self, input: Input<DaisyFrame, DaisyCommand>, cx: &mut Cx<'_>) {
        if self.has_left {
            return;
        }
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => {
                self.names.insert(peer, info.identity.clone());
                self.peers.insert(info.identity, peer);
                if self.view.is_none() {
                    self.next_heartbeat = cx.now();
                }
            }
            Input::LinkDown { peer } => self.link_down(peer, cx),
            Input::DialFailed { .. } => {}
            Input::Frame { peer, frame } => self.on_frame(peer, &frame, cx),
            Input::Timer(_) => self.on_tick(cx),
            Input::Command(DaisyCommand::Broadcast(message)) => {
                if self.waiting.len() >= self.config.queue {
                    cx.emit(DaisyEvent::Refused);
                } else {
                    self.waiting.push_back(message);
                    self.send_waiting(cx);
                }
            }
            Input::Command(DaisyCommand::Leave) => {
                let members = self.view.iter().flat_map(|view| view.members.clone());
                let coordinator = members.into_iter().find(|member| *member != self.me);
                match coordinator {
                    Some(coordinator) => self.send(&coordinator, DaisyFrame::Leave, cx),
                    None => cx.emit(DaisyEvent::Left),
                }
            }
        }
    }
}
