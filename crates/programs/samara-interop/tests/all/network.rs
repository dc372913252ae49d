//! Networks of runners on this machine, each in a separate network namespace
//! (`interop/test-plans/loopback`).
//!
//! They need Linux, bash, unshare, ip, and the right to create namespaces.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Reports that a test cannot run here. Fails if `SAMARA_REQUIRE_PEERS` is set.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("SAMARA_REQUIRE_PEERS").is_none(), "SAMARA_REQUIRE_PEERS is set, but {why}");
    // Writes directly, as the macros of the standard library show their output only in failed
    // tests.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Returns the reason why namespaces cannot be created here.
pub(crate) fn missing() -> Option<String> {
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

/// Wraps an instruction for one node.
pub(crate) fn at(node: usize, instruction: Value) -> Value {
    json!({"type": "ifNodeIDEquals", "nodeID": node, "instruction": instruction})
}

/// Returns the first instructions of all scripts: parameters, and the connections of each node.
pub(crate) fn start(connections: &[Vec<usize>]) -> Vec<Value> {
    let mut script = Vec::new();
    for node in 0..connections.len() {
        let params =
            json!({"HeartbeatInitialDelay": 100_000_000 + 100_000 * node, "HeartbeatInterval": 500_000_000});
        script.push(at(node, json!({"type": "initGossipSub", "gossipSubParams": params})));
    }
    // All nodes listen by then: other runners do not dial twice.
    let listening_at = (connections.len() / 4).max(2);
    script.push(json!({"type": "waitUntil", "elapsedSeconds": listening_at}));
    for (node, others) in connections.iter().enumerate() {
        script.push(at(node, json!({"type": "connect", "connectTo": others})));
    }
    script
}

/// Runs a script on nodes of the runners in turn. Returns the directory of their output.
///
/// # Errors
/// A text: a runner failed.
pub(crate) fn run(
    name: &str,
    script: Vec<Value>,
    nodes: usize,
    runners: &[PathBuf],
) -> Result<PathBuf, String> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).unwrap();
    let params = out.join("params.json");
    std::fs::write(&params, json!({ "script": script }).to_string()).unwrap();
    let ran = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/test-plans/loopback"))
        .arg(&params)
        .arg(nodes.to_string())
        .arg(&out)
        .args(runners)
        .output()
        .unwrap();
    if ran.status.success() { Ok(out) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned()) }
}

/// Returns a node's standard output.
pub(crate) fn output(out: &Path, node: usize) -> String {
    let directory = out.join(format!("hosts/node{node}"));
    let files = std::fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
    let stdout: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "stdout")).collect();
    assert_eq!(stdout.len(), 1, "{directory:?}");
    std::fs::read_to_string(&stdout[0]).unwrap()
}
