//! The line of progress of a command that talks to others, and lines of what happens meanwhile.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::terminal::complain;

/// Time between two lines of progress without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// On a terminal, a line that changes in place at the end; elsewhere, a line now and then.
pub(crate) struct Status {
    bar: indicatif::ProgressBar,
    is_terminal: bool,
    last_line: Option<Instant>,
}

impl Status {
    pub(crate) fn new() -> Self {
        let bar = indicatif::ProgressBar::new_spinner();
        let style = indicatif::ProgressStyle::with_template("{elapsed:>4}  {msg}");
        style.into_iter().for_each(|style| bar.set_style(style));
        Self { bar, is_terminal: std::io::stderr().is_terminal(), last_line: None }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: impl Display) {
        self.beside(|| complain(text));
    }

    /// Prints while the line of progress is away.
    pub(crate) fn beside<T>(&self, prints: impl FnOnce() -> T) -> T {
        self.bar.suspend(prints)
    }

    pub(crate) fn progress(&mut self, text: String) {
        if self.is_terminal {
            self.bar.set_message(text);
            self.bar.tick();
        } else if self.last_line.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.last_line = Some(Instant::now());
            complain(text);
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
