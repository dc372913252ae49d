//! Compares two results: every common metric with a test of significance, and the distributions of
//! times.

mod report;

use std::collections::{BTreeMap, BTreeSet};

use samara_document::closest;
use samara_report::words::{MISSING, signed_percent};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::expect::{limit, run_and_metric};
use crate::metric::{Better, better, declared, rank};
use crate::report::{grouped, unit_of};
use crate::results::{Saved, SavedRun};
use crate::statistics::{Spread, Test};

#[derive(Clone, Debug)]
pub struct Compared {
    a: Saved,
    b: Saved,
    /// The key of the run of the second result that each run of the first one is compared with.
    partners: BTreeMap<String, String>,
    changes: Vec<Change>,
    /// Context of the comparison: different scenarios, different versions, and runs or metrics in
    /// one result only.
    notes: Vec<String>,
    /// The names of both sides.
    names: [String; 2],
    /// Keys with different values: of the scenarios, and of paired runs.
    differing: Vec<Differing>,
    /// Whether the digests are equal and each run is compared with itself.
    is_identical: bool,
}

/// The change of a metric between two corresponding runs.
#[derive(Clone, Debug)]
struct Change {
    run: String,
    /// The parameter values that distinguish this run from others of the same name.
    place: String,
    metric: String,
    a: Spread,
    b: Spread,
    /// Test of whether the difference exceeds the spread over seeds; `None` if either result has
    /// one seed only.
    test: Option<Test>,
    /// Whether all values are equal.
    is_same: bool,
    better: Option<Better>,
    parameters: Map<String, Value>,
}

/// A key with its two values.
type Differing = (String, [String; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// A difference that one seed, or one of each result, does not decide.
    Undecided,
    /// The difference may be due to the seeds.
    Noise,
    Better,
    Worse,
    /// The metric is neither better nor worse.
    Changed,
}

impl Verdict {
    /// Returns true if the difference exceeds the spread over seeds.
    fn is_decided(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Changed)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Undecided => "undecided",
            Self::Noise => "within noise",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Changed => "changed",
        }
    }
}

impl Change {
    /// Returns the change of the mean as a share of the first mean; infinite for a change from 0.
    fn share(&self) -> f64 {
        let difference = self.b.mean - self.a.mean;
        if difference == 0.0 { 0.0 } else { difference / self.a.mean.abs() }
    }

    /// Returns the verdict: with one seed of either result, a difference is undecided.
    fn verdict(&self) -> Verdict {
        let difference = self.b.mean - self.a.mean;
        match (self.test, self.better) {
            _ if self.is_same => Verdict::Same,
            (None, _) => Verdict::Undecided,
            (Some(test), _) if !test.is_significant() => Verdict::Noise,
            (_, Some(Better::Less)) if difference < 0.0 => Verdict::Better,
            (_, Some(Better::More)) if difference > 0.0 => Verdict::Better,
            (_, Some(_)) if difference != 0.0 => Verdict::Worse,
            _ => Verdict::Changed,
        }
    }

    fn name(&self) -> String {
        named(&self.run, &self.place)
    }

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
}

/// A run of the first result and one of the second that are compared although they have other names or
/// parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    a: String,
    b: String,
}

impl Pair {
    /// Parses `RUN=RUN`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = text.split_once('=').map(|(a, b)| (a.trim().to_owned(), b.trim().to_owned()));
        names.filter(|(a, b)| !a.is_empty() && !b.is_empty()).map(|(a, b)| Self { a, b }).ok_or_else(|| {
            format!("\"{text}\" is not RUN=RUN; expected a run of each result, for example mine=gossipsub")
        })
    }
}

/// Runs that differ only in their seeds, by their key.
type Groups<'a> = [(String, Vec<&'a SavedRun>)];

