//! A view change, as each participant sees it.
//!
//! 1. `Prepare`: nothing new is sent or passed on in the old view. The member states what it has, to whoever proposes and to its
//!    new predecessor among those who stay; that one begins at once to send what is missing from its own buffer.
//! 2. `Cut`: up to here each old view goes: the most that any of those who stay has of each origin. What goes round the ring
//!    of those who stay, each giving to its successor, brings it to all.
//! 3. `Ready` as soon as everything up to the cut is here; `Install` when all are ready.
//!
//! So all who go on together have delivered the same in the old view. Whoever is ready remembers that: if the proposer fails while
//! it tells the members to install the view, the next proposer has those who were not told install it first.

use std::sync::Arc;

use samara_engine::{PeerId, Time};

use super::current::{Current, Hop};
use super::metrics::Ignored;
use super::{Cx, Event, Ring};
use crate::wire::{Cut, Prepare, Resume, State};
use crate::{Member, Order, RingFrame, View, ViewId};
use samara_engine::Shape;

/// How many statements of a peer are kept for view changes that are not under way here yet.
const RESUMES_PER_PEER: usize = 4;

/// A view change under way.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) prepare: Arc<Prepare>,
    /// Who proposed it; `None` if this node did.
    pub(super) proposer: Option<PeerId>,
    pub(super) since: Time,
    /// By rank in the old view: what this member has stated to have. It must not deliver more before the cut is known.
    stated: Vec<u64>,
    /// The ranks of the old view that take part, this member's included. A guess until the cut is known: those who are members of
    /// the old view, though they may have gone on from it without this one.
    staying: Vec<u16>,
    pub(super) cut: Option<Vec<u64>>,
    pub(super) is_ready: bool,
    pub(super) repair: Option<Repair>,
}

/// A view that a member is ready to install.
#[derive(Debug)]
pub(super) struct ReadyFor {
    pub(super) prepare: Arc<Prepare>,
    /// Where the old view ends then.
    cut: Option<Vec<u64>>,
}

/// What the successor among those who stay still lacks.
#[derive(Debug)]
pub(super) struct Repair {
    /// Index of the hop.
    pub(super) hop: usize,
    /// By rank: what it has, or what is on its way to it.
    pub(super) cursor: Vec<u64>,
}

impl Flush {
    /// How far an origin's units may be delivered.
    pub(super) fn limit_of(&self, origin: usize) -> u64 {
        let limits = self.cut.as_ref().unwrap_or(&self.stated);
        limits.get(origin).copied().unwrap_or(0)
    }
}

