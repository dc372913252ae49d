//! The connections to the nodes of the pool and to the scheduler, and the recovery of lost links.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::outbox::{Lane, LossCause};
use samara_engine::{MessageKey, NodeRng, PeerId, PeerIdentity, Time};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::node::{Cx, TICK, TICK_INTERVAL};
use crate::wire::MixFrame;

/// A node of the pool or the scheduler. Contacts are indexed by number; the scheduler's number
/// follows the last one of the nodes.
#[derive(Debug, Default)]
struct Contact {
    identity: PeerIdentity,
    /// True if this side dials. Of two nodes, the one with the lower number dials, and nodes dial
    /// the scheduler.
    is_dialled: bool,
    peer: Option<PeerId>,
    /// Start of its current state, connected or not.
    since: Time,
    heard: Time,
    attempts: u32,
    dial_at: Option<Time>,
    incarnation: Option<u64>,
    /// True once the host has reported its incarnation over the current link.
    has_greeted: bool,
    /// True if the host has reported several incarnations.
    has_restarted: bool,
    /// The name of a ping without an answer so far, and the time it left.
    echo: Option<(u64, Time)>,
    /// True once this host has closed the link because too many frames waited for the peer.
    is_overfull: bool,
}

/// The key of answers to pings in the outbox. Rounds have other keys: their numbers are smaller.
const ECHO: MessageKey = MessageKey(1 << 63);

#[derive(Debug, Default)]
pub(crate) struct Peers {
    incarnation: u64,
    next_beat: Time,
    contacts: Vec<Contact>,
    by_peer: BTreeMap<PeerId, u32>,
    by_identity: BTreeMap<PeerIdentity, u32>,
    me: u32,
}

impl Peers {
    pub(crate) fn new(config: &Config, me: u32) -> Self {
        let all = config.pool.iter().chain([&config.scheduler]);
        let contacts: Vec<Contact> = all
            .enumerate()
            .map(|(number, identity)| {
                let is_dialled = number as u32 > me;
                Contact { identity: identity.clone(), is_dialled, ..Contact::default() }
            })
            .collect();
        let by_identity =
            contacts.iter().enumerate().map(|(number, contact)| (contact.identity.clone(), number as u32));
        Self { by_identity: by_identity.collect(), contacts, me, ..Self::default() }
    }

