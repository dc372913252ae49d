//! Runs points on a Ray cluster, through a small driver in Python that this program contains.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_lab::sweep::{PointRecord, SweepDirectory};
use serde::{Deserialize, Serialize};

use super::{ATTEMPTS, Job, PointEvent, Program, SweepOptions};
use crate::BAD_INPUT;

const DRIVER: &str = include_str!("ray_driver.py");
/// Maximum number of workers that a point may lose. Then the sweep gives the point up, since it may
/// be the cause.
const LOSSES_MAX: u32 = 5;
/// Interval between two checks for the end of the sweep, and maximum time for the driver to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const END_MAX: Duration = Duration::from_secs(20);
/// File with the error output of the driver and of Ray, in the directory of failures.
const DRIVER_LOG: &str = "ray.txt";

#[derive(Serialize)]
struct Order<'a> {
    address: Option<&'a str>,
    program: String,
    sha256: &'a str,
    scenario: String,
    /// Contents in base64, by name.
    files: BTreeMap<String, String>,
    jobs: Option<usize>,
    attempts_max: u32,
    losses_max: u32,
    bad_input: u8,
    points: Vec<PointOrder>,
}

#[derive(Serialize)]
struct PointOrder {
    arguments: Vec<String>,
}

/// Events that the driver reports. Places are indices into [`Order::points`].
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Cluster { version: String, nodes: u64, processors: f64 },
    Started,
    Done { place: usize, record: String },
    Again { place: usize, why: String },
    Lost { place: usize, why: String },
    Failed { place: usize, why: String },
    Dropped,
    Error { text: String },
}

/// Runs all points, and reports their progress.
pub(super) fn run(
    job: &Job<'_>,
    program: &Program,
    options: &SweepOptions,
    events: Sender<PointEvent>,
) -> Result<(), String> {
    let order = serde_json::to_string(&order(job, program, options)?).map_err(|error| error.to_string())?;
    let mut driver = start(job, options)?;
    let mut stdin = driver.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A driver that has ended already has reported its error.
        let _ = stdin.write_all((order + "\n").as_bytes());
    }
    let error = follow(job, &mut driver, stdin, &events);
    let status = end(&mut driver);
    let log = job.directory.failures().join(DRIVER_LOG);
    match error {
        Some(text) => Err(format!(
            "{text}\n--engine ray needs Python with Ray (pip install 'ray>=2.51'; select another Python with --python, or another \
             cluster with --address); finished points are kept"
        )),
        None if status == Some(0) || job.stop.load(Ordering::SeqCst) => {
            let _ = std::fs::remove_file(log);
            Ok(())
        }
        None => Err(format!("the Ray driver ended early; {} has its output", log.display())),
    }
}

fn order<'a>(job: &Job<'_>, program: &'a Program, options: &'a SweepOptions) -> Result<Order<'a>, String> {
    let mut files = BTreeMap::new();
    for name in job.todo.iter().flat_map(|planned| planned.point.scenario.own_files()) {
        if !std::path::Path::new(&name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
        {
            return Err(format!(
                "{name}: expected a file in the directory of the scenario or below, as Ray requires"
            ));
        }
        if let Entry::Vacant(place) = files.entry(name) {
            let bytes = job.inputs.bytes(place.key())?;
            place.insert(STANDARD.encode(bytes));
        }
    }
    let scenario = std::fs::read_to_string(job.directory.scenario())
        .map_err(|error| format!("{}: {error}", job.directory.scenario().display()))?;
    let points = job.todo.iter().map(|planned| {
        let id = ["--id".to_owned(), planned.id.clone()];
        PointOrder { arguments: planned.arguments().into_iter().chain(id).collect() }
    });
    Ok(Order {
        address: options.address.as_deref(),
        program: crate::own_program()?.display().to_string(),
        sha256: &program.sha256,
        scenario,
        files,
        jobs: job.jobs,
        attempts_max: ATTEMPTS,
        losses_max: LOSSES_MAX,
        bad_input: BAD_INPUT,
        points: points.collect(),
    })
}

fn start(job: &Job<'_>, options: &SweepOptions) -> Result<Child, String> {
    let log = job.directory.failures().join(DRIVER_LOG);
    let log = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new(&options.python);
    // The separate process group keeps interrupts from the driver. It ends when its standard input
    // closes.
    command.args(["-c", DRIVER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).process_group(0);
    command.spawn().map_err(|error| {
        format!(
            "{}: {error}; --engine ray needs Python with Ray (pip install 'ray>=2.51'); select another Python with --python",
            options.python.display()
        )
    })
}

/// Forwards the driver's events until it ends. Returns the error that the driver reported.
fn follow(
    job: &Job<'_>,
    driver: &mut Child,
    mut stdin: Option<ChildStdin>,
    events: &Sender<PointEvent>,
) -> Option<String> {
    let output = driver.stdout.take()?;
    let (sender, lines) = channel();
    let started = std::thread::Builder::new().spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut error = started.err().map(|error| format!("cannot start a thread: {error}"));
    loop {
        if job.stop.load(Ordering::SeqCst) {
            // Closing its standard input stops the driver.
            stdin = None;
        }
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Event::Error { text }) => error = Some(text),
                Ok(event) => {
                    if let Some(item) = to_point_event(job, event) {
                        let _ = events.send(item);
                    }
                }
                Err(_) => error = Some(format!("unexpected output of the Ray driver: \"{line}\"")),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(stdin);
    error
}

/// Converts an event of the driver. Writes its record here, since workers may not see the
/// directory.
fn to_point_event(job: &Job<'_>, event: Event) -> Option<PointEvent> {
    let is_place = |place: usize| place < job.todo.len();
    let item = match event {
        Event::Cluster { version, nodes, processors } => {
            PointEvent::Note(format!("Ray {version}, {nodes} nodes with {processors:.0} processors"))
        }
        Event::Started => PointEvent::Started,
        Event::Done { place, record } if is_place(place) => {
            match written(job, &job.todo[place].id, &record) {
                Ok(record) => PointEvent::Done(Box::new(record)),
                Err(why) => PointEvent::Failed(place, why),
            }
        }
        Event::Again { place, why } if is_place(place) => PointEvent::Again(place, why),
        Event::Lost { place, why } if is_place(place) => PointEvent::Lost(place, why),
        Event::Failed { place, why } if is_place(place) => PointEvent::Failed(place, why),
        Event::Dropped => PointEvent::Dropped,
        _ => return None,
    };
    Some(item)
}

fn written(job: &Job<'_>, id: &str, record: &str) -> Result<PointRecord, String> {
    let record: PointRecord = serde_json::from_str(record)
        .map_err(|error| format!("its worker did not return a record: {error}"))?;
    if record.id != id {
        return Err(format!("its worker returned the record of point {}", record.id));
    }
    SweepDirectory::write_point(&job.directory.points(), &record)?;
    Ok(record)
}

/// Waits until the driver has ended, and kills it after [`END_MAX`].
fn end(driver: &mut Child) -> Option<i32> {
    let until = Instant::now() + END_MAX;
    while Instant::now() < until {
        match driver.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Err(_) => break,
        }
    }
    let _ = driver.kill();
    let _ = driver.wait();
    None
}
