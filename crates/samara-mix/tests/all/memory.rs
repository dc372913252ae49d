//! Limits of a node's memory, whatever other hosts do.

use std::time::Duration;

use samara_mix::{Config, Group, Transfer};

use crate::config;
use crate::net::{Crash, Net};

/// Bytes of a batch in its widest form: four elements in each slot.
const WIDEST: u64 = 24 * 4 * 256;
/// Bytes of a batch with credentials, at the first seat.
const SEALED: u64 = 24 * (2 * 256 + (2 + 5) * 32);

#[test]
fn round_holds_only_a_few_batches() {
    for transfer in Transfer::ALL {
        let mut net = Net::new(1, Config { transfer, ..config(5, 5, Group::Model) });
        net.slot_cost = Duration::from_millis(2);
        net.rate = 200_000;
        let mut most = 0;
        for _ in 0..3_000 {
            net.run_for(Duration::from_millis(5));
            for node in 0..5 {
                for (round, _) in net.node(node).rounds() {
                    most = most.max(net.node(node).held_bytes(round));
                }
            }
        }
        assert!(net.record.complete().len() > 5, "{transfer:?}");
        // Slots that arrive, are processed, and leave, plus the unacknowledged ones of the previous
        // phase.
        assert!(
            most > WIDEST / 2 && most <= 4 * WIDEST,
            "{transfer:?}: {most} bytes, {WIDEST} in the widest phase"
        );
    }
}

#[test]
fn node_that_takes_nothing_does_not_fill_the_others() {
    let mut net = Net::new(2, config(5, 5, Group::Model));
    net.slot_cost = Duration::from_millis(1);
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() >= 3);
    let victim = net.record.drawn[0].2[2];
    net.crash(victim, Crash::Silent);
    let mut most = 0;
    for _ in 0..800 {
        net.run_for(Duration::from_millis(10));
        most = (0..5).map(|node| net.node(node).held_bytes_total()).fold(most, u64::max);
    }
    let rounds = net.config.rounds_max as u64;
    // Every round in each of its phases once, and results for four other nodes.
    let bound = rounds * (2 * WIDEST + WIDEST / 2 + SEALED + WIDEST / 2 + 5 * WIDEST / 2);
    assert!(most <= bound, "{most} > {bound}");
    // Once the node is lost, the others hold nothing of its rounds.
    for node in (0..5).filter(|node| *node != victim) {
        assert_eq!(net.node(node).held_bytes_total(), 0);
        assert_eq!(net.outbox(node).pending(), 0);
    }
}
