//! What the command line understands.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use samara_lab::compare::Threshold;
use samara_scenario::keys::GridAxis;
use samara_spec::{Loaded, Overrides, load_with};

use crate::export::Export;
use crate::sweep::{PointOptions, SweepOptions};

/// Gets one piece of data from one machine to all the others, and shows how well it got there.
#[derive(Debug, Parser)]
#[command(name = "samara", version, about)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a scenario in the simulator.
    ///
    /// Prints a comparison, and writes tables, figures and a report into a directory. The exit status is 1 if an expectation of
    /// the scenario is not met, 2 if something is wrong with the input, 130 if the run was interrupted.
    Run(RunOptions),
    /// Run a scenario many times: over grids of keys and over seeds.
    ///
    /// Each point is a process of its own, here or on a Ray cluster. Only metrics are kept: one Parquet table, a summary, and a report with
    /// confidence bands. A sweep that was stopped goes on where it was when it is started again. The exit status is 0; 1 if an expectation
    /// of the scenario is not met; 2 if something is wrong with the input; 3 if points failed; 130 if it was interrupted.
    Sweep(Box<SweepOptions>),
    /// Run one point of a sweep.
    #[command(hide = true)]
    Point(PointOptions),
    /// List the built-in scenarios.
    List,
    /// Print a scenario as it would be run, with all defaults.
    Show(ScenarioOptions),
    /// Print the JSON Schema of scenario files.
    Schema,
    /// Set two results directories side by side: of runs, testbeds or sweeps.
    ///
    /// All metrics that both have, with confidence intervals over seeds and Welch's test of the difference. The exit status is 1 if a threshold
    /// is crossed, 2 if something is wrong with the input.
    Compare(CompareOptions),
    /// Run a GossipSub node on real sockets.
    ///
    /// Prints a line of JSON on standard output when the node is ready, and one when it has stopped (by SIGTERM, SIGINT, or its
    /// control API). The exit status is 0 if all copies that were owed have left, 3 if some have not, 2 if something is wrong
    /// with the configuration. Needs a build with `--features net`.
    Node {
        /// The configuration; docs/node.toml shows every key.
        #[arg(long, value_name = "FILE", required_unless_present = "new_certificate")]
        config: Option<PathBuf>,
        /// Start nothing: write a new certificate with its key to a file, for `mix.identity`, and print its fingerprint.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "end_with_stdin"])]
        new_certificate: Option<PathBuf>,
        /// Stop when standard input is closed, as when whoever started the node is gone.
        #[arg(long)]
        end_with_stdin: bool,
    },
    /// Run a scenario on real nodes, each a process of its own, over emulated links.
    ///
    /// Takes what `run` takes and gives what `run` gives, so that `compare` sets both side by side. The directory of the results
    /// also holds the configuration, the log and the trace of every node. Needs a build with `--features net`, and, for
    /// latency, rates and loss, Linux with /dev/net/tun.
    Testbed(TestbedOptions),
    /// Become another program, which the kernel kills when the testbed that started this process ends, however it ends.
    #[cfg(all(feature = "net", target_os = "linux"))]
    #[command(hide = true)]
    EndWith {
        /// The process of the testbed.
        testbed: i32,
        /// The program to start.
        program: PathBuf,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Write a scenario, or what a run gave, for other programs to read.
    Export {
        /// What.
        #[command(subcommand)]
        what: Export,
    },
    /// Show runs in a browser, while they go on.
    ///
    /// Follows what `run`, `testbed` and nodes write into `live/` of their results, and writes nothing itself. Needs a token wherever
    /// other machines can reach it.
    Dashboard(DashboardOptions),
    /// Print completions for a shell.
    Completions {
        /// Which.
        shell: clap_complete::Shell,
    },
}

/// Which scenario, and what to change in it.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioOptions {
    /// A built-in scenario (see `samara list`) or the path of a file.
    pub(crate) scenario: String,
    /// Set a key of the scenario, for example network.nodes=200 or network.uplink="10 Mbit/s"; can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Do only this run of the scenario; can be repeated.
    #[arg(long, alias = "run", value_name = "RUN")]
    pub(crate) only: Vec<String>,
    /// Use this seed instead of the scenario's.
    #[arg(long, value_parser = whole(SEEDS))]
    pub(crate) seed: Option<u64>,
}

