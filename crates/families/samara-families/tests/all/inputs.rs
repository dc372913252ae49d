//! Networks and workloads from files have the same results as inline ones, and invalid files give
//! clear errors.

use std::fmt::Write as _;

use proptest::prelude::*;
use samara_document::{Inputs, host_names};
use samara_engine::{NodeRng, Purpose};
use samara_family_messages::MessagesData;
use samara_family_messages::Plan;
use samara_lab::network;
use samara_lab::results::Outcome;
use samara_lab::run::{RunOptions, run};
use samara_lab::sweep::plan;
use samara_scenario::{Loaded, Overrides};

use crate::load_source;

const NODES: u32 = 16;

/// Returns a scenario with a stream of messages in a small network, with further keys of the
/// network.
fn scenario(network: &str, messages: &str, rest: &str) -> String {
    format!(
        "[scenario]\nname = \"small\"\ntitle = \"\"\n[network]\n{network}\n[network.topology]\ndegree = 6\n[messages]\n{messages}\n\
         warm_up = \"6 s\"\ncool_down = \"10 s\"\n{rest}\n"
    )
}

const MESSAGES: &str = "rate = 10.0\nduration = \"2 s\"\nsize = \"700 B\"";

fn load(text: &str, inputs: Inputs) -> Loaded {
    load_source("small.toml", text, inputs, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str, inputs: Inputs) -> String {
    load_source("small.toml", text, inputs, &Overrides::default())
        .expect_err("the scenario should be rejected")
        .to_string()
}

fn digests(loaded: &Loaded, threads: usize) -> Vec<String> {
    let options = RunOptions::new(threads, &loaded.inputs);
    let digest = |point| {
        let measured = run(point, options, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
        measured.outcome().run.digest
    };
    loaded.points.iter().map(digest).collect()
}

fn digest(text: &str, inputs: Inputs) -> String {
    digests(&load(text, inputs), 1).remove(0)
}

/// Returns the digest of the inline scenario that the others are compared with.
fn plain() -> String {
    digest(
        &scenario("nodes = 16\nlatency = \"30 ms\"\nuplink = \"10 Mbit/s\"", MESSAGES, ""),
        Inputs::default(),
    )
}

/// Returns a matrix of latencies in milliseconds.
fn matrix(size: u32, latency: impl Fn(u32, u32) -> f64) -> String {
    let row = |from| (0..size).map(|to| latency(from, to).to_string()).collect::<Vec<_>>().join(",") + "\n";
    (0..size).map(row).collect()
}

const LATENCY: &str = "latency_file = { file = \"latency.csv\", unit = \"ms\", kind = \"one-way\" }";

#[test]
fn hosts_from_a_table_equal_inline_hosts() {
    // The order of rows does not matter.
    let rows = (0..NODES).rev().map(|host| format!("{host},10,20 Mbit/s,0 ms\n"));
    let table = format!("node,uplink_mbps,downlink,validation_time\n{}", rows.collect::<String>());
    let text = scenario("nodes_file = \"nodes.csv\"\nlatency = \"30 ms\"", MESSAGES, "");
    assert_eq!(digest(&text, Inputs::default().with("nodes.csv", table.clone())), plain());
    let slower = table.replace("\n3,10,", "\n3,9,");
    assert_ne!(digest(&text, Inputs::default().with("nodes.csv", slower)), plain());
}

#[test]
fn uniform_latency_matrix_equals_a_constant() {
    let text = scenario(&format!("{LATENCY}\nuplink = \"10 Mbit/s\""), MESSAGES, "");
    let inputs = |latency: f64| Inputs::default().with("latency.csv", matrix(NODES, |_, _| latency));
    let loaded = load(&text, inputs(30.0));
    assert_eq!(loaded.points[0].scenario.network.nodes, NODES, "one node for each row");
    assert_eq!(digests(&loaded, 1), [plain()]);
    assert_eq!(digests(&loaded, 4), [plain()]);
    let back = text.replace("one-way", "round-trip").replace("\"ms\"", "\"us\"");
    assert_eq!(digest(&back, inputs(60_000.0)), plain());
}

#[test]
fn pair_latencies_equal_region_latencies() {
    let regions = "nodes = 16\n[network.regions]\nnames = [\"eu\", \"us\"]\nweights = [3, 1]\nplaced = \"in-order\"\n\
                   latency = [[\"5 ms\", \"40 ms\"], [\"45 ms\", \"8 ms\"]]";
    let by_regions = digest(&scenario(regions, MESSAGES, ""), Inputs::default());
    let region = |host: u32| usize::from(host >= 12);
    let between = [[5.0, 40.0], [45.0, 8.0]];
    let pairs = matrix(NODES, |from, to| between[region(from)][region(to)]);
    let by_pairs = scenario(LATENCY, MESSAGES, "");
    assert_eq!(digest(&by_pairs, Inputs::default().with("latency.csv", pairs)), by_regions);
    // The same regions from two files: the region of each host, and the latencies of regions. The
    // table has a third region and another order.
    let hosts: String = (0..NODES).fold("node,region\n".to_owned(), |mut text, host| {
        let _ = writeln!(text, "{host},{}", ["eu", "us"][region(host)]);
        text
    });
    let table = ",us,asia,eu\nus,8,90,45\nasia,90,3,80\neu,40,80,5\n";
    let text = scenario(&format!("nodes_file = \"nodes.csv\"\n{LATENCY}"), MESSAGES, "");
    let inputs = Inputs::default().with("nodes.csv", hosts).with("latency.csv", table);
    let loaded = load(&text, inputs.clone());
    let filled = loaded.points[0].scenario.network.regions.as_ref().expect("regions");
    assert_eq!(
        (filled.names.as_slice(), filled.weights.as_slice()),
        (["eu", "us"].map(str::to_owned).as_slice(), [12.0, 4.0].as_slice())
    );
    assert_eq!(digests(&loaded, 1), [by_regions.as_str()]);
    // The weights come from a file.
    let weights = scenario(
        &format!(
            "nodes = 16\n{LATENCY}\n[network.regions]\nweights_file = \"weights.csv\"\nplaced = \"in-order\""
        ),
        MESSAGES,
        "",
    );
    let inputs = inputs.with("weights.csv", "region,weight\neu,3\nus,1\n");
    assert_eq!(digest(&weights, inputs), by_regions);
}

#[test]
fn messages_from_a_table_equal_drawn_messages() {
    let drawn = load(
        &scenario("nodes = 16\nlatency = \"30 ms\"\nuplink = \"10 Mbit/s\"", MESSAGES, ""),
        Inputs::default(),
    );
    let plan = Plan::of(&drawn.points[0].scenario, &drawn.inputs, 1).unwrap();
    let rows = plan.times.iter().zip(&plan.publishers).zip(&plan.sizes);
    let table: String =
        rows.fold("at_ns,publisher,size_bytes\n".to_owned(), |mut text, ((at, publisher), size)| {
            let _ = writeln!(text, "{},{publisher},{size}", at - 6_000_000_000);
            text
        });
    let network = "nodes = 16\nlatency = \"30 ms\"\nuplink = \"10 Mbit/s\"";
    let text = scenario(network, "file = \"messages.csv\"", "");
    let loaded = load(&text, Inputs::default().with("messages.csv", table));
    assert_eq!(Plan::of(&loaded.points[0].scenario, &loaded.inputs, 1), Ok(plan));
    assert_eq!(digests(&loaded, 1), [plain()]);
    // The table has only times: publishers are drawn, and the scenario states the size.
    let bare = "at_ms\n0\n250\n250\n";
    let text = scenario(network, "file = \"messages.csv\"\nsize = \"9 kB\"", "");
    let loaded = load(&text, Inputs::default().with("messages.csv", bare));
    let plan = Plan::of(&loaded.points[0].scenario, &loaded.inputs, 1).unwrap();
    assert_eq!(plan.times, [6_000_000_000, 6_250_000_000, 6_250_000_000]);
    assert_eq!((plan.sizes, plan.publishers.len()), (vec![9_000; 3], 3));
}

#[test]
fn message_sizes_affect_results() {
    let text = scenario("nodes = 16", "file = \"messages.csv\"", "");
    let table = "at_ms,publisher,size\n0,3,10 kB\n500,4,50 kB\n";
    let loaded = load(&text, Inputs::default().with("messages.csv", table));
    let measured = run(&loaded.points[0], RunOptions::new(1, &loaded.inputs), |_, _| {}).unwrap();
    let result: Outcome<MessagesData> = measured.outcome().typed().expect("messages");
    let metrics = &result.metrics;
    assert_eq!((metrics.messages, metrics.deliveries.delivery_ratio), (2, 1.0));
    let payload = metrics.shares.payload_share * metrics.bytes.bytes_down_per_node * f64::from(NODES);
    assert!((payload / (15.0 * 60_000.0) - 1.0).abs() < 1e-9, "{payload}");
    assert!(metrics.lower_bound_ms < metrics.dissemination_ms.unwrap().mean);
}

/// The graph that a scenario draws gives the same network in every format.
#[test]
fn graphs_in_all_formats_equal_drawn_graphs() {
    let network = "latency = \"30 ms\"\nuplink = \"10 Mbit/s\"";
    let drawn = load(&scenario(&format!("nodes = 16\n{network}"), MESSAGES, ""), Inputs::default());
    let graph = network::graph(&drawn.points[0].scenario, &drawn.inputs, 1).unwrap().0;
    let lines = |between: &str, offset: u32| -> String {
        graph.edges.iter().fold(String::new(), |mut text, (a, b)| {
            let _ = writeln!(text, "{}{between}{}", a + offset, b + offset);
            text
        })
    };
    let nodes = |node: fn(u32) -> String| (0..NODES).map(node).collect::<String>();
    let edges = |edge: fn(&(u32, u32)) -> String| graph.edges.iter().map(edge).collect::<String>();
    let files = [
        format!("dialer,listener\n{}", lines(",", 0)),
        lines(" ", 0),
        format!("# as SNAP has it\n{}", lines("\t", 0)),
        format!(
            "<graphml><graph edgedefault=\"undirected\">{}{}</graph></graphml>",
            nodes(|node| format!("<node id=\"h{node}\"/>")),
            edges(|(a, b)| format!("<edge source=\"h{a}\" target=\"h{b}\"/>"))
        ),
    ];
    for file in files {
        let text = scenario(network, MESSAGES, "").replace("degree = 6", "kind = \"file\"\nfile = \"graph\"");
        let loaded = load(&text, Inputs::default().with("graph", file.clone()));
        let scenario = &loaded.points[0].scenario;
        assert_eq!(scenario.network.nodes, NODES, "{file}");
        assert_eq!(
            network::graph(scenario, &loaded.inputs, 1).map(|(graph, _)| graph),
            Ok(graph.clone()),
            "{file}"
        );
        assert_eq!(digests(&loaded, 1), [plain()], "{file}");
        let names = host_names(&scenario.network, &loaded.inputs).unwrap();
        assert_eq!(names.is_some(), file.contains("h15"), "numbers are not names");
    }
    // Numbers that start at 1 are names: hosts are numbered by first appearance.
    let text = scenario(network, MESSAGES, "").replace("degree = 6", "kind = \"file\"\nfile = \"graph\"");
    let loaded = load(&text, Inputs::default().with("graph", lines(" ", 1)));
    let names = host_names(&loaded.points[0].scenario.network, &loaded.inputs).unwrap().expect("names");
    assert_eq!((names.len(), names.find(&(graph.edges[0].0 + 1).to_string())), (16, Some(0)));
}

#[test]
fn names_connect_files() {
    let network = format!("nodes_file = \"nodes.csv\"\n{LATENCY}");
    let text = scenario(&network, "file = \"messages.csv\"", "")
        .replace("degree = 6", "kind = \"file\"\nfile = \"graph\"");
    let inputs = Inputs::default()
        .with("nodes.csv", "node,uplink_mbps\noslo,1\nbonn,2\nrome,3\n")
        .with("graph", "rome bonn\nbonn oslo\n")
        .with("latency.csv", ",rome,oslo,bonn\nrome,0,7,8\noslo,9,0,6\nbonn,4,5,0\n")
        .with("messages.csv", "at_ms,publisher\n0,rome\n1,oslo\n");
    let loaded = load(&text, inputs);
    let scenario = &loaded.points[0].scenario;
    let hosts = network::hosts(scenario, &loaded.inputs, 3, 1).unwrap();
    assert_eq!(hosts.names.as_ref().expect("names").all(), ["oslo", "bonn", "rome"]);
    let samara_sim::Latency::Pairs(pairs) = &hosts.latency else { panic!("pairs") };
    let ms = |from, to| pairs.get(from, to).as_millis();
    assert_eq!([ms(0, 1), ms(1, 0), ms(2, 0), ms(0, 2)], [6, 5, 7, 9]);
    assert_eq!(network::least_latency_nanos(&hosts), 4_000_000);
    let graph = network::graph(scenario, &loaded.inputs, 1).unwrap().0;
    assert_eq!(graph.edges, [(2, 1), (1, 0)]);
    assert_eq!(Plan::of(scenario, &loaded.inputs, 1).unwrap().publishers, [2, 0]);
    assert_eq!(scenario.network.latency.nanos(), 6_500_000, "the mean, for uses that need a single value");
}

#[test]
fn setting_a_file_in_a_run_overrides_the_key() {
    let text = scenario(
        "nodes = 16\nlatency = \"30 ms\"\nuplink = \"10 Mbit/s\"",
        MESSAGES,
        "[[run]]\nname = \"constant\"\n[[run]]\nname = \"measured\"\n[run.set]\n\"network.latency_file\" = { file = \"latency.csv\", kind = \
         \"one-way\", unit = \"ms\" }\n",
    );
    let inputs = Inputs::default().with("latency.csv", matrix(NODES, |_, _| 30.0));
    let loaded = load(&text, inputs.clone());
    assert_eq!(digests(&loaded, 1), [plain(), plain()]);
    // The written scenario is the same scenario: a sweep reads it again.
    let ids =
        |loaded: &Loaded| plan(loaded).unwrap().into_iter().map(|planned| planned.id).collect::<Vec<_>>();
    let again = load(&loaded.text, inputs.clone());
    assert_eq!(ids(&again), ids(&loaded));
    assert_eq!(again.text, loaded.text);
    // Other content is another point.
    let other = load(&text, Inputs::default().with("latency.csv", matrix(NODES, |_, _| 31.0)));
    assert_eq!(ids(&other)[0], ids(&loaded)[0]);
    assert_ne!(ids(&other)[1], ids(&loaded)[1]);
    // The same applies to the command line.
    let set = (
        "network.latency_file".to_owned(),
        "{ file = \"latency.csv\", kind = \"one-way\", unit = \"ms\" }".to_owned(),
    );
    let overrides = Overrides { set: vec![set], only: vec!["constant".to_owned()], ..Overrides::default() };
    let loaded =
        load_source("small.toml", &text, inputs, &overrides).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(digests(&loaded, 1), [plain()]);
}

#[test]
fn written_scenarios_load_as_the_same_points() {
    let inputs = Inputs::default()
        .with("nodes.csv", "node,uplink_mbps\n0,1\n1,2\n2,3\n3,3\n")
        .with("latency.csv", matrix(4, |_, _| 10.0))
        .with("messages.csv", "at_ms,publisher,size\n0,1,10 B\n");
    let text = scenario(&format!("nodes_file = \"nodes.csv\"\n{LATENCY}"), "file = \"messages.csv\"", "")
        .replace("degree = 6", "kind = \"ring\"");
    let loaded = load(&text, inputs.clone());
    let again = load(&loaded.text, inputs);
    assert_eq!(again.points, loaded.points);
    let files: Vec<(&str, String)> = loaded.files().into_iter().collect();
    assert_eq!(
        files,
        [
            ("messages.file", "messages.csv".to_owned()),
            ("network.latency_file", "latency.csv".to_owned()),
            ("network.nodes_file", "nodes.csv".to_owned())
        ]
    );
}

/// A scenario is written as text in a time that grows as its number of runs. A search for the points of
/// each run would take 400 times as long for 20 times as many.
#[test]
fn many_runs_are_written_in_linear_time() {
    let time = |runs: usize| {
        let run = |at| format!("[[run]]\nname = \"r{at}\"\n");
        let text = scenario("nodes = 16", MESSAGES, &(0..runs).map(run).collect::<String>());
        let seeds: Vec<u64> = (0..20).collect();
        let seeds = format!("seeds = {seeds:?}\ntitle");
        let mut loaded = load(&text.replacen("title", &seeds, 1), Inputs::default());
        // The machine may be busy with something else at one of these times.
        let of_one = |_| {
            let start = std::time::Instant::now();
            loaded.write().unwrap();
            start.elapsed()
        };
        (0..3).map(of_one).min().unwrap()
    };
    let (few, many) = (time(250), time(5_000));
    assert!(many < few * 150, "{few:?} {many:?}");
}

#[test]
fn seeds_and_values_that_repeat_are_named() {
    let text = scenario("nodes = 16", MESSAGES, "");
    let twice = text.replace("title", "seeds = [3, 1, 3]\ntitle");
    let found = error(&twice, Inputs::default());
    assert!(found.contains("scenario.seeds: has 3 twice; expected different seeds"), "{found}");
    let sweep = "[[sweep.axis]]\nkey = \"network.latency\"\nvalues = [\"1 s\", \"1000 ms\"]\n";
    let found = error(&format!("{text}{sweep}"), Inputs::default());
    assert!(found.ends_with("its values, \"1 s\" to \"1000 ms\", are the same; remove the axis"), "{found}");
    let names = "[network.regions]\nnames = [\"a\\nb\", \"c\"]\nweights = [1, 1]\n";
    let found = error(&format!("{text}{names}"), Inputs::default());
    assert!(found.contains("control character U+000A"), "{found}");
}

#[test]
fn errors_name_key_and_line() {
    let hosts = |rows: &str| Inputs::default().with("nodes.csv", format!("node,uplink_mbps\n{rows}"));
    let by_hosts = |rest: &str| scenario(&format!("nodes_file = \"nodes.csv\"\n{rest}"), MESSAGES, "");
    assert_eq!(
        error(&by_hosts("nodes = 5"), hosts("0,1\n1,1\n")),
        "small.toml:5: network.nodes_file: nodes.csv has 2 nodes, but network.nodes = 5; remove the key, or use the same number"
    );
    assert_eq!(
        error(&by_hosts("uplink = \"1 Mbit/s\""), hosts("0,1\n1,1\n")),
        "small.toml:6: network.uplink: nodes.csv has a column uplink, which replaces it; remove one of them (--set network.uplink= removes the key)"
    );
    assert_eq!(
        error(&by_hosts(""), hosts("0,1\n1,x\n")),
        "small.toml:5: network.nodes_file: nodes.csv:3: uplink is \"x\"; expected a number, since its column has a unit"
    );
    let missing = error(&by_hosts(""), Inputs::directory("nowhere"));
    assert!(missing.starts_with("small.toml:5: network.nodes_file: nodes.csv: "), "{missing}");
    assert!(missing.contains("nowhere/nodes.csv"), "{missing}");
    // A key that the scenario has, not the one that the file determines.
    assert_eq!(
        error(&by_hosts(""), hosts("0,1\n")),
        "small.toml:5: network.nodes_file: has 1 nodes; allowed are 2 to 1048576"
    );
    let late = Inputs::default().with("messages.csv", "at_ms\n1e11\n");
    let late = error(&scenario("nodes = 16", "file = \"messages.csv\"", ""), late);
    assert!(late.starts_with("small.toml:9: messages.file: makes a run of"), "{late}");
    let latest = Inputs::default().with("messages.csv", "at_ms\n1e12\n");
    let latest = error(&scenario("nodes = 16", "file = \"messages.csv\"", ""), latest);
    assert!(latest.contains("messages.file: messages.csv:2: at is 1e12"), "{latest}");
    let latencies = |text: String| Inputs::default().with("latency.csv", text);
    let by_latency = |rest: &str| scenario(&format!("{LATENCY}\n{rest}"), MESSAGES, "");
    assert_eq!(
        error(&by_latency("latency = \"1 ms\""), latencies(matrix(16, |_, _| 1.0))),
        "small.toml:6: network.latency: is replaced by network.latency_file; keep one of them (--set network.latency= or --set network.latency_file= removes one)"
    );
    assert_eq!(
        error(&by_latency("nodes = 17"), latencies(matrix(16, |_, _| 1.0))),
        "small.toml:5: network.latency_file: latency.csv: has 16 rows for 17 nodes; set network.nodes to at most 16, remove it, or use a file with a row for each node"
    );
    assert_eq!(
        error(&by_latency(""), latencies(matrix(16, |_, _| 0.0))),
        "small.toml:5: network.latency_file: latency.csv: the latency from 0 to 1 is 0; expected more than 0 between different nodes"
    );
    let of_regions = by_latency("").replace("kind =", "of = \"regions\", kind =");
    assert!(
        error(&of_regions, latencies(matrix(16, |_, _| 1.0)))
            .contains("has latencies between regions, but there are none")
    );
    let messages = |rest: &str| scenario("nodes = 16", &format!("file = \"messages.csv\"\n{rest}"), "");
    let table = |text: &str| Inputs::default().with("messages.csv", text);
    assert_eq!(
        error(&messages("rate = 5.0"), table("at_ms\n0\n")),
        "small.toml:10: messages.rate: is replaced by messages.file; keep one of them (--set messages.rate= or --set messages.file= removes one)"
    );
    assert_eq!(
        error(&messages("size = \"1 kB\""), table("at_ms,size\n0,1 kB\n")),
        "small.toml:10: messages.size: messages.file has a column size, which replaces it; remove one of them (--set messages.size= removes the key)"
    );
    assert_eq!(
        error(&messages(""), table("at_ms,publisher\n0,16\n")),
        "small.toml:9: messages.file: messages.csv:2: unknown node 16; nodes are numbered 0 to 15"
    );
    assert_eq!(
        error(&messages(""), table("at_ms,size\n0,20 MB\n")),
        "small.toml:9: messages.file: messages.csv:2: size is 20000000 B; allowed is 4 to 10485760"
    );
}

#[test]
fn notes_list_unused_data() {
    let text = scenario("", MESSAGES, "").replace("degree = 6", "kind = \"file\"\nfile = \"graph\"");
    let graphml = "<graphml><key id=\"u\" for=\"node\" attr.name=\"uplink_bps\"/><key id=\"l\" for=\"edge\" attr.name=\"latency_ms\"/>\
        <graph><node id=\"0\"><data key=\"u\">1e6</data></node><node id=\"1\"/>\
        <edge source=\"0\" target=\"1\"><data key=\"l\">1</data></edge></graph></graphml>";
    let loaded = load(&text, Inputs::default().with("graph", graphml));
    assert_eq!(
        loaded.notes,
        [
            "graph: its edges have latency_ms, which has no effect; network.latency_file would use it",
            "graph: its nodes have uplink_bps, which has no effect; network.nodes_file would use it"
        ]
    );
}

/// Links and their latencies in one file.
#[test]
fn one_table_has_links_and_latencies() {
    let links = "source,target,latency_ms,colour\na,b,10,red\nb,c,10,blue\n";
    let of = |spec: &str| {
        scenario(&format!("latency_file = {{ file = \"links\", kind = \"one-way\"{spec} }}"), MESSAGES, "")
            .replace("degree = 6", "kind = \"file\"\nfile = \"links\"")
    };
    let inputs = || Inputs::default().with("links", links);
    let missing = error(&of(""), inputs());
    assert!(
        missing.contains("has no latency from a to c") && missing.contains("paths = \"undirected\""),
        "{missing}"
    );
    let loaded = load(&of(", paths = \"undirected\""), inputs());
    assert_eq!(loaded.notes, ["links: further columns have no effect: colour"], "latency_ms has one");
    let hosts = network::hosts(&loaded.points[0].scenario, &loaded.inputs, 3, 1).expect("hosts");
    let samara_sim::Latency::Pairs(latencies) = &hosts.latency else { panic!("pairs") };
    assert_eq!(latencies.get(0, 2).as_millis(), 20);
    let apart = "source,target,latency_ms\na,b,10\n";
    let unreached =
        error(&of(", paths = \"undirected\""), inputs().with("links", apart.to_owned() + "c,d,5\n"));
    assert!(!unreached.contains("paths = \"undirected\""), "{unreached}");
}

#[test]
fn losses_of_pairs_reach_the_simulator() {
    let spec = "latency_file = { file = \"pairs\", kind = \"one-way\", unit = \"ms\", paths = \"undirected\", loss = \"lost\" }";
    let pairs = "source,destination,latency,lost\na,b,10,0\nb,c,10,0.25\na,a,1,0\nb,b,1,0\nc,c,2,0\n";
    let text = scenario(spec, MESSAGES, "").replace("degree = 6", "kind = \"full-mesh\"");
    let loaded = load(&text, Inputs::default().with("pairs", pairs));
    let hosts = network::hosts(&loaded.points[0].scenario, &loaded.inputs, 3, 1).expect("hosts");
    let (none, quarter) = (0.0, 0.25);
    let expected = [none, none, quarter, none, none, quarter, quarter, quarter, none];
    assert_eq!(hosts.losses, samara_sim::Losses::of_hosts(3, expected.into()));
    let samara_sim::Latency::Pairs(latencies) = &hosts.latency else { panic!("pairs") };
    assert_eq!(latencies.get(0, 2).as_millis(), 20, "the sum of both");
    let without = text.replace(", loss = \"lost\"", "");
    assert_ne!(
        digest(&text, Inputs::default().with("pairs", pairs)),
        digest(&without, Inputs::default().with("pairs", pairs))
    );
    // More hosts than places: places are regions.
    let places = scenario(&format!("nodes_file = \"nodes\"\n{spec}"), MESSAGES, "");
    let rows = (0..8).map(|host| format!("{host},{}\n", ["c", "a"][host % 2])).collect::<String>();
    let inputs = Inputs::default().with("pairs", pairs).with("nodes", format!("node,region\n{rows}"));
    let loaded = load(&places, inputs);
    let point = &loaded.points[0].scenario;
    let hosts = network::hosts(point, &loaded.inputs, 8, 1).expect("hosts");
    assert_eq!(hosts.losses, samara_sim::Losses::of_regions(2, [none, quarter, quarter, none].into()));
    let matrix = &point.network.regions.as_ref().expect("regions").latency;
    let ms: Vec<u64> = matrix.iter().flatten().map(|latency| latency.nanos() / 1_000_000).collect();
    assert_eq!(ms, [2, 20, 20, 1], "the latency within a place is that of its edge to itself");
    let ideal = format!("{text}[transport]\nkind = \"ideal\"\n");
    assert!(
        error(&ideal, Inputs::default().with("pairs", pairs))
            .contains("the ideal transport does not retransmit")
    );
    for kind in ["cut", "partition"] {
        let fault = format!("[[fault]]\nkind = \"{kind}\"\nat = \"1 s\"\nuntil = \"2 s\"\nnodes = [1]\n");
        let text = scenario("", MESSAGES, &format!("[transport]\nkind = \"ideal\"\n{fault}"));
        let refusal = error(&text, Inputs::default());
        assert!(refusal.contains("fault.0.kind: loses packets, but the ideal transport"), "{refusal}");
    }
}

proptest! {
    /// Any file content is either read or rejected.
    #[test]
    fn no_file_causes_a_panic(text in ".{0,200}", rows in "[0-9a-c ,;\n\"{}<>\\[\\]#-]{0,200}") {
        for file in [text.as_str(), rows.as_str()] {
            let inputs = Inputs::default().with("nodes.csv", file).with("graph", file).with("latency.csv", file)
                .with("messages.csv", file);
            for keys in ["nodes_file = \"nodes.csv\"", LATENCY] {
                let _ = load_source("s", &scenario(keys, MESSAGES, ""), inputs.clone(), &Overrides::default());
            }
            let graph = scenario("", MESSAGES, "").replace("degree = 6", "kind = \"file\"\nfile = \"graph\"");
            let _ = load_source("s", &graph, inputs.clone(), &Overrides::default());
            let messages = scenario("", "file = \"messages.csv\"", "");
            let _ = load_source("s", &messages, inputs, &Overrides::default());
        }
    }

    /// The simulator has exactly the latencies of the matrix, and the right minimum.
    #[test]
    fn pair_latencies_equal_the_matrix(seed in any::<u64>(), size in 2u32..12) {
        let value = |from: u32, to: u32| {
            let mut rng = NodeRng::new(seed, u64::from(from * 100 + to), Purpose::Network);
            1 + rng.below(300_000_000)
        };
        let text = matrix(size, |from, to| value(from, to) as f64 / 1e6);
        let scenario = scenario(LATENCY, MESSAGES, "").replace("degree = 6", "kind = \"full-mesh\"");
        let loaded = load_source("s", &scenario, Inputs::default().with("latency.csv", text), &Overrides::default())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let hosts = network::hosts(&loaded.points[0].scenario, &loaded.inputs, size, 1).map_err(TestCaseError::fail)?;
        let samara_sim::Latency::Pairs(pairs) = &hosts.latency else { return Err(TestCaseError::fail("pairs")) };
        let others = (0..size).flat_map(|from| (0..size).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let mut least = u64::MAX;
        for (from, to) in others {
            prop_assert_eq!(pairs.get(from, to).as_nanos() as u64, value(from, to));
            least = least.min(value(from, to));
        }
        prop_assert_eq!(network::least_latency_nanos(&hosts), least);
    }
}
