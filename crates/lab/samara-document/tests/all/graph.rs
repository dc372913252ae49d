//! Tests of graph files: edge lists and GraphML, with their hosts and latencies.

use std::sync::Arc;

use samara_document::{
    GraphFile, HostTable, Inputs, LatencyFile, LatencyKind, LatencyTable, LatencyUnit, Network, Topology,
    unused_attributes,
};

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
fn parallel_edges_directions_and_loops_are_one_link_with_a_note() {
    for text in [
        "a b\nb a\nb b\na b\nb c\n",
        "dialer,listener\na,b\nb,a\nb,b\na,b\nb,c\n",
        "<graphml><graph edgedefault='directed'><node id='a'/><node id='b'/><node id='c'/><edge source='a' target='b'/>\
         <edge source='b' target='a'/><edge source='b' target='b'/><edge source='a' target='b' id='second'/>\
         <edge source='b' target='c'/></graph></graphml>",
    ] {
        let read = graph(text).expect("a valid graph");
        assert_eq!(ends(&read), [("a", "b"), ("b", "c")], "{text}");
        assert_eq!(
            read.notes,
            [
                "g: 1 edges repeat another edge (the first from a to b); two nodes have one link, with the least latency of its edges",
                "g: 1 edges are listed in both directions (the first from b to a); each is one link, dialed by the first end listed",
                "g: 1 edges from a node to itself are no links (the first from b to b); only their latencies can have an effect",
            ],
            "{text}"
        );
    }
    // Without directions, an edge from b to a is another edge from a to b.
    let text = "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/>\
                <edge source='b' target='a'/></graph></graphml>";
    let notes = &graph(text).expect("a valid graph").notes;
    assert!(notes.len() == 1 && notes[0].contains("1 edges repeat another edge"), "{notes:?}");
}

#[test]
fn parallel_edges_have_the_least_latency() {
    let read = |edges: &str, default: &str| {
        let text = format!(
            "<graphml><key id='l' for='edge' attr.name='latency_ms'/><graph edgedefault='{default}'>\
             <node id='a'/><node id='b'/>{edges}</graph></graphml>"
        );
        let inputs = Inputs::default().with("g", text);
        let spec = LatencyFile { file: "g".to_owned(), ..LatencyFile::default() };
        let table = LatencyTable::read(&spec, &inputs).expect("latencies");
        let pairs = table.between_hosts(&[0, 1], &spec).expect("all pairs");
        [pairs[1] / 1_000_000, pairs[2] / 1_000_000]
    };
    let edge = |from: &str, to: &str, ms: u32| {
        format!("<edge source='{from}' target='{to}'><data key='l'>{ms}</data></edge>")
    };
    let both = edge("a", "b", 30) + &edge("a", "b", 20) + &edge("b", "a", 10);
    assert_eq!(read(&both, "undirected"), [10, 10]);
    assert_eq!(read(&both, "directed"), [20, 10]);
    assert_eq!(read(&edge("a", "b", 30), "directed"), [30, 30], "one direction stands for both");
}

#[test]
fn errors_in_edge_lists_name_the_line() {
    let error = |text: &str| graph(text).expect_err("an error");
    assert_eq!(error("a b\nc\n"), "g:2: found \"c\", expected the two nodes of an edge");
    assert_eq!(
        error("a b c d e\n"),
        "g:1: found 5 values, expected the two nodes of an edge and its data; write an edge list, not an adjacency list"
    );
    assert_eq!(error("# nothing\n"), "g: has no edges");
    assert_eq!(error("dialer,listener\n0,1,2\n"), "g:2: \"0,1,2\" is not a pair of nodes");
}

#[test]
fn graphml_keeps_node_order_and_attributes() {
    let graph = graph(NETWORKX).expect("a valid graph");
    assert_eq!(
        (graph.names.all(), ends(&graph)),
        (["b".to_owned(), "a".to_owned()].as_slice(), vec![("a", "b")])
    );
    assert!(graph.has_latencies());
    let hosts = HostTable::read("g", &Inputs::default().with("g", NETWORKX)).expect("a valid graph");
    assert_eq!(hosts.regions, ["us", "eu"], "the second is a default");
    let bps: Vec<u64> = hosts.uplink.iter().flatten().map(|rate| rate.bps()).collect();
    assert_eq!((bps, hosts.downlink.as_ref()), (vec![20_000_000, 1_000_000_000], None));
}

/// Returns the notes on the attributes of a graph in a network that uses it in the given ways.
fn unused(text: &str, of_nodes: bool, latencies: Option<LatencyFile>) -> Vec<String> {
    let file = || "g".to_owned();
    let network = Network {
        topology: Topology::File { file: file(), topic_peers_min: 0 },
        nodes_file: of_nodes.then(file),
        latency_file: latencies.map(|spec| LatencyFile { file: file(), ..spec }),
        ..Network::default()
    };
    unused_attributes(&network, &Inputs::default().with("g", text)).expect("a valid graph")
}

