//! Members that join, leave and fail during a stream.

use std::time::Duration;

use samara_engine::Shape;
use samara_ring::{Command, Config, Order, Preset, ShapeChoice};

use crate::group::{Crash, Link, Net};

const LAN: Link = Link::micros(50, 500);
/// 100 Mbit/s.
const SHAPED: Link = Link { bps: 100_000_000, ..LAN };
/// 40 Mbit/s: time under load costs less than half as many frames.
const SLOW: Link = Link { bps: 40_000_000, ..LAN };

fn configs() -> Vec<(String, Config)> {
    let shapes = Shape::ALL.into_iter().map(|shape| {
        let config = Config { shape: ShapeChoice::Fixed(shape), ..Config::default() };
        (shape.name().to_owned(), config)
    });
    shapes.chain([("total".to_owned(), Preset::RingTotal.config().unwrap())]).collect()
}

#[test]
fn crash_at_any_rank_loses_nothing_and_stalls_less_than_a_second() {
    for (name, config) in configs() {
        for how in [Crash::Closes, Crash::Silent] {
            for victim in 0..5u32 {
                let label = format!("{name}, {how:?}, victim {victim}");
                let mut net = Net::group(u64::from(victim), SLOW, 5, &config);
                (0..5).for_each(|host| net.send(host, 100_000, 8_192, Duration::ZERO));
                net.run_for(Duration::from_secs(1));
                net.reset_gaps();
                net.crash(victim, how);
                net.run_for(Duration::from_millis(2_500));
                let gap = net.record.longest_gap();
                assert!(gap <= Duration::from_secs(1), "{label}: {gap:?}, {:?}", net.record.gaps);
                let survivors: Vec<u32> = (0..5).filter(|host| *host != victim).collect();
                net.assert_together(&survivors);
                net.record.assert_promises(config.order == Order::Total, &label);
                // All messages of the survivors arrive. The last ones are still in flight.
                for host in &survivors {
                    for origin in &survivors {
                        let got = net.record.delivered_of(*host, *origin);
                        assert!(got.len() > 200, "{label}: {} of {origin} at {host}", got.len());
                        assert!(got.iter().zip(1..).all(|(got, expected)| *got == expected), "{label}");
                    }
                }
            }
        }
    }
}

/// The copies of the member before the gap travel on to all members after it.
#[test]
fn predecessors_send_missing_units_again() {
    let mut net = Net::group(1, SHAPED, 6, &Config::default());
    net.send(0, 1_000, 8_192, Duration::ZERO);
    net.run_for(Duration::from_millis(300));
    net.crash(3, Crash::Closes);
    net.run_for(Duration::from_secs(5));
    let resent = [0, 2, 4, 5].map(|host| net.engine(host).metrics().repaired);
    let [origin, before, after, last] = resent;
    assert!(before > 0 && after > 0, "{resent:?}");
    assert_eq!((origin, last), (0, 0), "{resent:?}");
    net.record.assert_complete(&[0, 1, 2, 4, 5], &[0], "one sender");
}

#[test]
fn messages_of_a_leaver_arrive_everywhere_and_traffic_stops() {
    for (name, config) in configs() {
        for leaver in 0..4u32 {
            let label = format!("{name}, leaver {leaver}");
            let mut net = Net::group(u64::from(leaver), SHAPED, 4, &config);
            let all = [0, 1, 2, 3];
            all.iter().for_each(|host| net.send(*host, 500, 8_192, Duration::ZERO));
            net.run_for(Duration::from_millis(300));
            net.command(leaver, Command::Leave);
            net.run_for(Duration::from_secs(4));
            let rest: Vec<u32> = all.into_iter().filter(|host| *host != leaver).collect();
            assert!(net.record.has_left(leaver), "{label}");
            net.assert_together(&rest);
            net.record.assert_promises(config.order == Order::Total, &label);
            net.record.assert_complete(&rest, &all, &label);
            // Three nodes send ten heartbeats a second to each of the two others (the leaver still
            // listens), and nothing else.
            let before = (net.frames, net.others);
            net.run_for(Duration::from_secs(10));
            let frames = net.frames - before.0;
            assert!(frames <= 3 * 3 * 10 * 10 + 9, "{label}: {frames} frames");
            assert_eq!(net.others, before.1, "{label}: frames other than heartbeats");
            assert!(rest.iter().all(|host| net.engine(*host).kept_bytes() == 0), "{label}");
        }
    }
}

