//! `samara run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use samara_lab::reference::{self, Comparison};
use samara_lab::results::{ResultsDirectory, RunResult, Summary, combined_digest};
use samara_lab::run::{RunError, RunOptions as Options, run as run_point};
use samara_lab::scenario::{Expectation, Loaded, Outcome};
use samara_report::{Report, terminal};

use crate::args::{Format, RunOptions};
use crate::usage;

/// An expectation was not met.
const NOT_MET: u8 = 1;
/// As shells report an interrupt (128 + SIGINT).
const INTERRUPTED: u8 = 130;
/// From so many nodes on, runs are done one after the other, each on all threads: memory counts then.
const LARGE: u32 = 4000;
/// Steps of the progress bar for each run.
const BAR_STEPS: u64 = 1000;

pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, String> {
    let start = Instant::now();
    let loaded = options.scenario.load()?;
    let expectations = expectations(&loaded)?;
    let path = options.out.clone().unwrap_or_else(|| default_path(&loaded, options.force));
    let directory =
        ResultsDirectory::create(&path, &loaded, options.force).map_err(|error| error.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            // The second time there is no waiting.
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
    .map_err(|error| format!("cannot listen for interrupts: {error}"))?;

    let results = run_all(&loaded, options, &directory, &stop)?;
    let finished: Vec<RunResult> = results.into_iter().flatten().collect();
    let complete = finished.len() == loaded.points.len();
    let comparisons = reference::compare(&loaded, &finished, &loaded.directory)?;
    let outcomes = check(&expectations, &finished);
    let summary = summary(&loaded, &finished, start);
    let report = Report::new(&loaded, &summary, &finished, &comparisons, &outcomes);
    write_report(&directory, &report)?;
    directory.finish(&summary, complete).map_err(|error| error.to_string())?;
    show(options.format, &summary, &report, &comparisons, &outcomes, directory.path())?;
    Ok(if !complete {
        eprintln!(
            "samara: interrupted; {} of {} runs are in {}",
            finished.len(),
            loaded.points.len(),
            path.display()
        );
        ExitCode::from(INTERRUPTED)
    } else if outcomes.iter().any(|outcome| !outcome.holds) {
        ExitCode::from(NOT_MET)
    } else {
        ExitCode::SUCCESS
    })
}

/// `results/SCENARIO-seedSEED`, with a number behind it if there is a finished result already.
fn default_path(loaded: &Loaded, force: bool) -> PathBuf {
    let seed = loaded.points.first().map_or(1, |point| point.seed);
    let name = format!("{}-seed{seed}", loaded.scenario.scenario.name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.clone()).chain(numbered).map(|name| Path::new("results").join(name));
    let free = paths.find(|path| force || !ResultsDirectory::is_finished(path));
    free.unwrap_or_else(|| Path::new("results").join(&name))
}

fn expectations(loaded: &Loaded) -> Result<Vec<Expectation>, String> {
    let parse = |(key, text): (&String, &String)| {
        Expectation::parse(key, text).map_err(|error| format!("{}: expect.\"{key}\": {error}", loaded.source))
    };
    loaded.scenario.expect.iter().map(parse).collect()
}

/// Runs all points: several at once if they are small, each on all threads if they are large. Those that were interrupted are
/// `None`.
fn run_all(
    loaded: &Loaded,
    options: &RunOptions,
    directory: &ResultsDirectory,
    stop: &AtomicBool,
) -> Result<Vec<Option<RunResult>>, String> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(available, usize::from);
    let points = &loaded.points;
    let large = points.iter().any(|point| point.scenario.network.nodes > LARGE);
    let workers = if large { 1 } else { threads.min(points.len()).max(1) };
    let bar = progress_bar(points.len(), options.quiet);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<RunResult>>> = points.iter().map(|_| Mutex::default()).collect();
    let failure: Mutex<Option<String>> = Mutex::default();
    let fail = |message: String| {
        lock(&failure).get_or_insert(message);
        stop.store(true, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let index = points.iter().position(|other| std::ptr::eq(other, point)).unwrap_or(0);
                    let run_options =
                        Options { threads: threads / workers, directory: &loaded.directory, stop };
                    bar.set_message(point.name());
                    let mut done = 0;
                    let measured = run_point(point, run_options, |share| {
                        let now = (share * BAR_STEPS as f64) as u64;
                        bar.inc(now - done);
                        done = now;
                    });
                    match measured {
                        Ok(measured) => {
                            let result = RunResult::of(&measured);
                            match directory.run(&measured, &result) {
                                Ok(()) => *lock(&results[index]) = Some(result),
                                Err(error) => fail(error.to_string()),
                            }
                        }
                        Err(RunError::Interrupted) => return,
                        Err(RunError::Scenario(error)) => {
                            fail(format!("{}: run {}: {error}", loaded.source, point.name()));
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if let Some(message) = lock(&failure).take() {
        return Err(message);
    }
    Ok(results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn progress_bar(points: usize, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let bar = ProgressBar::new(points as u64 * BAR_STEPS);
    let template = "{elapsed:>4} [{bar:40}] {percent:>3} %  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn check(expectations: &[Expectation], results: &[RunResult]) -> Vec<Outcome> {
    let outcomes = results.iter().flat_map(|result| {
        let metrics = result.run().metrics_value();
        expectations
            .iter()
            .filter_map(|expectation| expectation.check(&result.run().name, &metrics))
            .collect::<Vec<_>>()
    });
    outcomes.collect()
}

fn summary(loaded: &Loaded, results: &[RunResult], start: Instant) -> Summary {
    let first = loaded.points.first();
    Summary {
        scenario: loaded.scenario.scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: first.map_or(0, |point| point.seed),
        nodes: first.map_or(0, |point| point.scenario.network.nodes),
        digest: combined_digest(results.iter().map(|result| result.run().digest.as_str())),
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: usage::cpu_seconds(),
        peak_rss_bytes: usage::peak_rss_bytes(),
        steps: results.iter().map(|result| result.run().steps).sum(),
        runs: results.iter().map(|result| result.run().clone()).collect(),
    }
}

fn write_report(directory: &ResultsDirectory, report: &Report) -> Result<(), String> {
    let write = |name: &str, bytes: &[u8]| directory.bytes(name, bytes).map_err(|error| error.to_string());
    write("report.html", report.html().as_bytes())?;
    for (name, svg) in report.figures() {
        write(&format!("figures/{name}.svg"), svg.as_bytes())?;
        write(&format!("figures/{name}.png"), &samara_report::png(&svg)?)?;
    }
    Ok(())
}

fn show(
    format: Format,
    summary: &Summary,
    report: &Report,
    comparisons: &[Comparison],
    outcomes: &[Outcome],
    path: &Path,
) -> Result<(), String> {
    if format == Format::Json {
        let json = serde_json::to_string(summary).map_err(|error| error.to_string())?;
        crate::print(&(json + "\n"))?;
    } else {
        let mut text = terminal::table(report);
        if !comparisons.is_empty() {
            text += &terminal::comparisons(comparisons);
        }
        text += &format!(
            "digest {}  {:.1} s ({:.1} s of processor), {} MB\nreport {}\n",
            summary.digest,
            summary.wall_s,
            summary.cpu_s,
            summary.peak_rss_bytes / 1_000_000,
            path.join("report.html").display()
        );
        crate::print(&text)?;
    }
    // Which expectations held, without repeating those of every seed and point.
    let mut lines: BTreeMap<(bool, String), usize> = BTreeMap::new();
    for outcome in outcomes {
        let found = outcome.found.map_or("not measured".to_owned(), |found| format!("{found:.4}"));
        let line = if outcome.holds {
            format!("✓ {}: {}", outcome.run, outcome.expected)
        } else {
            format!("✗ {}: {}, but it is {found}", outcome.run, outcome.expected)
        };
        *lines.entry((outcome.holds, line)).or_default() += 1;
    }
    for ((holds, line), count) in lines.iter().rev() {
        if !holds || format == Format::Table {
            eprintln!("{line}{}", if *count > 1 { format!(" ({count} runs)") } else { String::new() });
        }
    }
    Ok(())
}
