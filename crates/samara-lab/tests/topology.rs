//! Graphs: their shape, those of NetworkX, and those of files.

use proptest::prelude::*;
use samara_engine::{NodeRng, Purpose};
use samara_lab::topology::{
    Graph, GraphError, ImportError, PythonRandom, barabasi_albert, full_mesh, random_regular, read_edges,
    read_graphml, regional, ring,
};

fn rng(seed: u64) -> NodeRng {
    NodeRng::new(seed, 0, Purpose::Topology)
}

fn is_regular(graph: &Graph, degree: usize) -> bool {
    (0..graph.nodes()).all(|node| graph.degree(node) == degree)
}

/// FNV-1a over "a-b;" of all edges in order.
fn checksum(graph: &Graph) -> u64 {
    let mut edges: Vec<_> = graph.edges().iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
    edges.sort_unstable();
    let text: String = edges.iter().map(|(a, b)| format!("{a}-{b};")).collect();
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn python_random_numbers() {
    let draw = |seed| {
        let mut random = PythonRandom::new(seed);
        [0; 4].map(|_| random.next_u32())
    };
    assert_eq!(draw(42), [2_746_317_213, 478_163_327, 107_420_369, 3_184_935_163]);
    assert_eq!(draw((1 << 40) + 5), [2_166_296_868, 2_220_160_828, 1_153_647_273, 2_850_991_874]);
    let mut random = PythonRandom::new(42);
    assert_eq!([0; 6].map(|_| random.below(1000)), [654, 114, 25, 759, 281, 250]);
}

#[test]
fn barabasi_albert_is_that_of_networkx() {
    let graph = barabasi_albert(10, 2, 42).unwrap();
    let mut edges: Vec<_> = graph.edges().iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    edges.sort_unstable();
    let expected = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 5),
        (0, 7),
        (0, 9),
        (1, 3),
        (1, 4),
        (1, 6),
        (1, 7),
        (1, 8),
        (2, 4),
        (3, 8),
        (4, 5),
        (4, 6),
        (6, 9),
    ];
    assert_eq!(edges, expected);
    // Checksums of the edges of networkx.barabasi_albert_graph(n, m, seed), NetworkX 3.6.1 with CPython 3.11.
    let golden = [
        (95, 2, 42, 186, 0x7e75_ede3_f430_82f0),
        (95, 6, 42, 534, 0x70c4_b900_d410_a72f),
        (95, 12, 42, 996, 0x1973_a818_fa66_2144),
        (95, 16, 42, 1264, 0x755f_ab29_7e38_d76f),
        (1000, 3, 0, 2991, 0xad17_a82d_63fe_85b4),
        (300, 100, 7, 20_000, 0x8cc2_0e00_9f50_7d27),
        (5000, 8, 123_456_789, 39_936, 0x8d7f_3f64_e660_b111),
        (200, 33, (1 << 40) + 5, 5511, 0x8d1b_aff2_0ed5_e0cb),
        (2, 1, 1, 1, 0xc77d_35f9_5d7f_61ea),
        (20_000, 20, 9, 399_600, 0x1d66_b642_7c58_ca12),
    ];
    for (nodes, m, seed, edges, expected) in golden {
        let graph = barabasi_albert(nodes, m, seed).unwrap();
        assert_eq!(
            (graph.edges().len(), checksum(&graph)),
            (edges, expected),
            "n {nodes}, m {m}, seed {seed}"
        );
    }
    assert_eq!(barabasi_albert(5, 5, 1), None);
    assert_eq!(barabasi_albert(5, 0, 1), None);
}

#[test]
fn regular_graphs_of_every_possible_degree() {
    for nodes in 2..14 {
        for degree in 1..nodes {
            let graph = random_regular(nodes, degree, &mut rng(u64::from(nodes * 100 + degree)));
            let possible = nodes * degree % 2 == 0 && (degree > 1 || nodes == 2);
            assert_eq!(graph.is_some(), possible, "{nodes} nodes, degree {degree}");
            if let Some(graph) = graph {
                assert!(is_regular(&graph, degree as usize) && graph.is_connected());
            }
        }
    }
}

