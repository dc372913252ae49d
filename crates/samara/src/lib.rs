//! The command line: see `samara --help`, or the guides in `docs/`. A library, so that a program that brings processes for one simulation
//! along (`samara-mpi`) has all of it.

mod args;
mod dashboard;
mod distributed;
mod export;
mod live;
#[cfg(feature = "net")]
mod real;
mod session;
mod sweep;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, CompareFormat, CompareOptions, Verb};
use samara_lab::compare::{Crossed, compare as side_by_side};
use samara_lab::experiment::Experiment;
use samara_lab::family::{Family, register};
use samara_lab::results::Saved;
use samara_sim::Ranks;
use serde::Serialize;

const CROSSED: u8 = 1;
/// Something is wrong with what was asked for.
const BAD_INPUT: u8 = 2;

/// A network of 10,000 nodes makes tens of millions of small allocations: the system's own allocator needs a
/// fifth more CPU for the same run. Programs set it as their own.
pub type Allocator = mimalloc::MiMalloc;

pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;

/// A command line with experiments of its own beside those of Samara.
///
/// ```no_run
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     samara::Cli::new().run()
/// }
/// ```
#[derive(Debug, Default)]
pub struct Cli(());

impl Cli {
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }

    /// Lets scenarios select this experiment too.
    ///
    /// # Panics
    /// If there is an experiment with this section.
    #[must_use]
    pub fn experiment<E: Experiment>(self) -> Self {
        register(Family::of::<E>());
        self
    }

    /// Does what the command line asks for.
    pub fn run(self) -> ExitCode {
        command_line(None)
    }
}

/// Does what the command line asks for. With processes (of which each calls this) `run` simulates one network in all of them; other verbs
/// are for one process.
pub fn command_line(ranks: Option<&mut dyn Ranks>) -> ExitCode {
    let outcome = match (Args::parse().verb, ranks) {
        (Verb::Run(options), Some(ranks)) => distributed::run(&options, ranks),
        (_, Some(_)) => {
            Err("only `samara run` works in several processes; start the others without mpirun".to_owned())
        }
        (verb, None) => alone(verb),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("samara: {message}");
        ExitCode::from(BAD_INPUT)
    })
}

fn alone(verb: Verb) -> Result<ExitCode, String> {
    match verb {
        Verb::Run(options) => {
            distributed::reject_mpi_launch()?;
            session::run(&options)
        }
        Verb::Sweep(options) => sweep::run(&options),
        Verb::Point(options) => sweep::run_one(&options),
        Verb::List => list(),
        Verb::Show(options) => print(&options.load()?.text),
        Verb::Schema => {
            print(&(serde_json::to_string_pretty(&samara_spec::schema()).unwrap_or_default() + "\n"))
        }
        Verb::Compare(options) => compare(&options),
        #[cfg(feature = "net")]
        Verb::Node { new_certificate: Some(path), .. } => real::new_certificate(&path),
        #[cfg(feature = "net")]
        Verb::Node { config, end_with_stdin, .. } => real::node(&config.unwrap_or_default(), end_with_stdin),
        #[cfg(feature = "net")]
        Verb::Testbed(options) => real::testbed(&options),
        #[cfg(not(feature = "net"))]
        Verb::Node { new_certificate: Some(path), .. } => {
            without_sockets(&format!("node --new-certificate {}", path.display()))
        }
        #[cfg(not(feature = "net"))]
        Verb::Node { config, .. } => {
            without_sockets(&format!("node --config {}", config.unwrap_or_default().display()))
        }
        #[cfg(not(feature = "net"))]
        Verb::Testbed(options) => without_sockets(&format!("testbed {}", options.scenario.scenario)),
        #[cfg(all(feature = "net", target_os = "linux"))]
        Verb::EndWith { testbed, program, arguments } => Err(real::end_with(testbed, &program, &arguments)),
        Verb::Export { what } => export::run(&what),
        Verb::Dashboard(options) => dashboard::run(&options),
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "samara", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(not(feature = "net"))]
fn without_sockets(arguments: &str) -> Result<ExitCode, String> {
    Err(format!("built without real sockets; use `cargo run --release --features net -- {arguments}`"))
}

/// Prints a text; a reader that has gone away is no mistake of ours.
fn print(text: &str) -> Result<ExitCode, String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a document of JSON in one line.
fn print_json(document: &impl Serialize) -> Result<ExitCode, String> {
    print(&(serde_json::to_string(document).map_err(|error| error.to_string())? + "\n"))
}

fn list() -> Result<ExitCode, String> {
    let scenarios = samara_spec::builtins();
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let lines: String = scenarios
        .iter()
        .map(|scenario| format!("{:width$}  {}\n", scenario.name, scenario.title()))
        .collect();
    print(&lines)
}

fn compare(options: &CompareOptions) -> Result<ExitCode, String> {
    let compared = side_by_side(Saved::open(&options.a)?, Saved::open(&options.b)?)?;
    let checked: Vec<Vec<Crossed>> =
        options.thresholds.iter().map(|threshold| threshold.check(&compared)).collect::<Result<_, _>>()?;
    let crossed = checked.concat();
    if let Some(path) = &options.html {
        let page = compared.html(&crossed)?;
        std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let text = match options.format {
        CompareFormat::Table => compared.table(),
        CompareFormat::Markdown => compared.markdown(&crossed),
        CompareFormat::Json => compared.json(&crossed).to_string() + "\n",
    };
    print(&text)?;
    for crossed in &crossed {
        eprintln!(
            "✗ {}: {}: {}; allowed: {}",
            crossed.run, crossed.metric, crossed.change, crossed.threshold
        );
    }
    Ok(if crossed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CROSSED) })
}
