//! A replicated log: each process appends the lines of its standard input, and all processes have
//! the same log, newcomers included.
//!
//! `cargo run -- ADDRESS` founds a group, `cargo run -- ADDRESS SEED...` joins that of the seeds.
//! At the end of its input a process leaves. `--secret FILE` in front names a file that all members
//! have; addresses outside of loopback need one. docs/guides/groups.md shows three processes.

mod log;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use log::{Log, Message};
use samara_net::ring::{Event, Group, Member, Options, Preset, Secret, View};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The name of the group. Members reject nodes of another one.
const GROUP: &str = "replicated-log";
/// Time within which a seed must answer.
const PATIENCE: Duration = Duration::from_secs(10);

fn members(view: &View) -> String {
    view.members.iter().map(Member::to_string).collect::<Vec<_>>().join(", ")
}

/// Reads a secret, without the white space around it.
fn secret(path: &str) -> Outcome<Secret> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read the secret {path:?}: {error}"))?;
    Ok(Secret::new(text.trim_ascii())?)
}

/// Reads the options of the member from the command line: the file of the secret, its address, and
/// the seeds.
fn options() -> Outcome<Options> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let has_secret = words.len() > 1 && words[0] == "--secret";
    let secret = if has_secret { words.drain(..2).nth(1) } else { None };
    let parse = |text: String| {
        text.parse().map_err(|_| format!("found {text:?}; expected an address such as 127.0.0.1:7801"))
    };
    let addresses = words.into_iter().map(parse).collect::<Result<Vec<SocketAddr>, _>>()?;
    let (own, seeds) = addresses.split_first().ok_or("usage: group [--secret FILE] ADDRESS [SEED]...")?;
    let mut options = Options {
        // Total order: without it, only the messages of each sender have the same order everywhere.
        config: Preset::RingTotal.config().ok_or("the ring has no total order")?,
        ..Options::new(GROUP, *own).with_seeds(seeds.to_vec())
    };
    if let Some(path) = secret {
        options = options.with_secret(self::secret(&path)?);
    }
    // The first member has no seeds and founds the group. The others must not found further ones.
    Ok(if seeds.is_empty() { options } else { options.require_seed(PATIENCE) })
}

/// Broadcasts the lines of standard input and the starts of views, and leaves the group at the end
/// of the input.
async fn broadcast(group: Group, mut starts: UnboundedReceiver<Message>) -> Outcome<()> {
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let message = tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => Message::Line(line),
                None => break,
            },
            Some(start) = starts.recv() => start,
        };
        // Waits while the group accepts no more messages.
        group.broadcast(serde_json::to_vec(&message)?).await?;
    }
    // Returns once all members that stay have the messages of this one.
    Ok(group.leave().await?)
}

async fn run() -> Outcome<()> {
    let (group, mut events) = Group::join(options()?).await?;
    let mut log = Log::new(group.address());
    let (start_sender, starts) = unbounded_channel();
    // A separate task: a member that waits for room must still take its deliveries.
    let broadcasts = tokio::spawn(broadcast(group, starts));
    while let Some(event) = events.next().await {
        match event {
            Event::Delivered { origin, payload, .. } => {
                log.deliver(origin.to_string(), serde_json::from_slice(&payload.to_bytes())?);
            }
            Event::View(view) => {
                println!("view {}: {}", view.id.counter, members(&view));
                if let Some(start) = log.install(&view) {
                    // The task has ended if this process is leaving: then another one sends a start.
                    let _ = start_sender.send(start);
                }
            }
            Event::Suspected { member, cause } => println!("{member} is suspected of failure: {cause}"),
            Event::Slow { member } => println!("the group waits for {member}"),
            _ => {}
        }
    }
    // The events end once this member has left, or its task has dropped the group.
    broadcasts.await??;
    println!("left with {} entries", log.len());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("group: {error}");
            ExitCode::FAILURE
        }
    }
}
