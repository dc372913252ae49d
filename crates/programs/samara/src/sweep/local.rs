//! Runs points on this machine. Each has a separate process, so that a crash affects no other
//! point.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use samara_document::{Inputs, file};
use samara_lab::run::{RunOptions, run as run_point, with_threads};
use samara_lab::sweep::{Planned, PointRecord, SweepDirectory, point_id};
use samara_lab::usage;
use samara_scenario::{TEXT_BYTES_MAX, builtin, load_source};

use super::{ATTEMPTS, Job, PointEvent, PointOptions, Program};
use crate::BAD_INPUT;
use crate::args::ScenarioOptions;
use crate::session::INTERRUPTED;

/// Interval between two checks of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of bytes from the end of a failed point's output in its error.
const OUTPUT_MAX: u64 = 4096;

enum End {
    Done(Box<PointRecord>),
    /// The reason, and whether another attempt may succeed.
    Failed(String, bool),
    Dropped,
}

/// Runs all points, and reports their progress.
pub(super) fn run(job: &Job<'_>, program: &Program, events: Sender<PointEvent>) -> Result<(), String> {
    let available = usage::processors();
    let jobs = job.jobs.unwrap_or(if job.is_large { 1 } else { available }).min(job.todo.len()).max(1);
    let threads = if job.is_large { (available / jobs).max(1) } else { 1 };
    let next = AtomicUsize::new(0);
    with_threads(jobs, || {
        // The receiver is gone only after the sweep has ended.
        let report = |item| drop(events.send(item));
        while !job.stop.load(Ordering::SeqCst) {
            let place = next.fetch_add(1, Ordering::SeqCst);
            let Some(planned) = job.todo.get(place) else { return };
            for attempt in 1..=ATTEMPTS {
                report(PointEvent::Started);
                match point(job, program, planned, threads) {
                    End::Done(record) => report(PointEvent::Done(record)),
                    End::Failed(why, true) if attempt < ATTEMPTS => {
                        report(PointEvent::Again(place, why));
                        continue;
                    }
                    End::Failed(why, _) => report(PointEvent::Failed(place, why)),
                    End::Dropped => report(PointEvent::Dropped),
                }
                break;
            }
        }
    });
    Ok(())
}

fn point(job: &Job<'_>, program: &Program, planned: &Planned, threads: usize) -> End {
    let log_path = job.directory.failures().join(format!("{}.txt", planned.id));
    let mut log = File::options();
    let log = log.read(true).write(true).create(true).truncate(true).open(&log_path);
    let end = log.and_then(|mut log| {
        let status = wait(job, start(job, program, planned, threads, &log)?)?;
        Ok(match status {
            None => End::Dropped,
            Some(status) if status.success() => match job.directory.record(&planned.id) {
                Ok(record) => End::Done(Box::new(record)),
                Err(error) => End::Failed(error, true),
            },
            // Wrong input will fail again.
            Some(status) => {
                let is_input = status.code() == Some(i32::from(BAD_INPUT));
                End::Failed(format!("{}{}", describe_exit(status), tail_of(&mut log)), !is_input)
            }
        })
    });
    let end = end.unwrap_or_else(|error| End::Failed(error.to_string(), true));
    if !matches!(end, End::Failed(..)) {
        // The log of a point that did not fail has no use.
        let _ = std::fs::remove_file(log_path);
    }
    end
}

fn start(
    job: &Job<'_>,
    program: &Program,
    planned: &Planned,
    threads: usize,
    log: &File,
) -> std::io::Result<Child> {
    let mut command = Command::new(&program.path);
    command.arg("point").arg(job.directory.scenario()).args(planned.arguments());
    command.args(["--id", &planned.id, "--end-with-stdin", "--threads", &threads.to_string()]);
    command.arg("--out").arg(job.directory.points());
    let files = job.inputs.path();
    command.arg("--files").arg(if files.as_os_str().is_empty() { Path::new(".") } else { files });
    // Standard input is a pipe that closes when this process ends, for whatever reason. The
    // separate process group keeps interrupts from the points, so that this process handles them.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log.try_clone()?).process_group(0).spawn()
}

/// Waits until a process ends, or kills it on an interrupt. Returns `None` if it was killed.
fn wait(job: &Job<'_>, mut child: Child) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if job.stop.load(Ordering::SeqCst) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with status {code}"),
        (None, Some(signal)) => format!("its process was killed by signal {signal}"),
        (None, None) => "its process ended".to_owned(),
    }
}

/// The end of a process's error output.
fn tail_of(log: &mut File) -> String {
    let mut text = Vec::new();
    let from = log.metadata().map_or(0, |data| data.len().saturating_sub(OUTPUT_MAX));
    if log.seek(SeekFrom::Start(from)).and_then(|_| log.read_to_end(&mut text)).is_err() || text.is_empty() {
        return String::new();
    }
    format!(": {}", String::from_utf8_lossy(&text).trim_end())
}

/// Runs `samara point`: one point of a sweep.
pub(crate) fn run_one(options: &PointOptions) -> Result<ExitCode, String> {
    let start = Instant::now();
    if options.end_with_stdin {
        crate::at_end_of_stdin(|| std::process::exit(i32::from(INTERRUPTED)));
    }
    let ScenarioOptions { selection, seed } = &options.which;
    let loaded = match &options.files {
        Some(files) if builtin(&selection.scenario).is_none() => {
            let source = &selection.scenario;
            let text = file::read_named_text(Path::new(source), TEXT_BYTES_MAX);
            let text = text.map_err(|error| format!("{source}: {error}"))?;
            let overrides = selection.overrides(seed.as_slice(), &options.grid);
            load_source(source, &text, Inputs::directory(files), &overrides)
                .map_err(|error| error.to_string())?
        }
        _ => options.which.load_with(&options.grid)?,
    };
    let [point] = loaded.points.as_slice() else {
        return Err(format!(
            "{}: {} points; expected one: select it with --only, --seed and --grid KEY=VALUE",
            loaded.source,
            loaded.points.len()
        ));
    };
    let id = point_id(point, &loaded.inputs)?;
    if let Some(wanted) = options.id.as_ref().filter(|wanted| **wanted != id) {
        return Err(format!(
            "{}: the point has the id {id}, not {wanted}: its scenario, files or program differ from those of the \
             sweep",
            loaded.source
        ));
    }
    let run_options = RunOptions::new(usize::from(options.threads), &loaded.inputs);
    let mut ended = None;
    let measured = run_point(point, run_options, |progress, _| ended = progress.virtual_nanos)
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    let result = measured.outcome().ended_at(ended);
    let record = PointRecord {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: usage::cpu_seconds(),
        peak_rss_bytes: usage::peak_rss_bytes(),
        ..PointRecord::of(id, &result.run)
    };
    match &options.out {
        Some(points) => SweepDirectory::write_point(points, &record)?,
        None => drop(crate::print_json(&record)?),
    }
    Ok(ExitCode::SUCCESS)
}
