//! Heartbeats, and who is taken for failed.
//!
//! News of failures and views goes directly to everybody who is connected, never along the ring: the ring is what has failed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{PeerId, PeerIdentity, Time};

use super::metrics::Ignored;
use super::peers::Peer;
use super::{Cx, Event, Ring, SuspectCause, TICK};
use crate::wire::Heartbeat;
use crate::{Member, RingFrame, Slow, ViewId};

impl Ring {
    pub(super) fn on_tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.start_timer(now + self.config.detection.heartbeat, TICK, cx);
        for identity in self.peers.due(now, &self.config.membership) {
            cx.dial(identity);
        }
        self.work_out_lap_goal();
        self.measure_hops();
        self.look_for_slow_members(cx);
        self.look_for_gaps(cx);
        self.report_suspects(cx);
        self.send_heartbeats(cx);
        self.evaluate(cx);
    }

    /// Wants a link to a node that a peer has named, unless there is one, or so many are wanted that there is no room: a peer can
    /// name any address.
    pub(super) fn want_named(&mut self, identity: &PeerIdentity, span: Duration, cx: &mut Cx<'_>) {
        let is_up = self.peers.id_of(identity).is_some_and(|id| self.peers.is_up(id));
        if *identity != self.me.identity && !is_up && self.peers.wanted() < self.config.members_max {
            self.peers.keep(identity, cx.now(), cx.now() + span);
        }
    }

    pub(super) fn send_heartbeats(&mut self, cx: &mut Cx<'_>) {
        let up: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| peer.is_up).map(|(id, _)| id).collect();
        let heartbeat = self.heartbeat(cx.now());
        up.into_iter().for_each(|peer| self.send_to(peer, heartbeat.clone(), cx));
    }

    pub(super) fn send_heartbeat(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let heartbeat = self.heartbeat(cx.now());
        self.send_to(peer, heartbeat, cx);
    }

    /// What is the same in heartbeats to all.
    fn heartbeat(&self, now: Time) -> Heartbeat {
        let view = self.current.as_ref().map(|current| &current.view);
        Heartbeat {
            group: self.config.group,
            incarnation: self.me.incarnation,
            view: view.map(|view| view.id),
            members: view.map_or(0, |view| view.len() as u16),
            promised: self.flush.as_ref().map(|flush| flush.prepare.proposal),
            leaving: self.is_leaving_now() || self.has_left,
            suspects: self.suspected.iter().copied().collect(),
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
            self.metrics.ignore(Ignored::OtherGroup);
            return;
        }
        if ![heartbeat.view, heartbeat.promised].into_iter().flatten().all(|view| self.hear_of(view)) {
            return;
        }
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
        if peer.progress != heartbeat.progress {
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

    /// Somebody has installed what this member is ready for: it was told to do so too, and that was lost.
    fn install_if_others_have(&mut self, view: Option<ViewId>, cx: &mut Cx<'_>) {
        let is_flushed = self.flush.as_ref().is_some_and(|f| f.is_ready && view == Some(f.prepare.proposal));
        if is_flushed {
            self.install_flushed(cx);
        } else if self.flush.is_none() && self.current.is_none() {
            self.install_first(view, cx);
        }
    }

    // ---- suspicion ----

    /// Whether a member of the view is taken for failed, and why.
    pub(super) fn opinion(&self, rank: u16, now: Time) -> Option<SuspectCause> {
        let current = self.current.as_ref()?;
        let member = &current.view.members[usize::from(rank)];
        if rank == current.rank {
            return None;
        }
        if let Some(cause) = self.blamed.get(member) {
            return Some(*cause);
        }
        // Without a link from the beginning, it has until the view is as old as the timeout.
        let Some(peer) = current.peers[usize::from(rank)].or_else(|| self.peers.id_of(&member.identity))
        else {
            let waits = now.since(self.view_since) <= self.config.detection.timeout_min;
            return (!waits).then_some(SuspectCause::LinkDown);
        };
        let own = self.peer_opinion(peer, member, now);
        own.or_else(|| self.is_moved_on(peer, now).then_some(SuspectCause::MovedOn))
            .or_else(|| self.is_agreed(rank, now).then_some(SuspectCause::Reported))
    }

    /// What the link to a node tells of it.
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

    /// Whether a member has been in another view for longer than it takes to hear of it, or to install this one.
    fn is_moved_on(&self, peer: PeerId, now: Time) -> bool {
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

    /// Whether another member has not heard it for so long that it has to go although it is heard here: a ring with a broken link
    /// is no ring.
    fn is_agreed(&self, rank: u16, now: Time) -> bool {
        let since = self.disputes.get(&rank);
        since.is_some_and(|since| now.since(*since) > self.config.detection.verify)
    }

    /// Brings disputes and departures up to date, and tells everybody at once who is taken for failed.
    pub(super) fn report_suspects(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(current) = &self.current else { return };
        let (own, count, view) = (current.rank, current.len() as u16, current.view.clone());
        let mut accusations: BTreeSet<(u16, u16)> = BTreeSet::new();
        for by in (0..count).filter(|rank| *rank != own) {
            let Some(peer) = current.peers[usize::from(by)].and_then(|peer| self.peers.get(peer)) else {
                continue;
            };
            let counts = peer.view == Some(view.id) && peer.is_alive(now, &self.config.detection);
            // Whoever does not hear most of the others is alone with that.
            if counts && 2 * peer.suspects.len() < usize::from(count) {
                accusations.extend(peer.suspects.iter().filter(|rank| **rank != by).map(|rank| (*rank, by)));
            }
        }
        // Whom only one does not hear is as likely heard badly as sending badly: of both, the one that came later goes. So it does
        // where neither hears the other.
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
        let mut suspected = BTreeSet::new();
        for rank in 0..count {
            let Some(cause) = self.opinion(rank, now) else { continue };
            if cause != SuspectCause::Reported {
                suspected.insert(rank);
            }
            if !self.suspected.contains(&rank) && self.told.insert(rank) {
                self.metrics.suspicions += 1;
                cx.emit(Event::Suspected { member: view.members[usize::from(rank)].clone(), cause });
            }
        }
        if suspected != self.suspected {
            self.suspected = suspected;
            self.send_heartbeats(cx);
        }
    }

    /// Takes a member for failed until the next view.
    pub(super) fn blame(&mut self, member: &Member, cause: SuspectCause, cx: &mut Cx<'_>) {
        if self.current.as_ref().is_some_and(|current| current.view.rank_of(member).is_some()) {
            self.blamed.entry(member.clone()).or_insert(cause);
            self.report_suspects(cx);
        }
    }

    // ---- members that hold the group up ----

    /// Where nobody gets on, it is because of the one that has taken least.
    fn look_for_slow_members(&mut self, cx: &mut Cx<'_>) {
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
            // Told once for each time that it stalls.
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

    /// Where units take two ways, a unit that is missing may be on the other one: only if it stays away is it asked for.
    fn look_for_gaps(&mut self, cx: &mut Cx<'_>) {
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
}
