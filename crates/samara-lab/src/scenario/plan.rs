//! From a file to all that has to be run: every run at every point of the sweep.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use toml::de::DeTable;

use super::error::{Finding, Problem, ScenarioError, written};
use super::model::{Axis, Run, Scenario};
use super::source::{Files, Source};
use super::tree::{Data, Node, Origin};
use super::{builtin, rules, schema};

/// A sweep of more points than this is taken for a mistake.
const POINTS_MAX: usize = 100_000;

/// A scenario file, with what was set over it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    source: Arc<Source>,
    tree: Node,
}

/// All that a scenario file asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario without the settings of runs and sweeps.
    pub scenario: Scenario,
    /// The points of the sweep, the last axis varying fastest; one point without coordinates if there is none.
    pub points: Vec<Point>,
}

/// A combination of the values of all axes.
#[derive(Clone, Debug)]
pub struct Point {
    /// One value of each axis.
    pub coordinates: Vec<Coordinate>,
    /// All runs, in the order of the file.
    pub runs: Vec<PlannedRun>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinate {
    /// What figures call the axis.
    pub label: String,
    /// The keys that are set, with their values.
    pub set: IndexMap<String, Value>,
}

impl Coordinate {
    /// The value as it is shown: `10 Mbit/s`.
    pub fn text(&self) -> String {
        let show = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.set.values().map(show).collect::<Vec<_>>().join(", ")
    }
}

/// One variant at one point, ready to be run with each seed.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Its name, what figures call it, what it sets, and what it is shown beside.
    pub run: Run,
    /// The scenario with everything set.
    pub scenario: Scenario,
    source: Arc<Source>,
    tree: Arc<Node>,
}

