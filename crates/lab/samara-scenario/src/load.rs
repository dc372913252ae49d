//! Loads scenarios: from a file and the command line to a list of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use samara_document::keys::{GridAxis, is_within, parse_value, plain, set_key, unset_key};
use samara_document::{Inputs, Problem, ScenarioError, closest, file, text};
use samara_engine::outbox::Policies;

use crate::follow::{limit_links, moved_sizes};
use crate::resolve::{BOTH_RATES, clear_superseded, is_replaced, resolve, written};
use crate::{Axis, PublishedFigure, RunSpec, Scenario, builtin, builtins, check, family, hints};

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
    /// The value of the file, with its defaults; absent if the key has none.
    pub before: Option<toml::Value>,
    /// The new value; absent if the key no longer applies.
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
    // Checks the unchanged file first, so that errors in it have their lines.
    let mut table = parse(source, text)?;
    name_after_file(source, &mut table);
    let shipped = from_table(&table).map_err(|(key, message)| quoted(source, text, &key, message))?;
    // Keys that change others come first, so that the more precise key wins.
    let rank = |key: &str| match key {
        "protocol.kind" => 0,
        key if key.ends_with(".kind") || key == BOTH_RATES => 1,
        _ => 2,
    };
    let mut ordered: Vec<&(String, String)> = set.iter().collect();
    ordered.sort_by_key(|(key, _)| rank(key));
    for (key, value) in ordered {
        if let Some(message) = section_of_other(key, &shipped) {
            return Err(flag(source, &origin.set(key, value), &message));
        }
        set_text(&mut table, key, value)
            .map_err(|message| flag(source, &origin.set(key, value), &message))?;
    }
    if !seeds.is_empty() {
        let number = |seed: &u64| {
            let number = i64::try_from(*seed).map(toml::Value::Integer);
            number.map_err(|_| ScenarioError::one(source, format!("the seed {seed} is above {}", i64::MAX)))
        };
        let seeds = seeds.iter().map(number).collect::<Result<_, _>>()?;
        let _ = set_key(&mut table, "scenario.seeds", toml::Value::Array(seeds));
    }
    for (at, (key, values)) in axes.iter().enumerate() {
        if let Some(message) = section_of_other(key, &shipped) {
            return Err(flag(source, key, &message));
        }
        if axes[..at].iter().any(|(other, _)| other == key) {
            let message = "is an axis twice; give all of its values once";
            return Err(flag(source, key, message));
        }
        set_axis(&mut table, key, values);
    }
    add_runs(source, &mut table, added)?;
    if let Some((key, message)) = control(&toml::Value::Table(table.clone()), "") {
        return Err(problem(source, text, &key, message));
    }
    let is_changed = !(set.is_empty() && seeds.is_empty() && axes.is_empty() && added.is_empty());
    let scenario = match is_changed {
        true => from_table(&table).map_err(|(key, message)| problem(source, text, &key, message))?,
        false => shipped.clone(),
    };
    if let Some((key, message)) = ambiguous(&scenario) {
        return Err(problem(source, text, &key, message));
    }
    let scenario = scenario.normalised();
    let changes = changes(source, &shipped.clone().normalised(), &scenario)?;
    let expected = |own: &str| own.strip_prefix("expect.").map(|own| own.trim_matches('"').to_owned());
    let is_set = |key: &str| set.iter().any(|(own, _)| expected(own).as_deref() == Some(key));
    let is_kept = |(key, text): &(&String, &String)| shipped.expect.get(*key) == Some(*text) && !is_set(key);
    let advises = !strict && !changes.is_empty() && builtin(source).is_some();
    let advisory = scenario.expect.iter().filter(|_| advises).filter(is_kept);
    let advisory = advisory.map(|(key, _)| key.clone()).collect();
    let runs = chosen(source, &scenario, only, *origin)?;
    count_points(source, &scenario, runs.len())?;
    let (mut points, mut faults) = (Vec::new(), Faults::default());
    let mut notes = hidden(source, &scenario, &runs, set, *origin)?;
    // Each point has a copy of the rest.
    ["run", "sweep"].iter().for_each(|section| drop(table.remove(*section)));
    let plain = Scenario { runs: Vec::new(), sweep: None, ..shipped.clone() }.normalised();
    let (combinations, mut faulty) = (combinations(&scenario), 0);
    'points: for values in &combinations {
        for run in &runs {
            let is_plain = !is_changed && values.is_empty() && run.set.is_empty();
            let (mut built, given) = match is_plain {
                true => (plain.clone(), table.clone()),
                false => build((source, text), &table, values, run)?,
            };
            (built.selected.protocol_kind().set_policies)(&mut built, policies);
            let found = match resolve(&mut built, &given, text, &inputs) {
                Ok(found) => {
                    notes.extend(found);
                    notes.extend(limit_links(&mut built, &given));
                    notes.extend(moved_sizes(&built));
                    let (found, note) = check::problems(&built, &given, text);
                    notes.extend(note);
                    found
                }
                Err(found) => found,
            };
            faulty += usize::from(!found.is_empty());
            faults.add(found, &run.name, values);
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
    let problems = faults.problems(runs.len(), combinations.len());
    notes.extend(hidden_axes((source, text), &scenario, &runs, (axes.as_slice(), *origin))?);
    if problems.is_empty()
        && let Some((place, runs)) = idle_axis(&scenario, &points, runs.len())
    {
        let axis = scenario.sweep.iter().flat_map(|sweep| &sweep.axis).nth(place);
        let key = axis.map_or("", |axis| axis.key.as_str());
        let values = axis.map_or(&[][..], |axis| axis.values.as_slice());
        // Without runs and other axes, only the values themselves can be the reason.
        let alone = |value: &toml::Value| {
            let values = [(key.to_owned(), value.clone())];
            build((source, text), &table, &values, &RunSpec::default()).ok().map(|(scenario, _)| scenario)
        };
        let first = values.first().and_then(alone);
        let message = match values {
            [one, .., other] if values.iter().all(|value| alone(value) == first) => {
                format!("would have no effect: its values, {one} to {other}, are the same; remove the axis")
            }
            _ => format!("would have no effect: other keys of {runs} replace {key}; remove the axis"),
        };
        return Err(axis_error((source, text), (place, key), axes, &message));
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
    let mut loaded =
        Loaded { source, scenario, text: String::new(), inputs, points, notes, changes, advisory };
    loaded.write()?;
    Ok(loaded)
}

impl Loaded {
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
        self.text = written(&self.scenario, &self.points).map_err(|error| {
            ScenarioError::one(&self.source, format!("cannot be written as TOML: {error}"))
        })?;
        Ok(())
    }

    /// The files that the points need, each once, as pairs of key and name.
    pub fn files(&self) -> BTreeSet<(&'static str, String)> {
        let all = self.points.iter().flat_map(|point| point.scenario.files());
        all.map(|(key, file)| (key, file.to_owned())).collect()
    }
}

