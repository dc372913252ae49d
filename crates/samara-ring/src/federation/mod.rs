//! Federations: groups (*sites*) behind slow links, whose *leaders* form a group of their own (the *bridge*).
//!
//! RELAY2 of JGroups bridges sites by a member of each that copies messages from one channel to the other; what is on its way through it
//! when it fails is lost. Here each site has a [`Ring`], the first member of its view leads, and leaders have a [`Ring`] among themselves:
//!
//! ```text
//! site 1:  a > b > c > a          bridge:  a > d > f > a          site 2:  d > e > d      site 3:  f > g > f
//! ```
//!
//! - A message goes round its own site. Once all members there have it, the leader hands it to the bridge, and the leaders of other sites hand
//!   it to their rings: it crosses each link of the bridge once, whatever the sizes of sites.
//! - Each sender numbers its messages for the whole federation. Everybody takes those of one sender in order, each once.
//! - Every member keeps a message until all sites have it (their leaders say so). So whoever leads next can send it.
//! - After every change among the leaders, each *states* what its site has. Those who are responsible for a sender (the leader of its site, or who has most) go on from the least
//!   that any site has.
//! - Nothing that came from the bridge goes back to it, but in such a repair; numbers end every loop.
//! - A site without a leader is waited for ([`FederationConfig::absent_after`]): messages are kept, and windows close when there are too many.
//!
//! | file | |
//! |---|---|
//! | `site` | which ring a link belongs to; what the ring of the site delivers |
//! | `leader` | who is on the bridge, what they state; from the site to the bridge and back |
//! | `log`, `letter` | messages that are kept; what travels in the rings' messages |

mod config;
mod leader;
mod letter;
mod log;
mod site;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Context, Engine, Input, PeerId, PeerIdentity, TimerToken};

pub use config::{FederationConfig, FederationEvent, FederationMetrics, Unused};

use crate::{BroadcastError, Command, Config, ConfigError, Event, Member, Ring, RingFrame, View};
use leader::Leader;
use letter::{Letter, OVERHEAD_MAX};
use log::Logs;
use site::Link;

pub type FederationCx<'a> = Context<'a, RingFrame, FederationEvent>;

/// What a message takes in memory besides its content, about.
const WEIGHT: u64 = 64;

/// Progress is told, and contacts are dialled.
const TICK: TimerToken = TimerToken(1 << 48);

/// Who broadcasts: a member of the ring of a site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Sender {
    site: u16,
    member: Member,
}

/// Something that a ring of this node told.
#[derive(Debug)]
enum RingEvent {
    Site(Event),
    /// By the ring of this number.
    Bridge(u64, Event),
}

/// A member of a site of a federation.
///
/// - Inputs come by [`Engine::handle`]; messages can also be handed in by [`broadcast`](Self::broadcast).
/// - [`FederationEvent`]s tell what happened; [`metrics`](Self::metrics) counts it, and so do those of both rings.
///
/// # What is promised
///
/// - Within a site, all that [`Ring`] promises.
/// - Everywhere, each message is delivered at most once, and those of one sender in the order in which it broadcast them.
/// - All members that stay in sites that are not absent for too long, and do not split, deliver all messages of senders that stay, and of
///   each sender that crashed the same beginning: also if leaders crash, at any moment. A message that left a site is at all of
///   its members.
/// - A newcomer delivers what is broadcast from some moment on, without holes.
///
/// Leaders are trusted with what they relay: a false one can hold back or forge what crosses the bridge. It can neither touch what members of
/// another site broadcast among themselves, nor use up the memory or the numbers of others.
#[derive(Debug)]
pub struct Federation {
    config: Arc<FederationConfig>,
    local: Ring,
    view: Option<Arc<View>>,
    leader: Option<Box<Leader>>,
    /// Who led last in this site, as this member knows it, and in which leadership of its.
    led_by: Option<(Member, u64)>,
    links: BTreeMap<PeerId, Link>,
    logs: Logs,
    told: VecDeque<RingEvent>,
    /// The number of the last message of this node.
    number: u64,
    was_full: bool,
    /// This node was asked to leave, and does so once all sites have its messages.
    wants_to_leave: bool,
    has_left: bool,
    next_dial: samara_engine::Time,
    metrics: FederationMetrics,
}

