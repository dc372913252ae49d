//! Messages through a mix, with what a person sees of them.

use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use samara_mail::{
    MailError, Message, Naming, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent,
    UnfinishedMessage, content_bytes_max, receive, send, store,
};
use samara_net::mix::{Address, ClientError, ClientOptions, Identity, KeyError, RecipientKey};
use samara_node::NodeConfig;
use samara_report::words::plural;

use super::MixVerb;
use super::args::{PoolOptions, ReceiveMessages, SendMessage};
use crate::session::interrupt;
use crate::status::Status;
use crate::terminal::{complain, print, print_raw};

/// Exit status if payloads or messages are missing.
const INCOMPLETE: u8 = 3;
/// Exit status if payloads have not come out, but may still do so.
const UNCERTAIN: u8 = 4;
/// Indices that a line about missing parts names.
const MISSING_SHOWN: usize = 10;

/// Writes a key, sends a message or receives messages.
pub(crate) fn run(verb: MixVerb) -> Result<ExitCode, String> {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().build().map_err(|error| format!("threads: {error}"))
    };
    match verb {
        MixVerb::Key { file } => key(&file),
        MixVerb::Send(options) => runtime()?.block_on(send_message(options)),
        MixVerb::Receive(options) => runtime()?.block_on(receive_messages(options)),
    }
}

fn key(path: &Path) -> Result<ExitCode, String> {
    let key = match RecipientKey::load(path) {
        Err(KeyError::Io(error)) if error.kind() == ErrorKind::NotFound => {
            let key = RecipientKey::generate().map_err(|error| error.to_string())?;
            key.save(path).map_err(of_file(path))?;
            complain(format_args!(
                "{}: a new key. Keep it: nobody can read the messages for it without it",
                path.display()
            ));
            key
        }
        key => key.map_err(of_file(path))?,
    };
    print(&format!("{}\n", key.address()))
}

fn of_file<E: Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Returns the options of a sender or receiver with a certificate of its own.
fn client(options: &PoolOptions) -> Result<ClientOptions, String> {
    let pool = NodeConfig::load_mix_pool(&options.pool).map_err(|error| error.to_string())?;
    let identity = Identity::generate().map_err(|error| error.to_string())?;
    Ok(ClientOptions::new(identity, pool.nodes, pool.group))
}

/// Reads the message, and not more of a stream than a message can have.
fn contents(path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut contents)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut contents))
    };
    read.map_err(of_file(path))?;
    Ok(contents)
}

/// Explains an error in the words of the command line.
fn explained(error: MailError) -> String {
    match error {
        MailError::Client(ClientError::TeamMin { team_min, nodes }) => format!(
            "--team-min: found {team_min}; expected 1 to {nodes}, the number of nodes in the pool file; with \
             few nodes, those of a team learn who sent what if all of them collude"
        ),
        error => error.to_string(),
    }
}

async fn send_message(options: SendMessage) -> Result<ExitCode, String> {
    let SendMessage { file, to, pool, team_min, another, patience } = options;
    let to: Address = to.parse().map_err(|error| format!("--to: {error}"))?;
    let client = ClientOptions { team_min: usize::from(team_min), ..client(&pool)? };
    let contents = contents(&file, content_bytes_max(client.group))?;
    let bytes = contents.len();
    let naming = if another { Naming::Random } else { Naming::Contents };
    let options = SendOptions { client, to, contents, naming, patience: patience.duration() };
    let mut shown = Shown(Status::new());
    let begun = Instant::now();
    let sent = send(options, interrupt()?, &mut |report| shown.sending(&report)).await.map_err(explained)?;
    shown.0.end();
    let Sent { id, parts, out, rounds, again, withdrawn, may_come, senders_wanted, failure } = &sent;
    let again = if *again > 0 { format!(", {again} sent again") } else { String::new() };
    let rounds = match (rounds.first_key_value(), rounds.last_key_value()) {
        (Some((first, _)), Some((last, _))) if first != last => format!(" of rounds {first} to {last}"),
        (Some((first, _)), _) => format!(" of round {first}"),
        _ => String::new(),
    };
    let seconds = begun.elapsed().as_secs_f64();
    print(&format!(
        "{out} of {parts} payloads came out{rounds}{again}: {bytes} bytes in {seconds:.1} s\nmessage {id}\n"
    ))?;
    if let Some(many) = senders_wanted {
        complain(format_args!("the round was waiting for {}", more_senders(*many)));
    }
    if let Some(failure) = failure {
        complain(format_args!("the last failure: {failure}"));
    }
    if *withdrawn > 0 {
        complain(format_args!("withdrew {} from rounds that had not begun", payloads(*withdrawn)));
    }
    let once = if another { "" } else { "; send the same message again, and the recipient takes it once" };
    Ok(if sent.is_complete() {
        ExitCode::SUCCESS
    } else if *may_come > 0 {
        complain(format_args!("{} may still come out{once}", payloads(*may_come)));
        ExitCode::from(UNCERTAIN)
    } else {
        complain(format_args!("no other payload of the message can come out{once}"));
        ExitCode::from(INCOMPLETE)
    })
}

