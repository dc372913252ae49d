//! A view change, as its proposer sees it.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{PeerId, PeerIdentity, Time};

use super::metrics::Ignored;
use super::{Cx, Ring, SuspectCause};
use crate::wire::{Cut, OldView, Prepare, State};
use crate::{Member, RingFrame, ViewId};

/// A proposal of this node.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) prepare: Arc<Prepare>,
    /// Since when it waits for what it waits for.
    since: Time,
    participants: Vec<Participant>,
    is_cut: bool,
}

#[derive(Debug)]
struct Participant {
    member: Member,
    /// `None`: this node.
    peer: Option<PeerId>,
    state: Option<Arc<State>>,
    is_ready: bool,
}

impl Proposal {
    pub(super) fn has_participant(&self, peer: PeerId) -> bool {
        self.participants.iter().any(|participant| participant.peer == Some(peer))
    }
}

/// A better group than this node's, or the same one: has a view, has more members, has a newer view.
type Standing = (bool, u16, Option<ViewId>);

impl Ring {
    /// Proposes a view if there is reason to and it is this node that has to. Looks at what is, not at what happened: so nothing is
    /// ever missed.
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
            // Nobody who would propose anew has this node in its view.
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

    /// Whether the view change under way will not come to an end by itself.
    fn is_flush_stuck(&self, now: Time) -> bool {
        let Some(flush) = &self.flush else { return false };
        let membership = &self.config.membership;
        let Some(peer) = flush.proposer.and_then(|peer| self.peers.get(peer)) else { return true };
        !peer.is_up
            || !peer.is_alive(now, &self.config.detection)
            || peer.view > Some(flush.prepare.proposal)
            || now.since(flush.since) > membership.flush_patience()
    }

    /// Whether this node is the first member of its view that is neither taken for failed nor leaving.
    pub(super) fn is_acting(&self, now: Time) -> bool {
        self.current.as_ref().is_some_and(|current| self.acting(now) == Some(current.rank))
    }

    /// The first member of the view that is neither taken for failed nor leaving.
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

    /// Who can take in a node that is in another view, or in none: it may be connected with this one only.
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

    /// Whether the view cannot stay as it is.
    fn has_reason(&mut self, now: Time) -> bool {
        let Some(current) = &self.current else { return false };
        let (view, own, count) = (current.view.id, current.rank, current.len() as u16);
        let patience = 2 * self.config.membership.flush_timeout;
        let is_stuck = |rank: u16| {
            let peer = current.peers[usize::from(rank)].and_then(|peer| self.peers.get(peer));
            // A proposal that was never finished keeps it from sending.
            peer.is_some_and(|p| p.promised > Some(view) && now.since(p.promised_since) > patience)
        };
        self.flush.is_some()
            || self.is_leaving_now()
            || (0..count)
                .filter(|rank| *rank != own)
                .any(|rank| self.opinion(rank, now).is_some() || self.is_rank_leaving(rank) || is_stuck(rank))
    }

    /// Nodes that are connected and in another view, or in none, if this node is the one that has to take them in.
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

    /// Whether this node, that has no view, begins one: with whom it sees, or alone if nobody comes.
    fn may_form(&self, now: Time, newcomers: &[Member]) -> bool {
        let membership = &self.config.membership;
        let complete = self.peers.has_all(&self.config.seeds);
        let patience = if complete { membership.form_after } else { membership.join_timeout };
        let sees_others = self.peers.iter().any(|(_, peer)| {
            peer.is_alive(now, &self.config.detection) && peer.incarnation.is_some() && !peer.is_leaving
        });
        now.since(self.started_at) >= patience && (!newcomers.is_empty() || !sees_others)
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
                        self.put_outside(member, now);
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
        self.counter += 1;
        let proposal = ViewId { counter: self.counter, proposer: self.me.incarnation };
        let shape = self.config.shape.shape(members.len());
        let participants = members.iter().chain(&departing).map(|member| Participant {
            peer: if *member == self.me { None } else { self.peers.id_of(&member.identity) },
            member: member.clone(),
            state: None,
            is_ready: false,
        });
        let participants: Vec<Participant> = participants.collect();
        let prepare = Arc::new(Prepare { proposal, members, departing, shape });
        self.metrics.proposals += 1;
        let peers: Vec<_> = participants.iter().map(|participant| participant.peer).collect();
        self.proposal = Some(Proposal { prepare: prepare.clone(), since: now, participants, is_cut: false });
        for peer in peers {
            self.send_or_loop(peer, RingFrame::Prepare(prepare.clone()), cx);
        }
    }

    /// A member that is heard here, but not by another one, would come back at once, and have to go again.
    fn put_outside(&mut self, member: &Member, now: Time) {
        let until = now + self.config.membership.unreachable_for;
        if let Some(peer) = self.peers.id_of(&member.identity).and_then(|id| self.peers.get_mut(id)) {
            peer.banned_until = peer.banned_until.max(until);
        }
    }

    /// Gives up a proposal that somebody does not answer, or whose participant has failed: the next one is without it.
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
                    self.peer_opinion(peer, &participant.member, now).is_some() || is_late && !has_answered
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
        if !self.hear_of(promised) {
            return;
        }
        if self.proposal.take_if(|own| own.prepare.proposal == proposal).is_none() {
            self.metrics.ignore(Ignored::StaleProposal);
            return;
        }
        let is_member = |peer| self.current.as_ref().is_some_and(|current| current.rank_of(peer).is_some());
        if let Some(peer) = from.filter(|peer| !is_member(*peer)) {
            // The group does not wait for a newcomer that is busy elsewhere.
            let first = self.config.membership.ask_again_after;
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.put_off(cx.now(), first);
            }
            self.evaluate(cx);
            return;
        }
        // Another member proposes: it goes first, and two that do so again and again do not do it at the same time.
        let patience = self.config.membership.flush_timeout;
        let more = cx.rng().below(patience.as_nanos().max(1) as u64);
        self.back_off_until = cx.now() + patience / 2 + Duration::from_nanos(more);
    }

    pub(super) fn on_state(&mut self, from: Option<PeerId>, state: &Arc<State>, cx: &mut Cx<'_>) {
        let Some(proposal) =
            self.proposal.as_mut().filter(|own| own.prepare.proposal == state.proposal && !own.is_cut)
        else {
            self.metrics.ignore(Ignored::StaleProposal);
            return;
        };
        if let Some(participant) = proposal.participants.iter_mut().find(|other| other.peer == from) {
            participant.state = Some(state.clone());
        }
        // In the order of the members and then the departing ones.
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
            self.metrics.ignore(Ignored::StaleProposal);
            return;
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
        let peers: Vec<_> = proposal.participants.iter().map(|participant| participant.peer).collect();
        peers.into_iter().for_each(|peer| self.send_or_loop(peer, frame.clone(), cx));
    }
}

/// For each old view of those who answered: the most that any of them has of each origin. Whoever is ready for a view that another
/// one has installed counts as being in that one, and has nothing of it yet.
pub(super) fn cut_views(states: &[Arc<State>]) -> Vec<OldView> {
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