#[test]
fn attributes_without_effect_are_named() {
    assert_eq!(
        unused(NETWORKX, false, None),
        [
            "g: its nodes have region, uplink, which has no effect; network.nodes_file would use it",
            "g: its edges have latency_ms, which has no effect; network.latency_file would use it",
        ]
    );
    assert!(unused(NETWORKX, true, Some(LatencyFile::default())).is_empty());
    let more = NETWORKX
        .replace(
            "<graph ",
            "<key id='n' for='node' attr.name='Country'/><key id='x' for='edge' attr.name='packet_loss'/>\
             <key id='y' for='edge' attr.name='rtt_ms'/><key id='z' for='graph' attr.name='Source'/><graph ",
        )
        .replace(
            "<node id=\"b\">",
            "<data key='z'>w</data><node id=\"b\" color=\"red\"><data key='n'>Oslo</data>",
        )
        .replace(
            "</edge>",
            "<data key='x'>0.5</data><data key='y'>3</data><data key='undeclared'>4</data></edge>",
        );
    assert_eq!(
        unused(&more, true, Some(LatencyFile::default())),
        [
            "g: its edges have packet_loss, which has no effect; network.latency_file.loss would use it",
            "g: its edges have rtt_ms beside latency_ms, which has no effect",
            "g: unknown attributes of the graph have no effect: Source (1)",
            "g: unknown attributes of nodes have no effect: Country (1), color (1)",
            "g: unknown attributes of edges have no effect: undeclared (1)",
        ]
    );
    let spec = LatencyFile { loss: Some("packet_loss".to_owned()), ..LatencyFile::default() };
    assert!(unused(&more, true, Some(spec)).iter().all(|note| !note.contains("packet_loss")));
    let graph = graph("source,target,weight,kind\na,b,3,x\n").expect("a valid graph");
    let beside = "g: columns beside those of the two nodes have no effect: weight, kind";
    assert_eq!((graph.notes.len(), graph.beside.as_deref()), (0, Some(beside)));
}

/// A key of a scenario finds an attribute in any case, and then it has an effect.
#[test]
fn losses_in_another_case_have_an_effect() {
    let text = "<graphml><key id='l' for='edge' attr.name='Latency_ms'/><key id='p' for='edge' attr.name='Packet_Loss'/>\
                <graph><node id='a'/><node id='b'/><edge source='a' target='b'><data key='l'>5</data>\
                <data key='p'>0.5</data></edge></graph></graphml>";
    let spec = |loss: Option<&str>| LatencyFile {
        file: "g.graphml".to_owned(),
        loss: loss.map(str::to_owned),
        ..LatencyFile::default()
    };
    assert!(
        unused(text, false, Some(spec(None)))[0].contains("its edges have packet_loss, which has no effect")
    );
    for loss in ["Packet_Loss", "packet_loss", "PACKET_LOSS"] {
        assert_eq!(unused(text, false, Some(spec(Some(loss)))), [""; 0], "{loss}");
    }
}

#[test]
fn labels_of_several_types_name_nodes() {
    // NetworkX writes a key for each type of an attribute.
    let text = "<graphml><key id='s' for='node' attr.name='label' attr.type='string'/>\
                <key id='i' for='node' attr.name='label' attr.type='long'/><graph>\
                <node id='0'><data key='s'>oslo</data></node><node id='1'><data key='i'>7</data></node>\
                <edge source='0' target='1'/></graph></graphml>";
    assert_eq!(ends(&graph(text).expect("a valid graph")), [("oslo", "7")]);
}

#[test]
fn quadratic_xml_is_refused() {
    let many = |what: &str| (0..257).map(|number| what.replace('#', &number.to_string())).collect::<String>();
    let error = |text: String| graph(&text).expect_err("an error");
    let head = "<graphml><!-- a=1 '> -->\n<graph";
    assert_eq!(
        error(format!("{head}{}/></graphml>", many(" a#='1'"))),
        "g:2: more than 256 attributes of an element"
    );
    let nested = many("<x xmlns:a#='1'/>");
    assert_eq!(error(format!("{head}>{nested}</graph></graphml>")), "g:2: more than 256 namespaces");
    // Text with the same characters is no attribute.
    let text = format!(
        "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/><desc>{0}<![CDATA[{0}]]></desc></graph></graphml>",
        many(" a#='1'")
    );
    assert!(graph(&text).is_ok());
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
    for (inner, expected) in [
        ("<node id='a'/><Edge source='a' target='a'/>", "found <Edge>, expected <edge>"),
        ("<Node id='a'/>", "found <Node>, expected <node>"),
        ("<node id='a'><Data key='region'>x</Data></node>", "found <Data>, expected <data>"),
        (
            "<node id='a'><data key='region'>x</data><data key='region'>y</data></node>",
            "duplicate attribute `region`",
        ),
        (
            "<node id='a'><data key='region'>x\ny</data></node>",
            "the attribute `region` has the control character U+000A; remove it",
        ),
        ("<node id='a&#10;b'/>", "the name `a\nb` of a node has the control character U+000A; remove it"),
    ] {
        assert_eq!(graph(inner), format!("g:2: {expected}"));
    }
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
        "g: no node has a known attribute; expected uplink, downlink, region, class or validation_time"
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
