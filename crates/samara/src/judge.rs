//! Expectations, held against results.

use samara_lab::results::{Document, RunDocument};
use samara_lab::scenario::{Expectations, Outcome};
use serde_json::Value;

/// How the expectations of a scenario fared, for each point of its sweep and each seed.
pub(crate) fn outcomes(expect: &Expectations, document: &Document) -> Vec<(String, Outcome)> {
    // Runs of one point and seed are compared with each other.
    let mut groups: Vec<(Value, Vec<&RunDocument>)> = Vec::new();
    for run in &document.runs {
        let key = serde_json::json!([run.point, run.parameters.get("seed")]);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    let several = groups.len() > 1;
    let mut all = Vec::new();
    for (key, runs) in groups {
        let metrics: Vec<(&str, Value)> = runs
            .iter()
            .map(|run| (run.name.as_str(), serde_json::to_value(&run.metrics).unwrap_or_default()))
            .collect();
        let borrowed: Vec<(&str, &Value)> = metrics.iter().map(|(name, value)| (*name, value)).collect();
        let place = if several { format!(" at {key}") } else { String::new() };
        all.extend(expect.evaluate(&borrowed).into_iter().map(|outcome| (place.clone(), outcome)));
    }
    all
}

/// One line for people.
pub(crate) fn line((place, outcome): &(String, Outcome)) -> String {
    let sign = if outcome.holds { "✓" } else { "✗" };
    let found = match (&outcome.problem, outcome.found) {
        (Some(problem), _) => problem.clone(),
        (None, Some(found)) => format!("found {}", short(found)),
        (None, None) => "found nothing".to_owned(),
    };
    format!("{sign} {}{place}: {} ({found})", outcome.run, outcome.expectation)
}

fn short(value: f64) -> String {
    if value == value.trunc() { format!("{value:.0}") } else { format!("{value:.3}") }
}
