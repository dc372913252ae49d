//! The transfers, with what a person reads of them at the end.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use samara_files::{
    MemberState, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent, TransferError, receive,
    send,
};
use samara_net::ring::{Options, Secret, StartError};
use tracing_subscriber::EnvFilter;

use super::GroupVerb;
use super::args::{MemberOptions, ReceiveFile, SendFile};
use super::shown::{ReceiverDisplay, Screen, SenderDisplay, size, told};
use crate::session::{INTERRUPTED, interrupt};
use crate::status::Status;
use crate::terminal::{complain_as_program, fitted, print};

/// Exit status if a receiver lacks the file.
const INCOMPLETE: u8 = 3;
/// Exit status if there is no group: no member answers or admits this one, the port is taken, or the
/// member ended.
const NO_GROUP: u8 = 4;
/// Time within which a seed must answer.
const SEED_TIMEOUT: Duration = Duration::from_secs(10);
const KEPT: &str = "what has come is kept, and the same command goes on";

/// Sends or receives a file.
pub(crate) fn run(verb: GroupVerb) -> Result<ExitCode, String> {
    // The display says what matters; the log is for those who ask for it.
    if std::env::var_os("RUST_LOG").is_some() {
        let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env());
        let log = log.with_writer(std::io::stderr).with_ansi(false);
        log.try_init().map_err(|error| format!("cannot start logging: {error}"))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("threads: {error}"))?;
    let ended = match verb {
        GroupVerb::Send(options) => runtime.block_on(send_file(options)),
        GroupVerb::Receive(options) => runtime.block_on(receive_file(options)),
    };
    // After an interrupt, the digest of a long file may not be complete, and nobody needs it.
    runtime.shutdown_background();
    ended
}

fn options_of(member: &MemberOptions, seeds: &[String]) -> Result<Options, String> {
    let MemberOptions { listen, advertise, secret, name, .. } = member;
    let seeds: Vec<_> = seeds.iter().map(|seed| resolved(seed, *listen)).collect::<Result<_, _>>()?;
    let options = Options::new(name, *listen).with_seeds(seeds.concat());
    let options = Options { advertise: *advertise, ..options };
    let Some(path) = secret else { return Ok(options) };
    let secret = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let secret = Secret::new(secret.trim_ascii()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(options.with_secret(secret))
}

/// Returns the addresses of a seed, once: those of the kind that this member listens on, if there are
/// any.
fn resolved(seed: &str, listen: SocketAddr) -> Result<Vec<SocketAddr>, String> {
    let found = seed.to_socket_addrs().map_err(|error| {
        format!("--seed {seed}: {error}; expected an address or a host name, and a port: 192.0.2.1:7800")
    })?;
    let found: Vec<_> = found.collect();
    let same: Vec<_> = found.iter().copied().filter(|seed| seed.is_ipv4() == listen.is_ipv4()).collect();
    Ok(if same.is_empty() { found } else { same })
}

/// Prints an error of a member in the words of the command line, and returns the exit status; an error
/// of the input is returned.
fn ended(error: TransferError, rename: impl FnOnce(String) -> String) -> Result<ExitCode, String> {
    let status = match &error {
        TransferError::Start(StartError::Options(_))
        | TransferError::File { .. }
        | TransferError::Unfit { .. }
        | TransferError::Changed { .. } => return Err(rename(explained(&error))),
        TransferError::Start(_) | TransferError::Ended(_) => NO_GROUP,
        TransferError::Stopped => INTERRUPTED,
    };
    complain_as_program(rename(explained(&error)));
    Ok(ExitCode::from(status))
}

fn explained(error: &TransferError) -> String {
    let text = error.to_string();
    if text.starts_with("authentication") {
        return format!("{text}\n  --secret names the file of the secret");
    }
    text.replace("unset `require_seed` to found the group", "leave out --seed to found the group")
        .replace("set `advertise`", "--advertise names it")
        .replace("the seed's, whose log has the reason", "the seed's, which prints the reason")
}

async fn send_file(options: SendFile) -> Result<ExitCode, String> {
    let SendFile { file, members, rate, keep_on, seeds, member } = options;
    let mut group = options_of(&member, &seeds)?;
    if !group.seeds.is_empty() {
        group = group.require_seed(SEED_TIMEOUT);
    }
    let (members, patience) = (usize::from(members), member.patience.duration());
    let rate = rate.map(|rate| rate.bps() as f64 / 8.0);
    let stop = interrupt()?;
    let (mut status, mut display) = (Status::new(), SenderDisplay::default());
    let options = SendOptions { group, path: file, members, patience, rate, keeps_on: keep_on };
    let mut report = |report: &Sending| {
        let Screen { lines, progress } = display.of(report, members, keep_on, Instant::now());
        status.show(&lines, progress);
    };
    let sent = send(options, stop, &mut report).await;
    status.end();
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) => return ended(error, |text| text),
    };
    print(&fitted(&summary(&sent, members, &member.patience.to_string()), 4))?;
    Ok(match (sent.is_complete, sent.is_stopped) {
        // An interrupt is the end of a sender that goes on.
        (true, _) => ExitCode::SUCCESS,
        (false, true) if !keep_on => ExitCode::from(INTERRUPTED),
        (false, _) => ExitCode::from(INCOMPLETE),
    })
}

