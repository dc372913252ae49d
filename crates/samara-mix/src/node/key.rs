//! The key of a team: each node's part goes round, and is raised by every node's exponent.
//!
//! As in the xx network, each node begins with its own part, so that each knows the whole key from the node before it and from its
//! own exponent, and all tell each other what they have: nobody can choose the key, and nobody works with another one.

use std::sync::Arc;

use bytes::Bytes;

use super::round::Round;
use super::{Cx, Node};
use crate::NodeState;
use crate::compute::{Job, Task, Vault};
use crate::metrics::Ignored;
use crate::round::{Cause, Failure};
use crate::wire::MixFrame;

/// Parts of keys of rounds that are not known yet, of one node: more than a team that is ahead of the scheduler's word can send.
const EARLY_MAX: usize = 256;

/// A part of a key as it came.
#[derive(Debug)]
pub(super) struct EarlyShare {
    pub(super) from: u32,
    pub(super) round: u64,
    pub(super) origin: u16,
    pub(super) is_complete: bool,
    pub(super) key: Bytes,
}

/// What is known of a team's key.
#[derive(Debug)]
pub(super) struct TeamKey {
    /// Seats whose parts came through here.
    seen: u64,
    /// Parts that came before this node had its secrets.
    waiting: Vec<(u16, Bytes)>,
    /// The key, as each seat has it.
    finals: Vec<Option<Bytes>>,
    pub(super) is_agreed: bool,
}

impl TeamKey {
    pub(super) fn new(team: u16) -> Self {
        Self { seen: 0, waiting: Vec::new(), finals: vec![None; usize::from(team)], is_agreed: false }
    }
}

impl Node {
    /// The secrets of a round are drawn: its own part begins.
    pub(super) fn on_generated(
        &mut self,
        round: &mut Round,
        vault: Arc<dyn Vault>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        round.vault = Some(vault);
        self.become_state(round, NodeState::Precomputing, cx);
        self.raise(round, round.seat.position, generator(self.config.group.element_bytes()));
        for (origin, key) in std::mem::take(&mut round.key.waiting) {
            self.raise(round, origin, key);
        }
        Ok(())
    }

    /// Asks for a part to be raised by this node's exponent.
    fn raise(&mut self, round: &Round, origin: u16, key: Bytes) {
        if let Some(vault) = round.vault.clone() {
            // The seat before the origin is the last one that a part comes to.
            let is_complete = round.next_seat() == origin;
            let task = Task::Share { vault, origin, key, is_complete };
            self.jobs.push(Job { round: round.number(), group: self.config.group, task });
        }
    }

    /// A part was raised here: it goes on, or it is the key.
    pub(super) fn on_shared(
        &mut self,
        round: &mut Round,
        origin: u16,
        key: Bytes,
        is_complete: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        let number = round.number();
        if !is_complete {
            let frame = MixFrame::Share { round: number, origin, is_complete, key };
            let next = round.node_at(round.next_seat());
            self.say(round, next, frame, cx);
            return Ok(());
        }
        let me = round.seat.position;
        for seat in (0..round.seat.team).filter(|seat| *seat != me) {
            let frame = MixFrame::Share { round: number, origin: me, is_complete, key: key.clone() };
            let node = round.node_at(seat);
            self.say(round, node, frame, cx);
        }
        self.agree(round, me, key, cx)
    }

    fn say(&mut self, round: &mut Round, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        round.said.push((to, frame.clone()));
        self.send(to, frame, cx);
    }

    pub(super) fn on_share(&mut self, share: EarlyShare, cx: &mut Cx<'_>) {
        let number = share.round;
        if !self.rounds.contains_key(&number) {
            self.keep_early(share);
            return;
        }
        self.with_round(number, cx, |node, round, cx| node.take_share(round, share, cx));
    }

    /// Keeps what comes ahead of the scheduler's word; there are other ways for frames from it.
    fn keep_early(&mut self, share: EarlyShare) {
        let of_it = self.early.iter().filter(|early| early.from == share.from).count();
        if share.round < self.floor {
            self.metrics.ignore(Ignored::Stale);
        } else if of_it >= EARLY_MAX || share.key.len() != self.config.group.element_bytes() {
            self.metrics.ignore(Ignored::EarlyOverflow);
        } else {
            self.early.push_back(share);
        }
    }

    /// Takes what came ahead of the scheduler's word; what belongs to rounds before this one never comes to anything.
    pub(super) fn take_early(&mut self, round: &mut Round, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let (early, later) = std::mem::take(&mut self.early)
            .into_iter()
            .filter(|share| share.round >= round.number())
            .partition::<Vec<_>, _>(|share| share.round == round.number());
        self.early = later.into();
        early.into_iter().try_for_each(|share| self.take_share(round, share, cx))
    }

    fn take_share(&mut self, round: &mut Round, share: EarlyShare, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let EarlyShare { from, origin, is_complete, key, .. } = share;
        let of = if is_complete { origin } else { round.seat_before() };
        let is_known = origin < round.seat.team && origin != round.seat.position;
        if !is_known || round.node_at(of) != from {
            self.metrics.ignore(Ignored::Stranger);
            return Ok(());
        }
        if is_complete {
            return self.agree(round, origin, key, cx);
        }
        if round.key.seen >> origin & 1 == 1 {
            self.metrics.ignore(Ignored::Duplicate);
            return Ok(());
        }
        round.key.seen |= 1 << origin;
        match round.vault {
            Some(_) => self.raise(round, origin, key),
            None => round.key.waiting.push((origin, key)),
        }
        Ok(())
    }

    /// A seat has a key: once all have the same one, the precomputation begins.
    fn agree(&mut self, round: &mut Round, seat: u16, key: Bytes, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let finals = &mut round.key.finals;
        if let Some(before) = &finals[usize::from(seat)] {
            let same = *before == key;
            self.metrics.ignore(if same { Ignored::Duplicate } else { Ignored::Inconsistent });
            return Ok(());
        }
        finals[usize::from(seat)] = Some(key);
        let Some(mine) = finals[usize::from(round.seat.position)].clone() else { return Ok(()) };
        let other = finals.iter().position(|key| key.as_ref().is_some_and(|key| *key != mine));
        if let Some(other) = other {
            return Err(Failure::by(Cause::KeyMismatch, round.node_at(other as u16)));
        }
        if !round.key.is_agreed && finals.iter().all(Option::is_some) {
            round.key.is_agreed = true;
            round.held.drain(..).for_each(|job| self.jobs.push(job));
            self.begin_precomputation(round, cx);
        }
        Ok(())
    }
}

/// The generator, 2, as an element.
fn generator(element_bytes: usize) -> Bytes {
    let mut bytes = vec![0; element_bytes];
    bytes[element_bytes - 1] = 2;
    bytes.into()
}
