//! Loads scenarios: from a file and the command line to a list of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use samara_document::keys::{GridAxis, flatten, is_within, parse_value, plain, unset_key};
use samara_document::{Inputs, Mismatch, Problem, ScenarioError, closest, file, line_of, text};
use samara_engine::outbox::Policies;

use crate::follow::{FileNames, in_effect, limit_links, moved_sizes, written};
use crate::layers::{Layer, is_replaced, merge};
use crate::resolve::resolve;
use crate::schema::Forms;
use crate::{Axis, PublishedFigure, RunSpec, Scenario, Sweep, builtin, builtins, check, family, hints};

/// Maximum size of a scenario, far above what people write.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of points of a scenario; more are probably a mistake.
pub const POINTS_MAX: usize = 100_000;

/// One run: a scenario without variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub run: String,
    pub label: String,
    pub description: String,
    pub series: String,
    /// The values of the sweep's keys.
    pub sweep: BTreeMap<String, toml::Value>,
    pub seed: u64,
    /// Shared by the points that differ in their seeds only.
    pub scenario: Arc<Scenario>,
}

impl Point {
    /// The name of the run with the values of the sweep.
    pub fn name(&self) -> String {
        let values: Vec<String> =
            self.sweep.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        if values.is_empty() { self.run.clone() } else { format!("{} {}", self.run, values.join(" ")) }
    }
}

/// A scenario that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The file, or the name of the built-in scenario.
    pub source: String,
    /// The scenario with the changes of the command line.
    pub scenario: Scenario,
    /// The scenario as TOML.
    pub text: String,
    /// The text of the file, for the lines of errors; empty for a built-in scenario.
    pub file: String,
    /// The files that the scenario names.
    pub inputs: Inputs,
    /// All combinations of sweep values, runs and seeds, in this order.
    pub points: Vec<Point>,
    /// Messages for the user about unexpected treatment of the scenario's files.
    pub notes: Vec<String>,
    /// The keys whose values differ from those of the file.
    pub changes: Vec<Change>,
    /// The keys of `expect` that describe a built-in scenario of which other keys were changed. Their
    /// results are shown, but set no exit status.
    pub advisory: BTreeSet<String>,
}

/// A key that the caller gave another value than the file. Displayed as `columns.blobs 8 -> 72`, and an
/// axis that the file does not have as `sweep over columns.blobs: 8, 72`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: String,
    /// The value of the file, with its defaults and those of the protocol's preset; absent if the key
    /// has none.
    pub before: Option<toml::Value>,
    /// The new value, or that of the preset; absent if the key no longer applies.
    pub after: Option<toml::Value>,
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if let (Some(axis), None, Some(toml::Value::Array(values))) =
            (self.key.strip_prefix("sweep."), &self.before, &self.after)
        {
            let values: Vec<String> = values.iter().map(plain).collect();
            return write!(f, "sweep over {axis}: {}", values.join(", "));
        }
        let [before, after] =
            [&self.before, &self.after].map(|value| value.as_ref().map_or("default".to_owned(), plain));
        if before == after {
            return write!(f, "{} {after}, which is in effect anyway", self.key);
        }
        write!(f, "{} {before} -> {after}", self.key)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Keys and their values, as on the command line.
    pub set: Vec<(String, String)>,
    /// Names of the runs to keep. All runs if empty.
    pub only: Vec<String>,
    /// Seeds. Those of the scenario if empty.
    pub seeds: Vec<u64>,
    /// Axes of the sweep, as keys and values. They replace the values of the scenario's axis with
    /// the same key, or are added after its axes.
    pub axes: Vec<GridAxis>,
    /// Variants after those of the scenario. If the scenario has no variants, it stays a run beside
    /// these.
    pub runs: Vec<RunSpec>,
    /// Policies that schedules of the kind custom can name.
    pub policies: Policies,
    /// Whether the expectations of a built-in scenario count although other keys are changed.
    pub strict: bool,
    /// The place of the changes, which messages name as their author wrote them.
    pub origin: Origin,
}

/// The place where the changes to a scenario stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    CommandLine,
    /// Arguments of a function in Python.
    Python,
}

impl Origin {
    /// A key and its value, for example `--set network.nodes=5`.
    fn set(self, key: &str, value: &str) -> String {
        match self {
            Self::CommandLine => format!("--set {key}={value}"),
            Self::Python => format!("{key}={value}"),
        }
    }

    /// The argument that selects runs, for example `--only batch`.
    fn only(self, run: &str) -> String {
        match self {
            Self::CommandLine => format!("--only {run}"),
            Self::Python => format!("only={run:?}"),
        }
    }

    /// The argument that varies a key.
    fn grid(self, key: &str) -> String {
        match self {
            Self::CommandLine => format!("--grid {key}"),
            Self::Python => format!("over[{key:?}]"),
        }
    }

    /// The key that sets an axis of the sweep to one value.
    fn axis(self, place: usize, value: &toml::Value) -> String {
        match self {
            Self::CommandLine => format!("--set sweep.axis.{place}.values='[{value}]'"),
            Self::Python => format!("**{{\"sweep.axis.{place}.values\": [{value}]}}"),
        }
    }
}