/// After a partition, the connections of a member return one by one, by the timers of their
/// transport. The members that stayed are not removed because it does not hear one of them yet.
#[test]
fn connections_that_return_one_by_one_remove_no_member() {
    for (name, config) in configs() {
        for late in [(1, 3), (3, 1)] {
            let label = format!("{name}, {late:?} comes last");
            let mut net = Net::group(1, SHAPED, 4, &config);
            (0..4).for_each(|host| net.send(host, 4_000, 8_192, Duration::ZERO));
            net.run_for(Duration::from_secs(1));
            net.reset_gaps();
            for other in 0..3 {
                net.hold(other, 3, Duration::from_secs(2));
                net.hold(3, other, Duration::from_secs(2));
            }
            net.hold(late.0, late.1, Duration::from_millis(2_900));
            net.run_for(Duration::from_secs(12));
            net.assert_together(&[0, 1, 2, 3]);
            let gap = [0, 1, 2].into_iter().filter_map(|host| net.record.gaps.get(&host)).max();
            assert!(gap.is_some_and(|gap| gap.0 <= Duration::from_secs(1)), "{label}: {gap:?}");
            net.record.assert_promises(config.order == Order::Total, &label);
            net.record.assert_complete(&[0, 1, 2], &[0, 1, 2], &label);
        }
    }
}

#[test]
fn a_joiner_gets_a_clean_cut() {
    for (name, config) in configs() {
        let mut net = Net::group(1, SHAPED, 4, &config);
        (0..4).for_each(|host| net.send(host, 2_000, 8_192, Duration::ZERO));
        net.run_for(Duration::from_secs(1));
        net.reset_gaps();
        let joiner = net.join(&config, 0..4);
        net.send(joiner, 100, 1_000, Duration::ZERO);
        net.run_for(Duration::from_secs(10));
        let all = [0, 1, 2, 3, joiner];
        net.assert_together(&all);
        net.record.assert_promises(config.order == Order::Total, &name);
        net.record.assert_complete(&[0, 1, 2, 3], &all, &name);
        net.record.assert_complete(&[joiner], &[joiner], &name);
        // From its first view on, it receives all messages.
        for origin in 0..4 {
            let got = net.record.delivered_of(joiner, origin);
            assert_eq!(got.last(), Some(&2_000), "{name}");
        }
        // Units reach only the members they are for.
        use samara_ring::Ignored::{BeyondWindow, HopsSpent, Returned, Stranger, UnknownOrigin};
        for cause in [Returned, UnknownOrigin, HopsSpent, Stranger, BeyondWindow] {
            let count: u64 = all.iter().map(|host| net.engine(*host).metrics().ignored(cause)).sum();
            assert_eq!(count, 0, "{name}: {cause:?}");
        }
    }
}

/// Only one member of a group admits newcomers. Any other member names that one to a newcomer.
#[test]
fn newcomer_joins_through_any_member() {
    for known in 0..4 {
        let config = Config::default();
        let mut net = Net::group(1, SHAPED, 4, &config);
        let joiner = net.join(&config, [known]);
        net.run_for(Duration::from_secs(2));
        net.assert_together(&[0, 1, 2, 3, joiner]);
        let last = net.join(&config, [joiner]);
        net.run_for(Duration::from_secs(2));
        net.assert_together(&[0, 1, 2, 3, joiner, last]);
    }
}

#[test]
fn partition_sides_continue_and_merge() {
    for (name, config) in configs() {
        for seed in 0..3 {
            let label = format!("{name}, seed {seed}");
            let mut net = Net::group(seed, LAN, 6, &config);
            (0..6).for_each(|host| net.send(host, 1_500, 500, Duration::from_millis(6)));
            net.run_for(Duration::from_secs(1));
            net.partition(|host| u32::from(host >= 2 + seed as u32));
            net.run_for(Duration::from_secs(4));
            let (left, right): (Vec<u32>, Vec<u32>) = (0..6).partition(|host| *host < 2 + seed as u32);
            net.assert_together(&left);
            net.assert_together(&right);
            net.heal();
            net.run_for(Duration::from_secs(20));
            net.assert_together(&[0, 1, 2, 3, 4, 5]);
            net.record.assert_promises(config.order == Order::Total, &label);
            // Each side has all of its own messages.
            net.record.assert_complete(&left, &left, &label);
            net.record.assert_complete(&right, &right, &label);
        }
    }
}

#[test]
fn short_link_failure_removes_no_member() {
    for (name, config) in configs() {
        let mut net = Net::group(5, SHAPED, 5, &config);
        let all = [0, 1, 2, 3, 4];
        all.iter().for_each(|host| net.send(*host, 1_000, 8_192, Duration::ZERO));
        for round in 0..20 {
            net.run_for(Duration::from_millis(70));
            net.disconnect(round % 5, (round + 1 + round / 5) % 5);
        }
        net.run_for(Duration::from_secs(8));
        net.assert_together(&all);
        assert!(net.record.suspected.is_empty(), "{name}: {:?}", net.record.suspected);
        net.record.assert_promises(config.order == Order::Total, &name);
        net.record.assert_complete(&all, &all, &name);
    }
}
