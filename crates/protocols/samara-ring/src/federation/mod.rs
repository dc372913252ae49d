//! Federations: groups (*sites*) behind slow links. Their *leaders* form another group, the *bridge*.
//!
//! RELAY2 of JGroups bridges sites with one member of each, which copies messages from one channel
//! to the other. If it fails, the messages that it has not passed on are lost. Here each site has a
//! [`Ring`], the first member of its view leads, and the leaders have another [`Ring`]:
//!
//! ```text
//! site 1:  a > b > c > a    site 2:  d > e > d    site 3:  f > g > f    bridge:  a > d > f > a
//! ```
//!
//! - A message travels around its own site. Once all members there have it, the leader passes it to
//!   the bridge, and the leaders of the other sites pass it to their rings. It crosses each link of
//!   the bridge once, whatever the sizes of the sites.
//! - Each sender numbers its messages for the whole federation. Every member takes those of one
//!   sender in order, each once.
//! - Every member keeps a message until its leader reports that all sites have it. So the next
//!   leader can send it.
//! - After every change among the leaders, each *states* what its site has. One leader is
//!   responsible for each sender: the leader of its site, or the one that has most of its messages.
//!   It continues from the lowest message number that any site has.
//! - Messages that came from the bridge return to it only in such a repair. Message numbers end
//!   every loop.
//! - The other sites wait for a site without a leader ([`FederationConfig::absent_after`]): they
//!   keep messages, and windows close when there are too many.
//!
//! | file | contents |
//! |---|---|
//! | `site` | assignment of links to rings; deliveries of the site's ring |
//! | `leader` | members of the bridge, their statements; transfer from and to the site |
//! | `log`, `letter` | kept messages; the format of the rings' messages |

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
use samara_engine::{Context, Engine, Input, Outbox, PeerId, PeerIdentity, TimerToken};

pub use config::{FederationConfig, FederationEvent, FederationMetrics, Unused};
pub use letter::content_of;
#[cfg(feature = "fuzzing")]
pub use letter::fuzz_letter;

use crate::{BroadcastError, Command, Config, ConfigError, Event, Member, Ring, RingFrame, View};
use leader::Leader;
use letter::{Letter, OVERHEAD_MAX};
use log::Logs;
use site::Link;

pub type FederationCx<'a> = Context<'a, RingFrame, FederationEvent>;

/// Approximate memory of a message besides its content, in bytes.
const WEIGHT: u64 = 64;

/// Time to report progress and to dial contacts.
const TICK: TimerToken = TimerToken(1 << 48);

/// The origin of messages: a member of the ring of a site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Sender {
    site: u16,
    member: Member,
}

/// An event of one of this node's rings.
#[derive(Debug)]
enum RingEvent {
    Site(Event),
    /// An event of the bridge with this number.
    Bridge(u64, Event),
}

/// A member of a site of a federation.
///
/// - Inputs come through [`Engine::handle`]; [`broadcast`](Self::broadcast) also takes messages.
/// - [`FederationEvent`]s report what happened. [`metrics`](Self::metrics) counts it, and both
///   rings have metrics of their own.
///
/// # Guarantees
///
/// - Within a site, all guarantees of [`Ring`] hold.
/// - Everywhere, each message is delivered at most once, and those of one sender in the order in
///   which it broadcast them.
/// - Consider the members that stay in sites that neither split nor are absent for too long. All of
///   them deliver all messages of senders that stay, and the same prefix of the messages of each
///   sender that crashed, even if leaders crash at any moment. If a message left a site, all
///   members of that site have it.
/// - A newcomer delivers all messages that are broadcast from some moment on, without gaps.
///
/// Leaders are trusted with the messages they relay: a malicious one can hold back or forge what
/// crosses the bridge. It can neither affect messages that members of another site broadcast among
/// themselves, nor exhaust the memory or the numbers of others.
#[derive(Debug)]
pub struct Federation {
    config: Arc<FederationConfig>,
    local: Ring,
    view: Option<Arc<View>>,
    leader: Option<Box<Leader>>,
    /// The last leader of this site that this member knows, and the number of its leadership.
    led_by: Option<(Member, u64)>,
    links: BTreeMap<PeerId, Link>,
    logs: Logs,
    ring_events: VecDeque<RingEvent>,
    /// The number of this node's last message.
    number: u64,
    was_full: bool,
    /// This node received [`Command::Leave`], and leaves once all sites have its messages.
    wants_to_leave: bool,
    has_left: bool,
    next_dial: samara_engine::Time,
    metrics: FederationMetrics,
}

