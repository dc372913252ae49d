//! Attackers among the nodes: honest transactions reach all nodes, and memory stays bounded.

use samara_cat::{Config, Preset};
use samara_engine::Time;

use crate::attackers::Attack;
use crate::net::{Delay, Net};

const HONEST: u32 = 30;

/// A network with a third as many attackers as honest nodes, connected at random like all others.
fn attacked(config: &Config, attack: Attack, seed: u64) -> Net {
    let mut net = with_attackers(config, (attack, 10), 6, seed, Delay::millis(1, 40));
    net.submit_randomly(60, 1_000, 5);
    net.run_until(Time::from_secs(10));
    net
}

fn with_attackers(
    config: &Config,
    (attack, attackers): (Attack, u32),
    dials: u32,
    seed: u64,
    delay: Delay,
) -> Net {
    let mut net = Net::uniform(seed, delay, HONEST, config);
    (0..attackers).for_each(|_| _ = net.attacker(config.clone(), attack));
    // The ring keeps the honest nodes connected even if attackers are disconnected.
    (0..HONEST).for_each(|host| net.connect(host, (host + 1) % HONEST));
    net.connect_randomly(dials);
    net
}

/// Runs one seed, or `SAMARA_CAT_SEEDS` from seed `SAMARA_CAT_FROM` on.
fn assert_holds(config: &Config, attack: Attack, label: &str) {
    let number = |name, default| std::env::var(name).map_or(default, |number| number.parse().unwrap());
    let from = number("SAMARA_CAT_FROM", 0);
    for seed in from..from + number("SAMARA_CAT_SEEDS", 1) {
        let net = attacked(config, attack, seed);
        let missing = net.missing(&net.all_honest());
        assert!(missing.is_empty(), "{label}, {attack:?}: {:?}", missing.first());
        let (keys, requests, tasks) = net.peak;
        // A node has at most ten attackers as peers.
        let limits = config.limits;
        let most = (10 * limits.unknown_per_peer + 1_000).min(limits.keys);
        assert!(keys <= most, "{label}, {attack:?}: {keys} keys");
        let asked = config.requests.per_peer_max.saturating_mul(16).min(2 * most);
        assert!(requests <= asked, "{label}, {attack:?}: {requests} requests");
        assert!(tasks <= 4 * most, "{label}, {attack:?}: {tasks} tasks");
    }
}

const ATTACKS: [Attack; 5] =
    [Attack::Withhold, Attack::Announce, Attack::Garbage, Attack::Unrequested, Attack::WantAll];

#[test]
fn ours_holds_against_all_attacks() {
    let mut config = Config::default();
    // Small enough to be reached within a minute.
    config.limits.unknown_per_peer = 1_000;
    ATTACKS.into_iter().for_each(|attack| assert_holds(&config, attack, "cat"));
}

#[test]
fn cat_of_2023_holds_with_its_limits() {
    assert_generation_holds(Preset::Cat2023);
}

#[test]
fn cat_2_of_2023_holds_with_its_limits() {
    assert_generation_holds(Preset::Cat2From2023);
}

fn assert_generation_holds(preset: Preset) {
    let mut config = preset.config();
    config.limits.unknown_per_peer = 1_000;
    for attack in [Attack::Withhold, Attack::Announce, Attack::Garbage] {
        assert_holds(&config, attack, preset.name());
    }
}

/// A third of all nodes announces everything and delivers nothing, or garbage, at little cost to
/// the others. Measured from the first transaction on, so each attacker has its one attempt at each
/// neighbour.
#[test]
fn one_third_of_silent_peers_costs_little() {
    for attack in [Attack::Withhold, Attack::Garbage] {
        let mut net = with_attackers(&Config::default(), (attack, HONEST / 2), 5, 5, Delay::millis(10, 40));
        net.submit_randomly(800, 1_000, 16);
        net.run_until(Time::from_secs(46));
        net.assert_all_delivered();
        let delays = net.delays_ms();
        let (median, p99) = (delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
        assert!(median < 200.0 && p99 < 500.0, "{attack:?}: median {median} ms, 99 % {p99} ms");
        assert_eq!(net.sum(|metrics| metrics.early_timeouts), 0, "{attack:?}");
        // The accepted copies, plus those that arrived although the pool had the transaction.
        let pairs = f64::from(HONEST) * 800.0;
        let copies = 1.0 + net.sum(|metrics| metrics.already_seen_txs) as f64 / pairs;
        assert!(copies <= 1.02, "{attack:?}: {copies} copies");
    }
}

/// Attackers that request everything get each transaction a limited number of times.
#[test]
fn requesting_everything_does_not_drain_a_node() {
    let net = attacked(&Config::default(), Attack::WantAll, 1);
    let bodies = net.sum(|metrics| metrics.sent(samara_cat::FrameKind::Txs).copies);
    // 60 to each of 40 nodes, plus the repetitions on some 120 links to attackers: 100 times at
    // first, and one for each first answer. The attackers ask two million times.
    assert!(bodies < 60 * 40 * 2 + 120 * 160, "{bodies} bodies sent");
    assert!(net.sum(|metrics| metrics.ignored(samara_cat::Ignored::WantRepeated)) > 0);
}