/// Returns the last lines of a sender.
fn summary(sent: &Sent, members: usize, patience: &str) -> String {
    let Sent { is_complete, is_stopped, last, digest } = sent;
    let refused = last.members.values().filter(|state| matches!(state, MemberState::Failed(_))).count();
    let of = members.max(last.done + refused);
    let took = match (is_complete, is_stopped, last.done + refused >= members) {
        (true, ..) => took(last),
        (false, true, _) => "interrupted; the same command again sends the rest".to_owned(),
        (false, false, true) => {
            format!("{refused} did not take it; once mended, the same command again sends the rest")
        }
        (false, false, false) => {
            format!("no progress for {patience}; the same command again sends the rest")
        }
    };
    let mut text = format!("{} of {of} receivers have the file: {took}\n", last.done);
    for (name, state) in &last.members {
        text += &format!("{name}  {}\n", told(state, last.size));
    }
    if last.forgotten > 0 {
        text += &format!("{} receivers before them are not listed\n", last.forgotten);
    }
    if let Some(digest) = digest {
        text += &format!("blake3 {digest}\n");
    }
    text
}

async fn receive_file(options: ReceiveFile) -> Result<ExitCode, String> {
    let ReceiveFile { directory, overwrite, keep_on, seeds, member } = options;
    let patience = member.patience.duration();
    let group = options_of(&member, &seeds)?.require_seed(patience);
    let stop = interrupt()?;
    let options = ReceiveOptions {
        group,
        directory: directory.clone(),
        overwrites: overwrite,
        keeps_on: keep_on,
        patience,
    };
    let (mut status, mut display) = (Status::new(), ReceiverDisplay::default());
    status.progress(format!("dialling {}, for at most {}", seeds.join(", "), member.patience));
    let waits = (!keep_on).then_some(patience);
    let mut report = |report: &Receiving| {
        let Screen { lines, progress } = display.of(report, waits);
        status.show(&lines, progress);
    };
    let received = receive(options, stop, &mut report).await;
    status.end();
    let received = match received {
        Ok(received) => received,
        // A receiver founds no group.
        Err(error) => {
            return ended(error, |text| text.replace(", or leave out --seed to found the group", ""));
        }
    };
    let is_complete = received.is_complete();
    let Received { files, forgotten, is_stopped } = received;
    let status = match (is_complete, is_stopped) {
        (false, true) if !keep_on => INTERRUPTED,
        (true, _) => 0,
        (false, _) => INCOMPLETE,
    };
    if files.is_empty() {
        let within = if is_stopped {
            "before the interrupt".to_owned()
        } else {
            format!("within {}", member.patience)
        };
        complain_as_program(format_args!("no file was offered {within}; did the sender start?"));
        return Ok(ExitCode::from(status));
    }
    let patience = member.patience.to_string();
    let lines = files.iter().map(|file| format!("{}\n", came(file, &directory, is_stopped, &patience)));
    let mut text: String = lines.collect();
    if forgotten > 0 {
        text += &format!("{forgotten} files before them are not listed\n");
    }
    print(&fitted(&text, 4))?;
    Ok(ExitCode::from(status))
}