async fn receive_messages(options: ReceiveMessages) -> Result<ExitCode, String> {
    let ReceiveMessages { key, pool, out, from, keep_on, patience } = options;
    let key = RecipientKey::load(&key).map_err(|error| {
        let is_absent = matches!(&error, KeyError::Io(error) if error.kind() == ErrorKind::NotFound);
        let hint = if is_absent { "; `samara mix key FILE` writes a key" } else { "" };
        format!("--key: {}: {error}{hint}", key.display())
    })?;
    let client = client(&pool)?;
    if let Some(out) = &out {
        std::fs::create_dir_all(out).map_err(of_file(out))?;
    }
    let options = ReceiveOptions { client, key, from, keeps_on: keep_on, patience: patience.duration() };
    let mut shown = Shown(Status::new());
    let received = {
        let mut report = |report: Receiving| match report {
            Receiving::Message(message) => shown.message(&message, out.as_deref()),
            other => {
                shown.receiving(&other);
                Ok(())
            }
        };
        receive(options, &mut report).await.map_err(explained)?
    };
    shown.0.end();
    for message in &received.unfinished {
        complain(missing(message));
    }
    let Received { messages, rounds, .. } = &received;
    let fetched = rounds.map_or_else(
        || "no round has ended".to_owned(),
        |(first, last)| format!("rounds {first} to {last} were fetched"),
    );
    if *messages == 0 {
        complain(format_args!("no message for this key: {fetched}"));
    } else {
        complain(format_args!("{}: {fetched}", plural(*messages as f64, "message")));
    }
    Ok(if received.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

fn payloads(count: usize) -> String {
    plural(count as f64, "payload")
}

fn more_senders(many: u32) -> String {
    plural(f64::from(many), "more sender")
}

fn missing(message: &UnfinishedMessage) -> String {
    let UnfinishedMessage { id, count, missing, .. } = message;
    let shown: Vec<String> =
        missing.iter().take(MISSING_SHOWN).map(|index| (index + 1).to_string()).collect();
    let more = if missing.len() > MISSING_SHOWN { " and others" } else { "" };
    format!(
        "message {id} is not whole: {} of {count} parts are missing ({}{more}); the sender may still be at it, or \
         has to send it again",
        missing.len(),
        shown.join(", ")
    )
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// What a person sees of a transfer.
struct Shown(Status);

impl Shown {
    fn sending(&mut self, report: &Sending) {
        match report {
            Sending::Progress { out, parts, under_way, senders_wanted } => {
                let wanted = senders_wanted
                    .map_or_else(String::new, |many| format!(", waiting for {}", more_senders(many)));
                self.0.progress(format!("{out} of {parts} payloads came out, {under_way} in rounds{wanted}"));
            }
            Sending::Again { round, parts, cause } => {
                let again = plural(*parts as f64, "payload");
                self.0.line(format_args!("round {round}: {cause}; another round gets {again}"));
            }
        }
    }

    fn receiving(&mut self, report: &Receiving) {
        match report {
            Receiving::Fetched { rounds, payloads } => {
                let rounds = plural(*rounds as f64, "round");
                self.0.progress(format!("fetched {rounds} with {}", self::payloads(*payloads)));
            }
            Receiving::Reach { complete, gone } => {
                let gone = gone.map_or_else(String::new, |round| {
                    format!("; results up to round {round} are gone at a node: ask for messages of that time again")
                });
                self.0.line(format_args!("the nodes have all results of the last {}{gone}", span(*complete)));
            }
            Receiving::Silent { node, why } => {
                self.0.line(format_args!("node {node} does not answer: {why}"))
            }
            Receiving::Lost { round, why } => {
                self.0
                    .line(format_args!("round {round} cannot be fetched: {why}; messages in it are missing"));
            }
            Receiving::GivenUp(message) => self.0.line(missing(message)),
            Receiving::Unreadable { round, why } => {
                self.0.line(format_args!(
                    "round {round}: a payload for this key is no part of a message: {why}"
                ));
            }
            Receiving::Repeated { id, round } => {
                self.0.line(format_args!("message {id} came again in round {round}; it is there once"));
            }
            Receiving::Message(_) => {}
        }
    }

    /// Stores or prints a message.
    fn message(&self, message: &Message, out: Option<&Path>) -> Result<(), String> {
        let Message { id, contents } = message;
        let bytes = contents.len();
        let Some(directory) = out else {
            self.0.line(format_args!("message {id}, {bytes} bytes:"));
            return self.0.beside(|| print_raw(contents));
        };
        let stored = store(directory, message).map_err(of_file(directory))?;
        let was_there = if stored.was_there { ", was there" } else { "" };
        self.0.beside(|| print(&format!("{}  {bytes} bytes{was_there}\n", stored.path.display())))?;
        Ok(())
    }
}
