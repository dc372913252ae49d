//! A scenario, by name or path, with what the command line sets over it.

use std::path::Path;

use anyhow::{Result, bail};
use samara_lab::run::Job;
use samara_lab::scenario::{Plan, ScenarioFile, builtin};

use crate::arguments::Select;

/// What is to be run.
pub(crate) struct Loaded {
    /// The file, or the name of the scenario that comes along.
    pub(crate) source: String,
    /// All that the scenario asks for.
    pub(crate) plan: Plan,
    /// The scenario as TOML, with everything set and all defaults written out.
    pub(crate) text: String,
    /// The runs that were asked for.
    pub(crate) jobs: Vec<Job>,
}

/// Loads what was selected.
pub(crate) fn load(select: &Select) -> Result<Loaded> {
    let mut file = open(&select.scenario)?;
    for assignment in &select.set {
        file.set(assignment)?;
    }
    if let Some(seed) = select.seed {
        file.set(&format!("scenario.seeds=[{seed}]"))?;
    }
    let plan = file.plan()?;
    let names: Vec<&str> = match plan.points.first() {
        Some(point) => point.runs.iter().map(|run| run.run.name.as_str()).collect(),
        None => Vec::new(),
    };
    if let Some(unknown) = select.only.iter().find(|only| !names.contains(&only.as_str())) {
        bail!(
            "--only {unknown}: there is no such run; the runs of {} are {}",
            select.scenario,
            names.join(", ")
        );
    }
    let jobs = Job::all(&plan, &select.only);
    let text = samara_lab::results::to_toml(&plan.scenario)?;
    Ok(Loaded { source: select.scenario.clone(), plan, text, jobs })
}

fn open(name: &str) -> Result<ScenarioFile> {
    if let Some(file) = ScenarioFile::builtin(name) {
        return Ok(file);
    }
    let path = Path::new(name);
    if path.exists() {
        return Ok(ScenarioFile::open(path)?);
    }
    let hint = match builtin::closest(name) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("those that come along are {}", builtin::names().collect::<Vec<_>>().join(", ")),
    };
    bail!("{name:?} is neither a scenario that comes along nor a file; {hint}")
}
