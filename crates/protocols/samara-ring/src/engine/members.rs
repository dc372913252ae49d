//! Other nodes: links, dialling, heartbeats and suspicion.
//!
//! Reports of failures and views go directly to every connected node, never along the ring, because
//! the ring is what failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{PeerId, PeerIdentity, Time};

use super::event::Ignored;
use super::{Cx, Event, Ring, SuspectCause, TICK};
use crate::config::{Detection, Membership};
use crate::wire::Heartbeat;
use crate::{Member, Payload, RingFrame, Slow, ViewId};

/// Number of failed dials before the interval starts to double, for a seed or a node that was
/// connected before. A member that restarts within a minute is found at once.
const PATIENT_DIALS: i32 = 120;
/// Maximum number of times that the interval between two dials doubles.
const DOUBLINGS_MAX: i32 = 4;

/// Round trip times: mean and variation as in RFC 6298, and the minimum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    mean: f64,
    variation: f64,
    least: f64,
}

impl RoundTrip {
    fn sample(&mut self, span: Duration) {
        let sample = span.as_nanos() as f64;
        if self.mean == 0.0 {
            *self = Self { mean: sample, variation: sample / 2.0, least: sample };
            return;
        }
        self.variation += ((self.mean - sample).abs() - self.variation) / 4.0;
        self.mean += (sample - self.mean) / 8.0;
        self.least = self.least.min(sample);
    }

    /// Returns a time that a round trip hardly ever exceeds, or zero if there are no samples.
    pub(super) fn most(&self) -> Duration {
        Duration::from_nanos((self.mean + 4.0 * self.variation) as u64)
    }

    pub(super) fn least(&self) -> Duration {
        Duration::from_nanos(self.least as u64)
    }
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) identity: PeerIdentity,
    pub(super) is_up: bool,
    /// The link is down, and a dial has failed since.
    is_unreachable: bool,
    down_since: Time,
    pub(super) heard: Time,
    pub(super) round_trip: RoundTrip,
    /// `sent` of its last heartbeat, and the time of arrival.
    echo: (u64, Time),
    /// The incarnation of the node at the other end, known from its first heartbeat.
    pub(super) incarnation: Option<u64>,
    pub(super) view: Option<ViewId>,
    pub(super) view_members: u16,
    pub(super) promised: Option<ViewId>,
    pub(super) promised_since: Time,
    pub(super) is_leaving: bool,
    suspects: Vec<u16>,
    pub(super) progress: u64,
    pub(super) progress_since: Time,
    /// Start of its time in a view other than this node's.
    pub(super) foreign_since: Option<Time>,
    /// Time before which this node does not admit it.
    pub(super) banned_until: Time,
    /// Number of proposals without an answer since the last view was installed.
    pub(super) failures: u32,
    /// Time of the last request to it to send missing units again.
    pub(super) resumed: Option<Time>,
    /// Bytes of data that came from it in this view, and the part of them that was reported to it.
    pub(super) credit: (u64, u64),
    /// Bytes of its frames that this node did not keep, less those that it kept since then; at most
    /// a block of the transport.
    pub(super) wasted: u64,
}

impl Peer {
    pub(super) fn member(&self) -> Option<Member> {
        self.incarnation.map(|incarnation| Member { identity: self.identity.clone(), incarnation })
    }

    /// Postpones the next invitation to a node that did not answer the last one. The delay doubles
    /// each time.
    pub(super) fn put_off(&mut self, now: Time, first: Duration) {
        self.banned_until = self.banned_until.max(now + first * (1 << self.failures));
        self.failures = (self.failures + 1).min(6);
    }

    /// Returns the silence after which it is suspected.
    fn timeout(&self, detection: &Detection) -> Duration {
        let expected = detection.heartbeat * detection.silent_beats + self.round_trip.most();
        expected.clamp(detection.timeout_min, detection.timeout_max)
    }

    /// Returns true if its link is up and it was heard within the timeout.
    pub(super) fn is_alive(&self, now: Time, detection: &Detection) -> bool {
        self.is_up && now.since(self.heard) <= self.timeout(detection)
    }
}

