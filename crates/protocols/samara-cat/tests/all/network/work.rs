//! The work that the ADR leaves open, on networks.

use std::time::Duration;

use samara_cat::config::{Bundles, CompactBlocks, Recipients};
use samara_cat::{Command, Config, Event, FrameKind, Metrics};
use samara_engine::Time;

use crate::net::{Delay, Net};
use crate::tx;

fn burst(config: &Config) -> Net {
    let mut net = Net::uniform(5, Delay::millis(1, 30), 40, config);
    net.connect_randomly(6);
    // A client that submits many small transactions to few nodes.
    for number in 0..400 {
        net.submit(Time::from_millis(number * 2), (number % 4) as u32, &tx(number, 150));
    }
    net.run_until(Time::from_secs(20));
    net.assert_all_delivered();
    net
}

fn state_bytes(metrics: &Metrics) -> u64 {
    let kinds = [FrameKind::SeenTx, FrameKind::SeenKeys, FrameKind::WantTx, FrameKind::WantKeys];
    kinds.into_iter().map(|kind| metrics.sent(kind).bytes).sum()
}

#[test]
fn bundling_saves_state_messages() {
    let plain = burst(&Config::default());
    let bundles = Bundles { window: Duration::from_millis(100), txs_max: 64, bytes_max: 1 << 18 };
    let bundled = burst(&Config { bundles: Some(bundles), ..Config::default() });
    assert!(bundled.sum(|metrics| metrics.bundles) > 0);
    let (few, many) = (bundled.sum(state_bytes), plain.sum(state_bytes));
    assert!(few * 4 < many, "{few} bytes, {many} without");
    assert!(bundled.copies() <= 1.05, "{} copies", bundled.copies());
}

#[test]
fn neighbourhoods_trade_copies_for_time() {
    let run = |config: &Config| {
        let mut net = Net::uniform(5, Delay::millis(20, 60), 60, config);
        net.deliver(6, (60, 1_000, 5), 20);
        (net.copies(), net.median_ms())
    };
    let (copies, median) = run(&Config::default());
    let near = Config { forward: Recipients::Some(3), ..Config::default() };
    let (near_copies, near_median) = run(&near);
    assert!(near_median < median, "{near_median} ms, {median} ms without");
    assert!(copies < near_copies && near_copies < 4.0, "{near_copies} copies, {copies} without");
}

#[test]
fn compact_blocks_reach_all_nodes_and_fetch_missing_transactions() {
    let blocks = CompactBlocks { kept: 4, patience: Duration::from_secs(5) };
    let mut net = Net::uniform(
        5,
        Delay::millis(1, 30),
        40,
        &Config { compact_blocks: Some(blocks), ..Config::default() },
    );
    net.keep_events = true;
    net.connect_randomly(6);
    net.submit_randomly(300, 300, 4);
    // The last transactions are still in flight when the block is proposed.
    (300..340).for_each(|number| net.submit(Time::from_secs(5), 0, &tx(number, 300)));
    let propose = Command::Propose { height: 1, max_bytes: u64::MAX, max_gas: u64::MAX };
    net.command(Time::from_secs(5), 0, propose);
    net.run_until(Time::from_secs(15));
    let count = |what: fn(&Event) -> bool| net.events.iter().filter(|(.., event)| what(event)).count();
    assert_eq!(count(|event| matches!(event, Event::BlockComplete { .. })), 39);
    assert_eq!(count(|event| matches!(event, Event::BlockGivenUp { .. })), 0);
    let (hits, misses) = (net.sum(|metrics| metrics.block_hits), net.sum(|metrics| metrics.block_misses));
    assert_eq!(hits + misses, 39 * 340);
    assert!(misses > 0 && hits > 10 * misses, "{hits} hits, {misses} misses");
    net.assert_all_delivered();
}
