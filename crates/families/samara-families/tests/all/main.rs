//! Tests of the lab with all families: scenarios and their inputs, runs, sweeps, pages, torture.

mod bounds;
mod classes;
mod deliveries;
mod explain;
mod inputs;
mod limits;
mod metrics;
mod ranges;
mod report;
mod runs;
mod scenario;
mod study;
mod sweep;
mod topology;
mod torture;
mod worlds;
mod written;

use samara_document::ScenarioError;
use samara_lab::results::{Data, Outcome};
use samara_lab::testing;
use samara_scenario::{Builtin, Loaded, Overrides};

/// Loads a scenario with these values of keys, and only these of its runs.
fn load_with(
    name: &str,
    set: &[(&str, &str)],
    only: &[&str],
    seed: Option<u64>,
) -> Result<Loaded, ScenarioError> {
    samara_families::register();
    testing::load_with(name, set, only, seed)
}

fn loaded(name: &str, set: &[(&str, &str)], only: &[&str], seed: Option<u64>) -> Loaded {
    load_with(name, set, only, seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the error of loading an invalid scenario.
fn refused(name: &str, set: &[(&str, &str)], only: &[&str]) -> String {
    error_of(load_with(name, set, only, None))
}

/// Returns the text of an error. That of success matches no row of a table of errors.
fn error_of(loaded: Result<Loaded, ScenarioError>) -> String {
    loaded.map_or_else(|error| error.to_string(), |_| "NO ERROR".to_owned())
}

/// Checks a table of errors, of which the wrong rows are given, and lists all of them.
fn assert_none(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} wrong rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks that the error of each text contains what its row expects.
fn assert_errors<T: AsRef<str>, E: AsRef<str>>(
    rows: impl IntoIterator<Item = (T, E)>,
    error: impl Fn(&str) -> String,
) {
    assert_none(rows.into_iter().filter_map(|(text, expected)| {
        let (text, expected, found) = (text.as_ref(), expected.as_ref(), error(text.as_ref()));
        (!found.contains(expected)).then(|| format!("{text}: expected {expected:?}, found {found}"))
    }));
}

fn outcomes<D: Data>(loaded: &Loaded, threads: usize) -> Vec<Outcome<D>> {
    testing::outcomes(loaded, threads)
}

/// The functions of [`samara_scenario`] with all families.
fn load(
    name: &str,
    set: &[(String, String)],
    only: &[String],
    seed: Option<u64>,
) -> Result<Loaded, ScenarioError> {
    samara_families::register();
    samara_scenario::load(name, set, only, seed)
}

fn load_source(
    source: &str,
    text: &str,
    inputs: samara_document::Inputs,
    overrides: &Overrides,
) -> Result<Loaded, ScenarioError> {
    samara_families::register();
    samara_scenario::load_source(source, text, inputs, overrides)
}

fn load_overridden(name: &str, overrides: &Overrides) -> Result<Loaded, ScenarioError> {
    samara_families::register();
    samara_scenario::load_with(name, overrides)
}

fn builtins() -> Vec<&'static Builtin> {
    samara_families::register();
    samara_scenario::builtins()
}

fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().into_iter().find(|builtin| builtin.name == name)
}

fn schema() -> serde_json::Value {
    samara_families::register();
    samara_scenario::schema()
}
