//! Our runner with a script like those of test-plans under Shadow.
//!
//! `SAMARA_INTEROP_RUNNERS` names runners of other implementations, separated by colons: they take
//! nodes in turn with ours. `docs/guides/interop.md` explains how to build those of test-plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::network::{at, missing, output, run, skipped, start};

const NODES: usize = 8;
const MESSAGES: u64 = 4;
const TOPIC: &str = "a-subnet";

fn runner() -> &'static str {
    env!("CARGO_BIN_EXE_samara-interop")
}

/// The script that `experiment.py` generates for `subnet-blob-msg`, in seconds instead of minutes.
fn script() -> Vec<Value> {
    let ring = (0..NODES).map(|node| [1, 2, 3].map(|step| (node + step) % NODES).to_vec());
    let mut script = start(&ring.collect::<Vec<_>>());
    script.push(json!({"type": "setTopicValidationDelay", "topicID": TOPIC, "delaySeconds": 0.005}));
    script.push(json!({"type": "subscribeToTopic", "topicID": TOPIC, "partial": false}));
    for message in 0..MESSAGES {
        script.push(json!({"type": "waitUntil", "elapsedSeconds": 3 + message}));
        let publish =
            json!({"type": "publish", "messageID": message, "topicID": TOPIC, "messageSizeBytes": 98_304});
        script.push(at(message as usize * 3 % NODES, publish));
    }
    script.push(json!({"type": "waitUntil", "elapsedSeconds": 3 + MESSAGES + 1}));
    script
}

#[test]
fn every_node_receives_every_message() {
    if let Some(why) = missing() {
        return skipped(&why);
    }
    let others = std::env::var("SAMARA_INTEROP_RUNNERS").unwrap_or_default();
    let runners = std::iter::once(runner()).chain(others.split(':').filter(|path| !path.is_empty()));
    let runners: Vec<PathBuf> = runners.map(PathBuf::from).collect();
    let out = run("loopback", script(), NODES, &runners).unwrap_or_else(|error| panic!("{error}"));

    let mut ids = BTreeSet::new();
    let mut received: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for node in 0..NODES {
        let said = output(&out, node);
        let said: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let first = said.iter().find(|line| line["msg"] == "PeerID").expect("a line with the peer id");
        // slog writes all values as text.
        assert_eq!(first["node_id"].to_string().trim_matches('"'), node.to_string());
        assert!(ids.insert(first["id"].as_str().unwrap().to_owned()), "{first}");
        for line in said.iter().filter(|line| line["msg"] == "Received Message") {
            assert!(line["time"].is_string(), "{line}");
            let id: u64 = line["id"].as_str().unwrap().parse().unwrap();
            received.entry(id).or_default().insert(node);
        }
    }
    for message in 0..MESSAGES {
        let publisher = message as usize * 3 % NODES;
        let mut nodes = received.remove(&message).unwrap_or_default();
        // A copy can come back to its publisher.
        nodes.remove(&publisher);
        assert_eq!(nodes.len(), NODES - 1, "message {message}: {nodes:?}");
    }
    assert!(received.is_empty(), "{received:?}");
}

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(runner()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "standard output is for events");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn bad_input_is_reported_on_standard_error() {
    assert!(refused(&[]).contains("--params"));
    let error = refused(&["--params", "nowhere/params.json"]);
    assert!(error.starts_with("samara-interop: nowhere/params.json: "), "{error}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-params.json");
    std::fs::write(&path, r#"{"script": [{"type": "waitUntil", "elapsedSeconds": "soon"}]}"#).unwrap();
    let error = refused(&["--params", path.to_str().unwrap()]);
    assert!(error.contains("bad-params.json: script[0]") && error.contains("soon"), "{error}");
}
