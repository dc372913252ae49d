//! Command-line arguments, except those of sweeps and exports.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use samara_dashboard::NodeAddress;
use samara_document::keys::GridAxis;
use samara_lab::compare::{Pair, Threshold};
use samara_lab::explain::Mode;
use samara_lab::torture::Span;
use samara_scenario::{Loaded, Overrides, load_with};

use crate::export::Export;
use crate::group::GroupVerb;
use crate::mix::MixVerb;
use crate::sweep::{PointOptions, SweepOptions};

/// The first line of help texts in a build without sockets.
#[cfg(not(feature = "net"))]
macro_rules! without_net {
    ($commands:literal) => {
        concat!("This build lacks ", $commands, ";\nbuild with `cargo build --release --features net`")
    };
}

/// Gets one piece of data from one machine to all the others, and shows how well it got there.
#[derive(Debug, Parser)]
#[command(name = "samara", version = env!("SAMARA_VERSION"), about)]
#[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara node`, `group`, `mix` and `testbed`")))]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a scenario in the simulator.
    ///
    /// Prints a comparison, and writes tables, figures and a report into a directory. The exit
    /// status is 1 if an expectation of the scenario is not met, 2 if the input is wrong, 130 if
    /// the run was interrupted.
    Run(RunOptions),
    /// Run a scenario many times: over grids of keys and over seeds.
    ///
    /// Each point is a separate process, on this machine or on a Ray cluster. A sweep keeps metrics
    /// only: one Parquet table, a summary, and a report with confidence bands. The same command
    /// resumes an interrupted sweep. The exit status is 0; 1 if an expectation of the scenario is
    /// not met; 2 if the input is wrong; 3 if points failed; 130 if the sweep was interrupted.
    Sweep(Box<SweepOptions>),
    /// Run one point of a sweep.
    #[command(hide = true)]
    Point(PointOptions),
    /// List the built-in scenarios by experiment, with their processor times.
    List {
        /// Print the names only, for scripts.
        #[arg(long)]
        names: bool,
    },
    /// Print a scenario as `run` executes it, with all defaults.
    Show(ScenarioOptions),
    /// Print the JSON Schema of scenario files.
    Schema,
    /// Compare two results directories: of runs, testbeds or sweeps.
    ///
    /// Shows the headline metrics that differ, and all others that changed significantly, with
    /// confidence intervals over seeds and Welch's test of the difference, or, with equal seeds, a
    /// test of pairs. The exit status is 1 if a threshold is crossed, 2 if the input is wrong.
    Compare(CompareOptions),
    /// Show where the time of deliveries went.
    ///
    /// Divides the time from the publication to each delivery into causes that add up to it:
    /// waiting for other copies, congestion windows, serialisation, latency, losses and so on.
    /// docs/guides/explain.md describes them.
    Explain(ExplainOptions),
    /// Write an index of the results in a folder, newest first.
    ///
    /// The page DIR/index.html shows the key finding, the main figure and the verdict of each result,
    /// and links to its report.
    Report {
        /// A directory of several results directories.
        #[arg(value_name = "DIR", default_value = "results")]
        directory: PathBuf,
    },
    /// Print the claims of the documents that Samara started from, beside our results.
    ///
    /// Each claim has a verdict. The exit status is 1 if a result contradicts its declared verdict.
    Sources(SourcesOptions),
    /// Search for scenarios in which protocols break their promises.
    ///
    /// Draws networks, parameters, workloads, faults and hostile nodes, simulates them, and checks
    /// what each protocol promises. A scenario that breaks a promise is made as small as possible,
    /// printed and kept. The exit status is 1 if there is one.
    Torture(TortureOptions),
    /// Run a node on real sockets: GossipSub, a pool, a group or a mix.
    ///
    /// The configuration decides: without other sections the node speaks GossipSub over libp2p; with
    /// `[pool]` it shares transactions (CAT), with `[group]` it orders messages in a ring, and with `[mix]`
    /// it is a node of a mix, or its scheduler.
    ///
    /// Prints a line of JSON on standard output when the node is ready, and one when it has stopped
    /// (by SIGTERM, SIGINT, or its control API). The exit status is 0 if all owed copies have left,
    /// 3 if some have not, 2 if the configuration is wrong.
    #[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara node`")))]
    #[command(override_usage = "samara node --config <FILE>\n       samara node --new-certificate <FILE>")]
    Node {
        /// The configuration; docs/node.toml shows every key.
        #[arg(long, value_name = "FILE", required_unless_present = "new_certificate")]
        config: Option<PathBuf>,
        /// Write a new certificate with its key to this file, for `mix.identity` or
        /// `group.identity`, print its fingerprint, and exit.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "end_with_stdin"])]
        new_certificate: Option<PathBuf>,
        /// Stop when standard input closes, which happens when the parent process ends.
        #[arg(long)]
        end_with_stdin: bool,
    },
    /// Send a file to all members of a group, or receive one.
    #[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara group`")))]
    #[command(subcommand)]
    Group(GroupVerb),
    /// Send a message to a recipient through a mix of real nodes, or receive messages.
    #[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara mix`")))]
    #[command(subcommand)]
    Mix(MixVerb),
    /// Run a scenario on real hosts, each a separate process, over emulated links.
    ///
    /// Reads the same scenarios as `run` and writes the same kind of results, so that `compare` can
    /// compare both. The results directory also holds the log of every host. Latency, rates and loss
    /// need Linux with /dev/net/tun.
    #[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara testbed`")))]
    Testbed(TestbedOptions),
    /// Check that a program can be a host of a testbed.
    ///
    /// Runs a small scenario with the program on every host, over plain loopback, and checks what
    /// docs/guides/implementations.md demands. The exit status is 1 if a check fails.
    #[cfg_attr(not(feature = "net"), command(before_help = without_net!("`samara host-check`")))]
    HostCheck(HostCheckOptions),
    /// Run one host of a testbed, which takes orders from standard input.
    #[cfg(feature = "net")]
    #[command(hide = true)]
    Host {
        /// The scenario of the results directory of the testbed.
        scenario: PathBuf,
        /// The name of the run.
        #[arg(long)]
        run: String,
        /// Its seed.
        #[arg(long)]
        seed: u64,
        /// Read orders from this file.
        #[arg(long)]
        orders: Option<PathBuf>,
        /// The number of the host.
        host: u32,
    },
    /// Execute another program, which the kernel kills when the testbed that started this process
    /// ends.
    #[cfg(all(feature = "net", target_os = "linux"))]
    #[command(hide = true)]
    EndWith {
        /// The process of the testbed.
        testbed: i32,
        /// The program to start.
        program: PathBuf,
        /// The arguments of the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Write scenarios or results in the formats of other programs.
    Export {
        /// Format of the exported file.
        #[command(subcommand)]
        what: Export,
    },
    /// Show runs in a browser while they are in progress.
    ///
    /// Follows the files that `run`, `testbed` and nodes write to `live/` of their results, and
    /// writes none itself. Requires a token unless the address is a loopback address.
    Dashboard(DashboardOptions),
    /// Print completions for a shell.
    Completions {
        /// The shell whose syntax is printed.
        shell: clap_complete::Shell,
    },
}

