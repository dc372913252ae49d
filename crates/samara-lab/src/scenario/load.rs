//! From a file and the command line to the runs that are to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use samara_engine::outbox::Policies;
use serde::Deserialize;

use super::error::{Problem, ScenarioError, closest, line_of};
use super::resolve::{clear_superseded, resolve, written};
use super::{RunSpec, Scenario, builtin, builtins, check};
use crate::data::Inputs;
use samara_gossipsub::config::Parameters;

/// One run: a scenario without variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The name of the run.
    pub run: String,
    /// What reports call it.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// The series that it is drawn with.
    pub series: String,
    /// The values of the sweep's keys.
    pub sweep: BTreeMap<String, toml::Value>,
    /// The seed.
    pub seed: u64,
    /// Everything.
    pub scenario: Scenario,
}

impl Point {
    /// The name of the run with the values of the sweep.
    pub fn name(&self) -> String {
        let values: Vec<String> =
            self.sweep.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        if values.is_empty() { self.run.clone() } else { format!("{} {}", self.run, values.join(" ")) }
    }
}

/// A value as one would write it on the command line.
pub(crate) fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A scenario that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The file, or the name of the built-in scenario.
    pub source: String,
    /// The scenario with what the command line sets.
    pub scenario: Scenario,
    /// The same as TOML.
    pub text: String,
    /// Where the files come from that it names.
    pub inputs: Inputs,
    /// All combinations of sweep values, runs and seeds, in this order.
    pub points: Vec<Point>,
    /// What was done with its files that whoever wrote them may not expect; for the user to see.
    pub notes: Vec<String>,
}

/// The key of an axis and its values.
pub type GridAxis = (String, Vec<toml::Value>);

/// What is to be different from what a scenario says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Keys and their values, as on the command line.
    pub set: Vec<(String, String)>,
    /// The names of the runs to keep; all, if empty.
    pub only: Vec<String>,
    /// The seeds; the scenario's, if empty.
    pub seeds: Vec<u64>,
    /// Axes of the sweep, key and values: an axis that the scenario has gets these values, others come behind its own.
    pub axes: Vec<GridAxis>,
    /// Variants behind those of the scenario; one without any stays a run of its own beside them.
    pub runs: Vec<RunSpec>,
    /// The policies that schedules of the kind custom can name.
    pub policies: Policies,
}

/// Loads a scenario: the name of a built-in one, or the path of a file. `set` are pairs of keys and values, `only` the names
/// of the runs to keep (all, if empty), `seed` replaces the seeds.
///
/// # Errors
/// Everything that is wrong with it, with key and line.
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

/// Loads a scenario with what is to be different: as [`load`], with any number of seeds and with axes of a sweep.
///
/// # Errors
/// Everything that is wrong with it, with key and line.
pub fn load_with(name: &str, overrides: &Overrides) -> Result<Loaded, ScenarioError> {
    let (source, text, inputs) = read(name)?;
    load_source(&source, &text, inputs, overrides)
}

