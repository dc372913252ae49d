//! Links: setup, loss, and retransmission after a loss.
//!
//! Pings: around a team, and over each link.
//!
//! Around a team, as in "Engineering the xx network alpha" (October 2019): the first node sends a
//! ping to the second, each node forwards it to the next one immediately, and the first node stops
//! the clock when the last one returns it. The time is the sum of the one-way latencies, which no
//! node can measure alone without synchronized clocks. Over a link, the other side answers at once.
//! Both kinds take the lane of control frames and wait for no computation, so that they measure the
//! network and not the work.

use std::time::Duration;

use samara_engine::outbox::Lane;
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{MessageKey, PeerId, PeerIdentity, Time};

use super::{Cx, Node};
use crate::config::Config;
use crate::metrics::Ignored;
use crate::mix::Event;
use crate::round::{Cause, Failure, Half, NodeState, Phase};
use crate::wire::MixFrame;

impl Node {
    pub(super) fn start(&mut self, cx: &mut Cx<'_>) {
        self.peers.start(cx);
        self.tick(cx);
    }

    pub(super) fn tick(&mut self, cx: &mut Cx<'_>) {
        self.peers.tick(&self.config, &mut self.metrics, cx);
        self.send_pings(cx);
        self.check_rounds(cx);
        *self.metrics.held_bytes_max = self.metrics.held_bytes_max.max(self.held_bytes_total());
    }

    pub(super) fn link_up(&mut self, peer: PeerId, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        let Some(number) = self.peers.up(identity, peer, cx.now()) else {
            self.metrics.ignore(Ignored::Stranger);
            cx.close(peer);
            return;
        };
        self.send(number, self.peers.hello(), cx);
        if is_planted(Bug::MixResend) {
            return;
        }
        let rounds: Vec<u64> = self.rounds.keys().copied().collect();
        for round in rounds {
            self.with_round(round, cx, |node, round, cx| {
                if number == node.peers.scheduler() {
                    let status = MixFrame::Status { round: round.number(), state: round.state };
                    node.send(number, status, cx);
                } else if let Some(seat) = round.plan.seat_of(number) {
                    let frames = round.key_frames.iter().filter(|(to, _)| *to == number);
                    frames.for_each(|(_, frame)| node.send(number, frame.clone(), cx));
                    let of_seat = round.outgoing.iter().filter(|((_, to), _)| *to == seat);
                    for (phase, frame) in
                        of_seat.flat_map(|((phase, _), frames)| frames.iter().map(|frame| (*phase, frame)))
                    {
                        node.metrics.resent_frames += 1;
                        node.send_on(number, lane(phase), Some(round.message()), frame.clone(), cx);
                    }
                }
                Ok(())
            });
        }
    }

    /// Handles the incarnation of a node. A new incarnation has forgotten all rounds but those that
    /// the scheduler has made with it, which may be known here before this link.
    pub(super) fn on_hello(&mut self, from: u32, incarnation: u64, cx: &mut Cx<'_>) {
        if self.peers.record_incarnation(from, incarnation) && from != self.peers.scheduler() {
            let of_it = self.rounds.iter().filter(|(_, round)| {
                round.plan.seat_of(from).is_some() && round.plan.incarnation_of(from) != Some(incarnation)
            });
            let rounds: Vec<u64> = of_it.map(|(number, _)| *number).collect();
            for round in rounds {
                self.with_round(round, cx, |_, round, _| match round.state {
                    NodeState::Completed => Ok(()),
                    _ => Err(Failure::by(Cause::Restarted, from)),
                });
            }
        }
    }

    /// Drops the frames of a phase of which another node has all slots: they need not be sent
    /// again.
    pub(super) fn on_received(&mut self, from: u32, number: u64, phase: Phase) {
        let Some(round) = self.rounds.get_mut(&number) else {
            self.metrics.ignore(Ignored::Stale);
            return;
        };
        match round.plan.seat_of(from) {
            Some(seat) => {
                round.outgoing.remove(&(phase, seat));
            }
            None => self.metrics.ignore(Ignored::Stranger),
        }
    }
}

pub(super) const fn lane(phase: Phase) -> Lane {
    match phase.half() {
        Half::RealTime => Config::REALTIME,
        Half::Precomputation => Config::PRECOMPUTATION,
    }
}

/// Pings in flight, and the time of the next ones.
#[derive(Debug, Default)]
pub(super) struct Pings {
    next: Time,
    /// At most one for each team.
    loops: Vec<Loop>,
}