#[derive(Debug)]
struct Dial {
    next: Time,
    /// When to give up, or `Time::MAX` for seeds.
    until: Time,
    /// Failed dials in a row, minus `PATIENT_DIALS` for seeds and for nodes that were connected
    /// before.
    failures: i32,
}

impl Dial {
    fn is_seed(&self) -> bool {
        self.until == Time::MAX
    }

    /// Returns the interval between two dials.
    fn wait(&self, redial: Duration) -> Duration {
        redial * (1 << self.failures.max(0))
    }
}

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
        let peer = self.by_id[id.index()].get_or_insert_with(|| Peer { identity, ..Peer::default() });
        peer.is_up = true;
        peer.is_unreachable = false;
        peer.heard = now;
        peer.echo = (0, now);
        peer.resumed = None;
        peer.credit = (0, 0);
        // The node at the other end may be a new incarnation.
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

    /// Keeps a link to this node until `until`.
    pub(super) fn keep(&mut self, identity: &PeerIdentity, next: Time, until: Time) {
        let is_known = until == Time::MAX || self.ids.contains_key(identity);
        let failures = if is_known { -PATIENT_DIALS } else { 0 };
        let dial = self.dials.entry(identity.clone()).or_insert(Dial { next, until, failures });
        dial.until = dial.until.max(until);
        if dial.failures <= 0 {
            dial.next = dial.next.min(next);
        }
    }

    /// Limits the number of wanted links. Keeps seeds, and of the others those that are wanted for
    /// the longest time.
    pub(super) fn bound_wanted(&mut self, max: usize) {
        let Some(excess) = self.dials.len().checked_sub(max) else { return };
        let others = self.dials.iter().filter(|(_, dial)| !dial.is_seed());
        let mut others: Vec<_> = others.map(|(identity, dial)| (dial.until, identity.clone())).collect();
        others.sort_unstable();
        for (_, identity) in others.iter().take(excess) {
            self.dials.remove(identity);
        }
    }

    /// Stops keeping a link to this node, unless it is a seed.
    pub(super) fn forget(&mut self, identity: &PeerIdentity) {
        if self.dials.get(identity).is_some_and(|dial| !dial.is_seed()) {
            self.dials.remove(identity);
        }
    }

    /// Delays the next dial of a node once its patient dials are used up.
    pub(super) fn dial_failed(&mut self, identity: &PeerIdentity, now: Time, redial: Duration) {
        let Some(dial) = self.dials.get_mut(identity) else { return };
        dial.failures = (dial.failures + 1).min(DOUBLINGS_MAX);
        if dial.failures > 0 {
            dial.next = now + dial.wait(redial);
        }
    }

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

    pub(super) fn has_all(&self, seeds: &[PeerIdentity]) -> bool {
        seeds.iter().all(|seed| self.id_of(seed).is_some_and(|id| self.is_up(id)))
    }
}

// ---- links come and go ----

impl Ring {
    pub(super) fn link_up(&mut self, peer: PeerId, identity: PeerIdentity, cx: &mut Cx<'_>) {
        self.peers.link_up(peer, identity.clone(), cx.now());
        self.send_heartbeat(peer, cx);
        let Some(current) = &mut self.current else { return };
        let Some(rank) = current.view.members.iter().position(|member| member.identity == identity) else {
            return;
        };
        current.peers[rank] = Some(peer);
        if let Some(hop) = current.hops.iter_mut().find(|hop| usize::from(hop.rank) == rank) {
            // The other end reports where to continue.
            hop.peer = Some(peer);
            hop.is_waiting = true;
            hop.reset();
        }
        if self.flush.is_some() {
            self.ask_for_repair(cx);
        } else if current.is_parent(peer) {
            self.ask_to_resume(peer, cx);
        }
    }

    pub(super) fn link_down(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        self.peers.link_down(peer, cx.now());
        if self.has_left {
            return;
        }
        self.resumes.retain(|(other, _)| *other != peer);
        let Some(current) = &mut self.current else { return };
        if let Some(index) = current.hops.iter().position(|hop| hop.peer == Some(peer)) {
            let hop = &mut current.hops[index];
            hop.is_waiting = true;
            hop.reset();
            if let Some(flush) = &mut self.flush {
                flush.repair = flush.repair.take().filter(|repair| repair.hop != index);
            }
        }
        if current.rank_of(peer).is_some()
            && let Some(identity) = self.peers.get(peer).map(|state| state.identity.clone())
        {
            // A dial shows at once whether the member or only the link has failed.
            self.peers.keep(&identity, cx.now(), cx.now() + self.config.membership.forget_after);
            cx.dial(identity);
        }
    }

