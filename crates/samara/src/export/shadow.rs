//! `samara export shadow`.

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "net")]
use crate::args::quoted;
use crate::args::{ScenarioOptions, whole};

/// What to write for Shadow, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct ShadowOptions {
    #[command(flatten)]
    pub(crate) scenario: ScenarioOptions,
    /// The directory to write to: a new one, or an empty one.
    #[arg(long = "output", alias = "out", short, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The program that nodes are, instead of this one; it must be linked dynamically.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
    /// Simulated seconds that links and meshes have to form before the first publication.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole(1..=86_400_u64))]
    pub(crate) settle: u64,
}

#[cfg(not(feature = "net"))]
pub(crate) fn run(options: &ShadowOptions) -> Result<ExitCode, String> {
    Err(format!(
        "built without real sockets, which nodes under Shadow need; use `cargo run --release --features net -- export shadow {}`",
        options.scenario.scenario
    ))
}

#[cfg(feature = "net")]
pub(crate) fn run(options: &ShadowOptions) -> Result<ExitCode, String> {
    let loaded = options.scenario.load()?;
    let point = super::one_run(&loaded)?;
    let program = match &options.program {
        Some(program) => {
            program.canonicalize().map_err(|error| format!("--program {}: {error}", program.display()))?
        }
        None => std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?,
    };
    let how = samara_testbed::shadow::Options {
        inputs: &loaded.inputs,
        program: &program,
        settle: std::time::Duration::from_secs(options.settle),
    };
    let exported = samara_testbed::shadow::export(point, how, &options.out)
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    for note in &exported.notes {
        eprintln!("note: {note}");
    }
    let (nodes, stop_s, out) = (exported.nodes, exported.stop_s, options.out.display());
    crate::print(&format!(
        "{out}: {nodes} nodes for {stop_s} s\n\
         run it:     (cd {out} && shadow shadow.yaml)\n\
         gather it:  samara testbed {} --shadow {out}\n",
        arguments(&options.scenario)
    ))
}

/// What chooses the same run again.
#[cfg(feature = "net")]
fn arguments(scenario: &ScenarioOptions) -> String {
    let mut words = vec![quoted(&scenario.scenario)];
    for (key, value) in &scenario.set {
        words.extend(["--set".to_owned(), quoted(&format!("{key}={value}"))]);
    }
    for run in &scenario.only {
        words.extend(["--only".to_owned(), quoted(run)]);
    }
    words.extend(scenario.seed.map(|seed| format!("--seed {seed}")));
    words.join(" ")
}
