//! Expectations about the results, which make a scenario a regression test.

use samara_engine::units::{Rate, Share, Size, Span};
use samara_report::words::{number, percent, plural, short_ms};
use samara_scenario::{Loaded, OTHER_NODES};
use serde_json::{Map, Value};

use crate::metric::{Metric, declared, has_value, is_distribution, unit, unit_in};
use crate::report::grouped;
use crate::results::{BY_CLASS, scope};
use crate::{family, finding};

/// One expectation, for example `"time_to_custody_ms.p95" = "< 4 s"`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The run that it applies to; all runs if `None`.
    pub run: Option<String>,
    /// The dotted path of the metric.
    pub metric: String,
    holds: Holds,
    /// The limit in the unit of the metric.
    limit: f64,
    unit: &'static str,
    text: String,
    counts: bool,
}

/// Returns true if a value holds against a limit.
type Holds = fn(f64, f64) -> bool;

/// Signs of comparisons; longer signs come first.
const SIGNS: [(&str, Holds); 5] = [
    ("<=", |found, limit| found <= limit),
    (">=", |found, limit| found >= limit),
    ("==", |found, limit| (found - limit).abs() <= 1e-9 * limit.abs().max(1.0)),
    ("<", |found, limit| found < limit),
    (">", |found, limit| found > limit),
];

#[derive(Clone, Debug, PartialEq)]
pub struct ExpectationResult {
    pub run: String,
    /// The values of the sweep and the seed, if the run has several points.
    pub place: String,
    /// The expectation in words.
    pub expected: String,
    /// The value of the metric; `None` if there is no such metric.
    pub found: Option<f64>,
    pub unit: &'static str,
    /// The limit, in the unit of the metric.
    pub limit: f64,
    pub holds: bool,
    /// False if it describes a built-in scenario of which keys were changed: it is shown, but is no
    /// failure.
    pub counts: bool,
    /// The metric `incomplete`, if the value leaves these out: times are those of what arrived.
    pub left_out: u64,
}

impl ExpectationResult {
    pub fn fails(&self) -> bool {
        self.counts && !self.holds
    }

    /// Returns the line on pages and in a terminal: with ✓, ✗, or – if it does not hold and does not
    /// count.
    pub fn line(&self) -> String {
        let Self { run, expected, .. } = self;
        match (self.holds, self.counts) {
            (true, _) if self.left_out > 0 => {
                format!("✓ {run}: {expected} for what arrived (incomplete: {})", self.left_out)
            }
            (true, _) => format!("✓ {run}: {expected}"),
            (false, true) => format!("✗ {run}: {expected}, but it is {}{}", self.written(), self.at()),
            (false, false) => format!("– {run}: {expected}, here {}", self.written()),
        }
    }

    /// Returns a sentence on the number of results that hold.
    pub fn count(results: &[Self]) -> String {
        let held = results.iter().filter(|result| result.holds);
        let (held, left_out) =
            held.fold((0, 0), |(held, part), result| (held + 1, part + usize::from(result.left_out > 0)));
        let text = format!("{held} of {} expectations hold", results.len());
        if left_out > 0 { format!("{text}, {left_out} of them for what arrived.") } else { text + "." }
    }

    /// Returns the lines of several results, each once for all seeds and points. An expectation that
    /// does not count has one line for all runs that do not meet it.
    pub fn lines<'a>(results: impl IntoIterator<Item = &'a Self>) -> Vec<String> {
        let key = |result: &&Self| {
            let run = if result.holds || result.counts { result.run.clone() } else { String::new() };
            (run, result.expected.clone(), result.holds, result.counts, result.left_out > 0)
        };
        let groups = grouped(results, key).into_iter();
        groups
            .map(|(_, group)| if let [one] = group[..] { one.line() } else { Self::of_all(&group) })
            .collect()
    }

    /// Returns the line of several results of one expectation that all hold, or all do not.
    fn of_all(group: &[&Self]) -> String {
        let first = group[0];
        let Self { run, expected, .. } = first;
        let count = group.len();
        let left_out: u64 = group.iter().map(|result| result.left_out).sum();
        match (first.holds, first.counts) {
            (true, _) if left_out > 0 => {
                format!(
                    "✓ {run}: {expected} for what arrived (incomplete: {left_out} in {})",
                    first.points(count)
                )
            }
            (true, _) => format!("✓ {run}: {expected} ({})", first.points(count)),
            (false, false) => format!("– {expected}: not met ({count} runs)"),
            (false, true) => {
                let found = |result: &&&Self| result.found.unwrap_or(f64::NAN);
                let least = group.iter().min_by(|a, b| found(a).total_cmp(&found(b))).unwrap_or(&first);
                let most = group.iter().max_by(|a, b| found(a).total_cmp(&found(b))).unwrap_or(&first);
                let (low, high) = (least.written(), most.written());
                let values = if low == high { low } else { format!("{low} to {high}") };
                let places: Vec<&str> = group.iter().map(|result| result.place.as_str()).collect();
                let named = places.iter().take(PLACES_MAX).filter(|place| !place.is_empty());
                let mut named: Vec<&str> = named.copied().collect();
                let more = format!("{} more", count - named.len().min(count));
                if named.is_empty() {
                    return format!("✗ {run}: {expected}, but it is {values} ({count} runs)");
                }
                if named.len() < count {
                    named.push(&more);
                }
                format!("✗ {run}: {expected}, but it is {values} ({})", named.join("; "))
            }
        }
    }

    /// Returns a number of points of this run in words.
    fn points(&self, count: usize) -> String {
        let things = match self.place.as_str() {
            "" => "run",
            place if place.starts_with(SEED) => "seed",
            _ => "point",
        };
        plural(count as f64, things)
    }

    fn at(&self) -> String {
        if self.place.is_empty() { String::new() } else { format!(" ({})", self.place) }
    }

    /// Returns the value as tables show it or, if the limit then looks the same, with four decimals.
    pub fn written(&self) -> String {
        let Some(found) = self.found else { return "not measured".to_owned() };
        let rounded = |value: f64| match self.unit {
            "share" => percent(value, 2),
            "ms" => short_ms(value),
            unit => format!("{} {unit}", number(value)).trim_end().to_owned(),
        };
        let exact = || match self.unit {
            "share" => format!("{} %", (found * 1e8).round() / 1e6),
            unit => format!("{} {unit}", (found * 1e4).round() / 1e4).trim_end().to_owned(),
        };
        if rounded(found) == rounded(self.limit) { exact() } else { rounded(found) }
    }
}

