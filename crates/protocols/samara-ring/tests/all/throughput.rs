//! Link utilization, and short queues by flow control.

use std::time::Duration;

use samara_engine::Shape;
use samara_engine::shape::formula;
use samara_ring::{Command, Config, Preset, ShapeChoice, Slow};

use crate::group::{Link, Net};

const BPS: u64 = 100_000_000;
const LINK: f64 = BPS as f64 / 8.0;
const SHAPED: Link = Link { bps: BPS, ..Link::micros(50, 500) };

/// Returns the payload per node and second in bytes, own messages included, as the post measures
/// it.
fn rate(seed: u64, config: &Config, count: u32, senders: u32, seconds: u64) -> f64 {
    let mut net = Net::group(seed, SHAPED, count, config);
    (0..senders).for_each(|host| net.send(host, u64::MAX, 8_192, Duration::ZERO));
    net.run_for(Duration::from_secs(2));
    let before: u64 = (0..count).map(|host| net.engine(host).metrics().delivered_bytes).sum();
    net.run_for(Duration::from_secs(seconds));
    let after: u64 = (0..count).map(|host| net.engine(host).metrics().delivered_bytes).sum();
    assert!(net.record.suspected.is_empty(), "false suspicion under load");
    (after - before) as f64 / seconds as f64 / f64::from(count)
}

#[test]
fn the_ring_reaches_97_percent_of_the_bound() {
    for (count, senders) in [(4, 4), (4, 1), (8, 8), (8, 1), (8, 3)] {
        let (n, s) = (u64::from(count), u64::from(senders));
        let bound = formula::delivered_rate(s, formula::rate_max(n, s, LINK, LINK));
        let reached = rate(1, &Config::default(), count, senders, 4);
        println!("{count} members, {senders} senders: {:.4}", reached / bound);
        assert!(reached >= 0.97 * bound, "{count} members, {senders} send: {:.4}", reached / bound);
    }
}

/// Frames of 64 KiB at each of 63 hops would exceed the window of a member of such a group, so they
/// are smaller.
#[test]
fn one_sender_fills_the_link_of_a_large_group() {
    let bound = formula::delivered_rate(1, formula::rate_max(64, 1, LINK, LINK));
    let reached = rate(1, &Config::default(), 64, 1, 1);
    assert!(reached >= 0.9 * bound, "{:.4}", reached / bound);
}

/// If all members send, frames of all of them are at each hop, and none of them has to be small.
#[test]
fn frames_of_a_large_group_are_full_if_many_send() {
    let units_per_frame = |senders: u32| {
        let fast = Link { bps: 10 * BPS, ..SHAPED };
        let mut net = Net::group(1, fast, 64, &Config::default());
        (0..senders).for_each(|host| net.send(host, u64::MAX, 8_192, Duration::ZERO));
        net.run_for(Duration::from_millis(800));
        let metrics = net.engine(5).metrics();
        (metrics.own_units + metrics.forwarded) as f64 / metrics.data_frames.copies as f64
    };
    let (one, all) = (units_per_frame(1), units_per_frame(48));
    assert!(one < 4.0 && all > 2.0 * one, "{one} and {all}");
}

/// The window follows the rate of the links: fast links do not get the time allowed for slow ones.
#[test]
fn lap_goal_follows_the_rate_of_links() {
    let kept = |per_member: Duration| {
        let mut config = Config::default();
        config.window.slack_per_member = per_member;
        let mut net = Net::group(1, Link { bps: 10 * BPS, ..SHAPED }, 32, &config);
        (0..32).for_each(|host| net.send(host, u64::MAX, 8_192, Duration::ZERO));
        net.run_for(Duration::from_millis(500));
        net.engine(5).kept_bytes() as f64
    };
    let ratio = kept(Duration::from_millis(80)) / kept(Duration::from_millis(1));
    assert!(ratio < 1.3, "{ratio}");
}

#[test]
fn total_order_costs_little_throughput() {
    let bound = formula::delivered_rate(4, formula::rate_max(4, 4, LINK, LINK));
    // The latencies, which depend on the seed and determine the time of a lap, cause a difference
    // of some per cent.
    let reached = (0..4).map(|seed| rate(seed, &Preset::RingTotal.config().unwrap(), 4, 4, 2) / bound);
    let mean = reached.sum::<f64>() / 4.0;
    assert!(mean >= 0.94, "{mean:.4}");
}

