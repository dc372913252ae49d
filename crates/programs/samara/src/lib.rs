//! The command line: see `samara --help`, or the guides in `docs/`.
//!
//! It is a library, so that a program with several processes for one simulation (`samara-mpi`) has
//! the same commands.

mod args;
mod dashboard;
mod distributed;
mod export;
mod group;
mod live;
mod mix;
mod origin;
mod progress;
#[cfg(feature = "net")]
mod real;
mod session;
mod sources;
#[cfg(feature = "net")]
mod status;
mod sweep;
mod terminal;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use args::{Args, CompareFormat, CompareOptions, ExplainOptions, Format, Verb};
use samara_document::text;
use samara_lab::compare::{Crossed, compare as side_by_side};
use samara_lab::expect::Expectation;
use samara_lab::explain::{self, SavedPaths, Shown};
use samara_lab::family::{Family, register};
use samara_lab::results::{Saved, write_inside, write_named};
use samara_lab::run::RunOptions;
use samara_lab::usage::processors;
use samara_sim::Ranks;
use terminal::{print, print_json};

const CROSSED: u8 = 1;
/// Exit status for wrong input.
const BAD_INPUT: u8 = 2;

/// The memory allocator of the programs.
///
/// A network of 10,000 nodes makes tens of millions of small allocations. With the allocator of the
/// system, the same run needs a fifth more CPU.
pub type Allocator = mimalloc::MiMalloc;

pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;

/// A command line with further families of experiments beside those of Samara.
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
        samara_families::register();
        Self(())
    }

    /// Registers a family of experiments, so that scenarios can select it.
    ///
    /// # Panics
    /// If a family with this section is registered already.
    #[must_use]
    pub fn family(self, family: Family) -> Self {
        register(family);
        self
    }

    /// Runs the command that the arguments select.
    pub fn run(self) -> ExitCode {
        command_line(None)
    }
}

/// Runs the command that the arguments select.
///
/// With `ranks`, each process calls this, and `run` simulates one network in all of them. All other
/// commands need a single process.
pub fn command_line(ranks: Option<&mut dyn Ranks>) -> ExitCode {
    samara_families::register();
    let parsed = commands().try_get_matches().and_then(|matches| Args::from_arg_matches(&matches));
    let arguments = parsed.unwrap_or_else(|error| refuse(error));
    let outcome = match (arguments.verb, ranks) {
        (Verb::Run(options), Some(ranks)) => distributed::run(&options, ranks),
        (_, Some(_)) => {
            Err("only `samara run` supports several processes; start other commands without mpirun"
                .to_owned())
        }
        (verb, None) => single_process(verb),
    };
    outcome.unwrap_or_else(|message| {
        terminal::complain_as_program(message);
        ExitCode::from(BAD_INPUT)
    })
}

/// Returns the commands. A program with experiments of its own shows none that only `samara` has a use
/// for.
fn commands() -> clap::Command {
    // These print or write a scenario, so its expectations decide nothing.
    let without_strict = |command: clap::Command| command.mut_arg("strict", |arg| arg.hide(true));
    let commands = Args::command().mut_subcommand("show", without_strict);
    let commands = commands.mut_subcommand("export", |export| {
        let names: Vec<String> = export.get_subcommands().map(|one| one.get_name().to_owned()).collect();
        names.iter().fold(export, |all, name| {
            all.mut_subcommand(name, |one| {
                let has_strict = one.get_arguments().any(|arg| arg.get_id() == "strict");
                if has_strict { without_strict(one) } else { one }
            })
        })
    });
    if !samara_scenario::family::has_added() {
        return commands;
    }
    let hide = |command: clap::Command| command.hide(true);
    let sockets =
        ["node", "group", "mix", "testbed", "host-check"].into_iter().filter(|_| !cfg!(feature = "net"));
    let commands = sockets.chain(["sources"]).fold(commands, |all, name| all.mut_subcommand(name, hide));
    let commands = commands.mut_subcommand("export", |export| match cfg!(feature = "net") {
        true => export,
        false => export.mut_subcommand("shadow", hide),
    });
    let about = "Runs the experiments of this program and those of Samara.";
    commands.about(about).before_help(Resettable::Reset)
}

/// Prints an error of the arguments, or a help text. Arguments of others are quoted as in other errors:
/// long ones are cut, and control characters replaced.
fn show(error: &clap::Error) {
    let rendered = error.render();
    let plain = rendered.to_string();
    if !error.use_stderr() {
        return terminal::print_help(&if console::colors_enabled() {
            rendered.ansi().to_string()
        } else {
            plain
        });
    }
    let is_harmless =
        text::bounded(&plain).trim_end() == plain.trim_end() && text::printable(&plain) == plain;
    if is_harmless {
        let _ = error.print();
    } else {
        terminal::complain(plain.trim_end());
    }
}