/// The values of a sweep at a point.
type Swept<'a> = &'a [(String, toml::Value)];

/// A problem, with the runs and the values of the sweep that have it.
struct Fault<'a> {
    problem: Problem,
    runs: Vec<&'a str>,
    swept: Vec<Swept<'a>>,
}

/// The problems of points, each once.
#[derive(Default)]
struct Faults<'a>(Vec<Fault<'a>>);

impl<'a> Faults<'a> {
    fn add(&mut self, problems: Vec<Problem>, run: &'a str, values: Swept<'a>) {
        for problem in problems {
            let known = self.0.iter().position(|known| known.problem == problem);
            let at = known.unwrap_or_else(|| {
                self.0.push(Fault { problem, runs: Vec::new(), swept: Vec::new() });
                self.0.len() - 1
            });
            let Fault { runs, swept, .. } = &mut self.0[at];
            if !runs.contains(&run) {
                runs.push(run);
            }
            if !swept.contains(&values) {
                swept.push(values);
            }
        }
    }

    /// Returns the problems. Those that not all runs, or not all values of the sweep have, name one of
    /// these and the number of the others.
    fn problems(self, runs: usize, combinations: usize) -> Vec<Problem> {
        self.0.into_iter().map(|fault| fault.named(runs, combinations)).collect()
    }
}

