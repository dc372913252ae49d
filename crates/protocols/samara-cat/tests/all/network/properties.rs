//! Properties of any network.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use samara_cat::{Config, Event, Preset, TxKey};
use samara_engine::{PeerId, Time};

use crate::net::{Delay, Net};
use crate::tx;

/// A transaction is submitted while its node has no peers. As merged, the node never announces it:
/// pushes go only to peers connected at that moment, and new peers get no announcement of the pool. So do those since 2025.
/// All other generations announce the pool to new peers.
#[test]
fn new_peers_get_announcements_of_the_pool() {
    for preset in Preset::ALL {
        let mut net = Net::uniform(1, Delay::millis(5, 5), 3, &preset.config());
        net.connect(1, 2);
        net.submit(Time::from_millis(10), 0, &tx(1, 500));
        net.run_until(Time::from_millis(100));
        net.connect(0, 1);
        net.run_until(Time::from_secs(30));
        let announces = !matches!(preset, Preset::CatMerged | Preset::Cat2025 | Preset::Cat2026);
        assert_eq!(net.missing(&net.all_honest()).is_empty(), announces, "{}", preset.name());
    }
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    nodes: u32,
    dials: u32,
    latency_ms: (u64, u64),
    flush_ms: u64,
    bps: u64,
    txs: u64,
    len: usize,
    /// Links that go down, and come back after this many milliseconds.
    cuts: Vec<(u32, u32, u64, u64)>,
}

fn case() -> impl Strategy<Value = Case> {
    let cut = (any::<u32>(), any::<u32>(), 0u64..3_000, 100u64..2_000);
    (
        any::<u64>(),
        2u32..20,
        1u32..5,
        (1u64..50, 0u64..300),
        prop_oneof![Just(0u64), Just(10), Just(100)],
        prop_oneof![Just(0u64), Just(1_000_000), Just(20_000_000)],
        1u64..40,
        20usize..3_000,
        proptest::collection::vec(cut, 0..6),
    )
        .prop_map(|(seed, nodes, dials, (low, more), flush_ms, bps, txs, len, cuts)| Case {
            seed,
            nodes,
            dials,
            latency_ms: (low, low + more),
            flush_ms,
            bps,
            txs,
            len,
            cuts: cuts.into_iter().map(|(a, b, at, back)| (a % nodes, b % nodes, at, back)).collect(),
        })
}

fn run(case: &Case, config: &Config) -> Net {
    let delay = Delay {
        flush: Duration::from_millis(case.flush_ms),
        bps: case.bps,
        ..Delay::millis(case.latency_ms.0, case.latency_ms.1)
    };
    let mut net = Net::uniform(case.seed, delay, case.nodes, config);
    net.keep_events = true;
    net.connect_randomly(case.dials);
    net.submit_randomly(case.txs, case.len, 3);
    let mut changes = BTreeMap::new();
    for (a, b, at, back) in &case.cuts {
        if net.is_up(*a, *b) {
            changes.insert((*at, 0, *a, *b), false);
            changes.insert((*at + *back, 1, *a, *b), true);
        }
    }
    for ((at, _, a, b), up) in changes {
        net.run_until(Time::from_millis(at));
        if up {
            net.connect(a, b);
        } else {
            net.disconnect(a, b);
        }
    }
    net.run_until(Time::from_secs(120));
    net
}

/// Returns the requests of each node for each transaction. There is at most one live request:
/// before the next one, the first was answered, timed out, or its peer disconnected.
fn requests_of(net: &Net) -> BTreeMap<(u32, TxKey), Vec<PeerId>> {
    let mut requests: BTreeMap<_, Vec<PeerId>> = BTreeMap::new();
    for (_, host, event) in &net.events {
        if let Event::Requested { key, from } | Event::Rerequested { key, from } = *event {
            requests.entry((*host, key)).or_default().push(from);
        }
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Ours: whatever happens to links, every transaction reaches every node connected at the end.
    /// No node asks a peer twice for the same transaction unless its link was re-established. Finally,
    /// all state is forgotten.
    #[test]
    fn ours_delivers_everything_and_asks_each_peer_once(case in case()) {
        let net = run(&case, &Config::default());
        let missing = net.missing(&net.all_honest());
        prop_assert!(missing.is_empty(), "{:?}", missing.first());
        if case.cuts.is_empty() {
            for ((host, key), peers) in requests_of(&net) {
                let mut once = peers.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(once.len(), peers.len(), "host {} asked twice for {}: {:?}", host, key, peers);
            }
        }
        let all = net.all_honest();
        for host in all.iter().copied() {
            prop_assert!(net.engine(host).keys() as u64 <= case.txs);
            prop_assert_eq!(net.engine(host).metrics().early_timeouts, 0);
        }
    }

    /// The generations of 2023, on stable links.
    #[test]
    fn generations_of_2023_deliver_everything(case in case(), which in 0usize..4) {
        let presets = [Preset::FloodFifo, Preset::Cat2023, Preset::Cat2From2023, Preset::CatMerged];
        let case = Case { cuts: Vec::new(), ..case };
        let net = run(&case, &presets[which].config());
        let missing = net.missing(&net.all_honest());
        prop_assert!(missing.is_empty(), "{}: {:?}", presets[which].name(), missing.first());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// The same seed gives the same history.
    #[test]
    fn runs_are_repeatable(case in case()) {
        let config = Preset::CatMerged.config();
        let (one, other) = (run(&case, &config), run(&case, &config));
        prop_assert_eq!(&one.events, &other.events);
    }
}

/// A block removes its transactions everywhere, including pending requests and announcements.
#[test]
fn a_block_ends_all_requests_for_its_transactions() {
    for preset in [Preset::Cat2023, Preset::CatMerged, Preset::Cat] {
        let mut net = Net::uniform(3, Delay::millis(1, 150), 20, &preset.config());
        net.connect_randomly(4);
        net.submit_randomly(50, 500, 2);
        net.run_until(Time::from_secs(4));
        let keys: std::sync::Arc<[TxKey]> = (0..50).map(|number| tx(number, 500).key()).collect();
        let all = net.all_honest();
        for host in all.iter().copied() {
            let commit = samara_cat::Command::Commit { height: 1, keys: keys.clone() };
            net.command(net.now, host, commit);
        }
        net.run_until(Time::from_secs(5));
        let sent = net.sum(samara_cat::Metrics::requests);
        net.run_until(Time::from_secs(60));
        assert_eq!(net.sum(samara_cat::Metrics::requests), sent, "{}", preset.name());
        assert!(all.iter().all(|host| net.engine(*host).keys() == 0 && net.engine(*host).outstanding() == 0));
        assert!(all.iter().all(|host| net.engine(*host).pool().metrics().successful_txs == 50));
    }
}
