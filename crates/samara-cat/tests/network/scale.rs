//! What many nodes cost.

use std::time::Duration;

use samara_cat::Config;
use samara_engine::Time;

use crate::common::{Delay, Net};

/// 300 nodes that dial 10 each, and 300 transactions: a million announced keys and 90,000 bodies. Run by hand:
/// `cargo test --release -p samara-cat --test network scale -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn many_nodes() {
    let mut net = Net::uniform(1, Delay::millis(5, 100), 300, &Config::default());
    net.connect_randomly(10);
    let all = net.all_honest();
    net.submit_randomly(300, 4_800, Duration::from_secs(10), &all);
    let start = std::time::Instant::now();
    net.run_until(Time::from_secs(20));
    let keys = net.sum(|metrics| metrics.heard_keys);
    println!("{:?}, {:.3} copies, {keys} keys, {:.1} ms", start.elapsed(), net.copies(), net.median_ms());
    net.assert_all_delivered();
    assert!(net.copies() <= 1.02);
}
