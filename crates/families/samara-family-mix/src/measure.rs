//! Collects rounds, phases and work from the events of the hosts of a mix.

use std::collections::{BTreeMap, VecDeque};

use crate::application::{RoundEvent, WorkSpan};
use samara_mix::{Cause, Mark, Phase, RoundState};
use samara_sim::Record;

use samara_lab::results::{Deliveries, DeliveryRow, NOBODY};

/// The record of a round. Times are in nanoseconds of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundRow {
    pub round: u64,
    pub team: usize,
    pub nodes: Vec<u32>,
    /// When the scheduler created the round.
    pub made: u64,
    /// When precomputation was complete, so that the round could take a batch.
    pub opened: Option<u64>,
    /// When the payloads were handed in.
    pub entered: Option<u64>,
    /// For each seat, when all payloads had arrived.
    pub delivered: Vec<Option<u64>>,
    /// For each seat, when the node reported a failure.
    pub failed: Vec<Option<u64>>,
    /// When the round completed or failed at the scheduler.
    pub ended: Option<u64>,
    pub cause: Option<Cause>,
    /// Payloads that came out wrong or not at all, over all nodes.
    pub wrong: u32,
    /// Nodes with a different order of payloads than the first node that had them.
    pub disagreements: u32,
    /// Nodes that delivered the round twice, or both delivered it and reported a failure.
    pub contradictions: u32,
    /// Whether payloads came out in their original order.
    pub is_unmixed: bool,
    order: Option<u64>,
}

impl RoundRow {
    /// Returns when the last node of the team had all payloads; `None` if some nodes lack them.
    pub fn exit(&self) -> Option<u64> {
        self.delivered.iter().copied().try_fold(0, |last, at| Some(last.max(at?)))
    }

    /// Returns the nanoseconds from handing in the payloads to their delivery at all nodes.
    pub fn latency(&self) -> Option<u64> {
        Some(self.exit()? - self.entered?)
    }

    /// Returns the hops of slots between nodes in real time, without results.
    ///
    /// Each hop is its start and end, each with the phase there.
    pub fn hops(&self) -> impl Iterator<Item = [(u32, Phase); 2]> {
        let between = self.nodes.windows(2).flat_map(|pair| {
            [Phase::Decrypt, Phase::Permute].map(|phase| [(pair[0], phase), (pair[1], phase)])
        });
        let ends = self.nodes.last().zip(self.nodes.first());
        between.chain(ends.map(|(last, first)| [(*last, Phase::Decrypt), (*first, Phase::Permute)]))
    }

    fn seat(&self, host: u32) -> Option<usize> {
        self.nodes.iter().position(|node| *node == host)
    }
}

/// Times of phases, by round, host and phase.
pub type Phases = BTreeMap<(u64, u32, Phase), PhaseTimes>;
/// Times by [`Mark`], in nanoseconds of the run.
pub type PhaseTimes = [Option<u64>; Mark::ALL.len()];

/// Returns when the last slots of a hop left and arrived, in nanoseconds of the run.
pub(super) fn hop_times(phases: &Phases, round: u64, [from, to]: [(u32, Phase); 2]) -> Option<(u64, u64)> {
    let left = phases.get(&(round, from.0, from.1))?[Mark::LastFinished as usize]?;
    Some((left, phases.get(&(round, to.0, to.1))?[Mark::LastReceived as usize]?))
}

#[derive(Debug, Default)]
pub struct Collector {
    pub rounds: BTreeMap<u64, RoundRow>,
    pub phases: Phases,
    /// Spans of work, in the order of their starts at each core.
    pub work: Vec<WorkSpan>,
    pub draws: u64,
    pub refused: u64,
    /// Pings around teams: when each was back, and the time it took, in nanoseconds.
    pub loops: Vec<(u64, u64)>,
    pub loops_lost: u64,
    /// Rounds that are ready for a batch, in the order in which they became ready.
    pub open: VecDeque<u64>,
    /// For each host and core, the index of its last span in `work`.
    last: BTreeMap<(u32, usize), usize>,
    /// Rounds that are ready for a batch, had one, or ended without one.
    pub ready: usize,
    /// Rounds that are over.
    pub ended: usize,
    /// Those of them that the scheduler reported as completed.
    pub completed: usize,
}