/// Prints an error of the arguments, and ends the program.
///
/// The suggestions of the parser include hidden commands and aliases, and values that no command has.
fn refuse(mut error: clap::Error) -> ! {
    let commands = commands();
    let is_shown = |name: &String| commands.find_subcommand(name).is_some_and(|one| !one.is_hide_set());
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let names: Vec<String> = names.into_iter().filter(is_shown).collect();
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => word.clone(),
        _ => {
            show(&error);
            std::process::exit(error.exit_code());
        }
    };
    error.remove(ContextKind::Suggested);
    if error.get(ContextKind::SuggestedArg) == Some(&ContextValue::String("--run".to_owned())) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String("--only".to_owned()));
    }
    let has_suggestion = error.get(ContextKind::SuggestedArg).is_some();
    show(&error);
    let words: Vec<String> = words().collect();
    let verb = words.get(1).map_or("", String::as_str);
    let key =
        words.windows(3).find(|words| words[0] == "--set" && words[2] == unknown).map(|words| &words[1]);
    let is_word = !unknown.starts_with('-');
    let tip = match key.filter(|key| !key.contains('=')) {
        Some(key) => {
            let set = args::quoted(&format!("{key}={unknown}"));
            format!("a key and its value are one word: --set {set}")
        }
        None if is_word && unknown.contains('=') => {
            format!("--set sets a key: --set {}", args::quoted(&unknown))
        }
        None if is_word && verb == "node" => {
            format!("--config names the configuration: --config {}", args::quoted(&unknown))
        }
        None if verb == "run" && ["--seeds", "--grid"].contains(&unknown.as_str()) => {
            format!("`samara sweep` has {unknown}, and runs several points")
        }
        None if ["run", "sweep"].contains(&verb) && !is_word && !has_suggestion => {
            "--set sets a key of the scenario, such as --set network.nodes=50".to_owned()
        }
        None => String::new(),
    };
    if !tip.is_empty() {
        terminal::complain(format_args!("\n  tip: {tip}"));
    }
    std::process::exit(error.exit_code())
}

/// Returns the words of the command. Those that are not UTF-8 are only shown, so that the nearest text
/// is enough.
pub(crate) fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Returns the name of this program, as at the start of its errors.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_stem().filter(|_| samara_scenario::family::has_added());
    name.map_or_else(|| "samara".into(), |name| name.to_string_lossy().into_owned())
}

fn single_process(verb: Verb) -> Result<ExitCode, String> {
    match verb {
        Verb::Run(options) => {
            distributed::reject_mpi_launch()?;
            session::run(&options)
        }
        Verb::Sweep(options) => sweep::run(&options),
        Verb::Point(options) => sweep::run_one(&options),
        Verb::List { names } => list(names),
        Verb::Show(options) => {
            let loaded = options.load()?;
            Expectation::all_of(&loaded)?;
            print(&loaded.text)
        }
        Verb::Schema => {
            print(&(serde_json::to_string_pretty(&samara_scenario::schema()).unwrap_or_default() + "\n"))
        }
        Verb::Compare(options) => compare(&options),
        Verb::Explain(options) => explained(&options),
        Verb::Report { directory } => {
            let path = directory.join("index.html");
            write_inside(&path, samara_lab::index::page(&directory)?.html())?;
            print(&format!("index {}\n", path.display()))
        }
        Verb::Sources(options) => sources::run(&options),
        Verb::Torture(options) => torture::run(&options),
        #[cfg(feature = "net")]
        Verb::Node { new_certificate: Some(path), .. } => real::new_certificate(&path),
        #[cfg(feature = "net")]
        Verb::Node { config, end_with_stdin, .. } => real::node(&config.unwrap_or_default(), end_with_stdin),
        #[cfg(feature = "net")]
        Verb::Testbed(options) => real::testbed(&options),
        #[cfg(feature = "net")]
        Verb::Host { scenario, run, seed, orders, host } => {
            real::host(&scenario, (&run, seed), host, orders.as_deref())
        }
        #[cfg(feature = "net")]
        Verb::HostCheck(options) => real::host_check(&options),
        #[cfg(feature = "net")]
        Verb::Group(verb) => group::run(verb),
        #[cfg(feature = "net")]
        Verb::Mix(verb) => mix::run(verb),
        #[cfg(not(feature = "net"))]
        Verb::Node { .. } | Verb::Group(_) | Verb::Mix(_) | Verb::Testbed(_) | Verb::HostCheck(_) => {
            without_sockets()
        }
        #[cfg(all(feature = "net", target_os = "linux"))]
        Verb::EndWith { testbed, program, arguments } => Err(real::end_with(testbed, &program, &arguments)),
        Verb::Export { what } => export::run(&what),
        Verb::Dashboard(options) => dashboard::run(&options),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut commands(), program(), &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

#[cfg(not(feature = "net"))]
fn without_sockets() -> Result<ExitCode, String> {
    let arguments: Vec<String> = words().skip(1).map(|word| args::quoted(&word)).collect();
    let arguments = arguments.join(" ");
    if samara_scenario::family::has_added() {
        return Err(format!("this program has no real sockets; use `samara {arguments}`, built with them"));
    }
    Err(format!("built without real sockets; use `cargo run --release --features net -- {arguments}`"))
}

/// Rejects a default directory that is a link: somebody else may have chosen where it leads.
fn reject_link(path: &Path) -> Result<(), String> {
    if path.is_symlink() {
        let path = path.display();
        return Err(format!("{path}: is a symbolic link; name the directory of the results with --out"));
    }
    Ok(())
}

fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))
}