/// Loads a scenario from its text. Messages call it `source`; the files that it names come from `inputs`.
///
/// # Errors
/// Everything that is wrong with it, with key and line.
pub fn load_source(
    source: &str,
    text: &str,
    inputs: Inputs,
    overrides: &Overrides,
) -> Result<Loaded, ScenarioError> {
    let (source, text) = (source.to_owned(), text.to_owned());
    let Overrides { set, only, seeds, axes, runs: added, policies } = overrides;
    // First the file as it is, so that its mistakes are reported with their lines.
    let mut table = parse(&source, &text)?;
    for (key, value) in set {
        set_text(&mut table, key, value).map_err(|message| flag(&source, key, value, &message))?;
    }
    if !seeds.is_empty() {
        let seeds = seeds.iter().map(|seed| toml::Value::Integer(*seed as i64)).collect();
        let _ = set_key(&mut table, "scenario.seeds", toml::Value::Array(seeds));
    }
    for (key, values) in axes {
        set_axis(&mut table, key, values);
    }
    add_runs(&source, &mut table, added)?;
    let scenario =
        from_table(&table).map_err(|(key, message)| problem(&source, &text, &key, message))?.normalised();
    let runs = chosen(&source, &scenario, only)?;
    let mut points = Vec::new();
    let (mut problems, mut notes) = (Vec::new(), hidden(&source, &scenario, &runs, set)?);
    for values in combinations(&scenario) {
        for run in &runs {
            let (mut built, given) = build((&source, &text), &table, &values, run)?;
            if let Some(parameters) = built.find_mut::<Parameters>() {
                parameters.policies = policies.clone();
            }
            let built = match resolve(built, &given, &text, &inputs) {
                Ok(resolved) => {
                    notes.extend(resolved.notes);
                    resolved.scenario
                }
                Err(found) => {
                    problems.extend(found);
                    continue;
                }
            };
            problems.extend(check::problems(&built, &given, &text));
            for seed in &scenario.scenario.seeds {
                points.push(Point {
                    run: run.name.clone(),
                    label: if run.label.is_empty() { run.name.clone() } else { run.label.clone() },
                    description: run.description.clone(),
                    series: run.series.clone(),
                    sweep: values.iter().cloned().collect(),
                    seed: *seed,
                    scenario: built.clone(),
                });
            }
        }
    }
    let mut seen: Vec<Problem> = Vec::new();
    problems.retain(|problem| {
        let is_new = !seen.contains(problem);
        if is_new {
            seen.push(problem.clone());
        }
        is_new
    });
    if !problems.is_empty() {
        return Err(ScenarioError { source, problems });
    }
    let mut loaded =
        Loaded { source, scenario, text: String::new(), inputs, points, notes: notes.into_iter().collect() };
    loaded.write()?;
    Ok(loaded)
}

impl Loaded {
    /// Writes the scenario as TOML.
    pub(crate) fn write(&mut self) -> Result<(), ScenarioError> {
        let has_files = self.points.iter().any(|point| !point.scenario.files().is_empty());
        self.text = written(&self.scenario, has_files).map_err(|error| {
            ScenarioError::one(&self.source, format!("cannot be written as TOML: {error}"))
        })?;
        Ok(())
    }

    /// The files that its points need, each once: key and name.
    pub fn files(&self) -> BTreeSet<(&'static str, String)> {
        let all = self.points.iter().flat_map(|point| point.scenario.files());
        all.map(|(key, file)| (key, file.to_owned())).collect()
    }
}

/// The JSON Schema of scenario files.
pub fn schema() -> serde_json::Value {
    Scenario::schema()
}

fn read(name: &str) -> Result<(String, String, Inputs), ScenarioError> {
    if let Some(builtin) = builtin(name) {
        return Ok((name.to_owned(), builtin.text.to_owned(), Inputs::default()));
    }
    let path = Path::new(name);
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
            Ok((name.to_owned(), text, Inputs::directory(directory)))
        }
        Err(error) => {
            let names: Vec<&str> = builtins().iter().map(|builtin| builtin.name).collect();
            let hint = match closest(name, names.iter().copied()) {
                Some(name) => format!("did you mean the built-in scenario \"{name}\"?"),
                None => format!("the built-in scenarios are {}", names.join(", ")),
            };
            Err(ScenarioError::one(name, format!("neither a built-in scenario nor a file ({error}); {hint}")))
        }
    }
}

/// The table of a file whose values have the right types.
fn parse(source: &str, text: &str) -> Result<toml::Table, ScenarioError> {
    let table = samara_scenario::parse::<toml::Table>(text);
    let checked = table.and_then(|table| match from_table(&table) {
        Ok(_) => Ok(table),
        Err((key, message)) => {
            let line = line_of(text, &key);
            Err(Problem { key: Some(key).filter(|key| !key.is_empty()), line, message })
        }
    });
    checked.map_err(|mut problem| {
        if let Some((line, quoted)) = problem.line.and_then(|line| Some((line, text.lines().nth(line - 1)?)))
        {
            problem.message += &format!("\n  {line} | {}", quoted.trim_end());
        }
        ScenarioError { source: source.to_owned(), problems: vec![problem] }
    })
}

