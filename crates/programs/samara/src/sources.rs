//! `samara sources`: the claims of the documents that Samara started from, beside our results.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use samara_document::file;
use samara_lab::reference::Figures;
use samara_lab::results::write_inside;
use samara_lab::sources::{Needed, Ours, Runs, needed, page, results};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::args::SourcesOptions;
use crate::session::NOT_MET;
use crate::terminal::{complain, print};

/// Maximum size of the summary of a run.
const SUMMARY_BYTES_MAX: u64 = 256 << 20;

/// The part of `summary.json` that this command reads.
#[derive(Deserialize)]
struct Summary {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    parameters: Map<String, Value>,
    metrics: Value,
}

pub(crate) fn run(options: &SourcesOptions) -> Result<ExitCode, String> {
    let mut ours = results();
    if let Some(directory) = &options.run {
        let needed = needed();
        if let Some(unknown) =
            options.only.iter().find(|name| needed.iter().all(|needed| needed.scenario != **name))
        {
            let known: Vec<&str> = needed.iter().map(|needed| needed.scenario.as_str()).collect();
            return Err(format!(
                "\"{unknown}\" has no published figures; expected one of {}",
                known.join(", ")
            ));
        }
        let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
        for needed in needed.iter().filter(|needed| is_wanted(&needed.scenario)) {
            let name = &needed.scenario;
            let mut of_scenario = Vec::new();
            for runs in needed.runs()? {
                let seeds: String = runs.seeds.iter().map(|seed| format!("-{seed}")).collect();
                let out = directory.join(format!("{name}{seeds}"));
                if !out.join("complete").exists() {
                    simulate(name, &runs, &out)?;
                }
                of_scenario.extend(read(&out, needed, &runs.seeds)?);
            }
            ours.insert(name.clone(), of_scenario);
        }
        // Scenarios that are no longer compared.
        ours.retain(|name, _| needed.iter().any(|needed| needed.scenario == *name));
    }
    let page = page(&ours);
    match &options.run {
        None => _ = print(&page.text)?,
        Some(directory) => {
            let json = serde_json::to_string_pretty(&ours).map_err(|error| error.to_string())? + "\n";
            for (file, text) in [("sources.md", &page.text), ("results.json", &json)] {
                let path = directory.join(file);
                write_inside(&path, text)?;
            }
            print(&format!("{}\n", directory.join("sources.md").display()))?;
        }
    }
    for line in &page.problems {
        complain(format_args!("\u{2717} {line}"));
    }
    Ok(if page.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NOT_MET) })
}

/// Runs the compared runs of a scenario. Expectations that are not met do not matter here.
fn simulate(name: &str, Runs { only, set, .. }: &Runs, out: &Path) -> Result<(), String> {
    let which = if only.is_empty() { "all runs".to_owned() } else { only.join(", ") };
    complain(format_args!("samara: {name}: {which} {}", set.join(" ")));
    let only = only.iter().flat_map(|run| ["--only", run]);
    let set = set.iter().flat_map(|set| ["--set", set]);
    let mut command = Command::new(crate::own_program()?);
    command
        .args(["run", name, "--force", "--quiet", "--explain", "off", "--format", "json", "--out"])
        .arg(out)
        .args(only)
        .args(set);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.map_err(|error| format!("{name}: cannot start a run: {error}"))?;
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!("{name}: the run ended with {status}; `samara run {name}` shows why")),
    }
}

fn read(out: &Path, needed: &Needed, seeds: &[u64]) -> Result<Vec<Ours>, String> {
    let path = out.join("summary.json");
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = file::read_text(&path, SUMMARY_BYTES_MAX).map_err(|error| failed(&error))?;
    let summary: Summary = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let runs =
        summary.runs.iter().map(|Run { name, parameters, metrics }| Figures { name, parameters, metrics });
    let runs: Vec<Figures<'_>> = runs.collect();
    Ok(needed.read(seeds, &runs))
}
