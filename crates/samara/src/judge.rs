//! Expectations, held against results.

use samara_lab::results::{Document, RunDocument};
use samara_lab::scenario::{Expectations, Outcome};
use serde_json::{Map, Number, Value};

/// How an expectation fared at a point of the sweep.
pub(crate) struct Verdict {
    /// The point, for people to read; empty without a sweep.
    point: String,
    pub(crate) outcome: Outcome,
}

/// How the expectations of a scenario fared at each point of its sweep. Figures of runs that were repeated with several
/// seeds are averaged first: a single seed may be lucky.
pub(crate) fn verdicts(expect: &Expectations, document: &Document) -> Vec<Verdict> {
    let mut all = Vec::new();
    for runs in document.runs.chunk_by(|a, b| a.point == b.point) {
        let mut metrics: Vec<(&str, Value)> = Vec::new();
        for run in runs {
            if !metrics.iter().any(|(name, _)| *name == run.name) {
                metrics.push((&run.name, averaged(runs, &run.name)));
            }
        }
        let borrowed: Vec<(&str, &Value)> = metrics.iter().map(|(name, value)| (*name, value)).collect();
        let coordinates = runs[0].point.iter().map(|(key, value)| format!("{key} = {}", plain(value)));
        let point = coordinates.collect::<Vec<_>>().join(", ");
        let outcomes = expect.evaluate(&borrowed);
        all.extend(outcomes.into_iter().map(|outcome| Verdict { point: point.clone(), outcome }));
    }
    all
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The metrics of a run, averaged over its repetitions.
fn averaged(runs: &[RunDocument], name: &str) -> Value {
    let repetitions = runs.iter().filter(|run| run.name == name);
    let values: Vec<Value> =
        repetitions.map(|run| serde_json::to_value(&run.metrics).unwrap_or_default()).collect();
    mean(&values.iter().collect::<Vec<_>>())
}

/// The mean of equally shaped values, number by number. What is not a number in all of them is not one in the mean.
fn mean(values: &[&Value]) -> Value {
    match values.first() {
        Some(Value::Object(first)) => {
            let of =
                |key: &String| mean(&values.iter().map(|value| &value[key.as_str()]).collect::<Vec<_>>());
            Value::Object(first.keys().map(|key| (key.clone(), of(key))).collect::<Map<_, _>>())
        }
        Some(Value::Number(_)) => {
            let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
            let mean = numbers.map(|numbers| numbers.iter().sum::<f64>() / numbers.len() as f64);
            mean.and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        Some(other) => (*other).clone(),
        None => Value::Null,
    }
}

/// Lines for people: one for each expectation that holds everywhere, and one for each place where one was missed.
pub(crate) fn lines(verdicts: &[Verdict]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for verdict in verdicts {
        if !verdict.outcome.holds {
            lines.push(missed(verdict));
            continue;
        }
        let expectation = verdict.outcome.expectation.as_str();
        let same: Vec<&Verdict> =
            verdicts.iter().filter(|other| other.outcome.expectation == expectation).collect();
        if told.contains(&expectation) {
            continue;
        }
        told.push(expectation);
        let holding = same.iter().filter(|other| other.outcome.holds).count();
        let places = if same.len() == 1 {
            format!("{} ({})", name(verdict), found(&verdict.outcome))
        } else {
            format!("in {holding} of {} cases", same.len())
        };
        lines.push(format!("✓ {expectation}: {places}"));
    }
    lines
}

fn missed(verdict: &Verdict) -> String {
    format!("✗ {}: {} ({})", verdict.outcome.expectation, name(verdict), found(&verdict.outcome))
}

fn name(verdict: &Verdict) -> String {
    match verdict.point.is_empty() {
        true => verdict.outcome.run.clone(),
        false => format!("{} at {}", verdict.outcome.run, verdict.point),
    }
}

fn found(outcome: &Outcome) -> String {
    let number = |value: f64| match value == value.trunc() {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    };
    match (&outcome.problem, outcome.found, outcome.target) {
        (Some(problem), ..) => problem.clone(),
        (None, Some(found), Some(target)) => format!("{} against {}", number(found), number(target)),
        (None, Some(found), None) => number(found),
        (None, None, _) => "there is no such figure".to_owned(),
    }
}
