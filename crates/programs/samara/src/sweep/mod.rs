//! `samara sweep`.

mod args;
mod local;
mod ray;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use samara_document::Inputs;
use samara_lab::expect::{Expectation, ExpectationResult};
use samara_lab::family;
use samara_lab::run::LARGE;
use samara_lab::sweep::{
    FailedPoint, Opened, Planned, PointRecord, Rendered, SweepDirectory, SweepSummary, plan, relate_points,
    render,
};
use samara_report::Page;
use samara_scenario::Loaded;
use sha2::{Digest, Sha256};

pub(crate) use args::{PointOptions, SweepOptions};
pub(crate) use local::run_one;

use crate::args::{Format, quoted};
use crate::progress::Bar;
use crate::session::{INTERRUPTED, NOT_MET, print_expectations, print_notes, stop_on_interrupt};
use crate::terminal::{complain, complain_as_program, fitted, width};
use args::Place;

const FAILED: u8 = 3;
/// Maximum number of attempts for a point that fails.
const ATTEMPTS: u32 = 2;

/// The task of an engine: the points to run.
struct Job<'a> {
    directory: &'a SweepDirectory,
    inputs: &'a Inputs,
    todo: Vec<&'a Planned>,
    /// Requested number of points that run at once.
    jobs: Option<usize>,
    /// Whether each point is so large that it needs all processors.
    is_large: bool,
    stop: &'a AtomicBool,
}

/// Reports of an engine. Numbers are indices into [`Job::todo`].
enum PointEvent {
    Started,
    /// A point has finished and its record is in the directory.
    Done(Box<PointRecord>),
    Again(usize, String),
    /// A point was lost with its worker, and runs again.
    Lost(usize, String),
    Failed(usize, String),
    /// A point was cancelled, since the sweep stops.
    Dropped,
    /// A message for the user.
    Note(String),
}

#[derive(Default)]
struct Gathered {
    finished: BTreeMap<String, PointRecord>,
    failed: Vec<FailedPoint>,
}

pub(crate) fn run(options: &SweepOptions) -> Result<ExitCode, String> {
    let start = Instant::now();
    let loaded = options.load()?;
    print_notes(&loaded, options.quiet);
    if (family::of(&loaded.scenario).calibration.is_wanted)(&loaded) {
        return Err(format!(
            "{}: measured costs would change when the sweep is resumed; sweep the scenario.toml of a `samara run`, which has them as numbers",
            loaded.source
        ));
    }
    samara_lab::sweep::check_metrics(&loaded, &options.metric)
        .map_err(|error| format!("--metric: {error}"))?;
    let expectations = Expectation::all_of(&loaded)?;
    let planned = plan(&loaded)?;
    let path = options.directory(&loaded);
    if options.list {
        return list(options, &planned, &path);
    }
    if options.out.is_none() {
        crate::reject_link(&path)?;
    }
    let program = Program::own()?;
    let opened = SweepDirectory::open(&path, &loaded, &planned, &program.sha256, options.force)?;
    let stop = stop_on_interrupt()?;
    let (earlier_s, is_new) = (opened.earlier_s, opened.finished.len() < planned.len());
    let (mut directory, gathered) = gather(options, &loaded, &planned, opened, &program, &stop)?;
    let records = planned.iter().filter_map(|planned| gathered.finished.get(&planned.id).cloned());
    let mut records: Vec<PointRecord> = records.collect();
    let first = loaded.scenario.runs.first().map_or(&loaded.scenario.scenario.name, |run| &run.name);
    relate_points(first, &mut records);
    let finished = records.iter().map(|record| (&*record.name, &record.parameters, &record.metrics));
    let outcomes = Expectation::check_all(&expectations, &loaded, finished);
    let own_s = if is_new { start.elapsed().as_secs_f64() } else { 0.0 };
    let mut summary = SweepSummary::new(&loaded, records, gathered.failed, earlier_s + own_s);
    summary.headline.origin = Some(crate::origin::origin());
    summary.headline.expectations = samara_lab::results::counted(&outcomes);
    let is_complete = summary.runs.len() == planned.len();
    let Rendered { page, tables } = render(&loaded, &summary, &outcomes, &options.metric)?;
    summary.headline.take(&page, is_complete);
    directory.summary(&summary)?;
    tables.iter().try_for_each(|(name, text)| directory.write(name, text.as_bytes()))?;
    let (files, failed) = page.files();
    files.into_iter().try_for_each(|(name, bytes)| directory.write(&name, &bytes))?;
    failed.iter().for_each(complain_as_program);
    directory.finish(&summary, is_complete)?;
    show(options.format, (&summary, &outcomes), &page, directory.path())?;
    let interrupted = stop.load(Ordering::SeqCst) && !is_complete;
    if !is_complete {
        complain(format_args!(
            "samara: {} of {} points are in {}; run the same command to resume",
            summary.runs.len(),
            planned.len(),
            directory.path().display()
        ));
    }
    Ok(if interrupted {
        ExitCode::from(INTERRUPTED)
    } else if !is_complete {
        ExitCode::from(FAILED)
    } else if outcomes.iter().any(ExpectationResult::fails) {
        ExitCode::from(NOT_MET)
    } else {
        ExitCode::SUCCESS
    })
}

