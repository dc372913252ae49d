use super::*;
use crate::scenario::{LatencyFile, LatencyKind, LatencyUnit};

fn graph(text: &str) -> Result<Arc<GraphFile>, String> {
    GraphFile::read("g", &Inputs::default().with("g", text))
}

fn ends(graph: &GraphFile) -> Vec<(&str, &str)> {
    let name = |node: &u32| graph.names.all()[*node as usize].as_str();
    graph.edges.iter().map(|(a, b)| (name(a), name(b))).collect()
}

/// As NetworkX writes it.
const NETWORKX: &str = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d2" for="edge" attr.name="latency_ms" attr.type="double"/>
  <key id="d1" for="node" attr.name="region" attr.type="string"><default>eu</default></key>
  <key id="d0" for="node" attr.name="uplink" attr.type="string"/>
  <graph edgedefault="undirected">
    <node id="b"><data key="d0">20 Mbit/s</data><data key="d1">us</data></node>
    <node id="a"><data key="d0">1 Gbit/s</data></node>
    <edge source="a" target="b"><data key="d2">12.5</data></edge>
  </graph>
</graphml>"#;

/// As Shadow reads it.
const SHADOW: &str = r#"graph [
  # a comment with a ]
  directed 0
  node [ id 0 label "first" host_bandwidth_down "100 Mbit" host_bandwidth_up "50 Mbit" ]
  node [ id 1 label "second" host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gibit" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
  edge [ source 1 target 0 latency "30 ms" ]
]"#;

#[test]
fn edge_lists_of_all_kinds_are_the_same_graph() {
    for text in [
        "dialer,listener\n0,1\n2,1\n",
        "0 1\n2 1\n",
        "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n2\t1\n",
        "0 1 {'weight': 3, 'color': 'deep red'}\n2 1 {}\n",
        "0,1\n2,1\n",
        "Source;Target;Type;Id;Weight\n0;1;Undirected;0;1.0\n2;1;Undirected;1;1.0\n",
        "\u{feff}target,source\n1,0\n1,2\n",
    ] {
        let graph = graph(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ends(&graph), [("0", "1"), ("2", "1")], "{text}");
    }
}

#[test]
fn both_directions_are_one_link_and_loops_none() {
    let graph = graph("a b\nb a\nb b\nb c\n").expect("is right");
    assert_eq!(ends(&graph), [("a", "b"), ("b", "c")]);
    assert_eq!(graph.notes.len(), 2, "{:?}", graph.notes);
    assert!(graph.notes[0].contains("1 edges are there in both directions"), "{:?}", graph.notes);
}

#[test]
fn mistakes_in_lists_have_their_lines() {
    let error = |text: &str| graph(text).expect_err("something is wrong");
    assert_eq!(
        error("a b\n\na b\n"),
        "g:3: the edge between a and b is there twice; between two hosts there is one link"
    );
    assert_eq!(error("a b\nc\n"), "g:2: found \"c\", expected the two nodes of an edge");
    assert_eq!(
        error("a b c d e\n"),
        "g:1: found 5 values, expected the two nodes of an edge and its data; adjacency lists are not read, write an edge list"
    );
    assert_eq!(error("# nothing\n"), "g: has no edges");
    assert_eq!(error("dialer,listener\n0,1\n1,0\n"), "g:3: the edge between 1 and 0 is there twice");
    assert_eq!(error("dialer,listener\n0,0\n"), "g:2: host 0 cannot have a link to itself");
    assert_eq!(error("dialer,listener\n0,1,2\n"), "g:2: \"0,1,2\" is not a pair of hosts");
}

#[test]
fn graphml_has_nodes_in_its_order_and_attributes() {
    let graph = graph(NETWORKX).expect("is right");
    assert_eq!(
        (graph.names.all(), ends(&graph)),
        (["b".to_owned(), "a".to_owned()].as_slice(), vec![("a", "b")])
    );
    assert!(graph.has_latencies() && graph.has_rates());
    let hosts = HostTable::read("g", &Inputs::default().with("g", NETWORKX)).expect("is right");
    assert_eq!(hosts.regions, ["us", "eu"], "one is a default");
    let bps: Vec<u64> = hosts.uplink.iter().flatten().map(|rate| rate.bps()).collect();
    assert_eq!((bps, hosts.downlink.as_ref()), (vec![20_000_000, 1_000_000_000], None));
}

