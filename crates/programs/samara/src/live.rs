//! The live files of runs, which `samara dashboard` shows.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_family_mix::Mix;
use samara_family_mix::measure::{Collector, PhaseTimes, RoundRow};
use samara_lab::run::Progress;
use samara_mix::{Half, Mark, Phase};
use samara_scenario::Point;
use samara_trace::live::{
    self, Clock, Edge, Event, Latencies, LiveWriter, Outcome, RoundState, RunState, Step,
};

/// Minimum interval between two progress reports of a run.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// The live file of a session, which reports the progress of all its runs.
pub(crate) struct Live {
    writer: LiveWriter,
    results: PathBuf,
}

impl Live {
    /// Creates the file and reports all runs as waiting.
    pub(crate) fn start(results: &Path, points: &[Point]) -> Result<Self, String> {
        let writer = LiveWriter::create(results, "session")
            .map_err(|error| format!("{}: live/session.jsonl: {error}", results.display()))?;
        writer.say(samara_trace::unix_ns(), started("session", None));
        for point in points {
            let progress = event(RunState::Waiting, None, None, None);
            writer.say_of(Some(&name(point)), samara_trace::unix_ns(), progress);
        }
        Ok(Self { writer, results: results.to_owned() })
    }

    pub(crate) fn run(&self, point: &Point) -> RunLive<'_> {
        let slots = point.scenario.find::<Mix>().map(|mix| u64::from(mix.batch));
        let rounds = slots.map(|slots| (slots, None));
        let mut run = RunLive {
            live: self,
            name: name(point),
            start: Instant::now(),
            last_progress: None,
            rounds,
            last_rounds: None,
        };
        run.report(RunState::Running, None, None);
        run
    }

    pub(crate) fn finish(self, outcome: Outcome, message: Option<String>) {
        self.writer.say(samara_trace::unix_ns(), Event::Finished { outcome, message });
        // Results are complete without the live file, and a full disk has caused other errors.
        let _ = self.writer.finish();
    }
}

pub(crate) struct RunLive<'a> {
    live: &'a Live,
    name: String,
    start: Instant,
    last_progress: Option<(Instant, Progress)>,
    /// For a mix: the slots of a round, and the file of its rounds if it is simulated.
    rounds: Option<(u64, Option<Rounds>)>,
    last_rounds: Option<Instant>,
}

impl RunLive<'_> {
    /// Reports the progress, unless the last report is recent.
    pub(crate) fn progress(&mut self, doing: Option<&str>, progress: Progress) {
        let is_early = self.last_progress.is_some_and(|(at, _)| at.elapsed() < REPORT_INTERVAL);
        if !is_early {
            self.report(RunState::Running, doing, Some(progress));
        } else if let Some((_, last)) = &mut self.last_progress {
            *last = progress;
        }
    }

    /// Reports the rounds of a simulated mix, unless the last report is recent. States of other
    /// experiments are not shown.
    pub(crate) fn state(&mut self, state: &dyn Any) {
        let (Some((slots, rounds)), Some(collector)) = (&mut self.rounds, state.downcast_ref::<Collector>())
        else {
            return;
        };
        let is_early = self.last_rounds.is_some_and(|at| at.elapsed() < REPORT_INTERVAL);
        // The last call of a run reports everything.
        if is_early && collector.rounds.values().any(|row| row.ended.is_none()) {
            return;
        }
        self.last_rounds = Some(Instant::now());
        if rounds.is_none() {
            // The run continues without this file; a full disk causes other errors.
            *rounds = Rounds::create(&self.live.results, &self.name, *slots).ok();
        }
        rounds.iter_mut().for_each(|rounds| rounds.report(collector));
    }

    pub(crate) fn end(mut self, state: RunState) {
        if let Some((_, Some(rounds))) = self.rounds.take() {
            rounds.finish(if state == RunState::Done { Outcome::Ok } else { Outcome::Failed });
        }
        let last = self.last_progress.map(|(_, progress)| progress);
        self.report(state, None, last);
    }

    fn report(&mut self, state: RunState, doing: Option<&str>, progress: Option<Progress>) {
        let wall_ns = self.start.elapsed().as_nanos() as u64;
        let report = event(state, doing, Some(wall_ns), progress);
        self.live.writer.say_of(Some(&self.name), samara_trace::unix_ns(), report);
        self.last_progress = progress.map(|progress| (Instant::now(), progress));
    }
}

