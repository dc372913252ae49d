//! Networks in which every third node is a sybil: meshes, memory and delivery must hold.

use std::time::Duration;

use samara_gossipsub::config::TopicConfig;
use samara_gossipsub::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};
use samara_gossipsub::{Config, Ignored};

use super::harness::{Attack, Net, Setup, secs, topic};

/// Scores that require deliveries from mesh members.
fn guarded() -> Config {
    let score = TopicScoreParams {
        first_message_deliveries_weight: 1.0,
        first_message_deliveries_decay: 0.9,
        first_message_deliveries_cap: 50.0,
        mesh_message_deliveries_weight: -1.0,
        mesh_message_deliveries_decay: 0.9,
        mesh_message_deliveries_cap: 20.0,
        mesh_message_deliveries_threshold: 2.0,
        mesh_message_deliveries_window: Duration::from_millis(500),
        mesh_message_deliveries_activation: Duration::from_secs(5),
        mesh_failure_penalty_weight: -1.0,
        mesh_failure_penalty_decay: 0.9,
        ..TopicScoreParams::neutral()
    };
    let mut config = Config {
        peer_score: Some(PeerScoreParams {
            behaviour_penalty_weight: -1.0,
            behaviour_penalty_threshold: 2.0,
            behaviour_penalty_decay: 0.95,
            ..PeerScoreParams::neutral()
        }),
        thresholds: PeerScoreThresholds {
            gossip: -10.0,
            publish: -50.0,
            graylist: -100.0,
            accept_px: 10.0,
            opportunistic_graft: 2.0,
        },
        flood_publish: false,
        ..Config::spec()
    };
    config.topics.insert(topic(), TopicConfig { score: Some(score), ..TopicConfig::default() });
    config
}

const MESSAGES: usize = 100;

/// Runs 40 honest nodes and 20 attackers, with five messages per second for 20 s from the tenth
/// second on.
fn attacked(seed: u64, attack: Attack) -> Net {
    let mut setup = Setup::new(60, seed, guarded());
    setup.config.gossip.ihave_ids_max = 500;
    setup.sybils = 20;
    setup.attack = attack;
    let mut net = setup.build();
    net.publish_each(MESSAGES, 10.0, 0.2, |number| number * 7 % 40, 1200);
    net.run_until(secs(35.0));
    net
}

/// Returns the scores of the attackers among the peers of honest nodes.
fn attackers_seen(net: &Net) -> Vec<f64> {
    let mut scores = Vec::new();
    for host in 0..net.honest {
        for peer in net.node(host).peers() {
            if net.sim.peer_of(host, *peer) >= net.honest {
                scores.push(net.node(host).peer_score(*peer));
            }
        }
    }
    scores
}

fn share_of_mesh(net: &Net) -> f64 {
    let mut attackers = 0;
    let mut all = 0;
    for host in 0..net.honest {
        for peer in net.node(host).mesh_peers(&topic()) {
            attackers += usize::from(net.sim.peer_of(host, *peer) >= net.honest);
            all += 1;
        }
    }
    attackers as f64 / all as f64
}

#[test]
fn peers_that_graft_but_deliver_nothing_are_pruned() {
    for seed in 0..3 {
        let net = attacked(seed, Attack::Graft);
        net.assert_delivered(MESSAGES, &net.all_honest(), &format!("seed {seed}"));
        let share = share_of_mesh(&net);
        assert!(share < 0.05, "seed {seed}: {share} of the mesh links lead to attackers");
        assert!(net.sum(|metrics| metrics.ignored(Ignored::GraftBackoff)) > 100);
        let scores = attackers_seen(&net);
        let negative = scores.iter().filter(|score| **score < 0.0).count();
        assert!(negative * 10 >= scores.len() * 9, "{negative} of {} have a negative score", scores.len());
    }
}

#[test]
fn announcements_of_nonexistent_messages_are_limited_and_penalised() {
    let net = attacked(0, Attack::IHave);
    net.assert_delivered(MESSAGES, &net.all_honest(), "seed 0");
    let links = attackers_seen(&net);
    let broken = net.sum(|metrics| metrics.promises_broken);
    assert!(broken > 0, "no promise was counted as broken");
    // The first promises are broken after three seconds. Soon afterwards the score falls below
    // the gossip threshold, and no id is requested until it has decayed. In between, a
    // heartbeat requests 500 ids, of 2000 announced per second.
    let asked = net.sum(|metrics| metrics.iwant_ids_sent);
    let most = links.len() as u64 * 500 * 35 / 3;
    assert!(asked < most, "{asked} ids were requested over {} links in 35 s", links.len());
    assert!(links.iter().all(|score| *score < -10.0), "{links:?}");
}

#[test]
fn repeated_requests_are_answered_three_times() {
    let net = attacked(1, Attack::IWant);
    net.assert_delivered(MESSAGES, &net.all_honest(), "seed 1");
    let answered = net.sum(|metrics| metrics.answered_copies);
    let asked = net.sum(|metrics| metrics.iwant_ids_received);
    let links = attackers_seen(&net).len() as u64;
    // Some answers go to honest nodes.
    assert!(answered <= 306 * MESSAGES as u64 * links / 100, "{answered} answers over {links} links");
    assert!(answered * 10 < asked, "{answered} answers to {asked} requests");
}

#[test]
fn idontwant_of_invented_messages_takes_bounded_memory() {
    let net = attacked(2, Attack::IDontWant);
    net.assert_delivered(MESSAGES, &net.all_honest(), "seed 2");
    for node in net.nodes() {
        // Ten RPCs of ten ids per heartbeat from each peer, kept for three heartbeats.
        let most = node.peers().len() * 400;
        assert!(node.sizes().unwanted <= most, "{} ids", node.sizes().unwanted);
    }
}

#[test]
fn invented_topics_take_bounded_memory() {
    let mut setup = Setup::new(60, 1, guarded());
    setup.config.subscriptions.per_peer_max = 500;
    setup.sybils = 20;
    setup.attack = Attack::Topics;
    let mut net = setup.build();
    net.publish_each(20, 10.0, 0.2, |number| number * 7 % 40, 1200);
    net.run_until(secs(20.0));
    net.assert_delivered(20, &net.all_honest(), "topics");
    for node in net.nodes() {
        assert!(node.sizes().topics <= 1 + 500 * node.peers().len());
        assert!(node.sizes().backoffs <= node.peers().len());
    }
    assert!(net.sum(|metrics| metrics.ignored(Ignored::SubscriptionPeerFull)) > 0);
    assert!(net.sum(|metrics| metrics.ignored(Ignored::GraftNotSubscribed)) > 0);
}