/// Compares two results: runs with the same name and parameters or, if there are `pairs`, these.
///
/// # Errors
/// Returns an error if the results have no run in common, or no metric.
pub fn compare(mut a: Saved, mut b: Saved, pairs: &[Pair]) -> Result<Compared, String> {
    let [left, right] = [&a, &b].map(|saved| grouped(&saved.runs, |run| run.key()));
    // A result may have as many runs as a scenario points, so that nothing looks at all pairs of runs.
    let of_right: BTreeMap<&str, &Vec<&SavedRun>> =
        right.iter().map(|(key, runs)| (key.as_str(), runs)).collect();
    let points = if a.is_point && b.is_point { left.first().zip(right.first()) } else { None };
    let partners = if let Some((left, right)) = points.filter(|_| pairs.is_empty()) {
        BTreeMap::from([(left.0.clone(), right.0.clone())])
    } else if pairs.is_empty() {
        let same = left.iter().filter(|(key, _)| of_right.contains_key(key.as_str()));
        same.map(|(key, _)| (key.clone(), key.clone())).collect()
    } else {
        paired((&a, &left), (&b, &right), pairs)?
    };
    if partners.is_empty() {
        return Err(nothing_in_common((&a, &left), (&b, &right)));
    }
    let mut changes = Vec::new();
    let varying = varying(&a);
    let (mut only_a, mut one_sided) = (BTreeSet::new(), [BTreeSet::new(), BTreeSet::new()]);
    for (key, runs) in &left {
        let partner = partners.get(key);
        match partner.and_then(|partner| of_right.get(partner.as_str())) {
            Some(others) => changes.extend(of_runs(runs, others, &varying, &mut one_sided)),
            None => drop(only_a.insert(named(&runs[0].name, &place(runs[0], &varying)))),
        }
    }
    if changes.is_empty() {
        let (a, b) = (a.path.display(), b.path.display());
        return Err(format!(
            "the compared runs of {a} and {b} have no metric of the same name; one has {}",
            one_sided.into_iter().flatten().collect::<Vec<_>>().join(", ")
        ));
    }
    let mut only_b = BTreeSet::new();
    let wanted: BTreeSet<&String> = partners.values().collect();
    let others = right.iter().filter(|(key, _)| !wanted.contains(key));
    only_b.extend(others.map(|(_, runs)| named(&runs[0].name, &place(runs[0], &varying))));
    if !pairs.is_empty() {
        // The pairs select the runs.
        only_a.clear();
        only_b.clear();
        a.runs.retain(|run| partners.contains_key(&run.key()));
        b.runs.retain(|run| wanted.contains(&run.key()));
    }
    // A result paired with itself has one digest, but its pairs are different runs.
    let is_identical = a.digest == b.digest && partners.iter().all(|(key, partner)| key == partner);
    let names = names_of(&a, &b, pairs);
    let mut notes = notes((&a, &only_a), (&b, &only_b), (&one_sided, &names), is_identical);
    if let (true, [left, ..], [right, ..]) = (a.is_point && b.is_point, &a.runs[..], &b.runs[..]) {
        notes.extend(differing_values(left, right));
    }
    let mut differing = differences(&a, &b);
    pairs.iter().for_each(|pair| differing.extend(of_pair(&a, &b, pair)));
    notes.extend(differing_keys(&differing));
    Ok(Compared { a, b, partners, changes, notes, names, differing, is_identical })
}

