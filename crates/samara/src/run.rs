//! `samara run`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use samara_lab::results::RunResult;
use samara_lab::run::{RunError, RunOptions as Options, run as run_point};
use samara_trace::live::RunState;

use crate::args::RunOptions;
use crate::session::{BAR_STEPS, Session, progress_bar};

/// From so many nodes on, runs are done one after the other, each on all threads: memory counts then.
pub(crate) const LARGE: u32 = 4000;

pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, String> {
    let session = Session::open(&options.scenario, &options.output)?;
    match run_all(&session, options) {
        Ok(results) => session.finish(results),
        Err(message) => Err(session.fail(message)),
    }
}

/// Runs all points: several at once if they are small, each on all threads if they are large. Those that were interrupted are
/// `None`.
fn run_all(session: &Session, options: &RunOptions) -> Result<Vec<Option<RunResult>>, String> {
    let Session { loaded, directory, .. } = session;
    let stop = session.stop();
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(available, usize::from);
    let points = &loaded.points;
    let large = points.iter().any(|point| point.scenario.network.nodes > LARGE);
    let workers = if large { 1 } else { threads.min(points.len()).max(1) };
    let bar = progress_bar(points.len(), options.output.quiet);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<RunResult>>> = points.iter().map(|_| Mutex::default()).collect();
    let failure: Mutex<Option<String>> = Mutex::default();
    let fail = |message: String| {
        lock(&failure).get_or_insert(message);
        stop.store(true, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let index = points.iter().position(|other| std::ptr::eq(other, point)).unwrap_or(0);
                    let run_options = Options { threads: threads / workers, inputs: &loaded.inputs, stop };
                    bar.set_message(point.name());
                    let mut live = session.live.run(point);
                    let mut done = 0;
                    let measured = run_point(point, run_options, |progress| {
                        let now = (progress.share * BAR_STEPS as f64) as u64;
                        bar.inc(now - done);
                        done = now;
                        live.progress(None, progress);
                    });
                    match measured {
                        Ok(measured) => {
                            let result = RunResult::of(&measured);
                            match directory.run(&measured, &result) {
                                Ok(()) => {
                                    *lock(&results[index]) = Some(result);
                                    live.end(RunState::Done);
                                }
                                Err(error) => fail(error.to_string()),
                            }
                        }
                        Err(RunError::Interrupted) => return,
                        Err(RunError::Scenario(error) | RunError::Together(error)) => {
                            live.end(RunState::Failed);
                            fail(format!("{}: run {}: {error}", loaded.source, point.name()));
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if let Some(message) = lock(&failure).take() {
        return Err(message);
    }
    Ok(results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