    pub(super) fn dial_failed(&mut self, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        self.peers.dial_failed(identity, cx.now(), self.config.membership.redial);
        let Some(peer) = self.peers.id_of(identity).and_then(|id| self.peers.get_mut(id)) else { return };
        if !peer.is_up {
            peer.is_unreachable = true;
            self.report_suspects(cx);
            self.evaluate(cx);
        }
    }

    /// Forgets a peer, so that its number can be reused for another node. Returns false, and
    /// changes nothing, if its link is up or it is a member of the view.
    pub fn forget_peer(&mut self, peer: PeerId) -> bool {
        let is_member = self.current.as_ref().is_some_and(|current| current.rank_of(peer).is_some());
        if is_member || self.peers.is_up(peer) {
            return false;
        }
        self.peers.remove(peer);
        self.early.retain(|(from, _)| *from != peer);
        self.early_bytes = self.early.iter().map(|(_, data)| data.weight()).sum();
        // Its proposals, and its part in this node's proposal, are void.
        if let Some(flush) = self.flush.as_mut().filter(|flush| flush.proposer == Some(peer)) {
            flush.proposer = None;
        }
        self.proposal.take_if(|proposal| proposal.has_participant(peer));
        true
    }

    // ---- before there is a view ----

    /// Sends a message to every connected node and delivers it here, before there is a view.
    pub(super) fn send_early(&mut self, message: Bytes, cx: &mut Cx<'_>) {
        let up: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| peer.is_up).map(|(id, _)| id).collect();
        for peer in up {
            self.send(peer, RingFrame::Early(message.clone()), cx);
        }
        self.deliver_early(self.me.clone(), message, cx);
    }

    pub(super) fn on_early(&mut self, peer: PeerId, message: &Bytes, cx: &mut Cx<'_>) {
        let Some(origin) = self.peers.get(peer).and_then(|state| state.member()) else { return };
        // Nothing else bounds these messages while the application takes none.
        if self.outlet.bytes > self.config.held_bytes {
            self.waste(peer, message.len() as u64);
            return self.metrics.ignore(Ignored::EarlyOverflow);
        }
        let must_copy = self.must_copy(peer, message.len());
        let message = if must_copy { Bytes::copy_from_slice(message) } else { message.clone() };
        self.deliver_early(origin, message, cx);
    }

    fn deliver_early(&mut self, origin: crate::Member, message: Bytes, cx: &mut Cx<'_>) {
        self.metrics.delivered += 1;
        self.metrics.delivered_bytes += message.len() as u64;
        let payload = Payload::from(message);
        self.outlet.emit(Event::Delivered { view: None, origin, rank: 0, number: 0, payload }, cx);
    }
}

// ---- heartbeats and suspicion ----