impl Fault<'_> {
    fn named(self, runs: usize, combinations: usize) -> Problem {
        let others =
            |count: usize| if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        let Fault { problem, runs: of_runs, swept } = self;
        let mut places = Vec::new();
        if let Some(run) = of_runs.first().filter(|_| of_runs.len() < runs) {
            places.push(format!("run \"{run}\"{}", others(of_runs.len())));
        }
        if let Some(values) = swept.first().filter(|_| swept.len() < combinations) {
            let values: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            places.push(format!("the sweep at {}{}", values.join(", "), others(swept.len())));
        }
        if places.is_empty() {
            return problem;
        }
        Problem { message: format!("in {}: {}", places.join(" and "), problem.message), ..problem }
    }
}

/// The keys that differ between the scenario of a file and the one to run, without seeds, expectations
/// and additional runs.
fn changes(source: &str, shipped: &Scenario, scenario: &Scenario) -> Result<Vec<Change>, ScenarioError> {
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
            (before, after) => {
                changes.push(Change { key: path, before: before.cloned(), after: after.cloned() });
            }
        }
    }
}

/// Number of points with problems after which no more are looked at.
const FAULTY_MAX: usize = 1_000;

/// Finds a key, or a text below a key, with a control character. Returns the key and the problem.
fn control(value: &toml::Value, key: &str) -> Option<(String, String)> {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        toml::Value::String(value) if key.ends_with(".name") || key.contains(".names.") => {
            Some((key.to_owned(), text::control_of_name(value)?))
        }
        toml::Value::String(value) => Some((key.to_owned(), text::control(value)?)),
        toml::Value::Array(list) => {
            list.iter().enumerate().find_map(|(at, value)| control(value, &below(&at.to_string())))
        }
        toml::Value::Table(table) => table.iter().find_map(|(name, value)| {
            let of_name = text::control_of_name(name).map(|message| (below(name), message));
            of_name.or_else(|| control(value, &below(name)))
        }),
        _ => None,
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
    let table = parse(source, text)?;
    from_table(&table).map(drop).map_err(|(key, message)| quoted(source, text, &key, message))
}

fn parse(source: &str, text: &str) -> Result<toml::Table, ScenarioError> {
    samara_document::parse::<toml::Table>(text).map_err(|mut problem| {
        problem.quote(text);
        ScenarioError::of(source, problem)
    })
}

