//! Batches, and what comes out.

use bytes::Bytes;

use super::round::Round;
use super::{Cx, Node};
use crate::compute::Voided;
use crate::content::{self, Outcome};
use crate::event::{Event, RefuseError};
use crate::metrics::Ignored;
use crate::round::{NodeState, Phase};
use crate::sender::{Batch, FIELD_BYTES, SenderId, credential_bytes};
use crate::wire::Piece;

impl Node {
    /// The scheduler says that all nodes have precomputed a round.
    pub(super) fn on_queued(&mut self, number: u64, cx: &mut Cx<'_>) {
        let Some(round) = self.rounds.get_mut(&number) else {
            self.metrics.ignore(Ignored::Stale);
            return;
        };
        if std::mem::replace(&mut round.is_queued, true) {
            self.metrics.ignore(Ignored::Duplicate);
        } else if round.seat.is_first() {
            cx.emit(Event::Open(round.plan.clone()));
        }
    }

    /// Takes the payloads of a round.
    pub(super) fn mix(&mut self, number: u64, batch: Batch) -> Result<(), RefuseError> {
        let group = self.config.group;
        let round = self.rounds.get_mut(&number).ok_or(RefuseError::NotOpen)?;
        if !round.seat.is_first() {
            return Err(RefuseError::NotFirst);
        }
        if !round.is_queued || round.state != NodeState::Standby || round.batch.is_some() {
            return Err(RefuseError::NotOpen);
        }
        let (found, expected) = (batch.len(), round.plan.batch);
        if found != expected as usize {
            return Err(RefuseError::BatchLength { found, expected });
        }
        let credentials = credential_bytes(round.seat.codes());
        if batch.elements.len() != found * group.slot_bytes()
            || batch.credentials.len() != found * credentials
        {
            return Err(RefuseError::Sealed);
        }
        round.batch = Some(batch);
        Ok(())
    }

    /// Sends batches on their way, the oldest round first, as many as may be at the same time.
    pub(super) fn start_batches(&mut self, cx: &mut Cx<'_>) {
        let is_ready = |round: &Round| round.batch.is_some();
        if !self.rounds.values().any(|round| is_ready(round)) {
            return;
        }
        let is_running = |round: &Round| round.seat.is_first() && round.state == NodeState::Realtime;
        let running = self.rounds.values().filter(|round| is_running(round)).count();
        let ready = self.rounds.iter().filter(|(_, round)| is_ready(round)).map(|(number, _)| *number);
        let ready: Vec<u64> = ready.take(self.config.realtime_max.saturating_sub(running)).collect();
        for number in ready {
            self.with_round(number, cx, |node, round, cx| {
                let Some(Batch { elements, credentials, .. }) = round.batch.take() else { return Ok(()) };
                let piece = Piece { round: number, phase: Phase::Decrypt, first: 0, elements, credentials };
                node.take(round, piece, None, cx)
            });
        }
    }

    /// Voids slots whose name was seen in this round: copies of a payload would show where it comes out.
    pub(super) fn void_copies(&mut self, round: &mut Round, piece: &mut Piece) {
        let each = credential_bytes(round.seat.codes());
        let name = 2 * FIELD_BYTES;
        let mut copies = Vec::new();
        for (index, credentials) in piece.credentials.chunks_exact(each).enumerate() {
            let mut of_slot = [0; 2 * FIELD_BYTES];
            of_slot.copy_from_slice(&credentials[..name]);
            let is_somebody = of_slot[FIELD_BYTES..] != SenderId::NOBODY.0;
            if is_somebody && !round.names.insert(of_slot) {
                copies.push(index);
            }
        }
        if copies.is_empty() {
            return;
        }
        self.metrics.voided.add(Voided { repeated: copies.len() as u64, ..Voided::default() });
        let void = content::void(self.config.group);
        let (mut elements, mut credentials) = (piece.elements.to_vec(), piece.credentials.to_vec());
        for index in copies {
            elements[index * void.len()..(index + 1) * void.len()].copy_from_slice(&void);
            credentials[index * each..(index + 1) * each].fill(0);
        }
        (piece.elements, piece.credentials) = (elements.into(), credentials.into());
    }

    /// Sends results on to the seats that have them from this one.
    pub(super) fn pass_on(&mut self, round: &mut Round, piece: &Piece, cx: &mut Cx<'_>) {
        let children: Vec<u16> = round.plan.children(round.seat.position, piece.first).collect();
        for seat in children {
            self.send_piece(round, seat, piece.clone(), cx);
        }
    }

    /// All payloads are here.
    pub(super) fn deliver(&mut self, round: &mut Round, elements: &Bytes, cx: &mut Cx<'_>) {
        let group = self.config.group;
        let slots = elements.chunks_exact(group.slot_bytes());
        let outcomes: Vec<Outcome> = slots.map(|slot| content::from_elements(group, slot)).collect();
        let count = |of: &Outcome| outcomes.iter().filter(|outcome| *outcome == of).count() as u64;
        self.metrics.completed += 1;
        self.metrics.delivered_void += count(&Outcome::Void);
        self.metrics.delivered_unreadable += count(&Outcome::Unreadable);
        self.metrics.delivered += outcomes.len() as u64;
        self.metrics.worked(Phase::Result, round.plan.batch);
        (round.vault, round.names) = (None, Default::default());
        self.become_state(round, NodeState::Completed, cx);
        cx.emit(Event::Delivered { round: round.number(), outcomes });
    }
}