fn from_table(table: &toml::Table) -> Result<Scenario, (String, String)> {
    Scenario::from_table(table).map_err(|(key, message)| {
        let hint = expectation_hint(&key);
        (key, message + hint)
    })
}

/// How to write the key of an expectation, whose metric has dots of its own.
fn expectation_hint(key: &str) -> &'static str {
    if key.starts_with("expect.") {
        "; the name of a metric is in quotes: \"time_to_custody_ms.p95\" = \"< 4 s\""
    } else {
        ""
    }
}

fn problem(source: &str, text: &str, key: &str, message: String) -> ScenarioError {
    let problem = Problem { key: Some(key.to_owned()), line: line_of(text, key), message };
    ScenarioError { source: source.to_owned(), problems: vec![problem] }
}

fn flag(source: &str, key: &str, value: &str, message: &str) -> ScenarioError {
    ScenarioError::one(source, format!("--set {key}={value}: {message}"))
}

fn at_other(path: &str, key: &str) -> String {
    if path == key || path.is_empty() { String::new() } else { format!(" (at {path})") }
}

/// Reads an axis from the command line: a key and values between commas, for example `network.nodes=100,200`. Commas inside of quotes and
/// brackets do not separate values.
///
/// # Errors
/// A text that says what is wrong.
pub fn parse_axis(text: &str) -> Result<GridAxis, String> {
    let wrong =
        || format!("\"{text}\" is not KEY=VALUE,VALUE,...; expected for example network.nodes=100,200");
    let (key, list) = text.split_once('=').ok_or_else(wrong)?;
    parts(key.trim()).map_err(|_| wrong())?;
    let values: Vec<&str> = split_values(list).into_iter().map(str::trim).collect();
    if values.iter().any(|value| value.is_empty()) {
        return Err(wrong());
    }
    let values: Vec<toml::Value> = values.into_iter().map(parse_value).collect();
    match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        Some((_, twice)) => Err(format!("{}: {} is there twice", key.trim(), plain(twice))),
        None => Ok((key.trim().to_owned(), values)),
    }
}

/// The parts of a list between commas that are in no quotes and brackets.
fn split_values(list: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut from, mut parts) = (0_u32, None, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match (quote, c) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != c),
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// Gives an axis of the sweep its values; adds it if there is none with this key.
fn set_axis(table: &mut toml::Table, key: &str, values: &[toml::Value]) {
    let sweep = table.entry("sweep").or_insert_with(|| toml::Value::Table(toml::Table::new()));
    let Some(sweep) = sweep.as_table_mut() else { return };
    let axes = sweep.entry("axis").or_insert_with(|| toml::Value::Array(Vec::new()));
    let Some(axes) = axes.as_array_mut() else { return };
    let values = toml::Value::Array(values.to_vec());
    let has_key = |axis: &&mut toml::Value| axis.get("key").and_then(toml::Value::as_str) == Some(key);
    if let Some(axis) = axes.iter_mut().find(has_key).and_then(toml::Value::as_table_mut) {
        axis.insert("values".to_owned(), values);
        return;
    }
    let mut axis = toml::Table::new();
    axis.insert("key".to_owned(), toml::Value::String(key.to_owned()));
    axis.insert("values".to_owned(), values);
    axes.push(toml::Value::Table(axis));
}

/// Adds variants.
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
            return Err(ScenarioError::one(
                source,
                format!("a run \"{}\" is to be added, but there is one of this name", run.name),
            ));
        }
        let run = toml::Value::try_from(run)
            .map_err(|error| ScenarioError::one(source, format!("run \"{}\": {error}", run.name)))?;
        runs.push(run);
    }
    Ok(())
}

