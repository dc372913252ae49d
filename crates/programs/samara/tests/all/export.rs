//! Tests that exported files can be read again and describe the same network.

use serde_json::Value;

use crate::common::Scratch;

fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(&format!("export-{name}"));
    scratch.write("small.toml", SMALL);
    scratch
}

fn export(scratch: &Scratch, args: &str) -> String {
    scratch.ok(["export"].into_iter().chain(args.split(' ')))
}

fn digest(scratch: &Scratch, scenario: &str, args: &[&str]) -> Value {
    let out = format!("out-{}", std::fs::read_dir(&scratch.0).unwrap().count());
    scratch.json([&["run", scenario, "--format", "json", "--out", &out], args].concat())["digest"].take()
}

/// A network with asymmetric latencies between regions, classes, and validation times.
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

/// The same scenario without the settings that exported files contain.
fn bare(network: &str) -> String {
    let (_, messages) = SMALL.split_once("[messages]").unwrap();
    format!("[scenario]\nname = \"bare\"\ntitle = \"\"\n[network]\n{network}\n[messages]{messages}")
}

#[test]
fn graphs_in_all_formats_give_the_same_digest() {
    let scratch = scratch("graph");
    let drawn = digest(&scratch, "small.toml", &[]);
    for format in ["graphml", "edges", "csv"] {
        let file = format!("graph.{format}");
        export(&scratch, &format!("graph small.toml --format {format} -o {file}"));
        let set = format!("network.topology={{ kind = \"file\", file = \"{file}\" }}");
        assert_eq!(digest(&scratch, "small.toml", &["--set", &set]), drawn, "{format}");
    }
    let other = export(&scratch, "graph small.toml --format csv --seed 2");
    assert_ne!(other, scratch.read("graph.csv"));
}

#[test]
fn graphml_describes_the_whole_network() {
    let scratch = scratch("graphml");
    let text = export(&scratch, "graph small.toml");
    assert!(text.contains("us &amp; canada") && text.contains("home &lt;&amp;&gt; office"), "{text}");
    scratch.write("net.graphml", text);
    let bare = bare(
        "nodes_file = \"net.graphml\"\ntopology = { kind = \"file\", file = \"net.graphml\" }\n\
         latency_file = { file = \"net.graphml\", kind = \"one-way\", of = \"nodes\", others = \"50 ms\" }",
    );
    scratch.write("bare.toml", bare);
    assert_eq!(digest(&scratch, "bare.toml", &[]), digest(&scratch, "small.toml", &[]));
}

