//! Progress on standard error: a bar on a terminal, otherwise a line now and then.

use std::io::IsTerminal;
use std::ops::Deref;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::complain_as_program;

/// Time until the first line without a terminal. Later lines come at twice the time of the one before,
/// but at least this often.
const FIRST_LINE: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_secs(600);

/// A bar on a terminal. Without a terminal, it prints its position in lines.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Ends the thread that prints lines when it is dropped.
    _lines: Option<Sender<()>>,
}

impl Bar {
    /// Starts at `finished` of `length` steps.
    pub(crate) fn new(length: u64, finished: u64, template: &str, quiet: bool) -> Self {
        let is_drawn = !quiet && std::io::stderr().is_terminal();
        let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(length), target).with_position(finished);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.reset_eta();
        let lines = if quiet || is_drawn { None } else { lines(bar.clone(), finished) };
        Self { bar, _lines: lines }
    }
}

impl Deref for Bar {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.bar
    }
}

/// Prints lines on the position of a bar until the sender is gone. Without a thread there are none.
fn lines(bar: ProgressBar, finished: u64) -> Option<Sender<()>> {
    let (sender, ended) = channel();
    let start = Instant::now();
    let print = move || {
        let mut wait = FIRST_LINE;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let elapsed = start.elapsed();
            complain_as_program(line(elapsed, finished, bar.position(), bar.length().unwrap_or(0)));
            wait = elapsed.clamp(FIRST_LINE, INTERVAL_MAX);
        }
    };
    std::thread::Builder::new().spawn(print).ok().map(|_| sender)
}

/// Returns a line with the share that is done and, from one percent on, the time that is left at the
/// same pace.
fn line(elapsed: Duration, finished: u64, position: u64, length: u64) -> String {
    let share = position as f64 / length.max(1) as f64;
    let done = format!("{:.0} % done after {}", share * 100.0, words(elapsed.as_secs_f64()));
    let steps = position.saturating_sub(finished);
    if steps == 0 || steps < length / 100 {
        return done;
    }
    let left = elapsed.as_secs_f64() / steps as f64 * length.saturating_sub(position) as f64;
    format!("{done}, about {} left", words(left))
}

fn words(seconds: f64) -> String {
    match seconds {
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        _ if seconds < 99.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_share_and_time_left() {
        let line = |seconds, finished, position| line(Duration::from_secs(seconds), finished, position, 1000);
        assert_eq!(line(10, 0, 250), "25 % done after 10 s, about 30 s left");
        assert_eq!(line(300, 500, 600), "60 % done after 5 min, about 20 min left");
        assert_eq!(line(7200, 0, 500), "50 % done after 2.0 h, about 2.0 h left");
        assert_eq!(line(20, 500, 500), "50 % done after 20 s", "no pace is known yet");
        assert_eq!(line(10, 0, 9), "1 % done after 10 s");
    }

    #[test]
    fn quiet_progress_prints_nothing() {
        assert!(Bar::new(10, 0, "{bar}", true)._lines.is_none());
        assert!(Bar::new(10, 0, "{bar}", true).is_hidden());
    }
}
