//! View changes.
//!
//! 1. `Prepare`: a coordinator proposes members. Members stop sending and forwarding new units in
//!    the old view. Each participant states what it has, to the proposer and to its new predecessor
//!    among those that stay. That predecessor immediately starts to send the missing units from its
//!    own buffer.
//! 2. `Cut`: each old view ends here. The cut is the highest unit of each origin that any of those
//!    that stay has. Each of them passes its units to its successor on their ring, so all receive
//!    everything up to the cut.
//! 3. `Ready` as soon as a participant has everything up to the cut; `Install` when all are ready.
//!
//! So all members that continue together have delivered the same messages in the old view. A ready
//! participant remembers the proposed view. If the proposer fails while it sends `Install`, the
//! next proposer makes the members that missed it install that view first.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::planted::{Bug, is_planted};
use samara_engine::{PeerId, PeerIdentity, Shape, Time};

use super::current::{Current, Hop};
use super::event::Ignored;
use super::{Cx, Event, Ring, SuspectCause};
use crate::wire::{Cut, OldView, Prepare, Resume, State};
use crate::{Member, Order, RingFrame, View, ViewId};

// ---- the proposer ----

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) prepare: Arc<Prepare>,
    /// Start of the current wait for answers.
    since: Time,
    participants: Vec<Participant>,
    is_cut: bool,
}

#[derive(Debug)]
struct Participant {
    member: Member,
    /// `None` for this node.
    peer: Option<PeerId>,
    state: Option<Arc<State>>,
    is_ready: bool,
}

impl Proposal {
    pub(super) fn has_participant(&self, peer: PeerId) -> bool {
        self.participants.iter().any(|participant| participant.peer == Some(peer))
    }
}

/// The standing of a group, higher is better: whether it has a view, its number of members, its
/// view.
type Standing = (bool, u16, Option<ViewId>);

impl Ring {
    /// Proposes a view if that is necessary and up to this node. Examines the state and not events,
    /// so it cannot miss a reason.
    pub(super) fn evaluate(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.check_proposal(cx);
        if self.proposal.is_some() || now < self.back_off_until || self.has_left {
            return;
        }
        if self.flush.is_some() && !self.is_flush_stuck(now) {
            return;
        }
        if self.flush.is_some() && self.current.is_none() {
            // No other proposer has this node in its view.
            self.flush = None;
        }
        let newcomers = self.newcomers(now);
        let is_due = match &self.current {
            Some(_) => self.is_acting(now) && (self.has_reason(now) || !newcomers.is_empty()),
            None => self.may_form(now, &newcomers),
        };
        if is_due {
            self.propose(newcomers, cx);
        }
    }

    /// Returns true if the current view change cannot complete any more.
    fn is_flush_stuck(&self, now: Time) -> bool {
        let Some(flush) = &self.flush else { return false };
        let membership = &self.config.membership;
        let Some(peer) = flush.proposer.and_then(|peer| self.peers.get(peer)) else { return true };
        !peer.is_up
            || self.is_impostor(&peer.identity)
            || !peer.is_alive(now, &self.config.detection)
            || peer.view > Some(flush.prepare.proposal)
            || now.since(flush.since) > membership.flush_patience()
    }

    /// Returns true if this node is the first member of its view that is neither suspected nor
    /// leaving.
    pub(super) fn is_acting(&self, now: Time) -> bool {
        self.current.as_ref().is_some_and(|current| self.acting(now) == Some(current.rank))
    }

    /// Returns the first member of the view that is neither suspected nor leaving.
    fn acting(&self, now: Time) -> Option<u16> {
        let current = self.current.as_ref()?;
        let remains = |rank: u16, even_leaving: bool| {
            if rank == current.rank {
                return even_leaving || !self.is_leaving_now();
            }
            self.opinion(rank, now).is_none() && (even_leaving || !self.is_rank_leaving(rank))
        };
        let ranks = 0..current.len() as u16;
        let acting = ranks.clone().find(|rank| remains(*rank, false));
        acting.or_else(|| ranks.clone().find(|rank| remains(*rank, true)))
    }