impl Expectation {
    /// Returns the expectations of a scenario, without those that need a run that is not selected.
    /// Also checks the [findings](finding) of the scenario, which name runs and metrics, too. Commas separate several comparisons of one metric.
    pub fn all_of(loaded: &Loaded) -> Result<Vec<Self>, String> {
        finding::check(loaded)?;
        let parse = |(key, text): (&String, &String)| {
            known(loaded, key).map_err(|error| loaded.error("expect", key, &error))?;
            let counts = !loaded.advisory.contains(key);
            let own = |parsed: &Self| unit_in(family::of(&loaded.scenario), &parsed.metric);
            let one = |one| Self::parse(key, one).map(|parsed| Self { counts, unit: own(&parsed), ..parsed });
            let all: Result<Vec<Self>, String> = text.split(',').map(one).collect();
            all.map_err(|error| loaded.error("expect", key, &error))
        };
        let all: Vec<Vec<Self>> = loaded.scenario.expect.iter().map(parse).collect::<Result<_, _>>()?;
        let first = loaded.scenario.runs.first();
        let has_first = first.is_none_or(|first| loaded.points.iter().any(|point| point.run == first.name));
        let beside_first = family::of(&loaded.scenario).beside_first;
        let is_measured = |one: &Self| has_first || !beside_first.contains(&one.metric.as_str());
        Ok(all.into_iter().flatten().filter(is_measured).collect())
    }

    pub fn parse(key: &str, text: &str) -> Result<Self, String> {
        let (run, metric) = run_and_metric(key);
        let text = text.trim();
        let sign = SIGNS.iter().find_map(|(sign, holds)| Some((*holds, text.strip_prefix(sign)?.trim())));
        let (holds, rest) = sign.ok_or_else(|| {
            let example = match unit(metric) {
                "ms" | "s" => "< 4 s",
                "bytes" => "< 5 MB",
                "bit/s" => "> 5 Mbit/s",
                "share" => ">= 99 %",
                _ => "<= 20",
            };
            format!("\"{text}\" does not start with <, <=, ==, >= or >; expected for example \"{example}\"")
        })?;
        let limit = limit(metric, rest)?;
        let (run, unit) = (run.map(str::to_owned), unit(metric));
        Ok(Self { run, metric: metric.to_owned(), holds, limit, unit, text: text.to_owned(), counts: true })
    }

    /// Checks the metrics of a run; `None` if the expectation applies to another run.
    pub fn check(&self, run: &str, metrics: &Value) -> Option<ExpectationResult> {
        if self.run.as_deref().is_some_and(|wanted| wanted != run) {
            return None;
        }
        let found = figure_of(metrics, &self.metric);
        let holds = found.is_some_and(|found| (self.holds)(found, self.limit));
        let expected = format!("{} {}", self.metric, self.text);
        let incomplete = scope(metrics, &self.metric).and_then(|own| own.get("incomplete")?.as_u64());
        let incomplete = incomplete.unwrap_or(0);
        let left_out = if is_distribution(&self.metric) { incomplete } else { 0 };
        let (run, unit, counts) = (run.to_owned(), self.unit, self.counts);
        let (place, limit) = (String::new(), self.limit);
        Some(ExpectationResult { run, place, expected, found, unit, limit, holds, counts, left_out })
    }

