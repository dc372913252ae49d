//! Peers in separate processes. They read commands as JSON lines from standard input, and report
//! events as JSON lines on standard output. They exit at the end of their input.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::common::*;

type MetricsSnapshots = VecDeque<oneshot::Sender<(usize, Option<samara_gossipsub::Metrics>)>>;

/// Starts a peer, and waits for its address.
pub(crate) async fn start(mut command: tokio::process::Command) -> Node {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the peer starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first =
        timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("readable").expect("a line");
    let first: Value = serde_json::from_str(&first).expect("JSON");
    let peer = first["peer"].as_str().expect("a peer").parse().expect("a peer");
    let address = first["address"].as_str().expect("an address").parse().expect("an address");
    let (commands, mut inbox) = mpsc::unbounded_channel();
    let (outbox, observed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let _child = child;
        let mut looks = MetricsSnapshots::new();
        loop {
            tokio::select! {
                command = inbox.recv() => {
                    let Some(command) = command else { return };
                    let line = to_line(command, &mut looks);
                    input.write_all(format!("{line}\n").as_bytes()).await.expect("the peer is running");
                }
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let line: Value = serde_json::from_str(&line).expect("JSON");
                    if let Some(observed) = from_line(&line, &mut looks) {
                        let _ = outbox.send(observed);
                    }
                }
            }
        }
    });
    Node { peer, key: None, address, commands, observed, joined: HashSet::new() }
}

fn to_line(command: Command, looks: &mut MetricsSnapshots) -> Value {
    match command {
        Command::Dial(address) => json!({ "is": "dial", "address": address.to_string() }),
        Command::Disconnect(peer) => json!({ "is": "disconnect", "peer": peer.to_string() }),
        Command::Subscribe(topic) => json!({ "is": "subscribe", "topic": topic }),
        Command::Unsubscribe(topic) => json!({ "is": "unsubscribe", "topic": topic }),
        Command::Publish(topic, data) => {
            json!({ "is": "publish", "topic": topic, "data": STANDARD.encode(data) })
        }
        Command::With(_) => unreachable!("only our nodes support this command"),
        Command::Release => json!({ "is": "release" }),
        Command::Look(topic, answer) => {
            looks.push_back(answer);
            json!({ "is": "mesh", "topic": topic })
        }
    }
}

fn from_line(line: &Value, looks: &mut MetricsSnapshots) -> Option<Observed> {
    let topic = line["topic"].as_str().unwrap_or_default().to_owned();
    let peer = || line["peer"].as_str().expect("a peer").parse().expect("a peer");
    let data = || STANDARD.decode(line["data"].as_str().unwrap_or_default()).expect("base64");
    match line["is"].as_str() {
        Some("joined") => Some(Observed::Joined(peer(), topic)),
        Some("left") => Some(Observed::Left(peer(), topic)),
        Some("duplicate") => Some(Observed::Duplicate(peer())),
        Some("message") => Some(Observed::Message(topic, data())),
        Some("held") => Some(Observed::Held(data())),
        Some("mesh") => {
            let size = line["count"].as_u64().unwrap_or(0) as usize;
            let _ = looks.pop_front().expect("a pending request").send((size, None));
            None
        }
        other => panic!("unexpected event of the peer: {other:?}"),
    }
}
