//! Nodes of celestia-core (`interop/go-cat`) in processes of their own.
//!
//! The tests need Go. Without it they report that they were skipped; with `SAMARA_REQUIRE_PEERS`
//! set they fail.

use std::collections::BTreeSet;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_net::mconn::PeerAddress;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::mconn::common::*;
use crate::mconn::go_program::{GoProgram, Release};

static PROGRAM: GoProgram = GoProgram::new("go-cat", "no test with celestia-core has run");

/// A node of celestia-core.
pub(crate) struct Celestia {
    pub(crate) address: PeerAddress,
    input: ChildStdin,
    answers: UnboundedReceiver<Value>,
    reports: UnboundedReceiver<Value>,
    _child: Child,
}

/// Starts a node of celestia-core. Returns `None` if Go is missing.
pub(crate) async fn celestia(flags: &[&str]) -> Option<Celestia> {
    let mut child = Command::new(PROGRAM.path(Release::Pinned)?)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the peer starts");
    let input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first =
        timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("readable").expect("a line");
    let first: Value = serde_json::from_str(&first).expect("JSON");
    let address = first["address"].as_str().expect("an address").parse().expect("an address");
    let (answered, answers) = unbounded_channel();
    let (reporting, reports) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let line: Value = serde_json::from_str(&line).expect("JSON");
            let is_report = matches!(line["is"].as_str(), Some("up" | "down" | "received"));
            let _ = if is_report { reporting.send(line) } else { answered.send(line) };
        }
    });
    Some(Celestia { address, input, answers, reports, _child: child })
}

/// The state that a node of celestia-core reports.
pub(crate) struct Look {
    pub(crate) keys: BTreeSet<String>,
    pub(crate) peers: BTreeSet<String>,
    metrics: Value,
}

impl Look {
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.metrics[name].as_f64().unwrap_or_else(|| panic!("no metric {name}")) as u64
    }
}

impl Celestia {
    /// Sends a command and waits for its answer.
    pub(crate) async fn ask(&mut self, command: Value) -> Value {
        let answer = self.try_ask(command).await;
        assert_eq!(answer["error"], Value::Null, "{answer}");
        answer
    }

    pub(crate) async fn try_ask(&mut self, command: Value) -> Value {
        self.input.write_all(format!("{command}\n").as_bytes()).await.expect("the peer runs");
        timeout(PATIENCE, self.answers.recv()).await.expect("in time").expect("the peer runs")
    }

    pub(crate) async fn dial(&mut self, address: &PeerAddress) {
        self.ask(json!({ "is": "dial", "address": address.to_string() })).await;
    }

    pub(crate) async fn submit(&mut self, txs: &[Vec<u8>]) {
        let txs: Vec<String> = txs.iter().map(|tx| STANDARD.encode(tx)).collect();
        self.ask(json!({ "is": "submit", "txs": txs })).await;
    }

    pub(crate) async fn look(&mut self) -> Look {
        let answer = self.ask(json!({ "is": "look" })).await;
        let strings = |name: &str| {
            let list = answer[name].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Look { keys: strings("keys"), peers: strings("peers"), metrics: answer["metrics"].clone() }
    }

    /// Waits until `is_so` holds.
    pub(crate) async fn wait(&mut self, what: &str, is_so: impl Fn(&Look) -> bool) -> Look {
        let since = std::time::Instant::now();
        loop {
            let look = self.look().await;
            if is_so(&look) {
                return look;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "celestia-core: timeout waiting for {what}: {} txs",
                look.keys.len()
            );
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn linked(&mut self, links: usize) {
        self.wait("links", |look| look.peers.len() == links).await;
    }

    pub(crate) async fn has(&mut self, keys: &BTreeSet<String>) {
        self.wait("transactions", |look| look.keys.is_superset(keys)).await;
    }

    /// Returns the next message of this kind that the node receives: its sender and its bytes.
    pub(crate) async fn received(&mut self, kind: &str) -> (String, Vec<u8>) {
        let next = async {
            loop {
                let report = self.reports.recv().await.expect("the peer runs");
                if report["is"] == "received" && report["kind"] == kind {
                    let peer = report["peer"].as_str().expect("a peer").to_owned();
                    return (peer, STANDARD.decode(report["data"].as_str().expect("bytes")).expect("base64"));
                }
                assert_ne!(report["is"], "down", "{report}");
            }
        };
        timeout(PATIENCE, next).await.unwrap_or_else(|_| panic!("no {kind} arrived"))
    }
}