    /// Returns the member that can admit a node of another view, or of none. That node may be
    /// connected only to this one.
    pub(super) fn leader_for(&self, outsider: PeerId, now: Time) -> Option<PeerIdentity> {
        let current = self.current.as_ref()?;
        if current.rank_of(outsider).is_some() {
            return None;
        }
        let leader = self.acting(now).filter(|rank| *rank != current.rank)?;
        Some(current.view.members[usize::from(leader)].identity.clone())
    }

    fn is_rank_leaving(&self, rank: u16) -> bool {
        let peer = self.current.as_ref().and_then(|current| current.peers[usize::from(rank)]);
        peer.and_then(|peer| self.peers.get(peer)).is_some_and(|peer| peer.is_leaving)
    }

    /// Returns true if the view has to change.
    fn has_reason(&mut self, now: Time) -> bool {
        let Some(current) = &self.current else { return false };
        let (view, own, count) = (current.view.id, current.rank, current.len() as u16);
        let patience = 2 * self.config.membership.flush_timeout;
        let is_stuck = |rank: u16| {
            let peer = current.peers[usize::from(rank)].and_then(|peer| self.peers.get(peer));
            // An unfinished proposal keeps the peer from sending.
            peer.is_some_and(|p| p.promised > Some(view) && now.since(p.promised_since) > patience)
        };
        self.flush.is_some()
            || self.is_leaving_now()
            || (0..count)
                .filter(|rank| *rank != own)
                .any(|rank| self.opinion(rank, now).is_some() || self.is_rank_leaving(rank) || is_stuck(rank))
    }

    /// Returns connected nodes of other views, or of none, if this node is the one that admits
    /// them.
    fn newcomers(&mut self, now: Time) -> Vec<Member> {
        let view = self.current.as_ref().map(|current| current.view.clone());
        let own: Standing =
            (view.is_some(), view.as_ref().map_or(0, |v| v.len() as u16), view.as_ref().map(|v| v.id));
        let detection = self.config.detection;
        let mut found: Vec<(Standing, Member, Time)> = Vec::new();
        for (_, peer) in self.peers.iter_mut() {
            let Some(member) = peer.member() else { continue };
            let is_member = view.as_ref().is_some_and(|view| view.rank_of(&member).is_some());
            if is_member || !peer.is_alive(now, &detection) || peer.is_leaving || peer.banned_until > now {
                peer.foreign_since = None;
                continue;
            }
            let since = *peer.foreign_since.get_or_insert(now);
            found.push(((peer.view.is_some(), peer.view_members, peer.view), member, since));
        }
        let is_lower = |(standing, member, _): &(Standing, Member, Time)| {
            *standing < own || (*standing == own && *member > self.me)
        };
        let merge_after = self.config.membership.merge_after;
        let is_ripe = found.iter().any(|(.., since)| now.since(*since) >= merge_after);
        if !is_ripe || !found.iter().all(is_lower) || self.is_leaving_now() {
            return Vec::new();
        }
        let mut newcomers: Vec<Member> = found.into_iter().map(|(_, member, _)| member).collect();
        newcomers.sort_unstable();
        newcomers.truncate(self.config.members_max.saturating_sub(view.map_or(1, |view| view.len())));
        newcomers
    }

    /// Returns true if this node, which has no view, should form one: with the nodes it sees, or
    /// alone if there are none and it needs none.
    fn may_form(&self, now: Time, newcomers: &[Member]) -> bool {
        let membership = &self.config.membership;
        let complete = self.peers.has_all(&self.config.seeds);
        let patience = if complete { membership.form_after } else { membership.join_timeout };
        let sees_others = self.peers.iter().any(|(_, peer)| {
            peer.is_alive(now, &self.config.detection) && peer.incarnation.is_some() && !peer.is_leaving
        });
        // A node that leaves with messages in its queue needs a view to deliver them.
        let may_be_alone = !sees_others && (!self.config.needs_others || self.wants_to_leave);
        now.since(self.started_at) >= patience && (!newcomers.is_empty() || may_be_alone)
    }

