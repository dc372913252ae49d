//! What `samara dashboard` shows of runs, while they go on.

mod rounds;

use samara_lab::scenario::Mix;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rounds::Rounds;
use samara_lab::mix::measure::Collector;
use samara_lab::run::Progress;
use samara_lab::scenario::Point;
use samara_trace::live::{self, Clock, Event, LiveWriter, Outcome, RunState};

/// A run says how far it is no more often than this.
const SAY_EVERY: Duration = Duration::from_millis(250);

/// The live file of a session, which speaks for all its runs.
pub(crate) struct Live {
    writer: LiveWriter,
    results: PathBuf,
}

impl Live {
    /// Starts it, with all runs waiting.
    pub(crate) fn start(results: &Path, points: &[Point]) -> Result<Self, String> {
        let writer = LiveWriter::create(results, "session")
            .map_err(|error| format!("{}: live/session.jsonl: {error}", results.display()))?;
        writer.say(unix_ns(), started("session", None));
        for point in points {
            let progress = event(RunState::Waiting, None, None, None);
            writer.say_of(Some(&name(point)), unix_ns(), progress);
        }
        Ok(Self { writer, results: results.to_owned() })
    }

    /// A run begins.
    pub(crate) fn run(&self, point: &Point) -> RunLive<'_> {
        let slots = point.scenario.find::<Mix>().map(|mix| u64::from(mix.batch));
        let rounds = slots.map(|slots| (slots, None));
        let mut run = RunLive {
            live: self,
            name: name(point),
            start: Instant::now(),
            said: None,
            rounds,
            looked: None,
        };
        run.say(RunState::Running, None, None);
        run
    }

    /// The session ends.
    pub(crate) fn finish(self, outcome: Outcome, message: Option<String>) {
        self.writer.say(unix_ns(), Event::Finished { outcome, message });
        // Results are complete without it: a disk that is full has shown elsewhere.
        let _ = self.writer.finish();
    }
}

/// What a run says of itself.
pub(crate) struct RunLive<'a> {
    live: &'a Live,
    name: String,
    start: Instant,
    said: Option<(Instant, Progress)>,
    /// Of a mix: slots of a round, and the file of its rounds, if it is simulated.
    rounds: Option<(u64, Option<Rounds>)>,
    looked: Option<Instant>,
}

impl RunLive<'_> {
    /// How far it is; said only if it was not said a moment ago.
    pub(crate) fn progress(&mut self, doing: Option<&str>, progress: Progress) {
        let is_early = self.said.is_some_and(|(said, _)| said.elapsed() < SAY_EVERY);
        if !is_early {
            self.say(RunState::Running, doing, Some(progress));
        } else if let Some((_, last)) = &mut self.said {
            *last = progress;
        }
    }

    /// What the teams of a simulated mix have told; said only if it was not looked at a moment ago.
    pub(crate) fn rounds(&mut self, told: &Collector) {
        let Some((slots, rounds)) = &mut self.rounds else { return };
        let is_early = self.looked.is_some_and(|looked| looked.elapsed() < SAY_EVERY);
        // Of a run that is over everything is said.
        if is_early && told.rounds.values().any(|row| row.ended.is_none()) {
            return;
        }
        self.looked = Some(Instant::now());
        if rounds.is_none() {
            // A run goes on without it: a disk that is full shows elsewhere.
            *rounds = Rounds::create(&self.live.results, &self.name, *slots).ok();
        }
        rounds.iter_mut().for_each(|rounds| rounds.look(told));
    }

    /// It has ended.
    pub(crate) fn end(mut self, state: RunState) {
        if let Some((_, Some(rounds))) = self.rounds.take() {
            rounds.finish(if state == RunState::Done { Outcome::Ok } else { Outcome::Failed });
        }
        let last = self.said.map(|(_, progress)| progress);
        self.say(state, None, last);
    }

    fn say(&mut self, state: RunState, doing: Option<&str>, progress: Option<Progress>) {
        let wall_ns = self.start.elapsed().as_nanos() as u64;
        let said = event(state, doing, Some(wall_ns), progress);
        self.live.writer.say_of(Some(&self.name), unix_ns(), said);
        self.said = progress.map(|progress| (Instant::now(), progress));
    }
}

/// The first line of a source of this program.
pub(crate) fn started(role: &str, run: Option<String>) -> Event {
    Event::Started { role: role.to_owned(), clock: Clock::Wall, started_unix_ns: unix_ns(), run }
}

/// What a run is called on the page.
pub(crate) fn name(point: &Point) -> String {
    format!("{}, seed {}", point.name(), point.seed)
}

/// The event of a progress; nothing of it is known before the run reports any.
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

pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
