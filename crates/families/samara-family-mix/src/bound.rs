//! The upper bound of a mix: no processor and no uplink can be busy for more than the available
//! time.

use std::collections::BTreeSet;

use crate::application::WorkSpan;
use crate::section::Mix;
use samara_mix::{Half, Parameters, Phase, Transfer};

use super::course::{MixMeasured, ProcessorLook};
use super::measure::RoundRow;

/// Bytes of salt and sender for each slot on its way through decryption, and of a code for each
/// remaining node.
///
/// See `docs/protocols/mix.md`.
const CREDENTIAL_BYTES: u64 = 64;
const CODE_BYTES: u64 = 32;

/// The part of a run at full load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// Start, in nanoseconds of the run.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) rounds: usize,
}

impl Window {
    /// Returns the window of real time, of the turns of rounds that completed.
    ///
    /// A backlog from before a window can come out of it faster than the busiest node sends. Such a
    /// window begins earlier, by turns, and at last with the first batch.
    pub(crate) fn of(measured: &MixMeasured) -> Self {
        let mix: &Mix = measured.point.scenario.part();
        let parameters: &Parameters = measured.point.scenario.part();
        let together = parameters.config.realtime_max * mix.teams as usize;
        let rounds = measured.collector.rounds.values();
        let begun = rounds.clone().filter_map(|row| row.entered).min().unwrap_or(measured.begun);
        let ends = Ends::of(rounds.filter_map(RoundRow::exit), together);
        let none = Self { from: measured.begun, to: measured.over, rounds: 0 };
        ends.without_backlog(begun, |window| Loads::of(measured, window).rounds_per_s).unwrap_or(none)
    }

    /// Returns the window over the times at which rounds ended, of which `together` may end at
    /// once.
    pub(crate) fn over(ends: impl Iterator<Item = u64>, together: usize) -> Option<Self> {
        Ends::of(ends, together).window().map(|(window, _)| window)
    }

    pub(crate) fn has(&self, row: &RoundRow) -> bool {
        row.exit().is_some_and(|at| self.from < at && at <= self.to)
    }

    pub(crate) fn rounds_per_s(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.rounds as f64 * 1e9 / (self.to - self.from) as f64 }
    }
}

/// Multiple of the rate of the busiest node from which on a window is taken for a backlog: rounding and
/// what real nodes report move the rate by less.
const BACKLOG: f64 = 1.02;

/// The times at which rounds ended.
struct Ends {
    sorted: Vec<u64>,
    /// The number of rounds that may end at once: a turn.
    together: usize,
}

impl Ends {
    fn of(ends: impl Iterator<Item = u64>, together: usize) -> Self {
        let mut sorted: Vec<u64> = ends.collect();
        sorted.sort_unstable();
        Self { sorted, together: together.max(1) }
    }

    /// Returns a window whose rate is not above that of the busiest node. `begun`: when the first round
    /// began, in nanoseconds. `bound`: the rounds per second that the busiest node sends in a window.
    fn without_backlog(&self, begun: u64, bound: impl Fn(&Window) -> f64) -> Option<Window> {
        let (mut window, mut skipped) = self.window()?;
        while skipped > 0 && window.rounds_per_s() > BACKLOG * bound(&window) {
            let more = self.together.min(skipped);
            skipped -= more;
            window.rounds += more;
            window.from = skipped.checked_sub(1).map_or(begun, |last| self.sorted[last]);
        }
        Some(window)
    }

    /// Returns a window of whole turns, and the number of rounds before it. It skips the first fifth, in
    /// which congestion windows grow and the pipeline fills, and the last fifth, in which it runs
    /// dry. `None` if that leaves nothing.
    fn window(&self) -> Option<(Window, usize)> {
        let Self { sorted, together } = self;
        let fifth = sorted.len() / 5;
        let skipped = together * fifth.div_ceil(*together).max(1);
        let left = sorted.len().checked_sub(skipped)?;
        // Short runs keep all remaining turns.
        let turns = (left.saturating_sub(fifth) / together).max(usize::from(left >= *together));
        let rounds = turns * together;
        let (from, to) = (sorted[skipped - 1], sorted[skipped - 1 + rounds]);
        (to > from).then_some((Window { from, to, rounds }, skipped))
    }
}