    fn propose(&mut self, newcomers: Vec<Member>, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut members = Vec::new();
        let mut departing = Vec::new();
        match self.current.as_ref().map(|current| current.view.clone()) {
            Some(view) => {
                for (rank, member) in (0u16..).zip(view.members.iter()) {
                    let is_own = *member == self.me;
                    let opinion = self.opinion(rank, now);
                    if opinion == Some(SuspectCause::Reported) {
                        self.ban_unreachable(member, now);
                    }
                    if opinion.is_some() {
                        continue;
                    }
                    let leaves = if is_own { self.is_leaving_now() } else { self.is_rank_leaving(rank) };
                    if leaves { departing.push(member.clone()) } else { members.push(member.clone()) }
                }
            }
            None => members.push(self.me.clone()),
        }
        members.extend(newcomers);
        // A counter that could not grow would belong to two views.
        let Some(counter) = self.counter.checked_add(1) else { return };
        self.counter = counter;
        let proposal = ViewId { counter: self.counter, proposer: self.me.incarnation };
        let shape = self.config.shape.shape(members.len());
        let participants = members.iter().chain(&departing).map(|member| Participant {
            peer: if *member == self.me { None } else { self.peers.id_of(&member.identity) },
            member: member.clone(),
            state: None,
            is_ready: false,
        });
        let participants = participants.collect();
        let prepare = Arc::new(Prepare { proposal, members, departing, shape });
        self.metrics.proposals += 1;
        self.proposal = Some(Proposal { prepare: prepare.clone(), since: now, participants, is_cut: false });
        self.send_to_participants(&RingFrame::Prepare(prepare), cx);
    }

    /// Bans a member that this node hears but another member does not. Otherwise it would return at
    /// once, and be removed again.
    fn ban_unreachable(&mut self, member: &Member, now: Time) {
        let until = now + self.config.membership.unreachable_for;
        if let Some(peer) = self.peers.id_of(&member.identity).and_then(|id| self.peers.get_mut(id)) {
            peer.banned_until = peer.banned_until.max(until);
        }
    }

    /// Abandons a proposal if a participant does not answer or has failed. The next proposal
    /// excludes it.
    fn check_proposal(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(proposal) = &self.proposal else { return };
        let membership = &self.config.membership;
        let patience = if proposal.is_cut { membership.repair_timeout } else { membership.flush_timeout };
        let is_late = now.since(proposal.since) > patience;
        let failed: Vec<(Member, Option<PeerId>)> = proposal
            .participants
            .iter()
            .filter(|participant| {
                let has_answered =
                    if proposal.is_cut { participant.is_ready } else { participant.state.is_some() };
                participant.peer.is_some_and(|peer| {
                    self.peer_opinion(peer, &participant.member, now).is_some()
                        || self.is_impostor(&participant.member.identity)
                        || is_late && !has_answered
                })
            })
            .map(|participant| (participant.member.clone(), participant.peer))
            .collect();
        if failed.is_empty() && !is_late {
            return;
        }
        self.proposal = None;
        for (member, peer) in failed {
            self.blame(&member, SuspectCause::Unresponsive, cx);
            let first = self.config.membership.ask_again_after;
            if let Some(peer) = peer.and_then(|peer| self.peers.get_mut(peer)) {
                peer.put_off(now, first);
            }
        }
    }

