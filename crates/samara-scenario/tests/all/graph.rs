//! Tests of graph files: edge lists and GraphML, with their hosts and latencies.

use std::sync::Arc;

use samara_scenario::{GraphFile, HostTable, Inputs, LatencyFile, LatencyKind, LatencyTable, LatencyUnit};

fn graph(text: &str) -> Result<Arc<GraphFile>, String> {
    GraphFile::read("g", &Inputs::default().with("g", text))
}

fn ends(graph: &GraphFile) -> Vec<(&str, &str)> {
    let name = |node: &u32| graph.names.all()[*node as usize].as_str();
    graph.edges.iter().map(|(a, b)| (name(a), name(b))).collect()
}

/// Output of NetworkX.
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

#[test]
fn reads_the_same_graph_from_all_edge_lists() {
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
fn merges_both_directions_and_ignores_loops() {
    let graph = graph("a b\nb a\nb b\nb c\n").expect("a valid graph");
    assert_eq!(ends(&graph), [("a", "b"), ("b", "c")]);
    assert_eq!(graph.notes.len(), 2, "{:?}", graph.notes);
    assert!(graph.notes[0].contains("1 edges are listed in both directions"), "{:?}", graph.notes);
}

#[test]
fn errors_in_edge_lists_name_the_line() {
    let error = |text: &str| graph(text).expect_err("an error");
    assert_eq!(
        error("a b\n\na b\n"),
        "g:3: duplicate edge between a and b; between two nodes there is one link"
    );
    assert_eq!(error("a b\nc\n"), "g:2: found \"c\", expected the two nodes of an edge");
    assert_eq!(
        error("a b c d e\n"),
        "g:1: found 5 values, expected the two nodes of an edge and its data; write an edge list, not an adjacency list"
    );
    assert_eq!(error("# nothing\n"), "g: has no edges");
    assert_eq!(
        error("dialer,listener\n0,1\n1,0\n"),
        "g:3: duplicate edge between 1 and 0; between two nodes there is one link"
    );
    assert_eq!(error("dialer,listener\n0,0\n"), "g:2: node 0 cannot have a link to itself");
    assert_eq!(error("dialer,listener\n0,1,2\n"), "g:2: \"0,1,2\" is not a pair of nodes");
}

#[test]
fn graphml_keeps_node_order_and_attributes() {
    let graph = graph(NETWORKX).expect("a valid graph");
    assert_eq!(
        (graph.names.all(), ends(&graph)),
        (["b".to_owned(), "a".to_owned()].as_slice(), vec![("a", "b")])
    );
    assert!(graph.has_latencies() && graph.has_rates());
    let hosts = HostTable::read("g", &Inputs::default().with("g", NETWORKX)).expect("a valid graph");
    assert_eq!(hosts.regions, ["us", "eu"], "the second is a default");
    let bps: Vec<u64> = hosts.uplink.iter().flatten().map(|rate| rate.bps()).collect();
    assert_eq!((bps, hosts.downlink.as_ref()), (vec![20_000_000, 1_000_000_000], None));
}

#[test]
fn nodes_of_igraph_and_gephi_have_their_names() {
    let text = |second: &str| {
        format!(
            r#"<graphml><key id="v" for="node" attr.name="name" attr.type="string"/><graph>
            <node id="n0"><data key="v">paris</data></node><node id="n1"><data key="v">{second}</data></node>
            <edge source="n0" target="n1"/></graph></graphml>"#
        )
    };
    assert_eq!(ends(&graph(&text("rome")).expect("a valid graph")), [("paris", "rome")]);
    assert_eq!(ends(&graph(&text("paris")).expect("a valid graph")), [("n0", "n1")], "not unique");
}

#[test]
fn errors_in_graphml_name_the_line() {
    let error = |text: &str| graph(text).expect_err("an error");
    assert_eq!(
        error("<svg/>"),
        "g:1: found <svg>, expected <graphml>; GraphML is the only supported XML format"
    );
    assert_eq!(error("<graphml/>"), "g: has no <graph>");
    assert!(error("<graphml>\n<graph>\n</graphml>").starts_with("g:3: "));
    let graph = |inner: &str| error(&format!("<graphml><graph>\n{inner}\n</graph></graphml>"));
    assert_eq!(graph("<node id='a'/><edge source='a' target='b'/>"), "g:2: unknown node b");
    assert_eq!(graph("<node id='a'/>\n<node id='a'/>"), "g:3: duplicate node `a`");
    assert_eq!(graph("<hyperedge/>"), "g:2: found a <hyperedge>; a link has two ends");
    assert_eq!(
        graph("<node id='a'><graph/></node>"),
        "g:2: node a contains a graph; nested graphs are not supported"
    );
    // Entities are rejected, since they can expand without bound.
    assert!(error("<!DOCTYPE a [<!ENTITY b 'c'>]><graphml>&b;</graphml>").starts_with("g:1: "));
}

#[test]
fn attribute_must_exist_for_all_nodes_or_none() {
    let error = |text: &str| HostTable::read("g", &Inputs::default().with("g", text)).expect_err("an error");
    let some = NETWORKX.replace("<data key=\"d0\">1 Gbit/s</data>", "");
    assert_eq!(error(&some), "g:8: uplink is empty; expected a value");
    assert_eq!(
        error(&NETWORKX.replace("\"uplink\"", "\"color\"").replace("\"region\"", "\"shape\"")),
        "g: no node has a known attribute; expected uplink, downlink, region or validation_time"
    );
    let none = NETWORKX.replace("20 Mbit/s", "0 bit/s");
    assert_eq!(error(&none), "g:7: uplink is 0 bit/s; a node needs a positive rate");
    assert!(error("graph [\n node [ id 0 ] ]").contains("python -m samara.data g"));
}

#[test]
fn edge_latencies_have_the_configured_kind() {
    let spec = |kind, unit| LatencyFile { file: "g".to_owned(), kind, unit, ..LatencyFile::default() };
    let pairs = |text: &str, kind, unit| {
        let inputs = Inputs::default().with("g", text);
        let spec = spec(kind, unit);
        let table = LatencyTable::read(&spec, &inputs)?;
        let rows = table.rows_of_hosts(2, None)?;
        let pairs = table.between_hosts(&rows, &spec)?;
        Ok::<_, String>([pairs[1] / 1_000, pairs[2] / 1_000])
    };
    assert_eq!(pairs(NETWORKX, LatencyKind::OneWay, None), Ok([12_500; 2]), "its name has the unit");
    let reverse = NETWORKX
        .replace(
            "<key id=\"d1\"",
            "<key id=\"d3\" for=\"edge\" attr.name=\"latency_reverse_ms\"/><key id=\"d1\"",
        )
        .replace("</edge>", "<data key=\"d3\">14</data></edge>");
    assert_eq!(pairs(&reverse, LatencyKind::OneWay, None), Ok([14_000, 12_500]), "the edge is from a to b");
    let text = NETWORKX.replace("latency_ms", "delay").replace("12.5", "30 ms");
    assert_eq!(pairs(&text, LatencyKind::RoundTrip, None), Ok([15_000; 2]));
    let number = text.replace("30 ms", "30");
    assert_eq!(pairs(&number, LatencyKind::OneWay, Some(LatencyUnit::Milliseconds)), Ok([30_000; 2]));
    let error = pairs(&number, LatencyKind::OneWay, None).expect_err("no unit");
    assert!(error.starts_with("g:9: from a to b: found 30, which has no unit"), "{error}");
    let error = pairs(&NETWORKX.replace("latency", "weight"), LatencyKind::OneWay, None);
    assert!(error.expect_err("no latency").starts_with("g: no edge has a latency"));
}
