//! Tests of the lab: scenarios and their inputs, runs and sweeps, and the families of experiments.

mod deliveries;
mod explain;
mod group;
mod inputs;
mod limits;
mod messages;
mod methods;
mod mix;
mod payload;
mod report;
mod rivals;
mod runs;
mod scenario;
mod study;
mod sweep;
mod topology;
mod torture;
mod transactions;
mod window;
mod worlds;
mod written;

use samara_lab::results::{Data, Outcome, relate};
use samara_lab::run::{RunOptions, run};
use samara_scenario::ScenarioError;
use samara_spec::{Loaded, load};

/// Loads a scenario with these values of keys, and only these of its runs.
fn load_with(
    name: &str,
    set: &[(&str, &str)],
    only: &[&str],
    seed: Option<u64>,
) -> Result<Loaded, ScenarioError> {
    let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    load(name, &set, &only, seed)
}

fn loaded(name: &str, set: &[(&str, &str)], only: &[&str], seed: Option<u64>) -> Loaded {
    load_with(name, set, only, seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the error of loading an invalid scenario.
fn refused(name: &str, set: &[(&str, &str)], only: &[&str]) -> String {
    load_with(name, set, only, None).expect_err("the scenario should be rejected").to_string()
}

/// Runs all points of a scenario. Returns their related outcomes.
fn outcomes<D: Data>(loaded: &Loaded, threads: usize) -> Vec<Outcome<D>> {
    let options = RunOptions::new(threads, &loaded.inputs);
    let outcome = |point| run(point, options, |_| {}).unwrap_or_else(|error| panic!("{error}")).outcome();
    let mut results: Vec<Outcome> = loaded.points.iter().map(outcome).collect();
    relate(loaded, &mut results);
    results
        .iter()
        .map(|outcome| outcome.typed().expect("the outcome should belong to the scenario's family"))
        .collect()
}