impl Federation {
    /// A node that has not started.
    ///
    /// # Errors
    /// The configuration is not possible.
    pub fn new(
        config: impl Into<Arc<FederationConfig>>,
        identity: PeerIdentity,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        // Whether leaders' rings are possible shows now, and not when this node begins to lead.
        Ring::new(config.bridge.clone(), identity.clone())?;
        Ok(Self {
            local: Ring::new(config.local.clone(), identity)?,
            view: None,
            leader: None,
            led_by: None,
            links: BTreeMap::new(),
            logs: Logs::default(),
            told: VecDeque::new(),
            number: 0,
            was_full: false,
            wants_to_leave: false,
            has_left: false,
            next_dial: samara_engine::Time::ZERO,
            metrics: FederationMetrics::default(),
            config,
        })
    }

    pub fn local(&self) -> &Ring {
        &self.local
    }

    /// The ring of the leaders, if this node is one.
    pub fn bridge(&self) -> Option<&Ring> {
        self.leader.as_ref().map(|leader| &leader.bridge)
    }

    pub fn metrics(&self) -> &FederationMetrics {
        &self.metrics
    }

    /// Bytes of messages that are kept until all sites have them, with 64 bytes for each.
    pub fn kept_bytes(&self) -> u64 {
        self.logs.held
    }

    /// Takes a message to be broadcast.
    ///
    /// # Errors
    /// There is no room for it ([`FederationEvent::Room`] tells when there is again); it is too long; this node leaves.
    pub fn broadcast(&mut self, content: Bytes, cx: &mut FederationCx<'_>) -> Result<(), BroadcastError> {
        let taken = self.accept(content, cx);
        self.metrics.broadcast += u64::from(taken.is_ok());
        self.metrics.refused += u64::from(taken.is_err());
        self.settle(cx);
        taken
    }

    fn accept(&mut self, content: Bytes, cx: &mut FederationCx<'_>) -> Result<(), BroadcastError> {
        let (found, max) = (content.len(), self.content_max());
        if found > max {
            return Err(BroadcastError::TooLong { found, max });
        }
        if self.wants_to_leave || self.has_left {
            return Err(BroadcastError::Leaving);
        }
        let unfinished = self.unfinished();
        if unfinished > 0 && unfinished + found as u64 + WEIGHT > self.share() {
            self.was_full = true;
            return Err(BroadcastError::Full);
        }
        let letter = Letter::Own { number: self.number + 1, content }.encode();
        let taken = self.on_site(cx, |ring, cx| ring.broadcast(letter, cx));
        match taken {
            Ok(()) => self.number += 1,
            Err(_) => self.was_full = true,
        }
        taken
    }

    /// The longest content: letters add something to it, on both levels.
    fn content_max(&self) -> usize {
        let (local, bridge) = (self.config.local.message_bytes_max, self.config.bridge.message_bytes_max);
        local.min(bridge).saturating_sub(OVERHEAD_MAX)
    }

    /// Bytes of own messages that not all sites are known to have.
    fn unfinished(&self) -> u64 {
        self.local.queued_bytes() as u64 + self.logs.get(&self.me()).map_or(0, |log| log.held)
    }

    /// How many bytes of this node may be unfinished.
    fn share(&self) -> u64 {
        self.config.window_bytes / self.view.as_ref().map_or(1, |view| view.len().max(1)) as u64
    }

    fn me(&self) -> Sender {
        Sender { site: self.config.site, member: self.local.member().clone() }
    }

