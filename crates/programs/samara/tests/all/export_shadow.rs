//! Tests of `samara export shadow`, and of its hosts under Shadow.
//!
//! The test under Shadow uses the program that `SAMARA_SHADOW` names, or the one in `PATH`. Without
//! either, it prints that it was skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// A directory that contains the scenario.
fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(&format!("shadow-{name}"));
    scratch.write("small.toml", SCENARIO);
    scratch
}

/// The part that is the same for all hosts, with keys of Shadow's specification
/// (`docs/shadow_config_spec.md`, 3.3.0).
///
/// The stop time is the sum of the begin at 2 s, the warm-up of 3 s, a slot 2 s later, the deadline of
/// 10 s, and 10 s for hosts to end.
const GENERAL: &str = "\
general:
  seed: 1
  stop_time: 27 sec
  data_directory: shadow.data
  template_directory: template
  model_unblocked_syscall_latency: true
network:
  graph:
    type: gml
    file:
      path: graph.gml
  use_shortest_path: false
experimental:
  interface_qdisc: round-robin
hosts:
";

fn host(node: u32, program: &Path) -> String {
    format!(
        "  node{node}:
    network_node_id: 0
    ip_addr: \"10.0.0.{}\"
    processes:
    - path: {}
      args:
      - host
      - --run
      - small
      - --seed
      - \"1\"
      - --orders
      - orders.jsonl
      - ../../../scenario.toml
      - \"{node}\"
      start_time: 1 sec
      expected_final_state:
        exited: 0
",
        node + 1,
        program.display()
    )
}

#[test]
fn exported_files_match_the_specification_of_shadow() {
    let scratch = scratch("form");
    let output = scratch.ok("export shadow small.toml --out out".split(' '));
    assert!(output.contains("6 nodes") && output.contains("--shadow"), "{output}");
    let program = Path::new(env!("CARGO_BIN_EXE_samara")).canonicalize().unwrap();
    let hosts: String = (0..6).map(|node| host(node, &program)).collect();
    assert_eq!(scratch.read("out/shadow.yaml"), GENERAL.to_owned() + &hosts);

    let rates = "host_bandwidth_up \"20000000 bit\"\n    host_bandwidth_down \"30000000 bit\"";
    assert!(scratch.read("out/graph.gml").contains(rates));
    assert!(scratch.read("out/scenario.toml").contains("slot_interval = \"2 s\""));
    for node in 0..6 {
        let orders = scratch.read(&format!("out/template/hosts/node{node}/orders.jsonl"));
        let orders: Vec<Value> = orders.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(orders[0]["listen"]["host"], node);
        assert_eq!(orders[0]["listen"]["peers"][5], "10.0.0.6:4001");
        assert_eq!(orders[1]["begin"]["at_unix_ns"], (946_684_800_u64 + 2) * 1_000_000_000);
        let commands: Vec<&Value> = orders.iter().filter_map(|order| order.get("command")).collect();
        let times: Vec<&Value> = commands.iter().map(|command| &command["at_ns"]).collect();
        let expected: &[u64] = if node == 0 { &[3_000_000_000, 5_000_000_000] } else { &[] };
        assert_eq!(times, expected, "only one publishes");
        // Each half second of 15 s, and at the end.
        assert_eq!(orders.iter().filter(|order| **order == "look").count(), 31);
        assert_eq!(orders.last().unwrap(), "stop");
    }
    let again = scratch.refused("export shadow small.toml --out out".split(' '));
    assert!(again.contains("expected a new or empty one"), "{again}");
}

#[test]
fn rejects_features_that_shadow_lacks() {
    let scratch = scratch("refused");
    for (set, expected) in [
        ("network.jitter=5 ms", "network.jitter: Shadow has none"),
        ("transport.kind=quic", "transport.kind: found \"quic\""),
        (
            "network.regions={ names = [\"a\", \"b\"], weights = [1, 1], gateway = \"9 Mbit/s\", \
             latency = [[\"1 ms\", \"9 ms\"], [\"9 ms\", \"1 ms\"]] }",
            "network.regions.gateway: Shadow has no rates between regions",
        ),
    ] {
        let error = scratch.refused(["export", "shadow", "small.toml", "--set", set, "--out", "out"]);
        assert!(error.contains(expected), "{error}");
    }
    let error = scratch.refused("export shadow peerdas-small --seed 1 --out out".split(' '));
    assert!(error.contains("found 3 runs (sequential, batch, node-wide); expected one"), "{error}");
    let error = scratch.refused("export shadow cat-real --only cat --seed 1 --out out".split(' '));
    assert!(
        error.contains("expected one") || error.contains("pool: its commands follow from events of the run"),
        "{error}"
    );
    assert!(!scratch.path("out").exists());
    let error = scratch.refused("testbed small.toml --shadow /nowhere --out results --quiet".split(' '));
    assert!(error.contains("/nowhere/run.json") && error.contains("samara export shadow"), "{error}");
}

#[test]
fn rejects_results_of_another_scenario() {
    let scratch = scratch("other");
    scratch.ok("export shadow small.toml --out out".split(' '));
    let gather = |set: &str| {
        let args = "testbed small.toml --shadow out --out results --quiet --force --set";
        scratch.refused(args.split(' ').chain([set]))
    };
    let error = gather("network.latency=30 ms");
    assert!(error.contains("the section [network] differs"), "{error}");
    let error = gather("network.latency=20 ms");
    assert!(error.contains("found no shadow.data; run `shadow shadow.yaml` there first"), "{error}");
}

fn shadow() -> Option<PathBuf> {
    let named = std::env::var_os("SAMARA_SHADOW").map(PathBuf::from);
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join("shadow")).find(|path| path.is_file())
    };
    // The tools that manage passwords install a file of that name, but outside of PATH.
    named.or_else(in_path)
}

#[test]
fn real_hosts_under_shadow_deliver_everything() {
    let Some(shadow) = shadow() else {
        // Written directly: the test harness captures the output of macros and shows it for
        // failures only.
        let _ = writeln!(std::io::stderr(), "SKIPPED: found no Shadow (SAMARA_SHADOW, PATH)");
        return;
    };
    let scratch = scratch("real");
    scratch.ok("export shadow small.toml --out out".split(' '));
    let ran = Command::new(shadow).arg("shadow.yaml").current_dir(scratch.path("out")).output().unwrap();
    let log = text(&ran.stdout);
    assert!(ran.status.success(), "{}", log.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    let gather = "testbed small.toml --shadow out --out results --quiet --format json";
    let document = scratch.json(gather.split(' '));
    let run = &document["runs"][0];
    assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
    assert_eq!(run["real"]["doubts"], serde_json::json!([]), "{run}");
    // Some node is two hops of 20 ms away. All is over within a second.
    let custody = run["metrics"]["time_to_custody_ms"]["mean"].as_f64().unwrap();
    assert!((20.0..1000.0).contains(&custody), "{custody}");
    let late = run["real"]["publish_error_ms"]["max"].as_f64().unwrap();
    // Timers of hosts have a resolution of a millisecond.
    assert!(late < 3.0, "{late}");
}
