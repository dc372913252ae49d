//! `samara run`, and its common part with `samara testbed`: results directories, progress and
//! interrupts.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use samara_lab::expect::{Expectation, ExpectationResult};
use samara_lab::family;
use samara_lab::report::{self, ADVISORY};
use samara_lab::results::{DirectoryError, Findings, Measured, Outcome, ProcessUse, ResultsDirectory, Used};
use samara_lab::run::{Progress, Watch, WatchRun, run_all};
use samara_lab::usage::processors;
use samara_report::Page;
use samara_scenario::{Change, Loaded, Point};
use samara_trace::live;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Format, OutputOptions, RunOptions, ScenarioOptions};
use crate::live::{Live, RunLive};
use crate::progress::Bar;
use crate::terminal::{complain, complain_as_program, fitted, print, print_json, width};

pub(crate) const NOT_MET: u8 = 1;
/// Steps of the progress bar for each run.
pub(crate) const BAR_STEPS: u64 = 1000;

/// A scenario that is being run into a results directory.
pub(crate) struct Session {
    pub(crate) loaded: Loaded,
    pub(crate) directory: ResultsDirectory,
    format: Format,
    pub(crate) stop: Arc<AtomicBool>,
    start: Instant,
    /// Resource use of each process, if several simulate one network.
    pub(crate) processes: Vec<ProcessUse>,
    pub(crate) live: Live,
}

impl Session {
    /// Loads a scenario, starts its results directory, and listens for interrupts.
    pub(crate) fn open(scenario: &ScenarioOptions, output: &OutputOptions) -> Result<Self, String> {
        let start = Instant::now();
        let mut loaded = scenario.load()?;
        print_notes(&loaded, output.quiet);
        measure(&mut loaded, output.quiet)?;
        Expectation::all_of(&loaded)?;
        let directory = match &output.out {
            Some(path) => ResultsDirectory::create(path, &loaded, output.force).map_err(|e| e.to_string()),
            None => create_default(&loaded, output.force),
        }?;
        let stop = stop_on_interrupt()?;
        let live = Live::start(directory.path(), &loaded.points)?;
        Ok(Self { loaded, directory, format: output.format, stop, start, live, processes: Vec::new() })
    }

    /// Reports the failure in the live file, and returns the message.
    pub(crate) fn fail(self, message: String) -> String {
        self.live.finish(live::Outcome::Failed, Some(message.clone()));
        message
    }