impl ScenarioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is not TOML.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let finding =
                Finding { origin: None, ..Finding::of("", format!("it cannot be read: {error}"), "") };
            let problem = finding.placed(&Source::new(&name, "", None), None);
            ScenarioError::one(Problem { key: String::new(), allowed: None, ..problem })
        })?;
        Self::parse(&name, &text, path.parent())
    }

    /// A scenario that comes along, by its name; `None` if there is none of this name.
    pub fn builtin(name: &str) -> Option<Self> {
        let text = builtin::text(name)?;
        Some(
            Self::parse(&format!("builtin:{name}"), text, None)
                .expect("scenarios that come along are well formed"),
        )
    }

    /// Reads a text. `name` is what errors call it; files that it names are looked for in `folder`.
    ///
    /// # Errors
    /// All places that are not TOML.
    pub fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Self, ScenarioError> {
        let source = Source::new(name, text, folder);
        let (table, errors) = DeTable::parse_recoverable(text);
        let syntax = |error: &toml::de::Error| {
            let origin = error.span().map(Origin::File);
            let message = format!("this is not TOML: {}", error.message());
            let finding = Finding { path: Vec::new(), origin, message, allowed: None, suggestion: None };
            finding.placed(&source, None)
        };
        match ScenarioError::all(errors.iter().map(syntax).collect()) {
            Some(error) => Err(error),
            None => Ok(Self { tree: Node::document(table.get_ref(), table.span()), source }),
        }
    }

    /// Sets a key as if it had been written in the file: `network.bandwidth=50 Mbit/s`, `run.0.name=first`. The value is
    /// TOML, or, if it is not, a text. A table adds to the one that is there, unless it has a `kind`.
    ///
    /// # Errors
    /// An assignment without "=", a key that is not one, or an item of a list that is not there.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        let origin = Origin::Set(assignment.to_owned());
        let fail = |source: &Source, path: Vec<String>, message: String| {
            let allowed = Some("KEY=VALUE, for example network.bandwidth=\"50 Mbit/s\"".to_owned());
            let origin = Some(origin.clone());
            let finding = Finding { path, origin, message, allowed, suggestion: None };
            ScenarioError::one(finding.placed(source, None))
        };
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(fail(&self.source, Vec::new(), "there is no \"=\"".to_owned()));
        };
        let path = parse_key(key).map_err(|message| fail(&self.source, Vec::new(), message))?;
        let value = parse_value(value.trim()).moved(&origin);
        self.tree.set(&path, value).map_err(|message| fail(&self.source, path.clone(), message))
    }

    /// Checks the scenario with all its runs and the whole sweep, and writes out what has to be run.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn plan(&self) -> Result<Plan, ScenarioError> {
        let (base, mut problems) = self.resolve(&self.tree, None, false);
        let (Some(scenario), true) = (base, problems.is_empty()) else {
            return Err(ScenarioError::all(problems).expect("a scenario that does not resolve has problems"));
        };
        problems.extend(self.across_runs(&scenario));
        let combinations = self.combinations(&scenario.sweep, &mut problems);
        let runs = match scenario.run.is_empty() {
            true => vec![default_run()],
            false => scenario.run.clone(),
        };
        let mut points = Vec::with_capacity(combinations.len());
        for (coordinates, tree) in combinations {
            let planned =
                runs.iter().enumerate().map(|(index, run)| self.planned(index, run, &tree, &mut problems));
            points.push(Point {
                coordinates,
                runs: planned.collect::<Vec<_>>().into_iter().flatten().collect(),
            });
            if problems.len() > 100 {
                break;
            }
        }
        match ScenarioError::all(problems) {
            Some(error) => Err(error),
            None => Ok(Plan { scenario, points }),
        }
    }

    /// A run at a point.
    fn planned(
        &self,
        index: usize,
        run: &Run,
        tree: &Node,
        problems: &mut Vec<Problem>,
    ) -> Option<PlannedRun> {
        let mut tree = tree.clone();
        let set = ["run".to_owned(), index.to_string(), "set".to_owned()];
        let entries = match self.tree.at(&set).map(|node| &node.data) {
            Some(Data::Table(entries)) => entries.as_slice(),
            _ => &[],
        };
        for (key, value) in entries {
            let path = [&set[..], std::slice::from_ref(&key.name)].concat();
            self.overlay(&mut tree, &path, &key.name, &key.origin, value, problems);
        }
        let name = (!entries.is_empty()).then_some(run.name.as_str());
        let (scenario, found) = self.resolve(&tree, name, true);
        problems.extend(found);
        let (source, tree) = (self.source.clone(), Arc::new(tree));
        scenario.map(|scenario| PlannedRun { run: run.clone(), scenario, source, tree })
    }

    /// Sets a key of a run or a sweep.
    fn overlay(
        &self,
        tree: &mut Node,
        path: &[String],
        key: &str,
        origin: &Origin,
        value: &Node,
        problems: &mut Vec<Problem>,
    ) {
        let result = parse_key(key).and_then(|parts| match parts[0].as_str() {
            "scenario" | "run" | "sweep" | "expect" | "report" => {
                Err(format!("{key:?} cannot differ between runs: it is about all of them"))
            }
            _ => tree.set(&parts, value.clone()),
        });
        if let Err(message) = result {
            let allowed = Some("keys of network, transport, gossipsub, workload and fault".to_owned());
            let origin = Some(origin.clone());
            let finding = Finding { path: path.to_vec(), origin, message, allowed, suggestion: None };
            problems.push(finding.placed(&self.source, None));
        }
    }

    /// The typed scenario, if the document is well formed, and all that is wrong with it.
    fn resolve(&self, tree: &Node, run: Option<&str>, is_run: bool) -> (Option<Scenario>, Vec<Problem>) {
        let (value, findings) = schema::check(tree);
        let placed =
            |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.placed(&self.source, run));
        if !findings.is_empty() {
            return (None, placed(findings).collect());
        }
        match serde_json::from_value::<Scenario>(value) {
            Ok(scenario) => {
                // Runs are checked each with its settings; what the file itself lacks, a run may set.
                let findings =
                    if is_run || scenario.run.is_empty() { rules::broken(&scenario) } else { Vec::new() };
                let located = findings.into_iter().map(|finding| locate(finding, tree));
                let problems = placed(located.collect()).collect();
                (Some(scenario), problems)
            }
            Err(error) => {
                let finding = Finding {
                    path: Vec::new(),
                    origin: None,
                    message: error.to_string(),
                    allowed: None,
                    suggestion: None,
                };
                (None, vec![finding.placed(&self.source, run)])
            }
        }
    }

    /// Names that must differ, and runs that expectations name.
    fn across_runs(&self, scenario: &Scenario) -> Vec<Problem> {
        let mut findings = Vec::new();
        for (index, run) in scenario.run.iter().enumerate() {
            if scenario.run[..index].iter().any(|other| other.name == run.name) {
                let message = format!("there are two runs {:?}", run.name);
                findings.push(Finding::of(&format!("run.{index}.name"), message, "different names"));
            }
        }
        let names: Vec<&str> = match scenario.run.is_empty() {
            true => vec!["default"],
            false => scenario.run.iter().map(|run| run.name.as_str()).collect(),
        };
        for expectation in scenario.expect.iter() {
            for name in expectation.named_runs().filter(|name| !names.contains(name)) {
                let path = vec!["expect".to_owned(), expectation.key().to_owned()];
                let suggestion = super::suggest::closest(name, &names).map(|name| format!("{name:?}"));
                let finding = Finding::of("", format!("there is no run {name:?}"), names.join(", "));
                findings.push(Finding { path, suggestion, ..finding });
            }
        }
        findings.into_iter().map(|finding| locate(finding, &self.tree).placed(&self.source, None)).collect()
    }

    /// All combinations of the values of the axes, each set over the document.
    fn combinations(&self, axes: &[Axis], problems: &mut Vec<Problem>) -> Vec<(Vec<Coordinate>, Node)> {
        let total = axes.iter().map(|axis| axis.values.len()).fold(1usize, usize::saturating_mul);
        let before = problems.len();
        if total > POINTS_MAX {
            let finding = Finding::of(
                "sweep",
                format!("the sweep has {total} points"),
                format!("at most {POINTS_MAX}"),
            );
            problems.push(locate(finding, &self.tree).placed(&self.source, None));
        }
        for (index, axis) in axes.iter().enumerate() {
            let finding = axis_problem(index, axis);
            problems.extend(finding.map(|finding| locate(finding, &self.tree).placed(&self.source, None)));
        }
        if problems.len() > before {
            return Vec::new();
        }
        let mut points = vec![(Vec::new(), self.tree.clone())];
        for (index, axis) in axes.iter().enumerate() {
            let path = ["sweep".to_owned(), index.to_string(), "values".to_owned()];
            let written = self.tree.at(&path).map(Node::items).unwrap_or_default();
            let mut next = Vec::with_capacity(points.len() * axis.values.len());
            for (coordinates, tree) in &points {
                for (position, value) in written.iter().enumerate() {
                    let mut tree = tree.clone();
                    let path = [&path[..], &[position.to_string()]].concat();
                    for (key, value) in assignments(axis, value) {
                        self.overlay(&mut tree, &path, key, &value.origin, value, problems);
                    }
                    let set = assignments(axis, value).map(|(key, value)| (key.to_owned(), value.to_json()));
                    let here = Coordinate { label: axis.label(), set: set.collect() };
                    next.push(([&coordinates[..], &[here]].concat(), tree));
                }
            }
            points = next;
        }
        points
    }
}

