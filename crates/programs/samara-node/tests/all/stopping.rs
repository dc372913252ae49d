//! Tests that a stopping node first lets owed copies leave.

use samara_node::model::Stopped;
use serde_json::json;
use tokio::time::timeout;

use crate::common::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owed_copies_leave_before_the_end() {
    let hub = node(61, &["t"], "", FAST).await;
    let leaf = node(62, &["t"], &dial(&hub), FAST).await;
    hub.mesh_of("t", 1).await;
    // More than the streams accept at once.
    let messages: Vec<_> = (0..32).map(|_| json!({ "topic": "t", "random_bytes": 300_000 })).collect();
    let report = hub.post("/v1/publish-batch", json!({ "messages": messages })).await;
    assert_eq!(report["copies"], 32);
    hub.post("/v1/stop", json!({})).await;
    let stopped = timeout(PATIENCE, hub.running.stopped()).await.expect("in time").expect("stopped");
    assert!(stopped.drained, "{stopped:?}");
    assert_eq!((stopped.left_copies, stopped.lost_copies), (0, 0));
    leaf.counted("samara_messages_delivered_total", 32.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_accepts_nothing_new() {
    // A peer that has stopped reading: its task never runs again.
    let (hub, stuck) = hub_with_stuck_peer(63, 64, "[stop]\ndrain = \"10 min\"\n").await;
    hub.post("/v1/stop", json!({})).await;
    let refused = async {
        loop {
            let (status, answer) = hub.try_post("/v1/publish", "{\"topic\":\"t\",\"text\":\"x\"}").await;
            if status != 200 {
                return (status, answer);
            }
        }
    };
    let (status, answer) = timeout(PATIENCE, refused).await.expect("in time");
    assert_eq!((status, answer["error"].as_str().unwrap()), (503, "the node is about to stop"));
    assert_eq!(hub.get("/v1/status").await["stopping"], true);
    // A second stop ends the draining.
    let stopped = timeout(PATIENCE, hub.running.stop()).await.expect("in time").expect("stopped");
    assert_left(&stopped, &stuck);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_draining_ends_after_its_time() {
    let (hub, stuck) = hub_with_stuck_peer(65, 66, "[stop]\ndrain = \"200 ms\"\n").await;
    hub.post("/v1/stop", json!({})).await;
    let stopped = timeout(PATIENCE, hub.running.stopped()).await.expect("in time").expect("stopped");
    assert_left(&stopped, &stuck);
}

/// Checks that copies for a peer that has stopped reading were left.
fn assert_left(stopped: &Stopped, stuck: &Stuck) {
    assert!(!stopped.drained && stopped.left_copies > 0, "{stopped:?}");
    assert_eq!(stopped.left.keys().collect::<Vec<_>>(), [&stuck.peer]);
    assert_eq!(stopped.left.values().sum::<usize>(), stopped.left_copies);
}
