//! Properties of graphs and custody sets.

use proptest::prelude::*;
use samara_document::{Inputs, ScenarioError};
use samara_engine::units::{Rate, Share, Size, Span};
use samara_lab::network::{custody, graph};
use samara_scenario::{Overrides, Scenario};

use crate::{load_source, loaded, refused};

proptest! {
    #[test]
    fn units_survive_a_round_trip(value in 0u64..10_000_000_000_000) {
        prop_assert_eq!(Span::parse(&Span::parse(&format!("{value} ns")).unwrap().to_string()).unwrap().nanos(), value);
        prop_assert_eq!(Size::parse(&Size::from_bytes(value).to_string()).unwrap().bytes(), value);
        prop_assert_eq!(Rate::parse(&Rate::from_bps(value).to_string()).unwrap().bps(), value);
    }
}

#[test]
fn units_are_written_in_short_form() {
    for (text, written) in
        [("0.05 s", "50 ms"), ("0 ms", "0 s"), ("0.1 s", "100 ms"), ("1500 ms", "1.5 s"), ("90 s", "90 s")]
    {
        assert_eq!(Span::parse(text).unwrap().to_string(), written);
    }
    assert_eq!(Rate::parse("0 Mbit/s").unwrap().to_string(), "0 bit/s");
    assert_eq!(Rate::parse("20000 kbit/s").unwrap().to_string(), "20 Mbit/s");
    assert_eq!(Size::parse("131072 B").unwrap().to_string(), "128 KiB");
    assert_eq!(Share::parse("0.1 %").unwrap().to_string(), "0.1 %");
    assert!((Share::parse("0.1 %").unwrap().fraction() - 0.001).abs() < 1e-12);
    assert!(Span::parse("-5 ms").is_err() && Size::parse("5").is_err() && Rate::parse("fast").is_err());
}

fn scenario(set: &[(&str, &str)]) -> Scenario {
    Scenario::clone(&loaded("peerdas", set, &["batch"], None).points[0].scenario)
}

#[test]
fn every_subscriber_finds_peers_for_its_topics() {
    let scenario = scenario(&[("network.nodes", "300"), ("network.topology.topic_peers_min", "6")]);
    let (graph, kept) = graph(&scenario, &Inputs::default(), 3).unwrap();
    assert_eq!(kept[0].len(), 128, "the publisher joins all topics");
    assert!(kept[1..].iter().all(|columns| columns.len() == 16));
    let neighbours = graph.neighbours();
    for (node, columns) in kept.iter().enumerate() {
        for column in columns {
            let peers = neighbours[node].iter().filter(|peer| kept[**peer as usize].contains(column)).count();
            assert!(peers >= 6, "node {node}, column {column}: {peers}");
        }
    }
}

#[test]
fn custody_and_graphs_follow_the_seed() {
    let scenario = scenario(&[("network.nodes", "100")]);
    let here = &Inputs::default();
    assert_eq!(custody(&scenario, here, 1).unwrap(), custody(&scenario, here, 1).unwrap());
    assert_ne!(custody(&scenario, here, 1).unwrap(), custody(&scenario, here, 2).unwrap());
}

#[test]
fn reference_graph_and_custody_match_their_description() {
    let loaded = loaded("peerdas-reference", &[], &[], None);
    let scenario = &loaded.points[0].scenario;
    let (graph, kept) = graph(scenario, &Inputs::default(), 1).unwrap();
    assert_eq!(kept[0].len(), 128);
    assert!(kept[1..].iter().all(|columns| columns.len() == 16));
    assert!(graph.neighbours().iter().all(|neighbours| neighbours.len() == 70));
}

/// Returns a scenario with a graph of four hosts from memory.
fn with_graph(edges: &str, set: &[(&str, &str)]) -> Result<(Scenario, Inputs), ScenarioError> {
    let text = "[scenario]\nname = \"graph\"\ntitle = \"\"\n[messages]\n[network.topology]\nkind = \"file\"\nfile = \"edges\"\n";
    let inputs = Inputs::default().with("edges", edges);
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    let loaded = load_source("graph.toml", text, inputs, &overrides)?;
    Ok((Scenario::clone(&loaded.points[0].scenario), loaded.inputs))
}