/// Finds the runs of pairs. Those at several points of a sweep match by the values of the keys that
/// both have.
fn paired(
    (a, left): (&Saved, &Groups<'_>),
    (b, right): (&Saved, &Groups<'_>),
    pairs: &[Pair],
) -> Result<BTreeMap<String, String>, String> {
    let mut partners = BTreeMap::new();
    for pair in pairs {
        let of = |groups, saved: &Saved, name: &str| {
            let found: Vec<&(String, Vec<&SavedRun>)> =
                Groups::iter(groups).filter(|(_, runs)| runs[0].name == name).collect();
            let missing = || {
                let (Pair { a, b }, path) = (pair, saved.path.display());
                format!("pair {a}={b}: {path} has no run {name}; its runs are {}", names(groups))
            };
            if found.is_empty() { Err(missing()) } else { Ok(found) }
        };
        let (ours, theirs) = (of(left, a, &pair.a)?, of(right, b, &pair.b)?);
        let is_single = ours.len() == 1 && theirs.len() == 1;
        for (key, runs) in ours {
            let matches = |other: &SavedRun| {
                let mut swept = runs[0].parameters.iter().filter(|(key, _)| key.contains('.'));
                swept.all(|(key, value)| other.parameters.get(key).is_none_or(|other| other == value))
            };
            let mut matching = theirs.iter().filter(|(_, others)| is_single || matches(others[0]));
            if let Some((other, _)) = matching.next() {
                partners.insert(key.clone(), other.clone());
            }
        }
    }
    Ok(partners)
}

fn names(groups: &Groups<'_>) -> String {
    let mut names: Vec<&str> = groups.iter().map(|(_, runs)| runs[0].name.as_str()).collect();
    names.dedup();
    names.join(", ")
}

/// Returns the error for results without a common run, and the parameters in which runs of the same
/// name differ.
fn nothing_in_common((a, left): (&Saved, &Groups<'_>), (b, right): (&Saved, &Groups<'_>)) -> String {
    let mut differing = BTreeSet::new();
    let mut of_name: BTreeMap<&str, [Vec<&SavedRun>; 2]> = BTreeMap::new();
    for (side, groups) in [left, right].into_iter().enumerate() {
        for (_, runs) in groups {
            of_name.entry(&runs[0].name).or_default()[side].push(runs[0]);
        }
    }
    for sides in of_name.values().filter(|sides| sides.iter().all(|side| !side.is_empty())) {
        // A key differs between two of them unless all have its value of the first.
        let all = || sides.iter().flatten();
        let keys: BTreeSet<&String> = all().flat_map(|run| run.parameters.keys()).collect();
        let first = sides[0][0];
        let is_same = |key: &str| all().all(|run| run.parameters.get(key) == first.parameters.get(key));
        differing.extend(keys.into_iter().filter(|key| !is_same(key)));
    }
    let (a, b) = (a.path.display(), b.path.display());
    let why = if differing.is_empty() {
        format!("the first has {}, the second {}", names(left), names(right))
    } else {
        let keys: Vec<&str> = differing.into_iter().map(String::as_str).collect();
        format!("those with the same name differ in {}", keys.join(", "))
    };
    format!(
        "{a} and {b} have no run in common: {why}; --pair RUN=RUN compares a run of the first with one of the second"
    )
}

/// Returns the parameters that differ between runs of the same name.
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
    // A key of the scenario replaces the family's short parameter, which repeats it.
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

fn named(run: &str, place: &str) -> String {
    if place.is_empty() { run.to_owned() } else { format!("{run}, {place}") }
}

/// Compares all common metrics of two runs, most important first.
fn of_runs(
    a: &[&SavedRun],
    b: &[&SavedRun],
    varying: &BTreeSet<String>,
    one_sided: &mut [BTreeSet<String>; 2],
) -> Vec<Change> {
    let of = |runs: &[&SavedRun]| {
        let mut values: BTreeMap<String, Vec<(Option<u64>, f64)>> = BTreeMap::new();
        for run in runs {
            for (path, value) in &run.metrics {
                values.entry(path.clone()).or_default().push((run.seed, *value));
            }
        }
        values
    };
    let (left, right) = (of(a), of(b));
    let mut place = place(a[0], varying);
    if a[0].name != b[0].name {
        let beside = format!("beside {}", b[0].name);
        place = if place.is_empty() { beside } else { format!("{place}, {beside}") };
    }
    one_sided[0].extend(left.keys().filter(|path| !right.contains_key(*path)).cloned());
    one_sided[1].extend(right.keys().filter(|path| !left.contains_key(*path)).cloned());
    let mut changes: Vec<Change> = left
        .iter()
        .filter_map(|(path, a_values)| {
            let b_values = right.get(path)?;
            let spread =
                |of: &[(Option<u64>, f64)]| Spread::of(&of.iter().map(|of| of.1).collect::<Vec<_>>());
            Some(Change {
                run: a[0].name.clone(),
                place: place.clone(),
                metric: path.clone(),
                a: spread(a_values)?,
                b: spread(b_values)?,
                test: Test::of(a_values, b_values),
                is_same: a_values.iter().map(|of| of.1).eq(b_values.iter().map(|of| of.1)),
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
    (one_sided, names): (&[BTreeSet<String>; 2], &[String; 2]),
    is_identical: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if is_identical {
        notes.push("the digests are equal: the runs are identical".to_owned());
    } else if a.digest != b.digest {
        notes.push("the digests differ".to_owned());
    }
    let joined = |names: &BTreeSet<String>, by| names.iter().map(String::as_str).collect::<Vec<_>>().join(by);
    if a.scenario != b.scenario {
        notes.push(format!("different scenarios: {} and {}", a.scenario, b.scenario));
    }
    if a.version != b.version {
        notes.push(format!("different versions: {} and {}", a.version, b.version));
    }
    match (a.is_real, b.is_real) {
        (false, true) => notes.push("compares simulated nodes with real ones".to_owned()),
        (true, false) => notes.push("compares real nodes with simulated ones".to_owned()),
        _ => {}
    }
    for (saved, only) in [(a, only_a), (b, only_b)] {
        if !only.is_empty() {
            notes.push(format!("only in {}: {}", saved.path.display(), joined(only, "; ")));
        }
    }
    for (missing, name) in one_sided.iter().zip([&names[1], &names[0]]) {
        if !missing.is_empty() {
            notes.push(format!("not measured in {name}: {}", joined(missing, ", ")));
        }
    }
    notes
}

/// The keys of two scenarios with different values, each with both values.
fn differences(a: &Saved, b: &Saved) -> Vec<Differing> {
    let keys: BTreeSet<&String> = a.configuration.keys().chain(b.configuration.keys()).collect();
    let of = |side: &Saved, key: &str| side.configuration.get(key).map_or(UNSET, String::as_str).to_owned();
    let both = keys.into_iter().map(|key| (key.clone(), [of(a, key), of(b, key)]));
    both.filter(|(_, [a, b])| a != b).collect()
}

/// Returns a note on the values in which two points of sweeps differ; `None` without any.
fn differing_values(a: &SavedRun, b: &SavedRun) -> Option<String> {
    let keys: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    // A key of the scenario replaces the family's short parameter, which repeats it.
    let named = keys.into_iter().filter(|key| key.contains('.')).filter_map(|key| {
        let of = |run: &SavedRun| {
            let value = run.parameters.get(key);
            value.map_or_else(
                || UNSET.to_owned(),
                |value| value.as_str().map_or(value.to_string(), Into::into),
            )
        };
        let [a, b] = [of(a), of(b)];
        (a != b).then(|| format!("{key} {a} and {b}"))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("different values: {}", named.join("; ")))
}

/// The value of a key that a scenario does not set.
const UNSET: &str = "unset";

/// Returns the keys that paired runs set to different values, or that only one of them sets.
fn of_pair(a: &Saved, b: &Saved, pair: &Pair) -> Vec<Differing> {
    let own = |side: &Saved, name: &str| -> Option<BTreeMap<String, String>> {
        let is_name = |key: &str| key.starts_with("run.") && key.ends_with(".name");
        let mut named = side.configuration.iter().filter(|(key, _)| is_name(key));
        let (key, _) = named.find(|(_, own)| *own == name)?;
        let set = format!("{}set.", key.strip_suffix("name")?);
        let of_run = side.configuration.iter();
        Some(
            of_run
                .filter_map(|(key, value)| Some((key.strip_prefix(&set)?.to_owned(), value.clone())))
                .collect(),
        )
    };
    let (Some(left), Some(right)) = (own(a, &pair.a), own(b, &pair.b)) else { return Vec::new() };
    let value = |own: &BTreeMap<String, String>, side: &Saved, key: &String| {
        own.get(key).or_else(|| side.configuration.get(key)).cloned().unwrap_or_else(|| UNSET.to_owned())
    };
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let both = keys.into_iter().map(|key| (key.clone(), [value(&left, a, key), value(&right, b, key)]));
    both.filter(|(_, [a, b])| a != b).collect()
}

/// Returns the names of both sides: their paths or, of one result, the names of the paired runs.
fn names_of(a: &Saved, b: &Saved, pairs: &[Pair]) -> [String; 2] {
    let [left, right] = [a, b].map(|saved| saved.path.display().to_string());
    match pairs {
        _ if left != right => [left, right],
        [pair] if pair.a != pair.b => [&pair.a, &pair.b].map(|run| format!("{left}, {run}")),
        _ => [format!("{left} (first)"), format!("{right} (second)")],
    }
}

/// Maximum number of differing keys in a note.
const KEYS_MAX: usize = 8;

/// Returns a note on keys with different values; `None` without any.
fn differing_keys(differing: &[Differing]) -> Option<String> {
    let named = differing.iter().take(KEYS_MAX);
    let mut named: Vec<String> = named.map(|(key, [a, b])| format!("{key} {a} and {b}")).collect();
    if differing.len() > KEYS_MAX {
        named.push(format!("and {} more, which --html lists", differing.len() - KEYS_MAX));
    }
    (!named.is_empty()).then(|| format!("different keys: {}", named.join("; ")))
}

impl Compared {
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
        let mean =
            |of: Spread| json!({ "mean": of.mean, "confidence_95": of.confidence_95, "seeds": of.seeds });
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
                    "test": change.test.map(|test| test.kind.name()),
                    "significant": change.test.map(|test| test.is_significant()),
                    "better": change.better,
                    "verdict": change.verdict().word(),
                })
            })
            .collect();
        json!({
            "a": side(&self.a),
            "b": side(&self.b),
            "identical": self.is_identical,
            "notes": self.notes,
            "changes": changes,
            "crossed": crossed,
        })
    }
}

/// Maximum number of metric names that an error suggests.
const NEAR_MAX: usize = 6;

/// The permitted change of a metric, for example `time_to_custody_ms.p95=5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The run that it applies to; all runs if `None`.
    run: Option<String>,
    metric: String,
    /// Maximum growth; `down` is the maximum decrease.
    up: Option<Limit>,
    down: Option<Limit>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A share of the first mean.
    Share(f64),
    /// A value in the unit of the metric.
    Value(f64),
}

impl Limit {
    fn parse(metric: &str, text: &str) -> Result<Self, String> {
        let plain = text.strip_suffix('%').unwrap_or(text).trim();
        let number = plain.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match number {
            Some(number) if text.ends_with('%') => Ok(Self::Share(number / 100.0)),
            Some(number) => Ok(Self::Value(number)),
            None if plain.is_empty() => Err("has no number".to_owned()),
            None => limit(metric, text).map(Self::Value),
        }
    }

    /// Returns true if a growth by `difference`, or by `share` of the first mean, exceeds the
    /// limit.
    fn is_passed(self, difference: f64, share: f64) -> bool {
        match self {
            Self::Share(limit) => share > limit,
            Self::Value(limit) => difference > limit,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossed {
    /// The name of the run with the parameters that distinguish it.
    pub run: String,
    pub metric: String,
    pub threshold: String,
    /// The change in readable form.
    pub change: String,
}

impl Threshold {
    /// Parses `METRIC=LIMIT`, with `RUN:` before it to select one run.
    ///
    /// A limit is a share (`5%`) or a number in the unit of the metric. A limit without a sign is
    /// the maximum change for the worse. With a sign it is the maximum growth (`+5%`) or decrease
    /// (`-5%`); `+5%,-5%` combines both.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "\"{text}\" is not METRIC=LIMIT; expected for example time_to_custody_ms.p95=5%, incomplete=0, or mesh_size=+5%,-5%"
            )
        };
        let wrong_limit = |why: String| format!("{why}; {}", wrong());
        let (key, limits) = text.split_once('=').ok_or_else(wrong)?;
        let (run, metric) = run_and_metric(key.trim());
        let (mut up, mut down) = (None, None);
        for part in limits.split(',').map(str::trim) {
            let (sign, number) = match part.strip_prefix('+') {
                Some(number) => (Better::Less, number),
                None => match part.strip_prefix('-') {
                    Some(number) => (Better::More, number),
                    None => match better(metric) {
                        Some(better) => (better, part),
                        None => {
                            declared(metric, None)?;
                            return Err(format!(
                                "\"{text}\": {metric} has no better direction; state the maximum growth and decrease, for \
                                 example {metric}=+{part},-{part}"
                            ));
                        }
                    },
                },
            };
            let limit = Some(Limit::parse(metric, number.trim()).map_err(wrong_limit)?);
            // A metric that is better when it is smaller must not grow.
            let slot = if sign == Better::Less { &mut up } else { &mut down };
            if slot.is_some() || metric.is_empty() {
                return Err(wrong());
            }
            *slot = limit;
        }
        let run = run.map(str::to_owned);
        Ok(Self { run, metric: metric.to_owned(), up, down, text: text.to_owned() })
    }

    /// Returns the runs that exceed the threshold.
    ///
    /// # Errors
    /// Returns an error that suggests similar names if there is no such metric or run. Returns an
    /// error also if the second result lacks a value.
    pub fn check(&self, compared: &Compared) -> Result<Vec<Crossed>, String> {
        let of_metric: Vec<&Change> =
            compared.changes.iter().filter(|change| change.metric == self.metric).collect();
        if of_metric.is_empty() {
            return Err(format!(
                "--threshold {}: no run has this metric; {}",
                self.text,
                self.near(compared)
            ));
        }
        let is_meant = |change: &Change| self.run.as_ref().is_none_or(|run| change.run == *run);
        if !of_metric.iter().any(|change| is_meant(change)) {
            let mut runs: Vec<&str> = of_metric.iter().map(|change| change.run.as_str()).collect();
            runs.dedup();
            return Err(format!(
                "--threshold {}: there is no such run; the runs are {}",
                self.text,
                runs.join(", ")
            ));
        }
        if let Some(run) = self.lacking(compared) {
            let b = compared.b.path.display();
            return Err(format!("--threshold {}: {b} has no {} of {run}", self.text, self.metric));
        }
        let crossed = of_metric.into_iter().filter(|change| is_meant(change) && self.is_crossed(change));
        Ok(crossed
            .map(|change| Crossed {
                run: change.name(),
                metric: self.metric.clone(),
                threshold: self.text.clone(),
                change: format!(
                    "{} to {} ({})",
                    change.a.written(unit_of(&change.metric)),
                    change.b.written(unit_of(&change.metric)),
                    change.written()
                ),
            })
            .collect())
    }

    /// Returns a run whose metric is only in the first result: a missing value must not pass as
    /// unchanged.
    fn lacking<'a>(&self, compared: &'a Compared) -> Option<&'a str> {
        let has = |run: &SavedRun| run.metrics.contains_key(&self.metric);
        let is_meant = |run: &&SavedRun| has(run) && self.run.as_ref().is_none_or(|name| run.name == *name);
        let having: BTreeSet<String> =
            compared.b.runs.iter().filter(|run| has(run)).map(SavedRun::key).collect();
        let is_lacking = |run: &&SavedRun| {
            let partner = compared.partners.get(&run.key());
            partner.is_none_or(|partner| !having.contains(partner))
        };
        let mut of_first = compared.a.runs.iter().filter(is_meant);
        of_first.find(is_lacking).map(|run| run.name.as_str())
    }

    fn is_crossed(&self, change: &Change) -> bool {
        let (difference, share) = (change.b.mean - change.a.mean, change.share());
        self.up.is_some_and(|limit| limit.is_passed(difference, share))
            || self.down.is_some_and(|limit| limit.is_passed(-difference, -share))
    }

    fn near(&self, compared: &Compared) -> String {
        let mut names: Vec<&str> = compared.changes.iter().map(|change| change.metric.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut near: Vec<&str> =
            names.iter().copied().filter(|name| name.contains(self.metric.as_str())).collect();
        near.extend(closest(&self.metric, names.iter().copied()).filter(|name| !near.contains(name)));
        near.truncate(NEAR_MAX);
        if near.is_empty() {
            format!("the metrics are {}", names.join(", "))
        } else {
            format!("did you mean {}?", near.join(", "))
        }
    }
}