impl Collector {
    pub fn take(&mut self, record: Record<RoundEvent>) {
        let (at, host) = (record.at.as_nanos(), record.host);
        match record.event {
            RoundEvent::Work(span) => self.work(span),
            RoundEvent::Mark(round, phase, mark) => {
                self.phases.entry((round, host, phase)).or_default()[mark as usize] = Some(at);
            }
            RoundEvent::Made(team, plan) => {
                let (round, nodes) = (plan.round, plan.team.clone());
                let [delivered, failed] = [(); 2].map(|()| vec![None; nodes.len()]);
                let row = RoundRow { round, team, nodes, made: at, delivered, failed, ..RoundRow::default() };
                self.rounds.insert(round, row);
            }
            RoundEvent::Restarted => {}
            RoundEvent::Drawn => self.draws += 1,
            RoundEvent::Refused => self.refused += 1,
            RoundEvent::Looped(Some(took)) => self.loops.push((at, took.as_nanos() as u64)),
            RoundEvent::Looped(None) => self.loops_lost += 1,
            RoundEvent::Open(round) => {
                self.open.push_back(round);
                self.with(round, |row| row.opened = Some(at));
            }
            RoundEvent::Entered(round) => self.with(round, |row| row.entered = Some(at)),
            RoundEvent::Delivered(round, checked) => self.with(round, |row| {
                let first = *row.order.get_or_insert(checked.order);
                row.disagreements += u32::from(first != checked.order);
                row.wrong += checked.wrong;
                row.is_unmixed |= checked.is_unmixed;
                let Some(seat) = row.seat(host) else { return };
                row.contradictions += u32::from(row.failed[seat].is_some());
                row.contradictions += u32::from(row.delivered[seat].replace(at).is_some());
            }),
            RoundEvent::Failed(round, failure) => self.with(round, |row| match row.seat(host) {
                Some(seat) => {
                    row.contradictions += u32::from(row.delivered[seat].is_some());
                    row.failed[seat] = Some(at);
                }
                None => row.cause = Some(failure.cause),
            }),
            RoundEvent::Round(round, state) => self.state(round, state, at),
        }
    }

    /// Returns the nanoseconds from the arrival of payloads at evenly spaced times, from the first
    /// batch to the last, until their exit at all nodes.
    ///
    /// A payload enters with the next batch of any team. If that does not come out at all nodes, it
    /// enters again after the end of the round.
    pub fn service_times(&self, arrivals: u64) -> Vec<u64> {
        let mut batches: Vec<&RoundRow> =
            self.rounds.values().filter(|row| row.entered.is_some() && row.ended.is_some()).collect();
        batches.sort_by_key(|row| row.entered);
        let ends = batches.first().zip(batches.iter().rev().find(|row| row.exit().is_some()));
        let Some([from, to]) = ends.map(|(first, last)| [first, last].map(|row| row.entered.unwrap_or(0)))
        else {
            return Vec::new();
        };
        let exit = |arrival: u64| {
            let mut at = arrival;
            loop {
                let next = batches.partition_point(|row| row.entered < Some(at));
                let row = batches.get(next)?;
                match row.exit() {
                    Some(exit) => return Some(exit - arrival),
                    None => at = row.ended?.max(row.entered? + 1),
                }
            }
        };
        let arrival = |number: u64| from + (to - from) / arrivals * number;
        (0..arrivals).filter_map(|number| exit(arrival(number))).collect()
    }

    /// Returns the deliveries of rounds at the nodes of their teams; the detail of a row is the
    /// team.
    pub fn deliveries(&self) -> Deliveries {
        let mut deliveries = Deliveries::default();
        for row in self.rounds.values() {
            for (node, at) in row.nodes.iter().zip(&row.delivered) {
                let Some(at) = at else { continue };
                let nanos = row.entered.map_or(u64::MAX, |entered| at.saturating_sub(entered));
                let detail = row.team as u32;
                // A run that keeps its rows has fewer than 2^32 rounds.
                let item = row.round as u32;
                deliveries.add(DeliveryRow { item, nanos, node: *node, from: NOBODY, detail });
            }
        }
        deliveries
    }

    fn with(&mut self, round: u64, change: impl FnOnce(&mut RoundRow)) {
        if let Some(row) = self.rounds.get_mut(&round) {
            change(row);
        }
    }

    fn state(&mut self, round: u64, state: RoundState, at: u64) {
        let Some(row) = self.rounds.get_mut(&round) else { return };
        match state {
            RoundState::Queued => self.ready += 1,
            RoundState::Completed | RoundState::Failed => {
                self.ended += 1;
                self.completed += usize::from(state == RoundState::Completed);
                self.ready += usize::from(row.opened.is_none());
                row.ended = Some(at);
                if state == RoundState::Failed {
                    self.open.retain(|open| *open != round);
                }
            }
            _ => {}
        }
    }

    fn work(&mut self, span: WorkSpan) {
        let core = (span.host, usize::from(span.core));
        if let Some(last) = self.last.get(&core).map(|last| &mut self.work[*last])
            && (last.round, last.phase, last.to) == (span.round, span.phase, span.from)
        {
            last.to = span.to;
            return;
        }
        self.last.insert(core, self.work.len());
        self.work.push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_a_failed_round_wait_for_another_one() {
        let row = |entered, exit: Option<u64>, ended| RoundRow {
            entered: Some(entered),
            delivered: vec![Some(entered), exit],
            ended: Some(ended),
            ..RoundRow::default()
        };
        // The second round fails at 250, after the third one entered.
        let rows = [row(100, Some(130), 130), row(200, None, 250), row(220, Some(260), 260)];
        let rows = rows.into_iter().chain([row(300, Some(350), 350)]);
        let rounds = rows.enumerate().map(|(number, row)| (number as u64, row)).collect();
        let collector = Collector { rounds, ..Collector::default() };
        // Arrivals at 100, 120, ... 280.
        let expected = [30, 230, 210, 190, 170, 150, 40, 110, 90, 70];
        assert_eq!(collector.service_times(10), expected);
        assert_eq!(Collector::default().service_times(10), [0; 0]);
    }
}
