//! The metrics of teams that mix batches. `docs/results.md` lists them.

use std::collections::{BTreeMap, BTreeSet};

use crate::application::WorkSpan;
use crate::section::Mix;
use samara_mix::{Half, Parameters};
use serde::Serialize;

use super::bound::{Loads, Window, busy};
use super::course::{FaultWindow, MixMeasured};
use super::measure::{Collector, RoundRow, hop_times};
use samara_lab::metric::groups::{self, Losses};
use samara_lab::metrics;
use samara_lab::results::{ByClass, ratio};
use samara_lab::statistics::Statistics;

metrics! {
    /// The figures of a run.
    pub struct MixMetrics of super::outcome::MixData {
        /// Nodes of the pool.
        pub pool: u32 = "nodes", Neither, [];
        /// Nodes of a team.
        pub team: u32 = "nodes", Neither, [];
        /// Teams at the same time.
        pub teams: u32 = "", Neither, [];
        /// Slots of a round.
        pub batch: u32 = "slots", Neither, [];
        /// Payload of a slot.
        pub slot_bytes: u64 = "bytes", Neither, [];
        /// How a batch is transferred: "unary" or "streamed".
        pub call: &'static str = "", Neither, [];
        /// Maximum number of rounds of a team that carry payloads at the same time.
        pub in_flight_max: u32 = "", Neither, [];
        /// The shape over which results reach all nodes.
        pub shape: &'static str = "", Neither, [];
        /// Rounds that the scheduler created.
        pub rounds: u64 = "rounds", Neither, [];
        /// Rounds whose payloads came out at all nodes of the team.
        pub completed: u64 = "rounds", More, [""];
        /// Rounds that the scheduler reported as failed.
        pub failed: u64 = "rounds", Less, [""];
        /// Failed rounds by the cause that the scheduler reports.
        pub failed_by_cause: BTreeMap<&'static str, u64> = "rounds", Neither, [];
        /// Failed rounds whose nodes had no fault during the round; a fault counts for 15 s after
        /// its end, the longest pause between two connection attempts.
        pub failed_unharmed: u64 = "rounds", Less, [];
        /// Rounds that did not start or whose end the scheduler did not report, plus pairs of a
        /// round and one of its nodes that reported no end and never had a fault.
        pub unresolved: u64 = "", Less, [];
        /// Payloads of delivered rounds that came out changed, twice or not at all.
        pub wrong: u64 = "payloads", Less, [];
        /// Deliveries in another order than at the other nodes of the team.
        pub disagreements: u64 = "deliveries", Less, [];
        /// Rounds that a node delivered twice, or delivered and reported as failed.
        pub contradictions: u64 = "rounds", Less, [];
        /// Rounds of two slots or more that came out in their original order.
        pub unmixed: u64 = "rounds", Less, [];
        /// Payloads that came out per second, over whole turns of the rounds in flight, without the
        /// first and the last fifth.
        pub slots_per_s: f64 = "1/s", More, [""];
        /// Time between two rounds: over whole turns of the rounds in flight, without the first and
        /// the last fifth.
        pub period_ms: f64 = "ms", Less, [""];
        /// The throughput relative to that of the first run of the series, with equal sweep values
        /// and seed. No value in runs with faults.
        pub gain: Option<f64> = "", More, [""];
        /// The gain by the formula `n + n L/c`, with `c` and `L` of the first run of the series, if
        /// that run is unary with one round in flight.
        pub gain_by_formula: Option<f64> = "", Neither, [];
        /// The gain as a share of the gain by formula.
        pub gain_over_formula: Option<f64> = "", Neither, [];
        /// `c`: the mean time of a pass of a batch at one node of the team in real time, on all its
        /// cores.
        pub compute_ms: f64 = "ms", Neither, [];
        /// `L`: the mean time from the end of the work on a batch at one node until all of it has
        /// reached the next one.
        pub transfer_ms: f64 = "ms", Neither, [];
        /// Time from the end of decryption at the first node of a team until all of the batch has
        /// reached the second one: the median of all rounds except the first.
        pub first_hop_ms: f64 = "ms", Less, [];
        /// The first hop by cause, with `mix.mechanisms`: the time saved when the causes are
        /// removed one after the other, in this order: `idle_restart_ms`, `window_ms`,
        /// `slow_start_ms`, `serialisation_ms`, `latency_ms`.
        pub first_hop_parts: Option<HopParts> = "ms", Neither, [];
        /// Time from the entry of the payloads to their exit at all nodes; every slot enters and
        /// leaves with its batch.
        pub batch_latency_ms: Option<Statistics> = "ms", Less, ["p50", "p99"];
        /// Time from the arrival of a payload until its exit at all nodes: the wait for the next
        /// batch of any team, the batch latency, and another batch if the round fails. Over 10,000
        /// payloads that arrive at evenly spaced times from the first batch to the last.
        pub service_ms: Option<Statistics> = "ms", Less, ["mean", "p99"];
        /// Time of pings around a team, from the first node over all others back to it, since the
        /// first payloads: the sum of the one-way latencies, and of waits behind slots on the
        /// same connections.
        pub loop_ms: Option<Statistics> = "ms", Less, ["p50"];
        /// Pings around a team that did not return before the next one.
        pub loops_lost: u64 = "", Less, [];
        /// The largest batch latency of rounds whose nodes had no fault.
        pub unharmed_latency_ms: f64 = "ms", Less, [];
        /// The throughput that the busiest processor or uplink allows, given the distribution of
        /// rounds over nodes; precomputation counts if it runs at the same time. For real nodes it
        /// counts all work of the process, as a share of its processor limit (`mix.processor`).
        pub upper_bound_slots_per_s: f64 = "1/s", Neither, [];
        /// The throughput as a share of the upper bound.
        pub share_of_bound: f64 = "share", More, [""];
        /// The resource of the upper bound: "processor" or "uplink"; "latency" if the throughput is
        /// below 85 % of the bound.
        pub limit: &'static str = "", Neither, [];
        /// The node whose processor or uplink determines the bound.
        pub slowest_node: u32 = "", Neither, [];
        /// Slots of the stock that were precomputed per second, in the steady state.
        pub precomputation_slots_per_s: Option<f64> = "1/s", More, [];
        /// The precomputation as a share of its bound by the busiest processor or uplink.
        pub precomputation_share_of_bound: Option<f64> = "share", More, [];
        /// Slots per second that the pool could precompute and mix in the long run, if processors
        /// did nothing else.
        pub sustained_bound_slots_per_s: f64 = "1/s", Neither, [];
        /// Share of the time in which cores of the pool worked.
        pub cpu_utilisation: f64 = "share", Neither, [];
        /// Share of the time in which the cores of the busiest node worked.
        pub cpu_utilisation_max: f64 = "share", Neither, [];
        /// Share of the time in which the cores of the least busy node worked.
        pub cpu_utilisation_min: f64 = "share", Neither, [];
        /// Share of the time from the first payloads to the last in which the busiest uplink was
        /// busy.
        pub uplink_utilisation_max: f64 = "share", Neither, [];
        /// The longest time in which no round of a team was completed.
        pub longest_gap_ms: f64 = "ms", Less, [""];
        /// The longest time in which no round of any team was completed.
        pub service_gap_ms: f64 = "ms", Less, [""];
        /// Teams that were drawn.
        pub draws: u64 = "", Neither, [];
        /// Batches or senders that nodes refused.
        pub refused: u64 = "", Neither, [];
        /// The largest number of bytes of slots that a node held at a time.
        pub held_bytes_max: u64 = "bytes", Neither, [];
        /// Frames of slots that were retransmitted because a link had broken.
        pub resent_frames: u64 = "frames", Less, [];
        /// Frames that an outbox refused.
        pub queue_drops: u64 = "copies", Less, [""];
        /// Frames that engines ignored, by cause.
        pub ignored: BTreeMap<&'static str, u64> = "", Neither, [];
        /// The time of work on one core: `generate` and `share` for a round and a part of its key,
        /// all others for a slot.
        pub cost_us: BTreeMap<&'static str, f64> = "µs", Neither, [];
    } with {
        pub losses: Losses,
    }
}