/// Sets a key to a value of the command line: what TOML reads it as, or the text itself where only a text fits (a title
/// that is a number).
fn set_text(table: &mut toml::Table, key: &str, text: &str) -> Result<(), String> {
    let value = parse_value(text);
    clear_superseded(table, key, &value);
    let is_plain = !value.is_table() && !value.is_array();
    set_key(table, key, value)?;
    let Err((path, message)) = from_table(table) else { return Ok(()) };
    let message = message + &at_other(&path, key);
    if !is_plain {
        return Err(message);
    }
    set_key(table, key, toml::Value::String(text.to_owned()))?;
    from_table(table).map(drop).map_err(|_| message)
}

/// A value from the command line: TOML where it reads as such, a string otherwise.
fn parse_value(text: &str) -> toml::Value {
    #[derive(Deserialize)]
    struct Holder {
        value: toml::Value,
    }
    toml::from_str::<Holder>(&format!("value = {text}"))
        .map_or_else(|_| toml::Value::String(text.to_owned()), |holder| holder.value)
}

/// The parts of a dotted key, which may be quoted as in TOML (`run.0.set."protocol.withdraw"`).
fn parts(key: &str) -> Result<Vec<String>, String> {
    // Metrics have dots, and colons after the name of a run: all of it is one key, in quotes or not.
    if let Some(metric) = key.strip_prefix("expect.").filter(|metric| !metric.is_empty()) {
        return Ok(vec!["expect".to_owned(), metric.trim_matches('"').to_owned()]);
    }
    let table: toml::Table = toml::from_str(&format!("{key} = true"))
        .map_err(|_| format!("{key} is not a key; expected section.key, for example network.nodes"))?;
    let mut parts = Vec::new();
    let mut inner = Some(&table);
    while let Some((part, value)) = inner.and_then(|table| table.iter().next()) {
        parts.push(part.clone());
        inner = value.as_table();
    }
    Ok(parts)
}

/// Sets a dotted key; numbers index arrays.
fn set_key(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    let parts = parts(key)?;
    let [first, rest @ .., last] = parts.as_slice() else {
        return Err("expected section.key, for example network.nodes".to_owned());
    };
    let mut current = table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    for part in rest {
        current = step(current, part)?;
    }
    match current {
        toml::Value::Table(table) => {
            table.insert(last.clone(), value);
            Ok(())
        }
        other => {
            *step(other, last)? = value;
            Ok(())
        }
    }
}

fn step<'a>(value: &'a mut toml::Value, part: &str) -> Result<&'a mut toml::Value, String> {
    match value {
        toml::Value::Table(table) => {
            Ok(table.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new())))
        }
        toml::Value::Array(array) => {
            let len = array.len();
            part.parse::<usize>()
                .ok()
                .and_then(|index| array.get_mut(index))
                .ok_or_else(|| format!("\"{part}\" is not an index of an array of {len}"))
        }
        _ => Err(format!("\"{part}\" is below a value that has no keys")),
    }
}

fn chosen(source: &str, scenario: &Scenario, only: &[String]) -> Result<Vec<RunSpec>, ScenarioError> {
    let mut runs = scenario.runs.clone();
    if runs.is_empty() {
        runs.push(RunSpec {
            name: scenario.scenario.name.clone(),
            label: String::new(),
            description: String::new(),
            series: String::new(),
            set: toml::Table::new(),
        });
    }
    for name in only {
        if !runs.iter().any(|run| run.name == *name) {
            let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            return Err(ScenarioError::one(
                source,
                format!("--only {name}: there is no such run; the runs are {}", names.join(", ")),
            ));
        }
    }
    if !only.is_empty() {
        runs.retain(|run| only.contains(&run.name));
    }
    Ok(runs)
}