#[test]
fn tables_of_hosts_and_latencies_give_the_same_digest() {
    let scratch = scratch("tables");
    export(&scratch, "nodes small.toml -o nodes.csv");
    let nodes = scratch.read("nodes.csv");
    assert!(nodes.starts_with("node,uplink_bps,downlink_bps,validation_time_ms,region,class\n"), "{nodes}");
    assert_eq!(nodes.matches(",home <&> office\n").count(), 12, "{nodes}");
    export(&scratch, "graph small.toml --format csv -o graph.csv");
    let latencies = export(&scratch, "latencies small.toml");
    assert_eq!(latencies, ",eu,us & canada\neu,5,40.25\nus & canada,43,8\n");
    scratch.write("latencies.csv", latencies);
    let network = "nodes_file = \"nodes.csv\"\ntopology = { kind = \"file\", file = \"graph.csv\" }\n\
                   latency_file = { file = \"latencies.csv\", kind = \"one-way\", unit = \"ms\" }";
    scratch.write("bare.toml", bare(network));
    let digest = digest(&scratch, "small.toml", &[]);
    let document = scratch.json("run bare.toml --format json --out bare".split(' '));
    assert_eq!(document["digest"], digest);
    let inputs: Value = serde_json::from_str(&scratch.read("bare/inputs.json")).unwrap();
    assert_eq!(inputs[1]["key"], "network.nodes_file");
    assert_eq!(inputs[1]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(inputs.as_array().map(Vec::len), Some(3));
    assert_eq!(inputs[1]["named"], "inputs/nodes.csv");
    assert!(scratch.path("bare/runs/bare-seed1/nodes.parquet").exists());
    // The result has all that it needs, without the files beside the scenario.
    std::fs::rename(scratch.path("bare"), scratch.path("elsewhere")).unwrap();
    std::fs::rename(scratch.path("nodes.csv"), scratch.path("nodes.old")).unwrap();
    let again = scratch.json("run elsewhere/scenario.toml --format json --out again".split(' '));
    assert_eq!(again["digest"], digest);
    // Also in its own place, where it reads the copies that it replaces.
    let again = scratch.json("run again/scenario.toml --format json --out again --force".split(' '));
    assert_eq!(again["digest"], digest);
    assert!(scratch.path("again/inputs/latencies.csv").exists());
    std::fs::rename(scratch.path("nodes.old"), scratch.path("nodes.csv")).unwrap();
    // Between hosts, each pair has its own latency.
    let by_hosts = network
        .replace("latencies.csv", "pairs.csv")
        .replace("kind = \"one-way\"", "kind = \"one-way\", of = \"nodes\"");
    scratch.write("pairs.toml", bare(&by_hosts));
    let matrix: String = (0..24).map(|_| vec!["9"; 24].join(",") + "\n").collect();
    scratch.write("pairs.csv", matrix);
    let pairs = export(&scratch, "latencies pairs.toml");
    assert!(pairs.starts_with(",0,1,2,") && pairs.contains("\n1,9,0,9,9,"), "{pairs}");
}

#[test]
fn explained_paths_have_the_names_of_nodes() {
    let scratch = scratch("names");
    let rows: String = ["paris", "osaka", "lima", "oslo", "rome"].map(|name| format!("{name},20\n")).concat();
    scratch.write("nodes.csv", format!("node,uplink_mbps\n{rows}"));
    let network = "nodes_file = \"nodes.csv\"\ntopology = { kind = \"ring\" }";
    let text = format!(
        "[scenario]\nname = \"named\"\n[network]\n{network}\n[messages]\nrate = 5\nwarm_up = \"3 s\"\nduration = \"1 s\"\n"
    );
    scratch.write("named.toml", text);
    scratch.ok("run named.toml --explain all --out r --quiet".split(' '));
    let shown = scratch.ok("explain r --node lima".split(' '));
    assert!(shown.contains("message 0 at node lima") && shown.contains(" -> lima: "), "{shown}");
    assert!(!shown.contains("at node oslo") && !shown.contains("item"), "{shown}");
    let json = scratch.json("explain r --format json".split(' '));
    let run = &json["runs"][0];
    assert_eq!((&run["item_is"], &run["names"][1]), (&"message".into(), &"osaka".into()));
    let error = scratch.refused("explain r --node limo".split(' '));
    assert!(error.contains("there is no node \"limo\"; did you mean lima?"), "{error}");
}

/// The slowest deliveries are those of the nodes with slow links.
#[test]
fn the_slow_tail_is_explained_by_class() {
    let scratch = scratch("tail");
    scratch.ok("run small.toml --explain all --out r --quiet".split(' '));
    let json = scratch.json("explain r --format json".split(' '));
    let run = &json["runs"][0];
    let (all, slowest) = (run["deliveries"].as_u64().unwrap(), &run["slowest"]);
    assert_eq!(slowest["deliveries"].as_u64().unwrap(), all.div_ceil(20));
    let class = |name: &str, key: &str| slowest["by_class"][name][key].as_u64().unwrap();
    let home = "home <&> office";
    assert_eq!(class(home, "of") + class("others", "of"), all);
    assert!(class(home, "deliveries") > class("others", "deliveries"), "{slowest}");
    let shares = slowest["by_class"][home]["shares"].as_object().unwrap().values();
    assert!((shares.filter_map(Value::as_f64).sum::<f64>() - 1.0).abs() < 1e-9, "{slowest}");
    let shown = scratch.ok("explain r".split(' '));
    let table = shown.lines().find(|line| line.contains("by class of nodes")).expect("a table");
    assert!(table.contains("slowest 5 %, from ") && shown.contains("slowest 5 %\n"), "{shown}");
    let of_class = scratch.json(["explain", "r", "--class", home, "--format", "json"]);
    let of_class = &of_class["runs"][0];
    assert_eq!(of_class["deliveries"].as_u64(), Some(class(home, "of")));
    assert!(of_class["slowest"]["by_class"].as_object().unwrap().len() == 1, "{of_class}");
    let error = scratch.refused(["explain", "r", "--class", "homes"]);
    assert!(error.contains("there is no such class; the classes are home <&> office, others"), "{error}");
    let error = scratch.refused(["explain", "r", "--class", "x", "--what-if"]);
    assert!(error.contains("--what-if"), "{error}");
}

#[test]
fn sweep_reads_files_beside_its_scenario() {
    let scratch = scratch("sweep");
    export(&scratch, "nodes small.toml -o nodes.csv");
    let network = "nodes_file = \"nodes.csv\"\ntopology = { degree = 6 }";
    std::fs::create_dir(scratch.path("below")).unwrap();
    std::fs::rename(scratch.path("nodes.csv"), scratch.path("below/nodes.csv")).unwrap();
    scratch.write("below/bare.toml", bare(network));
    scratch.ok("sweep below/bare.toml --seeds 2 --out s --quiet".split(' '));
    let points = std::fs::read_dir(scratch.path("s/points")).unwrap().count();
    assert!(points >= 2, "{points}");
    // It resumes by the names of the files, and its own scenario reads their copies.
    scratch.ok("sweep below/bare.toml --seeds 2 --out s --quiet".split(' '));
    std::fs::remove_dir_all(scratch.path("below")).unwrap();
    scratch.ok("sweep s/scenario.toml --out again --quiet".split(' '));
    let digest = |out: &str| {
        let summary: Value = serde_json::from_str(&scratch.read(&format!("{out}/summary.json"))).unwrap();
        summary["digest"].clone()
    };
    assert_eq!(digest("again"), digest("s"));
}

#[test]
fn rejects_networks_that_cannot_be_exported() {
    let scratch = scratch("errors");
    let error = |args: &str| scratch.refused(["export"].into_iter().chain(args.split(' ')));
    assert!(error("graph ring").contains("no graph; nodes and latencies can be exported"));
    let ambiguous = error("graph small.toml --grid network.topology.degree=4,6");
    assert!(
        ambiguous.contains("have different networks; choose with --only NAME or --grid KEY=VALUE"),
        "{ambiguous}"
    );
    assert!(error("nodes small.toml -o no/such/directory").contains("no/such/directory: "));
}
