//! What a person sees of a transfer while it runs.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use samara_files::{MemberState, Receiving, Sending};
use samara_net::ring::Refusal;

/// Time over which the shown rate is a mean.
const PACE_OVER: Duration = Duration::from_secs(10);
/// Time after which a receiver that is gone has left: a group that was split for a moment meets again.
const LEFT_AFTER: Duration = Duration::from_secs(3);
/// Maximum number of files of which the display remembers the state.
const FILES_MAX: usize = 1024;

/// Writes a number of bytes with three digits.
pub(super) fn size(bytes: u64) -> String {
    let value = bytes as f64;
    let (value, unit) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (value / 1e3, "kB"),
        1_000_000..1_000_000_000 => (value / 1e6, "MB"),
        _ => (value / 1e9, "GB"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

pub(super) fn told(state: &MemberState, all: u64) -> String {
    match state {
        MemberState::Done => "has it".to_owned(),
        MemberState::Receiving(bytes) => format!("{} of {}", size(*bytes), size(all)),
        MemberState::Failed(cause) => format!("does not take it: {cause}"),
        MemberState::Left => "left before it had the file".to_owned(),
    }
}

/// The rate of a transfer over the last seconds.
#[derive(Default)]
struct Pace {
    /// Whose bytes these are.
    of: String,
    samples: VecDeque<(Duration, u64)>,
}

impl Pace {
    /// Returns the bytes per second up to now. Another receiver begins anew, and so does a count that
    /// shrinks: a file begins again.
    fn of(&mut self, name: &str, elapsed: Duration, bytes: u64) -> f64 {
        let is_behind = |last: &(Duration, u64)| bytes < last.1 || elapsed < last.0;
        if self.of != name || self.samples.back().is_some_and(is_behind) {
            name.clone_into(&mut self.of);
            self.samples.clear();
        }
        self.samples.push_back((elapsed, bytes));
        while self.samples.len() > 2 && self.samples[1].0 + PACE_OVER < elapsed {
            self.samples.pop_front();
        }
        let (since, before) = self.samples[0];
        (bytes - before) as f64 / (elapsed - since).as_secs_f64().max(1e-3)
    }
}

/// Lines that stay, and the line of progress below them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) lines: Vec<String>,
    /// The line of before stays if there is none.
    pub(super) progress: Option<String>,
}

/// The sender's display.
#[derive(Default)]
pub(super) struct SenderDisplay {
    pace: Pace,
    members: BTreeMap<String, MemberState>,
    /// Receivers that are gone, and since when.
    away: BTreeMap<String, Instant>,
    corrupt: BTreeMap<String, u32>,
    refusals: Vec<Refusal>,
    receipts_failure: Option<String>,
}

impl SenderDisplay {
    pub(super) fn of(&mut self, report: &Sending, wanted: usize, keeps_on: bool, now: Instant) -> Screen {
        let mut lines = Vec::new();
        self.members_in(report, now, &mut lines);
        let size_all = size(report.size);
        for (name, count) in &report.corrupt {
            if self.corrupt.get(name).is_none_or(|before| before < count) {
                lines.push(format!("{name}  its bytes were damaged: {size_all} go again, to all receivers"));
            }
        }
        self.corrupt.clone_from(&report.corrupt);
        for now in &report.refusals {
            let is_same = |before: &&Refusal| (before.host, before.cause) == (now.host, now.cause);
            let before = self.refusals.iter().find(is_same).map_or(0, |before| before.count);
            // A node that tries again and again fills no screen.
            if now.count.checked_ilog2() > before.checked_ilog2() {
                lines.push(refused(now));
            }
        }
        self.refusals.clone_from(&report.refusals);
        if self.receipts_failure != report.receipts_failure {
            lines.extend(report.receipts_failure.clone());
            self.receipts_failure.clone_from(&report.receipts_failure);
        }
        Screen { lines, progress: Some(self.progress(report, wanted, keeps_on)) }
    }

    /// Adds lines on receivers whose state has changed.
    fn members_in(&mut self, report: &Sending, now: Instant, lines: &mut Vec<String>) {
        self.away.retain(|name, _| report.members.get(name) == Some(&MemberState::Left));
        self.members.retain(|name, _| report.members.contains_key(name));
        for (name, state) in &report.members {
            if *state == MemberState::Left {
                let since = *self.away.entry(name.clone()).or_insert(now);
                if now.saturating_duration_since(since) < LEFT_AFTER {
                    continue;
                }
            }
            let is_change =
                |before: &MemberState| std::mem::discriminant(before) != std::mem::discriminant(state);
            if self.members.get(name).is_none_or(is_change) {
                let text = match state {
                    MemberState::Receiving(_) => "joined".to_owned(),
                    other => told(other, report.size),
                };
                lines.push(format!("{name}  {text}"));
            }
            self.members.insert(name.clone(), state.clone());
        }
    }

    fn progress(&mut self, report: &Sending, wanted: usize, keeps_on: bool) -> String {
        let Sending { size: all, has_begun, elapsed, done, there, .. } = report;
        match report.slowest() {
            _ if !has_begun => {
                let have = if *done > 0 { format!(", {done} have the file") } else { String::new() };
                format!("waiting for receivers: {there} of {wanted}{have}")
            }
            Some((name, bytes)) => {
                let rate = self.pace.of(name, *elapsed, bytes);
                let whose = if report.members.len() > 1 { format!(" at {name}") } else { String::new() };
                let have = if *done > 0 { format!(", {done} done") } else { String::new() };
                transferred(bytes, *all, rate, &whose) + &have
            }
            None if keeps_on => format!("{done} have the file; waiting for others until Ctrl-C"),
            None => {
                let waits = if *done < wanted { "; waiting for those that left" } else { "" };
                format!("{done} of {wanted} have the file{waits}")
            }
        }
    }
}

/// Says why nodes of a host were refused, with the way out.
fn refused(Refusal { host, cause, count }: &Refusal) -> String {
    let (what, remedy) = match *cause {
        "other_options" => ("other options of the group", "use the same version of samara everywhere"),
        "other_group" => ("another group name, or a secret", "compare --name and --secret"),
        "handshake" => ("no secret, or one where this member has none", "compare --secret"),
        _ => ("another secret or group name", "compare --secret and --name"),
    };
    let times = if *count == 1 { String::new() } else { format!(", {count} times") };
    format!("refused a node of {host}{times}: it has {what}; {remedy}")
}

/// The receiver's display.
#[derive(Default)]
pub(super) struct ReceiverDisplay {
    pace: Pace,
    /// The files by sender and name.
    files: BTreeMap<(String, String), Known>,
}

/// What the display has said of a file.
#[derive(Clone, Copy, Default)]
struct Known {
    is_over: bool,
    is_gone: bool,
    corrupt: u32,
}

impl ReceiverDisplay {
    /// Returns the lines of a report, and the line of progress unless the file has failed. Without a patience, the receiver waits
    /// for senders without a limit.
    pub(super) fn of(&mut self, report: &Receiving, patience: Option<Duration>) -> Screen {
        let Receiving { name, sender, size: all, bytes, had_bytes, elapsed, .. } = report;
        let key = (sender.clone(), name.clone());
        let before = self.files.get(&key).copied();
        let now = Known {
            is_over: report.is_done || report.failure.is_some(),
            is_gone: report.sender_gone.is_some(),
            corrupt: report.corrupt,
        };
        if self.files.len() >= FILES_MAX && before.is_none() {
            self.files.clear();
        }
        self.files.insert(key, now);
        let mut lines = Vec::new();
        if before.is_none() && report.failure.is_none() {
            let had = if *had_bytes > 0 { format!(", {} are here", size(*had_bytes)) } else { String::new() };
            lines.push(format!("{name}  {} from {sender}{had}", size(*all)));
        }
        let before = before.unwrap_or_default();
        if before.corrupt < now.corrupt {
            let all = size(*all);
            lines.push(format!("{name}  what was on disk was damaged: all {all} come again"));
        }
        if !before.is_gone && now.is_gone && !now.is_over {
            let within = patience.map_or_else(String::new, |limit| format!("{} s ", limit.as_secs()));
            lines.push(format!("{name}  its sender {sender} left; waiting {within}for it to come back"));
        }
        if before.is_gone && !now.is_gone && !now.is_over {
            lines.push(format!("{name}  its sender {sender} is back"));
        }
        if !before.is_over && report.is_done {
            lines.push(format!("{name}  verified; waiting for the others"));
        }
        if let Some(cause) = report.failure.as_ref().filter(|_| !before.is_over) {
            lines.push(format!("{name}  {cause}"));
        }
        let progress = match (report.sender_gone, report.waits_for) {
            _ if report.failure.is_some() => return Screen { lines, progress: None },
            _ if report.is_done => format!("{name} is complete; waiting for the others"),
            (Some(gone), _) => {
                let (has, all) = (size(*bytes), size(*all));
                let of = patience.map_or_else(String::new, |limit| format!(" of {} s", limit.as_secs()));
                format!("{has} of {all}; the sender is gone for {} s{of}", gone.as_secs())
            }
            (None, Some((there, wanted))) => format!("the sender waits for receivers: {there} of {wanted}"),
            (None, None) => {
                transferred(*bytes, *all, self.pace.of(&format!("{sender} {name}"), *elapsed, *bytes), "")
            }
        };
        Screen { lines, progress: Some(progress) }
    }
}

/// Returns the share, the rate and the rest of a transfer.
fn transferred(bytes: u64, all: u64, rate: f64, whose: &str) -> String {
    let share = 100 * u128::from(bytes) / u128::from(all.max(1));
    let rest = all.saturating_sub(bytes) as f64 / rate.max(1.0);
    let rest = if rate >= 1.0 { format!(", {rest:.0} s left") } else { String::new() };
    format!("{share} %  {} of {}{whose}, {}/s{rest}", size(bytes), size(all), size(rate as u64))
}

#[cfg(test)]
pub(super) mod tests;
