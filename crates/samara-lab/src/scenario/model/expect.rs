//! `[expect]`: what must hold of the results.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::units::UnitKind;

/// All expectations of a scenario, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectations(Vec<Expectation>);

/// Something that must hold of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The only run that it is about; all if `None`.
    pub run: Option<String>,
    /// The path of the metric in a run's metrics, with points: `time_to_custody_ms.p95`.
    pub metric: String,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub target: Target,
    key: String,
    text: String,
}

/// How a metric is compared with its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `within P % of`: by no more than this fraction of the target away from it.
    Within(f64),
}

/// What a metric is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A plain number.
    Number(f64),
    /// A quantity in the smallest unit of its kind (see [`UnitKind::parse`]).
    Quantity(UnitKind, f64),
    /// Another figure of the same results.
    Other {
        /// It counts so many times.
        factor: f64,
        /// Of which run; of the same if `None`.
        run: Option<String>,
        /// A metric, or, if `run` is `None`, possibly the name of a run whose same metric is meant.
        name: String,
    },
}

/// Why an expectation cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ExpectationSyntax {
    /// What is wrong.
    pub reason: String,
    /// Whether it is wrong in the key, not in the value.
    pub in_key: bool,
}

/// How an expectation fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// The expectation as written: `time_to_custody_ms.p95 < 4 s`.
    pub expectation: String,
    /// The metric's value, `None` if the results have none.
    pub found: Option<f64>,
    /// The value that it was compared with, in the metric's unit.
    pub target: Option<f64>,
    /// Whether it holds. What cannot be evaluated does not.
    pub holds: bool,
    /// Why it could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

const OPERATORS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

/// How the name of a metric states its unit: the end of a part of the path, the kind, and how many of that kind's smallest
/// units one is.
const METRIC_UNITS: [(&str, UnitKind, f64); 9] = [
    ("_ms", UnitKind::Span, 1e6),
    ("mb_per_s", UnitKind::Rate, 8e6),
    ("_s", UnitKind::Span, 1e9),
    ("_bytes", UnitKind::Size, 1.0),
    ("bytes_up_per_node", UnitKind::Size, 1.0),
    ("bytes_down_per_node", UnitKind::Size, 1.0),
    ("_share", UnitKind::Share, 1e12),
    ("_ratio", UnitKind::Share, 1e12),
    ("_utilisation", UnitKind::Share, 1e12),
];

/// The unit of a metric, by its name.
fn unit_of(metric: &str) -> Option<(UnitKind, f64)> {
    let part = |part: &str| METRIC_UNITS.iter().find(|(end, ..)| part.ends_with(end));
    let found = metric.split('.').find_map(part).map(|(_, kind, factor)| (*kind, *factor));
    found.or_else(|| metric.starts_with("share_of").then_some((UnitKind::Share, 1e12)))
}

impl Expectation {
    /// Reads an expectation.
    ///
    /// # Errors
    /// What is not of the form that [`Scenario::expect`](super::Scenario::expect) describes, or compares a metric with a
    /// quantity of another kind than its name states.
    pub fn parse(key: &str, text: &str) -> Result<Self, ExpectationSyntax> {
        let (run, metric) = match key.split_once(':') {
            Some((run, metric)) => (Some(run.trim().to_owned()), metric.trim()),
            None => (None, key.trim()),
        };
        let path =
            |path: &str| path.split('.').all(|part| !part.is_empty() && !part.contains(char::is_whitespace));
        if !path(metric) || run.as_deref() == Some("") {
            let reason = format!(
                "{key:?} is not a metric; write METRIC or RUN: METRIC, for example \"time_to_custody_ms.p95\""
            );
            return Err(ExpectationSyntax { reason, in_key: true });
        }
        let (comparison, rest) =
            comparison(text).map_err(|reason| ExpectationSyntax { reason, in_key: false })?;
        let target = target(metric, rest).map_err(|reason| ExpectationSyntax { reason, in_key: false })?;
        let (key, text) = (key.to_owned(), text.trim().to_owned());
        Ok(Self { run, metric: metric.to_owned(), comparison, target, key, text })
    }