fn gather(
    options: &SweepOptions,
    loaded: &Loaded,
    planned: &[Planned],
    opened: Opened,
    program: &Program,
    stop: &AtomicBool,
) -> Result<(SweepDirectory, Gathered), String> {
    let Opened { directory, finished, is_of_another_program, .. } = opened;
    if is_of_another_program {
        complain(
            "samara: finished points come from another build of this version; if its results differ, start a new sweep with another --out",
        );
    }
    let todo: Vec<&Planned> = planned.iter().filter(|planned| !finished.contains_key(&planned.id)).collect();
    if !finished.is_empty() && !options.quiet {
        complain_as_program(format_args!(
            "{} of {} points are finished already",
            finished.len(),
            planned.len()
        ));
    }
    let mut gathered = Gathered { finished, failed: Vec::new() };
    if !todo.is_empty() {
        let progress = Progress::new(planned.len(), gathered.finished.len(), options.quiet);
        let job = Job {
            directory: &directory,
            inputs: &loaded.inputs,
            jobs: options.jobs.map(usize::from),
            is_large: todo.iter().any(|planned| planned.point.scenario.network.nodes > LARGE),
            todo,
            stop,
        };
        let (sender, events) = channel();
        std::thread::scope(|scope| {
            let work = || match options.engine {
                Place::Local => local::run(&job, program, sender),
                Place::Ray => ray::run(&job, program, options, sender),
            };
            let worked = std::thread::Builder::new().spawn_scoped(scope, work);
            let worked = worked.map_err(|error| format!("cannot start a thread: {error}"))?;
            listen(&job, events, progress, &mut gathered);
            worked.join().unwrap_or_else(|_| Err("the thread that runs points has panicked".to_owned()))
        })?;
    }
    Ok((directory, gathered))
}

fn listen(job: &Job<'_>, events: Receiver<PointEvent>, mut progress: Progress, gathered: &mut Gathered) {
    for event in events {
        progress.take(&event, |place| {
            let planned = job.todo[place];
            format!("{}, seed {}", planned.point.name(), planned.point.seed)
        });
        match event {
            PointEvent::Done(record) => {
                gathered.finished.insert(record.id.clone(), *record);
            }
            PointEvent::Failed(place, why) => {
                let Planned { id, point } = job.todo[place];
                gathered.failed.push(FailedPoint {
                    id: id.clone(),
                    name: point.name(),
                    seed: point.seed,
                    why,
                });
            }
            PointEvent::Started
            | PointEvent::Again(..)
            | PointEvent::Lost(..)
            | PointEvent::Dropped
            | PointEvent::Note(_) => {}
        }
    }
    progress.finish();
}

/// This program, which runs the points.
struct Program {
    path: std::path::PathBuf,
    sha256: String,
}