/// The first hop by cause, in milliseconds: the time saved by removing one cause after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HopParts {
    /// The congestion window had shrunk while the link was idle.
    pub idle_restart_ms: f64,
    /// The window of HTTP/2 was full.
    pub window_ms: f64,
    /// The congestion window started small.
    pub slow_start_ms: f64,
    /// The link needs time for each byte.
    pub serialisation_ms: f64,
    pub latency_ms: f64,
}

/// Number of payloads whose service time is measured.
const ARRIVALS: u64 = 10_000;
/// Minimum share of the bound at which the bound counts as the limit.
const REACHED: f64 = 0.85;

pub fn mix_metrics(measured: &MixMeasured) -> MixMetrics {
    let mix: &Mix = measured.point.scenario.part();
    let parameters: &Parameters = measured.point.scenario.part();
    let collector = &measured.collector;
    let rows = || collector.rounds.values();
    let failed: Vec<&RoundRow> = rows().filter(|row| row.ended.is_some() && row.cause.is_some()).collect();
    let mut failed_by_cause: BTreeMap<_, u64> = BTreeMap::new();
    for cause in failed.iter().filter_map(|row| row.cause) {
        *failed_by_cause.entry(cause.name()).or_default() += 1;
    }
    let window = Window::of(measured);
    let loads = Loads::of(measured, &window);
    let slots_per_s = window.rounds_per_s() * f64::from(mix.batch);
    let bound = loads.rounds_per_s * f64::from(mix.batch);
    let share = ratio(slots_per_s, bound);
    let utilisation = utilisation(measured, &window);
    let precomputation = precomputation(measured);
    let first_hop = first_hop_ms(collector);
    let loops = collector.loops.iter().filter(|(at, _)| *at >= measured.begun);
    let latency = |row: &RoundRow| row.latency().map(|nanos| nanos as f64 / 1e6);
    let latencies: Vec<f64> = rows().filter_map(latency).collect();
    let unharmed = rows().filter(|row| !is_harmed(row, &measured.harm)).filter_map(latency);
    let count = |value: fn(&RoundRow) -> u64| rows().map(value).sum::<u64>();
    let uplink = measured.traffic.iter().map(|stats| stats.uplink_busy_nanos as f64);
    MixMetrics {
        pool: measured.point.scenario.network.nodes,
        team: mix.team,
        teams: mix.teams,
        batch: mix.batch,
        slot_bytes: mix.group.slot_bytes() as u64,
        call: parameters.config.transfer.name(),
        in_flight_max: parameters.config.realtime_max as u32,
        shape: measured.config.result_shape().name(),
        rounds: collector.rounds.len() as u64,
        completed: count(|row| u64::from(row.ended.is_some() && row.cause.is_none())),
        failed: failed.len() as u64,
        failed_by_cause,
        failed_unharmed: failed.iter().filter(|row| !is_harmed(row, &measured.harm)).count() as u64,
        unresolved: unresolved(measured),
        wrong: count(|row| row.wrong.into()),
        disagreements: count(|row| row.disagreements.into()),
        contradictions: count(|row| row.contradictions.into()),
        unmixed: if mix.batch > 1 { count(|row| row.is_unmixed.into()) } else { 0 },
        slots_per_s,
        period_ms: ratio(1e3, window.rounds_per_s()),
        gain: None,
        gain_by_formula: None,
        gain_over_formula: None,
        compute_ms: compute_ms(measured, &window),
        transfer_ms: transfer_ms(measured, &window),
        first_hop_ms: first_hop,
        first_hop_parts: HopParts::of(first_hop, &measured.without_ms),
        batch_latency_ms: Statistics::of(&latencies),
        service_ms: Statistics::of(&millis(collector.service_times(ARRIVALS).into_iter())),
        loop_ms: Statistics::of(&millis(loops.map(|(_, took)| *took))),
        loops_lost: collector.loops_lost,
        unharmed_latency_ms: unharmed.fold(0.0, f64::max),
        upper_bound_slots_per_s: bound,
        share_of_bound: share,
        limit: if share < REACHED { "latency" } else { loads.limit },
        slowest_node: loads.slowest,
        precomputation_slots_per_s: precomputation.map(|(rate, _)| rate * f64::from(mix.batch)),
        precomputation_share_of_bound: precomputation.map(|(rate, bound)| ratio(rate, bound)),
        sustained_bound_slots_per_s: sustained(measured) * f64::from(mix.batch),
        cpu_utilisation: ratio(utilisation.iter().sum(), utilisation.len() as f64),
        cpu_utilisation_max: utilisation.iter().copied().fold(0.0, f64::max),
        cpu_utilisation_min: utilisation.iter().copied().fold(1.0, f64::min),
        uplink_utilisation_max: ratio(
            uplink.fold(0.0, f64::max),
            measured.over.saturating_sub(measured.begun) as f64,
        )
        .min(1.0),
        longest_gap_ms: (0..mix.teams as usize).map(|team| gap(measured, Some(team))).fold(0.0, f64::max),
        service_gap_ms: gap(measured, None),
        draws: collector.draws,
        refused: collector.refused,
        held_bytes_max: measured.held_bytes_max,
        resent_frames: measured.resent_frames,
        queue_drops: measured.queue_drops,
        ignored: measured.ignored.iter().copied().filter(|(_, count)| *count > 0).collect(),
        cost_us: measured.costs.named_us().collect(),
        losses: Losses::of(&measured.traffic),
    }
}