    /// The key as written.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The runs that it names.
    pub fn named_runs(&self) -> impl Iterator<Item = &str> {
        let other = match &self.target {
            Target::Other { run, .. } => run.as_deref(),
            _ => None,
        };
        self.run.as_deref().into_iter().chain(other)
    }

    /// Compares a run's metrics, given those of all runs by name.
    pub fn evaluate(&self, run: &str, runs: &[(&str, &Value)]) -> Outcome {
        let found = metric(runs, run, &self.metric);
        let target = self.target_value(run, runs);
        let problem = found.as_ref().err().or(target.as_ref().err()).cloned();
        let holds = match (&found, &target) {
            (Ok(found), Ok(target)) => self.comparison.holds(*found, *target),
            _ => false,
        };
        let expectation = format!("{} {}", self.metric, self.text);
        Outcome { run: run.to_owned(), expectation, found: found.ok(), target: target.ok(), holds, problem }
    }

    /// The target in the unit of the metric.
    fn target_value(&self, run: &str, runs: &[(&str, &Value)]) -> Result<f64, String> {
        let (factor, other_run, name) = match &self.target {
            Target::Number(number) => return Ok(*number),
            Target::Quantity(_, value) => {
                return Ok(value / unit_of(&self.metric).map_or(1.0, |(_, factor)| factor));
            }
            Target::Other { factor, run, name } => (*factor, run.as_deref(), name.as_str()),
        };
        let is_run = other_run.is_none() && runs.iter().any(|(run, _)| *run == name);
        let (other_run, name) =
            if is_run { (name, self.metric.as_str()) } else { (other_run.unwrap_or(run), name) };
        let scale = |metric: &str| unit_of(metric).map_or(1.0, |(_, factor)| factor);
        let value = metric(runs, other_run, name)?;
        Ok(factor * value * scale(name) / scale(&self.metric))
    }
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.key, self.text)
    }
}

impl Comparison {
    fn holds(self, found: f64, target: f64) -> bool {
        match self {
            Self::Less => found < target,
            Self::AtMost => found <= target,
            Self::More => found > target,
            Self::AtLeast => found >= target,
            Self::Equal => found == target,
            Self::Within(fraction) => (found - target).abs() <= fraction * target.abs(),
        }
    }
}

/// A number in a run's metrics.
fn metric(runs: &[(&str, &Value)], run: &str, path: &str) -> Result<f64, String> {
    let Some((_, metrics)) = runs.iter().find(|(name, _)| *name == run) else {
        return Err(format!("there is no run {run:?} in the results"));
    };
    let mut value = *metrics;
    for part in path.split('.') {
        value = match value.get(part) {
            Some(value) => value,
            None => return Err(no_metric(value, run, path, part)),
        };
    }
    match value {
        Value::Bool(flag) => Ok(f64::from(u8::from(*flag))),
        _ => value
            .as_f64()
            .ok_or_else(|| format!("the metric {path:?} of run {run:?} is not a number: {value}")),
    }
}

fn no_metric(at: &Value, run: &str, path: &str, part: &str) -> String {
    let names: Vec<&str> =
        at.as_object().into_iter().flat_map(|object| object.keys().map(String::as_str)).collect();
    let meant = crate::scenario::suggest::closest(part, &names);
    let meant = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
    format!("run {run:?} has no metric {path:?}{meant}")
}