/// The first event of a source that this program writes.
pub(crate) fn started(role: &str, run: Option<String>) -> Event {
    Event::Started {
        role: role.to_owned(),
        clock: Clock::Wall,
        started_unix_ns: samara_trace::unix_ns(),
        run,
    }
}

pub(crate) fn name(point: &Point) -> String {
    format!("{}, seed {}", point.name(), point.seed)
}

/// Builds a progress event. Its figures are absent until the run reports its progress.
fn event(state: RunState, doing: Option<&str>, wall_ns: Option<u64>, progress: Option<Progress>) -> Event {
    let is_known = progress.is_some_and(|progress| progress != Progress::default());
    let progress = progress.unwrap_or_default();
    Event::Progress(live::Progress {
        state,
        doing: doing.map(str::to_owned),
        share: is_known.then_some(progress.share),
        wall_ns,
        virtual_ns: progress.virtual_nanos,
        deliveries: progress.deliveries,
        deliveries_expected: progress.deliveries_expected,
        copies: progress.copies,
        steps: progress.steps,
    })
}

/// The live file of a simulated mix: a separate source, since its clock is that of the simulation.
struct Rounds {
    writer: LiveWriter,
    slots: u64,
    /// The first round that may still change, and the one at the next report: nodes finish some
    /// phases after the end of their round.
    first: (u64, u64),
    /// Reported changes of these rounds, each of which is reported only once.
    reported: HashSet<Change>,
    teams: BTreeMap<usize, Vec<u32>>,
    last_ns: u64,
}

/// A change of a round, or of a phase of a round at one host.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Change {
    Made(u64),
    Opened(u64),
    Entered(u64),
    Left(u64),
    Ended(u64),
    Phase(u64, u32, Phase, Edge),
}

impl Change {
    fn round(&self) -> u64 {
        match *self {
            Self::Made(round) | Self::Opened(round) | Self::Entered(round) => round,
            Self::Left(round) | Self::Ended(round) | Self::Phase(round, ..) => round,
        }
    }
}

/// An event to report: its time, its node (`None` for the scheduler), and what happened.
type Reported = (u64, Option<u32>, Event);

impl Rounds {
    /// Creates the file of a run with this number of slots in a round.
    fn create(results: &Path, run: &str, slots: u64) -> io::Result<Self> {
        let writer = LiveWriter::create(results, &format!("simulation-{run}"))?;
        let (role, run) = ("simulation".to_owned(), Some(run.to_owned()));
        writer.say(
            0,
            Event::Started { role, clock: Clock::Virtual, started_unix_ns: samara_trace::unix_ns(), run },
        );
        let (reported, teams) = (HashSet::new(), BTreeMap::new());
        Ok(Self { writer, slots, first: (0, 0), reported, teams, last_ns: 0 })
    }

    fn report(&mut self, collector: &Collector) {
        let mut changes = Vec::new();
        let (first, ended) = self.first;
        for row in collector.rounds.range(first..).map(|(_, row)| row) {
            self.round(row, &mut changes);
        }
        for ((round, host, phase), times) in collector.phases.range((first, 0, Phase::ALL[0])..) {
            self.phase(*round, *host, *phase, times, &mut changes);
        }
        let open = collector.rounds.range(ended..).find(|(_, row)| row.ended.is_none());
        self.first = (ended, open.map_or(ended, |(round, _)| *round));
        self.reported.retain(|change| change.round() >= ended);
        changes.sort_by_key(|(at, ..)| *at);
        for (at, node, event) in changes {
            // The times of a source never go back, so a change that was detected late is reported
            // late.
            self.last_ns = self.last_ns.max(at);
            let node = node.map_or_else(|| "scheduler".to_owned(), |node| format!("node-{node}"));
            self.writer.say_of(Some(&node), self.last_ns, event);
        }
    }

    fn finish(self, outcome: Outcome) {
        self.writer.say(self.last_ns, Event::Finished { outcome, message: None });
        // Results are complete without the live file, and a full disk has caused other errors.
        let _ = self.writer.finish();
    }

    /// Returns the time of a change that has happened and was not reported before.
    fn is_new(&mut self, change: Change, at: Option<u64>) -> Option<u64> {
        at.filter(|_| self.reported.insert(change))
    }

