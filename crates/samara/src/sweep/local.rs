//! Points on this machine, each a process of its own: one that crashes takes nothing else with it. And what that process does.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use samara_lab::run::{RunOptions, run as run_point};
use samara_lab::sweep::{Planned, PointRecord, SweepDirectory, point_id};
use samara_lab::usage;
use samara_scenario::Inputs;
use samara_spec::{builtin, load_source};

use super::{ATTEMPTS, Job, PointEvent, PointOptions, Program};
use crate::BAD_INPUT;
use crate::session::INTERRUPTED;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// So much of what a failed point had to say is told: the end of it.
const SAID_MAX: u64 = 4096;

enum End {
    Done(Box<PointRecord>),
    /// Why, and whether another attempt may end otherwise.
    Failed(String, bool),
    Dropped,
}

/// Runs all points, and tells what becomes of them.
pub(super) fn run(job: &Job<'_>, program: &Program, news: Sender<PointEvent>) -> Result<(), String> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = job.jobs.unwrap_or(if job.is_large { 1 } else { available }).min(job.todo.len()).max(1);
    let threads = if job.is_large { (available / jobs).max(1) } else { 1 };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (news, next) = (news.clone(), &next);
            scope.spawn(move || {
                // Nobody listens any more only if everything is over.
                let tell = |item| drop(news.send(item));
                while !job.stop.load(Ordering::SeqCst) {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    let Some(planned) = job.todo.get(place) else { return };
                    for attempt in 1..=ATTEMPTS {
                        tell(PointEvent::Started);
                        match point(job, program, planned, threads) {
                            End::Done(record) => tell(PointEvent::Done(record)),
                            End::Failed(why, true) if attempt < ATTEMPTS => {
                                tell(PointEvent::Again(place, why));
                                continue;
                            }
                            End::Failed(why, _) => tell(PointEvent::Failed(place, why)),
                            End::Dropped => tell(PointEvent::Dropped),
                        }
                        break;
                    }
                }
            });
        }
    });
    Ok(())
}

fn point(job: &Job<'_>, program: &Program, planned: &Planned, threads: usize) -> End {
    let said_path = job.directory.failures().join(format!("{}.txt", planned.id));
    let end = said_at(&said_path).and_then(|mut said| {
        let status = wait(job, start(job, program, planned, threads, &said)?)?;
        Ok(match status {
            None => End::Dropped,
            Some(status) if status.success() => match job.directory.record(&planned.id) {
                Ok(record) => End::Done(Box::new(record)),
                Err(error) => End::Failed(error, true),
            },
            // What is wrong with the input will be wrong with it again.
            Some(status) => {
                let is_input = status.code() == Some(i32::from(BAD_INPUT));
                End::Failed(format!("{}{}", how(status), end_of(&mut said)), !is_input)
            }
        })
    });
    let end = end.unwrap_or_else(|error| End::Failed(error.to_string(), true));
    if !matches!(end, End::Failed(..)) {
        // There is nothing to be read in it.
        let _ = std::fs::remove_file(said_path);
    }
    end
}

fn said_at(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

fn start(
    job: &Job<'_>,
    program: &Program,
    planned: &Planned,
    threads: usize,
    said: &File,
) -> std::io::Result<Child> {
    let mut command = Command::new(&program.path);
    command.arg("point").arg(job.directory.scenario()).args(planned.arguments());
    command.args(["--id", &planned.id, "--end-with-stdin", "--threads", &threads.to_string()]);
    command.arg("--out").arg(job.directory.points());
    if !job.files.as_os_str().is_empty() {
        command.arg("--files").arg(job.files);
    } else {
        command.args(["--files", "."]);
    }
    // A pipe that closes when this process is gone, however it goes; and a group of its own, so that interrupts come here only.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said.try_clone()?).process_group(0).spawn()
}

/// Waits for the end of a process, or ends it; `None` if it was ended.
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
        std::thread::sleep(LOOK);
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with status {code}"),
        (None, Some(signal)) => format!("its process was ended by signal {signal}"),
        (None, None) => "its process ended".to_owned(),
    }
}

/// The end of what a process had to say.
fn end_of(said: &mut File) -> String {
    let mut text = Vec::new();
    let from = said.metadata().map_or(0, |data| data.len().saturating_sub(SAID_MAX));
    if said.seek(SeekFrom::Start(from)).and_then(|_| said.read_to_end(&mut text)).is_err() || text.is_empty()
    {
        return String::new();
    }
    format!(": {}", String::from_utf8_lossy(&text).trim_end())
}

/// `samara point`: one point of a sweep, for whoever runs many of them.
pub(crate) fn run_one(options: &PointOptions) -> Result<ExitCode, String> {
    let start = Instant::now();
    if options.end_with_stdin {
        std::thread::spawn(|| {
            // Whatever comes is thrown away, up to the end or an error.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            std::process::exit(i32::from(INTERRUPTED));
        });
    }
    let loaded = match &options.files {
        Some(files) if builtin(&options.which.scenario).is_none() => {
            let source = &options.which.scenario;
            let text = std::fs::read_to_string(source).map_err(|error| format!("{source}: {error}"))?;
            let overrides = options.which.overrides(&options.grid);
            load_source(source, &text, Inputs::directory(files), &overrides)
                .map_err(|error| error.to_string())?
        }
        _ => options.which.load_with(&options.grid)?,
    };
    let [point] = loaded.points.as_slice() else {
        return Err(format!(
            "{}: {} points; --only, --seed and --grid KEY=VALUE have to choose one of them",
            loaded.source,
            loaded.points.len()
        ));
    };
    let id = point_id(point, &loaded.inputs)?;
    if let Some(wanted) = options.id.as_ref().filter(|wanted| **wanted != id) {
        return Err(format!(
            "{}: the point has the id {id}, not {wanted}: its scenario, its files or the program are not those that the sweep was \
             planned with",
            loaded.source
        ));
    }
    let stop = AtomicBool::new(false);
    let run_options =
        RunOptions { threads: usize::from(options.threads), inputs: &loaded.inputs, stop: &stop };
    let measured = run_point(point, run_options, |_| {})
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    let result = measured.outcome();
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