#[derive(Debug)]
struct Loop {
    team: Vec<u32>,
    round: u64,
    number: u64,
    sent: Time,
}

impl Node {
    /// Sends pings when they are due. Those that have not returned by then are lost.
    pub(super) fn send_pings(&mut self, cx: &mut Cx<'_>) {
        let Some(every) = self.config.ping.filter(|_| cx.now() >= self.pings.next) else { return };
        self.pings.next = cx.now() + every;
        for ping in std::mem::take(&mut self.pings.loops) {
            self.metrics.loops_lost += 1;
            cx.emit(Event::Looped { team: ping.team, took: None });
        }
        self.send_echoes(cx);
        self.send_loops(cx);
    }

    fn send_echoes(&mut self, cx: &mut Cx<'_>) {
        for contact in self.peers.numbers() {
            if self.peers.link_to(contact).is_none() {
                continue;
            }
            let number = cx.rng().next_u64();
            if self.peers.record_ping(contact, number, cx.now()) {
                self.metrics.echoes_lost += 1;
                cx.emit(Event::RoundTrip { node: contact, took: None });
            }
            self.send(contact, MixFrame::Echo { number, is_answer: false }, cx);
        }
    }

    /// Sends one ping for each team of which this node is the first. The ping carries the number of
    /// the team's newest round that all members know, because that round lasts the longest.
    fn send_loops(&mut self, cx: &mut Cx<'_>) {
        let is_known =
            |state| matches!(state, NodeState::Precomputing | NodeState::Standby | NodeState::Realtime);
        let mut loops: Vec<Loop> = Vec::new();
        for round in self.rounds.values().rev().filter(|round| round.seat.is_first() && is_known(round.state))
        {
            let team = &round.plan.team;
            if loops.iter().all(|ping| ping.team != *team) {
                let (round, number) = (round.number(), cx.rng().next_u64());
                loops.push(Loop { team: team.clone(), round, number, sent: cx.now() });
            }
        }
        for ping in loops {
            let frame = MixFrame::Ping { round: ping.round, number: ping.number, seat: 1 };
            self.send(ping.team[1], frame, cx);
            self.pings.loops.push(ping);
        }
    }

    /// Handles a ping to the holder of a seat: forwards it to the next one, or records its return.
    pub(super) fn on_ping(&mut self, from: u32, number: u64, name: u64, seat: u16, cx: &mut Cx<'_>) {
        let Some(round) = self.rounds.get(&number) else {
            return self.on_ping_returned(from, number, name, seat, cx);
        };
        let comes_right = from == round.before() && seat == round.seat.position;
        if !comes_right {
            return self.metrics.ignore(Ignored::Stranger);
        }
        if round.seat.is_first() {
            return self.on_ping_returned(from, number, name, seat, cx);
        }
        // At the first seat, the ping is back.
        let (next, to) = (round.next_seat(), round.node_at(round.next_seat()));
        // Of each round, one ping is owed at a time, however many the previous node sends.
        let key = MessageKey(!number);
        let frame = MixFrame::Ping { round: number, number: name, seat: next };
        self.peers.send_latest(to, key, frame, &mut self.metrics, cx);
    }

    /// Records the return of a ping, which may arrive after the end of its round.
    fn on_ping_returned(&mut self, from: u32, round: u64, number: u64, seat: u16, cx: &mut Cx<'_>) {
        let is_own = |ping: &Loop| ping.round == round && ping.number == number;
        let known = self.pings.loops.iter().position(is_own);
        let Some(index) =
            known.filter(|index| self.pings.loops[*index].team.last() == Some(&from) && seat == 0)
        else {
            return self.metrics.ignore(Ignored::Stale);
        };
        let Loop { team, sent, .. } = self.pings.loops.swap_remove(index);
        self.metrics.loops += 1;
        let took: Duration = cx.now().since(sent);
        cx.emit(Event::Looped { team, took: Some(took) });
    }

    /// Answers a ping over a link, or records the answer to one.
    pub(super) fn on_echo(&mut self, from: u32, number: u64, is_answer: bool, cx: &mut Cx<'_>) {
        if !is_answer {
            return self.peers.answer_echo(from, number, &mut self.metrics, cx);
        }
        match self.peers.record_answer(from, number, cx.now()) {
            Some(took) => {
                self.metrics.echoes += 1;
                cx.emit(Event::RoundTrip { node: from, took: Some(took) });
            }
            None => self.metrics.ignore(Ignored::Stale),
        }
    }
}
