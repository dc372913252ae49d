//! Progress on standard error.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use samara_lab::run::Progress;

/// Parts of a bar that one run is.
const PER_RUN: u64 = 1000;

/// A bar over all runs, each of which counts the virtual time that has gone by.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// By run: the parts that are done.
    done: Mutex<Vec<u64>>,
}

impl Bar {
    pub(crate) fn new(runs: usize, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
        let bar = ProgressBar::with_draw_target(Some(runs as u64 * PER_RUN), target);
        let template = "{bar:30} {percent:>3} %  {elapsed} gone, {eta} to go  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, done: Mutex::new(vec![0; runs]) }
    }

    /// A run got on.
    pub(crate) fn advance(&self, run: usize, progress: Progress) {
        let share = progress.now.as_secs_f64() / progress.end.as_secs_f64().max(1e-9);
        self.set(run, ((share * PER_RUN as f64) as u64).min(PER_RUN - 1));
    }

    /// A run is over.
    pub(crate) fn finish_run(&self, run: usize, name: &str) {
        self.set(run, PER_RUN);
        self.bar.set_message(name.to_owned());
    }

    fn set(&self, run: usize, parts: u64) {
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        done[run] = parts;
        self.bar.set_position(done.iter().sum());
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