/// Loads a built-in scenario by its name, or a file by its path. `set` has pairs of keys and
/// values, `only` the names of the runs to keep (all, if empty). `seed` replaces the seeds.
pub fn load(
    name: &str,
    set: &[(String, String)],
    only: &[String],
    seed: Option<u64>,
) -> Result<Loaded, ScenarioError> {
    let overrides = Overrides {
        set: set.to_vec(),
        only: only.to_vec(),
        seeds: seed.into_iter().collect(),
        ..Overrides::default()
    };
    load_with(name, &overrides)
}

/// Loads a scenario with changes: as [`load`], with any number of seeds and with axes of a sweep.
pub fn load_with(name: &str, overrides: &Overrides) -> Result<Loaded, ScenarioError> {
    let (source, text, inputs) = read(name)?;
    load_source(&source, &text, inputs, overrides)
}

/// Loads a scenario from its text. Errors refer to it as `source`, and `inputs` has the files that
/// it names.
pub fn load_source(
    source: &str,
    text: &str,
    inputs: Inputs,
    overrides: &Overrides,
) -> Result<Loaded, ScenarioError> {
    load_text(source, text, inputs, overrides).map_err(|error| located(error, overrides))
}

/// Points problems to the command line where it has caused them, and not to lines of a built-in
/// scenario, whose file the user does not have.
fn located(error: ScenarioError, overrides: &Overrides) -> ScenarioError {
    let Overrides { set, axes, origin, .. } = overrides;
    let ScenarioError { source, problems } = error;
    let is_builtin = builtin(&source).is_some();
    let locate = |problem: Problem| {
        let Problem { key: Some(key), line, message } = problem else { return problem };
        let is_meant = |own: &str| is_within(&key, own) || is_within(own, &key);
        match set.iter().rfind(|(own, _)| is_meant(own)) {
            Some((own, value)) => {
                let at = if *own == key { String::new() } else { format!("{key}: ") };
                let message = format!("{}: {at}{message}", origin.set(own, value));
                Problem { key: None, line: None, message }
            }
            None if axes.iter().any(|(own, _)| *own == key) => {
                Problem { key: Some(key), line: None, message }
            }
            None if is_builtin => {
                let has_remedy = message.contains("--set ") || message.starts_with("in ");
                let remedy = if has_remedy {
                    String::new()
                } else {
                    format!(" ({} changes it)", origin.set(&key, "VALUE"))
                };
                let message = message + &remedy;
                Problem { key: Some(key), line: None, message }
            }
            None => Problem { key: Some(key), line, message },
        }
    };
    ScenarioError { problems: problems.into_iter().map(locate).collect(), source }
}