#[test]
fn direct_sending_reaches_its_bound() {
    let config = Config { shape: ShapeChoice::Fixed(Shape::Direct), ..Config::default() };
    for senders in [1, 4] {
        let bound = formula::delivered_rate(senders, formula::direct_rate(4, LINK));
        let reached = rate(1, &config, 4, senders as u32, 4);
        assert!(reached >= 0.97 * bound, "{senders} send: {:.4}", reached / bound);
    }
}

/// A member whose application takes nothing makes the group wait. Memory stays bounded, and nothing
/// is lost.
#[test]
fn a_slow_application_slows_the_group() {
    let config = Config { held_bytes: 1 << 20, ..Config::default() };
    let mut net = Net::group(2, SHAPED, 4, &config);
    (0..4).for_each(|host| net.send(host, 3_000, 8_192, Duration::ZERO));
    net.run_for(Duration::from_millis(200));
    net.command(2, Command::Pause);
    net.run_for(Duration::from_secs(6));
    for host in 0..4 {
        let engine = net.engine(host);
        assert!(engine.metrics().refused > 0, "host {host} was never refused");
        assert!(engine.kept_bytes() < 2 * 4 * config.window.max_bytes, "{}", engine.kept_bytes());
        let got = net.record.delivered(host).len();
        assert!(got < 8_000, "host {host} got {got}");
    }
    assert!(net.record.slow.iter().any(|(_, _, slow)| *slow == 2), "no report of the slow member");
    net.assert_together(&[0, 1, 2, 3]);
    net.command(2, Command::Unpause);
    net.run_for(Duration::from_secs(12));
    net.record.assert_complete(&[0, 1, 2, 3], &[0, 1, 2, 3], "after the pause");
    assert!(net.record.room > 0);
}

/// After a pause of the senders, no member is slow: none has missed anything during the pause.
#[test]
fn idle_members_are_not_slow() {
    let config = Config { slow: Slow::Remove { after: Duration::from_secs(1) }, ..Config::default() };
    let mut net = Net::group(2, SHAPED, 4, &config);
    for host in 0..4 {
        net.run_for(Duration::from_secs(2));
        // Members learn of the progress of others from heartbeats, which are later.
        net.send(host, 50, 100, Duration::from_millis(20));
    }
    net.run_for(Duration::from_secs(2));
    assert!(net.record.slow.is_empty(), "{:?}", net.record.slow);
    net.assert_together(&[0, 1, 2, 3]);
    net.record.assert_complete(&[0, 1, 2, 3], &[0, 1, 2, 3], "idle");
}

/// With `Slow::Remove`, the group removes it and the others continue.
#[test]
fn slow_member_is_removed_if_configured() {
    let slow = Slow::Remove { after: Duration::from_secs(1) };
    let config = Config { held_bytes: 1 << 20, slow, ..Config::default() };
    let mut net = Net::group(2, SHAPED, 4, &config);
    (0..4).for_each(|host| net.send(host, 3_000, 8_192, Duration::ZERO));
    net.run_for(Duration::from_millis(200));
    net.command(2, Command::Pause);
    net.run_for(Duration::from_secs(14));
    net.assert_together(&[0, 1, 3]);
    net.record.assert_promises(false, "removed");
    net.record.assert_complete(&[0, 1, 3], &[0, 1, 3], "removed");
}

/// Scaled version of an hour under load: full links alone cause no suspicion.
#[test]
fn no_false_suspicion_under_load() {
    let minutes: u64 = std::env::var("SAMARA_RING_MINUTES").ok().and_then(|m| m.parse().ok()).unwrap_or(1);
    let slow = Link { bps: 5_000_000, ..Link::micros(1_000, 40_000) };
    let mut net = Net::group(1, slow, 4, &Config::default());
    (0..4).for_each(|host| net.send(host, u64::MAX, 8_192, Duration::ZERO));
    net.run_for(Duration::from_secs(60 * minutes));
    assert!(net.record.suspected.is_empty(), "{:?}", net.record.suspected);
    net.assert_together(&[0, 1, 2, 3]);
}
