//! A search for broken promises: random scenarios, the checks of each family, and the smallest
//! scenario that still breaks a promise.

mod draw;
mod general;
mod shrink;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use samara_document::Inputs;
use samara_document::topology::Graph;
use samara_engine::{Purpose, derive_seed, lock};
use samara_scenario::{Loaded, Overrides, Point, load_source, load_with};

use crate::explain::{Explain, Mode};
use crate::family::{self, Family};
use crate::run::{Audit, RunError, RunOptions, run, with_threads};
pub use draw::Draw;
pub use general::ROUNDING;
pub use samara_engine::units::Span;

/// A promise that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise in a few words, always the same ones: a smaller scenario has to break the same
    /// promise.
    pub promise: String,
    /// The figures of this run.
    pub found: String,
}

impl Broken {
    /// Returns the promise as broken unless `is_kept`.
    pub fn unless(is_kept: bool, promise: &str, found: impl FnOnce() -> String) -> Option<Self> {
        (!is_kept).then(|| Self { promise: promise.to_owned(), found: found() })
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.found)
    }
}

/// Returns true if the nodes without a fault are connected among themselves.
pub fn is_connected(graph: &Graph, harmed: &[bool]) -> bool {
    let neighbours = graph.neighbours();
    let Some(first) = harmed.iter().position(|harmed| !harmed) else { return true };
    let mut reached = vec![false; harmed.len()];
    let mut stack = vec![first];
    while let Some(node) = stack.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            let peers = neighbours[node].iter().map(|peer| *peer as usize);
            stack.extend(peers.filter(|peer| !harmed[*peer] && !reached[*peer]));
        }
    }
    reached.iter().zip(harmed).all(|(reached, harmed)| *reached || *harmed)
}

#[derive(Debug)]
pub enum Source {
    /// A family draws each of them.
    Family(&'static Family),
    /// A built-in scenario or a file: its own runs, first with its own seeds, then with others.
    Scenario(Box<Loaded>),
}

impl Source {
    /// Returns the source with this name: a family, a built-in scenario or a file. Without a name,
    /// all families that draw scenarios.
    ///
    /// # Errors
    /// Returns an error if there is nothing with this name, or if the family draws no scenarios.
    pub fn named(name: Option<&str>) -> Result<Vec<Self>, String> {
        let Some(name) = name else {
            return Ok(family::all().into_iter().filter(|family| draws(family)).map(Self::Family).collect());
        };
        if let Some(family) = family::all().into_iter().find(|family| family.spec.section == name) {
            return if draws(family) {
                Ok(vec![Self::Family(family)])
            } else {
                Err(format!("[{name}] draws no scenarios; its Family has no `draw`; name a scenario"))
            };
        }
        let families: Vec<&str> = family::all().iter().map(|family| family.spec.section).collect();
        let loaded = load_with(name, &Overrides::default())
            .map_err(|error| format!("{error}\nThe families are {}.", families.join(", ")))?;
        Ok(vec![Self::Scenario(Box::new(loaded))])
    }

    /// Returns the name of the family, or of the scenario.
    pub fn name(&self) -> &str {
        match self {
            Self::Family(family) => family.spec.section,
            Self::Scenario(loaded) => &loaded.scenario.scenario.name,
        }
    }
}

fn draws(family: &Family) -> bool {
    (family.draw)(&mut Draw::new("draws", 0))
}

/// How to search.
#[derive(Debug)]
pub struct Options<'a> {
    pub runs: u64,
    /// Time after which no further run starts.
    pub time: Option<Duration>,
    /// Equal seeds give equal scenarios.
    pub seed: u64,
    /// Number of runs at the same time.
    pub threads: usize,
    /// Whether to go on after a violation.
    pub goes_on: bool,
    /// Whether to make the scenarios of violations smaller.
    pub shrinks: bool,
    /// Another thread sets this to stop the search.
    pub stop: &'a AtomicBool,
}

/// The totals of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub runs: u64,
    /// Drawn scenarios that are invalid: a fault of the family's generator.
    pub invalid: u64,
    /// Simulated time in nanoseconds.
    pub virtual_nanos: u128,
    /// Faults in these runs.
    pub faults: u64,
    /// Frames that hosts sent.
    pub frames: u64,
    /// Runs that were repeated on several threads.
    pub repeated: u64,
}

/// A scenario that breaks a promise.
#[derive(Clone, Debug)]
pub struct Violation {
    pub run: u64,
    /// The promises that the scenario as drawn broke.
    pub broken: Vec<Broken>,
    /// The smallest scenario found that breaks the first of them.
    pub text: String,
    /// The promises that the smallest scenario breaks.
    pub smallest: Vec<Broken>,
    /// Number of smaller scenarios that were tried.
    pub tried: u32,
}

/// The faults of nodes that do not leave on their own.
pub const FAULTS: [&str; 8] =
    ["crash", "vanish", "partition", "slow", "withhold", "replay", "alter", "flood"];

/// A run out of this many is repeated on three threads.
const REPEATED: u64 = 16;

