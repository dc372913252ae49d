//! Runners on this machine, each in a separate network (`interop/test-plans/loopback`), with a
//! script like those of test-plans under Shadow.
//!
//! The test needs Linux, bash, unshare, ip, and the right to create namespaces. Otherwise it
//! reports that it was skipped, or fails if `SAMARA_REQUIRE_PEERS` is set. `SAMARA_INTEROP_RUNNERS`
//! names runners of other implementations, separated by colons: they take nodes in turn with ours.
//! `docs/guides/interop.md` explains how to build those of test-plans.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const NODES: usize = 8;
const MESSAGES: u64 = 4;
const TOPIC: &str = "a-subnet";

fn runner() -> &'static str {
    env!("CARGO_BIN_EXE_samara-interop")
}

/// The script that `experiment.py` generates for `subnet-blob-msg`, in seconds instead of minutes.
fn script() -> Value {
    let node = |id: usize, instruction: Value| json!({"type": "ifNodeIDEquals", "nodeID": id, "instruction": instruction});
    let mut script = Vec::new();
    for id in 0..NODES {
        let params =
            json!({"HeartbeatInitialDelay": 100_000_000 + 100_000 * id, "HeartbeatInterval": 500_000_000});
        script.push(node(id, json!({"type": "initGossipSub", "gossipSubParams": params})));
    }
    script.push(json!({"type": "setTopicValidationDelay", "topicID": TOPIC, "delaySeconds": 0.005}));
    // All nodes listen by then: other runners do not dial twice.
    script.push(json!({"type": "waitUntil", "elapsedSeconds": 2}));
    for id in 0..NODES {
        let others: BTreeSet<usize> = [1, 2, 3].into_iter().map(|step| (id + step) % NODES).collect();
        script.push(node(id, json!({"type": "connect", "connectTo": others})));
    }
    script.push(json!({"type": "subscribeToTopic", "topicID": TOPIC, "partial": false}));
    for message in 0..MESSAGES {
        script.push(json!({"type": "waitUntil", "elapsedSeconds": 3 + message}));
        let publish =
            json!({"type": "publish", "messageID": message, "topicID": TOPIC, "messageSizeBytes": 98_304});
        script.push(node(message as usize * 3 % NODES, publish));
    }
    script.push(json!({"type": "waitUntil", "elapsedSeconds": 3 + MESSAGES + 1}));
    json!({ "script": script })
}

fn skipped(why: &str) {
    assert!(std::env::var_os("SAMARA_REQUIRE_PEERS").is_none(), "SAMARA_REQUIRE_PEERS is set, but {why}");
    // Writes directly, as the macros of the standard library show their output only in failed
    // tests.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Returns the reason why namespaces cannot be created here.
fn missing() -> Option<String> {
    let probe = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"])
        .args(["bash", "-c", "ip link add name nodes type bridge"])
        .output();
    match probe {
        Ok(Output { status, .. }) if status.success() => None,
        Ok(output) => {
            Some(format!("cannot create namespaces: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Some(format!("cannot start unshare: {error}")),
    }
}

/// Returns the JSON lines of a node's standard output.
fn lines(out: &Path, node: usize) -> Vec<Value> {
    let directory = out.join(format!("hosts/node{node}"));
    let files = std::fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
    let stdout: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "stdout")).collect();
    assert_eq!(stdout.len(), 1, "{directory:?}");
    let text = std::fs::read_to_string(&stdout[0]).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn every_node_receives_every_message() {
    if let Some(why) = missing() {
        return skipped(&why);
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loopback");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).unwrap();
    let params = out.join("params.json");
    std::fs::write(&params, script().to_string()).unwrap();
    let others = std::env::var("SAMARA_INTEROP_RUNNERS").unwrap_or_default();
    let runners = std::iter::once(runner()).chain(others.split(':').filter(|path| !path.is_empty()));
    let ran = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/test-plans/loopback"))
        .arg(&params)
        .arg(NODES.to_string())
        .arg(&out)
        .args(runners)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let mut ids = BTreeSet::new();
    let mut received: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for node in 0..NODES {
        let said = lines(&out, node);
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
