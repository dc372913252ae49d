//! Loss, partitions, crashes and churn.

use samara_gossipsub::Config;
use samara_sim::{Partition, Transport};

use super::harness::{Setup, secs};

#[test]
fn messages_published_during_a_partition_are_recovered_by_gossip() {
    for seed in 0..10 {
        let mut setup = Setup::new(40, seed, Config::spec());
        setup.network.partitions = vec![Partition {
            from: secs(10.0),
            until: secs(11.0),
            group_of: (0..40).map(|host| host % 2).collect(),
        }];
        let mut net = setup.build();
        net.run_until(secs(10.0));
        let asked = net.sum(|metrics| metrics.iwant_ids_sent);
        net.publish_each(5, 10.1, 0.1, |number| number * 2, 1000);
        net.run_until(secs(10.9));
        let reached: usize = net.deliveries.values().map(|got| got.len()).sum();
        assert!(reached <= 5 * 20, "seed {seed}: the partition leaks");
        net.run_until(secs(16.0));
        net.assert_delivered(5, &net.all_honest(), &format!("seed {seed}"));
        assert!(net.sum(|metrics| metrics.iwant_ids_sent) > asked);
    }
}

#[test]
fn frames_lost_in_transit_are_recovered_by_gossip() {
    for seed in 0..5 {
        let mut setup = Setup::new(40, seed, Config::spec());
        setup.config.flood_publish = false;
        // For a quarter of a second in every half second, three groups lose all frames between
        // them. The groups change each time.
        let groups = |round: u32| (0..40).map(|host: u32| (host * (7 * round + 3) / 5 % 3) as u16).collect();
        let outage = |round: u32| Partition {
            from: secs(10.0 + f64::from(round) * 0.5),
            until: secs(10.25 + f64::from(round) * 0.5),
            group_of: groups(round),
        };
        setup.network.partitions = (0..8).map(outage).collect();
        let mut net = setup.build();
        net.run_until(secs(10.0));
        let asked = net.sum(|metrics| metrics.iwant_ids_sent);
        net.publish_each(20, 10.0, 0.2, |number| number, 1000);
        net.run_until(secs(22.0));
        net.assert_delivered(20, &net.all_honest(), &format!("seed {seed}"));
        assert!(net.sum(|metrics| metrics.iwant_ids_sent) > asked);
    }
}

#[test]
fn every_message_arrives_over_lossy_tcp() {
    for seed in 0..5 {
        let mut setup = Setup::new(30, seed, Config::ethereum());
        setup.network.loss = 0.01;
        setup.transport = Transport::tcp();
        let mut net = setup.build();
        net.run_until(secs(5.0));
        net.publish_each(10, 5.0, 0.2, |number| number, 50_000);
        net.run_until(secs(15.0));
        net.assert_delivered(10, &net.all_honest(), &format!("seed {seed}"));
    }
}

#[test]
fn the_mesh_recovers_from_a_crash_of_a_third_of_the_nodes() {
    for seed in 0..10 {
        let mut net = Setup::new(60, seed, Config::ethereum()).build();
        for host in (0..60).step_by(3) {
            net.sim.crash(secs(10.0), host, false);
        }
        net.run_until(secs(15.0));
        net.publish_each(10, 15.0, 0.1, |number| 1 + number * 3, 1000);
        net.run_until(secs(19.0));
        let alive: Vec<u32> = (0..60).filter(|host| host % 3 != 0).collect();
        net.assert_delivered(10, &alive, &format!("seed {seed}"));
        // With a third of the links gone and some others in backoff, not every mesh can be full
        // again.
        let sizes: Vec<usize> = alive.iter().map(|host| net.mesh_sizes()[*host as usize]).collect();
        assert!(sizes.iter().all(|size| *size >= 2), "seed {seed}: {sizes:?}");
        assert!(sizes.iter().sum::<usize>() >= 6 * sizes.len(), "seed {seed}: {sizes:?}");
    }
}

#[test]
fn after_churn_every_present_node_receives_every_message() {
    for seed in 0..5 {
        let mut net = Setup::new(50, seed, Config::ethereum()).build();
        // Every second, two nodes vanish for four seconds each.
        for step in 0..20 {
            for host in [step * 2 % 50, (step * 2 + 25) % 50] {
                net.sim.crash(secs(10.0 + f64::from(step)), host, false);
                net.sim.restart(secs(14.0 + f64::from(step)), host);
                let subscribe = samara_gossipsub::Command::Subscribe(super::harness::topic());
                net.sim.command(secs(14.01 + f64::from(step)), host, subscribe);
            }
        }
        net.run_until(secs(40.0));
        net.deliveries.clear();
        net.publish_each(10, 40.0, 0.1, |number| number * 5, 1000);
        net.run_until(secs(45.0));
        net.assert_delivered(10, &net.all_honest(), &format!("seed {seed}"));
    }
}
