//! Receiving, processing and sending slots, from the batch to the payloads.

use bytes::Bytes;

use super::links::lane;
use super::round::{Arrival, Gathering, Intake, Round, Stage};
use super::{Cx, Node};
use crate::Secret;
use crate::compute::{Input, Job, Output, Slots, Task, Voided};
use crate::metrics::Ignored;
use crate::mix::{Event, Mark, RefuseError};
use crate::round::{Cause, Failure, Gate, Half, NodeState, Phase, Transfer};
use crate::sender::{self, Batch, FIELD_BYTES, Outcome, SenderId, credential_bytes, sender_of};
use crate::wire::{MixFrame, Piece};

impl Node {
    pub(super) fn on_slots(&mut self, from: u32, piece: Piece, cx: &mut Cx<'_>) {
        let number = piece.round;
        let known = self.with_round(number, cx, |node, round, cx| {
            let seat = round.plan.seat_of(from);
            match seat.filter(|seat| comes_from(round, piece.phase, piece.first, *seat)) {
                None => node.metrics.ignore(Ignored::Stranger),
                Some(_) if !node.fits(round, &piece) => node.metrics.ignore(Ignored::Inconsistent),
                Some(_) if !is_due(round.state, piece.phase) => node.on_late_slots(round, &piece, from, cx),
                Some(seat) => return node.take(round, piece, Some(seat), cx),
            }
            Ok(())
        });
        if !known {
            self.metrics.ignore(Ignored::Stale);
        }
    }

    fn slot_bytes(&self, phase: Phase) -> usize {
        phase.elements() * self.config.group.element_bytes()
    }

    /// Returns true if the lengths of a piece are valid.
    fn fits(&self, round: &Round, piece: &Piece) -> bool {
        let width = self.slot_bytes(piece.phase);
        let count = piece.elements.len() / width;
        let credentials =
            if piece.phase == Phase::Decrypt { credential_bytes(round.seat.codes()) } else { 0 };
        count > 0
            && piece.elements.len() == count * width
            && piece.credentials.len() == count * credentials
            && u64::from(piece.first) + count as u64 <= u64::from(round.plan.batch)
    }

    /// Handles slots of a phase that is not due. If the phase is complete, its sender missed the
    /// acknowledgement.
    fn on_late_slots(&mut self, round: &Round, piece: &Piece, from: u32, cx: &mut Cx<'_>) {
        if round.stages.get(&piece.phase).is_some_and(Stage::is_complete) {
            self.metrics.ignore(Ignored::Duplicate);
            self.send(from, MixFrame::Received { round: piece.round, phase: piece.phase }, cx);
        } else {
            self.metrics.ignore(Ignored::OutOfPhase);
        }
    }

    /// Takes slots from another seat, or new ones if `from` is `None`.
    pub(super) fn take(
        &mut self,
        round: &mut Round,
        mut piece: Piece,
        from: Option<u16>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        let (phase, first) = (piece.phase, piece.first);
        let width = self.slot_bytes(phase);
        let count = (piece.elements.len() / width) as u32;
        let batch = round.plan.batch;
        let stage = round.stages.entry(phase).or_insert_with(|| Stage::new(phase, batch, width));
        stage.from |= from.map_or(0, |seat| 1 << seat);
        let is_first = stage.is_empty();
        let arrival = stage.record_arrival(first, count);
        if arrival != Arrival::New {
            let is_complete = stage.is_complete();
            self.metrics.ignore(if arrival == Arrival::Duplicate {
                Ignored::Duplicate
            } else {
                Ignored::Overlap
            });
            if let Some(seat) = from.filter(|_| is_complete) {
                let frame = MixFrame::Received { round: round.number(), phase };
                self.send(round.node_at(seat), frame, cx);
            }
            return Ok(());
        }
        if is_first {
            self.mark(round, phase, Mark::FirstReceived, cx);
        }
        if phase.half() == Half::RealTime && round.state == NodeState::Standby {
            self.set_state(round, NodeState::Realtime, cx);
        }
        match phase {
            Phase::Decrypt => self.void_copies(round, &mut piece),
            Phase::Result => self.pass_on(round, &piece, cx),
            _ => {}
        }
        let Some(stage) = round.stages.get_mut(&phase) else { return Ok(()) };
        let is_complete = stage.is_complete();
        match &mut stage.intake {
            Intake::SlotWise => self.work_on_pieces(round, &piece, count),
            Intake::Barrier(gathering) | Intake::Both(gathering) => gathering.put(first, &piece.elements),
        }
        if is_complete {
            self.on_all_arrived(round, phase, cx);
        }
        Ok(())
    }