/// A scenario, changes to it, and some of its runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// A built-in scenario (see `samara list`) or the path of a file.
    pub(crate) scenario: String,
    /// Set a key of the scenario, for example network.nodes=200 or network.uplink="10 Mbit/s"; can
    /// be repeated. KEY= without a value removes the key.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Select only this run of the scenario; can be repeated. Commas separate several runs.
    #[arg(long, alias = "run", value_name = "RUN", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Let the expectations of a built-in scenario set the exit status although keys are changed.
    #[arg(long)]
    pub(crate) strict: bool,
}

impl Selection {
    /// Loads the scenario with these seeds, and with further axes of a sweep.
    pub(crate) fn load(&self, seeds: &[u64], axes: &[GridAxis]) -> Result<Loaded, String> {
        for (place, (key, value)) in self.set.iter().enumerate() {
            let mut before = self.set[..place].iter();
            if let Some((_, first)) = before.find(|(own, first)| own == key && first != value) {
                return Err(format!("--set {key} has two values, {first} and {value}; keep one of them"));
            }
        }
        load_with(&self.scenario, &self.overrides(seeds, axes)).map_err(|error| error.to_string())
    }

    pub(crate) fn overrides(&self, seeds: &[u64], axes: &[GridAxis]) -> Overrides {
        Overrides {
            set: self.set.clone(),
            only: self.only.clone(),
            seeds: seeds.to_vec(),
            axes: axes.to_vec(),
            strict: self.strict,
            ..Overrides::default()
        }
    }
}

