//! `samara export shadow`, and what its nodes do under Shadow.
//!
//! Shadow is run where `SAMARA_SHADOW` names it or it is found; without it, that test says that it was skipped.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use samara_node::NodeConfig;
use serde_json::Value;

/// Six nodes, all connected; the publisher of blocks is node 0.
const SCENARIO: &str = r#"
[scenario]
name = "small"
title = "Blocks"
[network]
nodes = 6
latency = "20 ms"
uplink = "20 Mbit/s"
downlink = "30 Mbit/s"
[network.topology]
kind = "full-mesh"
[protocol]
preset = "ethereum"
[columns]
blobs = 1
blob_size = "64 KiB"
count = 16
custody = 8
slots = 2
slot_interval = "2 s"
warm_up = "3 s"
deadline = "10 s"
"#;

fn samara(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_samara")).args(arguments).output();
    output.expect("samara starts")
}

fn ok(arguments: &[&str]) -> String {
    let output = samara(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = samara(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A fresh directory with the scenario in it.
fn directory(name: &str) -> (PathBuf, String) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export-shadow").join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let scenario = directory.join("small.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let scenario = scenario.display().to_string();
    (directory, scenario)
}

/// All keys of a document, with dots; names of hosts and variables stand for all of them.
fn keys(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let named = ["hosts", "hosts.NAME.processes.environment"].contains(&prefix);
                let key = if named { "NAME" } else { key };
                let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                keys(&path, value, found);
                found.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(prefix, value, found)),
        _ => {}
    }
}

/// Those of Shadow's specification (`docs/shadow_config_spec.md`, 3.3.0) that are used.
const SPECIFIED: [&str; 28] = [
    "experimental",
    "experimental.interface_qdisc",
    "general",
    "general.data_directory",
    "general.model_unblocked_syscall_latency",
    "general.seed",
    "general.stop_time",
    "general.template_directory",
    "hosts",
    "hosts.NAME",
    "hosts.NAME.bandwidth_down",
    "hosts.NAME.bandwidth_up",
    "hosts.NAME.ip_addr",
    "hosts.NAME.network_node_id",
    "hosts.NAME.processes",
    "hosts.NAME.processes.args",
    "hosts.NAME.processes.environment",
    "hosts.NAME.processes.environment.NAME",
    "hosts.NAME.processes.expected_final_state",
    "hosts.NAME.processes.expected_final_state.exited",
    "hosts.NAME.processes.path",
    "hosts.NAME.processes.shutdown_signal",
    "hosts.NAME.processes.shutdown_time",
    "hosts.NAME.processes.start_time",
    "network",
    "network.graph",
    "network.graph.file",
    "network.graph.file.path",
];

#[test]
fn what_shadow_reads_is_as_specified() {
    let (directory, scenario) = directory("form");
    let out = directory.join("out");
    let said = ok(&["export", "shadow", &scenario, "--settle", "5", "--out", out.to_str().unwrap()]);
    assert!(said.contains("6 nodes") && said.contains("--shadow"), "{said}");
    let text = std::fs::read_to_string(out.join("shadow.yaml")).unwrap();
    let yaml: Value = serde_saphyr::from_str(&text).unwrap();
    let mut found = BTreeSet::new();
    keys("", &yaml, &mut found);
    let mut specified: BTreeSet<String> = SPECIFIED.iter().map(|key| (*key).to_owned()).collect();
    specified.extend(["network.graph.type", "network.use_shortest_path"].map(str::to_owned));
    assert_eq!(found, specified);
    let host = &yaml["hosts"]["node2"];
    assert_eq!(host["ip_addr"], "10.0.0.3");
    assert_eq!(
        (&host["bandwidth_up"], &host["bandwidth_down"]),
        (&"20000000 bit".into(), &"30000000 bit".into())
    );
    assert_eq!(host["processes"][0]["args"], serde_json::json!(["node", "--config", "node.toml"]));
    // Start, 5 s to settle, a slot 2 s later, 10 s of patience, and the end.
    assert_eq!(host["processes"][0]["shutdown_time"], "19 sec");
    assert_eq!(yaml["general"]["stop_time"], "29 sec");

    let mut dialled = 0;
    for node in 0..6 {
        let path = out.join(format!("template/hosts/node{node}/node.toml"));
        let config = NodeConfig::load(&path).unwrap();
        dialled += config.dial.len();
        assert!(!config.written.network.reuse_port && config.written.control.is_none());
        assert_eq!(config.written.plan.publications.is_some(), node == 0, "only one publishes");
        let before = config.written.plan.metrics[0].at_unix_ns;
        assert_eq!(before, (946_684_800 + 6) * 1_000_000_000 - 500_000_000);
    }
    assert_eq!(dialled, 15, "each pair once");
    let again = refused(&["export", "shadow", &scenario, "--out", out.to_str().unwrap()]);
    assert!(again.contains("expected a new or empty one"), "{again}");
}