/// The load of rounds on the busiest node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loads {
    pub(crate) rounds_per_s: f64,
    /// The limiting resource: "processor" or "uplink".
    pub(crate) limit: &'static str,
    pub(crate) slowest: u32,
}

impl Loads {
    /// Returns the loads of the rounds that completed in a window.
    ///
    /// Processor times are those of the whole window: rounds already under way at its start stand
    /// for those under way at its end.
    pub(crate) fn of(measured: &MixMeasured, window: &Window) -> Self {
        let rows: Vec<&RoundRow> = measured.collector.rounds.values().filter(|row| window.has(row)).collect();
        let work = &measured.collector.work;
        let precomputes = if work.is_empty() {
            // Real nodes do not report each piece of work.
            rows.iter().any(|row| row.opened.is_none_or(|at| at > measured.begun))
        } else {
            let overlaps = |span: &WorkSpan| span.from < window.to && span.to > window.from;
            work.iter().any(|span| half(span) == Half::Precomputation && overlaps(span))
        };
        let halves: &[Half] =
            if precomputes { &[Half::RealTime, Half::Precomputation] } else { &[Half::RealTime] };
        Self::over(measured, &rows, halves, &busy(measured, window))
    }

    pub(crate) fn of_half(measured: &MixMeasured, rows: &[&RoundRow], half: Half) -> Self {
        Self::over(measured, rows, &[half], &work(measured, rows, &[half]))
    }

    /// Returns the loads of some rounds. `processors` is the busy time of each node's cores, in
    /// nanoseconds.
    fn over(measured: &MixMeasured, rows: &[&RoundRow], halves: &[Half], processors: &[f64]) -> Self {
        let hosts = &measured.hosts.configs;
        let mut bytes = vec![0_u64; hosts.len()];
        for row in rows {
            for (seat, node) in row.nodes.iter().enumerate() {
                bytes[*node as usize] += halves.iter().map(|half| sent(measured, *half, seat)).sum::<u64>();
            }
        }
        let uplink =
            bytes.iter().zip(hosts).map(|(bytes, host)| *bytes as f64 * 8e9 / host.uplink_bps as f64);
        let all = processors.iter().map(|nanos| (*nanos, "processor")).enumerate();
        let all = all.chain(uplink.map(|nanos| (nanos, "uplink")).enumerate());
        let busiest = all.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let (slowest, (nanos, limit)) = busiest.unwrap_or((0, (0.0, "processor")));
        let rounds_per_s = if nanos > 0.0 { rows.len() as f64 * 1e9 / nanos } else { 0.0 };
        Self { rounds_per_s, limit, slowest: slowest as u32 }
    }
}

/// Returns the half of a round that work belongs to. Keys and secrets have no phase.
fn half(span: &WorkSpan) -> Half {
    span.phase.map_or(Half::Precomputation, Phase::half)
}

/// Returns the time that the cores of each node worked on some rounds, in nanoseconds.
fn work(measured: &MixMeasured, rows: &[&RoundRow], halves: &[Half]) -> Vec<f64> {
    let mut work = vec![0_u64; measured.hosts.configs.len()];
    let rounds: BTreeSet<u64> = rows.iter().map(|row| row.round).collect();
    for span in measured.collector.work.iter().filter(|span| rounds.contains(&span.round)) {
        if halves.contains(&half(span)) {
            work[span.host as usize] += span.to - span.from;
        }
    }
    work.into_iter().map(|nanos| nanos as f64 / measured.config.jobs_max as f64).collect()
}

/// Returns the busy time of each node's cores in a window, in nanoseconds.
///
/// A real process also works on other things than slots, and all of that delays slots.
pub(crate) fn busy(measured: &MixMeasured, window: &Window) -> Vec<f64> {
    if let Some(busy) = busy_processors(measured, window) {
        return busy;
    }
    let mut busy = vec![0_u64; measured.hosts.configs.len()];
    for span in &measured.collector.work {
        let (from, to) = (span.from.max(window.from), span.to.min(window.to));
        busy[span.host as usize] += to.saturating_sub(from);
    }
    busy.into_iter().map(|nanos| nanos as f64 / measured.config.jobs_max as f64).collect()
}