    pub(super) fn on_nack(
        &mut self,
        from: Option<PeerId>,
        proposal: ViewId,
        promised: ViewId,
        cx: &mut Cx<'_>,
    ) {
        if !self.record_counter(promised, cx.now()) {
            return;
        }
        if self.proposal.take_if(|own| own.prepare.proposal == proposal).is_none() {
            return self.metrics.ignore(Ignored::StaleProposal);
        }
        let is_member = |peer| self.current.as_ref().is_some_and(|current| current.rank_of(peer).is_some());
        if let Some(peer) = from.filter(|peer| !is_member(*peer)) {
            // The group does not wait for a newcomer that takes part in another view change.
            let first = self.config.membership.ask_again_after;
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.put_off(cx.now(), first);
            }
            self.evaluate(cx);
            return;
        }
        // Another member has a higher proposal, so this one backs off. The random part keeps two
        // members from colliding again and again.
        let patience = self.config.membership.flush_timeout;
        let more = cx.rng().below(patience.as_nanos().max(1) as u64);
        self.back_off_until = cx.now() + patience / 2 + Duration::from_nanos(more);
    }

    pub(super) fn on_state(&mut self, from: Option<PeerId>, state: &Arc<State>, cx: &mut Cx<'_>) {
        let Some(proposal) =
            self.proposal.as_mut().filter(|own| own.prepare.proposal == state.proposal && !own.is_cut)
        else {
            return self.metrics.ignore(Ignored::StaleProposal);
        };
        if let Some(participant) = proposal.participants.iter_mut().find(|other| other.peer == from) {
            participant.state = Some(state.clone());
        }
        // In the order of the members, followed by the departing ones.
        let states: Option<Vec<Arc<State>>> =
            proposal.participants.iter().map(|participant| participant.state.clone()).collect();
        let Some(states) = states else { return };
        proposal.is_cut = true;
        proposal.since = cx.now();
        let cut = Arc::new(Cut { proposal: state.proposal, views: cut_views(&states) });
        self.send_to_participants(&RingFrame::Cut(cut), cx);
    }

    pub(super) fn on_ready(&mut self, from: Option<PeerId>, id: ViewId, cx: &mut Cx<'_>) {
        let Some(proposal) = self.proposal.as_mut().filter(|own| own.prepare.proposal == id && own.is_cut)
        else {
            return self.metrics.ignore(Ignored::StaleProposal);
        };
        if let Some(participant) = proposal.participants.iter_mut().find(|other| other.peer == from) {
            participant.is_ready = true;
        }
        if proposal.participants.iter().all(|participant| participant.is_ready) {
            self.send_to_participants(&RingFrame::Install { proposal: id }, cx);
            self.proposal = None;
        }
    }

    fn send_to_participants(&mut self, frame: &RingFrame, cx: &mut Cx<'_>) {
        let Some(proposal) = &self.proposal else { return };
        let loses = is_planted(Bug::RingInstall) && matches!(frame, RingFrame::Install { .. });
        let peers = proposal.participants.iter().map(|participant| participant.peer);
        let peers: Vec<_> = peers.step_by(if loses { 2 } else { 1 }).collect();
        peers.into_iter().for_each(|peer| self.send_or_loop(peer, frame.clone(), cx));
    }
}

/// Returns the end of each old view: the highest unit of each origin that any participant from it
/// has. A participant that is ready for a view that another one has installed belongs to that view,
/// and has no units of it yet.
fn cut_views(states: &[Arc<State>]) -> Vec<OldView> {
    let is_installed = |id: &ViewId| states.iter().any(|state| state.view == Some(*id));
    let mut views: Vec<OldView> = Vec::new();
    for (index, state) in (0u16..).zip(states) {
        let ready = state.ready.filter(is_installed);
        let Some(view) = ready.or(state.view) else { continue };
        let have: &[u64] = if ready.is_some() { &[] } else { &state.have };
        let place = views.iter().position(|old| old.view == view).unwrap_or_else(|| {
            views.push(OldView { view, last: Vec::new(), staying: Vec::new() });
            views.len() - 1
        });
        let old = &mut views[place];
        old.staying.push(index);
        if old.last.len() < have.len() {
            old.last.resize(have.len(), 0);
        }
        old.last.iter_mut().zip(have).for_each(|(last, have)| *last = (*last).max(*have));
    }
    views
}

// ---- each participant ----

/// Maximum number of statements kept of each peer for view changes that this node does not take
/// part in yet.
const RESUMES_PER_PEER: usize = 4;

/// Number of views that a member remembers after it has left them. A member that lags further behind
/// has been silent for several timeouts.
const FORMER_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Flush {
    pub(super) prepare: Arc<Prepare>,
    pub(super) proposer: Option<PeerId>,
    pub(super) since: Time,
    /// By rank in the old view: the units that this member has stated. It must not deliver more
    /// until it knows the cut.
    stated: Vec<u64>,
    /// The ranks of the old view that take part, including this member's. Until the cut is known,
    /// this is a guess: the proposed members that belong to the old view, though they may have left
    /// it without this one.
    staying: Vec<u16>,
    pub(super) cut: Option<Vec<u64>>,
    pub(super) is_ready: bool,
    pub(super) repair: Option<Repair>,
}