/// A problem of a file, with the line.
fn quoted(source: &str, text: &str, key: &str, message: String) -> ScenarioError {
    let mut problem = Problem::at(text, key, message);
    problem.quote(text);
    ScenarioError::of(source, problem)
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

fn from_table(table: &toml::Table) -> Result<Scenario, (String, String)> {
    Scenario::from_table(table).map_err(|(key, message)| {
        let message = hints::with_remedy(&key, message, table);
        (key, message)
    })
}

fn problem(source: &str, text: &str, key: &str, message: String) -> ScenarioError {
    ScenarioError::of(source, Problem { key: Some(key.to_owned()), ..Problem::at(text, key, message) })
}

fn flag(source: &str, set: &str, message: &str) -> ScenarioError {
    ScenarioError::one(source, format!("{set}: {message}"))
}

/// Explains why a key of another family cannot be set.
fn section_of_other(key: &str, scenario: &Scenario) -> Option<String> {
    let own = scenario.family().section;
    let section = key.split('.').next()?;
    (section != own && family::all().iter().any(|family| family.section == section)).then(|| {
        format!("the scenario has [{own}], not [{section}]; `samara show` lists its keys, and `samara list` the scenarios of each family")
    })
}

/// Sets the values of an axis of the sweep, which is added if it does not exist.
fn set_axis(table: &mut toml::Table, key: &str, values: &[toml::Value]) {
    let sweep = table.entry("sweep").or_insert_with(|| toml::Table::new().into());
    let Some(sweep) = sweep.as_table_mut() else { return };
    let Some(axes) = sweep.entry("axis").or_insert_with(|| toml::Value::Array(Vec::new())).as_array_mut()
    else {
        return;
    };
    let has_key = |axis: &&mut toml::Value| axis.get("key").and_then(toml::Value::as_str) == Some(key);
    let values = toml::Value::from(values.to_vec());
    match axes.iter_mut().find(has_key).and_then(toml::Value::as_table_mut) {
        Some(axis) => drop(axis.insert("values".to_owned(), values)),
        None => {
            let axis = [("key".to_owned(), key.into()), ("values".to_owned(), values)];
            axes.push(toml::Value::Table(axis.into_iter().collect()));
        }
    }
}

fn add_runs(source: &str, table: &mut toml::Table, added: &[RunSpec]) -> Result<(), ScenarioError> {
    if added.is_empty() {
        return Ok(());
    }
    let name = table.get("scenario").and_then(|about| about.get("name")).cloned();
    let runs = table.entry("run").or_insert_with(|| toml::Value::Array(Vec::new()));
    let Some(runs) = runs.as_array_mut() else { return Ok(()) };
    if runs.is_empty() {
        runs.extend(name.map(|name| toml::Value::Table([("name".to_owned(), name)].into_iter().collect())));
    }
    for run in added {
        if runs.iter().any(|other| other.get("name").and_then(toml::Value::as_str) == Some(&run.name)) {
            let message = format!("duplicate run \"{}\": the scenario has a run with this name", run.name);
            return Err(ScenarioError::one(source, message));
        }
        let run = toml::Value::try_from(run)
            .map_err(|error| ScenarioError::one(source, format!("run \"{}\": {error}", run.name)))?;
        runs.push(run);
    }
    Ok(())
}

/// Sets a key to a value of the command line: parsed as TOML, or as the text itself if only a text
/// is valid, such as a title that is a number. Without a value, removes the key.
fn set_text(table: &mut toml::Table, key: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        let is_there = unset_key(table, key)?;
        let absent = "removes the key, but the scenario does not set it; expected a value";
        return is_there.then_some(()).ok_or_else(|| absent.to_owned());
    }
    let value = parse_value(text);
    if text.starts_with(['[', '{'])
        && let Err(Problem { message, .. }) =
            samara_document::parse::<toml::Table>(&format!("value = {text}"))
    {
        return Err(message);
    }
    let before = table.clone();
    clear_superseded(table, key, &value);
    let is_plain = !value.is_table() && !value.is_array();
    set_key(table, key, value).map_err(|message| hints::with_place(key, message, table))?;
    let Err((path, message)) = from_table(table) else { return Ok(()) };
    if message.starts_with("missing key") {
        // A later value may be the missing one. If none is, the whole scenario is refused.
        return Ok(());
    }
    let at = if path == key || path.is_empty() { String::new() } else { format!(" (at {path})") };
    let mut message = message + &at;
    if message.starts_with("unknown key") && !message.contains("did you mean") {
        // The key of another section, such as `pool.nodes`.
        let name = key.rsplit('.').next().unwrap_or(key);
        message = hints::with_place(name, message, &before);
    }
    if !is_plain {
        return Err(message);
    }
    set_key(table, key, toml::Value::String(text.to_owned()))?;
    from_table(table).map(drop).map_err(|_| message)
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

/// Finds a run that cannot be distinguished from others in results, and an axis without values. Returns
/// the key and the problem.
fn ambiguous(scenario: &Scenario) -> Option<(String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut names = BTreeSet::new();
    for (at, RunSpec { name, .. }) in scenario.runs.iter().enumerate() {
        let key = format!("run.{at}.name");
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            let message = format!("is \"{name}\"; results directories need letters, digits, -, _ and . only");
            return Some((key, message));
        }
        if !names.insert(name) {
            return Some((
                key,
                format!("is \"{name}\", as of another run; each run needs a name of its own"),
            ));
        }
    }
    let (axes, mut keys) = (scenario.sweep.iter().flat_map(|sweep| &sweep.axis), BTreeSet::new());
    axes.enumerate().find_map(|(at, Axis { key, values, .. })| {
        let empty = || format!("is empty; expected at least one value of {key}");
        let twice = || format!("is \"{key}\", as of another axis; give all of its values in one axis");
        match (values.is_empty(), keys.insert(key)) {
            (true, _) => Some((format!("sweep.axis.{at}.values"), empty())),
            (_, false) => Some((format!("sweep.axis.{at}.key"), twice())),
            _ => None,
        }
    })
}

