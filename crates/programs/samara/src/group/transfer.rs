//! The transfers, with what a person sees of them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use samara_files::{
    MemberState, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent, TransferError, receive,
    send,
};
use samara_net::ring::{Options, Secret};

use super::GroupVerb;
use super::args::{MemberOptions, ReceiveFile, SendFile};
use crate::terminal::{complain, print};

/// Exit status if a receiver lacks the file.
const INCOMPLETE: u8 = 3;
/// Time between two lines of progress without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
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
    shown.end();
    let states: Vec<String> =
        last.members.iter().map(|(name, state)| format!("{name}  {}\n", told(state, last.size))).collect();
    let digest = digest.unwrap_or_default();
    let has_it = last.members.values().filter(|state| **state == MemberState::Done).count();
    let rate = last.size as f64 / last.elapsed.as_secs_f64().max(1e-3);
    let took = if last.sent_bytes == 0 {
        "nothing was missing".to_owned()
    } else {
        format!("{} in {:.1} s, {}/s to each", size(last.size), last.elapsed.as_secs_f64(), size(rate as u64))
    };
    print(&format!(
        "{has_it} of {members} receivers have the file: {took}\n{}blake3 {digest}\n",
        states.concat()
    ))?;
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
    let received = receive(options, &mut |report| shown.receiving(report)).await.map_err(explained)?;
    shown.end();
    let is_complete = received.is_complete();
    let Received { files } = received;
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
    print(&lines.collect::<String>())?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
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

/// The line of progress, and a line for each change.
struct Shown {
    bar: indicatif::ProgressBar,
    is_terminal: bool,
    last_line: Option<Instant>,
    members: BTreeMap<String, MemberState>,
    files: BTreeMap<String, bool>,
    present: usize,
}

impl Shown {
    fn new() -> Self {
        let bar = indicatif::ProgressBar::new_spinner();
        let style = indicatif::ProgressStyle::with_template("{elapsed:>4}  {msg}");
        style.into_iter().for_each(|style| bar.set_style(style));
        Self {
            bar,
            is_terminal: std::io::stderr().is_terminal(),
            last_line: None,
            members: BTreeMap::new(),
            files: BTreeMap::new(),
            present: 0,
        }
    }

    fn line(&self, text: &str) {
        self.bar.suspend(|| complain(text));
    }

    /// Shows the progress: in place on a terminal, now and then elsewhere.
    fn progress(&mut self, text: String) {
        if self.is_terminal {
            self.bar.set_message(text);
            self.bar.tick();
        } else if self.last_line.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.last_line = Some(Instant::now());
            complain(text);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn sending(&mut self, report: &Sending, wanted: usize) {
        for (name, state) in &report.members {
            let is_change =
                |before: &MemberState| std::mem::discriminant(before) != std::mem::discriminant(state);
            if self.members.get(name).is_none_or(is_change) {
                let text = match state {
                    MemberState::Receiving(_) => "joined".to_owned(),
                    other => told(other, report.size),
                };
                self.line(&format!("{name}  {text}"));
                self.members.insert(name.clone(), state.clone());
            }
        }
        if report.has_begun {
            let bytes = report.slowest_bytes();
            self.progress(progress(bytes, 0, report.size, report.elapsed));
        } else {
            let present =
                report.members.values().filter(|state| matches!(state, MemberState::Receiving(_))).count();
            self.present = present;
            self.progress(format!("waiting for receivers: {present} of {wanted}"));
        }
    }

    fn receiving(&mut self, report: &Receiving) {
        let Receiving { name, size: all, bytes, had_bytes, elapsed, is_done, failure } = report;
        if self.files.insert(name.clone(), *is_done).is_none() && failure.is_none() {
            let had = if *had_bytes > 0 { format!(", {} are here", size(*had_bytes)) } else { String::new() };
            self.line(&format!("{name}  {}{had}", size(*all)));
        }
        if failure.is_none() && !is_done {
            self.progress(progress(*bytes, *had_bytes, *all, *elapsed));
        }
    }
}

/// Returns the share, the rate and the rest of a transfer.
fn progress(bytes: u64, had: u64, all: u64, elapsed: Duration) -> String {
    let share = 100 * bytes / all.max(1);
    let rate = bytes.saturating_sub(had) as f64 / elapsed.as_secs_f64().max(1e-3);
    let rest = all.saturating_sub(bytes) as f64 / rate.max(1.0);
    let rest = if rate >= 1.0 { format!(", {rest:.0} s left") } else { String::new() };
    format!("{share} %  {} of {}  {}/s{rest}", size(bytes), size(all), size(rate as u64))
}