/// A view that a member is ready to install.
#[derive(Debug)]
pub(super) struct ReadyFor {
    pub(super) prepare: Arc<Prepare>,
    /// The end of the old view, by rank.
    cut: Option<Vec<u64>>,
}

/// The repair of the successor among those that stay.
#[derive(Debug)]
pub(super) struct Repair {
    pub(super) hop: usize,
    /// By rank: the last unit that the successor has or that is in flight to it.
    pub(super) cursor: Vec<u64>,
}

impl Flush {
    /// Returns the last unit of an origin that may be delivered.
    pub(super) fn limit_of(&self, origin: usize) -> u64 {
        let limits = self.cut.as_ref().unwrap_or(&self.stated);
        limits.get(origin).copied().unwrap_or(0)
    }
}

impl Ring {
    pub(super) fn on_prepare(&mut self, from: Option<PeerId>, prepare: &Arc<Prepare>, cx: &mut Cx<'_>) {
        let proposal = prepare.proposal;
        // Its proposer waits for the answer, so one that another member has repeated would only stop
        // this one.
        if let Some(peer) = from.filter(|peer| self.is_of_another(*peer, proposal.proposer)) {
            return self.on_forged(peer, cx);
        }
        if !self.record_counter(proposal, cx.now()) {
            return;
        }
        if proposal <= self.promised {
            if let Some(peer) = from {
                self.send(peer, RingFrame::Nack { proposal, promised: self.promised }, cx);
            }
            return;
        }
        let mut all: Vec<_> = prepare.members.iter().chain(&prepare.departing).collect();
        all.sort_unstable();
        let is_sound = all.windows(2).all(|pair| pair[0] != pair[1])
            && all.binary_search(&&self.me).is_ok()
            && prepare.members.len() <= self.config.members_max
            && !self.has_left;
        if !is_sound {
            return self.metrics.ignore(Ignored::Inconsistent);
        }
        if let Some(peer) = from.filter(|peer| self.declines(*peer, prepare, cx.now())) {
            self.send(peer, RingFrame::Nack { proposal, promised: self.promised }, cx);
            return;
        }
        if let Some(old) = self.flush.take() {
            self.count_frozen(old.since, cx.now());
        }
        if self.proposal.as_ref().is_some_and(|own| own.prepare.proposal < proposal) {
            self.proposal = None;
        }
        self.promised = proposal;
        self.flush = Some(Flush {
            prepare: prepare.clone(),
            proposer: from,
            since: cx.now(),
            stated: Vec::new(),
            staying: Vec::new(),
            cut: None,
            is_ready: false,
            repair: None,
        });
        // Installing the view extends this. A view that is never installed leaves no dials behind.
        let patience = self.config.membership.flush_patience();
        prepare.members.iter().for_each(|member| self.want_named(&member.identity, patience, cx));
        self.freeze_and_state(cx);
        let state = State {
            proposal,
            view: self.current.as_ref().map(|current| current.view.id),
            ready: self.ready.as_ref().map(|ready| ready.prepare.proposal),
            have: self.current.as_ref().map(Current::have).unwrap_or_default(),
        };
        self.send_or_loop(from, RingFrame::State(Arc::new(state)), cx);
    }

    /// Returns true if the proposer does not know that this node has left its view, or if its group
    /// includes a member that this node knows but does not hear now.
    ///
    /// After a partition, connections return one by one, each on its own timer. A member that was
    /// removed may hear only some of the others at first, and would take them away from a view that is
    /// larger. In a view with a member that this node does not hear, one of the two would have to be
    /// removed again.
    fn declines(&self, proposer: PeerId, prepare: &Prepare, now: Time) -> bool {
        let is_own = self.current.as_ref().is_some_and(|current| current.rank_of(proposer).is_some());
        let its_view = self.peers.get(proposer).and_then(|peer| peer.view);
        if !is_own && its_view.is_some_and(|view| self.former.contains(&view)) {
            return true;
        }
        let is_deaf_to = |member: &Member| {
            let peer = self.peers.id_of(&member.identity).and_then(|id| self.peers.get(id));
            peer.is_some_and(|peer| !peer.is_alive(now, &self.config.detection))
        };
        !is_own && prepare.members.iter().filter(|member| **member != self.me).any(is_deaf_to)
    }