    /// Checks expectations, writes report and summary, and prints them. Interrupted runs are
    /// `None`.
    pub(crate) fn finish(self, results: Vec<Option<Outcome>>) -> Result<ExitCode, String> {
        let loaded = &self.loaded;
        let origin = Some(crate::origin::origin());
        let used = Used { processes: self.processes.clone(), origin, ..Used::since(self.start) };
        let mut findings = Findings::of(loaded, results, used)?;
        let page = report::page(loaded, &findings);
        findings.summary.headline.take(&page, findings.is_complete);
        self.directory.summary(&findings.summary).map_err(|error| error.to_string())?;
        // Of no run, every sentence of the report would be true.
        let is_empty = findings.results.is_empty();
        if !is_empty {
            report::write(&page, &self.directory)?.iter().for_each(complain_as_program);
        }
        let is_complete = findings.is_complete;
        self.directory.finish(&findings.summary, is_complete).map_err(|error| error.to_string())?;
        let outcome = if is_complete { live::Outcome::Ok } else { live::Outcome::Interrupted };
        self.live.finish(outcome, None);
        if !is_empty {
            show(self.format, &findings, &loaded.changes, &page, self.directory.path())?;
        }
        Ok(if !is_complete {
            complain_as_program(format_args!(
                "interrupted; {} of {} runs are in {}",
                findings.results.len(),
                loaded.points.len(),
                self.directory.path().display()
            ));
            ExitCode::from(INTERRUPTED)
        } else if findings.checked.iter().any(ExpectationResult::fails) {
            ExitCode::from(NOT_MET)
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Measures the costs that the scenario requests on this machine, and prints them.
fn measure(loaded: &mut Loaded, quiet: bool) -> Result<(), String> {
    let measure = family::of(&loaded.scenario).calibration.measure;
    let measured = measure(loaded).map_err(|error| error.to_string())?;
    if let Some(measured) = measured.filter(|_| !quiet) {
        complain(format_args!("measured on one core of this machine: {measured}"));
    }
    Ok(())
}

pub(crate) fn print_notes(loaded: &Loaded, quiet: bool) {
    for note in loaded.notes.iter().filter(|_| !quiet) {
        complain_as_program(format_args!("note: {note}"));
    }
}

/// Creates `results/SCENARIO-seedSEED`.
///
/// If that holds a finished result or is being written, creates the first of `…-2`, `…-3` and so on
/// that does not. `force` overwrites a finished result in the first only.
fn create_default(loaded: &Loaded, force: bool) -> Result<ResultsDirectory, String> {
    let seed = loaded.points.first().map_or(1, |point| point.seed);
    let first = Path::new("results").join(format!("{}-seed{seed}", loaded.scenario.scenario.name));
    crate::reject_link(&first)?;
    let mut created = ResultsDirectory::create(&first, loaded, force);
    for number in 2.. {
        if !matches!(created, Err(DirectoryError::Finished(_) | DirectoryError::Busy(_))) {
            break;
        }
        let path = PathBuf::from(format!("{}-{number}", first.display()));
        crate::reject_link(&path)?;
        created = ResultsDirectory::create(&path, loaded, false);
    }
    created.map_err(|error| error.to_string())
}

pub(crate) fn progress_bar(points: usize, quiet: bool) -> Bar {
    Bar::new(points as u64 * BAR_STEPS, 0, "{elapsed:>4} [{bar:40}] {percent:>3} %  {msg}", quiet)
}

fn processes(processes: &[ProcessUse]) -> String {
    let lines = processes.iter().enumerate().map(|(rank, process)| {
        format!(
            "process {rank}: {} nodes, {:.1} s of processor, waited for {:.1} s, sent {:.1} MB, {} MB of memory\n",
            process.hosts,
            process.cpu_s,
            process.waited_s,
            process.sent_bytes as f64 / 1e6,
            process.peak_rss_bytes / 1_000_000
        )
    });
    lines.collect()
}

fn show(
    format: Format,
    findings: &Findings,
    changes: &[Change],
    page: &Page,
    path: &Path,
) -> Result<(), String> {
    let Findings { summary, checked, .. } = findings;
    if format == Format::Json {
        print_json(summary)?;
    } else {
        print(&(page.terminal(width()) + "\n"))?;
    }
    print_expectations(checked, format);
    if format == Format::Table {
        let mut text: String = changes.iter().map(|change| fitted(&format!("changed {change}"), 2)).collect();
        let used = format!(
            "digest {}  {:.1} s ({:.1} s of processor), {} MB",
            summary.digest,
            summary.wall_s,
            summary.cpu_s,
            summary.peak_rss_bytes / 1_000_000
        );
        text += &fitted(&used, 2);
        // A path in several lines could not be copied.
        text += &format!("report {}\n", path.join("report.html").display());
        text += &fitted(&processes(&summary.processes), 2);
        print(&text)?;
    }
    for run in &summary.runs {
        for doubt in run.real.iter().flat_map(|real| &real.doubts) {
            complain(format_args!("samara: {}: doubtful: {doubt}", run.name));
        }
    }
    Ok(())
}

/// Prints the number of expectations that hold, and all others.
pub(crate) fn print_expectations(outcomes: &[ExpectationResult], format: Format) {
    let complain_fitted = |line: &str| complain(fitted(line, 2).trim_end());
    if format == Format::Table && !outcomes.is_empty() {
        complain_fitted(&ExpectationResult::count(outcomes));
    }
    for line in ExpectationResult::lines(outcomes.iter().filter(|outcome| !outcome.holds)) {
        complain_fitted(&line);
    }
    if outcomes.iter().any(|outcome| !outcome.counts && !outcome.holds) {
        complain_fitted(&format!("– expectations: {ADVISORY}"));
    }
}

pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, String> {
    let session = Session::open(&options.scenario, &options.output)?;
    let threads = options.threads.map_or_else(processors, usize::from);
    let bar = progress_bar(session.loaded.points.len(), options.output.quiet);
    let results = run_all(
        &session.loaded,
        (threads, options.explain),
        &session.stop,
        &Shown { session: &session, bar: &bar },
    );
    bar.finish_and_clear();
    match results {
        Ok(results) => session.finish(results),
        Err(message) => Err(session.fail(message)),
    }
}

/// Reports the progress of all runs in a bar and in the live file.
struct Shown<'a> {
    session: &'a Session,
    bar: &'a ProgressBar,
}

struct ShownRun<'a> {
    session: &'a Session,
    bar: &'a ProgressBar,
    live: RunLive<'a>,
    done: u64,
}

impl Watch for Shown<'_> {
    fn begin<'a>(&'a self, point: &'a Point) -> impl WatchRun + 'a {
        self.bar.set_message(point.name());
        ShownRun { session: self.session, bar: self.bar, live: self.session.live.run(point), done: 0 }
    }
}

impl WatchRun for ShownRun<'_> {
    fn progress(&mut self, progress: Progress) {
        let now = (progress.share * BAR_STEPS as f64) as u64;
        self.bar.inc(now - self.done);
        self.done = now;
        self.live.progress(None, progress);
    }

    fn state(&mut self, state: &dyn Any) {
        self.live.state(state);
    }

    fn measured(&mut self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), String> {
        self.session.directory.run(measured, outcome).map_err(|error| error.to_string())
    }

    fn end(self, is_done: bool) {
        self.live.end(if is_done { live::RunState::Done } else { live::RunState::Failed });
    }
}

// ---- interrupts: Ctrl-C, and SIGTERM from service managers, batch systems and containers ----

/// Exit status after an interrupt, as in shells: 128 + SIGINT. SIGTERM has the same status, since
/// it leaves the same results.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that the first interrupt sets; the second one ends the process at once.
pub(crate) fn stop_on_interrupt() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_interrupt(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })?;
    Ok(stop)
}

/// Calls `handle` on each interrupt from now on, in a separate thread.
///
/// SIGHUP keeps its default, since `nohup` sets it to "ignore".
pub(crate) fn on_interrupt(mut handle: impl FnMut() + Send + 'static) -> Result<(), String> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("cannot listen for interrupts: {error}"))?;
    let listen = move || signals.forever().for_each(|_| handle());
    let started = std::thread::Builder::new().spawn(listen).map(drop);
    started.map_err(|error| format!("cannot listen for interrupts: {error}"))
}

/// Returns a future that the first interrupt makes ready; the second one ends the process at once.
#[cfg(feature = "net")]
pub(crate) fn interrupt() -> Result<impl Future<Output = ()> + Send, String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    on_interrupt(move || match sender.take() {
        Some(sender) => drop(sender.send(())),
        None => std::process::exit(i32::from(INTERRUPTED)),
    })?;
    Ok(async {
        let _ = receiver.await;
    })
}
