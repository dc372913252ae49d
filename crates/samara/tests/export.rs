//! What is exported can be read again, and is the same network.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A directory of its own for each test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("samara-export-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("small.toml"), SMALL).unwrap();
        Self(path)
    }

    fn samara(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_samara")).current_dir(&self.0).args(args).output().unwrap()
    }

    fn export(&self, args: &[&str]) -> String {
        let output = self.samara(&[["export"].as_slice(), args].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn digest(&self, scenario: &str, args: &[&str]) -> String {
        let out = format!("out-{}", std::fs::read_dir(&self.0).unwrap().count());
        let output = self.samara(&[&["run", scenario, "--format", "json", "--out", &out], args].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["digest"].as_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Regions that are not as far from each other in both directions, classes, and validation.
const SMALL: &str = r#"
[scenario]
name = "small"
title = "A network with everything that can be exported"

[network]
nodes = 24
uplink = "30 Mbit/s"
downlink = "60 Mbit/s"
validation_time = "1 ms"
topology = { degree = 6 }

[[network.class]]
name = "home <&> office"
share = "50 %"
uplink = "5 Mbit/s"
downlink = "20 Mbit/s"
validation_time = "2.5 ms"

[network.regions]
names = ["eu", "us & canada"]
weights = [2, 1]
latency = [["5 ms", "40.25 ms"], ["43 ms", "8 ms"]]

[messages]
rate = 10.0
duration = "2 s"
size = "2 kB"
warm_up = "6 s"
cool_down = "10 s"
"#;

/// The same without anything that files bring.
fn bare(network: &str) -> String {
    let (_, messages) = SMALL.split_once("[messages]").unwrap();
    format!("[scenario]\nname = \"bare\"\ntitle = \"\"\n[network]\n{network}\n[messages]{messages}")
}

#[test]
fn graphs_in_all_formats_give_the_same_digest() {
    let scratch = Scratch::new("graph");
    let drawn = scratch.digest("small.toml", &[]);
    for format in ["graphml", "edges", "csv"] {
        let file = format!("graph.{format}");
        scratch.export(&["graph", "small.toml", "--format", format, "-o", &file]);
        let set = format!("network.topology={{ kind = \"file\", file = \"{file}\" }}");
        assert_eq!(scratch.digest("small.toml", &["--set", &set]), drawn, "{format}");
    }
    let other = scratch.export(&["graph", "small.toml", "--format", "csv", "--seed", "2"]);
    assert_ne!(other, std::fs::read_to_string(scratch.0.join("graph.csv")).unwrap());
}

#[test]
fn graphml_has_all_of_the_network() {
    let scratch = Scratch::new("graphml");
    let text = scratch.export(&["graph", "small.toml"]);
    assert!(text.contains("us &amp; canada") && text.contains("home &lt;&amp;&gt; office"), "{text}");
    std::fs::write(scratch.0.join("net.graphml"), text).unwrap();
    let bare = bare(
        "hosts_file = \"net.graphml\"\ntopology = { kind = \"file\", file = \"net.graphml\" }\n\
         latency_file = { file = \"net.graphml\", kind = \"one-way\", of = \"hosts\", others = \"50 ms\" }",
    );
    std::fs::write(scratch.0.join("bare.toml"), bare).unwrap();
    assert_eq!(scratch.digest("bare.toml", &[]), scratch.digest("small.toml", &[]));
}

#[test]
fn tables_of_hosts_and_latencies_give_the_same_digest() {
    let scratch = Scratch::new("tables");
    scratch.export(&["hosts", "small.toml", "-o", "hosts.csv"]);
    scratch.export(&["graph", "small.toml", "--format", "csv", "-o", "graph.csv"]);
    let latencies = scratch.export(&["latencies", "small.toml"]);
    assert_eq!(latencies, ",eu,us & canada\neu,5,40.25\nus & canada,43,8\n");
    std::fs::write(scratch.0.join("latencies.csv"), latencies).unwrap();
    let network = "hosts_file = \"hosts.csv\"\ntopology = { kind = \"file\", file = \"graph.csv\" }\n\
                   latency_file = { file = \"latencies.csv\", kind = \"one-way\", unit = \"ms\" }";
    std::fs::write(scratch.0.join("bare.toml"), bare(network)).unwrap();
    let digest = scratch.digest("small.toml", &[]);
    let output = scratch.samara(&["run", "bare.toml", "--format", "json", "--out", "bare"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["digest"].as_str(), Some(digest.as_str()));
    let inputs = std::fs::read_to_string(scratch.0.join("bare/inputs.json")).unwrap();
    let inputs: Value = serde_json::from_str(&inputs).unwrap();
    assert_eq!(inputs[0]["key"], "network.hosts_file");
    assert_eq!(inputs[0]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(inputs.as_array().map(Vec::len), Some(3));
    assert!(scratch.0.join("bare/runs/bare-seed1/hosts.parquet").exists());
    // Between hosts each pair has its own.
    let by_hosts = network
        .replace("latencies.csv", "pairs.csv")
        .replace("kind = \"one-way\"", "kind = \"one-way\", of = \"hosts\"");
    std::fs::write(scratch.0.join("pairs.toml"), bare(&by_hosts)).unwrap();
    let matrix: String = (0..24).map(|_| vec!["9"; 24].join(",") + "\n").collect();
    std::fs::write(scratch.0.join("pairs.csv"), matrix).unwrap();
    let pairs = scratch.export(&["latencies", "pairs.toml"]);
    assert!(pairs.starts_with(",0,1,2,") && pairs.contains("\n1,9,0,9,9,"), "{pairs}");
}

#[test]
fn a_sweep_reads_the_files_of_its_scenario() {
    let scratch = Scratch::new("sweep");
    scratch.export(&["hosts", "small.toml", "-o", "hosts.csv"]);
    let network = "hosts_file = \"hosts.csv\"\ntopology = { degree = 6 }";
    std::fs::create_dir(scratch.0.join("below")).unwrap();
    std::fs::rename(scratch.0.join("hosts.csv"), scratch.0.join("below/hosts.csv")).unwrap();
    std::fs::write(scratch.0.join("below/bare.toml"), bare(network)).unwrap();
    let output = scratch.samara(&["sweep", "below/bare.toml", "--seeds", "2", "--out", "s", "--quiet"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let points = std::fs::read_dir(scratch.0.join("s/points")).unwrap().count();
    assert!(points >= 2, "{points}");
}

#[test]
fn what_cannot_be_exported_is_told() {
    let scratch = Scratch::new("errors");
    let error = |args: &[&str]| {
        let output = scratch.samara(&[["export"].as_slice(), args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["graph", "ring"]).contains("no graph; hosts and latencies can be exported"));
    let ambiguous = error(&["graph", "small.toml", "--grid", "network.topology.degree=4,6"]);
    assert!(
        ambiguous.contains("have different networks; choose with --run NAME or --grid KEY=VALUE"),
        "{ambiguous}"
    );
    assert!(error(&["hosts", "small.toml", "-o", "no/such/directory"]).contains("no/such/directory: "));
}
