//! Collects rounds, phases and work from the events of the hosts of a mix.

use std::collections::BTreeMap;

use samara_apps::mix::{RoundEvent, WorkSpan};
use samara_mix::{Cause, Mark, Phase, RoundState};
use samara_sim::Record;

/// A round. Times are nanoseconds of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundRow {
    pub round: u64,
    pub team: usize,
    pub nodes: Vec<u32>,
    /// The scheduler made it.
    pub made: u64,
    /// It was precomputed, and could take a batch.
    pub opened: Option<u64>,
    /// Its payloads were handed in.
    pub entered: Option<u64>,
    /// By seat: all payloads had arrived.
    pub delivered: Vec<Option<u64>>,
    /// By seat: the node reported a failure.
    pub failed: Vec<Option<u64>>,
    /// It completed or failed at the scheduler.
    pub ended: Option<u64>,
    pub cause: Option<Cause>,
    /// Payloads that came out wrong, or not at all, of all nodes.
    pub wrong: u32,
    /// Nodes where payloads came in another order than at the first one that had them.
    pub disagreements: u32,
    /// Nodes that delivered it twice, or delivered it and reported a failure.
    pub contradictions: u32,
    /// Whether payloads came out in the order in which they went in.
    pub is_unmixed: bool,
    order: Option<u64>,
}

impl RoundRow {
    /// When the last node of the team had all payloads; `None` if some have not.
    pub fn exit(&self) -> Option<u64> {
        self.delivered.iter().copied().try_fold(0, |last, at| Some(last.max(at?)))
    }

    /// From payloads in to payloads out everywhere, in nanoseconds.
    pub fn latency(&self) -> Option<u64> {
        Some(self.exit()? - self.entered?)
    }

    /// The ways of slots from node to node in real time, but for results: where they leave and where
    /// they arrive, each with the phase there.
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

/// When things happened to phases of rounds: by round, host and phase.
pub type Phases = BTreeMap<(u64, u32, Phase), PhaseTimes>;
/// By [`Mark`], in nanoseconds of the run.
pub type PhaseTimes = [Option<u64>; Mark::ALL.len()];

/// When the last slots of a hop left, and when they arrived, in nanoseconds of the run.
pub(super) fn hop_times(phases: &Phases, round: u64, [from, to]: [(u32, Phase); 2]) -> Option<(u64, u64)> {
    let left = phases.get(&(round, from.0, from.1))?[Mark::LastFinished as usize]?;
    Some((left, phases.get(&(round, to.0, to.1))?[Mark::LastReceived as usize]?))
}

#[derive(Debug, Default)]
pub struct Collector {
    pub rounds: BTreeMap<u64, RoundRow>,
    pub phases: Phases,
    /// In the order in which they began at each core.
    pub work: Vec<WorkSpan>,
    pub draws: u64,
    pub refused: u64,
    /// By host and core: the last of `work`.
    last: BTreeMap<(u32, usize), usize>,
    /// Rounds that can take, or had, a batch, or ended without.
    pub ready: usize,
    /// Rounds that are over.
    pub ended: usize,
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
            RoundEvent::Drawn => self.draws += 1,
            RoundEvent::Refused => self.refused += 1,
            RoundEvent::Open(round) => self.with(round, |row| row.opened = Some(at)),
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
                self.ready += usize::from(row.opened.is_none());
                row.ended = Some(at);
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
