//! The number of copies per message.

use samara_gossipsub::Config;
use samara_gossipsub::config::Withdraw;

use super::harness::{Net, Setup, secs};

/// Sends messages of 100 kB over 20 Mbit/s: copies wait for the uplink, which leaves time to
/// withdraw them.
fn crowded(seed: u64, config: Config) -> Net {
    let mut setup = Setup::new(50, seed, config);
    setup.bps = 20_000_000;
    let mut net = setup.build();
    net.run_until(secs(5.0));
    for number in 0..4 {
        net.publish(secs(5.0), number as u32 * 11, number, 100_000);
    }
    net.run_until(secs(30.0));
    net.assert_delivered(4, &net.all_honest(), &format!("seed {seed}"));
    net
}

#[test]
fn idontwant_saves_duplicates_and_withdrawal_saves_more() {
    let duplicates = |config: &Config| -> u64 {
        (0..5).map(|seed| crowded(seed, config.clone()).sum(|metrics| metrics.duplicates_received)).sum()
    };
    let mut silent = Config::ethereum();
    silent.idontwant.send = false;
    silent.withdraw = Withdraw::NEVER;
    let announced = Config { withdraw: Withdraw::NEVER, ..Config::ethereum() };
    let withdrawn = Config::ethereum();
    let counts = [&silent, &announced, &withdrawn].map(duplicates);
    assert!(counts[1] < counts[0], "IDONTWANT saves nothing: {counts:?}");
    assert!(counts[2] * 10 < counts[1] * 9, "withdrawal saves less than a tenth: {counts:?}");
}

#[test]
fn a_message_costs_each_node_about_d_minus_one_copies() {
    let mut net = Setup::new(100, 3, Config::go_libp2p_pubsub()).build();
    net.run_until(secs(5.0));
    net.publish_each(20, 5.0, 0.2, |number| number, 500);
    net.run_until(secs(12.0));
    net.assert_delivered(20, &net.all_honest(), "go");
    let received = net.sum(|metrics| metrics.messages_received) as f64;
    let copies = received / (20.0 * 99.0);
    // Every mesh link carries a message once or, if copies cross, twice. The first copy came over
    // one of them.
    let mesh: usize = net.mesh_sizes().iter().sum();
    let degree = mesh as f64 / 100.0;
    assert!(copies > degree / 2.0 && copies < degree, "{copies} copies in meshes of {degree}");
}

#[test]
fn gossip_requests_almost_no_messages_that_arrive_anyway() {
    let mut net = Setup::new(60, 4, Config::ethereum()).build();
    net.run_until(secs(5.0));
    net.publish_each(20, 5.0, 0.2, |number| number, 500);
    net.run_until(secs(12.0));
    let (announced, asked) =
        (net.sum(|metrics| metrics.ihave_ids_received), net.sum(|metrics| metrics.iwant_ids_sent));
    assert!(announced > 1000, "{announced} ids were announced");
    assert!(asked * 20 < announced, "{asked} of {announced} ids were requested");
}
