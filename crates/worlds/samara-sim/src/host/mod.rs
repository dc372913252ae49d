//! A host: a node, its links, its uplink and its downlink, simulated alone through a window of
//! time.

mod connection;
mod copies;
mod packets;
mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use samara_engine::hostile::Misconduct;
use samara_engine::outbox::Dispatch;
use samara_engine::uplink::Limit;
use samara_engine::{Effects, Frame, Input, LinkRequest, NodeRng, PeerId, Purpose, Time, TimerToken};

use self::copies::limit_of;
use crate::config::NicDiscipline;
use crate::downlink::{Downlink, nanos_per_byte};
use crate::explain::{Carried, Explained, Trigger};
use crate::fq_codel::FqLine;
use crate::link::{Link, LinkState, Nic, NicState};
use crate::node::{Node, Order};
use crate::packet::{Packet, take_arrivals};
use crate::rival::{Rival, RivalKind};
use crate::stats::{Digest, HostStats};
use crate::transport::{ConnectionStats, EndCounts, EndTimer};
use crate::world::{World, host_of};

/// An action of a host at a given time.
#[derive(Debug)]
pub(crate) enum Action {
    /// Dial this host.
    Dial(u32),
    /// Bring up a link that both sides know, without a handshake.
    Establish { peer: u32, peer_slot: u32, slot: u32, outbound: bool },
    /// Pass a command to the node.
    Command(Order),
    /// End the node's process. If the host itself dies (`silent`), nothing notifies its peers.
    Crash { silent: bool },
    /// Start a new process, which dials the peers that the old one had at the start.
    Restart,
    /// Lose the link to this host, and dial it again at once. Unless `silent`, the host notices at
    /// once; otherwise it keeps its end until the new link comes.
    Reconnect { peer: u32, silent: bool },
    /// Lose everything that this host sends to another one, until a time.
    Cut { peer: u32, until: u64 },
    /// Change the rates of the host.
    SetRates { uplink_bps: u64, downlink_bps: u64 },
    /// Let somebody in the same house use the uplink, over a path with this latency.
    Rival { kind: RivalKind, until: u64, latency: u64 },
    /// Break the rules from now on; a strength of 0 ends it.
    Misbehave { what: Misconduct, strength: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKind {
    Action(u32),
    Engine(TimerToken),
    Loss(u32),
    DelayedAck(u32),
    /// A step of a handshake has had no answer.
    Greeting {
        slot: u32,
        epoch: u32,
        step: u32,
        tries: u32,
    },
    OutboxWake,
    End(EndTimer, u32),
    // The limit over all links lets bytes out again.
    Room,
    Rival(u32),
}

/// A running timer: its time, its place in the order of setting, the incarnation of the node, and
/// its kind. The incarnation prevents timers of an old engine from firing at its successor.
type Timer = Reverse<(u64, u32, u32, TimerKind)>;

pub(crate) struct Host<F: Frame> {
    pub(crate) id: u32,
    pub(crate) node: Box<dyn Node<F>>,
    pub(crate) running: bool,
    /// True while the operating system runs, with or without the process.
    pub(super) is_up: bool,
    pub(crate) incarnation: u32,
    pub(crate) stats: HostStats,
    pub(crate) counts: EndCounts,
    pub(crate) digest: Digest,
    /// Packets that arrive in this or a later window, unsorted.
    pub(crate) inbox: Vec<Packet<F>>,
    pub(crate) links: Vec<Link<F>>,
    pub(crate) outgoing: Vec<Packet<F>>,
    pub(crate) slot_of: FxHashMap<u32, u32>,
    pub(super) actions: Vec<Option<Action>>,
    pub(super) effects: Effects<()>,
    pub(super) rng: NodeRng,
    pub(super) network_rng: NodeRng,
    pub(super) timers: BinaryHeap<Timer>,
    pub(super) timers_set: u32,
    pub(super) downlink: Downlink<F>,
    pub(super) nic: Nic,
    pub(super) uplink_free_at: u64,
    pub(super) uplink_nanos_per_byte: f64,
    /// The queues behind the connections, if there are any. `uplink_free_at` then stays in the past.
    pub(crate) fair_uplink: Option<Box<FqLine<queue::Queueing<F>>>>,
    /// Others in the same house, by number. They do not end with the process.
    pub(crate) rivals: Vec<Rival>,
    /// Number of links with data that their windows let out.
    pub(super) links_with_data: u32,
    /// True if the node-wide outbox had nothing for the links with room; reset when either changes.
    pub(super) outbox_dry: bool,
    pub(super) dispatch: Dispatch,
    /// The limit over all links, with one order over them.
    pub(super) limit: Option<Box<Limit>>,
    pub(super) packets_sent: u32,
    pub(super) outbox_wake_at: u64,
    /// The time of the running timer for the limit over all links; `u64::MAX` if there is none.
    room_at: u64,
    pub(super) touched: Vec<PeerId>,
    pub(super) delivered: Vec<Carried<F>>,
    /// The peers to dial after a restart.
    pub(super) home_peers: Vec<u32>,
    /// The packets of the current window, the next one last.
    pub(crate) arrivals: Vec<Packet<F>>,
    /// The record of where time went, if there is one, and the contents of frames.
    pub(crate) explained: Explained<F>,
}

/// The inbox of a quiet host keeps room for this many packets: otherwise the memory of every host's
/// busiest moment adds up.
const INBOX_KEPT: usize = 32;

impl<F: Frame> Host<F> {
    pub(crate) fn new(id: u32, world: &World<F>) -> Self {
        let (node, config) = (world.node(id), world.hosts[id as usize]);
        let dispatch = node.config().dispatch;
        Self {
            id,
            node,
            running: false,
            is_up: true,
            incarnation: 0,
            stats: HostStats::default(),
            counts: EndCounts { writes: 0, connections: ConnectionStats::new(&world.config.transport) },
            digest: Digest::new(),
            inbox: Vec::new(),
            links: Vec::new(),
            outgoing: Vec::new(),
            slot_of: FxHashMap::default(),
            actions: Vec::new(),
            effects: Effects::default(),
            rng: NodeRng::new(world.config.seed, u64::from(id), Purpose::Engine),
            network_rng: NodeRng::new(world.config.seed, u64::from(id), Purpose::Transport),
            timers: BinaryHeap::new(),
            timers_set: 0,
            downlink: Downlink::new(config.downlink_bps, world.config.downlink_queue, world.config.seed),
            nic: Nic::new(world.config.nic),
            uplink_free_at: 0,
            uplink_nanos_per_byte: nanos_per_byte(config.uplink_bps),
            fair_uplink: match world.config.nic {
                NicDiscipline::FqCoDel(fair) => Some(Box::new(FqLine::new(config.uplink_bps, fair))),
                NicDiscipline::DropTail(size) => Some(Box::new(FqLine::drop_tail(config.uplink_bps, size))),
                NicDiscipline::RoundRobin | NicDiscipline::Fifo => None,
            },
            rivals: Vec::new(),
            links_with_data: 0,
            outbox_dry: true,
            dispatch,
            limit: limit_of(dispatch, &world.config),
            packets_sent: 0,
            outbox_wake_at: u64::MAX,
            room_at: u64::MAX,
            touched: Vec::new(),
            delivered: Vec::new(),
            home_peers: Vec::new(),
            arrivals: Vec::new(),
            explained: Explained::OFF,
        }
    }

    /// Schedules an action at a time, which must not be before the current window.
    pub(crate) fn schedule(&mut self, at: u64, action: Action) {
        let index = self.actions.len() as u32;
        self.actions.push(Some(action));
        self.set_timer(at, TimerKind::Action(index));
    }

    pub(super) fn set_timer(&mut self, at: u64, kind: TimerKind) {
        self.timers.push(Reverse((at, self.timers_set, self.incarnation, kind)));
        self.timers_set = self.timers_set.wrapping_add(1);
    }

    /// Returns the time of the next event at this host, without the inbox.
    fn next_own(&self) -> u64 {
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        timer.min(self.downlink.next_at()).min(self.uplink_at())
    }

    /// Returns the time of the next event at this host.
    pub(crate) fn next_at(&self) -> u64 {
        let inbox = self.inbox.iter().map(|packet| packet.arrive).min().unwrap_or(u64::MAX);
        self.next_own().min(inbox)
    }

    /// Returns the time at which the uplink can take the next packet; `u64::MAX` if there is
    /// nothing to send.
    fn uplink_at(&self) -> u64 {
        let queued = self.fair_uplink.as_ref().map_or(u64::MAX, |line| line.next_at());
        if self.has_turn() { self.uplink_free_at.min(queued) } else { queued }
    }

    /// Returns true if a link or the node-wide outbox may have a packet.
    fn has_turn(&self) -> bool {
        self.nic_waits() || (self.dispatch == Dispatch::Node && !self.outbox_dry)
    }

    fn nic_waits(&self) -> bool {
        match &self.nic {
            Nic::RoundRobin { turn } => !turn.is_empty(),
            Nic::Fifo { by_rank } => !by_rank.is_empty(),
        }
    }

    /// Simulates everything that happens before `end`.
    ///
    /// Nothing that another host sends from `start` on can arrive before `end`, so that the inbox
    /// is complete.
    pub(crate) fn run(&mut self, end: u64, world: &World<F>) {
        self.take_arrivals(end);
        let mut now = 0;
        loop {
            let arrival = self.arrivals.last().map_or(u64::MAX, |packet| packet.arrive);
            let downlink = self.downlink.next_at();
            let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let uplink = self.uplink_at();
            let next = arrival.min(downlink).min(timer).min(uplink);
            if next >= end {
                break;
            }
            now = next.max(now);
            self.stats.steps += 1;
            // Ties: arrivals first, then timers, then departures.
            if downlink == next {
                if let Some(packet) = self.downlink.receive(now, &mut self.stats) {
                    self.receive(now, packet, world);
                }
            } else if arrival == next {
                if let Some(packet) = self.arrivals.pop()
                    && let Some(packet) = self.downlink.arrive(packet, &mut self.stats)
                {
                    self.receive(now, packet, world);
                }
            } else if timer == next {
                if let Some(Reverse((_, _, incarnation, kind))) = self.timers.pop() {
                    self.fire(now, incarnation, kind, world);
                }
            } else {
                self.send_next(now, world);
            }
        }
    }

    fn take_arrivals(&mut self, end: u64) {
        debug_assert!(self.arrivals.is_empty());
        take_arrivals(&mut self.inbox, end, &mut self.arrivals);
        if self.inbox.capacity() > INBOX_KEPT && self.inbox.len() < self.inbox.capacity() / 4 {
            self.inbox.shrink_to(INBOX_KEPT.max(2 * self.inbox.len()));
        }
    }

    fn fire(&mut self, now: u64, incarnation: u32, kind: TimerKind, world: &World<F>) {
        if let TimerKind::Action(index) = kind {
            if let Some(action) = self.actions[index as usize].take() {
                self.act(now, action, world);
            }
            if self.actions.len() as u32 == index + 1 && self.actions.iter().all(Option::is_none) {
                self.actions = Vec::new();
            }
            return;
        }
        if let TimerKind::Rival(number) = kind {
            self.rival_acts(now, number, world.config.seed);
            return;
        }
        if incarnation != self.incarnation || !self.running {
            return;
        }
        match kind {
            TimerKind::Action(_) | TimerKind::Rival(_) => {}
            TimerKind::Engine(token) => self.input(now, Input::Timer(token), world),
            TimerKind::Loss(slot) => self.loss_timer(now, slot, world),
            TimerKind::DelayedAck(slot) => self.delayed_ack_timer(now, slot, world),
            TimerKind::Greeting { slot, epoch, step, tries } => {
                self.greet_again(now, slot, epoch, (step, tries), world);
            }
            TimerKind::End(timer, slot) => self.end_timer(now, slot, timer, world),
            TimerKind::Room => {
                self.room_at = u64::MAX;
                self.outbox_dry = false;
            }
            TimerKind::OutboxWake => {
                self.outbox_wake_at = u64::MAX;
                self.node.wake(Time::from_nanos(now));
                self.after_engine(now, false, world);
            }
        }
    }

    fn act(&mut self, now: u64, action: Action, world: &World<F>) {
        match action {
            Action::Dial(peer) => {
                if !self.home_peers.contains(&peer) {
                    self.home_peers.push(peer);
                }
                self.dial(now, peer, world);
            }
            Action::Establish { peer, peer_slot, slot, outbound } => {
                debug_assert_eq!(self.slot_of.get(&peer), Some(&slot));
                self.home_peers.push(peer);
                let link = &mut self.links[slot as usize];
                link.peer_slot = peer_slot;
                link.outbound = outbound;
                link.reset(1, &world.config.transport);
                if self.running {
                    self.bring_up(now, slot, world);
                } else {
                    // The other end brings the link up, and learns that nobody is here.
                    self.say_goodbye(now, slot, !self.is_up, world);
                }
            }
            Action::Command(command) => {
                if self.running {
                    self.input(now, Input::Command(command), world);
                }
            }
            Action::Crash { silent } => self.crash(now, silent, world),
            Action::Restart => self.restart(now, world),
            Action::Reconnect { peer, silent } => self.reconnect(now, peer, silent, world),
            Action::Cut { peer, until } => {
                let slot = self.slot(peer, world);
                let link = &mut self.links[slot as usize];
                link.cut_until = link.cut_until.max(until);
            }
            Action::SetRates { uplink_bps, downlink_bps } => {
                self.uplink_nanos_per_byte = nanos_per_byte(uplink_bps);
                self.downlink.set_rate(downlink_bps);
                if let Some(line) = &mut self.fair_uplink {
                    line.set_rate(uplink_bps);
                }
            }
            Action::Rival { kind, until, latency } => {
                self.begin_rival(now, kind, until, latency, world.config.seed);
            }
            Action::Misbehave { what, strength } => {
                let is_up = |slot: &u32| self.links[*slot as usize].state == LinkState::Up;
                let peers = (0..self.links.len() as u32).filter(is_up).map(PeerId).collect();
                let rng = NodeRng::new(world.config.seed, u64::from(self.id), Purpose::Hostile);
                self.node.misbehave(what, strength, (rng, peers));
            }
        }
    }

    pub(crate) fn start(&mut self, now: u64, world: &World<F>) {
        (self.running, self.is_up) = (true, true);
        self.input(now, Input::Start, world);
    }

    fn crash(&mut self, now: u64, silent: bool, world: &World<F>) {
        if !self.running {
            return;
        }
        self.running = false;
        self.is_up = !silent;
        self.incarnation += 1;
        if let Some(line) = self.fair_uplink.as_mut().filter(|_| silent) {
            line.clear();
        }
        for slot in 0..self.links.len() as u32 {
            if self.links[slot as usize].state != LinkState::Down {
                self.say_goodbye(now, slot, silent, world);
                self.links[slot as usize].state = LinkState::Down;
                self.links[slot as usize].nic = NicState::Idle;
                self.node.link_down(PeerId(slot));
                self.clear_record(slot);
            }
            // The timers of this process no longer fire.
            self.links[slot as usize].ack_timer = false;
            self.links[slot as usize].loss_timer = u64::MAX;
        }
        self.nic.clear();
        self.links_with_data = 0;
        self.outbox_dry = true;
        self.downlink.clear();
    }

    fn restart(&mut self, now: u64, world: &World<F>) {
        if self.running {
            return;
        }
        self.node = world.node(self.id);
        self.limit = limit_of(self.dispatch, &world.config);
        (self.outbox_wake_at, self.room_at) = (u64::MAX, u64::MAX);
        self.start(now, world);
        for peer in self.home_peers.clone() {
            self.dial(now, peer, world);
        }
    }

    /// Passes an input to the node and carries out its requests.
    pub(super) fn input(&mut self, now: u64, input: Input<F, Order>, world: &World<F>) {
        if self.explained.is_on() {
            self.mark(now, &input);
        }
        let requested = matches!(input, Input::Command(_));
        self.node.handle(Time::from_nanos(now), input, &mut self.rng, &mut self.effects);
        self.after_engine(now, requested, world);
    }

    /// Marks the copies that the node owes for an input.
    fn mark(&mut self, now: u64, input: &Input<F, Order>) {
        let trigger = match input {
            Input::Start | Input::Command(_) => Trigger::Command,
            Input::Frame { .. } => Trigger::Frame,
            Input::Timer(token) if token.0 >= TimerToken::WRAPPER => Trigger::Processor,
            Input::Timer(_) => Trigger::Timer,
            Input::LinkUp { .. } | Input::LinkDown { .. } | Input::DialFailed { .. } => Trigger::Link,
        };
        self.node.set_mark(trigger as u8);
        self.explained.note(|record| {
            if record.is_full() {
                record.forget(self.node.oldest_owed_at().map_or(now, Time::as_nanos));
            }
        });
    }

    fn after_engine(&mut self, now: u64, requested: bool, world: &World<F>) {
        let mut timers = std::mem::take(&mut self.effects.timers);
        for request in timers.drain(..) {
            self.set_timer(request.at.as_nanos().max(now), TimerKind::Engine(request.token));
        }
        self.effects.timers = timers;
        self.offer_room(now, requested, world);
        if !self.effects.links.is_empty() {
            for request in std::mem::take(&mut self.effects.links) {
                match request {
                    LinkRequest::Dial(identity) => match host_of(&identity) {
                        Some(peer) if (peer as usize) < world.hosts.len() && peer != self.id => {
                            self.dial(now, peer, world);
                        }
                        _ => self.input(now, Input::DialFailed { identity }, world),
                    },
                    LinkRequest::Close(peer) => self.close(now, peer.0, world),
                }
            }
        }
    }
}
