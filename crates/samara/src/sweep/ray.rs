//! Points on a Ray cluster, through a small driver in Python, which is part of this program.

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
/// A point is given up when it has lost so many workers: it may be what kills them.
const LOSSES_MAX: u32 = 5;
/// How often it is looked at whether everything is to end, and how long the driver may take for it.
const LOOK: Duration = Duration::from_millis(100);
const END_MAX: Duration = Duration::from_secs(20);
/// The file in the directory of failures that has what driver and Ray had to say.
const SAID: &str = "ray.txt";

#[derive(Serialize)]
struct Order<'a> {
    address: Option<&'a str>,
    program: String,
    sha256: &'a str,
    scenario: String,
    /// Names and contents in base64.
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

/// What the driver tells; places are those of [`Order::points`].
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

/// Runs all points, and tells what becomes of them.
pub(super) fn run(
    job: &Job<'_>,
    program: &Program,
    options: &SweepOptions,
    news: Sender<PointEvent>,
) -> Result<(), String> {
    let order = serde_json::to_string(&order(job, program, options)?).map_err(|error| error.to_string())?;
    let mut driver = start(job, options)?;
    let mut stdin = driver.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A driver that is gone already has said why.
        let _ = stdin.write_all((order + "\n").as_bytes());
    }
    let error = follow(job, &mut driver, stdin, &news);
    let status = end(&mut driver);
    let said = job.directory.failures().join(SAID);
    match error {
        Some(text) => Err(format!(
            "{text}\nthe engine ray needs Python with Ray (pip install 'ray>=2.51'; --python chooses another Python, --address another \
             cluster); finished points are kept"
        )),
        None if status == Some(0) || job.stop.load(Ordering::SeqCst) => {
            let _ = std::fs::remove_file(said);
            Ok(())
        }
        None => Err(format!("the driver of Ray ended early; {} has what it said", said.display())),
    }
}

fn order<'a>(job: &Job<'_>, program: &'a Program, options: &'a SweepOptions) -> Result<Order<'a>, String> {
    let mut files = BTreeMap::new();
    for name in job.todo.iter().flat_map(|planned| planned.point.scenario.own_files()) {
        if !std::path::Path::new(&name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
        {
            return Err(format!("{name}: files for a cluster have to be beside the scenario, or below it"));
        }
        if let Entry::Vacant(place) = files.entry(name) {
            let path = job.files.join(place.key());
            let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            place.insert(STANDARD.encode(bytes));
        }
    }
    let scenario = std::fs::read_to_string(job.directory.scenario())
        .map_err(|error| format!("{}: {error}", job.directory.scenario().display()))?;
    let points = job.todo.iter().map(|planned| {
        let id = ["--id".to_owned(), planned.id.clone()];
        PointOrder { arguments: planned.arguments().into_iter().chain(id).collect() }
    });
    let path = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(Order {
        address: options.address.as_deref(),
        program: path.display().to_string(),
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
    let said = job.directory.failures().join(SAID);
    let said = std::fs::File::create(&said).map_err(|error| format!("{}: {error}", said.display()))?;
    let mut command = Command::new(&options.python);
    // A group of its own, so that interrupts come here only; the driver ends with its standard input.
    command.args(["-c", DRIVER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said).process_group(0);
    command.spawn().map_err(|error| {
        format!(
            "{}: {error}; the engine ray needs Python with Ray (pip install 'ray>=2.51'); --python chooses another Python",
            options.python.display()
        )
    })
}

/// Passes on what the driver tells, until it ends; what it could not do is returned.
fn follow(
    job: &Job<'_>,
    driver: &mut Child,
    mut stdin: Option<ChildStdin>,
    news: &Sender<PointEvent>,
) -> Option<String> {
    let output = driver.stdout.take()?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut error = None;
    loop {
        if job.stop.load(Ordering::SeqCst) {
            // The driver takes it for the end.
            stdin = None;
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Event::Error { text }) => error = Some(text),
                Ok(event) => {
                    if let Some(item) = heard(job, event) {
                        let _ = news.send(item);
                    }
                }
                Err(_) => error = Some(format!("the driver of Ray said \"{line}\"")),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(stdin);
    error
}

/// What an event of the driver is to the sweep; records are written here, where the directory is.
fn heard(job: &Job<'_>, event: Event) -> Option<PointEvent> {
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
    let record: PointRecord =
        serde_json::from_str(record).map_err(|error| format!("what came back is no record: {error}"))?;
    if record.id != id {
        return Err(format!("what came back is the point {}", record.id));
    }
    SweepDirectory::write_point(&job.directory.points(), &record)?;
    Ok(record)
}

/// Waits until the driver has ended; one that does not is killed.
fn end(driver: &mut Child) -> Option<i32> {
    let until = Instant::now() + END_MAX;
    while Instant::now() < until {
        match driver.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) => std::thread::sleep(LOOK),
            Err(_) => break,
        }
    }
    let _ = driver.kill();
    let _ = driver.wait();
    None
}