fn load_text(
    source: &str,
    text: &str,
    inputs: Inputs,
    overrides: &Overrides,
) -> Result<Loaded, ScenarioError> {
    let Overrides { set, only, seeds, axes, runs: added, policies, strict, origin } = overrides;
    if text.trim().is_empty() {
        return Err(ScenarioError::one(source, "is empty; `samara show peerdas-small` prints an example"));
    }
    let mut table = parse(source, text)?;
    name_after_file(source, &mut table);
    // Errors in the file have their lines.
    let shipped = read_file(source, text, &table)?;
    let wrong = |error: Mismatch| ScenarioError::of(source, Problem::at(text, &error.key, error.message));
    let forms = Forms::default();
    let mut scenario = shipped.clone();
    if !(set.is_empty() && seeds.is_empty()) {
        set_keys(&mut table, overrides, (&shipped, &forms)).map_err(wrong)?;
        scenario = Scenario::from_table(&table).map_err(wrong)?;
    }
    add_axes(&mut scenario, axes).and_then(|()| add_runs(&mut scenario, added)).map_err(wrong)?;
    let written = scenario.to_toml().map_err(|message| ScenarioError::one(source, message))?;
    control(&toml::Value::Table(written), "").map_err(wrong)?;
    ambiguous(&scenario).map_err(wrong)?;
    let changes = changes(source, &shipped, &scenario)?;
    let expected = |own: &str| own.strip_prefix("expect.").map(|own| own.trim_matches('"').to_owned());
    let is_set = |key: &str| set.iter().any(|(own, _)| expected(own).as_deref() == Some(key));
    let is_kept = |(key, text): &(&String, &String)| shipped.expect.get(*key) == Some(*text) && !is_set(key);
    let advises = !strict && !changes.is_empty() && builtin(source).is_some();
    let advisory = scenario.expect.iter().filter(|_| advises).filter(is_kept);
    let advisory = advisory.map(|(key, _)| key.clone()).collect();
    let runs = chosen(source, &scenario, only, *origin)?;
    count_points(source, &scenario, runs.len())?;
    let (mut points, mut faults) = (Vec::new(), Faults::new());
    let mut notes = BTreeSet::new();
    // Each point has a copy of the rest.
    ["run", "sweep"].iter().for_each(|section| drop(table.remove(*section)));
    let base = Base { source, text, overrides, table, scenario: &scenario, forms };
    let (combinations, mut faulty) = (combinations(&scenario), 0);
    'points: for (at, values) in combinations.iter().enumerate() {
        for run in &runs {
            let (mut built, given) = base.at(values, run)?;
            (built.selected.protocol_kind().set_policies)(&mut built, policies);
            let found = match resolve(&mut built, &given, text, &inputs) {
                Ok(found) => {
                    notes.extend(found);
                    notes.extend(limit_links(&mut built, &given));
                    notes.extend(moved_sizes(&built));
                    let (found, note) = check::problems(&built, &given, text);
                    notes.extend(note);
                    if found.is_empty() {
                        notes.extend((built.family().notes)(&built));
                    }
                    found
                }
                Err(found) => found,
            };
            faulty += usize::from(!found.is_empty());
            for problem in found {
                let (runs, swept) = faults.entry(problem).or_default();
                runs.insert(run.name.as_str());
                swept.insert(at);
            }
            if faulty == FAULTY_MAX {
                break 'points;
            }
            let built = Arc::new(built);
            for seed in &scenario.scenario.seeds {
                points.push(Point {
                    run: run.name.clone(),
                    label: if run.label.is_empty() { run.name.clone() } else { run.label.clone() },
                    description: run.description.clone(),
                    series: run.series.clone(),
                    sweep: values.iter().cloned().collect(),
                    seed: *seed,
                    scenario: Arc::clone(&built),
                });
            }
        }
    }
    let problems = problems(faults, runs.len(), &combinations);
    notes.extend(base.hidden(&runs)?);
    if problems.is_empty() {
        base.find_idle_axis(&points, runs.len())?;
    }
    let has_set = |key: &str| set.iter().any(|(own, _)| own == key) || axes.iter().any(|(own, _)| own == key);
    let (uplink, downlink) = (has_set("network.uplink"), has_set("network.downlink"));
    if uplink != downlink && !has_set("network.bandwidth") {
        let network = points.first().map_or(&scenario.network, |point| &point.scenario.network);
        let (other, rate) = match uplink {
            true => ("downlink", network.downlink),
            false => ("uplink", network.uplink),
        };
        notes.insert(format!("network.{other} stays {rate}; network.bandwidth sets both"));
    }
    if has_set("network.latency") && points.iter().all(|point| point.scenario.network.regions.is_some()) {
        let note = "network.latency changes no path: network.regions has the latencies of this scenario";
        notes.insert(note.to_owned());
    }
    let source = source.to_owned();
    if !problems.is_empty() {
        return Err(ScenarioError { source, problems });
    }
    let notes = notes.into_iter().collect();
    let file = if builtin(&source).is_some() { String::new() } else { text.to_owned() };
    let mut loaded =
        Loaded { source, scenario, text: String::new(), file, inputs, points, notes, changes, advisory };
    loaded.write()?;
    Ok(loaded)
}

impl Loaded {
    /// Returns an error about a key of a section, with its line if the file sets it.
    pub fn error(&self, section: &str, key: &str, message: &str) -> String {
        let table: toml::Table = self.file.parse().unwrap_or_default();
        let name = key.split('.').next().unwrap_or_default();
        let is_set = |section: &toml::Table| section.contains_key(key) || section.contains_key(name);
        let is_of_file = table.get(section).and_then(toml::Value::as_table).is_some_and(is_set);
        let line = line_of(&self.file, &format!("{section}.{key}")).filter(|_| is_of_file);
        let place = line.map_or_else(String::new, |line| format!(":{line}"));
        // Keys of metrics contain dots and colons.
        let shown = if section == "expect" { format!("\"{key}\"") } else { key.to_owned() };
        let mut problem = Problem { key: None, line, message: message.to_owned() };
        problem.quote(&self.file);
        format!("{}{place}: {section}.{shown}: {}", self.source, problem.message)
    }

    /// Returns true if no changed key makes a published figure a figure of something else. Other
    /// values of a sweep leave those alone that name theirs.
    pub fn meets_conditions(&self, figure: &PublishedFigure) -> bool {
        let is_harmless = |change: &Change| !figure.at.is_empty() && change.key.starts_with("sweep.");
        self.changes.iter().all(is_harmless)
    }

    /// Renders the text again after a change of the scenario.
    ///
    /// # Errors
    /// A value is outside of the range of TOML.
    pub fn write(&mut self) -> Result<(), ScenarioError> {
        self.text = self.text_with(&FileNames::new())?;
        Ok(())
    }

    /// Renders the text with other names of files.
    ///
    /// # Errors
    /// A value is outside of the range of TOML.
    pub fn text_with(&self, names: &FileNames) -> Result<String, ScenarioError> {
        written(&self.scenario, &self.points, names)
            .map_err(|error| ScenarioError::one(&self.source, format!("cannot be written as TOML: {error}")))
    }