    /// Freezes the view, tells the predecessor among those that stay what to send, and starts to
    /// repair the successor.
    fn freeze_and_state(&mut self, cx: &mut Cx<'_>) {
        let (Some(current), Some(flush)) = (&mut self.current, &mut self.flush) else { return };
        // If others may have installed the view for which this member was ready, it must not
        // deliver beyond the end of the old view there.
        flush.stated = match self.ready.as_ref().and_then(|ready| ready.cut.as_ref()) {
            Some(cut) => cut.clone(),
            None => current.have(),
        };
        flush.cut = None;
        flush.is_ready = false;
        flush.repair = None;
        let takes_part = |rank: &u16| {
            let member = &current.view.members[usize::from(*rank)];
            flush.prepare.members.contains(member) || flush.prepare.departing.contains(member)
        };
        flush.staying = (0..current.len() as u16).filter(takes_part).collect();
        self.ask_for_repair(cx);
        self.begin_repair(cx);
    }

    /// Replaces the guessed participants by the known ones. If the predecessor or the successor
    /// changes, the repair starts again.
    fn correct_staying(&mut self, indices: &[u16], cx: &mut Cx<'_>) {
        let (Some(current), Some(flush)) = (&self.current, &mut self.flush) else { return };
        let all: Vec<_> = flush.prepare.members.iter().chain(&flush.prepare.departing).collect();
        let members = indices.iter().filter_map(|index| all.get(usize::from(*index)));
        let mut staying: Vec<u16> = members.filter_map(|member| current.view.rank_of(member)).collect();
        staying.sort_unstable();
        if staying == flush.staying || !staying.contains(&current.rank) {
            return;
        }
        let before = self.neighbours();
        if let Some(flush) = &mut self.flush {
            flush.staying = staying;
        }
        let after = self.neighbours();
        if before.map(|(previous, _)| previous) != after.map(|(previous, _)| previous) {
            self.ask_for_repair(cx);
        }
        if before.map(|(_, next)| next) != after.map(|(_, next)| next) {
            self.flush.iter_mut().for_each(|flush| flush.repair = None);
            self.begin_repair(cx);
        }
    }

    /// Returns the ranks of this member's predecessor and successor among those that stay.
    fn neighbours(&self) -> Option<(u16, u16)> {
        let ranks = &self.flush.as_ref()?.staying;
        let rank = self.current.as_ref()?.rank;
        let place = ranks.iter().position(|other| *other == rank)?;
        Some((ranks[(place + ranks.len() - 1) % ranks.len()], ranks[(place + 1) % ranks.len()]))
    }

    /// Tells the predecessor among those that stay which units this member has.
    pub(super) fn ask_for_repair(&mut self, cx: &mut Cx<'_>) {
        let Some((previous, _)) = self.neighbours() else { return };
        let (Some(current), Some(flush)) = (&self.current, &self.flush) else { return };
        if previous == current.rank {
            return;
        }
        let proposal = Some(flush.prepare.proposal);
        let resume = Resume { view: current.view.id, proposal, have: current.have() };
        if let Some(peer) = current.peers[usize::from(previous)] {
            self.send(peer, RingFrame::Resume(Arc::new(resume)), cx);
        }
    }

    /// Keeps the statement of a successor. It may arrive before the proposal, or before an earlier
    /// view is installed here.
    pub(super) fn keep_resume(&mut self, peer: PeerId, proposal: ViewId, resume: &Arc<Resume>) {
        if proposal < self.promised {
            return self.metrics.ignore(Ignored::StaleProposal);
        }
        self.resumes
            .retain(|(other, old)| *other != peer || old.proposal > Some(proposal) || old.view > resume.view);
        // One for the current view change and one for the next. More than a few are invalid.
        if self.resumes.iter().filter(|(other, _)| *other == peer).count() < RESUMES_PER_PEER {
            self.resumes.push((peer, resume.clone()));
        } else {
            self.metrics.ignore(Ignored::Inconsistent);
        }
    }