#[test]
fn what_shadow_has_not_is_refused() {
    let (directory, scenario) = directory("refused");
    let out = directory.join("out").display().to_string();
    for (set, expected) in [
        ("network.jitter=5 ms", "network.jitter: Shadow has none"),
        ("transport.kind=quic", "transport.kind: found \"quic\""),
        ("network.validation_time=1 ms", "network.validation_time"),
    ] {
        let error = refused(&["export", "shadow", &scenario, "--set", set, "--out", &out]);
        assert!(error.contains(expected), "{error}");
    }
    let error = refused(&["export", "shadow", "peerdas-small", "--seed", "1", "--out", &out]);
    assert!(error.contains("found 3 runs (sequential, batch, node-wide); expected one"), "{error}");
    let error = refused(&["export", "shadow", "cat-real", "--only", "cat", "--seed", "1", "--out", &out]);
    assert!(error.contains("expected one") || error.contains("pools are not exported"), "{error}");
    assert!(!Path::new(&out).exists());
    let results = directory.join("results").display().to_string();
    let error = refused(&["testbed", &scenario, "--shadow", "/nowhere", "--out", &results, "--quiet"]);
    assert!(error.contains("/nowhere/run.json") && error.contains("samara export shadow"), "{error}");
}

#[test]
fn what_is_gathered_must_be_what_was_exported() {
    let (directory, scenario) = directory("other");
    let out = directory.join("out").display().to_string();
    ok(&["export", "shadow", &scenario, "--out", &out]);
    let results = directory.join("results").display().to_string();
    let gather = |set: &str| {
        refused(&[
            "testbed", &scenario, "--set", set, "--shadow", &out, "--out", &results, "--quiet", "--force",
        ])
    };
    let error = gather("network.latency=30 ms");
    assert!(error.contains("the section [network] is another one"), "{error}");
    let error = gather("network.latency=20 ms");
    assert!(error.contains("found no shadow.data; run `shadow shadow.yaml` there first"), "{error}");
}

fn shadow() -> Option<PathBuf> {
    let named = std::env::var_os("SAMARA_SHADOW").map(PathBuf::from);
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join("shadow")).find(|path| path.is_file())
    };
    // The programs that set passwords have a file of that name, but not in PATH.
    named.or_else(in_path)
}

#[test]
fn real_nodes_under_shadow_deliver_everything() {
    let Some(shadow) = shadow() else {
        // Not through a macro of the standard library, whose output is only shown where a test fails.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no Shadow (SAMARA_SHADOW, PATH)");
        return;
    };
    let (directory, scenario) = directory("real");
    let out = directory.join("out");
    ok(&["export", "shadow", &scenario, "--settle", "8", "--out", out.to_str().unwrap()]);
    let ran = Command::new(shadow).arg("shadow.yaml").current_dir(&out).output().unwrap();
    let log = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{}", log.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    let results = directory.join("results").display().to_string();
    let of = ["testbed", &scenario, "--shadow", out.to_str().unwrap(), "--out", &results];
    let document = ok(&[&of[..], &["--quiet", "--format", "json"]].concat());
    let document: Value = serde_json::from_str(&document).unwrap();
    let run = &document["runs"][0];
    assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
    assert_eq!(run["real"]["doubts"], serde_json::json!([]), "{run}");
    // Two hops of 20 ms are the least for somebody; all is over in a second.
    let custody = run["metrics"]["time_to_custody_ms"]["mean"].as_f64().unwrap();
    assert!((20.0..1000.0).contains(&custody), "{custody}");
    let late = run["real"]["publish_error_ms"]["max"].as_f64().unwrap();
    assert!(late < 1.0, "{late}");
    let trace = directory.join("trace.perfetto").display().to_string();
    let said = ok(&["export", "trace", out.to_str().unwrap(), "--format", "perfetto", "--out", &trace]);
    assert!(said.contains("6 nodes, 32 messages"), "{said}");
}