    /// The files that the points need, each once, as pairs of key and name.
    pub fn files(&self) -> BTreeSet<(&'static str, String)> {
        let all = self.points.iter().flat_map(|point| point.scenario.files());
        all.map(|(key, file)| (key, file.to_owned())).collect()
    }
}

/// The values of a sweep at a point.
type Swept<'a> = &'a [(String, toml::Value)];

/// The problems of points, each once, with the runs and the values of the sweep that have it.
type Faults<'a> = IndexMap<Problem, (IndexSet<&'a str>, IndexSet<usize>)>;

/// Returns the problems of points. Those that not all runs, or not all values of the sweep have, name one
/// of these and the number of the others.
fn problems(faults: Faults<'_>, runs: usize, combinations: &[Vec<(String, toml::Value)>]) -> Vec<Problem> {
    let others = |count: usize| if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    let named = |(problem, (of_runs, swept)): (Problem, (IndexSet<&str>, IndexSet<usize>))| {
        let mut places = Vec::new();
        if let Some(run) = of_runs.first().filter(|_| of_runs.len() < runs) {
            places.push(format!("run \"{run}\"{}", others(of_runs.len())));
        }
        if let Some(at) = swept.first().filter(|_| swept.len() < combinations.len()) {
            let values = combinations[*at].iter().map(|(key, value)| format!("{key} = {value}"));
            let values = values.collect::<Vec<_>>().join(", ");
            places.push(format!("the sweep at {values}{}", others(swept.len())));
        }
        if places.is_empty() {
            return problem;
        }
        Problem { message: format!("in {}: {}", places.join(" and "), problem.message), ..problem }
    };
    faults.into_iter().map(named).collect()
}

/// The layers below those of points: the file and the command line.
struct Base<'a> {
    source: &'a str,
    text: &'a str,
    overrides: &'a Overrides,
    /// Without runs and the sweep.
    table: toml::Table,
    scenario: &'a Scenario,
    forms: Forms,
}

impl Base<'_> {
    fn axes(&self) -> &[Axis] {
        self.scenario.sweep.as_ref().map_or(&[], |sweep| &sweep.axis)
    }

    /// Reads the scenario of a point. Returns it with its table.
    fn at(&self, values: Swept<'_>, run: &RunSpec) -> Result<(Scenario, toml::Table), ScenarioError> {
        let plain = |scenario| Scenario { runs: Vec::new(), sweep: None, ..scenario };
        let mut table = self.table.clone();
        if values.is_empty() && run.set.is_empty() {
            return Ok((plain(self.scenario.clone()), table));
        }
        let swept: Layer<'_> = values.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let set: Layer<'_> = run.set.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let others = swept.iter().chain(&set).try_for_each(|(key, _)| section_of_other(key, self.scenario));
        let merged = others.and_then(|()| merge(&mut table, swept, &self.overrides.set, &self.forms));
        let merged = merged.and_then(|()| merge(&mut table, set, &self.overrides.set, &self.forms));
        let read = merged.and_then(|()| Scenario::from_table(&table));
        let scenario = read.map_err(|error| self.wrong(error, values, run))?;
        Ok((plain(scenario), table))
    }

    /// Returns an error of a point with the run or the sweep that sets the key.
    fn wrong(&self, error: Mismatch, values: Swept<'_>, run: &RunSpec) -> ScenarioError {
        let is_meant = |own: &str| is_within(&error.key, own) || is_within(own, &error.key);
        let (key, place, path) = if let Some(key) = run.set.keys().rfind(|key| is_meant(key)) {
            let at = self.scenario.runs.iter().position(|other| other.name == run.name).unwrap_or(0);
            (key, format!("run \"{}\"", run.name), format!("run.{at}.set.{key}"))
        } else if let Some(at) = values.iter().rposition(|(key, _)| is_meant(key)) {
            (&values[at].0, "the sweep".to_owned(), format!("sweep.axis.{at}.values"))
        } else {
            return ScenarioError::of(self.source, Problem::at(self.text, &error.key, error.message));
        };
        let below = if *key == error.key { String::new() } else { format!("{}: ", error.key) };
        let message = format!("in {place}: {below}{}", error.message);
        let line = line_of(self.text, &path);
        ScenarioError::of(self.source, Problem { key: Some(key.clone()), line, message })
    }

    /// Reads the scenario with one value of an axis and without runs.
    fn with(&self, axis: &Axis, value: &toml::Value) -> Result<Scenario, ScenarioError> {
        let values = [(axis.key.clone(), value.clone())];
        self.at(&values, &RunSpec::default()).map(|(scenario, _)| scenario)
    }

    /// Returns an error about an axis, which is of the command line or of the file.
    fn axis_error(&self, place: usize, message: &str) -> ScenarioError {
        let key = &self.axes()[place].key;
        if self.overrides.axes.iter().any(|(own, _)| own == key) {
            return flag(self.source, &self.overrides.origin.grid(key), message);
        }
        let of_axis = format!("sweep.axis.{place}.key");
        ScenarioError::of(self.source, Problem::at(self.text, &of_axis, format!("{key}: {message}")))
    }

    /// Finds keys of the command line and axes that runs override. Returns a note for each, or an error
    /// if all runs override it.
    fn hidden(&self, runs: &[RunSpec]) -> Result<BTreeSet<String>, ScenarioError> {
        let Overrides { set, origin, .. } = self.overrides;
        let mut notes = BTreeSet::new();
        for (key, value) in set {
            let (subject, wanted) = (origin.set(key, value), parse_value(value));
            if let Some(place) = self.axes().iter().position(|axis| axis.key == *key) {
                let only = origin.axis(place, &wanted);
                let message = format!(
                    "would have no effect: the key is an axis of the sweep; to use only this value, {only}"
                );
                return Err(flag(self.source, &subject, &message));
            }
            let own = overriding(runs, key, &[wanted]);
            if own.len() == runs.len() {
                return Err(flag(self.source, &subject, &no_effect(&own, *origin)));
            }
            notes.extend(note(&subject, &own));
        }
        for (place, axis) in self.axes().iter().enumerate() {
            let own = overriding(runs, &axis.key, &axis.values);
            if own.len() == runs.len() {
                // A wrong value is an error also if all runs replace it.
                axis.values.iter().try_for_each(|value| self.with(axis, value).map(drop))?;
                return Err(self.axis_error(place, &no_effect(&own, *origin)));
            }
            notes.extend(note(&format!("the axis {}", axis.key), &own));
        }
        Ok(notes)
    }

    /// Refuses an axis whose values all give the same scenario in all runs. `points` have the order of
    /// [`combinations`], then of `runs` runs, then of seeds.
    fn find_idle_axis(&self, points: &[Point], runs: usize) -> Result<(), ScenarioError> {
        let seeds = self.scenario.scenario.seeds.len();
        let built: Vec<&Point> = points.iter().step_by(seeds.max(1)).collect();
        // The number of built scenarios between two neighbouring values of an axis.
        let mut every = built.len();
        for (place, axis) in self.axes().iter().enumerate() {
            every /= axis.values.len();
            let is_same = |at: usize| {
                let first = at - every * (at / every % axis.values.len());
                at == first || built[at].scenario == built[first].scenario
            };
            let [one, .., other] = axis.values.as_slice() else { continue };
            if !(0..built.len()).all(is_same) {
                continue;
            }
            // Without runs and other axes, only the values themselves can be the reason.
            let alone = |value| self.with(axis, value).ok();
            let first = alone(one);
            let message = if axis.values.iter().all(|value| alone(value) == first) {
                format!("would have no effect: its values, {one} to {other}, are the same; remove the axis")
            } else {
                let names: Vec<&str> = built.iter().take(runs).map(|point| point.run.as_str()).collect();
                let (names, key) = (names.join(", "), &axis.key);
                format!("would have no effect: other keys of {names} replace {key}; remove the axis")
            };
            return Err(self.axis_error(place, &message));
        }
        Ok(())
    }
}

