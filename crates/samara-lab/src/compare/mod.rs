//! Two results side by side: every metric that both have, whether the difference means something, and how soon things happened in both.

mod report;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};

use samara_report::words::{MISSING, signed_percent};
use serde_json::{Map, Value, json};

use crate::metric::{Better, better, rank};
use crate::report::{grouped, unit_of};
use crate::results::{Saved, SavedRun};
use crate::statistics::{Interval, Welch, interval, welch};
pub use threshold::{Crossed, Threshold};

/// Two results side by side.
#[derive(Clone, Debug)]
pub struct Compared {
    a: Saved,
    b: Saved,
    changes: Vec<Change>,
    /// What has to be known to read the rest.
    notes: Vec<String>,
}

/// A metric of runs that both have.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name of the run.
    pub run: String,
    /// The values of parameters that tell it from runs of the same name.
    pub place: String,
    /// The path of the metric.
    pub metric: String,
    /// The mean in the first result.
    pub a: Interval,
    /// The mean in the second one.
    pub b: Interval,
    /// Whether they differ by more than seeds do; `None` where either has one seed only.
    pub test: Option<Welch>,
    /// Whether all values are the same.
    pub is_same: bool,
    /// Which way it is better.
    pub better: Option<Better>,
    parameters: Map<String, Value>,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All values are equal.
    Same,
    /// It may be due to the seeds.
    Unclear,
    /// It is a change for the better.
    Better,
    /// It is a change for the worse.
    Worse,
    /// It is a change, and neither good nor bad.
    Changed,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unclear => "not significant",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Changed => "changed",
        }
    }
}

impl Change {
    /// The second mean less the first, as a share of the first; infinite if the first is 0 and the second is not.
    pub fn share(&self) -> f64 {
        let difference = self.b.mean - self.a.mean;
        if difference == 0.0 { 0.0 } else { difference / self.a.mean.abs() }
    }

    /// What it is. With one seed every difference counts.
    pub fn verdict(&self) -> Verdict {
        let difference = self.b.mean - self.a.mean;
        match (self.test, self.better) {
            _ if self.is_same => Verdict::Same,
            (Some(test), _) if !test.is_significant() => Verdict::Unclear,
            (_, Some(Better::Less)) if difference < 0.0 => Verdict::Better,
            (_, Some(Better::More)) if difference > 0.0 => Verdict::Better,
            (_, Some(_)) if difference != 0.0 => Verdict::Worse,
            _ => Verdict::Changed,
        }
    }

    /// The run with what tells it from others of its name.
    pub fn name(&self) -> String {
        if self.place.is_empty() { self.run.clone() } else { format!("{}, {}", self.run, self.place) }
    }

    /// The difference as people write it.
    fn written(&self) -> String {
        match self.share() {
            _ if self.is_same => String::new(),
            share if share.is_finite() => signed_percent(share),
            _ => "from 0".to_owned(),
        }
    }

    fn p(&self) -> String {
        match self.test {
            Some(_) if self.is_same => String::new(),
            Some(test) if test.p < 0.001 => "< 0.001".to_owned(),
            Some(test) => format!("{:.3}", test.p),
            None => MISSING.to_owned(),
        }
    }

    fn side(&self, side: Interval) -> String {
        let unit = unit_of(&self.metric);
        let mean = unit.written(side.mean);
        if side.half > 0.0 { format!("{mean} ± {}", unit.written(side.half)) } else { mean }
    }
}

/// Sets two results side by side.
///
/// # Errors
/// They have no run in common.
pub fn compare(a: Saved, b: Saved) -> Result<Compared, String> {
    // Runs that differ in their seeds only, in their order.
    let [left, right] = [&a, &b].map(|saved| grouped(&saved.runs, |run| run.key()));
    let mut changes = Vec::new();
    let varying = varying(&a);
    let (mut only_a, mut one_sided) = (BTreeSet::new(), BTreeSet::new());
    for (key, runs) in &left {
        let Some((_, others)) = right.iter().find(|(other, _)| other == key) else {
            only_a.insert(named(runs[0], &varying));
            continue;
        };
        changes.extend(of_runs(runs, others, &varying, &mut one_sided));
    }
    if changes.is_empty() {
        return Err(format!("{} and {} have no run in common", a.path.display(), b.path.display()));
    }
    let only_b: BTreeSet<String> = right
        .iter()
        .filter(|(key, _)| !left.iter().any(|(other, _)| other == key))
        .map(|(_, runs)| named(runs[0], &varying))
        .collect();
    let notes = notes((&a, &only_a), (&b, &only_b), &one_sided);
    Ok(Compared { a, b, changes, notes })
}

/// The parameters that differ between runs of the same name.
fn varying(saved: &Saved) -> BTreeSet<String> {
    let mut seen: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    let mut varying = BTreeSet::new();
    for run in &saved.runs {
        for (key, value) in &run.parameters {
            if *seen.entry((&run.name, key)).or_insert(value) != value {
                varying.insert(key.clone());
            }
        }
    }
    // What a key of the scenario says is not said a second time.
    if varying.iter().any(|key| key.contains('.')) {
        varying.retain(|key| key.contains('.'));
    }
    varying
}