fn millis(nanos: impl Iterator<Item = u64>) -> Vec<f64> {
    nanos.map(|nanos| nanos as f64 / 1e6).collect()
}

fn unresolved(measured: &MixMeasured) -> u64 {
    let rounds = &measured.collector.rounds;
    let missing = measured.config.rounds.unwrap_or(0).saturating_sub(rounds.len() as u64);
    let is_excused = |host: u32| measured.harm.iter().any(|harm| harm.host == host);
    let is_silent = |row: &RoundRow, seat: usize| {
        row.delivered[seat].is_none() && row.failed[seat].is_none() && !is_excused(row.nodes[seat])
    };
    let silent = |row: &RoundRow| (0..row.nodes.len()).filter(|seat| is_silent(row, *seat)).count() as u64;
    missing + rounds.values().map(|row| u64::from(row.ended.is_none()) + silent(row)).sum::<u64>()
}

/// Returns true if a fault hit a node of the round during the round.
pub(crate) fn is_harmed(row: &RoundRow, harm: &[FaultWindow]) -> bool {
    let ended = row.ended.unwrap_or(u64::MAX);
    harm.iter().any(|harm| row.nodes.contains(&harm.host) && row.made < harm.until && ended > harm.from)
}

/// Returns the time that cores worked on some rounds, in nanoseconds.
fn work_nanos<'a>(
    measured: &'a MixMeasured,
    rounds: impl Iterator<Item = &'a RoundRow>,
    is_counted: impl Fn(&WorkSpan) -> bool,
) -> f64 {
    let rounds: BTreeSet<u64> = rounds.map(|row| row.round).collect();
    let work = measured.collector.work.iter().filter(|span| rounds.contains(&span.round) && is_counted(span));
    work.map(|span| span.to - span.from).sum::<u64>() as f64
}