/// The keys that differ between the scenario of a file and the one to run, without seeds, expectations
/// and additional runs.
fn changes(source: &str, shipped: &Scenario, scenario: &Scenario) -> Result<Vec<Change>, ScenarioError> {
    if scenario == shipped {
        return Ok(Vec::new());
    }
    let table = |scenario: &Scenario| {
        let mut table = scenario.to_toml().map_err(|message| ScenarioError::one(source, message))?;
        for section in ["scenario", "expect", "run"] {
            table.remove(section);
        }
        let names: BTreeSet<&str> = shipped.runs.iter().map(|run| run.name.as_str()).collect();
        let is_shipped = |run: &&RunSpec| names.contains(run.name.as_str());
        let runs = scenario.runs.iter().filter(is_shipped);
        let runs = runs.map(|run| (run.name.clone(), toml::Value::Table(run.set.clone())));
        table.insert("run".to_owned(), toml::Value::Table(runs.collect()));
        // One key for each axis, of which a scenario may have none.
        let axes = scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
        let axes = axes.map(|axis| (axis.key.clone(), axis.values.clone().into()));
        table.insert("sweep".to_owned(), toml::Value::Table(axes.collect()));
        Ok(table)
    };
    let (before, after) = (table(shipped)?, table(scenario)?);
    let mut changes = Vec::new();
    compare(&before, &after, "", &mut changes);
    // A file replaces these values.
    changes.retain(|change| !is_replaced(&change.key, scenario.family(), &after));
    let (before, after) = (in_effect(shipped), in_effect(scenario));
    // Runs and points of a sweep can have other values in effect than the scenario without them.
    let is_single = shipped.runs.is_empty() && scenario.sweep.iter().all(|sweep| sweep.axis.is_empty());
    for Change { key, before: old, after: new } in &mut changes {
        let is_known = |old: &toml::Value| is_single || Some(old) != new.as_ref();
        *old = old.take().or_else(|| before.get(key).cloned().filter(is_known));
        *new = new.take().or_else(|| after.get(key).cloned());
    }
    Ok(changes)
}

