//! The tables of a run with a relay.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, StringArray, UInt64Array};

use crate::mix::measure::{PhaseTimes, RoundRow};
use crate::results::RelayResult;
use crate::results::tables::{Columns, Table, numbers, traffic};
use crate::run::RelayMeasured;

impl RelayResult {
    /// The tables of a run.
    pub(crate) fn tables<'a>(&'a self, measured: &'a RelayMeasured) -> Vec<Table<'a>> {
        vec![
            Table::new("rounds", self.rounds.len(), || rounds(&self.rounds)),
            Table::new("phases", self.phases.len(), || phases(self)),
            Table::new("work", self.work.len(), || work(self)),
            Table::new("traffic", measured.traffic.len(), || {
                let mut hosts = measured.hosts.clone();
                hosts.configs.truncate(measured.traffic.len());
                hosts.class.truncate(measured.traffic.len());
                traffic(&measured.traffic, &hosts, &measured.point.scenario)
            }),
        ]
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn times(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(Float64Array::from_iter(values.map(|at| at.map(ms))))
}

fn longs(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// A row for each round.
fn rounds(rows: &[RoundRow]) -> Columns {
    let team = |row: &RoundRow| row.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let outcome = |row: &RoundRow| match (row.ended, row.cause) {
        (None, _) => "unresolved",
        (Some(_), None) => "completed",
        (Some(_), Some(cause)) => cause.name(),
    };
    vec![
        ("round", longs(rows.iter().map(|row| row.round))),
        ("team", numbers(rows.iter().map(|row| row.team as u32))),
        ("nodes", Arc::new(StringArray::from_iter_values(rows.iter().map(team)))),
        ("made_ms", times(rows.iter().map(|row| Some(row.made)))),
        ("opened_ms", times(rows.iter().map(|row| row.opened))),
        ("entered_ms", times(rows.iter().map(|row| row.entered))),
        ("delivered_ms", times(rows.iter().map(RoundRow::exit))),
        ("ended_ms", times(rows.iter().map(|row| row.ended))),
        ("batch_latency_ms", times(rows.iter().map(RoundRow::latency))),
        ("outcome", Arc::new(StringArray::from_iter_values(rows.iter().map(outcome)))),
        ("wrong", numbers(rows.iter().map(|row| row.wrong))),
    ]
}

/// A row for each phase of a round at a node.
fn phases(result: &RelayResult) -> Columns {
    let rows = &result.phases;
    let time = |value: fn(&PhaseTimes) -> Option<u64>| times(rows.iter().map(|(_, times)| value(times)));
    let names = rows.iter().map(|((.., phase), _)| phase.name());
    vec![
        ("round", longs(rows.iter().map(|((round, ..), _)| *round))),
        ("node", numbers(rows.iter().map(|((_, node, _), _)| *node))),
        ("phase", Arc::new(StringArray::from_iter_values(names))),
        ("first_received_ms", time(|times| times.first_received)),
        ("last_received_ms", time(|times| times.last_received)),
        ("first_finished_ms", time(|times| times.first_finished)),
        ("last_finished_ms", time(|times| times.last_finished)),
    ]
}

/// A row for each time that a core worked on a phase of a round without a break.
fn work(result: &RelayResult) -> Columns {
    let rows = &result.work;
    let names = rows.iter().map(|span| span.phase.map_or("keys", |phase| phase.name()));
    vec![
        ("node", numbers(rows.iter().map(|span| span.host))),
        ("core", numbers(rows.iter().map(|span| span.core.into()))),
        ("round", longs(rows.iter().map(|span| span.round))),
        ("phase", Arc::new(StringArray::from_iter_values(names))),
        ("from_ms", times(rows.iter().map(|span| Some(span.from)))),
        ("to_ms", times(rows.iter().map(|span| Some(span.to)))),
    ]
}
