//! The paths of batches through a team, for `samara explain`.
//!
//! A path ends with the last payload at a node, and leads back to the hand-in of the batch: over the
//! slots for which each node waited last. A node that permutes waits for the whole batch. In the
//! other phases of a streamed batch, a slot waits for itself only.

use std::collections::BTreeMap;

use samara_mix::{Group, Half, MixFrame, Phase, Transfer};
use samara_sim::{Arrival, Arrivals, Cause, Contents, Hop, Origin};

use super::measure::RoundRow;
use crate::explain::{ContentsOf, Delivered};

/// An item is a piece of a batch: a round, a phase, and the last slot of the piece.
const SLOT_BITS: u32 = 24;
const PHASE_BITS: u32 = 3;

fn item(round: u64, phase: Phase, last_slot: u32) -> u64 {
    (round << PHASE_BITS | phase as u64) << SLOT_BITS | u64::from(last_slot)
}

pub(super) const fn round_of(item: u64) -> u64 {
    item >> (SLOT_BITS + PHASE_BITS)
}

/// Returns the function that finds the pieces in frames of real time.
pub(super) fn contents(group: Group) -> ContentsOf<MixFrame> {
    Box::new(move |frame, _| match frame {
        MixFrame::Slots(piece) if piece.phase.half() == Half::RealTime => {
            let slots = piece.elements.len() / (group.element_bytes() * piece.phase.elements());
            let last = piece.first + slots.saturating_sub(1) as u32;
            let items = [item(piece.round, piece.phase, last)].into_iter().collect();
            Contents { items, batch: Some(piece.round), ..Contents::default() }
        }
        _ => Contents::default(),
    })
}

/// Returns the deliveries of the rounds that came out at all nodes of their team. The last one ends
/// the latency of the batch.
pub(super) fn delivered<'a>(rounds: impl Iterator<Item = &'a RoundRow>) -> Vec<Delivered> {
    let of_round = |row: &RoundRow| {
        let (exit, at) = (row.exit()?, row.entered?);
        let origin = Origin { host: *row.nodes.first()?, at };
        let mut has_last = false;
        let delivered = row.nodes.iter().zip(&row.delivered).filter_map(|(node, at)| {
            // One of several nodes that finish at the same time.
            let is_last = *at == Some(exit) && !std::mem::replace(&mut has_last, true);
            let (node, item, after) = (*node, row.round, Cause::Processor);
            Some(Delivered { node, item, origin, at: (*at)?, made_of: None, is_last, after })
        });
        Some(delivered.collect::<Vec<_>>())
    };
    rounds.filter_map(of_round).flatten().collect()
}

struct Piece<'a> {
    phase: u64,
    last_slot: u64,
    arrival: &'a Arrival,
}

/// The pieces of each round at each host, by their arrival.
pub(super) struct Pieces<'a> {
    pieces: BTreeMap<(u64, u32), Vec<Piece<'a>>>,
    transfer: Transfer,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(arrivals: &'a Arrivals, hosts: u32, transfer: Transfer) -> Self {
        let mut pieces = BTreeMap::<_, Vec<_>>::new();
        for host in 0..hosts {
            for (item, arrival) in arrivals.at(host) {
                let phase = item >> SLOT_BITS & ((1 << PHASE_BITS) - 1);
                let last_slot = item & ((1 << SLOT_BITS) - 1);
                let of_round = pieces.entry((round_of(item), host)).or_default();
                of_round.push(Piece { phase, last_slot, arrival });
            }
        }
        Self { pieces, transfer }
    }

    /// Returns the path of a batch to a node, which delivered it at `delivery.at`.
    pub(super) fn path(&self, delivery: &Delivered) -> Option<Vec<Hop>> {
        let Delivered { node: mut to, item: round, origin, at, .. } = *delivery;
        let mut piece = self.before(round, to, at, None)?;
        let mut hops = Vec::new();
        loop {
            let (from, owed_at) = (piece.arrival.from, piece.arrival.owed_at);
            let before = self.before(round, from, owed_at, Some(piece));
            let since = before.map_or(origin.at, |before| before.arrival.at);
            hops.push(piece.arrival.hop(to, since, before.is_some() || from == origin.host));
            let Some(before) = before else { break };
            (to, piece) = (from, before);
        }
        hops.reverse();
        Some(hops)
    }

    /// Returns the piece for which a host waited before it owed the piece `next`, or before it had all
    /// payloads.
    fn before(&self, round: u64, host: u32, until: u64, next: Option<&Piece<'_>>) -> Option<&Piece<'a>> {
        let of_round = self.pieces.get(&(round, host))?;
        let arrived = &of_round[..of_round.partition_point(|piece| piece.arrival.at <= until)];
        let last = arrived.last()?;
        let Some(next) = next else { return Some(last) };
        let is_permuted = last.phase == Phase::Permute as u64;
        if is_permuted || self.transfer == Transfer::Unary {
            return Some(last);
        }
        let has_slot = |piece: &&Piece<'_>| piece.phase == last.phase && piece.last_slot >= next.last_slot;
        arrived.iter().filter(has_slot).min_by_key(|piece| piece.last_slot).or(Some(last))
    }
}