fn compare(before: &toml::Table, after: &toml::Table, prefix: &str, changes: &mut Vec<Change>) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let path = format!("{prefix}{key}");
        match (before.get(key), after.get(key)) {
            (before, after) if before == after => {}
            (Some(toml::Value::Table(before)), Some(toml::Value::Table(after))) => {
                compare(before, after, &format!("{path}."), changes);
            }
            // The values in effect of a protocol are those of its keys, not of its tables.
            (None, Some(toml::Value::Table(after)))
                if is_within(&path, "protocol") && !after.contains_key("kind") =>
            {
                compare(&toml::Table::new(), after, &format!("{path}."), changes);
            }
            (before, after) => {
                changes.push(Change { key: path, before: before.cloned(), after: after.cloned() });
            }
        }
    }
}

/// Number of points with problems after which no more are looked at.
const FAULTY_MAX: usize = 1_000;

/// Rejects keys, and texts below a key, with a control character.
fn control(value: &toml::Value, key: &str) -> Result<(), Mismatch> {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    let wrong = |key: &str, message: Option<String>| {
        message.map_or(Ok(()), |message| Err(Mismatch::of(message).below(key)))
    };
    match value {
        toml::Value::String(value) if key.ends_with(".name") || key.contains(".names.") => {
            wrong(key, text::control_of_name(value))
        }
        toml::Value::String(value) => wrong(key, text::control(value)),
        toml::Value::Array(list) => {
            list.iter().enumerate().try_for_each(|(at, value)| control(value, &below(&at.to_string())))
        }
        toml::Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            wrong(&below(name), text::control_of_name(name))?;
            control(value, &below(name))
        }),
        _ => Ok(()),
    }
}

/// Rejects a scenario with too many points, before any of them is made.
fn count_points(source: &str, scenario: &Scenario, runs: usize) -> Result<(), ScenarioError> {
    let axes: Vec<&Axis> = scenario.sweep.iter().flat_map(|sweep| &sweep.axis).collect();
    let seeds = scenario.scenario.seeds.len();
    let factors = axes.iter().map(|axis| axis.values.len()).chain([runs, seeds]);
    let count = factors.fold(1_u128, |count, factor| count.saturating_mul(factor as u128));
    if count <= POINTS_MAX as u128 {
        return Ok(());
    }
    let values: Vec<String> =
        axes.iter().take(8).map(|axis| format!("{} values of {}", axis.values.len(), axis.key)).collect();
    let values: String = values.iter().map(|values| format!("{values}, ")).collect();
    let others = if axes.len() > 8 { format!("{} more axes, ", axes.len() - 8) } else { String::new() };
    let message = format!(
        "has {count} points ({values}{others}{runs} runs, {seeds} seeds); allowed are at most {POINTS_MAX}"
    );
    Err(ScenarioError::one(source, message))
}

fn read(name: &str) -> Result<(String, String, Inputs), ScenarioError> {
    if let Some(builtin) = builtin(name) {
        return Ok((name.to_owned(), builtin.text.to_owned(), Inputs::default()));
    }
    let path = Path::new(name);
    match file::read_named_text(path, TEXT_BYTES_MAX) {
        Ok(text) => {
            let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
            Ok((name.to_owned(), text, Inputs::directory(directory)))
        }
        // Something is there, so its name is right.
        Err(error) if path.exists() => {
            let message = match error.kind() {
                ErrorKind::InvalidData => "is not UTF-8 text; expected a scenario in TOML".to_owned(),
                _ => format!("cannot be read ({error}); expected a scenario in TOML"),
            };
            Err(ScenarioError::one(name, message))
        }
        Err(error) => {
            let names: Vec<&str> = builtins().iter().map(|builtin| builtin.name).collect();
            let run = format!("name = \"{name}\"");
            let with_run = builtins().into_iter().find(|builtin| {
                builtin.text.split("[[run]]").skip(1).any(|text| text.trim_start().starts_with(&run))
            });
            let hint = match closest(name, names.iter().copied()) {
                _ if with_run.is_some() => {
                    let scenario = with_run.map_or("", |builtin| builtin.name);
                    format!("\"{name}\" is a run of {scenario}: `samara run {scenario} --only {name}`")
                }
                Some(name) => format!("did you mean the built-in scenario \"{name}\"?"),
                None => "`samara list` shows the built-in scenarios".to_owned(),
            };
            Err(ScenarioError::one(name, format!("neither a built-in scenario nor a file ({error}); {hint}")))
        }
    }
}

/// Checks the text of a scenario file by itself: its sections and keys, and the types of the values.
pub fn check_text(source: &str, text: &str) -> Result<(), ScenarioError> {
    read_file(source, text, &parse(source, text)?).map(drop)
}

/// Reads the table of a file. Errors quote the line.
fn read_file(source: &str, text: &str, table: &toml::Table) -> Result<Scenario, ScenarioError> {
    Scenario::from_table(table).map_err(|error| {
        let mut problem = Problem::at(text, &error.key, error.message);
        problem.quote(text);
        ScenarioError::of(source, problem)
    })
}

