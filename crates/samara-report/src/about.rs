//! What every report says, whatever was run.

use samara_lab::results::{Outcome, Summary};
use samara_lab::scenario::{ExpectationResult, Loaded};
use samara_lab::statistics::student::interval;

/// What every report says, whatever was run.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) scenario: String,
    pub(crate) toml: String,
    /// The runs that were chosen, if not all of them were.
    pub(crate) only: Vec<String>,
    pub(crate) summary: Summary,
    pub(crate) checked: Vec<ExpectationResult>,
    /// Whether something did not reach every node in a run, or came out wrong.
    pub(crate) is_incomplete: bool,
}

impl About {
    pub(crate) fn new(
        loaded: &Loaded,
        summary: &Summary,
        results: &[Outcome],
        checked: &[ExpectationResult],
    ) -> Self {
        let all = &loaded.scenario.runs;
        let done = |name: &String| results.iter().any(|result| result.run.name == *name);
        let chosen = all.iter().map(|run| &run.name).filter(|name| done(name));
        let only = if chosen.clone().count() < all.len() { chosen.cloned().collect() } else { Vec::new() };
        Self {
            only,
            title: loaded.scenario.scenario.title.clone(),
            description: loaded.scenario.scenario.description.clone(),
            scenario: loaded.source.clone(),
            toml: loaded.text.clone(),
            summary: summary.clone(),
            checked: checked.to_vec(),
            is_incomplete: results.iter().any(|outcome| outcome.is_incomplete()),
        }
    }
}

/// The axes of a sweep: key and label.
pub(crate) fn axes(loaded: &Loaded) -> Vec<(String, String)> {
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    axes.map(|axis| {
        (axis.key.clone(), if axis.label.is_empty() { axis.key.clone() } else { axis.label.clone() })
    })
    .collect()
}

/// A run and the values of a sweep's axes.
pub(crate) type Place = (String, Vec<String>);

/// Results that differ in their seeds only, in the order of the first of each.
pub(crate) fn by_place<'a, R>(
    results: &'a [R],
    axes: &[(String, String)],
    run: impl Fn(&R) -> &samara_lab::results::Run,
) -> Vec<(Place, Vec<&'a R>)> {
    let mut groups: Vec<(Place, Vec<&R>)> = Vec::new();
    for result in results {
        let value = |key: &String| match run(result).parameters.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let place = (run(result).name.clone(), axes.iter().map(|(key, _)| value(key)).collect());
        match groups.iter_mut().find(|(other, _)| *other == place) {
            Some((_, group)) => group.push(result),
            None => groups.push((place, vec![result])),
        }
    }
    groups
}

/// The mean of the values of several seeds, and half the width of its 95 % confidence interval (0 of one value).
pub(crate) fn mean_and_confidence(values: &[f64]) -> (f64, f64) {
    interval(values).map_or((f64::NAN, 0.0), |interval| (interval.mean, interval.half))
}