/// A scenario with at most one seed of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioOptions {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Use this seed instead of the scenario's. Several: --set 'scenario.seeds=[1, 2, 3]'.
    #[arg(long, allow_negative_numbers = true, value_parser = whole(SEEDS))]
    pub(crate) seed: Option<u64>,
}

impl ScenarioOptions {
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        self.load_with(&[])
    }

    pub(crate) fn load_with(&self, axes: &[GridAxis]) -> Result<Loaded, String> {
        self.selection.load(self.seed.as_slice(), axes)
    }
}

/// Quotes a word for a shell, if necessary.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Options of `samara run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) scenario: ScenarioOptions,
    /// Number of threads; results do not depend on it. Default: all processors.
    #[arg(long, allow_negative_numbers = true, value_parser = whole(1..=1024_u16))]
    pub(crate) threads: Option<u16>,
    /// Deliveries whose time to divide into causes: off, all, a number N for one of N items, auto (all
    /// of short runs, a sample of long ones), or cheap (the same with smaller samples, and off beyond
    /// 2,000 nodes).
    #[arg(long, value_name = "WHICH", default_value = "cheap", value_parser = explained)]
    pub(crate) explain: Mode,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// Parses which deliveries to explain.
fn explained(text: &str) -> Result<Mode, String> {
    match (text, text.parse()) {
        ("cheap", _) => Ok(Mode::Cheap),
        ("auto", _) => Ok(Mode::Auto),
        ("all", _) => Ok(Mode::Every(1)),
        ("off", _) => Ok(Mode::Off),
        (_, Ok(items)) if items > 0 => Ok(Mode::Every(items)),
        _ => Err("expected cheap, auto, all, off, or a number N for one of N items".to_owned()),
    }
}

/// Options of `samara explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainOptions {
    /// A results directory of `samara run`.
    pub(crate) results: PathBuf,
    /// Show this run only.
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// Show the paths of the slowest deliveries.
    #[arg(long, value_name = "COUNT", default_value_t = 3, conflicts_with_all = ["node", "message"])]
    pub(crate) slowest: usize,
    /// Show all paths to this node, by its name or, if the scenario names no nodes, its number.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Show the deliveries at nodes of this class only: its name in `network.class`, or "others".
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// Show all paths of this message: the number of its item in the table of paths.
    #[arg(long, value_name = "NUMBER", conflicts_with = "node")]
    pub(crate) message: Option<u64>,
    /// Run the first seed of each run again without one cause after the other, and show the gains,
    /// the largest first. Takes as long as that many runs.
    #[arg(long, conflicts_with_all = ["slowest", "node", "message", "class"])]
    pub(crate) what_if: bool,
    /// Output format on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Options of `samara torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureOptions {
    /// A family (columns, messages, pool, group, mix, or one of this program), which draws its
    /// scenarios; or a built-in scenario or a file, which runs as it is, and then with other seeds.
    /// Default: all families.
    #[arg(value_name = "FAMILY|SCENARIO|FILE")]
    pub(crate) what: Option<String>,
    /// Number of runs. Default: 300 of a family, each run of a scenario once; without a limit with
    /// --time.
    #[arg(long, value_parser = whole(1..=u64::MAX))]
    pub(crate) runs: Option<u64>,
    /// Time after which no further run starts, for example "10 min", for each family.
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) time: Option<Span>,
    /// Seed of the search: the same seed and version give the same runs.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of runs at the same time. Default: all processors.
    #[arg(long, value_parser = whole(1..=1024_u16))]
    pub(crate) threads: Option<u16>,
    /// Go on after a violation, and keep all of them.
    #[arg(long = "continue")]
    pub(crate) goes_on: bool,
    /// Directory for the scenarios that break promises.
    #[arg(long, value_name = "DIR", default_value = "torture")]
    pub(crate) out: PathBuf,
}

/// Options of `samara testbed`.
#[derive(Debug, clap::Args)]
pub(crate) struct TestbedOptions {
    #[command(flatten)]
    pub(crate) scenario: ScenarioOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    /// Use this program as a host (docs/guides/implementations.md has the contract); can be repeated:
    /// hosts take the programs in turn. `samara` stands for this program.
    #[arg(long = "host", value_name = "PROGRAM")]
    pub(crate) hosts: Vec<PathBuf>,
    /// Maximum time in seconds until each process listens (30 s at most), and until the links of a mix
    /// have formed.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = whole(0..=86_400_u64))]
    pub(crate) ready_timeout: u64,
    /// Start no hosts: compute the results from a directory that `samara export shadow` wrote and
    /// in which `shadow shadow.yaml` has run.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["hosts", "ready_timeout"])]
    pub(crate) shadow: Option<PathBuf>,
}