/// Returns the mean real-time work of a node on one pass, on all its cores, in milliseconds.
fn compute_ms(measured: &MixMeasured, window: &Window) -> f64 {
    let is_realtime = |span: &WorkSpan| span.phase.is_some_and(|phase| phase.half() == Half::RealTime);
    let done = measured.collector.rounds.values().filter(|row| window.has(row));
    let passes: usize = done.clone().map(|row| 2 * row.nodes.len()).sum();
    ratio(work_nanos(measured, done, is_realtime) / 1e6, passes as f64 * measured.config.jobs_max as f64)
}

/// Returns the mean time from the end of the work on slots at one node until all have reached the
/// next one, in milliseconds.
///
/// The mean is over all hops of rounds that completed in a window.
fn transfer_ms(measured: &MixMeasured, window: &Window) -> f64 {
    let Collector { rounds, phases, .. } = &measured.collector;
    let done = rounds.values().filter(|row| window.has(row));
    let hops = done.flat_map(|row| row.hops().filter_map(|hop| hop_times(phases, row.round, hop)));
    let all: Vec<f64> = hops.map(|(left, came)| came.saturating_sub(left) as f64 / 1e6).collect();
    ratio(all.iter().sum(), all.len() as f64)
}

/// Returns the median first hop of all rounds except the first, in milliseconds.
pub(super) fn first_hop_ms(collector: &Collector) -> f64 {
    let first = |row: &RoundRow| hop_times(&collector.phases, row.round, row.hops().next()?);
    let hops = collector.rounds.values().skip(1).filter_map(first);
    let mut all: Vec<f64> = hops.map(|(left, came)| came.saturating_sub(left) as f64 / 1e6).collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => 0.0,
        len if len % 2 == 1 => all[middle],
        _ => all[middle - 1].midpoint(all[middle]),
    }
}