fn comparison(text: &str) -> Result<(Comparison, &str), String> {
    let trimmed = text.trim();
    if let Some(rest) = trimmed.strip_prefix("within ") {
        let (tolerance, rest) = rest
            .split_once(" of ")
            .ok_or_else(|| format!("{text:?} lacks \"of\": write \"within 10 % of 2283 ms\""))?;
        let share = UnitKind::Share.parse(tolerance).map_err(|error| error.to_string())?;
        return Ok((Comparison::Within(share as f64 / 1e12), rest.trim()));
    }
    let operator = OPERATORS
        .iter()
        .find_map(|(sign, comparison)| trimmed.strip_prefix(sign).map(|rest| (*comparison, rest.trim())));
    operator.ok_or_else(|| {
        format!("{text:?} does not begin with a comparison; write <, <=, >, >=, == or \"within 10 % of\", for example \"< 4 s\"")
    })
}

fn target(metric: &str, text: &str) -> Result<Target, String> {
    if text.is_empty() {
        return Err("there is nothing to compare with, write for example \"< 4 s\"".to_owned());
    }
    if let Some((factor, other)) = text.split_once('*') {
        let factor = factor.trim().parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
        let factor =
            factor.ok_or_else(|| format!("{text:?} does not begin with a positive number and \"*\""))?;
        return other_target(factor, other.trim());
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return other_target(1.0, text);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (unit_of(metric), number) {
        // Shares are often written as plain numbers: 0.999.
        (None | Some((UnitKind::Share, _)), Some(number)) => Ok(Target::Number(number)),
        (None, None) => {
            let share = UnitKind::Share.parse(text).map(|value| Target::Number(value as f64 / 1e12));
            share.map_err(|_| format!("{metric:?} has no unit, so that {text:?} must be a number"))
        }
        (Some((kind, _)), _) => {
            let value = kind.parse(text).map_err(|error| error.to_string())?;
            Ok(Target::Quantity(kind, value as f64))
        }
    }
}

fn other_target(factor: f64, text: &str) -> Result<Target, String> {
    let (run, name) = match text.split_once(':') {
        Some((run, name)) => (Some(run.trim().to_owned()), name.trim()),
        None => (None, text),
    };
    if name.is_empty() || name.contains(char::is_whitespace) || run.as_deref() == Some("") {
        return Err(format!("{text:?} is neither a quantity nor a metric or a run to compare with"));
    }
    Ok(Target::Other { factor, run, name: name.to_owned() })
}

impl Expectations {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Expectation> {
        self.0.iter()
    }

    /// Compares the metrics of all runs of one point of a sweep: each expectation with every run that it is about. A run
    /// that an expectation names and that is not there was not asked for (`--only`); it is left out.
    pub fn evaluate(&self, runs: &[(&str, &Value)]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for expectation in &self.0 {
            let there = |name: &str| runs.iter().any(|(run, _)| *run == name);
            if !expectation.named_runs().all(there) {
                continue;
            }
            let about = |run: &str| expectation.run.as_deref().is_none_or(|only| only == run);
            let about = runs.iter().filter(|(run, _)| about(run));
            outcomes.extend(about.map(|(run, _)| expectation.evaluate(run, runs)));
        }
        outcomes
    }
}

impl Serialize for Expectations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = IndexMap::<&str, Vec<&str>>::new();
        for expectation in &self.0 {
            written.entry(&expectation.key).or_default().push(&expectation.text);
        }
        serializer.collect_map(written)
    }
}

impl<'de> Deserialize<'de> for Expectations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            Several(Vec<String>),
        }
        let written = IndexMap::<String, Written>::deserialize(deserializer)?;
        let texts = |written: Written| match written {
            Written::One(text) => vec![text],
            Written::Several(texts) => texts,
        };
        let pairs = written
            .into_iter()
            .flat_map(|(key, written)| texts(written).into_iter().map(move |text| (key.clone(), text)));
        let parsed = pairs.map(|(key, text)| Expectation::parse(&key, &text));
        parsed.collect::<Result<_, _>>().map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Expectations {
    fn schema_name() -> Cow<'static, str> {
        "Expectations".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": {
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            },
            "x-expect": true,
        })
    }
}
