//! The nodes that are or were connected, and what they said of themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::{PeerId, PeerIdentity, Time};

use crate::config::{Detection, Membership};
use crate::{Member, ViewId};

/// Failed dials of a seed, or of a node that was connected before, that leave the wait for the next dial as it is, so that a
/// member that restarts within a minute is found at once.
const PATIENT_DIALS: i32 = 120;
/// How often the wait between two dials doubles at most.
const DOUBLINGS_MAX: i32 = 4;

/// Round trip times: mean and variation as in RFC 6298, and the least one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    mean: f64,
    variation: f64,
    least: f64,
}

impl RoundTrip {
    pub(super) fn sample(&mut self, span: Duration) {
        let sample = span.as_nanos() as f64;
        if self.mean == 0.0 {
            *self = Self { mean: sample, variation: sample / 2.0, least: sample };
            return;
        }
        self.variation += ((self.mean - sample).abs() - self.variation) / 4.0;
        self.mean += (sample - self.mean) / 8.0;
        self.least = self.least.min(sample);
    }

    /// What a round trip hardly ever exceeds; zero while nothing is known.
    pub(super) fn most(&self) -> Duration {
        Duration::from_nanos((self.mean + 4.0 * self.variation) as u64)
    }

    pub(super) fn least(&self) -> Duration {
        Duration::from_nanos(self.least as u64)
    }
}

/// A node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) identity: PeerIdentity,
    pub(super) is_up: bool,
    /// The link is down, and a dial failed since.
    pub(super) is_unreachable: bool,
    pub(super) down_since: Time,
    /// When the last frame came.
    pub(super) heard: Time,
    pub(super) round_trip: RoundTrip,
    /// `sent` of its last heartbeat, and when it came.
    pub(super) echo: (u64, Time),
    /// Which life of the node the link belongs to, once its heartbeat told.
    pub(super) incarnation: Option<u64>,
    pub(super) view: Option<ViewId>,
    pub(super) view_members: u16,
    pub(super) promised: Option<ViewId>,
    pub(super) promised_since: Time,
    pub(super) is_leaving: bool,
    pub(super) suspects: Vec<u16>,
    pub(super) progress: u64,
    pub(super) progress_since: Time,
    /// Since when it is in a view other than this node's.
    pub(super) foreign_since: Option<Time>,
    /// It is not taken in before.
    pub(super) banned_until: Time,
    /// How many proposals it has not answered since the last view was installed.
    pub(super) failures: u32,
    /// When it was last asked to send again what is missing.
    pub(super) resumed: Option<Time>,
    /// Bytes of data that came from it in this view, and how many of them it knows of.
    pub(super) credit: (u64, u64),
}

impl Peer {
    fn new(identity: PeerIdentity) -> Self {
        Self {
            identity,
            is_up: false,
            is_unreachable: false,
            down_since: Time::ZERO,
            heard: Time::ZERO,
            round_trip: RoundTrip::default(),
            echo: (0, Time::ZERO),
            incarnation: None,
            view: None,
            view_members: 0,
            promised: None,
            promised_since: Time::ZERO,
            is_leaving: false,
            suspects: Vec::new(),
            progress: 0,
            progress_since: Time::ZERO,
            foreign_since: None,
            banned_until: Time::ZERO,
            failures: 0,
            resumed: None,
            credit: (0, 0),
        }
    }

    pub(super) fn member(&self) -> Option<Member> {
        self.incarnation.map(|incarnation| Member { identity: self.identity.clone(), incarnation })
    }

    /// It was asked to join, and did not answer: the next time, twice as long passes until it is asked again.
    pub(super) fn put_off(&mut self, now: Time, first: Duration) {
        self.banned_until = self.banned_until.max(now + first * (1 << self.failures));
        self.failures = (self.failures + 1).min(6);
    }

    /// After so much silence it is taken for failed.
    pub(super) fn timeout(&self, detection: &Detection) -> Duration {
        let expected = detection.heartbeat * detection.silent_beats + self.round_trip.most();
        expected.clamp(detection.timeout_min, detection.timeout_max)
    }

    /// Whether its link is up and it was heard of within the timeout.
    pub(super) fn is_alive(&self, now: Time, detection: &Detection) -> bool {
        self.is_up && now.since(self.heard) <= self.timeout(detection)
    }
}

/// A node that a link is wanted to.
#[derive(Debug)]
struct Dial {
    next: Time,
    /// When to give up; never for seeds.
    until: Time,
    /// Dials in a row that failed, less `PATIENT_DIALS` for a node that deserves patience.
    failures: i32,
}

impl Dial {
    fn is_seed(&self) -> bool {
        self.until == Time::MAX
    }

    /// From one dial to the next one.
    fn wait(&self, redial: Duration) -> Duration {
        redial * (1 << self.failures.max(0))
    }
}