    /// Handles the arrival of all slots of a phase: acknowledges them, and starts the work that
    /// waited for them.
    fn on_all_arrived(&mut self, round: &mut Round, phase: Phase, cx: &mut Cx<'_>) {
        self.mark(round, phase, Mark::LastReceived, cx);
        let Some(stage) = round.stages.get_mut(&phase) else { return };
        let from = stage.from;
        let gathered = stage.take_gathered();
        for seat in (0..round.seat.team).filter(|seat| from >> seat & 1 == 1) {
            let frame = MixFrame::Received { round: round.number(), phase };
            self.send(round.node_at(seat), frame, cx);
        }
        match phase.gate() {
            _ if phase == Phase::Result => self.deliver(round, &gathered, cx),
            Gate::SlotWise => {}
            Gate::Barrier => {
                self.work(round, phase, 0, round.plan.batch, |_, _| Input::All {
                    elements: gathered.clone(),
                });
            }
        }
    }

    /// Requests jobs for slots that arrived.
    fn work_on_pieces(&mut self, round: &mut Round, piece: &Piece, count: u32) {
        let part = |bytes: &Bytes, from: u32, to: u32| {
            let width = bytes.len() / count as usize;
            bytes.slice((from - piece.first) as usize * width..(to - piece.first) as usize * width)
        };
        self.work(round, piece.phase, piece.first, count, |from, to| Input::Some {
            elements: part(&piece.elements, from, to),
            credentials: part(&piece.credentials, from, to),
        });
    }

    /// Requests jobs for slots, a few at a time. Pieces start at multiples of their length.
    pub(super) fn work(
        &mut self,
        round: &mut Round,
        phase: Phase,
        first: u32,
        count: u32,
        input: impl Fn(u32, u32) -> Input,
    ) {
        let Some(vault) = &round.vault else { return };
        let each = piece_slots(round, phase);
        let mut from = first;
        while from < first + count {
            let to = (from / each + 1).saturating_mul(each).min(first + count);
            let input = input(from, to);
            let slots = Slots {
                round: round.number(),
                phase,
                first: from,
                count: to - from,
                shared: self.shared_with(round, phase, &input),
                input,
            };
            let task = Task::Slots { vault: vault.clone(), seat: round.seat, slots };
            let job = Job { round: round.number(), group: self.config.group, task };
            if round.key.is_agreed {
                self.jobs.push(job)
            } else {
                round.held.push(job)
            }
            from = to;
        }
    }

