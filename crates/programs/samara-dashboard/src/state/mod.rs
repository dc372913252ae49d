//! The state of a run: reduces live lines to a view.
//!
//! Lines of different sources come in any order, since a file may be read later than one that was
//! written after it. So nothing here depends on the order between sources. A value is `null` in the
//! view until it is known, and the page states the reason.
//!
//! | file | |
//! |---|---|
//! | this one | sources, read statistics of their files, and progress of simulations and testbeds |
//! | `rounds` | teams, rounds, phases, and the latency of slots |
//! | `network` | links, queues, throughput, errors, and pings around teams |

mod network;
mod rounds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use samara_trace::live::{Clock, Event, Line, Outcome, Progress, ReadCounts, RunState};
use serde_json::{Value, json};

use network::{Network, Pings};
use rounds::Rounds;

/// Maximum number of characters in a name. Longer names are cut.
const NAME_MAX: usize = 80;

#[derive(Debug, Default)]
pub struct State {
    sources: Sources,
    rounds: Rounds,
    pings: Pings,
    network: Network,
    jobs: Jobs,
}

/// The parts of the view by name. Values that change together are in one part. The view stays the
/// same until a line is added.
pub type View = BTreeMap<String, Value>;

impl State {
    pub fn apply(&mut self, source: &str, line: &Line) {
        let source = short(source);
        match self.sources.take(&source, line) {
            LineKind::Known => return,
            LineKind::Next => {}
            LineKind::Restarted => self.forget_claims(&source),
            LineKind::RunRestarted => {
                let sources = std::mem::take(&mut self.sources).only(&source);
                *self = Self { sources, ..Self::default() };
            }
        }
        let at = line.at_ns;
        let who = line.node.as_deref().map_or_else(|| source.clone(), short);
        // Times are comparable only between sources with the same clock.
        let domain = self.sources.domain(&source);
        self.rounds.note_time(&domain, at);
        match &line.event {
            Event::Team { team, members } => self.rounds.team(&domain, *team, members),
            Event::Round { .. } | Event::Phase { .. } | Event::Slots { .. } | Event::Latencies { .. } => {
                self.rounds.take(&domain, (&source, &who), at, &line.event);
            }
            Event::Ping { members, loop_ns, .. } => self.pings.take(members, at, *loop_ns),
            Event::Link { .. } | Event::Queue { .. } | Event::Throughput { .. } | Event::Errors { .. } => {
                self.network.take(&source, &who, at, &line.event);
            }
            Event::Progress(progress) => self.jobs.take(&source, &who, progress),
            Event::Finished { .. } => {
                self.jobs.finish(&source);
                self.network.finish(&source);
            }
            Event::Started { .. } | Event::Dropped { .. } | Event::Unknown => {}
        }
    }

    /// Removes a source whose file is gone.
    pub fn forget(&mut self, source: &str) {
        let source = short(source);
        self.sources.forget(&source);
        self.forget_claims(&source);
    }

    /// Removes the values that a source reported about itself. Rounds belong to the team, and stay.
    fn forget_claims(&mut self, source: &str) {
        self.network.forget(source);
        self.jobs.forget(source);
    }

    /// Records whether a node on another machine answers. It is shown before its first line.
    pub fn note_contact(&mut self, source: &str, contact: Contact) {
        self.sources.0.entry(short(source)).or_default().contact = Some(contact);
    }

    /// Ends the links of a source that are not among these.
    pub fn end_other_links(&mut self, source: &str, peers: &BTreeSet<String>) {
        self.network.end_other_links(&short(source), peers);
    }

    /// Records the read statistics of a file; `is_silent` if it has not grown for a while.
    pub fn note_reading(&mut self, source: &str, counts: ReadCounts, is_silent: bool) {
        self.sources.note_reading(&short(source), counts, is_silent);
    }

    pub fn view(&self) -> View {
        let mut view = View::new();
        view.insert("sources".to_owned(), self.sources.view());
        self.rounds.view(&mut view);
        view.insert("pings".to_owned(), self.pings.view(&self.network));
        self.network.view(&mut view, |source| self.sources.is_silent(source));
        self.jobs.view(&mut view);
        view
    }
}

