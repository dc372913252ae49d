//! Bulk data between sites: number of crossings, and speed.

use std::time::Duration;

use samara_engine::Shape;
use samara_engine::shape::Workload;
use samara_ring::{Command, ShapeChoice};

use super::sites::{Net, WAN, Wan};

#[test]
fn bulk_data_crosses_each_link_between_sites_once() {
    for (sites, size) in [(2, 3), (3, 4), (4, 2), (2, 1)] {
        let shape = ShapeChoice::Fixed(Shape::Ring);
        let mut net = Net::formed(1, sites, size, |config| config.bridge.shape = shape);
        net.crossed.clear();
        let hosts = net.hosts();
        // All hosts of the first site broadcast 6 MB in total.
        (0..size).for_each(|host| net.send(host, 6_000_000 / 8_192 / u64::from(size), 8_192, Duration::ZERO));
        let begin = net.now;
        net.run_for(Duration::from_secs(8));
        let label = format!("{sites} sites of {size}");
        net.assert_complete(&hosts, &hosts, &label);
        let bytes: u64 = net.sent.iter().sum::<u64>() * 8_192;
        let most = net.crossed.values().copied().max().unwrap_or(0);
        assert!(
            most >= bytes && most as f64 <= 1.03 * bytes as f64,
            "{label}: {most} of {bytes} bytes crossed"
        );
        // A ring of N sites has N-1 links from the site of the senders to the last one.
        let all: u64 = net.crossed.values().sum();
        assert!(all as f64 <= 1.05 * (bytes * u64::from(sites - 1)) as f64, "{label}: {all} bytes in total");
        // The link was busy: 2.4 s at 20 Mbit/s, plus the latency of the last message.
        let took = net.last_at.iter().max().unwrap().since(begin);
        let bound = Duration::from_secs_f64(8.0 * bytes as f64 / WAN.bps as f64);
        assert!(took.as_secs_f64() <= 1.25 * bound.as_secs_f64() + 0.3, "{label}: {took:?}, bound {bound:?}");
        assert!(
            hosts.iter().all(|host| net.engine(*host).kept_bytes() == 0),
            "{label}: an engine still keeps messages"
        );
    }
}

#[test]
fn both_levels_support_every_shape() {
    let workload = Workload {
        members: 0,
        senders: 1,
        message_bytes: 8_192,
        chunk_bytes: 65_536,
        link_bytes_per_s: 2.5e6,
        hop_s: 0.02,
    };
    let fixed = Shape::ALL.into_iter().map(ShapeChoice::Fixed);
    for shape in fixed.chain([ShapeChoice::ByFormula(workload)]) {
        let mut net = Net::formed(2, 4, 3, |config| {
            (config.bridge.shape, config.local.shape) = (shape, shape);
        });
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 30, 5_000, Duration::from_millis(5)));
        net.run_for(Duration::from_secs(6));
        net.assert_complete(&hosts, &hosts, &format!("{shape:?}"));
        let view = net.engine(net.leader(0).unwrap()).bridge().unwrap().view().unwrap().clone();
        assert_eq!(view.shape, shape.shape(4));
    }
}

#[test]
fn idle_federation_is_quiet_and_slow_site_is_bounded() {
    let slow = Wan { bps: 2_000_000, ..WAN };
    let mut net = Net::new(3, slow, 2, 3, |config| config.window_bytes = 1 << 20);
    net.run_for(Duration::from_secs(4));
    net.crossed.clear();
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.crossed.values().sum::<u64>(), 0, "payload without any broadcast");
    (0..3).for_each(|host| net.send(host, 10_000, 8_192, Duration::ZERO));
    net.run_for(Duration::from_secs(10));
    // The window of the site, plus one message of each member.
    assert!(net.kept_max <= (1 << 20) + 3 * 8_300, "{} bytes kept", net.kept_max);
    assert!((0..3).all(|host| net.engine(host).metrics().refused > 0));
    // The slow link is always busy: 10 s at 2 Mbit/s are 2.5 MB.
    let got = net.delivered[3].len() as u64 * 8_192;
    assert!(got >= 2_000_000, "{got} bytes arrived");
    net.assert_order("during the run");
}

#[test]
fn paused_application_slows_its_federation_and_loses_nothing() {
    for paused in [2, 3, 5] {
        let mut net = Net::formed(4, 2, 3, |config| {
            (config.window_bytes, config.local.held_bytes) = (1 << 20, 256 << 10);
        });
        (0..3).for_each(|host| net.send(host, 300, 8_192, Duration::ZERO));
        net.run_for(Duration::from_millis(200));
        net.command(paused, Command::Pause);
        net.run_for(Duration::from_secs(5));
        assert!(net.sent.iter().sum::<u64>() < 900, "no sender waited for {paused}");
        net.command(paused, Command::Unpause);
        net.run_for(Duration::from_secs(8));
        net.assert_complete(&[0, 1, 2, 3, 4, 5], &[0, 1, 2], &format!("after the pause of {paused}"));
    }
}
