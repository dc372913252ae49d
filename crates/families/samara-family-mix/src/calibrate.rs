//! Measures the times of work on this machine: a simulated team runs each job when it begins.

use std::sync::Arc;

use crate::application::WorkKind;
use crate::section::{self, CostsKind, Mix, PhaseCosts, wants_costs};
use samara_document::{Inputs, ScenarioError};
use samara_engine::units::Span;
use samara_mix::Group;
use samara_scenario::{Loaded, Overrides, RunSpec, load_source};

use super::course::Teams;
use samara_lab::run::{Course, RunError, RunOptions};

/// The last node and one other; a second of work or less in the smaller group.
const TEAM: &str = r#"
scenario = { name = "costs", title = "Time of each kind of work" }
network.nodes = 2
transport.kind = "grpc"
protocol.realtime_slots = 4
mix = { team = 2, rounds = 2, batch = 64 }
"#;
/// The quantile of the times of equal work. Other programs can make them longer, nothing can make
/// them shorter.
const LOW: f64 = 0.2;

/// Measures the times of work on this machine if the scenario requests it.
///
/// It writes them into the scenario as if the user had stated them, so that a second run has the
/// same times. Returns the measured times; `None` if the scenario does not request any.
///
/// # Errors
/// Returns an error if single runs request them, or runs of several groups: the scenario could not
/// state which times belong to which runs.
pub(crate) fn measure(loaded: &mut Loaded) -> Result<Option<String>, ScenarioError> {
    if !wants_costs(loaded) {
        return Ok(None);
    }
    let refuse = |message: &str| Err(ScenarioError::one(&loaded.source, format!("mix.costs: {message}")));
    let groups =
        || loaded.points.iter().filter_map(|point| point.scenario.find::<Mix>()).map(|mix| mix.group);
    let is_one = groups().all(|group| Some(group) == groups().next());
    let (Some(mix), Some(group), true) = (loaded.scenario.find::<Mix>(), groups().next(), is_one) else {
        return refuse("\"measured\" requires that all runs have the same group");
    };
    let has_own = |run: &RunSpec| run.set.contains_key("mix.costs");
    if mix.costs != CostsKind::Measured || loaded.scenario.runs.iter().any(has_own) {
        return refuse("\"measured\" applies to the whole scenario and cannot be set in a run");
    }
    let costs = times_of(group)?;
    let points = loaded.points.iter_mut().map(|point| Arc::make_mut(&mut point.scenario));
    for mix in points.chain([&mut loaded.scenario]).filter_map(|scenario| scenario.find_mut::<Mix>()) {
        mix.costs = CostsKind::Documented;
        costs.iter().for_each(|(kind, span)| _ = mix.cpu.entry(*kind).or_insert(*span));
    }
    loaded.write()?;
    let named: Vec<String> = costs.iter().map(|(kind, span)| format!("{} {span}", kind.name())).collect();
    Ok(Some(named.join(", ")))
}

/// Measures the times of work on one core of this machine, for at most some seconds.
///
/// On a busy machine the times are too long.
fn times_of(group: Group) -> Result<PhaseCosts, ScenarioError> {
    let mut loaded = load_source("mix.costs", TEAM, Inputs::default(), &Overrides::default())?;
    let point = &mut loaded.points[0];
    if let Some(mix) = Arc::make_mut(&mut point.scenario).find_mut::<Mix>() {
        // The model has the sizes of the smaller group.
        mix.group = if group == Group::Model { Group::Modp2048 } else { group };
    }
    let options = RunOptions::new(1, &loaded.inputs);
    let failed = |error: RunError| ScenarioError::one("mix.costs", error.to_string());
    let mut shared = section::shared(point, false);
    shared.took = Some(Default::default());
    let shared = Arc::new(shared);
    let planned = Course::planned(point, options, |plan| Ok(Teams::new(plan, Arc::clone(&shared))));
    planned.and_then(|course| course.run(None, &mut |_, _| {})).map_err(failed)?;
    let span = |(kind, mut took): (WorkKind, Vec<f64>)| {
        took.sort_by(f64::total_cmp);
        let low = took[(took.len() as f64 * LOW) as usize];
        // Whole nanoseconds with three digits; further digits are noise.
        let digit = 10_f64.powf((low.log10().floor() - 2.0).max(0.0));
        (kind, Span::from_nanos(((low / digit).round() * digit) as u64))
    };
    Ok(shared.took().into_iter().map(span).collect())
}