/// Returns the busy time of the available cores of each real node in a window; `None` for
/// simulations.
fn busy_processors(measured: &MixMeasured, window: &Window) -> Option<Vec<f64>> {
    let looks = &measured.processors;
    let mix = measured.point.scenario.find::<Mix>()?;
    let allowed = measured.config.jobs_max as f64 * mix.processor.fraction();
    let nodes = looks.first()?.nanos.len();
    let busy = |node: usize| (taken(looks, node, window.to) - taken(looks, node, window.from)) / allowed;
    Some((0..nodes).map(busy).collect())
}

/// Returns the processor time of a node's process at a time, in nanoseconds, by linear
/// interpolation.
fn taken(looks: &[ProcessorLook], node: usize, at: u64) -> f64 {
    let after = looks.partition_point(|look| look.at < at).clamp(1, looks.len().max(2) - 1);
    let (Some(a), Some(b)) = (looks.get(after - 1), looks.get(after)) else { return 0.0 };
    let [before, then] = [a, b].map(|look| look.nanos[node] as f64);
    before + (then - before) * (at.clamp(a.at, b.at) - a.at) as f64 / (b.at - a.at).max(1) as f64
}

fn sent(measured: &MixMeasured, half: Half, seat: usize) -> u64 {
    let config = &measured.config;
    let (team, slot) = (config.team, config.group.slot_bytes() as u64);
    let is_last = seat + 1 == team;
    let of_slot = match half {
        // Keys and ciphertexts pass twice together, then ciphertexts pass alone.
        Half::Precomputation if is_last => 2 * slot + slot,
        Half::Precomputation => 2 * slot + 2 * slot + slot,
        Half::RealTime if is_last => slot,
        Half::RealTime => slot + CREDENTIAL_BYTES + CODE_BYTES * (team - 1 - seat) as u64 + slot,
    };
    let results = if half == Half::RealTime { result_slots(measured, seat) * slot } else { 0 };
    u64::from(config.batch) * of_slot + results
}

fn result_slots(measured: &MixMeasured, seat: usize) -> u64 {
    let config = &measured.config;
    let (team, shape) = (config.team, config.result_shape());
    let each = match config.transfer {
        Transfer::Streamed => config.realtime_slots,
        Transfer::Unary => config.batch,
    };
    let pieces = (0..config.batch).step_by(each as usize);
    let passed = pieces.map(|first| {
        let piece = u64::from(first / config.realtime_slots);
        let children = shape.children(team, (team - 1) as u16, seat as u16, piece).len();
        u64::from(each.min(config.batch - first)) * children as u64
    });
    passed.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten rounds wait for small congestion windows and come out within 0.1 s, others every 0.1 s.
    #[test]
    fn rounds_that_waited_do_not_count_as_throughput() {
        const MS: u64 = 1_000_000;
        let waiting = (0..20).map(|round| 2_000 * MS + round * 5 * MS);
        let steady = (1..=5).map(|round| 2_100 * MS + round * 100 * MS);
        let ends = Ends::of(waiting.chain(steady), 5);
        let fast = ends.window().unwrap().0.rounds_per_s();
        assert!(fast > 20.0, "{fast}");
        let of_bound = |bound: f64| ends.without_backlog(0, |_| bound).unwrap();
        assert!(of_bound(20.0).rounds_per_s() <= 20.0 * BACKLOG, "{:?}", of_bound(20.0));
        assert_eq!(of_bound(20.0).from, 0, "with the time in which the rounds waited");
        assert_eq!(of_bound(1e3), ends.window().unwrap().0);
    }

    #[test]
    fn processor_time_is_interpolated_between_samples() {
        let look = |at, nanos| ProcessorLook { at, nanos: vec![nanos] };
        let looks = [look(100, 10), look(200, 30), look(400, 30), look(500, 80)];
        let found: Vec<f64> = [0, 100, 150, 200, 300, 450, 500, 900].map(|at| taken(&looks, 0, at)).to_vec();
        assert_eq!(found, [10.0, 10.0, 20.0, 30.0, 30.0, 55.0, 80.0, 80.0]);
        assert_eq!(taken(&looks[..1], 0, 100), 0.0, "one sample is not enough");
    }
}
