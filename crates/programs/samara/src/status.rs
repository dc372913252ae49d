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
    begun: Instant,
    is_terminal: bool,
    last_line: Option<Instant>,
}

impl Status {
    pub(crate) fn new() -> Self {
        let bar = indicatif::ProgressBar::new_spinner();
        let style = indicatif::ProgressStyle::with_template("{msg}");
        style.into_iter().for_each(|style| bar.set_style(style));
        let is_terminal = std::io::stderr().is_terminal();
        Self { bar, begun: Instant::now(), is_terminal, last_line: None }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: impl Display) {
        self.beside(|| complain(text));
    }

    /// Prints while the line of progress is away.
    pub(crate) fn beside<T>(&self, prints: impl FnOnce() -> T) -> T {
        self.bar.suspend(prints)
    }

    /// Prints lines that stay, above a line of progress: a new one, or that of before.
    pub(crate) fn show(&mut self, lines: &[String], progress: Option<String>) {
        if !lines.is_empty() {
            if progress.is_some() {
                // The line of before says what was.
                self.bar.set_message(String::new());
            }
            self.beside(|| lines.iter().for_each(complain));
        }
        if let Some(progress) = progress {
            self.progress(progress);
        }
    }

    pub(crate) fn progress(&mut self, text: String) {
        if self.is_terminal {
            self.bar.set_message(format!("{:>5}  {text}", clock(self.begun.elapsed())));
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

/// Writes a time to the second, also after minutes.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_shows_each_second() {
        let at = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!([at(0), at(89), at(90), at(91)], ["0:00", "1:29", "1:30", "1:31"]);
        assert_eq!([at(3_599), at(3_600), at(90_061)], ["59:59", "1:00:00", "25:01:01"]);
    }
}
