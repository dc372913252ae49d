//! Random histories: crashes, restarts, and broken or cut links, at any moment.
//!
//! Runs 8 histories, or the number in `SAMARA_MIX_SEEDS`:
//! `SAMARA_MIX_SEEDS=5000 cargo test -p samara-mix --test all seeds`.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_engine::Shape;
use samara_engine::{NodeRng, Purpose};
use samara_mix::{Config, Group, ResultShape, Transfer};

use crate::config;
use crate::net::{Crash, Net};

fn random_config(rng: &mut NodeRng) -> Config {
    let team = 2 + rng.index(4);
    let pool = (team + rng.index(5)) as u32;
    let group = if rng.chance(0.1) { Group::Small256 } else { Group::Model };
    let in_flight = 1 + rng.index(team);
    Config {
        teams: 1 + rng.index(2),
        batch: 1 + rng.below(40) as u32,
        transfer: Transfer::ALL[rng.index(2)],
        shape: ResultShape::Fixed(Shape::ALL[rng.index(4)]),
        precomputation_slots: 1 + rng.below(8) as u32,
        realtime_slots: 1 + rng.below(50) as u32,
        rounds_per_draw: 1 + rng.below(30),
        precomputing_max: in_flight,
        realtime_max: in_flight,
        rounds_max: in_flight + rng.index(4),
        jobs_max: 1 + rng.index(3),
        ..config(pool, team, group)
    }
}

fn history(seed: u64) {
    let mut rng = NodeRng::new(seed, 0, Purpose::Faults);
    let mut net = Net::new(seed, random_config(&mut rng));
    net.slot_cost = Duration::from_micros(10 + rng.below(400));
    net.latency = Duration::from_micros(2_000 + rng.below(30_000));
    // Most of a long history is waiting.
    net.pause = Duration::from_millis(20 + rng.below(500));
    net.rate = [0, 1_000_000][rng.index(2)];
    let hosts = net.scheduler() as u64 + 1;
    let mut dead: BTreeSet<u32> = BTreeSet::new();
    for _ in 0..rng.below(12) {
        net.run_for(Duration::from_micros(rng.below(800_000)));
        let (a, b) = (rng.below(hosts) as u32, rng.below(hosts) as u32);
        match rng.below(6) {
            0 if !dead.contains(&a) => {
                net.crash(a, if rng.chance(0.5) { Crash::Closes } else { Crash::Silent });
                dead.insert(a);
            }
            1 | 2 if a != b => net.disconnect(a, b),
            3 if a != b => net.cut(a, b),
            4 => net.heal(),
            _ => {
                if let Some(host) = dead.pop_first() {
                    net.restart(host);
                }
            }
        }
    }
    // After all faults are repaired, the service must work again.
    net.heal();
    for host in std::mem::take(&mut dead) {
        net.restart(host);
    }
    net.run_for(Duration::from_secs(6));
    let complete = net.record.complete().len();
    net.run_for(Duration::from_secs(30));
    net.record.check(&[]);
    assert!(net.record.complete().len() > complete, "no further round completed");
    assert!(
        net.record.refused.iter().all(|error| error.contains("takes no batch")),
        "{:?}",
        net.record.refused
    );
    for host in 0..=net.scheduler() {
        assert_eq!(net.engine(host).metrics().queue_drops, 0);
    }
    // Rounds without an end must have started recently.
    let now = net.now;
    for ((round, host), states) in &net.record.states {
        let is_old = now.since(states[0].0) > Duration::from_secs(35);
        let ended = net.record.delivered.contains_key(&(*round, *host))
            || net.record.failed.contains_key(&(*round, *host));
        assert!(
            ended || !is_old || net.record.restarted.contains(host),
            "round {round} does not end at {host}"
        );
    }
}

#[test]
fn rounds_complete_or_fail_and_service_recovers() {
    let number = |name, default| std::env::var(name).map_or(default, |number| number.parse().unwrap());
    let (from, seeds) = (number("SAMARA_MIX_FROM", 0), number("SAMARA_MIX_SEEDS", 8));
    for seed in from..from + seeds {
        if let Err(panic) = std::panic::catch_unwind(|| history(seed)) {
            eprintln!("seed {seed}: replay with SAMARA_MIX_FROM={seed} SAMARA_MIX_SEEDS=1");
            std::panic::resume_unwind(panic);
        }
    }
}
