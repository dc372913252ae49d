//! Classes of nodes: metrics of each, custody, and the class of the publisher.

use samara_document::Inputs;
use samara_lab::expect::Expectation;
use samara_lab::metric::declared;
use samara_lab::results::tables;
use samara_lab::run::{RunOptions, run};
use samara_lab::{family, network};
use samara_scenario::{Loaded, Overrides};
use serde_json::Value;

use crate::{load_source, loaded};

/// All nodes, at the rates of the network.
const ONE_CLASS: (&str, &str) = (
    "network.class",
    r#"[{ name = "all", share = "100 %", uplink = "100 Mbit/s", downlink = "100 Mbit/s" }]"#,
);

/// Metrics come from histograms of three digits.
fn assert_close(of_class: &Value, of_all: &Value, name: &str) {
    match (of_class, of_all) {
        (Value::Object(own), Value::Object(all)) => {
            own.iter().for_each(|(key, value)| assert_close(value, &all[key], &format!("{name}.{key}")));
        }
        _ => {
            let [own, all] = [of_class, of_all].map(|value| value.as_f64().unwrap_or(f64::NAN));
            assert!((own - all).abs() <= 1e-3 * all.abs(), "{name}: {own} of the class, {all} of all nodes");
        }
    }
}

#[test]
fn metrics_of_a_class_with_all_nodes_are_those_of_the_run() {
    let cases: [(&str, &[_], &str, &str); 5] = [
        ("peerdas-small", &[], "batch", "share_by_deadline"),
        (
            "gossip-baselines",
            &[("messages.duration", "2 s"), ("messages.rate", "20"), ("messages.cool_down", "10 s")],
            "gossipsub",
            "delivery_ratio",
        ),
        (
            "cat",
            &[("pool.clients", "60"), ("pool.spread", "3 s"), ("pool.duration", "12 s")],
            "cat",
            "delivered_share",
        ),
        ("ring", &[("group.messages", "200")], "ring", "throughput_mb_per_s"),
        ("mix", &[("mix.batch", "20"), ("mix.rounds", "8")], "equal", "cpu_utilisation"),
    ];
    for (scenario, set, only, known) in cases {
        let set: Vec<_> = [ONE_CLASS].into_iter().chain(set.iter().copied()).collect();
        let loaded = loaded(scenario, &set, &[only], Some(1));
        let measured = run(&loaded.points[0], RunOptions::new(2, &loaded.inputs), |_, _| {}).unwrap();
        let outcome = measured.outcome();
        let metrics = &outcome.run.metrics;
        let figures = metrics["by_class"]["all"].as_object().unwrap();
        assert_eq!(figures["nodes"], loaded.points[0].scenario.network.nodes, "{scenario}");
        assert!(figures.contains_key(known) && figures.len() > 3, "{scenario}: {figures:?}");
        for (name, value) in figures.iter().filter(|(name, _)| *name != "nodes") {
            declared(name, Some(family::of(&loaded.scenario))).unwrap();
            assert_close(value, &metrics[name], &format!("{scenario}: {name}"));
        }
        let tables = tables(&*measured, &outcome);
        for table in tables.iter().filter(|table| ["deliveries", "traffic"].contains(&table.name())) {
            let rows = table.make();
            let mut classes = rows.cells::<String>("class").expect("a column of classes");
            assert!(classes.all(|class| class.is_some_and(|class| class == "all")), "{scenario}");
        }
    }
}

const SUPERNODES: &str = r#"
[network]
nodes = 40
[[network.class]]
name = "supernode"
share = "25 %"
uplink = "1 Gbit/s"
downlink = "1 Gbit/s"
custody = 32
[[network.class]]
name = "home"
share = "70 %"
uplink = "50 Mbit/s"
downlink = "100 Mbit/s"
[columns]
blobs = 2
count = 32
custody = 4
publisher = 3
publisher_class = "home"
warm_up = "6 s"
[expect]
"by_class.supernode.share_by_deadline" = "== 1"
"by_class.home.time_to_custody_ms.p95" = "> 0 ms"
"#;

