//! The retained data of a run with teams, and its tables.

use crate::application::WorkSpan;
use crate::section::Mix;
use samara_mix::Mark;
use samara_scenario::Point;

use super::course::{FaultWindow, MixMeasured};
use super::measure::{Phases, RoundRow};
use super::metrics::{MixMetrics, by_class, mix_metrics};
use super::torture;
use samara_lab::network::Hosts;
use samara_lab::results::columns::{Column, column};
use samara_lab::results::deliveries::DELIVERIES;
use samara_lab::results::tables::{Columns, Table, traffic};
use samara_lab::results::{Measured, Outcome, ratio};

/// The retained data of a run with teams. Times are in nanoseconds of the run.
#[derive(Clone, Debug)]
pub struct MixData {
    pub metrics: MixMetrics,
    pub rounds: Vec<RoundRow>,
    pub phases: Phases,
    pub work: Vec<WorkSpan>,
    pub harm: Vec<FaultWindow>,
    /// Time at which the sender began to hand in payloads.
    pub begun: u64,
    /// End of the last round.
    pub over: u64,
}

/// Returns the outcome with its gain over the first run of its series.
pub(super) fn related(outcome: &Outcome, others: &[&Outcome], _first: &str) -> Option<Outcome> {
    let is_of_series = |other: &&&Outcome| other.point.series == outcome.point.series;
    let base = others.iter().find(is_of_series)?.data::<MixData>()?;
    // With faults, the throughput depends more on the time and place of the fault than on the order
    // of rounds.
    if !base.harm.is_empty() {
        return None;
    }
    let mut related = outcome.data::<MixData>()?.clone();
    let (own, first) = (&mut related.metrics, &base.metrics);
    own.gain = (first.slots_per_s > 0.0).then(|| own.slots_per_s / first.slots_per_s);
    // A round passes n nodes twice, and as many links: n in decryption and n - 1 in permutation.
    // One more takes the result to the first node, which then begins the next round.
    let n = f64::from(first.team);
    let by_formula = n + n * ratio(first.transfer_ms, first.compute_ms);
    let is_one_after_another = first.in_flight_max == 1 && first.call == "unary";
    own.gain_by_formula = (is_one_after_another && first.compute_ms > 0.0).then_some(by_formula);
    own.gain_over_formula = own.gain.zip(own.gain_by_formula).map(|(gain, formula)| gain / formula);
    Some(outcome.with(related))
}

impl Measured for MixMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn broken(&self) -> Vec<samara_lab::torture::Broken> {
        torture::broken(self)
    }

    fn outcome(&self) -> Outcome {
        let data = MixData {
            metrics: mix_metrics(self),
            rounds: self.collector.rounds.values().cloned().collect(),
            phases: self.collector.phases.clone(),
            work: self.collector.work.clone(),
            harm: self.harm.clone(),
            begun: self.begun,
            over: self.over,
        };
        let batch = self.point.scenario.find::<Mix>().map_or(0, |mix| mix.batch);
        let (parameter, is_wrong) = (("batch", batch.into()), data.metrics.faults() > 0);
        Outcome::new(&self.point, self.digest, parameter, data, is_wrong)
            .by_class(by_class(self))
            .without(DELIVERIES, self.deliveries.absence("mix.rounds or mix.team"))
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let data: &MixData = outcome.own();
        let mut tables = vec![
            Table::new("rounds", data.rounds.len(), || rounds(&data.rounds)),
            Table::new("phases", data.phases.len(), || phases(data)),
            Table::new("work", data.work.len(), || work(data)),
            Table::new("traffic", self.traffic.len(), || {
                let mut hosts = self.hosts.clone();
                hosts.configs.truncate(self.traffic.len());
                hosts.class.truncate(self.traffic.len());
                traffic(&self.traffic, &hosts, &self.point.scenario)
            }),
        ];
        let slots = data.metrics.batch;
        tables.extend(self.deliveries.table(move |rows| {
            let own = vec![
                ("round", column(rows.iter().map(|row| u64::from(row.item)))),
                ("team", column(rows.iter().map(|row| row.detail))),
                ("slots", column(rows.iter().map(|_| slots))),
            ];
            [own, Vec::new()]
        }));
        tables
    }
}

fn times(values: impl Iterator<Item = Option<u64>>) -> Column {
    column(values.map(|at| at.map(|nanos| nanos as f64 / 1e6)))
}

fn rounds(rows: &[RoundRow]) -> Columns {
    let team = |row: &RoundRow| row.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let outcome = |row: &RoundRow| match (row.ended, row.cause) {
        (None, _) => "unresolved",
        (Some(_), None) => "completed",
        (Some(_), Some(cause)) => cause.name(),
    };
    vec![
        ("round", column(rows.iter().map(|row| row.round))),
        ("team", column(rows.iter().map(|row| row.team as u32))),
        ("nodes", column(rows.iter().map(team))),
        ("made_ms", times(rows.iter().map(|row| Some(row.made)))),
        ("opened_ms", times(rows.iter().map(|row| row.opened))),
        ("entered_ms", times(rows.iter().map(|row| row.entered))),
        ("delivered_ms", times(rows.iter().map(RoundRow::exit))),
        ("ended_ms", times(rows.iter().map(|row| row.ended))),
        ("batch_latency_ms", times(rows.iter().map(RoundRow::latency))),
        ("outcome", column(rows.iter().map(outcome))),
        ("wrong", column(rows.iter().map(|row| row.wrong))),
    ]
}

fn phases(result: &MixData) -> Columns {
    let rows = &result.phases;
    let time = |mark: Mark| times(rows.values().map(|times| times[mark as usize]));
    let names = rows.keys().map(|(.., phase)| phase.name());
    vec![
        ("round", column(rows.keys().map(|(round, ..)| *round))),
        ("node", column(rows.keys().map(|(_, node, _)| *node))),
        ("phase", column(names)),
        ("first_received_ms", time(Mark::FirstReceived)),
        ("last_received_ms", time(Mark::LastReceived)),
        ("first_finished_ms", time(Mark::FirstFinished)),
        ("last_finished_ms", time(Mark::LastFinished)),
    ]
}

fn work(result: &MixData) -> Columns {
    let rows = &result.work;
    let names = rows.iter().map(|span| span.phase.map_or("keys", |phase| phase.name()));
    vec![
        ("node", column(rows.iter().map(|span| span.host))),
        ("core", column(rows.iter().map(|span| u32::from(span.core)))),
        ("round", column(rows.iter().map(|span| span.round))),
        ("phase", column(names)),
        ("from_ms", times(rows.iter().map(|span| Some(span.from)))),
        ("to_ms", times(rows.iter().map(|span| Some(span.to)))),
    ]
}
