//! Leaders, members, links and whole sites that fail during a stream.

use std::time::Duration;

use samara_engine::testing::Crash;
use samara_ring::Command;

use super::sites::Net;
use crate::seeds::for_seeds;

/// The leader of any site fails at a random moment of a stream in both directions. Nothing is lost,
/// duplicated or reordered.
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
        // A moment later, a second leader fails: the one of another site, or the new one of this
        // site.
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
    assert!(kept.iter().all(|kept| *kept == 0), "{label}: {kept:?} bytes still kept");
    // Messages sent again: with two sites, a part of those in flight; with more, also messages that
    // the others broadcast while the site had no leader.
    let bytes: u64 = net.sent.iter().sum::<u64>() * 2_000;
    let most = net.crossed.values().copied().max().unwrap_or(0);
    let share = if sites == 2 { 1.1 } else { 1.6 };
    assert!(most as f64 <= share * bytes as f64, "{label}: {most} of {bytes} bytes crossed");
}

/// `SAMARA_RING_SEEDS` sets another number of seeds.
#[test]
fn leader_crash_at_any_moment_loses_nothing() {
    for_seeds(24, crash_of_a_leader);
}

#[test]
fn broken_link_between_sites_loses_nothing() {
    for seed in 0..6 {
        let label = format!("seed {seed}");
        let mut net = Net::formed(seed, 3, 2, |_| {});
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 300, 2_000, Duration::from_millis(8)));
        net.run_for(Duration::from_millis(700 + 100 * seed));
        let (a, b) = ((seed % 3) as u16, ((seed + 1) % 3) as u16);
        net.cut(a, b);
        if seed >= 3 {
            // An isolated site.
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
fn others_wait_for_an_absent_site_until_the_timeout() {
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
    assert_eq!(net.sent[0], waiting, "the window is still open");
    net.run_for(Duration::from_secs(4));
    assert!(net.sent[0] > waiting + 100, "the other sites do not continue");
    net.assert_order("during the run");
}

#[test]
fn leaver_leaves_once_all_sites_have_its_messages() {
    for leaver in 0..6 {
        let label = format!("leaver {leaver}");
        let mut net = Net::formed(6, 3, 2, |_| {});
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 200, 4_000, Duration::from_millis(2)));
        net.run_for(Duration::from_millis(300));
        net.command(leaver, Command::Leave);
        net.run_for(Duration::from_secs(10));
        assert!(net.left.contains(&leaver), "{label}: has not left");
        let living = net.living();
        net.assert_complete(&living, &hosts, &label);
    }
}

#[test]
fn last_member_of_a_site_leaves_once_other_sites_have_its_messages() {
    let mut net = Net::formed(7, 2, 1, |_| {});
    net.send(0, 100, 8_192, Duration::ZERO);
    net.run_for(Duration::from_millis(5));
    net.command(0, Command::Leave);
    net.run_for(Duration::from_secs(6));
    assert!(net.left.contains(&0));
    assert!(net.sent[0] > 0);
    net.assert_complete(&[1], &[0], "the last member");
}
