//! Nodes on other machines, whose live lines the dashboard requests.
//!
//! A thread for each node requests its lines, and hands on one answer at a time: a node that
//! answers slowly, or not at all, delays no other. A node is a stranger. What it says about itself
//! is shown; what it says about others is not, apart from its links:
//!
//! - Each answer has bounds in bytes and time, and nothing of an error is text of the node.
//! - It has one name, that no other node has, and up to [`NAMES_MAX`] names of values.
//! - Teams and states of rounds are those of the scheduler: the first node that says it is one.
//! - Its times are at most [`AHEAD_NS`] ahead of this machine's clock.

mod address;
mod client;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use samara_trace::live::{Clock, Event, FeedReader, Head, Line, ReadCounts};
use samara_trace::unix_ns;

use crate::state::{Contact, Silence, State, short};
pub(crate) use address::check;
pub use address::{NodeAddress, read_nodes};
use client::Problem;

/// Interval between two requests to a node.
const INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two requests to a node that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which the offset of a node's clock is kept although later ones are less certain.
const CLOCK_AGE: Duration = Duration::from_secs(30);
/// Maximum number of names of links, queues, counters and errors of a node.
const NAMES_MAX: usize = 512;
/// Time that a line may be ahead of this machine's clock, in nanoseconds.
const AHEAD_NS: u64 = 60_000_000_000;
/// Role of the node that reports teams and states of rounds.
const SCHEDULER: &str = "scheduler";

/// The end of a request.
struct Report {
    result: Result<Answer, Problem>,
    begun_unix_ms: u64,
}

struct Answer {
    head: Head,
    lines: Vec<Line>,
    counts: ReadCounts,
    clock: ClockOffset,
}

/// The offset of a node's clock from that of this machine, in nanoseconds, and its uncertainty.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    ns: i64,
    within_ns: u64,
    at: Instant,
}

/// Nodes that are followed. Their threads end after this value is dropped.
#[derive(Debug)]
pub(crate) struct NodeFollower {
    nodes: Vec<Followed>,
    /// The node that reports teams and states of rounds, by its place.
    scheduler: Option<usize>,
}

#[derive(Debug)]
struct Followed {
    address: String,
    reports: Receiver<Report>,
    /// Its name in the state: its address until it says its own.
    name: String,
    role: String,
    started_unix_ns: Option<u64>,
    /// Number of lines that were passed to the state.
    passed: u64,
    /// Names of links, queues, counters and errors.
    names: BTreeSet<(u8, String)>,
    counts: ReadCounts,
    /// Lines that a node may not say, and counts that had no room.
    refused: u64,
    silence: Option<Silence>,
    has_answered: bool,
    clock: Option<ClockOffset>,
}

impl NodeFollower {
    /// Starts to request the lines of nodes.
    pub(crate) fn start(nodes: &[NodeAddress]) -> Self {
        let follow = |node: &NodeAddress| {
            let (sender, reports) = sync_channel(1);
            let (address, node) = (node.to_string(), node.clone());
            // Without a thread, the node shows as one that does not answer.
            let _ = thread::Builder::new().name("node".to_owned()).spawn(move || poll(&node, &sender));
            Followed::new(address, reports)
        };
        Self { nodes: nodes.iter().map(follow).collect(), scheduler: None }
    }

    /// Applies the answers that have arrived to the state.
    pub(crate) fn poll(&mut self, state: &mut State) {
        for place in 0..self.nodes.len() {
            let report = match self.nodes[place].reports.try_recv() {
                Ok(report) => Some(report),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    let cause = "the dashboard has no thread for it; restart the dashboard".to_owned();
                    self.nodes[place].fall_silent(unix_ns() / 1_000_000, cause);
                    None
                }
            };
            match report {
                Some(Report { result: Ok(answer), .. }) => self.take(place, answer, state),
                Some(Report { result: Err(problem), begun_unix_ms }) => {
                    self.nodes[place].fall_silent(begun_unix_ms, problem.to_string());
                }
                None => {}
            }
            let node = &self.nodes[place];
            state.note_reading(&node.name, node.counts, false);
            state.note_contact(&node.name, node.contact());
        }
    }

    fn take(&mut self, place: usize, answer: Answer, state: &mut State) {
        let Answer { head, lines, counts, clock } = answer;
        let name = self.name(place, head.name.as_deref());
        let node = &mut self.nodes[place];
        if name != node.name {
            state.forget(&node.name);
            node.names.clear();
            node.name = name;
        }
        (node.silence, node.has_answered, node.counts) = (None, true, counts);
        // The answer that took the least time has the best offset, for a while.
        let is_better = |known: ClockOffset| clock.within_ns <= known.within_ns;
        if node.clock.is_none_or(|known| is_better(known) || known.at.elapsed() > CLOCK_AGE) {
            node.clock = Some(clock);
        }
        node.refused += head.omitted;
        let latest = unix_ns().saturating_add(AHEAD_NS);
        let mut links = BTreeSet::new();
        for mut line in lines {
            let node = &mut self.nodes[place];
            if let Event::Started { role, clock, started_unix_ns, .. } = &mut line.event {
                // A session would replace the whole state.
                let is_known = role == "node" || role == SCHEDULER;
                node.refused += u64::from(!is_known || *clock != Clock::Wall);
                (*role, *clock) = (if is_known { role.clone() } else { "node".to_owned() }, Clock::Wall);
                node.role.clone_from(role);
                // The state forgets their values, too.
                if node.started_unix_ns.replace(*started_unix_ns) != Some(*started_unix_ns) {
                    node.names.clear();
                }
                if node.role == SCHEDULER {
                    self.scheduler.get_or_insert(place);
                }
            }
            let node = &mut self.nodes[place];
            if line.node.is_some() || !node.may_say(&line.event, self.scheduler == Some(place)) {
                node.refused += 1;
                continue;
            }
            if let Event::Link { peer, .. } = &line.event {
                links.insert(short(peer));
            }
            line.at_ns = line.at_ns.min(latest);
            line.seq = node.passed;
            node.passed += 1;
            state.apply(&node.name, &line);
        }
        state.end_other_links(&self.nodes[place].name, &links);
    }

    /// Returns the name of a node: its own if no other has it.
    fn name(&self, place: usize, own: Option<&str>) -> String {
        let node = &self.nodes[place];
        let own = own.map(short).filter(|own| !own.is_empty());
        let Some(own) = own else { return node.address.clone() };
        let mut others = self.nodes.iter().enumerate().filter(|(other, _)| *other != place);
        match others.any(|(_, other)| other.name == own || other.address == own) {
            true => short(&format!("{} at {own}", node.address)),
            false => own,
        }
    }
}