#[test]
fn rejects_unknown_data_files() {
    let set = [("network.topology.kind", "file"), ("network.topology.file", "builtin:nothing.csv")];
    let unknown = refused("peerdas", &set, &["batch"]);
    assert!(unknown.contains("unknown data file"), "{unknown}");
}

#[test]
fn rejects_unreachable_hosts() {
    let (split, inputs) = with_graph("dialer,listener\n0,1\n2,3\n", &[]).unwrap();
    assert_eq!(split.network.nodes, 4, "one node for each host of the graph");
    let error = graph(&split, &inputs, 1).unwrap_err();
    let part =
        "edges: the graph is not connected: no path leads from the largest part of it to 2 of 4 nodes: 2, 3";
    assert!(error.contains(part), "{error}");
    // Nodes have the names of the file, and their labels if these are not unique.
    let node = |id: &str, label: &str| format!("<node id='{id}'><data key='l'>{label}</data></node>");
    let text = format!(
        "<graphml><key id='l' for='node' attr.name='label'/><graph>{}{}{}{}<edge source='n0' target='n1'/></graph></graphml>",
        node("n0", "Oslo"),
        node("n1", "Rome"),
        node("n2", "Bonn"),
        node("n3", "Bonn"),
    );
    let (named, inputs) = with_graph(&text, &[]).unwrap();
    let error = graph(&named, &inputs, 1).unwrap_err();
    assert!(error.contains("edges: 2 of 4 nodes have no edge: n2 (\"Bonn\"), n3 (\"Bonn\")"), "{error}");
    let (named, inputs) = with_graph(&text.replacen("Bonn", "Kiel", 1), &[]).unwrap();
    let error = graph(&named, &inputs, 1).unwrap_err();
    assert!(error.contains("2 of 4 nodes have no edge: Kiel, Bonn"), "{error}");
    let (alone, inputs) = with_graph("dialer,listener\n0,1\n1,3\n", &[]).unwrap();
    let error = graph(&alone, &inputs, 1).unwrap_err();
    assert!(error.contains("edges: node 2 has no edge"), "{error}");
}

#[test]
fn smaller_runs_use_the_first_hosts_of_a_table() {
    let table = "dialer,listener\n0,1\n1,2\n3,2\n2,4\n";
    let (first, inputs) = with_graph(table, &[("network.nodes", "3")]).unwrap();
    assert_eq!(graph(&first, &inputs, 1).map(|(graph, _)| graph.edges), Ok(vec![(0, 1), (1, 2)]));
    let error = with_graph(table, &[("network.nodes", "6")]).unwrap_err().to_string();
    assert!(error.contains("has 5 nodes, but network.nodes = 6; remove network.nodes"), "{error}");
}

/// `tests/python/test_independent.py` draws the same graphs with NetworkX.
#[test]
fn graphs_of_the_study_grow_by_attachment() {
    for nodes in ["50", "10000"] {
        let values = format!("[{nodes}]");
        let set = [("sweep.axis.0.values", values.as_str())];
        let loaded = loaded("gossip-parameters", &set, &["default"], None);
        let scenario = &loaded.points[0].scenario;
        let (graph, _) = graph(scenario, &Inputs::default(), 1).unwrap();
        let mut dialled = vec![0; graph.nodes as usize];
        graph.edges.iter().for_each(|(dialer, _)| dialled[*dialer as usize] += 1);
        assert!(
            dialled[1..7].iter().all(|links| *links == 1) && dialled[7..].iter().all(|links| *links == 6)
        );
        assert_eq!(graph.edges.len(), 6 + 6 * (graph.nodes as usize - 7));
        assert!(graph.edges.iter().all(|(dialer, listener)| dialer > listener));
    }
}