/// Finds values of the command line that runs override. Returns a note for each, or an error if all
/// runs override it.
fn hidden(
    source: &str,
    scenario: &Scenario,
    runs: &[RunSpec],
    set: &[(String, String)],
    origin: Origin,
) -> Result<BTreeSet<String>, ScenarioError> {
    let mut notes = BTreeSet::new();
    for (key, value) in set {
        let wanted = parse_value(value);
        let mut axes = scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
        if let Some(place) = axes.position(|axis| axis.key == *key) {
            let message = format!(
                "would have no effect: the key is an axis of the sweep; to use only this value, {}",
                origin.axis(place, &wanted)
            );
            return Err(flag(source, &origin.set(key, value), &message));
        }
        let own = overriding(runs, key, std::slice::from_ref(&wanted));
        if own.len() == runs.len() {
            return Err(flag(source, &origin.set(key, value), &no_effect(&own, origin)));
        }
        if !own.is_empty() {
            notes.insert(format!(
                "{} does not affect runs that set this key: {}",
                origin.set(key, value),
                own.join(", ")
            ));
        }
    }
    Ok(notes)
}

/// Finds axes of the sweep that runs override, as [`hidden`] does for values of the command line.
fn hidden_axes(
    (source, text): (&str, &str),
    scenario: &Scenario,
    runs: &[RunSpec],
    (axes, origin): (&[GridAxis], Origin),
) -> Result<BTreeSet<String>, ScenarioError> {
    let mut notes = BTreeSet::new();
    for (place, axis) in scenario.sweep.iter().flat_map(|sweep| &sweep.axis).enumerate() {
        let own = overriding(runs, &axis.key, &axis.values);
        if own.len() == runs.len() {
            let message = no_effect(&own, origin);
            return Err(axis_error((source, text), (place, &axis.key), axes, &message));
        }
        if !own.is_empty() {
            let key = &axis.key;
            notes
                .insert(format!("the axis {key} does not affect runs that set this key: {}", own.join(", ")));
        }
    }
    Ok(notes)
}

/// An error about an axis, which is of the command line or of the file.
fn axis_error(
    (source, text): (&str, &str),
    (place, key): (usize, &str),
    axes: &[GridAxis],
    message: &str,
) -> ScenarioError {
    match axes.iter().any(|(own, _)| own == key) {
        true => flag(source, &format!("--grid {key}"), message),
        false => problem(source, text, &format!("sweep.axis.{place}.key"), format!("{key}: {message}")),
    }
}

/// The runs that set a key, or a table around it, so that some of these values have no effect.
fn overriding(runs: &[RunSpec], key: &str, wanted: &[toml::Value]) -> Vec<String> {
    let own = |run: &RunSpec| {
        let own = wanted.iter().find_map(|wanted| own_value(run, key, wanted))?;
        Some(format!("\"{}\" ({own})", run.name))
    };
    runs.iter().filter_map(own).collect()
}

fn no_effect(own: &[String], origin: Origin) -> String {
    let remedy = match origin {
        Origin::CommandLine => "select others with --only, or change a copy of the scenario (`samara show`)",
        Origin::Python => "select others with `only`, or change the run of a `samara.Scenario`",
    };
    format!("would have no effect: every selected run sets this key: {}; {remedy}", own.join(", "))
}