    /// Starts to repair the successor once its statement is here.
    pub(super) fn begin_repair(&mut self, cx: &mut Cx<'_>) {
        let Some((_, next)) = self.neighbours() else { return };
        let (Some(current), Some(flush)) = (&mut self.current, &mut self.flush) else { return };
        if next == current.rank {
            return;
        }
        let (view, proposal) = (current.view.id, Some(flush.prepare.proposal));
        let before = flush.repair.as_ref().map(|repair| repair.hop);
        let Some(peer) = current.peers[usize::from(next)] else { return };
        let fits = |(from, resume): &(PeerId, Arc<Resume>)| {
            *from == peer && resume.view == view && resume.proposal == proposal
        };
        let Some(index) = self.resumes.iter().position(fits) else { return };
        let (_, resume) = self.resumes.swap_remove(index);
        if resume.have.len() != current.len() {
            return self.metrics.ignore(Ignored::Inconsistent);
        }
        let count = current.len();
        let hop = current.hops.iter().position(|hop| hop.rank == next).unwrap_or_else(|| {
            current.hops.push(Hop::new(next, Some(peer), true, count));
            current.hops.len() - 1
        });
        let state = &mut current.hops[hop];
        // On the ring, units that were sent over this link arrive without being sent again, unless the
        // successor repeats its statement.
        let arrives = current.view.shape == Shape::Ring && !state.is_waiting && before != Some(hop);
        let sent = if arrives { &state.last[..] } else { &[] };
        let cursor = (0..count).map(|origin| {
            let in_flight = sent.get(origin).copied().unwrap_or(0);
            resume.have[origin].max(in_flight).max(current.streams[origin].base)
        });
        flush.repair = Some(Repair { hop, cursor: cursor.collect() });
        state.is_waiting = false;
        self.pump_repair(cx);
    }

    pub(super) fn on_cut(&mut self, from: Option<PeerId>, cut: &Arc<Cut>, cx: &mut Cx<'_>) {
        if !self.is_of_flush(from, cut.proposal) {
            return;
        }
        let section = |id: ViewId| cut.views.iter().find(|old| old.view == id);
        // Another member received `Install` for the view for which this one was ready.
        if let Some(ready) = self.ready.take_if(|ready| section(ready.prepare.proposal).is_some()) {
            // The statement for the previous view does not apply to this one. Nothing is delivered
            // until the cut is known.
            self.flush.iter_mut().for_each(|flush| flush.stated.clear());
            self.complete(ready.cut, cx);
            self.install(&ready.prepare, cx);
            if self.has_left {
                return;
            }
            self.freeze_and_state(cx);
        }
        let (Some(current), Some(flush)) = (&self.current, &mut self.flush) else {
            self.check_ready(cx);
            return;
        };
        let Some(old) = section(current.view.id).filter(|old| old.last.len() == current.len()) else {
            return self.metrics.ignore(Ignored::Inconsistent);
        };
        let last = &old.last;
        flush.cut = Some(last.clone());
        self.correct_staying(&old.staying, cx);
        if self.config.order == Order::Fifo {
            (0..last.len() as u16).for_each(|origin| self.deliver_fifo(origin, cx));
        }
        self.check_ready(cx);
    }

    /// Returns true if `proposal` is the current one here, and `from` is its proposer.
    fn is_of_flush(&mut self, from: Option<PeerId>, proposal: ViewId) -> bool {
        let fits = self.flush.as_ref().is_some_and(|f| f.prepare.proposal == proposal && f.proposer == from);
        if !fits {
            self.metrics.ignore(Ignored::StaleProposal);
        }
        fits
    }

    /// Reports `Ready` if everything up to the cut is here.
    pub(super) fn check_ready(&mut self, cx: &mut Cx<'_>) {
        let Some(flush) = self.flush.as_mut().filter(|flush| !flush.is_ready) else { return };
        if let Some(current) = &self.current {
            let Some(cut) = &flush.cut else { return };
            let is_whole = cut.iter().zip(&current.streams).all(|(last, stream)| stream.have >= *last);
            if !is_whole && !is_planted(Bug::RingReady) {
                return;
            }
        }
        flush.is_ready = true;
        let (proposal, proposer) = (flush.prepare.proposal, flush.proposer);
        self.ready = Some(ReadyFor { prepare: flush.prepare.clone(), cut: flush.cut.clone() });
        self.send_or_loop(proposer, RingFrame::Ready { proposal }, cx);
    }

