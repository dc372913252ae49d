//! Points on this machine, each a process of its own: one that crashes takes nothing else with it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use samara_lab::sweep::{Planned, PointRecord};

use super::{ATTEMPTS, Job, PointEvent, Program};
use crate::BAD_INPUT;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// So much of what a failed point had to say is told: the end of it.
const SAID_MAX: u64 = 4096;

/// How a point ended.
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

/// Runs a point in a process.
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
