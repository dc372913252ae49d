//! The paths of batches through a team, for `samara explain`.
//!
//! A path ends with the last payload at a node, and leads back to the hand-in of the batch: over the
//! slots for which each node waited last. A node that permutes waits for the whole batch. In the
//! other phases of a streamed batch, a slot waits for itself only.

use std::collections::BTreeMap;

use samara_mix::{Group, Half, Mark, MixFrame, Phase, Transfer};
use samara_sim::{Arrival, Arrivals, Cause, Contents, Hop, Origin, Parts};

use super::measure::{Phases, RoundRow, hop_times};
use samara_lab::explain::{ContentsOf, Delivered};

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
            Some(Delivered { node, item, from: None, origin, at: (*at)?, made_of: None, is_last, after })
        });
        Some(delivered.collect::<Vec<_>>())
    };
    rounds.filter_map(of_round).flatten().collect()
}

/// Returns the path of a batch to a node by the marks of phases, with times in nanoseconds of the run:
/// that of its last slots. `latency` returns that of the link between two nodes. Nodes of a testbed
/// have such marks.
pub(super) fn path_of_marks(
    (row, phases): (&RoundRow, &Phases),
    to: &Delivered,
    latency: impl Fn(u32, u32) -> u64,
) -> Option<Vec<Hop>> {
    let first = *row.nodes.first()?;
    let last = *row.nodes.last()?;
    let pass = |phase| row.nodes.windows(2).map(move |pair| [(pair[0], phase), (pair[1], phase)]);
    let round = [[(last, Phase::Decrypt), (first, Phase::Permute)]];
    let mut has_since = to.origin.at;
    let mut hop = |from: u32, node: u32, (left, at): (u64, u64)| {
        let (since, at) = (has_since, at.max(has_since));
        let left = left.clamp(since, at);
        let on_link = latency(from, node).min(at - left);
        let mut parts = Parts::default();
        parts.add(Cause::Processor, left - since);
        parts.add(Cause::Latency, on_link);
        parts.add(Cause::Transport, at - left - on_link);
        has_since = at;
        Hop { from, to: node, since, at, parts }
    };
    let mut hops = Vec::new();
    for ends in pass(Phase::Decrypt).chain(round).chain(pass(Phase::Permute)) {
        hops.push(hop(ends[0].0, ends[1].0, hop_times(phases, row.round, ends)?));
    }
    if to.node != last {
        let left = phases.get(&(row.round, last, Phase::Permute))?[Mark::LastFinished as usize]?;
        hops.push(hop(last, to.node, (left, to.at)));
    }
    (has_since <= to.at).then_some(hops)
}

struct Piece<'a> {
    phase: u64,
    last_slot: u64,
    arrival: &'a Arrival,
}

/// The pieces of each round at each host, by their arrival.
pub(super) struct Pieces<'a> {
    arrivals: &'a Arrivals,
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
        Self { arrivals, pieces, transfer }
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
            hops.push(self.arrivals.hop(piece.arrival, to, since, before.is_some() || from == origin.host));
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

#[cfg(test)]
mod tests {
    use samara_document::Inputs;

    use super::*;
    use crate::course::{MixMeasured, Teams};
    use samara_lab::explain::{Explain, Explained, MainTime, Mode};
    use samara_lab::network;
    use samara_lab::run::{RunOptions, run_alone};

    fn of_marks(measured: &MixMeasured) -> Explained {
        let paths = |_: &Arrivals, delivered: &[Delivered]| {
            let path = |to: &Delivered| {
                let of_round = (measured.collector.rounds.get(&to.item)?, &measured.collector.phases);
                path_of_marks(of_round, to, |from, node| network::latency_nanos(&measured.hosts, from, node))
            };
            delivered.iter().map(path).collect()
        };
        let delivered = delivered(measured.collector.rounds.values());
        Explained::of(Arrivals::default(), delivered, paths, true, (1, MainTime::default()))
    }

    /// The marks of a simulated run give the paths that the simulator has recorded: the same hops and
    /// latencies, and processor times that differ by what is in the pipeline.
    #[test]
    fn marks_of_phases_tell_the_path_of_a_batch() {
        let set = [("mix.rounds", "4"), ("mix.batch", "64"), ("protocol.realtime_slots", "16")];
        let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        for only in ["unary", "streamed"] {
            samara_lab::family::set_base(&[&crate::FAMILY]);
            let loaded = samara_scenario::load("mix-stream", &set, &[only.to_owned()], Some(1)).unwrap();
            let (inputs, explain) = (Inputs::default(), Explain::new(Mode::Auto));
            let options = RunOptions { explain: &explain, ..RunOptions::new(1, &inputs) };
            let measured = run_alone::<Teams>(&loaded.points[0], options, &mut |_, _| {}).unwrap();
            let (marks, recorded) = (of_marks(&measured), explain.take().unwrap());
            let deliveries = |explained: &Explained| {
                let rows = explained.rows.iter().filter(|row| row.is_delivery);
                let mut all: Vec<_> = rows.map(|row| (row.item, row.node, row.nanos)).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(deliveries(&marks), deliveries(&recorded), "{only}");
            assert!(marks.rows.iter().filter(|row| row.is_last).all(|row| row.hops == 10), "{only}");
            let part = |explained: &Explained, cause| {
                let parts = explained.mean_parts_ms();
                parts.iter().find(|(other, _)| *other == cause).map_or(0.0, |(_, ms)| *ms)
            };
            let [own, other] = [&marks, &recorded].map(|explained| part(explained, Cause::Latency));
            assert_eq!(own, other, "{only}");
            let [own, other] = [&marks, &recorded].map(|explained| part(explained, Cause::Processor));
            assert!((own / other - 1.0).abs() < 0.05, "{only}: {own} and {other} ms");
            assert!(part(&marks, Cause::Transport) > 0.0 && part(&marks, Cause::Unknown) == 0.0, "{only}");
        }
    }
}