    /// Marks all contacts as not connected from now on, and dials them.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        self.incarnation = cx.rng().next_u64();
        for contact in &mut self.contacts {
            contact.since = cx.now();
            contact.dial_at = contact.is_dialled.then_some(cx.now());
        }
    }

    /// Makes the dials that are due, closes silent links, and sends signs of life.
    pub(crate) fn tick(&mut self, config: &Config, metrics: &mut Metrics, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + TICK_INTERVAL, TICK);
        for contact in &mut self.contacts {
            if contact.dial_at.take_if(|at| *at <= now).is_some() {
                metrics.dials += 1;
                cx.dial(contact.identity.clone());
            }
        }
        for contact in &self.contacts {
            if let Some(peer) = contact.peer.filter(|_| now.since(contact.heard) > config.silence) {
                metrics.silences += 1;
                cx.close(peer);
            }
        }
        if now >= self.next_beat {
            self.next_beat = now + config.beat;
            for number in self.numbers() {
                self.send(number, Config::CONTROL, None, self.hello(), metrics, cx);
            }
        }
    }

    /// Owes a frame to a host, if it is connected. Closes the link if too many frames wait for the
    /// host: it does not read, and the frames that it sends would fill memory with answers.
    pub(crate) fn send(
        &mut self,
        to: u32,
        lane: Lane,
        key: Option<MessageKey>,
        frame: MixFrame,
        metrics: &mut Metrics,
        cx: &mut Cx<'_>,
    ) {
        let Some(contact) = self.contacts.get_mut(to as usize) else { return };
        let Some(peer) = contact.peer else { return };
        let owed = metrics.owe(peer, lane, key, frame, cx);
        let is_full = owed.is_err_and(|lost| lost.cause == LossCause::Refused);
        if is_full && !std::mem::replace(&mut contact.is_overfull, true) {
            metrics.overflows += 1;
            cx.close(peer);
        }
    }

    /// Owes a control frame to a host in place of an earlier one with the same key.
    pub(crate) fn send_latest(
        &mut self,
        to: u32,
        key: MessageKey,
        frame: MixFrame,
        metrics: &mut Metrics,
        cx: &mut Cx<'_>,
    ) {
        if let Some(peer) = self.link_to(to) {
            cx.outbox().withdraw(peer, key);
            self.send(to, Config::CONTROL, Some(key), frame, metrics, cx);
        }
    }

    /// Answers a ping over a link. A host is owed one answer at a time, however many pings it
    /// sends.
    pub(crate) fn answer_echo(&mut self, to: u32, number: u64, metrics: &mut Metrics, cx: &mut Cx<'_>) {
        self.send_latest(to, ECHO, MixFrame::Echo { number, is_answer: true }, metrics, cx);
    }

    /// Returns a sign of life with the incarnation of this host.
    pub(crate) fn hello(&self) -> MixFrame {
        MixFrame::Hello { incarnation: self.incarnation }
    }

    pub(crate) fn scheduler(&self) -> u32 {
        self.contacts.len() as u32 - 1
    }

    pub(crate) fn number_of(&self, peer: PeerId) -> Option<u32> {
        self.by_peer.get(&peer).copied()
    }

    pub(crate) fn link_to(&self, number: u32) -> Option<PeerId> {
        self.contacts.get(number as usize).and_then(|contact| contact.peer)
    }

    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        0..self.contacts.len() as u32
    }

    /// Records a ping to a host. Returns true if the previous one was not answered.
    pub(crate) fn record_ping(&mut self, number: u32, name: u64, now: Time) -> bool {
        self.contacts[number as usize].echo.replace((name, now)).is_some()
    }

    /// Records the answer to a ping. Returns its round trip time if it is the expected one.
    pub(crate) fn record_answer(&mut self, number: u32, name: u64, now: Time) -> Option<Duration> {
        let (_, sent) = self.contacts[number as usize].echo.take_if(|(asked, _)| *asked == name)?;
        Some(now.since(sent))
    }

    /// Records a new link. Returns the number of the host at the other end, or `None` if it is this
    /// node, or neither in the pool nor the scheduler.
    pub(crate) fn up(&mut self, identity: &PeerIdentity, peer: PeerId, now: Time) -> Option<u32> {
        let number = self.by_identity.get(identity).copied().filter(|number| *number != self.me)?;
        self.by_peer.insert(peer, number);
        let contact = &mut self.contacts[number as usize];
        (contact.peer, contact.since, contact.heard) = (Some(peer), now, now);
        (contact.attempts, contact.dial_at) = (0, None);
        (contact.is_overfull, contact.has_greeted) = (false, false);
        Some(number)
    }

    pub(crate) fn down(&mut self, peer: PeerId, now: Time, config: &Config, rng: &mut NodeRng) {
        if let Some(number) = self.by_peer.remove(&peer) {
            let contact = &mut self.contacts[number as usize];
            (contact.peer, contact.since, contact.echo) = (None, now, None);
            contact.retry(now, config, rng);
        }
    }

    pub(crate) fn failed(&mut self, identity: &PeerIdentity, now: Time, config: &Config, rng: &mut NodeRng) {
        if let Some(number) = self.by_identity.get(identity) {
            let contact = &mut self.contacts[*number as usize];
            if contact.peer.is_none() {
                contact.retry(now, config, rng);
            }
        }
    }

    pub(crate) fn heard(&mut self, number: u32, now: Time) {
        self.contacts[number as usize].heard = now;
    }

    /// Records the incarnation of a host. Returns true if it replaces an earlier one.
    pub(crate) fn record_incarnation(&mut self, number: u32, incarnation: u64) -> bool {
        let contact = &mut self.contacts[number as usize];
        contact.has_greeted = true;
        let before = contact.incarnation.replace(incarnation);
        let is_new = before.is_some_and(|before| before != incarnation);
        contact.has_restarted |= is_new;
        is_new
    }

    /// Returns true if a host is connected and has reported its incarnation over this link.
    pub(crate) fn is_connected(&self, number: u32) -> bool {
        let contact = self.contacts.get(number as usize);
        contact.is_some_and(|contact| contact.peer.is_some() && contact.has_greeted)
    }

    /// Returns true if a host has reported several incarnations.
    pub(crate) fn has_restarted(&self) -> bool {
        self.contacts.iter().any(|contact| contact.has_restarted)
    }

    /// Returns the latest incarnation of each of these hosts, 0 for one that has reported none.
    pub(crate) fn incarnations(&self, numbers: &[u32]) -> Vec<u64> {
        let of = |number: &u32| self.contacts.get(*number as usize).and_then(|contact| contact.incarnation);
        numbers.iter().map(|number| of(number).unwrap_or_default()).collect()
    }

    /// Returns true if a host has been disconnected for longer than the limit.
    pub(crate) fn is_lost(&self, number: u32, now: Time, limit: Duration) -> bool {
        let contact = self.contacts.get(number as usize);
        number != self.me
            && contact.is_none_or(|contact| contact.peer.is_none() && now.since(contact.since) >= limit)
    }
}

impl Contact {
    /// Doubles the delay before the next dial, with jitter, so that nodes do not all return at
    /// once.
    fn retry(&mut self, now: Time, config: &Config, rng: &mut NodeRng) {
        if self.is_dialled {
            let reconnect = config.reconnect;
            let wait = reconnect.first.saturating_mul(1 << self.attempts.min(31)).min(reconnect.max);
            self.attempts = self.attempts.saturating_add(1);
            self.dial_at = Some(now + wait.mul_f64(0.5 + 0.5 * rng.unit()));
        }
    }
}