impl Federation {
    /// Creates a node that has not started.
    ///
    /// # Errors
    /// Returns an error if the configuration is not valid.
    pub fn new(
        config: impl Into<Arc<FederationConfig>>,
        identity: PeerIdentity,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        // Validates the bridge now instead of when this node becomes leader.
        Ring::new(config.bridge.clone(), identity.clone())?;
        Ok(Self {
            local: Ring::new(config.local.clone(), identity)?,
            view: None,
            leader: None,
            led_by: None,
            links: BTreeMap::new(),
            logs: Logs::default(),
            ring_events: VecDeque::new(),
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

    /// Returns the ring of the leaders, if this node is one.
    pub fn bridge(&self) -> Option<&Ring> {
        self.leader.as_ref().map(|leader| &leader.bridge)
    }

    pub fn metrics(&self) -> &FederationMetrics {
        &self.metrics
    }

    /// Returns the bytes of messages that are kept until all sites have them, plus 64 bytes for
    /// each message.
    pub fn kept_bytes(&self) -> u64 {
        self.logs.held
    }

    /// Broadcasts a message.
    ///
    /// # Errors
    /// Returns an error if there is no room for it ([`FederationEvent::Room`] follows when there
    /// is), if it is too long, or if this node is leaving.
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

    /// Forgets a peer without a link, so that another one can have its number. Returns false if a ring
    /// still needs it.
    pub fn forget_peer(&mut self, peer: PeerId) -> bool {
        let is_free = |leader: &mut Box<Leader>| leader.bridge.forget_peer(peer);
        !self.links.contains_key(&peer)
            && self.leader.as_mut().is_none_or(is_free)
            && self.local.forget_peer(peer)
    }

    /// Returns true if this node has left its site.
    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    /// Returns the maximum length of a message. On both levels, letters add an overhead to it.
    pub fn content_max(&self) -> usize {
        let (local, bridge) = (self.config.local.message_bytes_max, self.config.bridge.message_bytes_max);
        local.min(bridge).saturating_sub(OVERHEAD_MAX)
    }

    /// Returns the bytes of own messages that are not yet known to be at all sites.
    fn unfinished(&self) -> u64 {
        self.local.queued_bytes() as u64 + self.logs.get(&self.me()).map_or(0, |log| log.held)
    }

    /// Returns the maximum number of unfinished bytes of this node.
    fn share(&self) -> u64 {
        self.config.window_bytes / self.view.as_ref().map_or(1, |view| view.len().max(1)) as u64
    }

    fn me(&self) -> Sender {
        Sender { site: self.config.site, member: self.local.member().clone() }
    }

    /// Runs `act` on the ring of the site, and queues the events that result.
    fn on_site<T>(
        &mut self,
        cx: &mut FederationCx<'_>,
        act: impl FnOnce(&mut Ring, &mut crate::Cx<'_>) -> T,
    ) -> T {
        let mut events = Vec::new();
        let result = act(&mut self.local, &mut cx.nested(&mut events));
        self.ring_events.extend(events.into_iter().map(RingEvent::Site));
        result
    }

    /// Runs `act` on the ring of the leaders, if this node is one.
    fn on_bridge<T>(
        &mut self,
        cx: &mut FederationCx<'_>,
        act: impl FnOnce(&mut Ring, &mut crate::Cx<'_>) -> T,
    ) -> Option<T> {
        let leader = self.leader.as_mut()?;
        let mut events = Vec::new();
        let result = act(&mut leader.bridge, &mut cx.nested(&mut events));
        let number = leader.number;
        self.ring_events.extend(events.into_iter().map(|event| RingEvent::Bridge(number, event)));
        Some(result)
    }

    /// Handles events, and passes messages on, until there is nothing left to do.
    fn settle(&mut self, cx: &mut FederationCx<'_>) {
        loop {
            while let Some(event) = self.ring_events.pop_front() {
                match event {
                    RingEvent::Site(event) => self.on_site_event(event, cx),
                    RingEvent::Bridge(number, event) => self.on_bridge_event(number, event, cx),
                }
            }
            if self.has_left {
                return;
            }
            self.note_secured();
            self.feed_site(cx);
            self.feed(cx);
            if self.ring_events.is_empty() {
                break;
            }
        }
        self.report_room(cx);
        self.leave_if_done(cx);
    }

    fn report_room(&mut self, cx: &mut FederationCx<'_>) {
        let has_room = self.local.queued_bytes() <= self.config.local.own_queue_bytes / 2
            && self.unfinished() <= self.share() / 2;
        if self.was_full && has_room {
            self.was_full = false;
            cx.emit(FederationEvent::Room);
        }
    }

    /// Leaves the site once all sites have this node's messages. Otherwise there might be no other
    /// member left to send them.
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
            self.dial_leaders(cx);
        }
        self.forget_absent_sites(cx);
        self.report_progress(cx);
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

    fn assert_invariants(&self, outbox: &Outbox<RingFrame>) {
        self.local.assert_invariants(outbox);
        if let Some(leader) = &self.leader {
            leader.bridge.assert_invariants(outbox);
        }
    }
}

/// Sends a frame of either level on the control lane.
fn owe_control(peer: PeerId, frame: RingFrame, cx: &mut FederationCx<'_>) {
    let now = cx.now();
    // If there is no room, the next tick repeats it.
    let _ = cx.outbox().owe(now, peer, Config::CONTROL, frame, None, None);
}
