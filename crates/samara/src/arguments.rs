//! What the command line understands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Samara runs dissemination experiments: how fast, at what cost and how reliably does data get from one machine to all
/// the others?
#[derive(Debug, Parser)]
#[command(name = "samara", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and write its results
    ///
    /// The exit status is 0 if everything went well, 1 if an expectation of the scenario was missed, 2 if the scenario or
    /// the command line is wrong or a run failed, and 130 if it was interrupted.
    Run(Run),
    /// List the scenarios that come with Samara
    List,
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print a scenario as it would be run
    Show(Select),
    /// Write the report of finished results again
    Report {
        /// The results directory
        results: PathBuf,
    },
    /// Compare two results directories, metric by metric
    Compare {
        /// The results to compare with
        base: PathBuf,
        /// The results to compare
        head: PathBuf,
    },
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Which runs of which scenario.
#[derive(Debug, Args)]
pub(crate) struct Select {
    /// The name of a scenario that comes with Samara, or the path of a scenario file
    pub(crate) scenario: String,
    /// Seed of the only repetition, instead of the scenario's seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// Set a key of the scenario: --set "network.bandwidth=50 Mbit/s" (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only this run of the scenario (may be repeated)
    #[arg(long, value_name = "RUN")]
    pub(crate) only: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) select: Select,
    /// Threads [default: all of the machine]; results do not depend on them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Results directory [default: results/SCENARIO-SEED, numbered if it exists]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace finished results in the directory
    #[arg(long)]
    pub(crate) force: bool,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Write no report and no figures
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// One JSON document
    Json,
}