    /// Checks the metrics of runs, each with its name and parameters.
    pub fn check_all<'a>(
        all: &[Self],
        loaded: &Loaded,
        runs: impl Iterator<Item = (&'a str, &'a Map<String, Value>, &'a Value)>,
    ) -> Vec<ExpectationResult> {
        let of_run = |(name, parameters, metrics)| {
            let place = place(loaded, parameters);
            let results = all.iter().filter_map(move |one| one.check(name, metrics));
            results.map(move |result| ExpectationResult { place: place.clone(), ..result })
        };
        runs.flat_map(of_run).collect()
    }
}

/// The first word of a place that is only a seed.
const SEED: &str = "seed ";
/// Maximum number of places in a line.
const PLACES_MAX: usize = 4;

/// Returns the values of the sweep's keys and the seed of a run, as far as the scenario has several.
fn place(loaded: &Loaded, parameters: &Map<String, Value>) -> String {
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    let value = |key: &str| {
        parameters.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let of_axis = axes.filter_map(|axis| {
        let label = if axis.label.is_empty() { &axis.key } else { &axis.label };
        Some(format!("{label} {}", value(&axis.key)?))
    });
    let seeds = loaded.points.iter().any(|point| point.seed != loaded.points[0].seed);
    let seed = value("seed").filter(|_| seeds).map(|seed| format!("{SEED}{seed}"));
    of_axis.chain(seed).collect::<Vec<_>>().join(", ")
}

/// Splits `RUN:METRIC` into the run, if there is one, and the metric.
pub(crate) fn run_and_metric(key: &str) -> (Option<&str>, &str) {
    key.split_once(':').map_or((None, key), |(run, metric)| (Some(run.trim()), metric.trim()))
}

/// Checks that the run and the metric of an expectation exist.
pub(crate) fn known(loaded: &Loaded, key: &str) -> Result<(), String> {
    let (run, metric) = run_and_metric(key);
    let name = &loaded.scenario.scenario.name;
    let runs: Vec<&str> = match loaded.scenario.runs.as_slice() {
        [] => vec![name],
        runs => runs.iter().map(|run| run.name.as_str()).collect(),
    };
    if let Some(run) = run.filter(|run| !runs.contains(run)) {
        return Err(format!("there is no run \"{run}\"; the runs are {}", runs.join(", ")));
    }
    has_class(loaded, metric)?;
    declared(metric, Some(family::of(&loaded.scenario)))?;
    has_value(metric)
}

/// Checks that a path by class of nodes names a class and a metric.
pub(crate) fn has_class(loaded: &Loaded, path: &str) -> Result<(), String> {
    let mut parts = path.splitn(3, '.');
    if parts.next() != Some(BY_CLASS) {
        return Ok(());
    }
    let class = parts.next().unwrap_or_default();
    let of_points = loaded.points.iter().flat_map(|point| &point.scenario.network.classes);
    let mut classes: Vec<&str> = of_points.map(|class| class.name.as_str()).collect();
    if classes.is_empty() {
        return Err(
            "no run has classes of nodes; add a [[network.class]], or a column class in network.nodes_file"
                .to_owned(),
        );
    }
    classes.push(OTHER_NODES);
    classes.sort_unstable();
    classes.dedup();
    if !classes.contains(&class) {
        let all = classes.join(", ");
        return Err(format!("there is no class of nodes \"{class}\"; the classes are {all}"));
    }
    let example = format!("{BY_CLASS}.{class}.{}", metric_example(loaded));
    parts.next().map(drop).ok_or_else(|| format!("names no metric; expected for example \"{example}\""))
}

/// The first headline of a scenario's family.
fn metric_example(loaded: &Loaded) -> String {
    let metrics = family::of(&loaded.scenario).metrics.iter();
    metrics.flat_map(Metric::headline_paths).next().unwrap_or_default()
}

/// Returns the value at a path, for example `time_to_custody_ms.p95`.
pub(crate) fn figure_of(metrics: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(metrics, |value, part| value.get(part)).and_then(Value::as_f64)
}

/// Parses a limit with its unit. Returns it in the unit of the metric. Zero needs no unit, and neither
/// do shares and counts.
pub fn limit(metric: &str, text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (unit(metric), number) {
        (_, Some(0.0)) => Ok(0.0),
        ("ms", _) => Span::parse(text).map(Span::millis_f64),
        ("s", _) => Span::parse(text).map(|span| span.millis_f64() / 1000.0),
        ("bytes", _) => Size::parse(text).map(|size| size.bytes() as f64),
        ("bit/s", _) => Rate::parse(text).map(|rate| rate.bps() as f64),
        ("share", Some(number)) if number > 1.0 => {
            Err(format!("\"{text}\" is more than 1; write \"{text} %\", or a share from 0 to 1"))
        }
        (_, Some(number)) => Ok(number),
        ("share", None) => Share::parse(text).map(Share::fraction),
        (unit, None) => {
            let plain = text.strip_suffix(unit).filter(|_| !unit.is_empty());
            let of = if unit.is_empty() { String::new() } else { format!(", the number of {unit}") };
            plain
                .and_then(|number| number.trim().parse().ok())
                .ok_or_else(|| format!("\"{text}\" is not a number; expected one such as \"20\"{of}"))
        }
    }
}