    /// Lets the ring of the site do something; what it tells is looked at later.
    fn on_site<T>(
        &mut self,
        cx: &mut FederationCx<'_>,
        act: impl FnOnce(&mut Ring, &mut crate::Cx<'_>) -> T,
    ) -> T {
        let mut events = Vec::new();
        let result = act(&mut self.local, &mut cx.nested(&mut events));
        self.told.extend(events.into_iter().map(RingEvent::Site));
        result
    }

    /// Lets the ring of the leaders do something, if this node is one.
    fn on_bridge<T>(
        &mut self,
        cx: &mut FederationCx<'_>,
        act: impl FnOnce(&mut Ring, &mut crate::Cx<'_>) -> T,
    ) -> Option<T> {
        let leader = self.leader.as_mut()?;
        let mut events = Vec::new();
        let result = act(&mut leader.bridge, &mut cx.nested(&mut events));
        let number = leader.number;
        self.told.extend(events.into_iter().map(|event| RingEvent::Bridge(number, event)));
        Some(result)
    }

    /// Does what follows from what has happened, until nothing does.
    fn settle(&mut self, cx: &mut FederationCx<'_>) {
        loop {
            while let Some(told) = self.told.pop_front() {
                match told {
                    RingEvent::Site(event) => self.on_site_event(event, cx),
                    RingEvent::Bridge(number, event) => self.on_bridge_event(number, event, cx),
                }
            }
            if self.has_left {
                return;
            }
            self.note_secured();
            self.hand_in(cx);
            self.feed(cx);
            if self.told.is_empty() {
                break;
            }
        }
        self.tell_of_room(cx);
        self.leave_if_done(cx);
    }

    fn tell_of_room(&mut self, cx: &mut FederationCx<'_>) {
        let has_room = self.local.queued_bytes() <= self.config.local.own_queue_bytes / 2
            && self.unfinished() <= self.share() / 2;
        if self.was_full && has_room {
            self.was_full = false;
            cx.emit(FederationEvent::Room);
        }
    }

    /// Leaves the site once all sites have what this node broadcast: nobody else may be left here to send it.
    fn leave_if_done(&mut self, cx: &mut FederationCx<'_>) {
        if self.wants_to_leave && self.unfinished() == 0 && !self.local.is_leaving() {
            self.on_site(cx, |ring, cx| ring.handle(Input::Command(Command::Leave), cx));
            self.settle(cx);
        }
    }

    fn handle_command(&mut self, command: Command, cx: &mut FederationCx<'_>) {
        match command {
            Command::Broadcast(content) => {
                if let Err(error) = self.broadcast(content, cx) {
                    cx.emit(FederationEvent::Refused(error));
                }
            }
            Command::Leave => self.wants_to_leave = true,
            pause @ (Command::Pause | Command::Unpause) => {
                self.on_site(cx, |ring, cx| ring.handle(Input::Command(pause), cx));
            }
        }
    }

    fn on_timer(&mut self, token: TimerToken, cx: &mut FederationCx<'_>) {
        if token == TICK {
            self.on_tick(cx);
            return;
        }
        let (number, timer) = Ring::timer_of(token);
        if number == 0 {
            self.on_site(cx, |ring, cx| ring.handle(Input::Timer(timer), cx));
        } else if self.leader.as_ref().is_some_and(|leader| leader.number == number) {
            self.on_bridge(cx, |ring, cx| ring.handle(Input::Timer(timer), cx));
        }
    }

    fn on_tick(&mut self, cx: &mut FederationCx<'_>) {
        cx.set_timer(cx.now() + self.config.progress_interval, TICK);
        if cx.now() >= self.next_dial {
            self.next_dial = cx.now() + self.config.bridge.membership.redial;
            self.look_for_leaders(cx);
        }
        self.forget_absent_sites(cx);
        self.tell_progress(cx);
    }
}

impl Engine for Federation {
    type Frame = RingFrame;
    type Command = Command;
    type Event = FederationEvent;

    fn handle(&mut self, input: Input<RingFrame, Command>, cx: &mut FederationCx<'_>) {
        if self.has_left {
            return;
        }
        match input {
            Input::Start => {
                self.on_site(cx, |ring, cx| ring.handle(Input::Start, cx));
                cx.set_timer(cx.now() + self.config.progress_interval, TICK);
            }
            Input::LinkUp { peer, info } => self.link_up(peer, info, cx),
            Input::LinkDown { peer } => self.link_down(peer, cx),
            Input::DialFailed { identity } => {
                let other = identity.clone();
                self.on_site(cx, |ring, cx| ring.handle(Input::DialFailed { identity }, cx));
                self.on_bridge(cx, |ring, cx| ring.handle(Input::DialFailed { identity: other }, cx));
            }
            Input::Frame { peer, frame } => self.on_frame(peer, frame, cx),
            Input::Timer(token) => self.on_timer(token, cx),
            Input::Command(command) => self.handle_command(command, cx),
        }
        self.settle(cx);
    }
}

/// What both levels send on the lane of control.
fn owe_control(peer: PeerId, frame: RingFrame, cx: &mut FederationCx<'_>) {
    let now = cx.now();
    // If there is no room it is said again, with the next look for leaders.
    let _ = cx.outbox().owe(now, peer, Config::CONTROL, frame, None, None);
}
