//! The command line of Samara: run, show, compare and report dissemination experiments.
//!
//! | file | concern |
//! |---|---|
//! | `arguments` | what the command line understands |
//! | `load` | a scenario, by name or path, with what is set over it |
//! | `session` | runs a scenario and writes its results |
//! | `pool` | several runs at a time |
//! | `judge` | expectations, held against results |
//! | `progress` | progress on standard error |
//! | `table` | tables for people |

mod arguments;
mod judge;
mod load;
mod pool;
mod progress;
mod session;
mod table;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use samara_lab::{results, scenario};

use arguments::{Arguments, Command};

/// Millions of small frames are allocated on one thread and freed on another: mimalloc takes a fifth off the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The scenario, the command line or a run is wrong.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn execute(command: Command) -> Result<u8> {
    match command {
        Command::Run(arguments) => return session::run(&arguments),
        Command::List => print(&list())?,
        Command::Schema => print(&serde_json::to_string_pretty(&scenario::json_schema())?)?,
        Command::Show(select) => print(load::load(&select)?.text.trim_end())?,
        Command::Report { results } => {
            let path = session::write_report(&results)?;
            print(&path.display().to_string())?;
        }
        Command::Compare { base, head } => {
            let read = |path: &std::path::Path| {
                results::read_summary(path).with_context(|| format!("cannot compare {}", path.display()))
            };
            print(&table::comparison(&read(&base)?, &read(&head)?))?;
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "samara", &mut text);
            print(String::from_utf8_lossy(&text).trim_end())?;
        }
    }
    Ok(0)
}

fn list() -> String {
    let builtins = scenario::builtin::list();
    let width = builtins.iter().map(|builtin| builtin.name.len()).max().unwrap_or(0);
    let lines = builtins.iter().map(|builtin| format!("{:width$}  {}", builtin.name, builtin.title));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