impl ScenarioOptions {
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        self.load_with(&[])
    }

    /// Loads it with axes of a sweep.
    pub(crate) fn load_with(&self, axes: &[GridAxis]) -> Result<Loaded, String> {
        load_with(&self.scenario, &self.overrides(axes)).map_err(|error| error.to_string())
    }

    /// What is to be different from what the scenario says.
    pub(crate) fn overrides(&self, axes: &[GridAxis]) -> Overrides {
        Overrides {
            set: self.set.clone(),
            only: self.only.clone(),
            seeds: self.seed.into_iter().collect(),
            axes: axes.to_vec(),
            ..Overrides::default()
        }
    }
}

/// A word as a shell takes it for one.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// How to run it.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) scenario: ScenarioOptions,
    /// Threads to use; results do not depend on it. All processors, if not given.
    #[arg(long, value_parser = whole(1..=1024_u16))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// How to run it on real nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct TestbedOptions {
    #[command(flatten)]
    pub(crate) scenario: ScenarioOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    /// A program to use as a node instead of this one (docs/guides/testbed.md says what it has to do); of several, nodes take one
    /// in turn. `samara` stands for this program.
    #[arg(long = "node", value_name = "PROGRAM")]
    pub(crate) nodes: Vec<PathBuf>,
    /// Seconds that links and meshes may take to form.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = whole(0..=86_400_u64))]
    pub(crate) ready_timeout: u64,
    /// Start nothing: gather what nodes have done under Shadow, in a directory that `samara export shadow` wrote and `shadow
    /// shadow.yaml` was run in.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nodes", "ready_timeout"])]
    pub(crate) shadow: Option<PathBuf>,
}

/// What to show, and to whom.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardOptions {
    /// A results directory, or one that holds several: then the newest is shown first, and the others can be chosen.
    #[arg(value_name = "DIR", default_value = "results")]
    pub(crate) directory: PathBuf,
    /// The address to listen at; port 0 is any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7117")]
    pub(crate) listen: std::net::SocketAddr,
    /// What whoever wants to look has to know, at least 16 characters; the environment variable SAMARA_DASHBOARD_TOKEN does the
    /// same and does not show in lists of processes.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Whether to open a browser; `auto` does if standard output is a terminal.
    #[arg(long, value_enum, default_value_t = OpenBrowser::Auto)]
    pub(crate) open: OpenBrowser,
}

/// Whether to open a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpenBrowser {
    /// If somebody sits at the terminal.
    Auto,
    /// In any case.
    Yes,
    /// Never.
    No,
}

/// What to set side by side.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareOptions {
    /// A results directory.
    pub(crate) a: PathBuf,
    /// Another one.
    pub(crate) b: PathBuf,
    /// Write a page with the table, the changes and the distributions of both.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// What a metric may become worse by, for example time_to_custody_ms.p95=5% or incomplete=0; with a run before it (batch:incomplete=0) for
    /// this run only. A sign says what it may grow or fall by: mesh_size=+5%,-5%. Can be repeated.
    #[arg(long = "threshold", value_name = "METRIC=LIMIT", value_parser = Threshold::parse)]
    pub(crate) thresholds: Vec<Threshold>,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
}

/// What to print of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// A table to read.
    Table,
    /// One JSON document.
    Json,
    /// Markdown of what has changed, as for a comment.
    Markdown,
}

/// What becomes of the results.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputOptions {
    /// The results directory; results/SCENARIO-seedSEED (and -2, -3, ... where there is one), if not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a finished results directory.
    #[arg(long)]
    pub(crate) force: bool,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Do not show progress.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table to read.
    Table,
    /// One JSON document.
    Json,
}

/// Seeds are whole numbers of TOML.
pub(crate) const SEEDS: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// Reads a whole number of a range.
pub(crate) fn whole<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE; expected for example network.nodes=200")),
    }
}