/// Options of `samara host-check`.
#[derive(Debug, clap::Args)]
pub(crate) struct HostCheckOptions {
    /// The program; `samara` stands for this program.
    pub(crate) program: PathBuf,
    /// The scenario that it runs: a built-in one or the path of a file.
    #[arg(default_value = "messages-small")]
    pub(crate) scenario: String,
    /// Sets a key of the scenario, as in `samara run`; can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// The run of the scenario. Default: the first.
    #[arg(long, value_name = "RUN")]
    pub(crate) only: Option<String>,
}

/// Options of `samara sources`.
#[derive(Debug, clap::Args)]
pub(crate) struct SourcesOptions {
    /// Run the scenarios that have published figures, each into a directory in DIR, and
    /// write DIR/sources.md and DIR/results.json. Finished results in DIR are not run again.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: Option<PathBuf>,
    /// Run only this scenario, and take the values of all others as they were published; can be
    /// repeated.
    #[arg(long, value_name = "SCENARIO", requires = "run")]
    pub(crate) only: Vec<String>,
}

/// Options of `samara dashboard`.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardOptions {
    /// A results directory, or a directory of several: the page shows the newest first, and lets
    /// you select the others. Default: results, which need not exist yet.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// A node on any machine that the page shows: the address of `[metrics]` or `[control]` of a
    /// `samara node`; can be repeated.
    #[arg(long = "node", value_name = "HOST:PORT")]
    pub(crate) nodes: Vec<NodeAddress>,
    /// A file with a line for each node: HOST:PORT, and behind it the path of a file with a token if
    /// the node demands one.
    #[arg(long = "nodes", value_name = "FILE")]
    pub(crate) node_list: Option<PathBuf>,
    /// Address to listen on; port 0 selects a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7117")]
    pub(crate) listen: std::net::SocketAddr,
    /// Token that a browser must present, at least 16 characters. The environment variable
    /// SAMARA_DASHBOARD_TOKEN does the same, and lists of processes do not show it.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Whether to open a browser.
    #[arg(long, value_enum, default_value_t = OpenBrowser::Auto)]
    pub(crate) open: OpenBrowser,
}

/// Policies for opening a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpenBrowser {
    /// If standard output is a terminal.
    Auto,
    /// Always open one.
    Yes,
    /// Never open one.
    No,
}

/// Options of `samara compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareOptions {
    /// The first results directory, or a point of a sweep, such as sweep/points/ID: its run and values
    /// with all seeds.
    pub(crate) a: PathBuf,
    /// The second results directory. Default: the first one, whose runs --pair then compares with each
    /// other.
    pub(crate) b: Option<PathBuf>,
    /// Compare this run of the first result with that of the second, such as mine=gossipsub, although
    /// their names or parameters differ; can be repeated. Default: runs with the same name and
    /// parameters.
    #[arg(long = "pair", value_name = "RUN=RUN", value_parser = Pair::parse)]
    pub(crate) pairs: Vec<Pair>,
    /// Show all metrics that both results have.
    #[arg(long)]
    pub(crate) all: bool,
    /// Write a page with the table, the changes and both distributions.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Limit by which a metric may become worse, for example time_to_custody_ms.p95=5% or
    /// incomplete=0. A run before the metric restricts the limit to this run: batch:incomplete=0.
    /// Signs limit growth and decrease: mesh_size=+5%,-5%. Can be repeated.
    #[arg(long = "threshold", value_name = "METRIC=LIMIT", value_parser = Threshold::parse)]
    pub(crate) thresholds: Vec<Threshold>,
    /// Output format on standard output.
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
}

/// Output formats of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// A text table.
    Table,
    /// One JSON document.
    Json,
    /// Changed metrics only, as Markdown for a comment.
    Markdown,
}

/// Options for results.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputOptions {
    /// Results directory. Default: results/SCENARIO-seedSEED, with -2, -3, ... if that exists.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a finished results directory.
    #[arg(long)]
    pub(crate) force: bool,
    /// Output format on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Do not show progress.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Output formats of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A text table.
    Table,
    /// One JSON document.
    Json,
}

/// Range of seeds: the whole numbers of TOML that are not negative.
pub(crate) const SEEDS: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// Returns a parser of whole numbers in a range.
pub(crate) fn whole<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE; expected for example network.nodes=200")),
    }
}
