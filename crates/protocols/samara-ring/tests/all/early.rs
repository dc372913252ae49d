//! Messages that a node broadcasts before it has a view.

use std::time::Duration;

use samara_ring::Ignored::{BeyondWindow, HopsSpent, Returned, StaleView, Stranger, UnknownOrigin};
use samara_ring::{Command, Config, Early};

use crate::group::{Link, Net};
use crate::message;

const LAN: Link = Link::micros(50, 500);

/// Creates a group under load with a joiner that broadcasts as soon as it is connected.
fn joiner(early: Early) -> (Net, u32) {
    let config = Config { early, ..Config::default() };
    let mut net = Net::group(1, LAN, 4, &config);
    (0..4).for_each(|host| net.send(host, 300, 1_000, Duration::from_millis(5)));
    net.run_for(Duration::from_millis(200));
    let joiner = net.join(&config, 0..4);
    net.run_for(Duration::from_millis(5));
    assert!(net.engine(joiner).view().is_none());
    for number in 1..=20 {
        net.command(joiner, Command::Broadcast(message(joiner, number, 1_000)));
        net.record.broadcast(joiner, number);
    }
    (net, joiner)
}

fn spurious(net: &Net) -> u64 {
    let causes = [Returned, UnknownOrigin, HopsSpent, Stranger, StaleView, BeyondWindow];
    let hosts = 0..net.len();
    hosts.flat_map(|host| causes.map(|cause| net.engine(host).metrics().ignored(cause))).sum()
}

#[test]
fn held_messages_travel_the_ring_of_the_first_view() {
    let (mut net, joiner) = joiner(Early::Hold);
    net.run_for(Duration::from_millis(20));
    assert!((0..=joiner).all(|host| net.record.delivered_of(host, joiner).is_empty()));
    net.run_for(Duration::from_secs(4));
    net.record.assert_promises(false, "held");
    net.record.assert_complete(&[0, 1, 2, 3, joiner], &[joiner], "held");
    assert_eq!(spurious(&net), 0);
}

#[test]
fn direct_messages_bypass_the_ring_without_forwarding() {
    let (mut net, joiner) = joiner(Early::Direct);
    let forwarded =
        |net: &Net| -> u64 { (0..net.len()).map(|host| net.engine(host).metrics().forwarded).sum() };
    net.run_for(Duration::from_millis(20));
    // All hosts have them before there is a view with the joiner.
    assert!(net.engine(joiner).view().is_none());
    let expected: Vec<u64> = (1..=20).collect();
    (0..=joiner).for_each(|host| assert_eq!(net.record.early_of(host, joiner), expected, "host {host}"));
    net.run_for(Duration::from_secs(4));
    net.assert_together(&[0, 1, 2, 3, joiner]);
    net.record.assert_promises(false, "direct");
    net.record.assert_complete(&[0, 1, 2, 3], &[0, 1, 2, 3], "direct");
    // Each message of the others was forwarded by all but its origin and the last member, and
    // nothing else was. Messages that were sent while the joiner was a member went one hop further.
    let count = 4 * 300;
    assert!((2 * count..=3 * count).contains(&forwarded(&net)), "{}", forwarded(&net));
    assert_eq!(spurious(&net), 0);
    (0..=joiner).for_each(|host| assert_eq!(net.record.early_of(host, joiner), expected, "host {host}"));
}
