//! `samara run`.

use std::process::ExitCode;

use indicatif::ProgressBar;
use samara_lab::mix::measure::Collector;
use samara_lab::results::{Measured, Outcome};
use samara_lab::run::{Progress, Watch, WatchRun, run_all};
use samara_lab::scenario::Point;
use samara_trace::live::RunState;

use crate::args::RunOptions;
use crate::live::RunLive;
use crate::session::{BAR_STEPS, Session, progress_bar};

pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, String> {
    let session = Session::open(&options.scenario, &options.output)?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(available, usize::from);
    let bar = progress_bar(session.loaded.points.len(), options.output.quiet);
    let results = run_all(&session.loaded, threads, session.stop(), &Shown { session: &session, bar: &bar });
    bar.finish_and_clear();
    match results {
        Ok(results) => session.finish(results),
        Err(message) => Err(session.fail(message)),
    }
}

/// Shows all runs: in a bar, and in the live file.
struct Shown<'a> {
    session: &'a Session,
    bar: &'a ProgressBar,
}

struct ShownRun<'a> {
    session: &'a Session,
    bar: &'a ProgressBar,
    live: RunLive<'a>,
    done: u64,
}

impl Watch for Shown<'_> {
    fn begin<'a>(&'a self, point: &'a Point) -> impl WatchRun + 'a {
        self.bar.set_message(point.name());
        ShownRun { session: self.session, bar: self.bar, live: self.session.live.run(point), done: 0 }
    }
}

impl WatchRun for ShownRun<'_> {
    fn progress(&mut self, progress: Progress) {
        let now = (progress.share * BAR_STEPS as f64) as u64;
        self.bar.inc(now - self.done);
        self.done = now;
        self.live.progress(None, progress);
    }

    fn rounds(&mut self, told: &Collector) {
        self.live.rounds(told);
    }

    fn measured(&mut self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), String> {
        self.session.directory.run(measured, outcome).map_err(|error| error.to_string())
    }

    fn end(self, is_done: bool) {
        self.live.end(if is_done { RunState::Done } else { RunState::Failed });
    }
}