#[test]
fn nodes_of_igraph_and_gephi_are_called_by_their_names() {
    let text = |second: &str| {
        format!(
            r#"<graphml><key id="v" for="node" attr.name="name" attr.type="string"/><graph>
            <node id="n0"><data key="v">paris</data></node><node id="n1"><data key="v">{second}</data></node>
            <edge source="n0" target="n1"/></graph></graphml>"#
        )
    };
    assert_eq!(ends(&graph(&text("rome")).expect("is right")), [("paris", "rome")]);
    assert_eq!(ends(&graph(&text("paris")).expect("is right")), [("n0", "n1")], "not unique");
}

#[test]
fn mistakes_in_graphml_have_their_lines() {
    let error = |text: &str| graph(text).expect_err("something is wrong");
    assert_eq!(error("<svg/>"), "g:1: found <svg>, expected <graphml>; of XML formats only GraphML is read");
    assert_eq!(error("<graphml/>"), "g: has no <graph>");
    assert!(error("<graphml>\n<graph>\n</graphml>").starts_with("g:3: "));
    let graph = |inner: &str| error(&format!("<graphml><graph>\n{inner}\n</graph></graphml>"));
    assert_eq!(graph("<node id='a'/><edge source='a' target='b'/>"), "g:2: there is no node b");
    assert_eq!(graph("<node id='a'/>\n<node id='a'/>"), "g:3: the node a is there twice");
    assert_eq!(graph("<hyperedge/>"), "g:2: found a <hyperedge>; a link has two ends");
    assert_eq!(
        graph("<node id='a'><graph/></node>"),
        "g:2: the node a has a graph in it; nested graphs are not read"
    );
    // Entities that grow are not taken.
    assert!(error("<!DOCTYPE a [<!ENTITY b 'c'>]><graphml>&b;</graphml>").starts_with("g:1: "));
}

#[test]
fn gml_of_shadow_has_rates_and_latencies() {
    assert!(
        is_gml(SHADOW) && is_gml("Creator \"igraph\"\nVersion 1\ngraph\n[\n") && !is_gml("graph a\nb c\n")
    );
    let graph = graph(SHADOW).expect("is right");
    assert_eq!(ends(&graph), [("second", "first")]);
    assert_eq!(graph.notes, ["g: 1 edges from a node to itself are no links"]);
    let hosts = HostTable::read("g", &Inputs::default().with("g", SHADOW)).expect("is right");
    let bps = |rates: &Option<Vec<samara_engine::units::Rate>>| -> Vec<u64> {
        rates.iter().flatten().map(|rate| rate.bps()).collect()
    };
    assert_eq!(bps(&hosts.uplink), [50_000_000, 1 << 30]);
    assert_eq!(bps(&hosts.downlink), [100_000_000, 1_000_000_000]);
}

#[test]
fn mistakes_in_gml_have_their_lines() {
    let error = |text: &str| graph(text).expect_err("something is wrong");
    assert_eq!(error("graph [\nnode [ id 0 ]\nedge [ source 0 target 1 ]\n]"), "g:3: there is no node 1");
    assert_eq!(error("graph [\nnode [ id 0 ]\n"), "g:2: the file ends inside of graph [ ... ]");
    assert_eq!(error("graph [\nnode [ id ]\n]"), "g:2: id has no value");
    assert_eq!(error("graph [ ] ]"), "g:1: found a ] without its [");
}

#[test]
fn edges_have_latencies_of_the_kind_that_is_said() {
    let spec = |kind, unit| LatencyFile {
        file: "g".to_owned(),
        kind,
        unit,
        of: None,
        format: None,
        column: None,
        names: None,
        within: None,
        others: None,
    };
    let least = |text: &str, kind, unit| {
        let inputs = Inputs::default().with("g", text);
        let spec = spec(kind, unit);
        let table = LatencyTable::read(&spec, &inputs)?;
        let rows = table.rows_of_hosts(2, None)?;
        table.between_hosts(&rows, &spec).map(|pairs| pairs.least().as_micros())
    };
    assert_eq!(least(NETWORKX, LatencyKind::OneWay, None), Ok(12_500), "its name has the unit");
    assert_eq!(least(SHADOW, LatencyKind::RoundTrip, None), Ok(15_000));
    let number = SHADOW.replace("\"30 ms\"", "30");
    assert_eq!(least(&number, LatencyKind::OneWay, Some(LatencyUnit::Milliseconds)), Ok(30_000));
    let error = least(&number, LatencyKind::OneWay, None).expect_err("no unit");
    assert!(error.starts_with("g: edge from second to first: found 30, which has no unit"), "{error}");
    let error = least("a b\n", LatencyKind::OneWay, None).expect_err("no latency");
    assert!(!error.is_empty());
}