#[test]
fn regular_graphs_differ_by_seed_only() {
    let edges = |seed| random_regular(200, 70, &mut rng(seed)).unwrap().edges().to_vec();
    assert_eq!(edges(1), edges(1));
    assert_ne!(edges(1), edges(2));
    // Either side dials about as often: of 7,000 links between 3,300 and 3,700 (more than four deviations).
    let ups = edges(1).iter().filter(|(dialler, listener)| dialler < listener).count();
    assert!((3300..=3700).contains(&ups), "{ups}");
}

#[test]
fn neighbours_of_regular_graphs_are_spread_evenly() {
    // Each pair is linked with probability 10/39: in 400 graphs about 103 times, deviation 8.7.
    let mut linked = vec![0u32; 40];
    for seed in 0..400 {
        let graph = random_regular(40, 10, &mut rng(seed)).unwrap();
        graph.links(0).iter().for_each(|link| linked[link.peer as usize] += 1);
    }
    assert_eq!(linked[0], 0);
    assert!(linked[1..].iter().all(|count| (60..=145).contains(count)), "{linked:?}");
}

#[test]
fn plain_shapes() {
    let mesh = full_mesh(20);
    assert!(is_regular(&mesh, 19));
    assert_eq!(mesh.edges().len(), 190);
    let ring_of_five = ring(5);
    assert!(is_regular(&ring_of_five, 2) && ring_of_five.is_connected());
    let first: Vec<_> = ring_of_five.links(0).iter().map(|link| (link.peer, link.dialled)).collect();
    assert_eq!(first, [(1, true), (4, false)]);
    assert_eq!(ring(2).edges(), [(0, 1)]);
    let degrees = ring_of_five.degrees();
    assert_eq!((degrees.min, degrees.mean, degrees.max), (2, 2.0, 2));
}

#[test]
fn regional_graphs_prefer_their_region() {
    let region_of: Vec<u16> = (0..400).map(|node| node % 4).collect();
    let graph = regional(&region_of, 20, 0.75, &mut rng(3));
    assert!(graph.is_connected());
    assert!((graph.degrees().mean - 20.0).abs() < 0.5, "{:?}", graph.degrees());
    let inside = |(a, b): &&(u32, u32)| region_of[*a as usize] == region_of[*b as usize];
    let local = graph.edges().iter().filter(inside).count() as f64 / graph.edges().len() as f64;
    assert!((local - 0.75).abs() < 0.02, "{local}");
    // A region of one host still is reached.
    let lonely: Vec<u16> = (0..50).map(|node| u16::from(node == 7)).collect();
    assert!(regional(&lonely, 4, 0.99, &mut rng(1)).is_connected());
}

#[test]
fn graphs_refuse_what_is_not_simple() {
    assert_eq!(Graph::new(3, vec![(1, 1)]), Err(GraphError::Loop(1)));
    assert_eq!(Graph::new(3, vec![(0, 1), (1, 0)]), Err(GraphError::Parallel(0, 1)));
    assert_eq!(Graph::new(3, vec![(0, 3)]), Err(GraphError::NoNode { node: 3, nodes: 3 }));
    let apart = Graph::new(4, vec![(0, 1), (2, 3)]).unwrap();
    assert_eq!(apart.unreachable_from(0), [2, 3]);
    assert!(!apart.is_connected() && apart.are_linked(3, 2) && !apart.are_linked(0, 2));
}

