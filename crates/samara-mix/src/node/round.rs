//! What a node knows of a round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samara_engine::{MessageKey, Time};

use super::key::TeamKey;
use super::stage::Stage;
use crate::compute::{Job, Seat, Vault};
use crate::round::{NodeState, Phase, Plan};
use crate::sender::{Batch, FIELD_BYTES};
use crate::wire::MixFrame;

/// Salt and sender of a slot.
pub(super) type SlotName = [u8; 2 * FIELD_BYTES];

/// A round that this node takes part in.
pub(super) struct Round {
    pub(super) plan: Arc<Plan>,
    pub(super) seat: Seat,
    pub(super) state: NodeState,
    /// Since when it is in this state; in the first two, since it began.
    pub(super) since: Time,
    pub(super) vault: Option<Arc<dyn Vault>>,
    pub(super) key: TeamKey,
    /// What was said about keys, and to whom, until the precomputation is over.
    pub(super) said: Vec<(u32, MixFrame)>,
    pub(super) stages: BTreeMap<Phase, Stage>,
    /// Slots that other seats are not known to have all of, by phase and seat.
    pub(super) outgoing: BTreeMap<(Phase, u16), Vec<MixFrame>>,
    /// Work that needs the team's key, which is not agreed on yet.
    pub(super) held: Vec<Job>,
    pub(super) names: BTreeSet<SlotName>,
    /// Whether the scheduler has said that the round takes a batch.
    pub(super) is_queued: bool,
    /// Payloads that wait for earlier rounds.
    pub(super) batch: Option<Batch>,
}

impl Round {
    pub(super) fn new(plan: Arc<Plan>, position: u16, now: Time) -> Self {
        let team = plan.team.len() as u16;
        Self {
            seat: Seat { position, team },
            state: NodeState::Waiting,
            since: now,
            vault: None,
            key: TeamKey::new(team),
            said: Vec::new(),
            stages: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            held: Vec::new(),
            names: BTreeSet::new(),
            is_queued: false,
            batch: None,
            plan,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.plan.round
    }

    /// What its slots are called in the outbox.
    pub(super) fn message(&self) -> MessageKey {
        MessageKey(self.plan.round)
    }

    /// The seat after this one; after the last comes the first.
    pub(super) fn next_seat(&self) -> u16 {
        (self.seat.position + 1) % self.seat.team
    }

    pub(super) fn seat_before(&self) -> u16 {
        (self.seat.position + self.seat.team - 1) % self.seat.team
    }

    /// The node at a seat.
    pub(super) fn node_at(&self, seat: u16) -> u32 {
        self.plan.team[usize::from(seat)]
    }

    /// The node that slots come from.
    pub(super) fn before(&self) -> u32 {
        self.node_at(self.seat_before())
    }

    pub(super) fn held_bytes(&self) -> u64 {
        let bytes = |frame: &MixFrame| match frame {
            MixFrame::Slots(piece) => piece.len() as u64,
            _ => 0,
        };
        let outgoing: u64 = self.outgoing.values().flatten().map(bytes).sum();
        let stages: u64 = self.stages.values().map(Stage::held_bytes).sum();
        let waiting = self.batch.as_ref().map_or(0, |batch| batch.elements.len() + batch.credentials.len());
        outgoing + stages + waiting as u64 + self.held.iter().map(Job::held_bytes).sum::<u64>()
    }
}
