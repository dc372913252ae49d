//! No simulated delivery is earlier than its bound, and a chain without queues reaches it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use samara_document::Inputs;
use samara_family_messages::{MessagesData, Plan};
use samara_lab::explain::{Explain, Mode};
use samara_lab::hops::Paths;
use samara_lab::network;
use samara_lab::results::Outcome;
use samara_lab::run::{RunOptions, run};
use samara_scenario::Overrides;

use crate::load_source;

/// Payload bytes of a message.
const SIZE: u32 = 700;
/// The simulator rounds the time of each packet down to nanoseconds.
const ROUNDING_MS: f64 = 1e-3;

/// A network whose links have latencies of their own in each direction.
#[derive(Debug)]
struct Net {
    links: BTreeSet<(u32, u32)>,
    latency_ms: Vec<Vec<f64>>,
    keys: String,
    protocol: String,
}

/// Times of a delivery in milliseconds: the simulated one, and its bound.
type Times = (f64, f64);

impl Net {
    /// Simulates some messages. Returns the times of all deliveries, and the outcome.
    fn run(&self) -> (Vec<Times>, Outcome<MessagesData>) {
        let Self { links, latency_ms, keys, protocol } = self;
        let text = format!(
            "[scenario]\nname = \"small\"\ntitle = \"\"\n[network]\nnodes = {}\n{keys}\n\
             latency_file = {{ file = \"latency.csv\", unit = \"ms\", kind = \"one-way\" }}\n\
             [network.topology]\nkind = \"file\"\nfile = \"graph.csv\"\n{protocol}\n\
             [messages]\nrate = 10\nduration = \"1 s\"\nsize = \"{SIZE} B\"\nwarm_up = \"6 s\"\n\
             cool_down = \"10 s\"\n",
            latency_ms.len()
        );
        let graph = links.iter().fold("dialer,listener\n".to_owned(), |mut text, (a, b)| {
            let _ = writeln!(text, "{a},{b}");
            text
        });
        let row = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n";
        let matrix: String = latency_ms.iter().map(row).collect();
        let inputs = Inputs::default().with("graph.csv", graph).with("latency.csv", matrix);
        let loaded = load_source("small.toml", &text, inputs, &Overrides::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let point = &loaded.points[0];
        let (stop, explain) = (AtomicBool::new(false), Explain::new(Mode::Every(1)));
        let options = RunOptions { stop: &stop, explain: &explain, ..RunOptions::new(1, &loaded.inputs) };
        let measured = run(point, options, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
        let (scenario, inputs) = (&point.scenario, &loaded.inputs);
        let (graph, _) = network::graph(scenario, inputs, point.seed).expect("a graph");
        let hosts = network::hosts(scenario, inputs, graph.nodes, point.seed).expect("hosts");
        let plan = Plan::of(scenario, inputs, point.seed).expect("a plan");
        let paths = Paths::new(scenario, (&graph, &hosts), SIZE);
        let rows = measured.explained().expect("it is explained").rows.iter().filter(|row| row.is_delivery);
        let bound = |item: u64, node: u32| paths.from(plan.publishers[item as usize])[node as usize];
        let times = rows.map(|row| (row.nanos as f64 / 1e6, bound(row.item, row.node)));
        (times.collect(), measured.outcome().typed().expect("messages"))
    }
}

fn nets() -> impl Strategy<Value = Net> {
    let sized = (3_usize..9).prop_flat_map(|nodes| {
        let pair = (0..nodes as u32, 0..nodes as u32);
        let latencies = prop::collection::vec(prop::collection::vec(0.1..90.0_f64, nodes), nodes);
        (Just(nodes as u32), prop::collection::vec(pair, 0..12), latencies)
    });
    let protocols = ["floodsub", "gossipsub", "plumtree"];
    let keys = (1_u32..50, 1_u32..50, 0_u32..20);
    (sized, keys, prop::sample::select(protocols.to_vec())).prop_map(
        |((nodes, more, mut latency_ms), (up, down, validation), protocol)| {
            // A chain keeps all nodes connected.
            let chain = (1..nodes).map(|node| (node - 1, node));
            // Only GossipSub validates.
            let validation = if protocol == "gossipsub" { validation } else { 0 };
            let more = more.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b)));
            (0..latency_ms.len()).for_each(|node| latency_ms[node][node] = 0.0);
            Net {
                links: chain.chain(more).collect(),
                latency_ms,
                keys: format!(
                    "uplink = \"{up} Mbit/s\"\ndownlink = \"{down} Mbit/s\"\nvalidation_time = \"{validation} ms\""
                ),
                protocol: format!("[protocol]\nkind = \"{protocol}\""),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_delivery_is_earlier_than_the_shortest_path(net in nets()) {
        let (times, outcome) = net.run();
        prop_assert!(!times.is_empty());
        for (found, bound) in times {
            prop_assert!(found >= bound - ROUNDING_MS, "{found} ms is less than {bound} ms");
        }
        let metrics = &outcome.metrics;
        prop_assert!(metrics.dissemination_bound_ms >= metrics.lower_bound_ms - 1e-9, "{metrics:?}");
        prop_assert!(metrics.dissemination_bound_ms >= metrics.delivery_bound_ms, "{metrics:?}");
        if metrics.incomplete == 0 {
            let mean = metrics.dissemination_ms.expect("all messages arrived").mean;
            prop_assert!(mean >= metrics.dissemination_bound_ms - ROUNDING_MS, "{metrics:?}");
            prop_assert!(metrics.share_of_bound <= Some(1.0 + 1e-6), "{metrics:?}");
        }
    }
}

#[test]
fn flooding_along_a_chain_without_queues_reaches_the_bound() {
    // From node to node: 3, 5, 7, ... ms upwards, and 40 ms downwards.
    let latency = |from: usize, to: usize| match from.cmp(&to) {
        std::cmp::Ordering::Less => 3.0 + 2.0 * from as f64,
        std::cmp::Ordering::Equal => 0.0,
        std::cmp::Ordering::Greater => 40.0,
    };
    let net = Net {
        links: (1..6).map(|node| (node - 1, node)).collect(),
        latency_ms: (0..6).map(|from| (0..6).map(|to| latency(from, to)).collect()).collect(),
        keys: "uplink = \"100 Gbit/s\"\ndownlink = \"100 Gbit/s\"".to_owned(),
        protocol: "[protocol]\nkind = \"floodsub\"".to_owned(),
    };
    let (times, outcome) = net.run();
    assert_eq!(times.len(), 10 * 5);
    for (found, bound) in &times {
        assert!((found - bound).abs() < ROUNDING_MS, "{found}, {bound}");
    }
    // The longest way up takes 3 + 5 + 7 + 9 + 11 ms, that down 5 * 40 ms.
    let longest = times.iter().map(|(_, bound)| *bound).fold(0.0, f64::max);
    assert!((40.0..200.0 + ROUNDING_MS).contains(&longest), "{longest}");
    let metrics = &outcome.metrics;
    let (dissemination, delivery) = (metrics.dissemination_ms.unwrap(), metrics.delivery_latency_ms.unwrap());
    assert!((dissemination.mean - metrics.dissemination_bound_ms).abs() < ROUNDING_MS, "{metrics:?}");
    assert!((delivery.mean - metrics.delivery_bound_ms).abs() < ROUNDING_MS, "{metrics:?}");
    // By hops, each link counts with the least latency of any.
    assert!(metrics.lower_bound_ms <= 15.0 + ROUNDING_MS, "{metrics:?}");
}