fn parse(source: &str, text: &str) -> Result<toml::Table, ScenarioError> {
    samara_document::parse::<toml::Table>(text).map_err(|mut problem| {
        problem.quote(text);
        ScenarioError::of(source, problem)
    })
}

/// Gives a scenario without a name that of its file, and one without a title its name.
fn name_after_file(source: &str, table: &mut toml::Table) {
    let about = table.entry("scenario").or_insert_with(|| toml::Table::new().into());
    let Some(about) = about.as_table_mut() else { return };
    let stem = Path::new(source).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let stem: String = stem.iter().flat_map(|stem| stem.chars()).map(plain).collect();
    let name = about.entry("name").or_insert_with(|| stem.into()).clone();
    about.entry("title").or_insert(name);
}

fn flag(source: &str, set: &str, message: &str) -> ScenarioError {
    ScenarioError::one(source, format!("{set}: {message}"))
}

/// Refuses to set a key of another family.
fn section_of_other(key: &str, scenario: &Scenario) -> Result<(), Mismatch> {
    let own = scenario.family().section;
    let section = key.split('.').next().unwrap_or_default();
    if section == own || family::all().iter().all(|family| family.section != section) {
        return Ok(());
    }
    let message = format!(
        "the scenario has [{own}], not [{section}]; `samara show` lists its keys, and `samara list` the scenarios of each family"
    );
    Err(Mismatch::of(message).below(key))
}

/// Sets keys of the command line in the table of a file.
fn set_keys(
    table: &mut toml::Table,
    overrides: &Overrides,
    (shipped, forms): (&Scenario, &Forms),
) -> Result<(), Mismatch> {
    let mut layer = Vec::new();
    for (key, value) in &overrides.set {
        let wrong = |message: String| Mismatch::of(message).below(key);
        section_of_other(key, shipped)?;
        if !value.is_empty() {
            layer.push((key.as_str(), value_of(key, value, forms).map_err(wrong)?));
        } else if !unset_key(table, key).map_err(wrong)? {
            let absent = "removes the key, but the scenario does not set it; expected a value";
            return Err(wrong(absent.to_owned()));
        }
    }
    if !overrides.seeds.is_empty() {
        let seed = |seed: &u64| {
            let number = i64::try_from(*seed).map(toml::Value::Integer);
            number.map_err(|_| Mismatch::of(format!("the seed {seed} is above {}", i64::MAX)))
        };
        let seeds: Vec<_> = overrides.seeds.iter().map(seed).collect::<Result<_, _>>()?;
        layer.push(("scenario.seeds", seeds.into()));
    }
    let layer = layer.iter().map(|(key, value)| (*key, value)).collect();
    merge(table, layer, &[], forms).map_err(|error| match hints::of_place(&error.key, table, forms) {
        Some(place) => Mismatch { message: format!("{}; {place}", error.message), ..error },
        None => error,
    })
}

/// Returns a value of the command line: the text itself where the key has a text, such as a title that
/// is a number, and TOML otherwise.
fn value_of(key: &str, text: &str, forms: &Forms) -> Result<toml::Value, String> {
    Ok(match parse_value(text) {
        toml::Value::String(_) if text.starts_with(['[', '{']) => {
            let list = samara_document::parse::<toml::Table>(&format!("value = {text}"));
            return Err(list.err().map(|problem| problem.message).unwrap_or_default());
        }
        value @ (toml::Value::String(_) | toml::Value::Array(_) | toml::Value::Table(_)) => value,
        _ if forms.is_text(key) => text.into(),
        value => value,
    })
}

/// Adds axes of the sweep, or replaces the values of those with the same key.
fn add_axes(scenario: &mut Scenario, added: &[GridAxis]) -> Result<(), Mismatch> {
    for (at, (key, values)) in added.iter().enumerate() {
        section_of_other(key, scenario)?;
        if added[..at].iter().any(|(other, _)| other == key) {
            return Err(Mismatch::of("is an axis twice; give all of its values once".to_owned()).below(key));
        }
        let axes = &mut scenario.sweep.get_or_insert_with(|| Sweep { axis: Vec::new() }).axis;
        match axes.iter_mut().find(|axis| axis.key == *key) {
            Some(axis) => axis.values.clone_from(values),
            None => axes.push(Axis { key: key.clone(), label: String::new(), values: values.clone() }),
        }
    }
    Ok(())
}

/// Adds runs. A scenario without runs becomes one of them.
fn add_runs(scenario: &mut Scenario, added: &[RunSpec]) -> Result<(), Mismatch> {
    if scenario.runs.is_empty() && !added.is_empty() {
        scenario.runs.push(RunSpec { name: scenario.scenario.name.clone(), ..RunSpec::default() });
    }
    for run in added {
        if scenario.runs.iter().any(|other| other.name == run.name) {
            let message = format!("duplicate run \"{}\": the scenario has a run with this name", run.name);
            return Err(Mismatch::of(message));
        }
        scenario.runs.push(run.clone());
    }
    Ok(())
}