fn supernodes(text: &str) -> Result<Loaded, String> {
    let text = text.replace("nodes = 40", "nodes = 40\ntopology = { degree = 12 }");
    load_source("s.toml", &text, Inputs::default(), &Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn classes_have_their_custody_and_the_publisher_its_class() {
    let loaded = supernodes(SUPERNODES).unwrap();
    let scenario = &loaded.points[0].scenario;
    for seed in 1..=8 {
        let hosts = network::hosts(scenario, &loaded.inputs, 40, seed).unwrap();
        assert_eq!(hosts.class[3], Some(1), "the publisher is at home");
        assert_eq!(hosts.configs[3].uplink_bps, 50_000_000);
        let members = |class| hosts.class.iter().filter(|own| **own == class).count();
        assert_eq!([Some(0), Some(1), None].map(members), [10, 28, 2]);
        let (_, custody) = network::custody(scenario, &loaded.inputs, seed).unwrap();
        for (node, kept) in custody.iter().enumerate().filter(|(node, _)| *node != 3) {
            assert_eq!(kept.len(), if hosts.class[node] == Some(0) { 32 } else { 4 }, "node {node}");
        }
    }
    let measured = run(&loaded.points[0], RunOptions::new(1, &loaded.inputs), |_, _| {}).unwrap();
    let metrics = measured.outcome().run.metrics;
    let of = |class: &str, metric: &str| metrics["by_class"][class][metric].clone();
    assert_eq!(["supernode", "home", "others"].map(|class| of(class, "nodes")), [10, 28, 2]);
    let down = |class| of(class, "bytes_down_per_node").as_f64().unwrap();
    assert!(down("supernode") > 3.0 * down("home"), "{metrics}");
    assert_eq!(of("home", "share_by_deadline"), 1.0);
}

/// Four hubs between eight leaves and a node without a class.
fn nodes_with_classes() -> String {
    let class = |node: usize| if node == 12 { "" } else { ["leaf", "hub", "leaf"][node % 3] };
    let rows = (0..13).map(|node| format!("{node},{},eu\n", class(node)));
    std::iter::once("node,class,region\n".to_owned()).chain(rows).collect()
}

const OF_FILE: &str = r#"
[network]
nodes_file = "nodes.csv"
topology = { degree = 6 }
uplink = "20 Mbit/s"
[[network.class]]
name = "hub"
uplink = "1 Gbit/s"
custody = 32
[columns]
blobs = 2
count = 32
custody = 4
publisher = 3
warm_up = "6 s"
[expect]
"by_class.hub.share_by_deadline" = "== 1"
"by_class.leaf.share_by_deadline" = "== 1"
"#;

fn of_file(text: &str, nodes: &str) -> Result<Loaded, String> {
    let inputs = Inputs::default().with("nodes.csv", nodes);
    load_source("s.toml", text, inputs, &Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn file_of_nodes_gives_their_classes() {
    let loaded = of_file(OF_FILE, &nodes_with_classes()).unwrap();
    let scenario = &loaded.points[0].scenario;
    for seed in 1..=3 {
        let hosts = network::hosts(scenario, &loaded.inputs, 13, seed).unwrap();
        let (_, custody) = network::custody(scenario, &loaded.inputs, seed).unwrap();
        for node in 0..13 {
            let class = hosts.class[node].map(|class| scenario.network.classes[class].name.as_str());
            let expected = (node != 12).then_some(["leaf", "hub", "leaf"][node % 3]);
            assert_eq!(class, expected, "node {node}");
            let is_hub = expected == Some("hub");
            assert_eq!(hosts.configs[node].uplink_bps, if is_hub { 1_000_000_000 } else { 20_000_000 });
            assert_eq!(hosts.configs[node].downlink_bps, 20_000_000, "that of the network");
            assert!(node == 3 || custody[node].len() == if is_hub { 32 } else { 4 }, "node {node}");
        }
    }
    let measured = run(&loaded.points[0], RunOptions::new(1, &loaded.inputs), |_, _| {}).unwrap();
    let outcome = measured.outcome();
    let of = |class: &str| outcome.run.metrics["by_class"][class]["nodes"].clone();
    assert_eq!(["hub", "leaf", "others"].map(of), [4, 8, 1]);
    let tables = tables(&*measured, &outcome);
    let traffic = tables.iter().find(|table| table.name() == "traffic").unwrap().make();
    let classes: Vec<_> = traffic.cells::<String>("class").unwrap().collect();
    assert_eq!(classes[1].map(String::as_str), Some("hub"));
    assert_eq!(classes[12], None);
    // The text has the classes that the scenario has, and no others.
    assert_eq!(loaded.text.matches("[[network.class]]").count(), 1, "{}", loaded.text);
}

/// Without a column, a file of nodes and classes by share go together.
#[test]
fn classes_by_share_apply_to_nodes_of_a_file() {
    let text =
        OF_FILE.replace("custody = 32", "share = \"25 %\"").replace("\"by_class.leaf", "\"by_class.others");
    let plain: String = (0..12).map(|node| format!("{node},eu\n")).collect();
    let loaded = of_file(&text, &format!("node,region\n{plain}")).unwrap();
    let hosts = network::hosts(&loaded.points[0].scenario, &loaded.inputs, 12, 1).unwrap();
    let fast = hosts.configs.iter().filter(|host| host.uplink_bps == 1_000_000_000).count();
    assert_eq!((fast, hosts.class.iter().flatten().count()), (3, 3));
}

#[test]
fn mistakes_in_classes_of_a_file_are_refused() {
    let nodes = nodes_with_classes();
    let with_rates = nodes.replace(",eu", ",eu,5").replace("region", "region,uplink_mbps");
    let many: String = (0..101).map(|node| format!("{node},class{node}\n")).collect();
    for (old, new, nodes, expected) in [
        (
            "custody = 32",
            "share = \"5 %\"",
            &nodes,
            "s.toml:9: network.class.0.share: nodes.csv has a column class",
        ),
        (
            "\"hub\"",
            "\"hubs\"",
            &nodes,
            "\"hubs\", which is no class of nodes.csv; its classes are leaf, hub",
        ),
        ("", "", &with_rates, "network.class.0.uplink: nodes.csv has a column uplink, which replaces it"),
        (
            "uplink = \"20 Mbit/s\"",
            "classes_from = 1",
            &nodes,
            "network.classes_from: nodes.csv has a column class",
        ),
        ("publisher = 3", "publisher_class = \"hub\"", &nodes, "set columns.publisher to one of them"),
        ("by_class.leaf", "by_class.leave", &nodes, "the classes are hub, leaf, others"),
        (
            "",
            "",
            &nodes.replace(",leaf", ",a.b"),
            "nodes.csv: a class is \"a.b\"; expected a name without . and :",
        ),
        ("", "", &nodes.replace(",leaf", ",others"), "the name of all nodes without a class"),
        ("", "", &format!("node,class\n{many}"), "nodes.csv:102: more than 100 classes"),
        ("", "", &nodes.replace("class", "kind"), "nodes.csv:1: found the column \"kind\""),
        (
            "",
            "",
            &"node,region\n0,eu\n1,eu\n".to_owned(),
            "s.toml:6: network.class.0: missing key `share`; add one, such as share = \"20 %\", or a column class",
        ),
    ] {
        let loaded = of_file(&OF_FILE.replacen(old, new, 1), nodes);
        let checked =
            loaded.and_then(|loaded| Expectation::all_of(&loaded).map_err(|error| error.to_string()));
        let error = checked.map_or_else(|error| error, |_| String::new());
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn mistakes_in_classes_are_refused() {
    for (old, new, expected) in [
        ("custody = 32", "custody = 33", "network.class.0.custody: is 33"),
        (
            "publisher_class = \"home\"",
            "publisher_class = \"hom\"",
            "is no class of nodes; expected one of supernode, home",
        ),
        ("nodes = 40", "nodes = 40\nclasses_from = 1", "set columns.publisher to one of them"),
        (
            "name = \"home\"",
            "name = \"supernode\"",
            "network.class.1.name: is \"supernode\", as that of another class",
        ),
        ("name = \"home\"", "name = \"a.b\"", "expected a name without . and :"),
        ("name = \"home\"", "name = \"others\"", "the name of all nodes without a class"),
    ] {
        let error = supernodes(&SUPERNODES.replace(old, new)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let (network, _) = SUPERNODES.split_once("[columns]").unwrap();
    let error = supernodes(&format!("{network}\n[messages]\n")).unwrap_err();
    assert!(error.contains("network.class.0.custody: the nodes of [messages] keep no columns"), "{error}");
}
