//! Nodes of several generations in one network.

use samara_cat::{Config, Preset};
use samara_engine::Time;

use crate::App;
use crate::net::{Delay, Net};

/// Half of the nodes are ours, the other half are of one old generation. Everything reaches all
/// nodes, since the old nodes are bridged.
#[test]
fn ours_interoperates_with_each_old_generation() {
    for preset in [
        Preset::FloodFifo,
        Preset::FloodPriority,
        Preset::SeenOnly,
        Preset::Cat2023,
        Preset::Cat2From2023,
        Preset::CatMerged,
    ] {
        for seed in 0..3 {
            let mut net = Net::new(seed, Delay::millis(1, 50));
            for host in 0..40 {
                let config = if host % 2 == 0 { Config::default() } else { preset.config() };
                net.honest(config, App::default());
            }
            net.connect_randomly(5);
            net.submit_randomly(60, 1_000, 5);
            net.run_until(Time::from_secs(60));
            let missing = net.missing(&net.all_honest());
            assert!(missing.is_empty(), "{}: {:?}", preset.name(), missing.first());
        }
    }
}

/// All compatible generations at once.
#[test]
fn all_generations_interoperate() {
    let presets = [
        Preset::Cat,
        Preset::Cat2023,
        Preset::Cat,
        Preset::FloodFifo,
        Preset::Cat,
        Preset::CatMerged,
        Preset::SeenOnly,
    ];
    for seed in 0..3 {
        let mut net = Net::new(seed, Delay::millis(1, 50));
        for host in 0..42 {
            net.honest(presets[host % presets.len()].config(), App::default());
        }
        net.deliver(6, (60, 1_000, 5), 60);
    }
}

/// With the generation of 2026, which needs signers and sequence numbers, and drops unrequested
/// bodies.
#[test]
fn ours_interoperates_with_the_generation_of_2026() {
    for seed in 0..3 {
        let mut net = Net::new(seed, Delay::millis(1, 50));
        for host in 0..30 {
            let config = if host % 2 == 0 { Config::default() } else { Preset::Cat2026.config() };
            let sequences = (host % 2 == 1).then(std::collections::BTreeMap::new);
            net.honest(config, App { sequences, ..App::default() });
        }
        net.connect_randomly(6);
        for owner in 0..6u64 {
            for sequence in 0..10 {
                let at = Time::from_millis(100 * sequence);
                net.submit(at, (owner * 5) as u32, &crate::signed(owner, sequence));
            }
        }
        net.run_until(Time::from_secs(120));
        net.assert_all_delivered();
    }
}
