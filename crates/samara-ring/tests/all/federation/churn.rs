//! Leaders, members, links and whole sites fail during a stream.

use std::time::Duration;

use samara_engine::testing::Crash;
use samara_ring::Command;

use super::sites::Net;
use crate::seeds::for_seeds;

/// The leader of any site fails at some moment of a stream in both directions: nothing is lost, doubled or out of order.
fn crash_of_a_leader(seed: u64) {
    let sites = 2 + (seed % 3) as u16;
    let label = format!("seed {seed}");
    let mut net = Net::formed(seed, sites, 3, |_| {});
    net.crossed.clear();
    let hosts = net.hosts();
    hosts.iter().for_each(|host| net.send(*host, 200, 2_000, Duration::from_millis(8)));
    let wait = net.rng.below(1_600_000);
    net.run_for(Duration::from_micros(wait));
    let site = net.rng.below(sites.into()) as u16;
    let victim = net.leader(site).unwrap();
    let how = if net.rng.chance(0.5) { Crash::Closes } else { Crash::Silent };
    net.crash(victim, how);
    if net.rng.chance(0.3) {
        // Another leader, a moment later: the one of another site, or the next one of this site.
        let wait = net.rng.below(800);
        net.run_for(Duration::from_millis(wait));
        let second = if net.rng.chance(0.5) { site } else { (site + 1) % sites };
        if let Some(second) = net.leader(second) {
            net.crash(second, how);
        }
    }
    net.run_for(Duration::from_secs(14));
    let living = net.living();
    net.assert_promises(&label);
    net.assert_complete(&living, &living, &label);
    let kept: Vec<u64> = living.iter().map(|host| net.engine(*host).kept_bytes()).collect();
    assert!(kept.iter().all(|kept| *kept == 0), "{label}: {kept:?} bytes are kept");
    // What was sent again: with two sites, a part of what was on its way; with more, also what the others broadcast until the site
    // had a leader again.
    let bytes: u64 = net.sent.iter().sum::<u64>() * 2_000;
    let most = net.crossed.values().copied().max().unwrap_or(0);
    let share = if sites == 2 { 1.1 } else { 1.6 };
    assert!(most as f64 <= share * bytes as f64, "{label}: {most} of {bytes} bytes crossed");
}

/// More with `SAMARA_RING_SEEDS`.
#[test]
fn leaders_crash_at_any_moment() {
    for_seeds(40, crash_of_a_leader);
}

#[test]
fn a_link_between_sites_that_breaks_for_a_while_loses_nothing() {
    for seed in 0..6 {
        let label = format!("seed {seed}");
        let mut net = Net::formed(seed, 3, 2, |_| {});
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 300, 2_000, Duration::from_millis(8)));
        net.run_for(Duration::from_millis(700 + 100 * seed));
        let (a, b) = ((seed % 3) as u16, ((seed + 1) % 3) as u16);
        net.cut(a, b);
        if seed >= 3 {
            // A site on its own.
            net.cut(a, (a + 2) % 3);
            net.cut(a, (a + 1) % 3);
        }
        net.run_for(Duration::from_secs(5));
        net.heal();
        net.run_for(Duration::from_secs(20));
        net.assert_promises(&label);
        net.assert_complete(&hosts, &hosts, &label);
    }
}

#[test]
fn a_site_that_is_gone_is_waited_for_and_then_not_any_more() {
    let mut net = Net::formed(5, 3, 2, |config| {
        (config.absent_after, config.window_bytes) = (Duration::from_secs(10), 400_000);
    });
    net.send(0, u64::MAX, 8_192, Duration::from_millis(4));
    net.run_for(Duration::from_secs(1));
    net.crash(4, Crash::Closes);
    net.crash(5, Crash::Closes);
    net.run_for(Duration::from_secs(8));
    let waiting = net.sent[0];
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.sent[0], waiting, "the window is not closed");
    net.run_for(Duration::from_secs(4));
    assert!(net.sent[0] > waiting + 100, "the others do not go on");
    net.assert_order("while it runs");
}

#[test]
fn who_leaves_has_its_messages_everywhere() {
    for leaver in 0..6 {
        let label = format!("leaver {leaver}");
        let mut net = Net::formed(6, 3, 2, |_| {});
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 200, 4_000, Duration::from_millis(2)));
        net.run_for(Duration::from_millis(300));
        net.command(leaver, Command::Leave);
        net.run_for(Duration::from_secs(10));
        assert!(net.left.contains(&leaver), "{label}: still there");
        let living = net.living();
        net.assert_complete(&living, &hosts, &label);
    }
}

#[test]
fn the_last_one_of_a_site_leaves_when_the_others_have_its_messages() {
    let mut net = Net::formed(7, 2, 1, |_| {});
    net.send(0, 100, 8_192, Duration::ZERO);
    net.run_for(Duration::from_millis(5));
    net.command(0, Command::Leave);
    net.run_for(Duration::from_secs(6));
    assert!(net.left.contains(&0));
    assert!(net.sent[0] > 0);
    net.assert_complete(&[1], &[0], "the last one");
}