/// Finds an axis whose values all give the same scenario in all runs. Returns its place and the names
/// of the runs. `points` have the order of [`combinations`], then of `runs` runs, then of seeds.
fn idle_axis(scenario: &Scenario, points: &[Point], runs: usize) -> Option<(usize, String)> {
    let axes: Vec<&Axis> = scenario.sweep.iter().flat_map(|sweep| &sweep.axis).collect();
    let seeds = scenario.scenario.seeds.len();
    let built: Vec<&Point> = points.iter().step_by(seeds.max(1)).collect();
    // The number of built scenarios between two neighbouring values of an axis.
    let mut every = built.len();
    for (place, axis) in axes.iter().enumerate() {
        every /= axis.values.len();
        let is_same = |at: usize| {
            let first = at - every * (at / every % axis.values.len());
            at == first || built[at].scenario == built[first].scenario
        };
        if axis.values.len() > 1 && (0..built.len()).all(is_same) {
            let names: Vec<&str> = built.iter().take(runs).map(|point| point.run.as_str()).collect();
            return Some((place, names.join(", ")));
        }
    }
    None
}

/// The keys that a run sets, in the order of setting them: a table before its keys, and its kind before
/// the others.
fn in_order(run: &RunSpec) -> Vec<(&String, &toml::Value)> {
    let mut set: Vec<(&String, &toml::Value)> = run.set.iter().collect();
    let rank = |key: &str| {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        (table.to_owned(), name != "kind", name.to_owned())
    };
    set.sort_by_cached_key(|(key, _)| rank(key));
    set
}

/// The value that a run sets in place of `wanted`: the key itself, or a table around it.
fn own_value(run: &RunSpec, key: &str, wanted: &toml::Value) -> Option<String> {
    let set = in_order(run).into_iter();
    let set = set.filter_map(|(own, value)| Some((own, value, key.strip_prefix(own.as_str())?)));
    let mut covering = set.filter(|(_, _, below)| below.is_empty() || below.starts_with('.'));
    let (own, value, below) = covering.next_back()?;
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

fn build(
    (source, text): (&str, &str),
    base: &toml::Table,
    values: &[(String, toml::Value)],
    run: &RunSpec,
) -> Result<(Scenario, toml::Table), ScenarioError> {
    let finish = |scenario: Scenario| Scenario { runs: Vec::new(), sweep: None, ..scenario }.normalised();
    let set = in_order(run).into_iter().map(|(key, value)| (key, value, format!("run \"{}\"", run.name)));
    let swept = values.iter().map(|(key, value)| (key, value, "the sweep".to_owned()));
    let all: Vec<_> = swept.chain(set).collect();
    let change = |table: &mut toml::Table, key: &String, value: &toml::Value| {
        clear_superseded(table, key, value);
        set_key(table, key, value.clone())
    };
    let mut table = base.clone();
    // A wrong value is an error also if the run replaces it.
    let is_seen = values.iter().all(|(key, value)| own_value(run, key, value).is_none());
    let is_set = is_seen && all.iter().all(|(key, value, _)| change(&mut table, key, value).is_ok());
    if is_set && let Ok(scenario) = from_table(&table) {
        return Ok((finish(scenario), table));
    }
    // Again, one key after the other, for the first that is wrong.
    let mut table = base.clone();
    for (key, value, place) in all {
        change(&mut table, key, value)
            .and_then(|()| from_table(&table).map(drop).map_err(|(_, message)| message))
            .map_err(|message| {
                let line = text.lines().position(|line| line.contains(key.as_str())).map(|line| line + 1);
                let message = format!("in {place}: {message}");
                ScenarioError::of(source, Problem { key: Some(key.clone()), line, message })
            })?;
    }
    let scenario = from_table(&table).map_err(|(key, message)| problem(source, text, &key, message))?;
    Ok((finish(scenario), table))
}

impl Scenario {
    /// Replaces `network.bandwidth` by both rates.
    fn normalised(mut self) -> Self {
        if let Some(rate) = self.network.bandwidth.take() {
            self.network.uplink = rate;
            self.network.downlink = rate;
        }
        self
    }
}