    pub(super) fn on_install(&mut self, from: Option<PeerId>, proposal: ViewId, cx: &mut Cx<'_>) {
        self.metrics.installs += 1;
        if self.is_of_flush(from, proposal) {
            self.install_flushed(cx);
        }
    }

    /// Installs the view for which this member is ready.
    pub(super) fn install_flushed(&mut self, cx: &mut Cx<'_>) {
        if let Some(flush) = self.flush.take_if(|flush| flush.is_ready) {
            self.count_frozen(flush.since, cx.now());
            let limits = flush.cut.clone();
            self.complete(limits, cx);
            self.ready = None;
            self.install(&flush.prepare, cx);
        }
    }

    /// Installs the first view of a node that stopped waiting for `Install`.
    pub(super) fn install_first(&mut self, view: Option<ViewId>, cx: &mut Cx<'_>) {
        if let Some(ready) = self.ready.take_if(|ready| view == Some(ready.prepare.proposal)) {
            self.install(&ready.prepare, cx);
        }
    }

    /// Delivers the rest of the old view, in the order that all agree on.
    fn complete(&mut self, cut: Option<Vec<u64>>, cx: &mut Cx<'_>) {
        let (Some(current), Some(cut)) = (&mut self.current, cut) else { return };
        if self.config.order == Order::Fifo || is_planted(Bug::RingCut) {
            return;
        }
        let pending = std::mem::take(&mut current.pending);
        for (_, origin, sequence) in pending.into_iter().filter(|unit| unit.2 <= cut[usize::from(unit.1)]) {
            self.hand_over(origin, sequence, cx);
        }
    }

    fn install(&mut self, prepare: &Arc<Prepare>, cx: &mut Cx<'_>) {
        let members: Arc<[_]> = prepare.members.as_slice().into();
        let view = Arc::new(View { id: prepare.proposal, members, shape: prepare.shape });
        self.forget_departed(&view);
        let Some(rank) = view.rank_of(&self.me) else {
            self.current = None;
            self.flush = None;
            self.leave_now(cx);
            return;
        };
        if let Some(current) = &self.current {
            self.former.truncate(FORMER_MAX - 1);
            self.former.push_front(current.view.id);
        }
        self.metrics.views += 1;
        self.view_since = cx.now();
        self.blamed.clear();
        self.disputes.clear();
        self.suspected.clear();
        self.elsewhere.clear();
        self.gaps.clear();
        self.convicted.clear();
        self.standstill = (0, cx.now());
        self.reported.clear();
        let until = cx.now() + self.config.membership.forget_after;
        for member in view.members.iter().filter(|member| **member != self.me) {
            self.peers.keep(&member.identity, cx.now(), until);
        }
        // Drops the oldest former members. Otherwise a peer could grow this list with one view
        // after another.
        self.peers.bound_wanted(2 * self.config.members_max + self.config.seeds.len());
        for (_, peer) in self.peers.iter_mut() {
            peer.credit = (0, 0);
            peer.resumed = None;
            peer.foreign_since = None;
            peer.failures = 0;
            peer.progress_since = cx.now();
        }
        self.own.rewind();
        self.flow.begin(self.config.window.min_bytes, self.config.window_max(view.len()));
        self.current = Some(Current::new(view.clone(), rank, &self.peers));
        self.update_lap_goal();
        self.outlet.emit(Event::View(view), cx);
        self.resumes.retain(|(_, resume)| resume.proposal > Some(prepare.proposal));
        self.early_bytes = 0;
        for (peer, data) in std::mem::take(&mut self.early) {
            self.on_data(peer, &data, cx);
        }
        self.send_heartbeats(cx);
    }

    /// Stops dialling members of the old view that have left.
    fn forget_departed(&mut self, view: &View) {
        let Some(current) = &self.current else { return };
        for member in current.view.members.iter().filter(|member| view.rank_of(member).is_none()) {
            let has_left = |id| self.peers.get(id).is_some_and(|peer| peer.is_leaving);
            if self.peers.id_of(&member.identity).is_some_and(has_left) {
                self.peers.forget(&member.identity);
            }
        }
    }
}