fn place(run: &SavedRun, varying: &BTreeSet<String>) -> String {
    let of_run = run.parameters.iter().filter(|(key, _)| varying.contains(*key));
    let values = of_run.map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{key} {value}")
    });
    values.collect::<Vec<_>>().join(", ")
}

fn named(run: &SavedRun, varying: &BTreeSet<String>) -> String {
    let place = place(run, varying);
    if place.is_empty() { run.name.clone() } else { format!("{}, {place}", run.name) }
}

/// All metrics that both have, the most telling first.
fn of_runs(
    a: &[&SavedRun],
    b: &[&SavedRun],
    varying: &BTreeSet<String>,
    one_sided: &mut BTreeSet<String>,
) -> Vec<Change> {
    let of = |runs: &[&SavedRun]| {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (path, value) in runs.iter().flat_map(|run| &run.metrics) {
            values.entry(path.clone()).or_default().push(*value);
        }
        values
    };
    let (left, right) = (of(a), of(b));
    one_sided.extend(left.keys().filter(|path| !right.contains_key(*path)).cloned());
    one_sided.extend(right.keys().filter(|path| !left.contains_key(*path)).cloned());
    let mut changes: Vec<Change> = left
        .iter()
        .filter_map(|(path, a_values)| {
            let b_values = right.get(path)?;
            Some(Change {
                run: a[0].name.clone(),
                place: place(a[0], varying),
                metric: path.clone(),
                a: interval(a_values)?,
                b: interval(b_values)?,
                test: welch(a_values, b_values),
                is_same: a_values == b_values,
                better: better(path),
                parameters: a[0].parameters.clone(),
            })
        })
        .collect();
    changes.sort_by_key(|change| rank(&change.metric));
    changes
}

fn notes(
    (a, only_a): (&Saved, &BTreeSet<String>),
    (b, only_b): (&Saved, &BTreeSet<String>),
    one_sided: &BTreeSet<String>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if a.digest == b.digest {
        notes.push("the digests are equal: the runs are identical".to_owned());
    } else {
        notes.push("the digests differ".to_owned());
    }
    if a.scenario != b.scenario {
        notes.push(format!("different scenarios: {} and {}", a.scenario, b.scenario));
    }
    if a.version != b.version {
        notes.push(format!("different versions: {} and {}", a.version, b.version));
    }
    match (a.is_real, b.is_real) {
        (false, true) => notes.push("simulated nodes against real ones".to_owned()),
        (true, false) => notes.push("real nodes against simulated ones".to_owned()),
        _ => {}
    }
    for (saved, only) in [(a, only_a), (b, only_b)] {
        if !only.is_empty() {
            let names: Vec<&str> = only.iter().map(String::as_str).collect();
            notes.push(format!("only in {}: {}", saved.path.display(), names.join("; ")));
        }
    }
    if !one_sided.is_empty() {
        let names: Vec<&str> = one_sided.iter().map(String::as_str).collect();
        notes.push(format!("measured in one of them only: {}", names.join(", ")));
    }
    notes
}

impl Compared {
    /// All metrics that both have, run by run.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What has to be known to read the rest: other scenarios, other versions, what is in one of them only.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The names of both.
    fn names(&self) -> [String; 2] {
        [self.a.path.display().to_string(), self.b.path.display().to_string()]
    }

    /// The comparison as one JSON document.
    pub fn json(&self, crossed: &[Crossed]) -> Value {
        let side = |saved: &Saved| {
            json!({
                "path": saved.path.display().to_string(),
                "scenario": saved.scenario,
                "version": saved.version,
                "digest": saved.digest,
                "real": saved.is_real,
            })
        };
        let mean = |interval: Interval| json!({ "mean": interval.mean, "confidence_95": interval.half, "seeds": interval.count });
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|change| {
                json!({
                    "run": change.run,
                    "parameters": change.parameters,
                    "metric": change.metric,
                    "a": mean(change.a),
                    "b": mean(change.b),
                    "difference": change.b.mean - change.a.mean,
                    "change": change.share(),
                    "p": change.test.map(|test| test.p),
                    "significant": change.test.map(|test| test.is_significant()),
                    "better": match change.better {
                        Some(Better::Less) => Some("less"),
                        Some(Better::More) => Some("more"),
                        None => None,
                    },
                    "verdict": change.verdict().word(),
                })
            })
            .collect();
        let crossed: Vec<Value> = crossed
            .iter()
            .map(|crossed| {
                json!({ "run": crossed.run, "metric": crossed.metric, "threshold": crossed.threshold, "change": crossed.change })
            })
            .collect();
        json!({
            "a": side(&self.a),
            "b": side(&self.b),
            "identical": self.a.digest == self.b.digest,
            "notes": self.notes,
            "changes": changes,
            "crossed": crossed,
        })
    }
}
