//! Random histories: each seed determines one.

use std::time::Duration;

use samara_engine::Shape;
use samara_ring::{Command, Config, Order, Preset, ShapeChoice};

use crate::group::{Crash, Link, Net};

const HOSTS: u32 = 6;

fn config_of(seed: u64) -> Config {
    match seed % 6 {
        0 | 1 => Config::default(),
        2 | 3 => Preset::RingTotal.config().unwrap(),
        4 => Config { shape: ShapeChoice::Fixed(Shape::DoubleTree), ..Config::default() },
        _ => Config { shape: ShapeChoice::Fixed(Shape::Direct), ..Config::default() },
    }
}

/// Applies one random fault.
fn disturb(net: &mut Net) {
    let host = net.rng.below(HOSTS.into()) as u32;
    let other = (host + 1 + net.rng.below(u64::from(HOSTS) - 1) as u32) % HOSTS;
    let alive = (0..HOSTS).filter(|host| net.is_alive(*host) && !net.record.has_left(*host)).count();
    match net.rng.below(10) {
        0 | 1 if alive > 3 && net.is_alive(host) => {
            let how = if net.rng.chance(0.5) { Crash::Closes } else { Crash::Silent };
            net.crash(host, how);
        }
        2 | 3 if !net.is_alive(host) && !net.record.has_left(host) => {
            net.restart(host);
            net.send(host, 10_000, 300, Duration::from_millis(15));
        }
        4 => {
            let cut = net.rng.below(HOSTS.into()) as u32;
            net.partition(|host| u32::from(host < cut));
        }
        5 | 6 => net.heal(),
        7 if alive > 4 && net.is_alive(host) => net.command(host, Command::Leave),
        8 => net.cut(host, other),
        _ => net.disconnect(host, other),
    }
}

fn history(seed: u64) {
    let config = config_of(seed);
    let link = match seed % 3 {
        0 => Link::micros(50, 500),
        1 => Link::micros(100, 20_000),
        _ => Link { bps: 50_000_000, ..Link::micros(50, 5_000) },
    };
    let label = format!("seed {seed}");
    let mut net = Net::new(seed, link);
    (0..HOSTS).for_each(|_| _ = net.join(&config, 0..HOSTS));
    net.run_for(Duration::from_secs(2));
    (0..HOSTS).for_each(|host| net.send(host, 100_000, 300, Duration::from_millis(5)));
    for _ in 0..8 {
        let wait = net.rng.below(900);
        net.run_for(Duration::from_millis(wait));
        disturb(&mut net);
    }
    net.heal();
    net.run_for(Duration::from_secs(12));
    let living: Vec<u32> =
        (0..HOSTS).filter(|host| net.is_alive(*host) && !net.record.has_left(*host)).collect();
    net.record.assert_promises(config.order == Order::Total, &label);
    net.assert_together(&living);
    // The group still works: every host receives new messages.
    let (now, until) = (net.now, net.now + Duration::from_millis(500));
    net.reset_gaps();
    let before: Vec<usize> = living.iter().map(|host| net.record.delivered(*host).len()).collect();
    net.run_for(until - now);
    for (host, before) in living.iter().zip(before) {
        assert!(net.record.delivered(*host).len() > before, "{label}: host {host} receives nothing");
    }
}

/// `SAMARA_RING_SEEDS` sets another number of seeds:
/// `SAMARA_RING_SEEDS=5000 cargo test -p samara-ring --release --test all seeds`.
#[test]
fn random_histories_keep_the_guarantees() {
    for_seeds(18, history);
}

/// Runs `default` histories, or `SAMARA_RING_SEEDS` of them, starting at seed `SAMARA_RING_FROM`.
/// Panics with the seeds that fail.
pub(crate) fn for_seeds(default: u64, history: fn(u64)) {
    let number =
        |name, default| std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default);
    let from = number("SAMARA_RING_FROM", 0);
    let seeds = from..from + number("SAMARA_RING_SEEDS", default);
    let failed: Vec<u64> =
        seeds.filter(|seed| std::panic::catch_unwind(|| history(*seed)).is_err()).collect();
    assert!(failed.is_empty(), "seeds {failed:?}");
}