/// The contact with a node on another machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    pub address: String,
    pub has_answered: bool,
    /// Present while the node does not answer.
    pub silence: Option<Silence>,
    /// The offset of the node's clock from this machine's, and its uncertainty.
    pub clock_ms: Option<(f64, f64)>,
    /// Number of lines that the node may not say, or that had no room.
    pub refused: u64,
}

/// The time since which a node does not answer, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    pub since_unix_ms: u64,
    pub cause: String,
}

/// Cuts a name to a length that fits on a page.
pub(crate) fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect()
}

/// Converts nanoseconds to milliseconds, rounded to a microsecond.
fn ms(ns: f64) -> Value {
    Value::from((ns / 1e3).round() / 1e3)
}

fn ms_or_null(ns: Option<u64>) -> Value {
    ns.map_or(Value::Null, |ns| ms(ns as f64))
}

/// Name of the clock that all sources with wall clocks share.
const WALL: &str = "wall";

#[derive(Debug, Default)]
struct Sources(BTreeMap<String, Source>);

#[derive(Debug, Default)]
struct Source {
    started: Option<Started>,
    /// The number of the next expected line. Lower ones are known already.
    next_seq: u64,
    last_at_ns: u64,
    dropped: u64,
    finished: Option<(Outcome, Option<String>)>,
    counts: ReadCounts,
    is_silent: bool,
    /// Present for nodes on other machines.
    contact: Option<Contact>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Started {
    role: String,
    clock: Clock,
    unix_ns: u64,
    run: Option<String>,
}

/// Kinds of a line, relative to the earlier lines of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    /// It was applied before: the file was truncated, or a new file repeats lines that are still
    /// valid.
    Known,
    Next,
    /// It is the first line after a restart of its source.
    Restarted,
    /// It is the first line of another session, and so of another run in the same directory.
    RunRestarted,
}

impl Source {
    fn is_silent(&self) -> bool {
        let is_unanswered = self.contact.as_ref().is_some_and(|contact| contact.silence.is_some());
        is_unanswered || self.is_silent && self.finished.is_none()
    }
}

impl Sources {
    fn take(&mut self, name: &str, line: &Line) -> LineKind {
        let source = self.0.entry(name.to_owned()).or_default();
        let mut kind = LineKind::Next;
        if let Event::Started { role, clock, started_unix_ns, run } = &line.event {
            let started = Started {
                role: short(role),
                clock: *clock,
                unix_ns: *started_unix_ns,
                run: run.as_deref().map(short),
            };
            if source.started.as_ref().is_some_and(|before| before.unix_ns != started.unix_ns) {
                let (counts, contact) = (source.counts, source.contact.take());
                *source = Source { counts, contact, ..Source::default() };
                kind = if started.role == "session" { LineKind::RunRestarted } else { LineKind::Restarted };
            }
            source.started = Some(started);
        }
        if line.seq < source.next_seq {
            return LineKind::Known;
        }
        // A line that the writer adds to a new file has the number of the line after it, and may be
        // repeated.
        let is_added =
            matches!(line.event, Event::Started { .. } | Event::Team { .. } | Event::Dropped { .. });
        source.next_seq = if is_added { line.seq } else { line.seq.saturating_add(1) };
        source.last_at_ns = source.last_at_ns.max(line.at_ns);
        match &line.event {
            Event::Dropped { lines } => source.dropped = *lines,
            Event::Finished { outcome, message } => {
                source.finished = Some((*outcome, message.as_deref().map(short)));
            }
            _ => {}
        }
        kind
    }

    fn only(mut self, name: &str) -> Self {
        self.0.retain(|key, _| key == name);
        self
    }

    fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    fn note_reading(&mut self, name: &str, counts: ReadCounts, is_silent: bool) {
        if let Some(source) = self.0.get_mut(name) {
            (source.counts, source.is_silent) = (counts, is_silent);
        }
    }

    /// Returns true if a source has not finished and writes nothing, or does not answer.
    fn is_silent(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(Source::is_silent)
    }

    /// Returns the name of a source's clock. Times of sources with the same name are comparable.
    fn domain(&self, name: &str) -> String {
        let clock = self.0.get(name).and_then(|source| source.started.as_ref()).map(|started| started.clock);
        match clock {
            Some(Clock::Virtual) => name.to_owned(),
            Some(Clock::Wall) | None => WALL.to_owned(),
        }
    }