impl HopParts {
    fn of(whole: f64, without: &[f64]) -> Option<Self> {
        let [no_idle_restart, no_window, no_slow_start, latency_ms] = without.try_into().ok()?;
        Some(Self {
            idle_restart_ms: whole - no_idle_restart,
            window_ms: no_idle_restart - no_window,
            slow_start_ms: no_window - no_slow_start,
            serialisation_ms: no_slow_start - latency_ms,
            latency_ms,
        })
    }
}

/// Returns, for each node, the share of a window in which its cores worked.
fn utilisation(measured: &MixMeasured, window: &Window) -> Vec<f64> {
    let length = (window.to - window.from) as f64;
    let nodes = measured.point.scenario.network.nodes as usize;
    busy(measured, window).into_iter().take(nodes).map(|nanos| ratio(nanos, length)).collect()
}

/// Computes the metrics that come from single nodes for each class of nodes.
pub(super) fn by_class(measured: &MixMeasured) -> ByClass {
    let busy = || (0..).zip(utilisation(measured, &Window::of(measured)));
    let took = measured.over.saturating_sub(measured.begun);
    let uplinks = (0..).zip(&measured.traffic).map(|(node, stats)| (node, groups::busy(stats, took)));
    ByClass::of(&measured.point, &measured.hosts)
        .mean("cpu_utilisation", busy())
        .max("cpu_utilisation_max", busy())
        .max("uplink_utilisation_max", uplinks)
}

/// Returns the rounds per second precomputed before the first payloads, and the bound of the
/// busiest node; `None` without a stock.
fn precomputation(measured: &MixMeasured) -> Option<(f64, f64)> {
    let begun = measured.begun;
    let opened = measured.collector.rounds.values().filter(|row| row.opened.is_some_and(|at| at <= begun));
    let mut stocked: Vec<&RoundRow> = opened.collect();
    stocked.sort_by_key(|row| row.opened);
    let window = Window::over(stocked.iter().filter_map(|row| row.opened), measured.config.precomputing_max)?;
    let loads = Loads::of_half(measured, &stocked, Half::Precomputation);
    Some((window.rounds_per_s(), loads.rounds_per_s))
}

/// Returns the rounds per second that processors can both precompute and mix, with the load spread
/// evenly over the pool.
fn sustained(measured: &MixMeasured) -> f64 {
    let done = measured.collector.rounds.values().filter(|row| row.exit().is_some());
    let cores = measured.config.jobs_max as f64 * f64::from(measured.point.scenario.network.nodes);
    ratio(done.clone().count() as f64 * cores * 1e9, work_nanos(measured, done, |_| true))
}

/// Returns the longest time between two completed rounds of one team or any, in milliseconds.
fn gap(measured: &MixMeasured, team: Option<usize>) -> f64 {
    let of_team = measured.collector.rounds.values().filter(|row| team.is_none_or(|team| row.team == team));
    let mut exits: Vec<u64> = of_team.filter_map(RoundRow::exit).collect();
    exits.sort_unstable();
    exits.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as f64 / 1e6
}

impl MixMetrics {
    /// Returns the number of events that must never happen, even if nodes fail.
    pub fn faults(&self) -> u64 {
        self.wrong + self.disagreements + self.contradictions + self.unmixed
    }
}