impl Ring {
    pub(super) fn on_tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.start_timer(now + self.config.detection.heartbeat, TICK, cx);
        for identity in self.peers.due(now, &self.config.membership) {
            cx.dial(identity);
        }
        self.update_lap_goal();
        self.measure_hops();
        self.find_slow_members(cx);
        self.check_gaps(cx);
        self.check_standstill(cx);
        self.report_suspects(cx);
        self.send_heartbeats(cx);
        self.evaluate(cx);
    }

    /// Keeps a link to a node that a peer has named, unless it is connected or too many links are
    /// wanted already: a peer can name any address.
    pub(super) fn want_named(&mut self, identity: &PeerIdentity, span: Duration, cx: &mut Cx<'_>) {
        let is_up = self.peers.id_of(identity).is_some_and(|id| self.peers.is_up(id));
        if *identity == self.me.identity || is_up {
            return;
        }
        if self.peers.dials.len() < self.config.members_max {
            self.peers.keep(identity, cx.now(), cx.now() + span);
        } else {
            self.metrics.refused_names += 1;
        }
    }

    pub(super) fn send_heartbeats(&mut self, cx: &mut Cx<'_>) {
        let up: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| peer.is_up).map(|(id, _)| id).collect();
        let heartbeat = self.heartbeat(cx.now());
        up.into_iter().for_each(|peer| self.send_to(peer, heartbeat.clone(), cx));
    }

    fn send_heartbeat(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let heartbeat = self.heartbeat(cx.now());
        self.send_to(peer, heartbeat, cx);
    }

    /// Returns the part of a heartbeat that is the same for all peers.
    fn heartbeat(&self, now: Time) -> Heartbeat {
        let view = self.current.as_ref().map(|current| &current.view);
        let suspect = |rank: &u16| {
            let member = view.and_then(|view| view.members.get(usize::from(*rank)));
            let is_proven = member.is_some_and(|m| self.blamed.get(m) == Some(&SuspectCause::Impersonates));
            if is_proven { rank | Heartbeat::PROVEN } else { *rank }
        };
        Heartbeat {
            group: self.config.group,
            incarnation: self.me.incarnation,
            view: view.map(|view| view.id),
            members: view.map_or(0, |view| view.len() as u16),
            promised: self.flush.as_ref().map(|flush| flush.prepare.proposal),
            leaving: self.is_leaving_now() || self.has_left,
            suspects: self.suspected.iter().map(suspect).collect(),
            progress: self.current.as_ref().map_or(0, |current| current.progress()),
            sent: now.as_nanos(),
            ..Heartbeat::default()
        }
    }

    fn send_to(&mut self, peer: PeerId, heartbeat: Heartbeat, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(state) = self.peers.get(peer) else { return };
        let heartbeat = Heartbeat {
            leader: self.leader_for(peer, now),
            echo: state.echo.0,
            held: u64::try_from(now.since(state.echo.1).as_nanos()).unwrap_or(u64::MAX),
            ..heartbeat
        };
        self.send(peer, RingFrame::Heartbeat(Arc::new(heartbeat)), cx);
    }

    pub(super) fn on_heartbeat(&mut self, id: PeerId, heartbeat: &Heartbeat, cx: &mut Cx<'_>) {
        let now = cx.now();
        if heartbeat.group != self.config.group {
            return self.metrics.ignore(Ignored::OtherGroup);
        }
        let Some(peer) = self.peers.get(id) else { return };
        let is_known = peer.incarnation == Some(heartbeat.incarnation);
        if !is_known && self.is_of_another(id, heartbeat.incarnation) {
            return self.on_forged(id, cx);
        }
        let mut views = [heartbeat.view, heartbeat.promised].into_iter().flatten();
        if !views.all(|view| self.record_counter(view, now)) {
            return;
        }
        let own_progress = self.current.as_ref().map_or(0, |current| current.progress());
        let Some(peer) = self.peers.get_mut(id) else { return };
        let is_first = peer.incarnation != Some(heartbeat.incarnation);
        if heartbeat.echo > 0 {
            let trip = now.since(Time::from_nanos(heartbeat.echo.saturating_add(heartbeat.held)));
            peer.round_trip.sample(trip);
        }
        let is_news = is_first
            || peer.suspects != heartbeat.suspects
            || peer.is_leaving != heartbeat.leaving
            || peer.view != heartbeat.view;
        peer.echo = (heartbeat.sent, now);
        peer.incarnation = Some(heartbeat.incarnation);
        if peer.promised != heartbeat.promised {
            peer.promised_since = now;
        }
        // A member that lacks nothing is not slow, however long it has had nothing to take.
        if peer.progress != heartbeat.progress || heartbeat.progress >= own_progress {
            peer.progress_since = now;
        }
        peer.view = heartbeat.view;
        peer.view_members = heartbeat.members;
        peer.promised = heartbeat.promised;
        peer.is_leaving = heartbeat.leaving;
        peer.suspects.clone_from(&heartbeat.suspects);
        peer.progress = heartbeat.progress;
        self.install_if_others_have(heartbeat.view, cx);
        if let Some(leader) = &heartbeat.leader {
            self.want_named(leader, self.config.membership.forget_after, cx);
        }
        if is_news {
            self.report_suspects(cx);
            self.evaluate(cx);
        }
    }

    /// Installs the view for which this member is ready if another member has: the `Install` for
    /// this one was lost.
    fn install_if_others_have(&mut self, view: Option<ViewId>, cx: &mut Cx<'_>) {
        let is_flushed = self.flush.as_ref().is_some_and(|f| f.is_ready && view == Some(f.prepare.proposal));
        if is_flushed {
            self.install_flushed(cx);
        } else if self.flush.is_none() && self.current.is_none() {
            self.install_first(view, cx);
        }
    }

    // ---- members that speak as others ----

    /// Returns true if a node other than this peer has this incarnation.
    pub(super) fn is_of_another(&self, peer: PeerId, incarnation: u64) -> bool {
        let mut others = self.peers.iter().filter(|(id, _)| *id != peer);
        incarnation == self.me.incarnation || others.any(|(_, other)| other.incarnation == Some(incarnation))
    }

    /// Handles a frame of a peer in the name of another node.
    ///
    /// The whole group has to part from such a member at once. If members only took it for a new
    /// incarnation, some would suspect it and others not yet, and the group could remove those that do.
    pub(super) fn on_forged(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        self.metrics.ignore(Ignored::Forged);
        let until = cx.now() + self.config.membership.ban;
        // Before the first heartbeat of a link, either of two nodes with one name can be the right one.
        let Some(peer) = self.peers.get_mut(id).filter(|peer| peer.incarnation.is_some()) else { return };
        peer.banned_until = peer.banned_until.max(until);
        let identity = peer.identity.clone();
        let Some(view) = self.current.as_ref().map(|current| current.view.clone()) else { return };
        let Some(member) = view.members.iter().find(|member| member.identity == identity) else { return };
        // The proof outweighs what it was suspected of before.
        if self.blamed.insert(member.clone(), SuspectCause::Impersonates) != Some(SuspectCause::Impersonates)
        {
            self.report_suspects(cx);
            self.evaluate(cx);
        }
    }

    /// Returns true if this member or another one knows that a node speaks as others.
    pub(super) fn is_impostor(&self, identity: &PeerIdentity) -> bool {
        let Some(current) = &self.current else { return false };
        let members = (0u16..).zip(current.view.members.iter());
        members.filter(|(_, member)| member.identity == *identity).any(|(rank, member)| {
            self.convicted.contains(&rank) || self.blamed.get(member) == Some(&SuspectCause::Impersonates)
        })
    }

    // ---- suspicion ----

    /// Returns the reason why a member of the view is suspected, if it is.
    pub(super) fn opinion(&self, rank: u16, now: Time) -> Option<SuspectCause> {
        let current = self.current.as_ref()?;
        let member = &current.view.members[usize::from(rank)];
        if rank == current.rank {
            return None;
        }
        if let Some(cause) = self.blamed.get(member) {
            return Some(*cause);
        }
        // If it was never connected, it has until the view is as old as the timeout.
        let Some(peer) = current.peers[usize::from(rank)].or_else(|| self.peers.id_of(&member.identity))
        else {
            let waits = now.since(self.view_since) <= self.config.detection.timeout_min;
            return (!waits).then_some(SuspectCause::LinkDown);
        };
        let own = self.peer_opinion(peer, member, now);
        own.or_else(|| self.has_moved_on(peer, now).then_some(SuspectCause::MovedOn))
            .or_else(|| self.is_reported(rank, now).then_some(SuspectCause::Reported))
    }

    /// Returns the suspicion that the link to a node justifies, if any.
    pub(super) fn peer_opinion(&self, peer: PeerId, member: &Member, now: Time) -> Option<SuspectCause> {
        let detection = &self.config.detection;
        let peer = self.peers.get(peer)?;
        if peer.is_up && peer.incarnation.is_some_and(|incarnation| incarnation != member.incarnation) {
            return Some(SuspectCause::Restarted);
        }
        if !peer.is_up && (peer.is_unreachable || now.since(peer.down_since) > detection.link_grace) {
            return Some(SuspectCause::LinkDown);
        }
        let silence = now.since(peer.heard);
        (silence > peer.timeout(detection)).then_some(SuspectCause::Silent)
    }

    /// Returns true if a member has been in another view for longer than `verify`, or, in an older
    /// view, for that plus the time to install this one.
    fn has_moved_on(&self, peer: PeerId, now: Time) -> bool {
        let (Some(current), Some(peer)) = (&self.current, self.peers.get(peer)) else { return false };
        let proposed = self.flush.as_ref().map(|flush| flush.prepare.proposal);
        let Some(since) = self.elsewhere.get(&peer.identity).filter(|_| peer.view != proposed) else {
            return false;
        };
        let verify = self.config.detection.verify;
        let is_newer = peer.view > Some(current.view.id);
        let patience = if is_newer { verify } else { verify + 2 * self.config.membership.flush_timeout };
        now.since(*since) > patience
    }

    /// Returns true if another member has not heard this one for so long that it has to be removed,
    /// although this node hears it: a ring with a broken link does not work. Also if another member
    /// knows that it has broken the protocol.
    fn is_reported(&self, rank: u16, now: Time) -> bool {
        let since = self.disputes.get(&rank);
        self.convicted.contains(&rank)
            || since.is_some_and(|since| now.since(*since) > self.config.detection.verify)
    }

    /// Updates disputes and departures, and reports new suspicions to every connected node at once.
    fn report_suspects(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(current) = &self.current else { return };
        let (own, count, view) = (current.rank, current.len() as u16, current.view.clone());
        let mut accusations: BTreeSet<(u16, u16)> = BTreeSet::new();
        let mut convicted = BTreeSet::new();
        for by in (0..count).filter(|rank| *rank != own) {
            let Some(peer) = current.peers[usize::from(by)].and_then(|peer| self.peers.get(peer)) else {
                continue;
            };
            let counts = peer.view == Some(view.id) && peer.is_alive(now, &self.config.detection);
            if counts && !self.blamed.contains_key(&view.members[usize::from(by)]) {
                let proven = peer.suspects.iter().filter_map(|rank| rank.checked_sub(Heartbeat::PROVEN));
                convicted.extend(proven.filter(|rank| *rank < count && ![own, by].contains(rank)));
            }
            // A member that does not hear most of the others is the cause itself.
            if counts && 2 * peer.suspects.len() < usize::from(count) {
                accusations.extend(peer.suspects.iter().filter(|rank| **rank != by).map(|rank| (*rank, by)));
            }
        }
        // If only one member does not hear another, either of the two can be the cause, so the one
        // with the higher rank is removed. The same applies if neither hears the other.
        let accused: BTreeSet<u16> = accusations
            .iter()
            .map(|(rank, by)| {
                let is_alone = accusations.iter().filter(|(other, _)| other == rank).count() == 1;
                if is_alone { *rank.max(by) } else { *rank }
            })
            .collect();
        for rank in (0..count).filter(|rank| *rank != own) {
            if accused.contains(&rank) {
                self.disputes.entry(rank).or_insert(now);
            } else {
                self.disputes.remove(&rank);
            }
            let identity = &view.members[usize::from(rank)].identity;
            let peer = self.peers.id_of(identity).and_then(|id| self.peers.get(id));
            let is_elsewhere = |peer: &Peer| peer.incarnation.is_some() && peer.view != Some(view.id);
            if peer.is_some_and(is_elsewhere) {
                self.elsewhere.entry(identity.clone()).or_insert(now);
            } else {
                self.elsewhere.remove(identity);
            }
        }
        self.convicted = convicted;
        let mut suspected = BTreeSet::new();
        for rank in 0..count {
            let Some(cause) = self.opinion(rank, now) else { continue };
            if cause != SuspectCause::Reported {
                suspected.insert(rank);
            }
            if !self.suspected.contains(&rank) && self.reported.insert(rank) {
                self.metrics.suspicions += 1;
                cx.emit(Event::Suspected { member: view.members[usize::from(rank)].clone(), cause });
            }
        }
        if suspected != self.suspected {
            self.suspected = suspected;
            self.send_heartbeats(cx);
        }
    }

    /// Suspects a member until the next view.
    pub(super) fn blame(&mut self, member: &Member, cause: SuspectCause, cx: &mut Cx<'_>) {
        if self.current.as_ref().is_some_and(|current| current.view.rank_of(member).is_some()) {
            self.blamed.entry(member.clone()).or_insert(cause);
            self.report_suspects(cx);
        }
    }

    // ---- members that hold the group up ----

    /// Finds the member with the least progress if nothing else explains that the group stalls.
    fn find_slow_members(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(current) = self.current.as_ref().filter(|_| self.flush.is_none()) else { return };
        let (after, removes) = match self.config.slow {
            Slow::Wait => (self.config.detection.timeout_max, false),
            Slow::Remove { after } => (after, true),
        };
        let view = current.view.clone();
        let own = current.progress();
        let progress = |rank: usize| {
            let peer = current.peers[rank].and_then(|peer| self.peers.get(peer))?;
            (peer.view == Some(view.id)).then_some((peer.progress, peer.progress_since, rank))
        };
        let others: Vec<(u64, Time, usize)> = (0..view.len()).filter_map(progress).collect();
        let most = others.iter().map(|(taken, ..)| *taken).fold(own, u64::max);
        let Some((least, since, rank)) = others.into_iter().min() else { return };
        if least >= most || least >= own || now.since(since) <= after {
            return;
        }
        let acts = removes && self.suspected.is_empty() && self.is_acting(now);
        let ban = self.config.membership.ban;
        let member = view.members[rank].clone();
        if let Some(peer) = self.peers.id_of(&member.identity).and_then(|id| self.peers.get_mut(id)) {
            // Reported once for each stall.
            peer.progress_since = now;
            if acts {
                peer.banned_until = now + ban;
            }
        }
        cx.emit(Event::Slow { member: member.clone() });
        if acts {
            self.blame(&member, SuspectCause::Slow, cx);
        }
    }

    /// Requests missing units only if they are still missing at the next tick: where units take two
    /// paths, they may still arrive on the other one.
    fn check_gaps(&mut self, cx: &mut Cx<'_>) {
        let Some(current) = self.current.as_ref().filter(|_| self.flush.is_none()) else { return };
        let gaps: Vec<(u16, u64)> = (0u16..)
            .zip(&current.streams)
            .filter(|(_, stream)| stream.has_gap())
            .map(|(origin, stream)| (origin, stream.have))
            .collect();
        let lasts = gaps.iter().any(|gap| self.gaps.contains(gap));
        let parents: Vec<PeerId> = if lasts {
            current.peers.iter().flatten().copied().filter(|peer| current.is_parent(*peer)).collect()
        } else {
            Vec::new()
        };
        self.gaps = gaps;
        parents.into_iter().for_each(|peer| self.ask_to_resume(peer, cx));
    }

    /// Asks again for what must be on the way and does not arrive.
    ///
    /// Links lose no frames while they are up, and a missing unit shows by the next one. But a member
    /// that drops frames can drop the last one before a pause, or the acknowledgement that the windows
    /// of others wait for. Nothing but this would reveal it.
    fn check_standstill(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(current) = &self.current else { return };
        let have: u64 = current.have().iter().sum();
        let has_more = |peer: &PeerId| {
            let peer = self.peers.get(*peer);
            peer.is_some_and(|peer| peer.view == Some(current.view.id) && peer.progress > have)
        };
        let waits = match &self.flush {
            Some(flush) => flush.cut.is_some() && !flush.is_ready,
            None => current.is_active() || current.peers.iter().flatten().any(has_more),
        };
        let arrivals = current.arrivals();
        if !waits || arrivals != self.standstill.0 {
            self.standstill = (arrivals, now);
            return;
        }
        // `lap_goal` is the time of two laps without a wait.
        if now.since(self.standstill.1) <= self.config.detection.timeout_min + 2 * self.lap_goal {
            return;
        }
        self.standstill.1 = now;
        if self.flush.is_some() {
            return self.ask_for_repair(cx);
        }
        let view = current.view.id;
        let parents = current.peers.iter().flatten().copied().filter(|peer| current.is_parent(*peer));
        for peer in parents.collect::<Vec<_>>() {
            if let Some(state) = self.peers.get_mut(peer) {
                state.credit.1 = state.credit.0;
                let bytes = state.credit.0;
                self.send(peer, RingFrame::Credit { view, bytes }, cx);
                self.ask_to_resume(peer, cx);
            }
        }
    }
}