    fn view(&self) -> Value {
        let sources = self.0.iter().map(|(name, source)| {
            let started = source.started.as_ref();
            let clock = started.map(|started| started.clock);
            let contact = source.contact.as_ref();
            let silence = contact.and_then(|contact| contact.silence.as_ref());
            let (offset, within) = contact.and_then(|contact| contact.clock_ms).unzip();
            json!({
                "name": name,
                "role": started.map(|started| &started.role),
                "clock": clock,
                "run": started.and_then(|started| started.run.as_ref()),
                "started_unix_ms": started.map(|started| started.unix_ns / 1_000_000),
                "finished": source.finished.as_ref().map(|(outcome, _)| outcome),
                "message": source.finished.as_ref().and_then(|(_, message)| message.as_ref()),
                "silent": source.is_silent(),
                "address": contact.map(|contact| &contact.address),
                "answered": contact.map(|contact| contact.has_answered),
                "silent_since_unix_ms": silence.map(|silence| silence.since_unix_ms),
                "silent_because": silence.map(|silence| &silence.cause),
                "clock_off_ms": offset,
                "clock_within_ms": within,
                "refused": contact.map(|contact| contact.refused),
                "dropped": source.dropped.max(source.counts.missing),
                "unreadable": source.counts.garbage + source.counts.other_version,
                "unknown": source.counts.unknown + source.counts.unknown_fields,
            })
        });
        sources.collect()
    }
}

/// Maximum number of remembered runs of a scenario.
const JOBS_MAX: usize = 1024;
/// Number of past values used to estimate the remaining time.
const HISTORY: usize = 64;
/// The estimate uses the last 20 s, if the run has lasted as long.
const RECENT_NS: u64 = 20_000_000_000;
/// Minimum duration for an estimate.
const LEAST_NS: u64 = 1_000_000_000;
/// Minimum share for an estimate.
const LEAST_SHARE: f64 = 0.05;
/// Maximum ratio of the latest rate and that since the start. A run whose rate changes more has no
/// estimate.
const RATES_MAX: f64 = 1.5;
/// Maximum number of points of a curve. Beyond it, every second one is dropped.
const CURVE_MAX: usize = 160;

/// Progress by source and run.
#[derive(Debug, Default)]
struct Jobs(BTreeMap<(String, String), Job>);

#[derive(Debug, Default)]
struct Job {
    last: Progress,
    /// The source that reports it has ended.
    is_over: bool,
    /// Past values: time and share.
    past: VecDeque<(u64, f64)>,
    /// The first of them.
    first: Option<(u64, f64)>,
    /// Deliveries over virtual time: nanoseconds and the share of the expected ones.
    curve: Vec<(u64, f64)>,
    /// A point of the curve stands for this number of reports, minus one.
    skipped: (usize, usize),
}

impl Jobs {
    fn take(&mut self, source: &str, run: &str, progress: &Progress) {
        let key = (source.to_owned(), run.to_owned());
        if self.0.len() >= JOBS_MAX && !self.0.contains_key(&key) {
            return;
        }
        let job = self.0.entry(key).or_default();
        job.is_over = false;
        job.last = progress.clone();
        job.last.doing = progress.doing.as_deref().map(short);
        // A value outside of 0 to 1 is not a share.
        job.last.share = progress.share.filter(|share| (0.0..=1.0).contains(share));
        let delivered = delivered(progress);
        // A run ends when everything is delivered, often long before its last virtual time.
        if let (Some(share), Some(delivered)) = (job.last.share, delivered) {
            job.last.share = Some(share.max(delivered));
        }
        if let (Some(at), Some(delivered)) = (progress.virtual_ns, delivered) {
            job.extend(at, delivered);
        }
        if let (Some(wall), Some(share)) = (progress.wall_ns, job.last.share) {
            if job.past.back().is_some_and(|(before, _)| *before > wall) {
                job.past.clear();
                job.first = None;
            }
            job.first.get_or_insert((wall, share));
            job.past.push_back((wall, share));
            if job.past.len() > HISTORY {
                job.past.pop_front();
            }
        }
    }