fn chosen(
    source: &str,
    scenario: &Scenario,
    only: &[String],
    origin: Origin,
) -> Result<Vec<RunSpec>, ScenarioError> {
    let mut runs = scenario.runs.clone();
    if runs.is_empty() {
        runs.push(RunSpec { name: scenario.scenario.name.clone(), ..RunSpec::default() });
    }
    for name in only {
        if !runs.iter().any(|run| run.name == *name) {
            let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            let meant = closest(name, names.iter().copied());
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            let found = if name.is_empty() { "the name of a run is empty" } else { "there is no such run" };
            let message = format!("{found}; the runs are {}{hint}", names.join(", "));
            return Err(flag(source, &origin.only(name), &message));
        }
    }
    if !only.is_empty() {
        runs.retain(|run| only.contains(&run.name));
    }
    Ok(runs)
}

/// Rejects a run that cannot be distinguished from others in results, a run that sets a key twice, and
/// an axis without values.
fn ambiguous(scenario: &Scenario) -> Result<(), Mismatch> {
    let wrong = |key: String, message: String| Err(Mismatch::of(message).below(key));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut names = BTreeSet::new();
    for (at, RunSpec { name, .. }) in scenario.runs.iter().enumerate() {
        let key = format!("run.{at}.name");
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            let message = format!("is \"{name}\"; results directories need letters, digits, -, _ and . only");
            return wrong(key, message);
        }
        if !names.insert(name) {
            return wrong(key, format!("is \"{name}\", as of another run; each run needs a name of its own"));
        }
    }
    for (at, RunSpec { name, set, .. }) in scenario.runs.iter().enumerate() {
        if let Some(twice) = set_twice(set) {
            let message = format!("run \"{name}\" sets it as a dotted key and in a table; keep one of them");
            return wrong(format!("run.{at}.set.{twice}"), message);
        }
    }
    let (axes, mut keys) = (scenario.sweep.iter().flat_map(|sweep| &sweep.axis), BTreeSet::new());
    for (at, Axis { key, values, .. }) in axes.enumerate() {
        if values.is_empty() {
            let message = format!("is empty; expected at least one value of {key}");
            return wrong(format!("sweep.axis.{at}.values"), message);
        }
        if !keys.insert(key) {
            let message = format!("is \"{key}\", as of another axis; give all of its values in one axis");
            return wrong(format!("sweep.axis.{at}.key"), message);
        }
    }
    Ok(())
}

/// Returns a key that a run sets both as a dotted key and in a nested table.
fn set_twice(set: &toml::Table) -> Option<String> {
    let mut rows = Vec::new();
    set.iter().for_each(|(key, value)| flatten(key, value, &mut rows));
    let mut seen = BTreeSet::new();
    rows.into_iter().map(|(key, _)| key).find(|key| !seen.insert(key.clone()))
}

/// The runs that set a key, or a table around it, so that some of these values have no effect.
fn overriding(runs: &[RunSpec], key: &str, wanted: &[toml::Value]) -> Vec<String> {
    let own = |run: &RunSpec| {
        let own = wanted.iter().find_map(|wanted| own_value(run, key, wanted))?;
        Some(format!("\"{}\" ({own})", run.name))
    };
    runs.iter().filter_map(own).collect()
}

fn note(subject: &str, own: &[String]) -> Option<String> {
    let own = Some(own.join(", ")).filter(|own| !own.is_empty())?;
    Some(format!("{subject} does not affect runs that set this key: {own}"))
}

fn no_effect(own: &[String], origin: Origin) -> String {
    let remedy = match origin {
        Origin::CommandLine => "select others with --only, or change a copy of the scenario (`samara show`)",
        Origin::Python => "select others with `only`, or change the run of a `samara.Scenario`",
    };
    format!("would have no effect: every selected run sets this key: {}; {remedy}", own.join(", "))
}

/// The value that a run sets in place of `wanted`: the key itself, or a table around it.
fn own_value(run: &RunSpec, key: &str, wanted: &toml::Value) -> Option<String> {
    let covering = run.set.iter().filter(|(own, _)| is_within(key, own));
    let (own, value) = covering.max_by_key(|(own, _)| own.len())?;
    let below = &key[own.len()..];
    let effective = below.split('.').skip(1).try_fold(value, |value, part| value.get(part));
    let shown = if below.is_empty() { plain(value) } else { format!("{own} = {value}") };
    (effective.map(plain) != Some(plain(wanted))).then_some(shown)
}

fn combinations(scenario: &Scenario) -> Vec<Vec<(String, toml::Value)>> {
    let axes = scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    axes.fold(vec![Vec::new()], |all, axis| {
        let with = |values: &Vec<_>| {
            let with =
                |value: &toml::Value| [values.clone(), vec![(axis.key.clone(), value.clone())]].concat();
            axis.values.iter().map(with).collect::<Vec<_>>()
        };
        all.iter().flat_map(with).collect()
    })
}
