//! Converts the events of real nodes to the measurements of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samara_apps::mix::{Checked, RoundEvent, WorkSpan};
use samara_engine::Time;
use samara_lab::mix::measure::Collector;
use samara_mix::{Cause, Failure, Mark, Parameters, Phase, Plan, RoundState, Transfer};
use samara_node::model::{MixEvent, MixEvents, MixWhat};
use samara_sim::Record;
use samara_spec::Scenario;
use samara_spec::mix::Mix;

use super::sender::RoundOutcome;
use crate::TestbedError;
use crate::client::Client;
use crate::process::NodeProcess;

pub(super) struct Happened {
    pub(super) collector: Collector,
    /// The first event, in nanoseconds since 1970.
    pub(super) start: u64,
    /// The end of the last round, counted from the first event.
    pub(super) over: u64,
    pub(super) ignored: Vec<(&'static str, u64)>,
    pub(super) resent_frames: u64,
    pub(super) doubts: Vec<String>,
}

/// Collects the events of all processes. `before` has the events of processes that were killed
/// since.
pub(super) fn collect(
    processes: &mut [NodeProcess],
    before: Vec<(u32, Vec<MixEvent>)>,
    scenario: &Scenario,
    went: &BTreeMap<u64, RoundOutcome>,
    begun: u64,
) -> Result<Happened, TestbedError> {
    let (mut all, mut doubts) = (Vec::new(), Vec::new());
    for (host, events) in before {
        all.extend(events.into_iter().map(|event| (event.at_unix_ns, host, event.what)));
    }
    for (host, process) in (0..).zip(processes.iter_mut()) {
        // A killed process has no more events.
        if process.check("collection").is_err() {
            continue;
        }
        let (events, forgotten) = events_of(process)?;
        if forgotten > 0 {
            doubts.push(format!("process {host} no longer has {forgotten} of its events"));
        }
        all.extend(events.into_iter().map(|event| (event.at_unix_ns, host, event.what)));
    }
    // A stable sort keeps the events of a host in order.
    all.sort_by_key(|(at, ..)| *at);
    let start = all.first().map_or(begun, |(at, ..)| *at);
    let mut collector = Collector::default();
    for (at, host, what) in all {
        let at = Time::from_nanos(at.saturating_sub(start));
        if let Some(event) = measured(what, (at, host), scenario, went) {
            collector.take(Record { at, host, event });
        }
    }
    let metrics: Vec<_> =
        processes.iter_mut().filter_map(|process| process.ask("collection", Client::metrics).ok()).collect();
    let sum =
        |name: &str, label: &str| metrics.iter().map(|metrics| metrics.sum(name, label)).sum::<f64>() as u64;
    let ignored = samara_mix::Ignored::ALL
        .into_iter()
        .map(|cause| (cause.name(), sum("samara_mix_ignored_total", &format!("cause=\"{}\"", cause.name()))));
    let over = collector.rounds.values().filter_map(|row| row.ended).max().unwrap_or(0);
    Ok(Happened {
        start,
        over,
        ignored: ignored.collect(),
        resent_frames: sum("samara_mix_resent_frames_total", ""),
        collector,
        doubts,
    })
}

/// Returns the events of a host, and the number of events that it has forgotten.
pub(super) fn events_of(process: &mut NodeProcess) -> Result<(Vec<MixEvent>, u64), TestbedError> {
    process.record("/v1/mix/events", |MixEvents { first, next, events }| (first, next, events))
}

/// Converts an event of a host to one of the measurements, or to `None` if they do not need it.
fn measured(
    what: MixWhat,
    (at, host): (Time, u32),
    scenario: &Scenario,
    went: &BTreeMap<u64, RoundOutcome>,
) -> Option<RoundEvent> {
    Some(match what {
        MixWhat::Open { round } => RoundEvent::Open(round),
        MixWhat::Entered { round, .. } => RoundEvent::Entered(round),
        MixWhat::Delivered { round, void, unreadable, digest, .. } => {
            let seen = went.get(&round).filter(|went| went.delivered);
            let order = u64::from_str_radix(&digest, 16).unwrap_or(0);
            let wrong = void + unreadable + seen.map_or(0, |went| went.wrong);
            let is_unmixed = seen.is_some_and(|went| went.is_unmixed);
            RoundEvent::Delivered(round, Checked { wrong, order, is_unmixed })
        }
        MixWhat::Failed { round, cause, culprit } => {
            let cause = Cause::from_name(&cause).unwrap_or(Cause::Unknown);
            RoundEvent::Failed(round, Failure { cause, culprit })
        }
        MixWhat::Mark { round, phase, mark } => {
            RoundEvent::Mark(round, Phase::from_name(&phase)?, Mark::from_name(&mark)?)
        }
        // Events do not include the time of the work within a phase, so the work is shown at its
        // end.
        MixWhat::Worked { round, phase, cpu_ns } => {
            let phase = phase.and_then(|phase| Phase::from_name(&phase));
            let to = at.as_nanos();
            RoundEvent::Work(WorkSpan { host, core: 0, round, phase, from: to.saturating_sub(cpu_ns), to })
        }
        MixWhat::Made { round, team, nodes } => {
            RoundEvent::Made(team, Arc::new(plan(round, nodes, scenario)))
        }
        MixWhat::Round { round, state } => RoundEvent::Round(round, RoundState::from_name(&state)?),
        MixWhat::Drawn { .. } => RoundEvent::Drawn,
        MixWhat::Refused { .. } => RoundEvent::Refused,
        MixWhat::Looped { took_ns } => RoundEvent::Looped(took_ns.map(Duration::from_nanos)),
        MixWhat::State { .. } | MixWhat::Unknown => return None,
    })
}

fn plan(round: u64, team: Vec<u32>, scenario: &Scenario) -> Plan {
    let parameters: &Parameters = scenario.part();
    Plan {
        round,
        team,
        incarnations: Vec::new(),
        batch: scenario.part::<Mix>().batch,
        precomputation_slots: parameters.precomputation_slots,
        realtime_slots: parameters.realtime_slots,
        transfer: Transfer::Streamed,
        shape: samara_engine::Shape::Direct,
    }
}