    /// Returns the secrets shared with the senders of slots in real-time decryption.
    fn shared_with(&mut self, round: &Round, phase: Phase, input: &Input) -> Vec<Option<Secret>> {
        match input {
            Input::Some { credentials, .. } if phase == Phase::Decrypt => {
                let slots = credentials.chunks_exact(credential_bytes(round.seat.codes()));
                slots.map(|slot| self.keyring.use_secret(sender_of(slot)).cloned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Handles processed slots: they leave.
    pub(super) fn on_output(
        &mut self,
        round: &mut Round,
        phase: Phase,
        first: u32,
        count: u32,
        output: Output,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        self.metrics.slots[phase] += u64::from(count);
        self.metrics.voided.add(&output.voided);
        if self.config.senders_min > 1 {
            round.senders.extend(output.senders);
        }
        let Some(stage) = round.stages.get_mut(&phase) else { return Ok(()) };
        let is_first = stage.finished == 0;
        stage.finished += count;
        let is_last = stage.finished == round.plan.batch;
        if is_first {
            self.mark(round, phase, Mark::FirstFinished, cx);
        }
        // Before the slots leave: the last seat delivers them, and the times of a round must be
        // complete by then.
        if is_last {
            self.mark(round, phase, Mark::LastFinished, cx);
        }
        // The last seat starts the next phase: at the first seat, or at all seats for results.
        let goes_to = if round.seat.is_last() { phase.next() } else { Some(phase) };
        if let Some(phase_there) = goes_to {
            let piece = Piece {
                round: round.number(),
                phase: phase_there,
                first,
                elements: output.elements.into(),
                credentials: output.credentials.into(),
            };
            match round.plan.transfer {
                Transfer::Streamed => self.leave(round, piece, cx)?,
                Transfer::Unary => self.gather(round, phase, piece, is_last, cx)?,
            }
        }
        if is_last {
            self.finish_phase(round, phase, cx)?;
        }
        Ok(())
    }

    /// Keeps slots until all of the phase are processed; then they leave together.
    fn gather(
        &mut self,
        round: &mut Round,
        phase: Phase,
        piece: Piece,
        is_last: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        let batch = round.plan.batch;
        let width = self.slot_bytes(piece.phase);
        let count = piece.elements.len() / width;
        let credentials = piece.credentials.len() / count.max(1);
        let Some(stage) = round.stages.get_mut(&phase) else { return Ok(()) };
        let leaving = stage
            .leaving
            .get_or_insert_with(|| [width, credentials].map(|width| Gathering::new(batch, width)));
        leaving[0].put(piece.first, &piece.elements);
        leaving[1].put(piece.first, &piece.credentials);
        match stage.leaving.take_if(|_| is_last) {
            Some([elements, credentials]) => {
                let (elements, credentials) = (elements.finish(), credentials.finish());
                self.leave(round, Piece { first: 0, elements, credentials, ..piece }, cx)
            }
            None => Ok(()),
        }
    }

    /// Sends slots to the next seat. Results are taken here, which sends them on.
    fn leave(&mut self, round: &mut Round, piece: Piece, cx: &mut Cx<'_>) -> Result<(), Failure> {
        if piece.phase == Phase::Result {
            return self.take(round, piece, None, cx);
        }
        self.send_piece(round, round.next_seat(), piece, cx);
        Ok(())
    }

    /// Sends slots to a seat, and keeps them until it has all slots of the phase.
    pub(super) fn send_piece(&mut self, round: &mut Round, to: u16, piece: Piece, cx: &mut Cx<'_>) {
        let phase = piece.phase;
        let frame = MixFrame::Slots(piece);
        round.outgoing.entry((phase, to)).or_default().push(frame.clone());
        self.send_on(round.node_at(to), lane(phase), Some(round.message()), frame, cx);
    }

    /// Handles the end of a phase at this node: all its slots are processed.
    fn finish_phase(&mut self, round: &mut Round, phase: Phase, cx: &mut Cx<'_>) -> Result<(), Failure> {
        match phase {
            // Slots have left, but none comes out without the permutation of this node.
            Phase::Decrypt if self.config.senders_min > 1 => {
                let senders = std::mem::take(&mut round.senders).len();
                if senders < self.config.senders_min {
                    return Err(Failure::of(Cause::TooFewSenders));
                }
            }
            Phase::Reveal => {
                round.key_frames.clear();
                self.set_state(round, NodeState::Standby, cx);
            }
            // No secrets are needed after this phase.
            Phase::Permute => round.vault = None,
            _ => {}
        }
        Ok(())
    }

    /// Starts the precomputation at the first seat, with ones.
    pub(super) fn begin_precomputation(&mut self, round: &mut Round, cx: &mut Cx<'_>) {
        if round.seat.is_first() {
            let phase = Phase::PrecomputeDecrypt;
            let batch = round.plan.batch;
            let mut stage = Stage::new(phase, batch, 0);
            stage.record_arrival(0, batch);
            round.stages.insert(phase, stage);
            self.mark(round, phase, Mark::FirstReceived, cx);
            self.mark(round, phase, Mark::LastReceived, cx);
            self.work(round, phase, 0, batch, |_, _| Input::Ones);
        }
    }

    fn mark(&mut self, round: &Round, phase: Phase, mark: Mark, cx: &mut Cx<'_>) {
        cx.emit(Event::Mark { round: round.number(), phase, mark });
    }
}

/// Returns the number of slots of a phase that are processed together.
fn piece_slots(round: &Round, phase: Phase) -> u32 {
    match phase.half() {
        Half::RealTime => round.plan.realtime_slots,
        Half::Precomputation => round.plan.precomputation_slots,
    }
}

/// Returns true if slots of a phase can come from a seat.
fn comes_from(round: &Round, phase: Phase, first: u32, seat: u16) -> bool {
    let me = round.seat.position;
    match phase {
        // Results come from the seat that forwards this piece to this one.
        Phase::Result => round.plan.children(seat, first).any(|child| child == me),
        // These phases start at the first seat.
        Phase::PrecomputeDecrypt | Phase::Decrypt if round.seat.is_first() => false,
        _ => seat == round.seat_before(),
    }
}

/// Returns true if slots of a phase can arrive at a node in this state.
fn is_due(state: NodeState, phase: Phase) -> bool {
    match phase.half() {
        Half::Precomputation => state == NodeState::Precomputing,
        Half::RealTime => matches!(state, NodeState::Standby | NodeState::Realtime),
    }
}

impl Node {
    /// Handles the scheduler's report that all nodes have precomputed a round.
    pub(super) fn on_queued(&mut self, number: u64, cx: &mut Cx<'_>) {
        let Some(round) = self.rounds.get_mut(&number) else {
            self.metrics.ignore(Ignored::Stale);
            return;
        };
        if std::mem::replace(&mut round.is_queued, true) {
            self.metrics.ignore(Ignored::Duplicate);
            return;
        }
        if round.state == NodeState::Standby {
            // All nodes of the team count the time for a batch from here.
            round.since = cx.now();
        }
        if round.seat.is_first() {
            cx.emit(Event::Open(round.plan.clone()));
        }
    }

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

    /// Fails a round that has no batch, because too few senders have payloads for it.
    pub(super) fn abandon(&mut self, number: u64, cx: &mut Cx<'_>) {
        self.with_round(number, cx, |_, round, _| {
            let is_open = round.seat.is_first() && round.is_queued && round.state == NodeState::Standby;
            match is_open && round.batch.is_none() {
                true => Err(Failure::of(Cause::TooFewSenders)),
                false => Ok(()),
            }
        });
    }

    /// Starts waiting batches, the oldest round first, up to the limit.
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

    /// Voids slots whose name was seen in this round: a copy of a payload would reveal where it
    /// comes out.
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
        self.metrics.voided[Voided::Repeated] += copies.len() as u64;
        let void = sender::void(self.config.group);
        let (mut elements, mut credentials) = (piece.elements.to_vec(), piece.credentials.to_vec());
        for index in copies {
            elements[index * void.len()..(index + 1) * void.len()].copy_from_slice(&void);
            credentials[index * each..(index + 1) * each].fill(0);
        }
        (piece.elements, piece.credentials) = (elements.into(), credentials.into());
    }

    /// Forwards results to the seats that get them from this one.
    pub(super) fn pass_on(&mut self, round: &mut Round, piece: &Piece, cx: &mut Cx<'_>) {
        let children: Vec<u16> = round.plan.children(round.seat.position, piece.first).collect();
        for seat in children {
            self.send_piece(round, seat, piece.clone(), cx);
        }
    }

    pub(super) fn deliver(&mut self, round: &mut Round, elements: &Bytes, cx: &mut Cx<'_>) {
        let group = self.config.group;
        let slots = elements.chunks_exact(group.slot_bytes());
        let outcomes: Vec<Outcome> = slots.map(|slot| sender::from_elements(group, slot)).collect();
        let count = |of: &Outcome| outcomes.iter().filter(|outcome| *outcome == of).count() as u64;
        self.metrics.completed += 1;
        self.metrics.delivered_void += count(&Outcome::Void);
        self.metrics.delivered_unreadable += count(&Outcome::Unreadable);
        self.metrics.delivered += outcomes.len() as u64;
        self.metrics.slots[Phase::Result] += u64::from(round.plan.batch);
        (round.vault, round.names) = (None, Default::default());
        self.set_state(round, NodeState::Completed, cx);
        cx.emit(Event::Delivered { round: round.number(), outcomes });
    }
}