impl Ring {
    pub(super) fn on_prepare(&mut self, from: Option<PeerId>, prepare: &Arc<Prepare>, cx: &mut Cx<'_>) {
        let proposal = prepare.proposal;
        if !self.hear_of(proposal) {
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
            self.metrics.ignore(Ignored::Inconsistent);
            return;
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
        // Installing the view prolongs this; a view that is never installed leaves no dials behind.
        let patience = self.config.membership.flush_patience();
        prepare.members.iter().for_each(|member| self.want_named(&member.identity, patience, cx));
        self.state_what_is_here(cx);
        let state = State {
            proposal,
            view: self.current.as_ref().map(|current| current.view.id),
            ready: self.ready.as_ref().map(|ready| ready.prepare.proposal),
            have: self.current.as_ref().map(Current::have).unwrap_or_default(),
        };
        self.send_or_loop(from, RingFrame::State(Arc::new(state)), cx);
    }

    /// Whether this node is asked to join a group of which it knows a member that it does not hear now. After a partition, connections
    /// come back one by one, by timers of their own; in a view with a member that it does not hear, one of both would have to go again.
    fn declines(&self, proposer: PeerId, prepare: &Prepare, now: Time) -> bool {
        let is_own = self.current.as_ref().is_some_and(|current| current.rank_of(proposer).is_some());
        let is_deaf_to = |member: &Member| {
            let peer = self.peers.id_of(&member.identity).and_then(|id| self.peers.get(id));
            peer.is_some_and(|peer| !peer.is_alive(now, &self.config.detection))
        };
        !is_own && prepare.members.iter().filter(|member| **member != self.me).any(is_deaf_to)
    }

    /// Freezes the view, tells the predecessor among those who stay what to send, and sends the successor what it lacks.
    fn state_what_is_here(&mut self, cx: &mut Cx<'_>) {
        let (Some(current), Some(flush)) = (&mut self.current, &mut self.flush) else { return };
        // Who was ready for a view that others may have installed must not go beyond where the old one ends for them.
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

    /// Who stays is known now: where that is not as guessed, others are predecessor and successor.
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

    /// The ranks of the predecessor and the successor of this member among those who stay.
    fn neighbours(&self) -> Option<(u16, u16)> {
        let ranks = &self.flush.as_ref()?.staying;
        let rank = self.current.as_ref()?.rank;
        let place = ranks.iter().position(|other| *other == rank)?;
        Some((ranks[(place + ranks.len() - 1) % ranks.len()], ranks[(place + 1) % ranks.len()]))
    }

    /// Tells the predecessor among those who stay what is here.
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

    /// Remembers what a successor lacks: its word may come before the proposal does, or before an earlier view is installed.
    pub(super) fn keep_resume(&mut self, peer: PeerId, proposal: ViewId, resume: &Arc<Resume>) {
        if proposal < self.promised {
            self.metrics.ignore(Ignored::StaleProposal);
            return;
        }
        self.resumes
            .retain(|(other, old)| *other != peer || old.proposal > Some(proposal) || old.view > resume.view);
        // One for the view change that is under way here and one for the next: more than a few are nonsense.
        if self.resumes.iter().filter(|(other, _)| *other == peer).count() < RESUMES_PER_PEER {
            self.resumes.push((peer, resume.clone()));
        } else {
            self.metrics.ignore(Ignored::Inconsistent);
        }
    }

    /// Starts to repair the successor, once it has said what it has.
    pub(super) fn begin_repair(&mut self, cx: &mut Cx<'_>) {
        let Some((_, next)) = self.neighbours() else { return };
        let (Some(current), Some(flush)) = (&mut self.current, &mut self.flush) else { return };
        if next == current.rank {
            return;
        }
        let (view, proposal) = (current.view.id, Some(flush.prepare.proposal));
        let Some(peer) = current.peers[usize::from(next)] else { return };
        let fits = |(from, resume): &(PeerId, Arc<Resume>)| {
            *from == peer && resume.view == view && resume.proposal == proposal
        };
        let Some(index) = self.resumes.iter().position(fits) else { return };
        let (_, resume) = self.resumes.swap_remove(index);
        if resume.have.len() != current.len() {
            self.metrics.ignore(Ignored::Inconsistent);
            return;
        }
        let count = current.len();
        let hop = current.hops.iter().position(|hop| hop.rank == next).unwrap_or_else(|| {
            current.hops.push(Hop::new(next, Some(peer), true, count));
            current.hops.len() - 1
        });
        let state = &mut current.hops[hop];
        // On the ring, what was sent over this very link comes without being sent again.
        let sent = if current.view.shape == Shape::Ring && !state.is_waiting { &state.last[..] } else { &[] };
        let cursor = (0..count).map(|origin| {
            let on_its_way = sent.get(origin).copied().unwrap_or(0);
            resume.have[origin].max(on_its_way).max(current.streams[origin].base())
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
        // Another member was told to install what this one was ready for.
        if let Some(ready) = self.ready.take_if(|ready| section(ready.prepare.proposal).is_some()) {
            // What was stated of the view before says nothing of this one: nothing is delivered before the cut is known.
            self.flush.iter_mut().for_each(|flush| flush.stated.clear());
            self.complete(ready.cut, cx);
            self.install(&ready.prepare, cx);
            if self.has_left {
                return;
            }
            self.state_what_is_here(cx);
        }
        let (Some(current), Some(flush)) = (&self.current, &mut self.flush) else {
            self.check_ready(cx);
            return;
        };
        let Some(old) = section(current.view.id).filter(|old| old.last.len() == current.len()) else {
            self.metrics.ignore(Ignored::Inconsistent);
            return;
        };
        let last = &old.last;
        flush.cut = Some(last.clone());
        self.correct_staying(&old.staying, cx);
        if self.config.order == Order::Fifo {
            (0..last.len() as u16).for_each(|origin| self.deliver_fifo(origin, cx));
        }
        self.check_ready(cx);
    }

    /// Whether this proposal is the one that is under way here, and this is who made it.
    fn is_of_flush(&mut self, from: Option<PeerId>, proposal: ViewId) -> bool {
        let fits = self.flush.as_ref().is_some_and(|f| f.prepare.proposal == proposal && f.proposer == from);
        if !fits {
            self.metrics.ignore(Ignored::StaleProposal);
        }
        fits
    }

    /// Says so if everything up to the cut is here.
    pub(super) fn check_ready(&mut self, cx: &mut Cx<'_>) {
        let Some(flush) = self.flush.as_mut().filter(|flush| !flush.is_ready) else { return };
        if let Some(current) = &self.current {
            let Some(cut) = &flush.cut else { return };
            if !cut.iter().zip(&current.streams).all(|(last, stream)| stream.have >= *last) {
                return;
            }
        }
        flush.is_ready = true;
        let (proposal, proposer) = (flush.prepare.proposal, flush.proposer);
        self.ready = Some(ReadyFor { prepare: flush.prepare.clone(), cut: flush.cut.clone() });
        self.send_or_loop(proposer, RingFrame::Ready { proposal }, cx);
    }

    pub(super) fn on_install(&mut self, from: Option<PeerId>, proposal: ViewId, cx: &mut Cx<'_>) {
        if self.is_of_flush(from, proposal) {
            self.install_flushed(cx);
        }
    }

    /// Installs the view that this member is ready for.
    pub(super) fn install_flushed(&mut self, cx: &mut Cx<'_>) {
        if let Some(flush) = self.flush.take_if(|flush| flush.is_ready) {
            self.count_frozen(flush.since, cx.now());
            let limits = flush.cut.clone();
            self.complete(limits, cx);
            self.ready = None;
            self.install(&flush.prepare, cx);
        }
    }

    /// The same for a node that has no view, and has given up to wait for the word.
    pub(super) fn install_first(&mut self, view: Option<ViewId>, cx: &mut Cx<'_>) {
        if let Some(ready) = self.ready.take_if(|ready| view == Some(ready.prepare.proposal)) {
            self.install(&ready.prepare, cx);
        }
    }

    /// Delivers what is left of the old view, in the order that all agree on.
    fn complete(&mut self, cut: Option<Vec<u64>>, cx: &mut Cx<'_>) {
        let (Some(current), Some(cut)) = (&mut self.current, cut) else { return };
        if self.config.order == Order::Fifo {
            return;
        }
        let pending = std::mem::take(&mut current.pending);
        for (_, origin, sequence) in pending.into_iter().filter(|unit| unit.2 <= cut[usize::from(unit.1)]) {
            self.hand_over(origin, sequence, cx);
        }
    }

    /// The proposal is the view now.
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
        self.metrics.views += 1;
        self.view_since = cx.now();
        self.blamed.clear();
        self.disputes.clear();
        self.suspected.clear();
        self.elsewhere.clear();
        self.gaps.clear();
        self.told.clear();
        let until = cx.now() + self.config.membership.forget_after;
        for member in view.members.iter().filter(|member| **member != self.me) {
            self.peers.keep(&member.identity, cx.now(), until);
        }
        // Drops the oldest former members: a peer could have this node install view after view.
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
        self.work_out_lap_goal();
        self.outlet.emit(Event::View(view), cx);
        self.resumes.retain(|(_, resume)| resume.proposal > Some(prepare.proposal));
        self.early_bytes = 0;
        for (peer, data) in std::mem::take(&mut self.early) {
            self.on_data(peer, &data, cx);
        }
        self.send_heartbeats(cx);
    }

    /// Those who were in the old view and are not in the new one are not dialled for ever, if they left.
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
