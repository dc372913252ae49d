//! Links come and go; what was said on a lost one is said again.

use samara_engine::{PeerId, PeerIdentity};

use super::{Cx, Node, TICK, TICK_EVERY};
use crate::config::Config;
use crate::metrics::Ignored;
use crate::round::{Cause, Failure, Half, NodeState, Phase};
use crate::wire::MixFrame;

impl Node {
    pub(super) fn start(&mut self, cx: &mut Cx<'_>) {
        self.incarnation = cx.rng().next_u64();
        self.peers.start(cx.now());
        self.tick(cx);
    }

    pub(super) fn tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + TICK_EVERY, TICK);
        for identity in self.peers.due(now) {
            self.metrics.dials += 1;
            cx.dial(identity);
        }
        for peer in self.peers.silent(now, self.config.silence) {
            self.metrics.silences += 1;
            cx.close(peer);
        }
        if now >= self.next_beat {
            self.next_beat = now + self.config.beat;
            let links: Vec<PeerId> = self.peers.links().collect();
            let hello = MixFrame::Hello { incarnation: self.incarnation };
            links.into_iter().for_each(|peer| {
                self.metrics.owe(peer, Config::CONTROL, None, hello.clone(), cx);
            });
        }
        self.send_pings(cx);
        self.look_at_rounds(cx);
        self.metrics.held_bytes_max = self.metrics.held_bytes_max.max(self.held_bytes_total());
    }

    pub(super) fn link_up(&mut self, peer: PeerId, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        let Some(number) = self.peers.up(identity, peer, cx.now()) else {
            self.metrics.ignore(Ignored::Stranger);
            cx.close(peer);
            return;
        };
        self.send(number, MixFrame::Hello { incarnation: self.incarnation }, cx);
        let rounds: Vec<u64> = self.rounds.keys().copied().collect();
        for round in rounds {
            self.with_round(round, cx, |node, round, cx| {
                if number == node.peers.scheduler() {
                    let status = MixFrame::Status { round: round.number(), state: round.state };
                    node.send(number, status, cx);
                } else if let Some(seat) = round.plan.seat_of(number) {
                    let said = round.said.iter().filter(|(to, _)| *to == number);
                    said.for_each(|(_, frame)| node.send(number, frame.clone(), cx));
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

    /// A node says in which life it is: another one has forgotten all rounds.
    pub(super) fn on_hello(&mut self, from: u32, incarnation: u64, cx: &mut Cx<'_>) {
        if self.peers.lives(from, incarnation) && from != self.peers.scheduler() {
            let of_it = self.rounds.iter().filter(|(_, round)| round.plan.seat_of(from).is_some());
            let rounds: Vec<u64> = of_it.map(|(number, _)| *number).collect();
            for round in rounds {
                self.with_round(round, cx, |_, round, _| match round.state {
                    NodeState::Completed => Ok(()),
                    _ => Err(Failure::by(Cause::Restarted, from)),
                });
            }
        }
    }

    /// Another node has all slots of a phase: they need not be sent again.
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

/// The lane of slots of a phase.
pub(super) const fn lane(phase: Phase) -> samara_engine::outbox::Lane {
    match phase.half() {
        Half::RealTime => Config::REALTIME,
        Half::Precomputation => Config::PRECOMPUTATION,
    }
}