/// Returns the last line on a file.
fn came(file: &Receiving, directory: &Path, is_stopped: bool, patience: &str) -> String {
    let path = directory.join(&file.name);
    let (path, bytes, all) = (path.display(), size(file.bytes), size(file.size));
    match &file.failure {
        None if file.is_done => format!("{path}  {all}, verified"),
        Some(cause) if file.bytes == 0 => format!("{path}  {cause}"),
        Some(cause) => format!("{path}  {bytes} of {all}: {cause}"),
        None if is_stopped => format!("{path}  {bytes} of {all}: interrupted; {KEPT}"),
        None if file.sender_gone.is_some() => {
            let sender = &file.sender;
            format!(
                "{path}  {bytes} of {all}: its sender {sender} left and was not back within {patience}; {KEPT}"
            )
        }
        None => format!("{path}  {bytes} of {all}: nothing came for {patience}; {KEPT}"),
    }
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

#[cfg(test)]
mod tests {
    use super::super::shown::tests::sending;
    use super::*;

    #[test]
    fn bytes_for_late_receivers_are_told_apart() {
        let mut last = sending(&[]);
        assert_eq!(took(&last), "60.0 MB in 30.0 s, 2.00 MB/s to each");
        last.sent_bytes = 90_000_000;
        assert_eq!(took(&last), "60.0 MB in 30.0 s, 90.0 MB sent at 3.00 MB/s");
    }

    #[test]
    fn counts_of_receivers_add_up() {
        let (done, failed) = (MemberState::Done, MemberState::Failed("full".to_owned()));
        let members: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| (name, done.clone()))
            .into_iter()
            .chain(["e", "f"].map(|name| (name, failed.clone())))
            .collect();
        let sent = Sent { is_complete: false, is_stopped: false, last: sending(&members), digest: None };
        let text = summary(&sent, 5, "60 s");
        assert!(text.starts_with("4 of 6 receivers have the file: 2 did not take it; once mended"), "{text}");
        assert!(!text.contains("blake3"), "no digest is known: {text}");
    }

    #[test]
    fn names_of_hosts_are_resolved_once() {
        let listen = "127.0.0.1:0".parse().unwrap();
        assert_eq!(resolved("localhost:7800", listen), Ok(vec!["127.0.0.1:7800".parse().unwrap()]));
        assert_eq!(resolved("[::1]:7800", listen), Ok(vec!["[::1]:7800".parse().unwrap()]));
        for wrong in ["localhost", "host.invalid:1", "192.0.2.1"] {
            let error = resolved(wrong, listen).unwrap_err();
            assert!(
                error.starts_with(&format!("--seed {wrong}: ")) && error.contains("192.0.2.1:7800"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_last_line_names_the_cause() {
        let file = Receiving {
            name: "a.img".to_owned(),
            sender: "127.0.0.1:7".to_owned(),
            size: 9_000,
            bytes: 4_000,
            had_bytes: 0,
            elapsed: Duration::ZERO,
            waits_for: None,
            sender_gone: Some(Duration::from_secs(60)),
            corrupt: 0,
            is_done: false,
            failure: None,
        };
        let line = |file: &Receiving, is_stopped| came(file, Path::new("to"), is_stopped, "60 s");
        let gone = "its sender 127.0.0.1:7 left and was not back within 60 s";
        assert_eq!(line(&file, false), format!("to/a.img  4.00 kB of 9.00 kB: {gone}; {KEPT}"));
        assert_eq!(line(&file, true), format!("to/a.img  4.00 kB of 9.00 kB: interrupted; {KEPT}"));
        let there = Receiving { sender_gone: None, ..file.clone() };
        assert_eq!(
            line(&there, false),
            format!("to/a.img  4.00 kB of 9.00 kB: nothing came for 60 s; {KEPT}")
        );
        let failed =
            Receiving { failure: Some(".a.img.part: Permission denied".to_owned()), bytes: 0, ..file };
        assert_eq!(line(&failed, false), "to/a.img  .a.img.part: Permission denied");
    }
}