/// Calls `end` when standard input closes, which happens when the parent process ends.
fn at_end_of_stdin(end: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().spawn(|| {
        // Discards the input up to its end or an error.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        end();
    });
    if let Err(error) = started {
        terminal::complain_as_program(format_args!("does not end with its parent process: {error}"));
    }
}

/// Minimum width of titles beside names.
const TITLE_MIN: usize = 20;

fn list(names_only: bool) -> Result<ExitCode, String> {
    let scenarios = samara_scenario::builtins();
    if names_only {
        return print(&scenarios.iter().map(|scenario| format!("{}\n", scenario.name)).collect::<String>());
    }
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for family in samara_scenario::family::all() {
        let of_family = scenarios.iter().filter(|scenario| scenario.section() == family.section);
        let line = |one: &&samara_scenario::Builtin| {
            let line = format!("  {:width$}  {:>7}  {}", one.name, one.cost, one.about("title"));
            let indent = 2 + width + 2 + 7 + 2;
            // A narrow window has no room for titles beside names.
            let is_narrow = terminal::width() < indent + TITLE_MIN;
            terminal::fitted(&line, if is_narrow { 4 } else { indent })
        };
        let lines: String = of_family.map(line).collect();
        if !lines.is_empty() {
            let heading = format!("{}: section [{}]", family.title, family.section);
            text += &format!("{}{lines}\n", terminal::fitted(&heading, 2));
        }
    }
    let times = "Times are those of one processor at full size. docs/scenarios.md describes each scenario.";
    text += &terminal::fitted(times, 0);
    print(&text)
}

fn explained(options: &ExplainOptions) -> Result<ExitCode, String> {
    if options.what_if {
        return what_if(options);
    }
    let runs = SavedPaths::read(&options.results, options.run.as_deref())?;
    let of_item = || options.message.map_or(Shown::Slowest(options.slowest), Shown::Item);
    let shown = options.node.clone().map_or_else(of_item, Shown::Node);
    let at = |error: String| format!("{}: {error}", options.results.display());
    let class = options.class.as_deref();
    match options.format {
        Format::Table => print(&terminal::fitted_inside(&explain::show(&runs, &shown, class).map_err(at)?)),
        Format::Json => print_json(&explain::json(&runs, &shown, class).map_err(at)?),
    }
}

/// Runs the scenario of a results directory again without one cause after the other.
fn what_if(options: &ExplainOptions) -> Result<ExitCode, String> {
    let scenario = options.results.join("scenario.toml");
    let loaded =
        samara_scenario::load(&scenario.to_string_lossy(), &[], &[], None).map_err(|e| e.to_string())?;
    let stop = session::stop_on_interrupt()?;
    // The file has all runs of the scenario, also those that were left out.
    let saved = Saved::open(&options.results)?;
    let seed = loaded.points.first().map(|point| point.seed);
    let is_wanted = |point: &&samara_scenario::Point| {
        let was_run = saved.runs.iter().any(|run| run.name == point.run);
        Some(point.seed) == seed && was_run && options.run.as_ref().is_none_or(|run| *run == point.run)
    };
    let mut found = Vec::new();
    for point in loaded.points.iter().filter(is_wanted) {
        let run = RunOptions { stop: &stop, ..RunOptions::new(processors(), &loaded.inputs) };
        found.push(explain::what_if(&loaded, point, run)?);
    }
    match options.format {
        Format::Table => {
            let texts: Vec<String> = found.iter().map(explain::WhatIf::text).collect();
            print(&terminal::fitted_inside(&texts.join("\n")))
        }
        Format::Json => print_json(&found),
    }
}

fn compare(options: &CompareOptions) -> Result<ExitCode, String> {
    if options.b.is_none() && options.pairs.is_empty() {
        let a = options.a.display();
        return Err(format!(
            "compare needs a second results directory, as in `samara compare {a} OTHER`, or two runs of this one, as in `samara compare {a} --pair RUN=RUN`"
        ));
    }
    let b = options.b.as_ref().unwrap_or(&options.a);
    let compared = side_by_side(Saved::open(&options.a)?, Saved::open(b)?, &options.pairs)?;
    let checked: Vec<Vec<Crossed>> =
        options.thresholds.iter().map(|threshold| threshold.check(&compared)).collect::<Result<_, _>>()?;
    let crossed = checked.concat();
    if let Some(path) = &options.html {
        let page = compared.html(&crossed)?;
        write_named(path, page)?;
    }
    let text = match options.format {
        CompareFormat::Table => compared.table(terminal::width(), options.all, crossed.len()),
        CompareFormat::Markdown => compared.markdown(&crossed),
        CompareFormat::Json => compared.json(&crossed).to_string() + "\n",
    };
    print(&text)?;
    for crossed in &crossed {
        let Crossed { run, metric, change, threshold } = crossed;
        terminal::complain(format_args!("✗ {run}: {metric}: {change}; allowed: {threshold}"));
    }
    Ok(if crossed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CROSSED) })
}