#[test]
fn csv_is_read() {
    let graph = read_edges("dialer,listener\n2,0\n\n0,1\n").unwrap();
    assert_eq!((graph.nodes, graph.edges), (3, vec![(2, 0), (0, 1)]));
    let columns = read_edges("weight,listener,dialer\n9,0,2\n").unwrap();
    assert_eq!(columns.edges, [(2, 0)]);
    let reason = |text: &str| match read_edges(text).unwrap_err() {
        ImportError::Line { line, reason, .. } => (line, reason),
        other => panic!("{other}"),
    };
    assert_eq!(reason("a,b\n1,2\n"), (1, "the columns dialer and listener are expected".to_owned()));
    assert_eq!(reason("").0, 1);
    let numbers = "two numbers of nodes from 0 to 9999999 are expected".to_owned();
    assert_eq!(reason("dialer,listener\n1,x\n"), (2, numbers.clone()));
    assert_eq!(reason("dialer,listener\n0,1\n1\n"), (3, numbers));
    assert_eq!(reason("dialer,listener\n1,1\n"), (2, "a node is not linked to itself".to_owned()));
    assert_eq!(reason("dialer,listener\n0,1\n1,0\n"), (3, "this link was there before".to_owned()));
}

#[test]
fn graphml_is_read() {
    let numbers = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="1"/><node id="0"><data key="d0">x</data></node><node id="2" />
<edge source="1" target="2"/><edge source="0" target="1"><data key="d1">3</data></edge></graph></graphml>"#;
    let graph = read_graphml(numbers).unwrap();
    assert_eq!((graph.nodes, graph.edges), (3, vec![(1, 2), (0, 1)]));
    let names = r#"<graphml><graph edgedefault="directed"><node id="host-b"/><node id="a&amp;c"/>
<edge source="a&amp;c" target="host-b"/><edge source="host-b" target="a&amp;c"/></graph></graphml>"#;
    assert_eq!(read_graphml(names).unwrap().edges, [(1, 0)]);
    let wrong = |inner: &str| {
        let text = format!("<graphml><graph><node id=\"x\"/><node id=\"y\"/>{inner}</graph></graphml>");
        read_graphml(&text).unwrap_err().to_string()
    };
    assert!(wrong(r#"<edge source="x" target="z"/>"#).contains("the node \"z\" is not declared"));
    assert!(wrong(r#"<edge source="x" target="x"/>"#).contains("linked to itself"));
    assert!(wrong(r#"<node id="x"/>"#).contains("the node \"x\" is declared twice"));
    assert!(wrong(r#"<edge source="x"/>"#).contains("has no \"target\""));
    assert!(
        wrong(r#"<edge source="x" target="y"/><edge source="x" target="y"/>"#).contains("was there before")
    );
    assert!(wrong("<hyperedge/>").contains("hyperedges"));
    assert!(read_graphml("<graphml></graphml>").unwrap_err().to_string().contains("there are 0 graphs"));
    assert!(read_graphml("<graphml><graph></wrong>").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn regular_graphs_are_regular_simple_and_connected(nodes in 5u32..150, degree in 3u32..149, seed: u64) {
        let degree = degree.min(nodes - 1);
        prop_assume!(nodes * degree % 2 == 0);
        // Graph::new refuses loops and parallel links.
        let graph = random_regular(nodes, degree, &mut rng(seed)).expect("it is possible");
        prop_assert!(is_regular(&graph, degree as usize));
        prop_assert!(graph.is_connected());
    }

    #[test]
    fn regional_graphs_are_connected(sizes in prop::collection::vec(1u16..30, 1..5), degree in 1u32..12, local in 0.0..0.99, seed: u64) {
        let region_of: Vec<u16> =
            sizes.iter().enumerate().flat_map(|(region, size)| vec![region as u16; usize::from(*size)]).collect();
        let graph = regional(&region_of, degree, local, &mut rng(seed));
        prop_assert!(graph.is_connected());
        prop_assert_eq!(graph.nodes() as usize, region_of.len());
    }

    #[test]
    fn links_are_seen_from_both_ends(nodes in 2u32..60, m in 1u32..10, seed: u64) {
        let graph = barabasi_albert(nodes, m.min(nodes - 1), seed).unwrap();
        prop_assert!(graph.is_connected());
        for (dialler, listener) in graph.edges() {
            let side = |node, peer| graph.links(node).iter().find(|link| link.peer == peer).map(|link| link.dialled);
            prop_assert_eq!((side(*dialler, *listener), side(*listener, *dialler)), (Some(true), Some(false)));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = read_edges(&text);
        let _ = read_graphml(&text);
    }
}
