//! Opportunistic grafting at heartbeats.

use crate::common::*;
use samara_gossipsub::Config;

fn every_second_heartbeat() -> Config {
    Config { opportunistic_graft_ticks: 2, ..scored() }
}

#[test]
fn a_mesh_with_a_low_median_grafts_two_better_peers() {
    let (mut node, mesh) = Node::on_topic(every_second_heartbeat(), "t", 6, 6);
    let others = node.join_peers("t", 10, false);
    for (at, peer) in mesh.iter().enumerate() {
        node.set_score(*peer, at as f64);
    }
    // The median of 0 to 5 is 3 (the upper of two), below the threshold of 5.
    for peer in &others[..5] {
        node.set_score(*peer, 3.0);
    }
    for peer in &others[5..] {
        node.set_score(*peer, 3.5);
    }
    assert!(node.sent_at_heartbeat().grafts("t").is_empty(), "not at every heartbeat");
    node.heartbeat();
    let grafted = node.sent().grafts("t");
    assert_eq!(grafted.len(), 2);
    assert!(grafted.iter().all(|peer| others[5..].contains(peer)), "only peers above the median");
}

#[test]
fn a_mesh_with_a_good_median_is_left_alone() {
    let (mut node, mesh) = Node::on_topic(every_second_heartbeat(), "t", 6, 6);
    let other = node.join_peer("t", false);
    node.set_score(other, 100.0);
    for peer in &mesh {
        node.set_score(*peer, 5.0);
    }
    node.sent();
    node.heartbeats(4);
    assert!(node.sent().grafts("t").is_empty());
}

#[test]
fn peers_in_backoff_are_not_chosen() {
    let (mut node, mesh) = Node::on_topic(every_second_heartbeat(), "t", 6, 6);
    let others = node.join_peers("t", 3, false);
    for peer in &others {
        node.set_score(*peer, 4.0);
    }
    node.rpc(others[0], prune("t", None));
    node.rpc(others[1], prune("t", None));
    node.sent();
    node.heartbeat();
    node.heartbeat();
    assert_eq!(node.sent().grafts("t"), [others[2]]);
    assert_eq!(node.mesh("t").len(), mesh.len() + 1);
}