    fn round(&mut self, row: &RoundRow, changes: &mut Vec<Reported>) {
        let (round, slots) = (row.round, self.slots);
        let state = |state, cause: Option<&str>| Event::Round {
            round,
            state,
            team: Some(row.team as u64),
            slots: Some(slots),
            cause: cause.map(str::to_owned),
        };
        let step = |step| Event::Slots { round, step, slots };
        let first = row.nodes.first().copied();
        if let Some(at) = self.is_new(Change::Made(round), Some(row.made)) {
            if self.teams.get(&row.team) != Some(&row.nodes) {
                self.teams.insert(row.team, row.nodes.clone());
                let members = row.nodes.iter().map(|node| format!("node-{node}")).collect();
                changes.push((at, None, Event::Team { team: row.team as u64, members }));
            }
            changes.push((at, None, state(RoundState::Precomputing, None)));
        }
        if let Some(at) = self.is_new(Change::Opened(round), row.opened) {
            changes.push((at, None, state(RoundState::Queued, None)));
        }
        if let Some(at) = self.is_new(Change::Entered(round), row.entered) {
            changes.push((at, None, state(RoundState::Realtime, None)));
            changes.push((at, first, step(Step::Entered)));
        }
        if let Some(at) = self.is_new(Change::Left(round), row.exit()) {
            changes.push((at, first, step(Step::Left)));
            if let Some(latency) = row.latency() {
                let mut latencies = Latencies::default();
                latencies.add(latency, slots);
                changes.push((at, None, Event::Latencies { round, latencies }));
            }
        }
        if let Some(at) = self.is_new(Change::Ended(round), row.ended) {
            let how = if row.cause.is_some() { RoundState::Failed } else { RoundState::Completed };
            changes.push((at, None, state(how, row.cause.map(|cause| cause.name()))));
        }
    }

    fn phase(
        &mut self,
        round: u64,
        host: u32,
        phase: Phase,
        times: &PhaseTimes,
        changes: &mut Vec<Reported>,
    ) {
        let is_last = phase.half() == Half::RealTime && phase.next().is_none();
        let end = if is_last { Mark::LastReceived } else { Mark::LastFinished };
        for (edge, mark) in [(Edge::Begin, Mark::FirstReceived), (Edge::End, end)] {
            if let Some(at) = self.is_new(Change::Phase(round, host, phase, edge), times[mark as usize]) {
                changes.push((at, Some(host), Event::Phase { round, phase: phase.name().to_owned(), edge }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use samara_lab::run::{RunOptions, run};
    use samara_scenario::load;
    use samara_trace::live::Line;

    use super::*;

    #[test]
    fn rounds_phases_and_latencies_are_reported_in_virtual_time() {
        samara_families::register();
        let set = [("mix.batch".to_owned(), "20".to_owned())];
        let loaded = load("mix", &set, &["equal-5".to_owned()], Some(1)).unwrap();
        let expected = loaded.points[0].scenario.find::<Mix>().unwrap().rounds as usize;
        let results = std::env::temp_dir().join(format!("samara-rounds-{}", std::process::id()));
        let mut rounds = Rounds::create(&results, "equal-5", 20).unwrap();
        let options = RunOptions::new(1, &loaded.inputs);
        let report = |_, state: Option<&dyn Any>| {
            state
                .and_then(<dyn Any>::downcast_ref)
                .into_iter()
                .for_each(|collector| rounds.report(collector));
        };
        run(&loaded.points[0], options, report).unwrap();
        rounds.finish(Outcome::Ok);
        let text = std::fs::read_to_string(results.join("live/simulation-equal-5.jsonl")).unwrap();
        std::fs::remove_dir_all(&results).unwrap();
        let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.is_sorted_by_key(|line| line.at_ns));
        let count = |is: fn(&Event) -> bool| lines.iter().filter(|line| is(&line.event)).count();
        assert_eq!(count(|event| matches!(event, Event::Team { .. })), 1);
        assert_eq!(
            count(|event| matches!(event, Event::Round { state: RoundState::Completed, .. })),
            expected
        );
        assert_eq!(
            count(|event| matches!(event, Event::Slots { step: Step::Left, slots: 20, .. })),
            expected
        );
        assert_eq!(count(|event| matches!(event, Event::Latencies { .. })), expected);
        let edge = |edge| {
            lines
                .iter()
                .filter(|line| matches!(&line.event, Event::Phase { edge: is, .. } if *is == edge))
                .count()
        };
        assert!(edge(Edge::Begin) >= expected * 5 * 2, "two passes of five nodes: {}", edge(Edge::Begin));
        assert_eq!(edge(Edge::Begin), edge(Edge::End));
        assert!(matches!(lines.last().unwrap().event, Event::Finished { outcome: Outcome::Ok, .. }));
    }
}