impl Followed {
    fn new(address: String, reports: Receiver<Report>) -> Self {
        Self {
            name: address.clone(),
            address,
            reports,
            role: String::new(),
            started_unix_ns: None,
            passed: 0,
            names: BTreeSet::new(),
            counts: ReadCounts::default(),
            refused: 0,
            silence: None,
            has_answered: false,
            clock: None,
        }
    }

    /// Records a request without an answer. The time of the first one stays.
    fn fall_silent(&mut self, begun_unix_ms: u64, cause: String) {
        let since_unix_ms = self.silence.as_ref().map_or(begun_unix_ms, |silence| silence.since_unix_ms);
        self.silence = Some(Silence { since_unix_ms, cause });
    }

    fn contact(&self) -> Contact {
        let ms = |ns: i64| (ns as f64 / 1e6).round();
        Contact {
            address: self.address.clone(),
            has_answered: self.has_answered,
            silence: self.silence.clone(),
            clock_ms: self.clock.map(|clock| (ms(clock.ns), ms(clock.within_ns as i64).max(1.0))),
            refused: self.refused,
        }
    }

    /// Returns true if the node may say this, and there is room for it.
    fn may_say(&mut self, event: &Event, is_scheduler: bool) -> bool {
        let (kind, name) = match event {
            Event::Started { .. } | Event::Phase { .. } | Event::Slots { .. } => return true,
            Event::Dropped { .. } | Event::Finished { .. } => return true,
            Event::Team { .. } | Event::Round { .. } => return is_scheduler,
            // The first member measures the time.
            Event::Ping { members, .. } => return members.first().is_some_and(|first| *first == self.name),
            Event::Link { peer, .. } => (0, peer),
            Event::Queue { queue, .. } => (1, queue),
            Event::Throughput { of, .. } => (2, of),
            Event::Errors { cause, .. } => (3, cause),
            // Those of runs and of clients.
            Event::Progress(_) | Event::Latencies { .. } | Event::Unknown => return false,
        };
        let key = (kind, short(name));
        if self.names.len() >= NAMES_MAX && !self.names.contains(&key) {
            return false;
        }
        self.names.insert(key);
        true
    }
}

/// Requests the lines of a node until nobody takes them.
fn poll(node: &NodeAddress, reports: &SyncSender<Report>) {
    let mut reader = FeedReader::default();
    loop {
        let begun_unix_ms = unix_ns() / 1_000_000;
        let result = answer(node, &mut reader);
        let wait = match &result {
            Ok(answer) if answer.head.more => Duration::ZERO,
            Ok(_) => INTERVAL,
            Err(_) => RETRY_INTERVAL,
        };
        if reports.send(Report { result, begun_unix_ms }).is_err() {
            return;
        }
        thread::sleep(wait);
    }
}

fn answer(node: &NodeAddress, reader: &mut FeedReader) -> Result<Answer, Problem> {
    let mut is_again = false;
    loop {
        let (begun, begun_ns) = (Instant::now(), unix_ns());
        let body = client::request(node, reader.next())?;
        let took_ns = begun.elapsed().as_nanos() as u64;
        let mut lines = Vec::new();
        match reader.take(&body, |line| lines.push(line))? {
            Some(head) => {
                let middle_ns = begun_ns.saturating_add(took_ns / 2);
                let ns = head.now_unix_ns as i128 - middle_ns as i128;
                let ns = ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                let clock = ClockOffset { ns, within_ns: took_ns / 2, at: begun };
                return Ok(Answer { head, lines, counts: reader.counts(), clock });
            }
            // The node has restarted, and has its lines from 0 on.
            None if !is_again => is_again = true,
            None => return Err(Problem::Restarts),
        }
    }
}