    /// Marks the runs of a source that has ended. Unfinished ones will not finish.
    fn finish(&mut self, source: &str) {
        self.0.iter_mut().filter(|((of, _), _)| of == source).for_each(|(_, job)| job.is_over = true);
    }

    fn forget(&mut self, source: &str) {
        self.0.retain(|(of, _), _| of != source);
    }

    fn view(&self, view: &mut View) {
        let mut ids = Vec::new();
        for ((source, name), job) in &self.0 {
            let id = format!("job/{source}/{name}");
            view.insert(id.clone(), job.view(name));
            ids.push(id);
        }
        view.insert("jobs".to_owned(), ids.into());
        view.insert("overall".to_owned(), self.overall());
    }

    /// The completed share of all runs, each with the same weight.
    fn overall(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let share = |job: &Job| match job.last.state {
            RunState::Waiting => Some(0.0),
            RunState::Done => Some(1.0),
            RunState::Running | RunState::Failed => job.last.share,
        };
        let shares: Option<Vec<f64>> = self.0.values().map(share).collect();
        let count =
            |state| self.0.values().filter(|job| job.last.state == state && !job.is_stopped()).count();
        json!({
            "runs": self.0.len(),
            "waiting": count(RunState::Waiting),
            "running": count(RunState::Running),
            "done": count(RunState::Done),
            "failed": count(RunState::Failed),
            "stopped": self.0.values().filter(|job| job.is_stopped()).count(),
            "share": shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64),
        })
    }
}

/// The share of expected deliveries that were made.
fn delivered(progress: &Progress) -> Option<f64> {
    let expected = progress.deliveries_expected.filter(|expected| *expected > 0)?;
    let share = progress.deliveries? as f64 / expected as f64;
    Some(share.min(1.0))
}

impl Job {
    /// Adds a point to the curve.
    fn extend(&mut self, at: u64, delivered: f64) {
        if self.curve.last().is_some_and(|(before, _)| *before > at) {
            self.curve.clear();
            self.skipped = (0, 0);
        }
        let (every, since) = &mut self.skipped;
        *since += 1;
        if *since > *every || delivered >= 1.0 && self.curve.last().is_none_or(|(_, last)| *last < 1.0) {
            *since = 0;
            self.curve.push((at, delivered));
        }
        if self.curve.len() > CURVE_MAX {
            let mut at = 0;
            self.curve.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            *every = *every * 2 + 1;
        }
    }

    /// Returns true if it ended before it was done.
    fn is_stopped(&self) -> bool {
        self.is_over && matches!(self.last.state, RunState::Waiting | RunState::Running)
    }

    fn view(&self, name: &str) -> Value {
        let last = &self.last;
        json!({
            "run": name,
            "state": if self.is_stopped() { json!("stopped") } else { json!(last.state) },
            "doing": last.doing,
            "share": last.share,
            "wall_ms": ms_or_null(last.wall_ns),
            "virtual_ms": ms_or_null(last.virtual_ns),
            "deliveries": last.deliveries,
            "deliveries_expected": last.deliveries_expected,
            "copies": last.copies,
            "steps": last.steps,
            "left_ms": ms_or_null(self.left_ns()),
            "curve": self.curve.iter().map(|(at, share)| json!([ms(*at as f64), share])).collect::<Vec<_>>(),
        })
    }

    /// The remaining time at the latest rate. `None` if that differs from the rate since the start:
    /// then the progress of a run says little about its rest.
    fn left_ns(&self) -> Option<u64> {
        if self.last.state != RunState::Running || self.is_over {
            return None;
        }
        let (wall, share) = *self.past.back()?;
        let recent = *self.past.iter().find(|(then, _)| wall - then <= RECENT_NS)?;
        let rate = |(then, before): (u64, f64)| {
            let (took, grown) = (wall.checked_sub(then)?, share - before);
            (took > 0 && grown > 0.0).then(|| grown / took as f64)
        };
        let (latest, whole) = (rate(recent)?, rate(self.first?)?);
        let is_steady = latest.max(whole) <= RATES_MAX * latest.min(whole);
        let is_known = wall >= LEAST_NS && share >= LEAST_SHARE && is_steady;
        is_known.then(|| ((1.0 - share) / latest) as u64)
    }
}
