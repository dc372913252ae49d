//! What holds on any network.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use samara_cat::{Config, Event, Preset, TxKey};
use samara_engine::{PeerId, Time};

use crate::net::{Delay, Net};
use crate::tx;

/// A transaction that was submitted while a node has no peers: as merged, nobody is ever told of it (its push goes to whoever is connected at
/// that moment, and new peers are not told of the pool). All others tell new peers.
#[test]
fn who_tells_new_peers() {
    for preset in Preset::ALL {
        let mut net = Net::uniform(1, Delay::millis(5, 5), 3, &preset.config());
        net.connect(1, 2);
        net.submit(Time::from_millis(10), 0, &tx(1, 500));
        net.run_until(Time::from_millis(100));
        net.connect(0, 1);
        net.run_until(Time::from_secs(30));
        let tells = !matches!(preset, Preset::CatMerged | Preset::Cat2026);
        assert_eq!(net.missing(&net.all_honest()).is_empty(), tells, "{}", preset.name());
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
    let mut happenings = BTreeMap::new();
    for (a, b, at, back) in &case.cuts {
        if net.is_up(*a, *b) {
            happenings.insert((*at, 0, *a, *b), false);
            happenings.insert((*at + *back, 1, *a, *b), true);
        }
    }
    for ((at, _, a, b), up) in happenings {
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

/// At most one live request for each transaction: between two requests of a node for the same one, the first was answered, timed out, or
/// its peer went away.
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
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Ours: whatever links do, every transaction reaches every node that is connected in the end; nobody is asked twice for the same one unless
    /// its link was made anew; all is forgotten in the end.
    #[test]
    fn ours(case in case()) {
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

    /// The generations of 2023, on links that stay.
    #[test]
    fn the_generations_of_2023(case in case(), which in 0usize..4) {
        let presets = [Preset::FloodFifo, Preset::Cat2023, Preset::Cat2From2023, Preset::CatMerged];
        let case = Case { cuts: Vec::new(), ..case };
        let net = run(&case, &presets[which].config());
        let missing = net.missing(&net.all_honest());
        prop_assert!(missing.is_empty(), "{}: {:?}", presets[which].name(), missing.first());
    }

    /// One seed, one history.
    #[test]
    fn runs_are_repeatable(case in case()) {
        let config = Preset::CatMerged.config();
        let (one, other) = (run(&case, &config), run(&case, &config));
        prop_assert_eq!(&one.events, &other.events);
    }
}

/// A block takes its transactions from everywhere, also from what is asked for and announced.
#[test]
fn a_block_ends_everything_about_its_transactions() {
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
        let sent = net.sum(|metrics| metrics.requested_txs);
        net.run_until(Time::from_secs(60));
        assert_eq!(net.sum(|metrics| metrics.requested_txs), sent, "{}", preset.name());
        assert!(all.iter().all(|host| net.engine(*host).keys() == 0 && net.engine(*host).outstanding() == 0));
        assert!(all.iter().all(|host| net.engine(*host).pool().metrics().successful_txs == 50));
    }
}
