//! The transfers, with what a person sees of them.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use samara_files::{
    MemberState, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent, TransferError, receive,
    send,
};
use samara_net::ring::{Options, Secret};

use super::GroupVerb;
use super::args::{MemberOptions, ReceiveFile, SendFile};
use crate::status::Status;
use crate::terminal::{fitted, print};

/// Exit status if a receiver lacks the file.
const INCOMPLETE: u8 = 3;
/// Time over which the shown rate is a mean.
const PACE_OVER: Duration = Duration::from_secs(10);
/// Time within which a seed must answer.
const SEED_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends or receives a file.
pub(crate) fn run(verb: GroupVerb) -> Result<ExitCode, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("threads: {error}"))?;
    match verb {
        GroupVerb::Send(options) => runtime.block_on(send_file(options)),
        GroupVerb::Receive(options) => runtime.block_on(receive_file(options)),
    }
}

fn options_of(member: &MemberOptions) -> Result<Options, String> {
    let MemberOptions { listen, advertise, seeds, secret, name, .. } = member;
    let options = Options { advertise: *advertise, ..Options::new(name, *listen).with_seeds(seeds.clone()) };
    let Some(path) = secret else { return Ok(options) };
    let secret = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let secret = Secret::new(secret.trim_ascii()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(options.with_secret(secret))
}

/// Explains an error of a member in the words of the command line.
fn explained(error: TransferError) -> String {
    let text = error.to_string();
    if text.starts_with("authentication") {
        return format!("{text}\n  --secret names the file of the secret");
    }
    text.replace("unset `require_seed` to found the group", "leave out --seed to found the group")
        .replace("set `advertise`", "--advertise names it")
}

async fn send_file(options: SendFile) -> Result<ExitCode, String> {
    let SendFile { file, members, rate, member } = options;
    let mut group = options_of(&member)?;
    if !group.seeds.is_empty() {
        group = group.require_seed(SEED_TIMEOUT);
    }
    let (members, patience) = (usize::from(members), member.patience.duration());
    let rate = rate.map(|rate| rate.bps() as f64 / 8.0);
    let mut shown = Shown::new();
    let options = SendOptions { group, path: file, members, patience, rate };
    let sent = send(options, &mut |report| shown.sending(report, members)).await.map_err(explained)?;
    let Sent { is_complete, last, digest } = sent;
    shown.status.end();
    let refused = last.members.values().filter(|state| matches!(state, MemberState::Failed(_))).count();
    let took = match (is_complete, last.done + refused >= members) {
        (true, _) => took(&last),
        (false, true) => {
            format!("{refused} did not take it; once mended, the same command again sends the rest")
        }
        (false, false) => {
            format!("no progress for {}; the same command again sends the rest", member.patience)
        }
    };
    let of = if last.done <= members { format!(" of {members}") } else { String::new() };
    let mut text = format!("{}{of} receivers have the file: {took}\n", last.done);
    for (name, state) in &last.members {
        text += &format!("{name}  {}\n", told(state, last.size));
    }
    if last.forgotten > 0 {
        text += &format!("{} receivers before them are not listed\n", last.forgotten);
    }
    text += &format!("blake3 {}\n", digest.unwrap_or_default());
    print(&fitted(&text, 4))?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

async fn receive_file(options: ReceiveFile) -> Result<ExitCode, String> {
    let ReceiveFile { directory, overwrite, keep_on, member } = options;
    if member.seeds.is_empty() {
        return Err("--seed names the address of the sender, or of another member".to_owned());
    }
    let group = options_of(&member)?.require_seed(member.patience.duration());
    let options = ReceiveOptions {
        group,
        directory: directory.clone(),
        overwrites: overwrite,
        keeps_on: keep_on,
        patience: member.patience.duration(),
    };
    let mut shown = Shown::new();
    let seeds: Vec<String> = member.seeds.iter().map(ToString::to_string).collect();
    shown.status.progress(format!("dialling {}, for at most {}", seeds.join(", "), member.patience));
    let received = receive(options, &mut |report| shown.receiving(report)).await;
    // A receiver founds no group.
    let to_found = ", or leave out --seed to found the group";
    let received = received.map_err(|error| explained(error).replace(to_found, ""))?;
    shown.status.end();
    let is_complete = received.is_complete();
    let Received { files, forgotten } = received;
    if files.is_empty() {
        return Err(format!("no file was offered within {}; did the sender start?", member.patience));
    }
    let lines = files.iter().map(|file| {
        let path = directory.join(&file.name);
        match &file.failure {
            None if file.is_done => format!("{}  {}, verified\n", path.display(), size(file.size)),
            None => format!(
                "{}  {} of {}; what has come is kept, and the same command goes on\n",
                path.display(),
                size(file.bytes),
                size(file.size)
            ),
            Some(cause) => format!("{}  {cause}\n", path.display()),
        }
    });
    let mut text: String = lines.collect();
    if forgotten > 0 {
        text += &format!("{forgotten} files before them are not listed\n");
    }
    print(&fitted(&text, 4))?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Says how long a complete transfer took. Receivers that came late or again got bytes of their own.
fn took(last: &Sending) -> String {
    let elapsed = last.elapsed.as_secs_f64();
    let rate = size((last.sent_bytes as f64 / elapsed.max(1e-3)) as u64);
    let (all, sent) = (size(last.size), size(last.sent_bytes));
    match last.sent_bytes {
        0 => "nothing was missing".to_owned(),
        bytes if bytes == last.size => format!("{all} in {elapsed:.1} s, {rate}/s to each"),
        _ => format!("{all} in {elapsed:.1} s, {sent} sent at {rate}/s"),
    }
}

/// Writes a number of bytes with three digits.
fn size(bytes: u64) -> String {
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

fn told(state: &MemberState, all: u64) -> String {
    match state {
        MemberState::Done => "has it".to_owned(),
        MemberState::Receiving(bytes) => format!("{} of {}", size(*bytes), size(all)),
        MemberState::Failed(cause) => format!("does not take it: {cause}"),
        MemberState::Left => "left before it had the file".to_owned(),
    }
}

/// The rate of a transfer over the last seconds.
#[derive(Default)]
struct Pace(VecDeque<(Duration, u64)>);

impl Pace {
    /// Returns the bytes per second up to now. A count that shrinks begins anew: another receiver is
    /// the slowest one, or a file begins again.
    fn of(&mut self, elapsed: Duration, bytes: u64) -> f64 {
        if self.0.back().is_some_and(|last| bytes < last.1 || elapsed < last.0) {
            self.0.clear();
        }
        self.0.push_back((elapsed, bytes));
        while self.0.len() > 2 && self.0[1].0 + PACE_OVER < elapsed {
            self.0.pop_front();
        }
        let (since, before) = self.0[0];
        (bytes - before) as f64 / (elapsed - since).as_secs_f64().max(1e-3)
    }
}

/// What a person sees of a transfer.
struct Shown {
    status: Status,
    pace: Pace,
    members: BTreeMap<String, MemberState>,
    /// The files by name, with whether each has come to its end.
    files: BTreeMap<String, bool>,
}

impl Shown {
    fn new() -> Self {
        let (members, files) = (BTreeMap::new(), BTreeMap::new());
        Self { status: Status::new(), pace: Pace::default(), members, files }
    }

    fn sending(&mut self, report: &Sending, wanted: usize) {
        let Sending { size: all, has_begun, elapsed, done, members, .. } = report;
        for (name, state) in members {
            let is_change =
                |before: &MemberState| std::mem::discriminant(before) != std::mem::discriminant(state);
            if self.members.get(name).is_none_or(is_change) {
                let text = match state {
                    MemberState::Receiving(_) => "joined".to_owned(),
                    other => told(other, *all),
                };
                self.status.line(format!("{name}  {text}"));
            }
        }
        self.members.clone_from(members);
        let getting = members.values().filter(|state| matches!(state, MemberState::Receiving(_))).count();
        if !has_begun || getting == 0 {
            let have = if *done > 0 { format!(", {done} have the file") } else { String::new() };
            self.status.progress(format!("waiting for receivers: {} of {wanted}{have}", done + getting));
        } else {
            let bytes = report.slowest_bytes();
            let rate = self.pace.of(*elapsed, bytes);
            let whose = if done + getting > 1 { " at the slowest" } else { "" };
            self.status.progress(progress(bytes, *all, rate, whose));
        }
    }

    fn receiving(&mut self, report: &Receiving) {
        let Receiving { name, size: all, bytes, had_bytes, elapsed, is_done, failure } = report;
        let is_over = *is_done || failure.is_some();
        match self.files.insert(name.clone(), is_over) {
            None if failure.is_none() => {
                let had =
                    if *had_bytes > 0 { format!(", {} are here", size(*had_bytes)) } else { String::new() };
                self.status.line(format!("{name}  {}{had}", size(*all)));
            }
            Some(false) if *is_done => self.status.line(format!("{name}  verified; waiting for the others")),
            None | Some(false) => {
                if let Some(cause) = failure {
                    self.status.line(format!("{name}  {cause}"));
                }
            }
            Some(true) => {}
        }
        if !is_over {
            let rate = self.pace.of(*elapsed, *bytes);
            self.status.progress(progress(*bytes, *all, rate, ""));
        }
    }
}

/// Returns the share, the rate and the rest of a transfer.
fn progress(bytes: u64, all: u64, rate: f64, whose: &str) -> String {
    let share = 100 * u128::from(bytes) / u128::from(all.max(1));
    let rest = all.saturating_sub(bytes) as f64 / rate.max(1.0);
    let rest = if rate >= 1.0 { format!(", {rest:.0} s left") } else { String::new() };
    format!("{share} %  {} of {}{whose}, {}/s{rest}", size(bytes), size(all), size(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(samples: &[(u64, u64)]) -> f64 {
        let mut pace = Pace::default();
        samples.iter().fold(0.0, |_, (at, bytes)| pace.of(Duration::from_secs(*at), *bytes))
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        assert_eq!(pace(&[(0, 1_000)]), 0.0, "what was there before is no rate");
        assert_eq!(pace(&[(0, 1_000), (2, 1_200)]), 100.0);
        let slowed: Vec<_> = (0..60).map(|at| (at, if at < 30 { 100 * at } else { 3_000 + at })).collect();
        assert_eq!(pace(&slowed), 1.0, "a rate of the past is forgotten");
        assert_eq!(pace(&[(0, 0), (10, 1_000), (11, 200), (13, 220)]), 10.0, "a slower one has joined");
    }

    #[test]
    fn lines_of_progress_fit_80_columns() {
        let line = progress(1_234_567_890_123, 9_999_999_999_999, 123.4e6, " at the slowest");
        assert_eq!(line, "12 %  1235 GB of 10000 GB at the slowest, 123 MB/s, 71033 s left");
        assert!(line.len() < 70, "{line}");
        assert_eq!(progress(0, 0, 0.0, ""), "0 %  0 B of 0 B, 0 B/s");
    }

    #[test]
    fn bytes_for_late_receivers_are_told_apart() {
        let mut last = Sending {
            size: 60_000_000,
            has_begun: true,
            sent_bytes: 60_000_000,
            elapsed: Duration::from_secs(30),
            done: 8,
            members: BTreeMap::new(),
            forgotten: 0,
        };
        assert_eq!(took(&last), "60.0 MB in 30.0 s, 2.00 MB/s to each");
        last.sent_bytes = 90_000_000;
        assert_eq!(took(&last), "60.0 MB in 30.0 s, 90.0 MB sent at 3.00 MB/s");
    }
}