impl Program {
    fn own() -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("cannot read this program: {error}");
        // The link also names this program after another build has replaced the file.
        let running = Path::new("/proc/self/exe");
        let path =
            if running.exists() { running.to_path_buf() } else { std::env::current_exe().map_err(fail)? };
        let digest = Sha256::digest(std::fs::read(&path).map_err(fail)?);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path, sha256 })
    }
}

fn list(options: &SweepOptions, planned: &[Planned], path: &Path) -> Result<ExitCode, String> {
    let points = path.join("points").display().to_string();
    let lines = planned.iter().map(|planned| {
        let mut words = vec!["samara".to_owned(), "point".to_owned(), options.selection.scenario.clone()];
        for (key, value) in &options.selection.set {
            words.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        words.extend(planned.arguments());
        words.extend(["--id", &planned.id, "--out", &points].map(str::to_owned));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ") + "\n"
    });
    crate::print(&lines.collect::<String>())
}

fn show(
    format: Format,
    (summary, outcomes): (&SweepSummary, &[ExpectationResult]),
    page: &Page,
    path: &Path,
) -> Result<(), String> {
    if format == Format::Json {
        crate::print_json(summary)?;
    } else {
        crate::print(&(page.terminal(width()) + "\n"))?;
    }
    print_expectations(outcomes, format);
    if format == Format::Table {
        let digest = format!(
            "digest {}  {} points, {:.1} s ({:.1} s of processor), {} MB",
            summary.digest,
            summary.runs.len(),
            summary.wall_s,
            summary.cpu_s,
            summary.peak_rss_bytes / 1_000_000
        );
        let report = path.join("report.html");
        crate::print(&format!("{}report {}\n", fitted(&digest, 2), report.display()))?;
    }
    for failed in &summary.failed {
        complain(format_args!("✗ {}, seed {} failed: {}", failed.name, failed.seed, failed.why));
    }
    Ok(())
}

/// A progress line: points finished, running and failed, and the remaining time.
struct Progress {
    bar: Bar,
    quiet: bool,
    running: usize,
    again: usize,
    lost: usize,
    failed: usize,
}

impl Progress {
    /// Creates the line for a sweep with this number of points, of which some are finished.
    fn new(points: usize, finished: usize, quiet: bool) -> Self {
        let template = "{elapsed:>4} [{bar:30}] {pos}/{len} points  {msg}  {eta} to go";
        let bar = Bar::new(points as u64, finished as u64, template, quiet);
        Self { bar, quiet, running: 0, again: 0, lost: 0, failed: 0 }
    }

    /// Updates the line for an event. `name` returns the name of the point at an index.
    fn take(&mut self, event: &PointEvent, name: impl Fn(usize) -> String) {
        match event {
            PointEvent::Started => self.running += 1,
            PointEvent::Note(_) => {}
            _ => self.running = self.running.saturating_sub(1),
        }
        match event {
            PointEvent::Done(_) => self.bar.inc(1),
            PointEvent::Again(place, why) => {
                self.again += 1;
                self.say(&format!("{} failed and runs again: {why}", name(*place)));
            }
            PointEvent::Lost(place, why) => {
                self.lost += 1;
                self.say(&format!("{} was lost with its worker and runs again: {why}", name(*place)));
            }
            PointEvent::Failed(place, why) => {
                self.failed += 1;
                // The first line only: the details come at the end.
                self.say(&format!("{} failed: {}", name(*place), why.lines().next().unwrap_or_default()));
            }
            PointEvent::Note(text) => self.say(text),
            PointEvent::Started | PointEvent::Dropped => {}
        }
        let mut parts = vec![format!("{} running", self.running)];
        for (count, what) in [(self.failed, "failed"), (self.again, "run again"), (self.lost, "lost")] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        self.bar.set_message(parts.join(", "));
    }

    /// Prints a message, also without a terminal, since logs need failures.
    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| complain_as_program(text));
        }
    }

    /// Removes the line, and prints how many points ran again.
    fn finish(self) {
        self.bar.finish_and_clear();
        if self.again + self.lost > 0 {
            complain(format_args!(
                "samara: {} points ran again after a failure, {} after their worker was lost",
                self.again, self.lost
            ));
        }
    }
}
