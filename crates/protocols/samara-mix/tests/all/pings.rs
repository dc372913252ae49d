//! Pings around a team and over links, and the components of latencies.

use std::time::Duration;

use samara_mix::{Config, Group, MixFrame};

use crate::config;
use crate::net::Net;

const MS: Duration = Duration::from_millis(1);

fn pinging(pool: u32, team: usize) -> Config {
    Config { ping: Some(500 * MS), rounds_per_draw: u64::MAX, ..config(pool, team, Group::Model) }
}

/// Sets different latencies in both directions, so that no round trip reveals a one-way latency.
fn asymmetric(net: &mut Net, hosts: u32) {
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            net.latencies.insert((from, to), MS * (10 + 7 * from + 3 * to));
        }
    }
}

#[test]
fn loop_time_is_the_sum_of_one_way_latencies() {
    let mut net = Net::new(1, pinging(8, 5));
    asymmetric(&mut net, 9);
    net.run_for(Duration::from_secs(12));
    assert!(net.record.loops.len() > 10, "{:?}", net.record.loops);
    for (host, team, took) in &net.record.loops {
        assert_eq!((team[0], team.len()), (*host, 5), "the first node of a team asks");
        let after = team.iter().cycle().skip(1);
        let sum: Duration = team.iter().zip(after).map(|(from, to)| net.latencies[&(*from, *to)]).sum();
        assert_eq!(*took, Some(sum), "{team:?}");
    }
    assert!(net.record.drawn.len() == 1 && net.node(net.record.drawn[0].2[0]).metrics().loops > 10);
    net.record.check(&[]);
}

#[test]
fn every_link_reports_its_round_trip() {
    let mut net = Net::new(2, pinging(5, 5));
    asymmetric(&mut net, 6);
    net.run_for(Duration::from_secs(4));
    for node in 0..5 {
        for other in (0..6).filter(|other| *other != node) {
            let expected = net.latencies[&(node, other)] + net.latencies[&(other, node)];
            let took = &net.record.round_trips[&(node, other)];
            assert!(took.len() > 4 && took.iter().all(|took| *took == Some(expected)), "{took:?}");
        }
        let metrics = net.node(node).metrics();
        assert!(metrics.echoes > 20 && metrics.echoes_lost == 0);
    }
}

#[test]
fn computation_does_not_affect_pings() {
    let mut net = Net::new(3, pinging(5, 5));
    net.slot_cost = 5 * MS;
    net.run_for(Duration::from_secs(20));
    assert!(net.record.loops.len() > 10);
    assert!(
        net.record.loops.iter().all(|(_, _, took)| *took == Some(net.latency * 5)),
        "{:?}",
        net.record.loops
    );
}

#[test]
fn late_pings_are_reported_as_lost() {
    let mut net = Net::new(4, pinging(5, 5));
    net.run_for(Duration::from_secs(3));
    let before = net.record.loops.len();
    let team = net.record.drawn[0].2.clone();
    // The ping is lost between two other nodes.
    net.meddle = Some(|_, _, frame| match frame {
        MixFrame::Ping { number, seat, .. } if seat == 3 => MixFrame::Ping { round: 0, number, seat },
        MixFrame::Echo { is_answer: true, .. } => MixFrame::Echo { number: 0, is_answer: true },
        other => other,
    });
    net.run_for(Duration::from_secs(3));
    let lost = &net.record.loops[before + 1..];
    assert!(
        lost.len() > 3 && lost.iter().all(|(host, _, took)| *host == team[0] && took.is_none()),
        "{lost:?}"
    );
    let metrics = net.node(team[0]).metrics();
    assert!(metrics.loops_lost as usize >= lost.len() && metrics.echoes_lost > 10);
    net.record.check(&[]);
}

#[test]
fn sends_no_pings_if_disabled() {
    let mut net = Net::new(5, Config { ping: None, ..config(5, 5, Group::Model) });
    net.run_for(Duration::from_secs(5));
    assert!(net.record.loops.is_empty() && net.record.round_trips.is_empty());
    assert!(Config { ping: Some(MS), ..config(5, 5, Group::Model) }.validate().is_err());
}

#[test]
fn pings_from_the_wrong_side_are_not_forwarded() {
    let mut net = Net::new(6, pinging(5, 5));
    net.run_for(Duration::from_secs(2));
    let plan = net.record.plans.values().next_back().unwrap().clone();
    let (second, fourth) = (plan.team[1], plan.team[3]);
    let sent = |net: &Net| net.node(second).metrics().control_frames.copies;
    let (before, ignored) = (sent(&net), |net: &Net| net.node(second).metrics().ignored.total());
    let ignored_before = ignored(&net);
    for (from, seat, round) in
        [(fourth, 1, plan.round), (plan.team[0], 2, plan.round), (plan.team[0], 1, u64::MAX)]
    {
        net.frame(second, from, MixFrame::Ping { round, number: 5, seat });
    }
    net.frame(second, fourth, MixFrame::Echo { number: 77, is_answer: true });
    assert_eq!(sent(&net), before);
    assert_eq!(ignored(&net), ignored_before + 4);
}

/// The entry and the exit of a batch are reported with its round, so latencies are right whatever
/// else is in flight.
#[test]
fn events_track_a_batch_from_entry_to_exit() {
    let mut net = Net::new(7, pinging(5, 5));
    net.slot_cost = Duration::from_micros(300);
    net.pause = 30 * MS;
    net.run_until(Duration::from_secs(30), |net| net.record.complete().len() >= 12);
    let spans: Vec<_> = net
        .record
        .complete()
        .iter()
        .map(|round| {
            let (host, at, slots) = net.record.entered[round];
            assert_eq!((host, slots), (net.record.plans[round].team[0], net.config.batch));
            (at, net.record.delivered[&(*round, host)].0)
        })
        .collect();
    let overlapping = spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
    assert!(overlapping > 6, "the rounds do not overlap: {spans:?}");
    // At least nine hops of slots and one of the result.
    assert!(spans.iter().all(|(entered, left)| left.since(*entered) >= net.latency * 10), "{spans:?}");
}
