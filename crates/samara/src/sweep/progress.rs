//! What a sweep shows of itself while it goes on.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::PointEvent;

/// One line: points done, under way and failed, and when it will be over.
pub(crate) struct Progress {
    bar: ProgressBar,
    quiet: bool,
    running: usize,
    again: usize,
    lost: usize,
    failed: usize,
}

impl Progress {
    /// Of so many points, so many of which are there.
    pub(crate) fn new(points: usize, finished: usize, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(points as u64), target).with_position(finished as u64);
        let template = "{elapsed:>4} [{bar:30}] {pos}/{len} points  {msg}  {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.reset_eta();
        Self { bar, quiet, running: 0, again: 0, lost: 0, failed: 0 }
    }

    /// Takes what is heard of a point; `name` names the one at a place.
    pub(crate) fn take(&mut self, news: &PointEvent, name: impl Fn(usize) -> String) {
        match news {
            PointEvent::Started => self.running += 1,
            PointEvent::Note(_) => {}
            _ => self.running = self.running.saturating_sub(1),
        }
        match news {
            PointEvent::Done(_) => self.bar.inc(1),
            PointEvent::Again(place, why) => {
                self.again += 1;
                self.say(&format!("{} failed and is run again: {why}", name(*place)));
            }
            PointEvent::Lost(place, why) => {
                self.lost += 1;
                self.say(&format!("{} is lost with its worker and is run again: {why}", name(*place)));
            }
            PointEvent::Failed(place, why) => {
                self.failed += 1;
                // Without its details, which come at the end.
                self.say(&format!("{} failed: {}", name(*place), why.lines().next().unwrap_or_default()));
            }
            PointEvent::Note(text) => self.say(text),
            PointEvent::Started | PointEvent::Dropped => {}
        }
        let mut parts = vec![format!("{} running", self.running)];
        for (count, what) in [(self.failed, "failed"), (self.again, "run again"), (self.lost, "lost")] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        self.bar.set_message(parts.join(", "));
    }

    /// Tells also where there is no terminal: what goes wrong belongs into logs.
    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("samara: {text}"));
        }
    }

    /// Removes the line, and tells how often points had to be run again.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
        if self.again + self.lost > 0 {
            eprintln!(
                "samara: {} points were run again after a failure, {} after their worker was lost",
                self.again, self.lost
            );
        }
    }
}
