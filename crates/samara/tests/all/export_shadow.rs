//! `samara export shadow`, and what its nodes do under Shadow.
//!
//! Shadow is run where `SAMARA_SHADOW` names it or it is found; without it, that test says that it was skipped.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use samara_node::NodeConfig;
use serde_json::Value;

use crate::common::{Scratch, text};

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

/// With the scenario in it.
fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(&format!("shadow-{name}"));
    scratch.write("small.toml", SCENARIO);
    scratch
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
    let scratch = scratch("form");
    let said = scratch.ok("export shadow small.toml --settle 5 --out out".split(' '));
    assert!(said.contains("6 nodes") && said.contains("--shadow"), "{said}");
    let yaml: Value = serde_saphyr::from_str(&scratch.read("out/shadow.yaml")).unwrap();
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
        let path = scratch.path(&format!("out/template/hosts/node{node}/node.toml"));
        let config = NodeConfig::load(&path).unwrap();
        dialled += config.dial.len();
        assert!(!config.written.network.reuse_port && config.written.control.is_none());
        assert_eq!(config.written.plan.publications.is_some(), node == 0, "only one publishes");
        let before = config.written.plan.metrics[0].at_unix_ns;
        assert_eq!(before, (946_684_800 + 6) * 1_000_000_000 - 500_000_000);
    }
    assert_eq!(dialled, 15, "each pair once");
    let again = scratch.refused("export shadow small.toml --out out".split(' '));
    assert!(again.contains("expected a new or empty one"), "{again}");
}

#[test]
fn what_shadow_has_not_is_refused() {
    let scratch = scratch("refused");
    for (set, expected) in [
        ("network.jitter=5 ms", "network.jitter: Shadow has none"),
        ("transport.kind=quic", "transport.kind: found \"quic\""),
        ("network.validation_time=1 ms", "network.validation_time"),
    ] {
        let error = scratch.refused(["export", "shadow", "small.toml", "--set", set, "--out", "out"]);
        assert!(error.contains(expected), "{error}");
    }
    let error = scratch.refused("export shadow peerdas-small --seed 1 --out out".split(' '));
    assert!(error.contains("found 3 runs (sequential, batch, node-wide); expected one"), "{error}");
    let error = scratch.refused("export shadow cat-real --only cat --seed 1 --out out".split(' '));
    assert!(error.contains("expected one") || error.contains("pools are not exported"), "{error}");
    assert!(!scratch.path("out").exists());
    let error = scratch.refused("testbed small.toml --shadow /nowhere --out results --quiet".split(' '));
    assert!(error.contains("/nowhere/run.json") && error.contains("samara export shadow"), "{error}");
}

#[test]
fn what_is_gathered_must_be_what_was_exported() {
    let scratch = scratch("other");
    scratch.ok("export shadow small.toml --out out".split(' '));
    let gather = |set: &str| {
        let args = "testbed small.toml --shadow out --out results --quiet --force --set";
        scratch.refused(args.split(' ').chain([set]))
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
    let scratch = scratch("real");
    scratch.ok("export shadow small.toml --settle 8 --out out".split(' '));
    let ran = Command::new(shadow).arg("shadow.yaml").current_dir(scratch.path("out")).output().unwrap();
    let log = text(&ran.stdout);
    assert!(ran.status.success(), "{}", log.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    let gather = "testbed small.toml --shadow out --out results --quiet --format json";
    let document = scratch.json(gather.split(' '));
    let run = &document["runs"][0];
    assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
    assert_eq!(run["real"]["doubts"], serde_json::json!([]), "{run}");
    // Two hops of 20 ms are the least for somebody; all is over in a second.
    let custody = run["metrics"]["time_to_custody_ms"]["mean"].as_f64().unwrap();
    assert!((20.0..1000.0).contains(&custody), "{custody}");
    let late = run["real"]["publish_error_ms"]["max"].as_f64().unwrap();
    assert!(late < 1.0, "{late}");
    let said = scratch.ok("export trace out --format perfetto --out trace.perfetto".split(' '));
    assert!(said.contains("6 nodes, 32 messages"), "{said}");
}