/// All nodes, and those to be dialled.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_id: Vec<Option<Peer>>,
    ids: BTreeMap<PeerIdentity, PeerId>,
    dials: BTreeMap<PeerIdentity, Dial>,
}

impl Peers {
    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.by_id.get(id.index())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.by_id.get_mut(id.index())?.as_mut()
    }

    pub(super) fn id_of(&self, identity: &PeerIdentity) -> Option<PeerId> {
        self.ids.get(identity).copied()
    }

    /// All that were ever connected, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.by_id.iter().enumerate().filter_map(|(id, peer)| Some((PeerId(id as u32), peer.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Peer)> {
        self.by_id.iter_mut().enumerate().filter_map(|(id, peer)| Some((PeerId(id as u32), peer.as_mut()?)))
    }

    pub(super) fn is_up(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.is_up)
    }

    pub(super) fn link_up(&mut self, id: PeerId, identity: PeerIdentity, now: Time) {
        if self.by_id.len() <= id.index() {
            self.by_id.resize_with(id.index() + 1, || None);
        }
        self.ids.insert(identity.clone(), id);
        if let Some(dial) = self.dials.get_mut(&identity) {
            dial.failures = -PATIENT_DIALS;
        }
        let peer = self.by_id[id.index()].get_or_insert_with(|| Peer::new(identity));
        peer.is_up = true;
        peer.is_unreachable = false;
        peer.heard = now;
        peer.echo = (0, now);
        peer.resumed = None;
        peer.credit = (0, 0);
        // Whoever answers now may be another incarnation.
        peer.incarnation = None;
        peer.view = None;
        peer.promised = None;
        peer.is_leaving = false;
        peer.suspects.clear();
        peer.foreign_since = None;
    }

    pub(super) fn remove(&mut self, id: PeerId) {
        if let Some(peer) = self.by_id.get_mut(id.index()).and_then(Option::take) {
            self.ids.remove(&peer.identity);
        }
    }

    pub(super) fn link_down(&mut self, id: PeerId, now: Time) {
        if let Some(peer) = self.get_mut(id) {
            peer.is_up = false;
            peer.down_since = now;
        }
    }

    /// Wants a link to this node until that time.
    pub(super) fn keep(&mut self, identity: &PeerIdentity, next: Time, until: Time) {
        let is_known = until == Time::MAX || self.ids.contains_key(identity);
        let failures = if is_known { -PATIENT_DIALS } else { 0 };
        let dial = self.dials.entry(identity.clone()).or_insert(Dial { next, until, failures });
        dial.until = dial.until.max(until);
        if dial.failures <= 0 {
            dial.next = dial.next.min(next);
        }
    }

    /// Wants at most so many links: keeps seeds, and of the others those that are wanted for longest.
    pub(super) fn bound_wanted(&mut self, max: usize) {
        let Some(excess) = self.dials.len().checked_sub(max) else { return };
        let others = self.dials.iter().filter(|(_, dial)| !dial.is_seed());
        let mut others: Vec<_> = others.map(|(identity, dial)| (dial.until, identity.clone())).collect();
        others.sort_unstable();
        for (_, identity) in others.iter().take(excess) {
            self.dials.remove(identity);
        }
    }

    /// Nodes that a link is wanted to.
    pub(super) fn wanted(&self) -> usize {
        self.dials.len()
    }

    /// Wants no link to this node any more, unless it is a seed.
    pub(super) fn forget(&mut self, identity: &PeerIdentity) {
        if self.dials.get(identity).is_some_and(|dial| !dial.is_seed()) {
            self.dials.remove(identity);
        }
    }

    /// Waits longer for the next dial of a node, if its patience is used up.
    pub(super) fn dial_failed(&mut self, identity: &PeerIdentity, now: Time, redial: Duration) {
        let Some(dial) = self.dials.get_mut(identity) else { return };
        dial.failures = (dial.failures + 1).min(DOUBLINGS_MAX);
        if dial.failures > 0 {
            dial.next = now + dial.wait(redial);
        }
    }

    /// Whom to dial now.
    pub(super) fn due(&mut self, now: Time, membership: &Membership) -> Vec<PeerIdentity> {
        self.dials.retain(|_, dial| dial.until > now);
        let (ids, by_id) = (&self.ids, &self.by_id);
        let is_up = |identity| {
            let id = ids.get(identity);
            id.is_some_and(|id| by_id[id.index()].as_ref().is_some_and(|peer| peer.is_up))
        };
        let due = self.dials.iter_mut().filter(|(identity, dial)| dial.next <= now && !is_up(*identity));
        due.map(|(identity, dial)| {
            dial.next = now + dial.wait(membership.redial);
            identity.clone()
        })
        .collect()
    }

    /// Whether all seeds are connected.
    pub(super) fn has_all(&self, seeds: &[PeerIdentity]) -> bool {
        seeds.iter().all(|seed| self.id_of(seed).is_some_and(|id| self.is_up(id)))
    }
}
