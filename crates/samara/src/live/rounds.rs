//! Rounds and phases of teams that are simulated, for dashboards: in the time of the simulation.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use samara_lab::mix::measure::{Collector, PhaseTimes, RoundRow};
use samara_mix::{Half, Phase};
use samara_trace::live::{Clock, Edge, Event, Latencies, LiveWriter, Outcome, RoundState, Step};

use super::unix_ns;

/// What has been said of a round.
#[derive(Clone, Copy, Default)]
struct Said {
    made: bool,
    opened: bool,
    entered: bool,
    left: bool,
    ended: bool,
}

/// The live file of a simulated mix: a source of its own, since its clock is that of the simulation.
pub(super) struct Rounds {
    writer: LiveWriter,
    slots: u64,
    rounds: BTreeMap<u64, Said>,
    phases: BTreeMap<(u64, u32, Phase), (bool, bool)>,
    /// The nodes of each team.
    teams: BTreeMap<usize, Vec<u32>>,
    last_ns: u64,
}

/// Something to be said: when, of which node (`None` is the scheduler), what.
type News = (u64, Option<u32>, Event);

impl Rounds {
    /// Starts the file of a run with so many slots in a round.
    pub(super) fn create(results: &Path, run: &str, slots: u64) -> io::Result<Self> {
        let writer = LiveWriter::create(results, &format!("simulation-{run}"))?;
        let (role, run) = ("simulation".to_owned(), Some(run.to_owned()));
        writer.say(0, Event::Started { role, clock: Clock::Virtual, started_unix_ns: unix_ns(), run });
        Ok(Self {
            writer,
            slots,
            rounds: BTreeMap::new(),
            phases: BTreeMap::new(),
            teams: BTreeMap::new(),
            last_ns: 0,
        })
    }

    /// Says what is new.
    pub(super) fn look(&mut self, told: &Collector) {
        let mut news = Vec::new();
        for row in told.rounds.values() {
            self.round(row, &mut news);
        }
        for ((round, host, phase), times) in &told.phases {
            self.phase(*round, *host, *phase, times, &mut news);
        }
        news.sort_by_key(|(at, ..)| *at);
        for (at, node, event) in news {
            // What became known later than it happened is said later: times of a source never go back.
            self.last_ns = self.last_ns.max(at);
            let node = node.map_or_else(|| "scheduler".to_owned(), |node| format!("node-{node}"));
            self.writer.say_of(Some(&node), self.last_ns, event);
        }
    }

    /// The run is over.
    pub(super) fn finish(self, outcome: Outcome) {
        self.writer.say(self.last_ns, Event::Finished { outcome, message: None });
        // Results are complete without it: a disk that is full has shown elsewhere.
        let _ = self.writer.finish();
    }

    fn round(&mut self, row: &RoundRow, news: &mut Vec<News>) {
        let said = self.rounds.entry(row.round).or_default();
        let state = |state, cause: Option<&str>| Event::Round {
            round: row.round,
            state,
            team: Some(row.team as u64),
            slots: Some(self.slots),
            cause: cause.map(str::to_owned),
        };
        let step = |step| Event::Slots { round: row.round, step, slots: self.slots };
        let first = row.nodes.first().copied();
        if !std::mem::replace(&mut said.made, true) {
            if self.teams.get(&row.team) != Some(&row.nodes) {
                self.teams.insert(row.team, row.nodes.clone());
                let members = row.nodes.iter().map(|node| format!("node-{node}")).collect();
                news.push((row.made, None, Event::Team { team: row.team as u64, members }));
            }
            news.push((row.made, None, state(RoundState::Precomputing, None)));
        }
        let is_new = |at: Option<u64>, said: &mut bool| at.filter(|_| !std::mem::replace(said, at.is_some()));
        if let Some(at) = is_new(row.opened, &mut said.opened) {
            news.push((at, None, state(RoundState::Queued, None)));
        }
        if let Some(at) = is_new(row.entered, &mut said.entered) {
            news.push((at, None, state(RoundState::Realtime, None)));
            news.push((at, first, step(Step::Entered)));
        }
        if let Some(at) = is_new(row.exit(), &mut said.left) {
            news.push((at, first, step(Step::Left)));
            if let Some(latency) = row.latency() {
                let mut latencies = Latencies::default();
                latencies.add(latency, self.slots);
                news.push((at, None, Event::Latencies { round: row.round, latencies }));
            }
        }
        if let Some(at) = is_new(row.ended, &mut said.ended) {
            let how = if row.cause.is_some() { RoundState::Failed } else { RoundState::Completed };
            news.push((at, None, state(how, row.cause.map(|cause| cause.name()))));
        }
    }

    fn phase(&mut self, round: u64, host: u32, phase: Phase, times: &PhaseTimes, news: &mut Vec<News>) {
        let (begun, ended) = self.phases.entry((round, host, phase)).or_default();
        let is_last = phase.half() == Half::RealTime && phase.next().is_none();
        let end = if is_last { times.last_received } else { times.last_finished };
        for (said, edge, at) in [(begun, Edge::Begin, times.first_received), (ended, Edge::End, end)] {
            if let Some(at) = at.filter(|_| !std::mem::replace(said, at.is_some())) {
                news.push((at, Some(host), Event::Phase { round, phase: phase.name().to_owned(), edge }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use samara_lab::run::{RunOptions, run_seen};
    use samara_lab::scenario::Mix;
    use samara_lab::scenario::load;
    use samara_trace::live::{Line, RoundState};

    use super::*;

    #[test]
    fn rounds_phases_and_latencies_are_told_in_the_time_of_the_simulation() {
        let set = [("mix.batch".to_owned(), "20".to_owned())];
        let loaded = load("mix", &set, &["equal-5".to_owned()], Some(1)).unwrap();
        let expected = loaded.points[0].scenario.find::<Mix>().unwrap().rounds as usize;
        let results = std::env::temp_dir().join(format!("samara-rounds-{}", std::process::id()));
        let mut rounds = Rounds::create(&results, "equal-5", 20).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let options = RunOptions { threads: 1, inputs: &loaded.inputs, stop: &stop };
        run_seen(&loaded.points[0], options, |_| {}, |told| rounds.look(told)).unwrap();
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