/// Searches one source. `watch` receives each violation, and the tally after each run.
pub fn search(
    source: &Source,
    options: &Options<'_>,
    watch: &(dyn Fn(&Tally, Option<&Violation>) + Sync),
) -> Tally {
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let tally = Mutex::new(Tally::default());
    // Without `goes_on`, the violation with the lowest number: threads may find several at once.
    let first: Mutex<Option<Found>> = Mutex::new(None);
    let is_over = || {
        over.load(Ordering::Relaxed)
            || options.stop.load(Ordering::Relaxed)
            || options.time.is_some_and(|time| begun.elapsed() >= time)
    };
    let work = || {
        while !is_over() {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= options.runs {
                return;
            }
            let case = Case::new(source, run, options.seed);
            let (broken, is_valid) = match case.check(options.stop) {
                Checked::Interrupted => return,
                Checked::Invalid(found) => {
                    lock(&tally).invalid += 1;
                    (vec![Broken { promise: "drawn scenarios are valid".to_owned(), found }], false)
                }
                Checked::Done { audit, broken, repeated } => {
                    let mut tally = lock(&tally);
                    tally.runs += 1;
                    tally.virtual_nanos += u128::from(audit.virtual_nanos);
                    tally.faults += case.faults();
                    tally.frames += audit.frames_sent;
                    tally.repeated += u64::from(repeated);
                    (broken, true)
                }
            };
            if broken.is_empty() {
                watch(&lock(&tally).clone(), None);
                continue;
            }
            let found = Found { run, case, broken, is_valid };
            if options.goes_on {
                let violation = found.violation(options);
                watch(&lock(&tally).clone(), Some(&violation));
            } else {
                over.store(true, Ordering::Relaxed);
                let mut first = lock(&first);
                if first.as_ref().is_none_or(|first| run < first.run) {
                    *first = Some(found);
                }
            }
        }
    };
    with_threads(options.threads, work);
    let tally = lock(&tally).clone();
    if let Some(found) = lock(&first).take() {
        watch(&tally, Some(&found.violation(options)));
    }
    tally
}

/// A run that broke promises.
struct Found {
    run: u64,
    case: Case,
    broken: Vec<Broken>,
    is_valid: bool,
}

impl Found {
    fn violation(self, options: &Options<'_>) -> Violation {
        let Self { run, case, broken, is_valid } = self;
        if is_valid && options.shrinks {
            return shrink::shrink(&case, run, broken, options.stop);
        }
        Violation { run, smallest: broken.clone(), broken, text: case.text(), tried: 0 }
    }
}

#[derive(Clone, Debug)]
struct Case {
    table: toml::Table,
    inputs: Inputs,
    /// The point of the scenario, if it has several.
    point: usize,
    seed: Option<u64>,
    repeats: bool,
}

enum Checked {
    Interrupted,
    Invalid(String),
    Done { audit: Audit, broken: Vec<Broken>, repeated: bool },
}

impl Case {
    fn new(source: &Source, number: u64, seed: u64) -> Self {
        let repeats = number.is_multiple_of(REPEATED);
        match source {
            Source::Family(family) => {
                let name = format!("torture-{}", family.spec.section);
                let mut draw = Draw::new(&name, derive_seed(seed, number, Purpose::Workload));
                (family.draw)(&mut draw);
                Self { table: draw.finish(), inputs: Inputs::default(), point: 0, seed: None, repeats }
            }
            Source::Scenario(loaded) => {
                let points = loaded.points.len() as u64;
                let (round, point) = (number / points, (number % points) as usize);
                let seed = (round > 0).then(|| derive_seed(seed, number, Purpose::Workload) >> 1);
                let table = loaded.text.parse().unwrap_or_default();
                Self { table, inputs: loaded.inputs.clone(), point, seed, repeats }
            }
        }
    }

    fn text(&self) -> String {
        self.table.to_string()
    }

    fn faults(&self) -> u64 {
        let faults = self.table.get("fault").and_then(toml::Value::as_array);
        faults.map_or(0, |faults| faults.len() as u64)
    }

    fn load(&self) -> Result<Point, String> {
        let loaded = load_source("torture", &self.text(), self.inputs.clone(), &Overrides::default());
        let loaded = loaded.map_err(|error| error.to_string())?;
        let mut point = loaded.points.into_iter().nth(self.point).ok_or("the scenario has fewer runs")?;
        point.seed = self.seed.unwrap_or(point.seed);
        Ok(point)
    }

    fn check(&self, stop: &AtomicBool) -> Checked {
        let point = match self.load() {
            Ok(point) => point,
            Err(message) => return Checked::Invalid(message),
        };
        let once = |threads, explain: Mode| {
            let mut audit = Audit::default();
            let explain = &Explain::new(explain);
            let options = RunOptions {
                stop,
                explain,
                check_invariants: true,
                ..RunOptions::new(threads, &self.inputs)
            };
            let measured = run(&point, options, |progress, _| audit = progress.audit.unwrap_or(audit))?;
            Ok((measured, audit))
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let (measured, audit) = once(1, Mode::Every(1))?;
            let outcome = measured.outcome();
            let mut broken = general::broken(&outcome, &audit);
            broken.extend(measured.broken());
            broken.extend(measured.explained().and_then(general::unexplained));
            if self.repeats {
                let (again, _) = once(3, Mode::Off)?;
                let digests = [&outcome.run.digest, &again.outcome().run.digest];
                broken.extend(Broken::unless(
                    digests[0] == digests[1],
                    "a run depends neither on the number of threads nor on its explanation",
                    || format!("digest {} on one thread, {} on three", digests[0], digests[1]),
                ));
            }
            Ok((audit, broken))
        }));
        match outcome {
            Ok(Ok((audit, broken))) => Checked::Done { audit, broken, repeated: self.repeats },
            Ok(Err(RunError::Interrupted)) => Checked::Interrupted,
            Ok(Err(RunError::Failed(error))) => Checked::Invalid(error),
            Err(panic) => {
                let broken = vec![Broken { promise: "no panic".to_owned(), found: message_of(&*panic) }];
                Checked::Done { audit: Audit::default(), broken, repeated: false }
            }
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
