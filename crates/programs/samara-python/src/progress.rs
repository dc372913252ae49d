//! Runs with progress and interrupts, and the tables that remain in memory.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use samara_engine::lock;
use samara_lab::explain::{Mode, PATHS};
use samara_lab::results::{Measured, Outcome, ResultsDirectory, tables};
use samara_lab::run::{Progress, Watch, WatchRun, run_all};
use samara_scenario::{Loaded, Point};

use crate::errors::RunError;
use crate::policy::Failure;
use crate::table::{Kept, Tables};

/// Time between two updates of progress and checks for interrupts.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// The tables to keep in memory.
pub(crate) struct Keep {
    /// The names of the tables; all if `None`.
    pub(crate) names: Option<Vec<String>>,
    /// Maximum number of rows of a table in memory.
    pub(crate) rows_max: usize,
}

impl Keep {
    /// Returns true if this table is named, and not only kept because all are.
    fn names_table(&self, name: &str) -> bool {
        self.names.iter().flatten().any(|own| own == name)
    }
}

/// Observes all runs.
pub(crate) struct Observer<'a> {
    points: &'a [Point],
    keep: &'a Keep,
    directory: Option<&'a ResultsDirectory>,
    /// Share of each run that is done, from 0 to 1.
    shares: Mutex<Vec<f64>>,
    tables: Mutex<Vec<Tables>>,
}

pub(crate) struct RunObserver<'a> {
    all: &'a Observer<'a>,
    at: usize,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(loaded: &'a Loaded, keep: &'a Keep, directory: Option<&'a ResultsDirectory>) -> Self {
        let points = &loaded.points;
        let tables = points.iter().map(|_| Tables::new()).collect();
        Self {
            points,
            keep,
            directory,
            shares: Mutex::new(vec![0.0; points.len()]),
            tables: Mutex::new(tables),
        }
    }

    fn tables(self) -> Vec<Tables> {
        self.tables.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, py: Python<'_>, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let shares = lock(&self.shares).clone();
        let names: Vec<String> = self.points.iter().map(Point::name).collect();
        let runs: Vec<(String, f64)> = names.into_iter().zip(shares).collect();
        progress.call1((runs.into_pyobject(py)?,)).map(drop)
    }
}

impl Watch for Observer<'_> {
    fn begin<'a>(&'a self, point: &'a Point) -> impl WatchRun + 'a {
        let at = self.points.iter().position(|other| std::ptr::eq(other, point)).unwrap_or(0);
        RunObserver { all: self, at }
    }
}

impl WatchRun for RunObserver<'_> {
    fn progress(&mut self, progress: Progress) {
        lock(&self.all.shares)[self.at] = progress.share.clamp(0.0, 1.0);
    }

    fn measured(&mut self, measured: &dyn Measured, result: &Outcome) -> Result<(), String> {
        if let Some(directory) = self.all.directory {
            directory.run(measured, result).map_err(|error| error.to_string())?;
        }
        let keep = self.all.keep;
        let mut kept = Tables::new();
        for table in tables(measured, result) {
            let is_wanted =
                keep.names.as_ref().is_none_or(|names| names.iter().any(|name| name == table.name()));
            let what = if is_wanted && table.rows() <= keep.rows_max {
                Kept::Here(Arc::new(table.make()))
            } else {
                Kept::Gone(table.rows())
            };
            kept.insert(table.name().to_owned(), what);
        }
        lock(&self.all.tables)[self.at] = kept;
        Ok(())
    }

    fn end(self, is_done: bool) {
        if is_done {
            lock(&self.all.shares)[self.at] = 1.0;
        }
    }
}

/// Runs all points without the interpreter's lock. Reports progress and handles interrupts.
pub(crate) fn run(
    py: Python<'_>,
    loaded: &Loaded,
    observer: Observer<'_>,
    threads: usize,
    failure: &Failure,
    progress: Option<&Py<PyAny>>,
) -> PyResult<(Vec<Option<Outcome>>, Vec<Tables>)> {
    let mut interrupt = None;
    let explain = if observer.keep.names_table(PATHS) { Mode::Auto } else { Mode::Off };
    let results = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let (stop, watch) = (&failure.stop, &observer);
            let worker = scope.spawn(move || sender.send(run_all(loaded, (threads, explain), stop, watch)));
            loop {
                match receiver.recv_timeout(UPDATE_EVERY) {
                    Ok(results) => return Ok(results),
                    Err(RecvTimeoutError::Disconnected) => return Err(worker.join()),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let updated = Python::attach(|py| {
                    py.check_signals()?;
                    progress.map_or(Ok(()), |progress| observer.show(py, progress.bind(py)))
                });
                if let Err(error) = updated {
                    failure.stop.store(true, Ordering::SeqCst);
                    interrupt.get_or_insert(error);
                }
            }
        })
    });
    if let Some(error) = failure.take().or(interrupt) {
        return Err(error);
    }
    let results = match results {
        Ok(results) => results.map_err(RunError::new_err)?,
        Err(Err(panic)) => std::panic::resume_unwind(panic),
        Err(Ok(_)) => return Err(RunError::new_err("the run ended without a result")),
    };
    if let Some(progress) = progress {
        observer.show(py, progress.bind(py))?;
    }
    Ok((results, observer.tables()))
}