impl PlannedRun {
    /// The folder beside which the files are that the scenario names.
    pub fn files(&self) -> &Files {
        self.source.files()
    }

    /// An error about a key of this run's scenario, with its place: for what only shows later.
    pub fn problem(
        &self,
        key: &str,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> ScenarioError {
        let finding = locate(Finding::of(key, message, allowed), &self.tree);
        let only_one = self.scenario.run.is_empty();
        ScenarioError::one(finding.placed(&self.source, (!only_one).then_some(self.run.name.as_str())))
    }
}

/// Gives a problem of a key its place: that of the value, or of the nearest table around it.
fn locate(finding: Finding, tree: &Node) -> Finding {
    let (origin, _) = tree.nearest(&finding.path);
    let whole = finding.path.is_empty();
    Finding { origin: (!whole).then(|| origin.clone()), ..finding }
}

fn default_run() -> Run {
    Run {
        name: "default".to_owned(),
        label: None,
        description: String::new(),
        set: IndexMap::new(),
        reference: Vec::new(),
    }
}

fn axis_problem(index: usize, axis: &Axis) -> Option<Finding> {
    let here = format!("sweep.{index}");
    if axis.key.is_some() != axis.keys.is_empty() {
        let message = "both key and keys are given, or neither";
        return Some(Finding::of(&here, message, "either key or keys"));
    }
    let several = axis.keys.len();
    let fits = |value: &Value| value.as_array().is_some_and(|list| list.len() == several);
    let position = (axis.key.is_none()).then(|| axis.values.iter().position(|value| !fits(value))).flatten();
    position.map(|position| {
        let message = format!("{} is not a list of {several} values", axis.values[position]);
        Finding::of(&format!("{here}.values.{position}"), message, "a list with a value for each of keys")
    })
}

/// The keys of an axis with what one of its values sets them to.
fn assignments<'a>(axis: &'a Axis, value: &'a Node) -> impl Iterator<Item = (&'a str, &'a Node)> {
    let values = if axis.key.is_some() { std::slice::from_ref(value) } else { value.items() };
    axis.all_keys().into_iter().zip(values)
}

/// The parts of a dotted key.
fn parse_key(key: &str) -> Result<Vec<String>, String> {
    let error =
        || format!("{:?} is not a key: write parts and points, for example network.bandwidth", key.trim());
    let text = format!("{} = 0", key.trim());
    let table = DeTable::parse(&text).map_err(|_| error())?;
    let mut node = Node::document(table.get_ref(), 0..0);
    let mut parts = Vec::new();
    while let Data::Table(entries) = node.data {
        let [(key, value)] = <[_; 1]>::try_from(entries).map_err(|_| error())?;
        parts.push(key.name);
        node = value;
    }
    match written(&parts).is_empty() {
        true => Err(error()),
        false => Ok(parts),
    }
}

/// A value as TOML, or the text itself.
fn parse_value(text: &str) -> Node {
    let line = format!("value = {text}");
    let parsed = DeTable::parse(&line).ok().map(|table| Node::document(table.get_ref(), 0..0));
    let value = parsed.and_then(|table| match table.data {
        // More than one key means that the text held a line break and went on.
        Data::Table(mut entries) if entries.len() == 1 => entries.pop().map(|(_, value)| value),
        _ => None,
    });
    value.unwrap_or_else(|| Node { data: Data::Plain(Value::String(text.to_owned())), origin: Origin::Made })
}
