//! Limits of a node's memory, whatever other hosts do.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::testing::{Single, identity_of};
use samara_engine::{LinkRequest, Outbox, PeerId};
use samara_mix::{Config, Group, Mix, MixFrame, Node, NodeState, Plan, Scheduler, Secret, Transfer};

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

/// Bytes of the control frames that a host owes at its start, and of one answer of each kind.
const OWED_MAX: u64 = 1_000;

/// Starts a host with links to all others, whose outbox nobody empties.
fn stuck(host: u32, engine: impl Into<Mix>, config: &Config) -> Single<Mix> {
    let outbox = Outbox::new(config.outbox());
    let mut stuck = Single::start(engine.into(), outbox, 1);
    for other in (0..=5).filter(|other| *other != host) {
        stuck.connect(PeerId(other), identity_of(other), "", false);
    }
    stuck.links.clear();
    stuck
}

fn node(number: u32, config: Config) -> Node {
    Node::new(config, number, Secret::new([3; 32])).unwrap()
}

#[test]
fn peer_that_floods_pings_and_reads_nothing_is_owed_one_answer() {
    let config = config(5, 5, Group::Model);
    let plan = Arc::new(plan(&config));
    for host in [1, 5] {
        let mut flooded = match host {
            5 => stuck(5, Scheduler::new(config.clone()).unwrap(), &config),
            _ => stuck(host, node(host, config.clone()), &config),
        };
        flooded.frame(PeerId(5), MixFrame::Create(Arc::clone(&plan)));
        let before = flooded.outbox.pending();
        for number in 0..100_000 {
            flooded.frame(PeerId(0), MixFrame::Echo { number, is_answer: false });
            // Node 1 forwards pings of the node before it to node 2.
            flooded.frame(PeerId(0), MixFrame::Ping { round: 7, number, seat: 1 });
        }
        let answers = if host == 1 { 2 } else { 1 };
        assert_eq!(flooded.outbox.pending(), before + answers, "at host {host}");
        assert!(flooded.outbox.pending_bytes_to(PeerId(0)) < OWED_MAX);
        assert_eq!((flooded.engine.metrics().overflows, flooded.links.len()), (0, 0));
        // The answer is that to the last ping.
        let answer = flooded.take(PeerId(0)).pop();
        assert_eq!(answer, Some(MixFrame::Echo { number: 99_999, is_answer: true }));
    }
}

#[test]
fn link_of_a_peer_that_provokes_answers_and_reads_nothing_is_closed() {
    let config = Config { control_max: 500, ..config(5, 5, Group::Model) };
    let plan = Arc::new(plan(&config));
    let scheduler = stuck(5, Scheduler::new(config.clone()).unwrap(), &config);
    // The scheduler answers states of unknown rounds, and a node repeated plans.
    let ends = (scheduler, 0, MixFrame::Status { round: 999, state: NodeState::Standby });
    let states = (stuck(1, node(1, config.clone()), &config), 5, MixFrame::Create(plan));
    for (mut flooded, peer, frame) in [ends, states] {
        let pending = |flooded: &Single<Mix>| {
            let to_peer = flooded.outbox.pending_to(PeerId(peer));
            (to_peer, flooded.outbox.pending() - to_peer)
        };
        let (_, others) = pending(&flooded);
        for _ in 0..100_000 {
            flooded.frame(PeerId(peer), frame.clone());
        }
        assert_eq!(pending(&flooded), (500, others));
        assert_eq!(flooded.links, [LinkRequest::Close(PeerId(peer))]);
        let metrics = flooded.engine.metrics();
        assert_eq!(metrics.overflows, 1);
        assert!(metrics.queue_drops > 99_000);
        // A new link starts afresh.
        flooded.disconnect(PeerId(peer));
        flooded.connect(PeerId(peer), identity_of(peer), "", false);
        flooded.frame(PeerId(peer), frame.clone());
        assert_eq!((flooded.engine.metrics().overflows, flooded.links.len()), (1, 1));
    }
}

fn plan(config: &Config) -> Plan {
    Plan {
        round: 7,
        team: vec![0, 1, 2, 3, 4],
        incarnations: Vec::new(),
        batch: config.batch,
        precomputation_slots: config.precomputation_slots,
        realtime_slots: config.realtime_slots,
        transfer: config.transfer,
        shape: config.result_shape(),
    }
}
