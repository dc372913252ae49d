//! What the protocol costs on a network, for each preset.

mod common;

use std::time::Duration;

use common::{Delay, Net};
use samara_cat::Preset;
use samara_engine::Time;

fn run(preset: Preset, delay: Delay) -> Net {
    let mut net = Net::uniform(7, delay, 100, &preset.config());
    net.connect_randomly(10);
    let all = net.all_honest();
    net.submit_randomly(200, 4_800, Duration::from_secs(20), &all);
    net.run_until(Time::from_secs(23));
    net
}

#[test]
fn table() {
    for preset in Preset::ALL {
        if preset == Preset::Cat2026 {
            continue;
        }
        for delay in [Delay::millis(1, 1), Delay { flush: Duration::from_millis(100), ..Delay::millis(1, 1) }, Delay { bps: 20_000_000, ..Delay::millis(5, 80) }] {
            let net = run(preset, delay);
            let d = net.delays_ms();
            println!(
                "{:15} {:?}: copies {:.3} p50 {:.1} p99 {:.1} announced {:.2} requested {:.3} lost {} missing {}",
                preset.name(), (delay.min.as_millis(), delay.max.as_millis(), delay.flush.as_millis()), net.copies(), net.median_ms(), d[d.len() * 99 / 100],
                net.sum(|m| m.announced_keys) as f64 / 20_000.0,
                net.sum(|m| m.requested_txs) as f64 / 20_000.0,
                net.sum(|m| m.lost_txs), net.missing(&net.all_honest()).len(),
            );
        }
    }
}