/// What the command line sets does not reach runs that set it themselves. That is told; if it reaches none, it is a mistake.
fn hidden(
    source: &str,
    scenario: &Scenario,
    runs: &[RunSpec],
    set: &[(String, String)],
) -> Result<BTreeSet<String>, ScenarioError> {
    let mut notes = BTreeSet::new();
    for (key, value) in set {
        let wanted = parse_value(value);
        let mut axes = scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
        if let Some(place) = axes.position(|axis| axis.key == *key) {
            let message = format!(
                "would have no effect: it is an axis of the sweep, whose values are used; to have this one only, --set sweep.axis.{place}.values='[{wanted}]'"
            );
            return Err(flag(source, key, value, &message));
        }
        let own: Vec<String> = runs
            .iter()
            .filter_map(|run| Some(format!("\"{}\" ({})", run.name, own_value(run, key, &wanted)?)))
            .collect();
        if own.len() == runs.len() {
            let message = format!(
                "would have no effect: every run that was chosen sets it itself: {}; choose others with --only, or change a copy of the scenario (`samara show`)",
                own.join(", ")
            );
            return Err(flag(source, key, value, &message));
        }
        if !own.is_empty() {
            notes.insert(format!(
                "--set {key}={value} does not reach runs that set it themselves: {}",
                own.join(", ")
            ));
        }
    }
    Ok(notes)
}

/// The keys that a run sets, in the order in which they are set: a table comes before its keys, and the kind of the protocol
/// before all others.
fn in_order(run: &RunSpec) -> Vec<(&String, &toml::Value)> {
    let mut set: Vec<(&String, &toml::Value)> = run.set.iter().collect();
    set.sort_by_key(|(key, _)| (*key != "protocol.kind", *key));
    set
}

/// What a run sets in the place of `wanted`: the key itself, or a table around it.
fn own_value(run: &RunSpec, key: &str, wanted: &toml::Value) -> Option<String> {
    let set = in_order(run).into_iter();
    let set = set.filter_map(|(own, value)| Some((own, value, key.strip_prefix(own.as_str())?)));
    let mut covering = set.filter(|(_, _, below)| below.is_empty() || below.starts_with('.'));
    let (own, value, below) = covering.next_back()?;
    let effective = below.split('.').skip(1).try_fold(value, |value, part| value.get(part));
    let shown = if below.is_empty() { plain(value) } else { format!("{own} = {value}") };
    (effective.map(plain) != Some(plain(wanted))).then_some(shown)
}

/// All combinations of the values of a sweep.
fn combinations(scenario: &Scenario) -> Vec<Vec<(String, toml::Value)>> {
    let mut all = vec![Vec::new()];
    for axis in scenario.sweep.iter().flat_map(|sweep| &sweep.axis) {
        all = all
            .into_iter()
            .flat_map(|values: Vec<(String, toml::Value)>| {
                axis.values.iter().map(move |value| {
                    let mut values = values.clone();
                    values.push((axis.key.clone(), value.clone()));
                    values
                })
            })
            .collect();
    }
    all
}

fn build(
    (source, text): (&str, &str),
    base: &toml::Table,
    values: &[(String, toml::Value)],
    run: &RunSpec,
) -> Result<(Scenario, toml::Table), ScenarioError> {
    let mut table = base.clone();
    let set = in_order(run).into_iter().map(|(key, value)| (key, value, format!("run \"{}\"", run.name)));
    let swept = values.iter().map(|(key, value)| (key, value, "sweep".to_owned()));
    for (key, value, place) in swept.chain(set) {
        clear_superseded(&mut table, key, value);
        set_key(&mut table, key, value.clone())
            .and_then(|()| from_table(&table).map(drop).map_err(|(_, message)| message))
            .map_err(|message| {
                let line = text.lines().position(|line| line.contains(key.as_str())).map(|line| line + 1);
                let message = format!("in {place}, = {}: {message}", value);
                ScenarioError {
                    source: source.to_owned(),
                    problems: vec![Problem { key: Some(key.clone()), line, message }],
                }
            })?;
    }
    let scenario = from_table(&table).map_err(|(key, message)| problem(source, text, &key, message))?;
    Ok((Scenario { runs: Vec::new(), sweep: None, ..scenario }.normalised(), table))
}

impl Scenario {
    /// Has both rates in the place of `network.bandwidth`.
    fn normalised(mut self) -> Self {
        if let Some(rate) = self.network.bandwidth.take() {
            self.network.uplink = rate;
            self.network.downlink = rate;
        }
        self
    }
}
