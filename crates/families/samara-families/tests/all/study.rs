//! The network of a study of segmented payloads: geography, classes of hosts, queues and transport.

use samara_bounds::{PayloadLimits, Ways, payload};
use samara_document::Inputs;
use samara_family_messages::MessagesData;
use samara_lab::network::{self, Hosts};
use samara_scenario::{Loaded, Overrides};
use samara_sim::{Control, Latency, NicDiscipline};

use crate::{load_source, outcomes, refused};

/// Returns a stream of messages in the network of the study with other keys of `[network]` and
/// `[network.regions]`.
fn scenario(network: &str, regions: &str, rest: &str) -> Loaded {
    let text = format!(
        "[scenario]\nname = \"study\"\ntitle = \"\"\n[network]\n{network}\n\
         uplink = \"50 Mbit/s\"\ndownlink = \"100 Mbit/s\"\n\
         uplink_queue = {{ kind = \"fq-codel\", buckets = 128 }}\n\
         downlink_queue = {{ kind = \"fq-codel\", buckets = 128 }}\n\
         latency_file = {{ file = \"builtin:study/segments_latency_ms.csv\", kind = \"one-way\", unit = \"ms\" }}\n\
         [network.topology]\ndegree = 10\n\
         [network.regions]\nweights_file = \"builtin:study/segments_regions.csv\"\n\
         pair_factor = [0.8, 1.2]\n{regions}\n\
         [transport]\nkind = \"quic\"\nstack = \"quic-go\"\nmax_udp_payload = 1280\nip_headers = false\n\
         [messages]\nrate = 10.0\nduration = \"2 s\"\nsize = \"50 kB\"\nwarm_up = \"6 s\"\n\
         cool_down = \"10 s\"\n{rest}\n"
    );
    load_source("study.toml", &text, Inputs::default(), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn hosts(loaded: &Loaded, seed: u64) -> Hosts {
    let scenario = &loaded.points[0].scenario;
    network::hosts(scenario, &loaded.inputs, scenario.network.nodes, seed).unwrap()
}

/// Returns the latency between two hosts in milliseconds.
fn latency_ms(hosts: &Hosts, from: u32, to: u32) -> f64 {
    let Latency::Pairs(pairs) = &hosts.latency else { panic!("{:?}", hosts.latency) };
    pairs.get(from, to).as_secs_f64() * 1e3
}

#[test]
fn geography_is_that_of_the_seed() {
    let loaded = scenario("nodes = 500", "placed = \"study\"", "");
    let names = ["eu", "na-east", "na-west", "asia", "rest"];
    for (seed, region) in [(7, "asia"), (9, "eu"), (12, "na-west"), (14, "rest")] {
        let hosts = hosts(&loaded, seed);
        assert_eq!(hosts.regions, names);
        assert_eq!(hosts.regions[usize::from(hosts.configs[0].region)], region, "seed {seed}");
        let Latency::Pairs(pairs) = &hosts.latency else { panic!() };
        assert!((pairs.mean().as_secs_f64() * 1e3 - 55.6).abs() < 0.6, "{:?}", pairs.mean());
        let other = (1..500).find(|host| hosts.configs[*host].region == 0).unwrap() as u32;
        let base = [8.0, 40.0, 70.0, 90.0, 110.0][usize::from(hosts.configs[0].region)];
        let factor = latency_ms(&hosts, 0, other) / base;
        assert!((0.8..1.2).contains(&factor), "{factor}");
        assert_eq!(latency_ms(&hosts, 0, other).to_bits(), latency_ms(&hosts, other, 0).to_bits());
    }
}

#[test]
fn seeds_of_regions_are_independent_geographies() {
    let of = |regions: &str, seed| {
        let hosts = hosts(&scenario("nodes = 500", regions, ""), seed);
        let region: Vec<u16> = hosts.configs.iter().map(|host| host.region).collect();
        let latencies: Vec<f64> = (1..500).map(|host| latency_ms(&hosts, 0, host)).collect();
        (region, latencies)
    };
    assert_eq!(of("seed = 1", 7), of("seed = 1", 8), "the seed of the regions replaces that of the run");
    let (one, other) = (of("seed = 1", 7), of("seed = 2", 7));
    let same = one.0.iter().zip(&other.0).filter(|(a, b)| a == b).count();
    // Equal regions by chance: the sum of the squares of the weights, 24.5 %.
    assert!((90..160).contains(&same), "{same}");
    assert_ne!(of("", 7).0, of("", 8).0);
    for count in [one.0, other.0].map(|regions| regions.iter().filter(|region| **region == 0).count()) {
        assert!((135..215).contains(&count), "{count} of 175");
    }
}

#[test]
fn classes_can_have_consecutive_hosts() {
    let network = "nodes = 500\nclasses_from = 1\nclass = [\
         { name = \"hosted\", share = \"20 %\", uplink = \"1 Gbit/s\", downlink = \"1 Gbit/s\" },\
         { name = \"slow\", share = \"10 %\", uplink = \"10 Mbit/s\", downlink = \"20 Mbit/s\" }]";
    let hosts = hosts(&scenario(network, "", ""), 7);
    let of = |class| hosts.class.iter().map(|own| *own == class).collect::<Vec<bool>>();
    let range =
        |from: usize, to: usize| (0..500).map(|host| (from..to).contains(&host)).collect::<Vec<bool>>();
    // 99 and 49 of 499 hosts, as in the study.
    assert_eq!((of(Some(0)), of(Some(1))), (range(1, 100), range(100, 149)));
    assert_eq!(hosts.configs[0].uplink_bps, 50_000_000);
    assert_eq!(hosts.configs[99].uplink_bps, 1_000_000_000);
}

#[test]
fn transport_and_queues_are_those_of_the_study() {
    let loaded = scenario("nodes = 40", "placed = \"study\"", "");
    let point = &loaded.points[0].scenario;
    let transport = network::transport(point);
    let Control::Quic(quic) = transport.control else { panic!("{transport:?}") };
    assert_eq!((quic.initial_window, transport.mss, transport.header), (32, 1249, 31));
    assert_eq!((quic.initial_receive_window, quic.receive_window), (419, 8395));
    assert!(matches!(network::nic(point), NicDiscipline::FqCoDel(fair) if fair.buckets == 128));
    let results = outcomes::<MessagesData>(&loaded, 2);
    assert!((results[0].metrics.deliveries.delivery_ratio - 1.0).abs() < 1e-12);
    assert_eq!(results[0].run.digest, outcomes::<MessagesData>(&loaded, 1)[0].run.digest);
}

/// The table of docs/bounds.md: p50, p99 and mean in seconds, with the publisher in asia (seed 7) and in
/// eu (seed 9).
#[test]
fn payload_bounds_are_those_of_the_documentation() {
    // One copy of a payload of 1 MiB, compressed.
    const BYTES: u64 = 746_262;
    for (mbit, expected) in [
        (20, [[0.369, 0.379, 0.354], [0.337, 0.382, 0.343]]),
        (30, [[0.269, 0.279, 0.255], [0.238, 0.283, 0.243]]),
        (50, [[0.190, 0.200, 0.175], [0.158, 0.203, 0.164]]),
        (100, [[0.130, 0.140, 0.115], [0.099, 0.144, 0.104]]),
    ] {
        for (seed, expected) in [7, 9].into_iter().zip(expected) {
            let hosts = hosts(&scenario("nodes = 500", "placed = \"study\"", ""), seed);
            let latency = |from, to| network::latency_nanos(&hosts, from, to);
            let curve = payload(&PayloadLimits {
                publisher: 0,
                uplink_bps: vec![mbit * 1_000_000; 500],
                downlink_bps: vec![2 * mbit * 1_000_000; 500],
                needed_bytes: vec![BYTES; 500],
                uplink_burst_bytes: 1_500,
                downlink_burst_bytes: 1_500,
                latency_nanos: &latency,
                ways: Ways::Pairs,
                pieces: None,
            });
            let found = [curve.quantile(0.5), curve.quantile(0.99), curve.mean()].map(|ms| ms / 1e3);
            let is_close =
                found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.001);
            assert!(is_close, "{mbit} Mbit/s, seed {seed}: {found:?}, not {expected:?}");
        }
    }
}

#[test]
fn invalid_keys_name_the_remedy() {
    let regions = "{ names = [\"a\", \"b\"], weights = [1.5, 2], placed = \"study\", pair_factor = [0.8, 1.2], \
                   latency = [[\"8 ms\", \"40 ms\"], [\"40 ms\", \"8 ms\"]] }";
    for (value, expected) in [
        (regions.to_owned(), "placed = \"study\" needs whole numbers"),
        (regions.replace("[0.8, 1.2]", "[1.2, 0.8]"), "a minimum above 0 and a maximum"),
        (regions.replace("[0.8, 1.2]", "[1, 99.0]").replace("40 ms", "4 s"), "smaller maximum"),
        (regions.replace("placed", "gateway = \"1 Gbit/s\", placed"), "remove one of them"),
    ] {
        let error = refused("peerdas", &[("network.regions", &value)], &[]);
        assert!(error.contains(expected), "{value}: {error}");
    }
    let both = [("network.uplink_queue", "{ kind = \"fq-codel\" }"), ("network.interface", "fifo")];
    assert!(refused("peerdas", &both, &[]).contains("is replaced by network.uplink_queue"));
}
