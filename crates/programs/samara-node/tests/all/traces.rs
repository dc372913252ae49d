//! Tests that a trace contains all events, in the words of go-libp2p-pubsub.

use samara_trace::{Body, TraceEvent, TraceReader};
use serde_json::json;
use tokio::time::timeout;

use crate::common::*;

fn read(name: &str) -> Vec<Body> {
    let events = TraceReader::open(&file(name)).expect("a trace").collect::<Result<Vec<TraceEvent>, _>>();
    let events = events.expect("a good trace");
    assert!(events.iter().all(|event| event.timestamp.is_some_and(|at| at > 1_700_000_000_000_000_000)));
    events.iter().map(|event| event.body().expect("a known event")).collect()
}

fn bytes(peer: &str) -> Option<Vec<u8>> {
    Some(peer.parse::<libp2p::PeerId>().expect("a peer").to_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_message_are_traced() {
    let trace = |name: &str, format: &str| {
        let file = file(name);
        format!("{FAST}[trace]\nfile = {file:?}\nformat = \"{format}\"\n")
    };
    let hub = node(51, &["t"], "", &trace("hub.trace", "protobuf")).await;
    let leaf = node(52, &["t"], &dial(&hub), &trace("leaf.trace", "json")).await;
    hub.mesh_of("t", 1).await;
    leaf.mesh_of("t", 1).await;
    let receipt = hub.post("/v1/publish", text("t", "traced")).await;
    let id = receipt["id"].as_str().unwrap();
    let id: Vec<u8> =
        (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
    let id = Some(id);
    leaf.counted("samara_messages_delivered_total", 1.0).await;
    leaf.post("/v1/unsubscribe", json!({ "topic": "t" })).await;
    let (hub_peer, leaf_peer) = (bytes(&hub.peer), bytes(&leaf.peer));
    let stopped = leaf.running.stop().await.expect("stopped");
    let report = stopped.trace.expect("a trace");
    assert_eq!((report.dropped, report.failed, report.error), (0, 0, None));
    let stopped = hub.running.stop().await.expect("stopped");
    assert!(stopped.drained && stopped.trace.expect("a trace").written > 0);

    let hub = read("hub.trace");
    let topic = Some("t".to_owned());
    let position = |wanted: &dyn Fn(&Body) -> bool| hub.iter().position(wanted);
    let join = position(&|body| matches!(body, Body::Join(join) if join.topic == topic));
    let add = position(
        &|body| matches!(body, Body::AddPeer(add) if add.peer_id == leaf_peer && add.proto.as_deref() == Some("/meshsub/1.3.0")),
    );
    let graft = position(
        &|body| matches!(body, Body::Graft(graft) if graft.peer_id == leaf_peer && graft.topic == topic),
    );
    let publish = position(
        &|body| matches!(body, Body::PublishMessage(own) if own.message_id == id && own.topic == topic),
    );
    let deliver = position(
        &|body| matches!(body, Body::DeliverMessage(own) if own.message_id == id && own.received_from == hub_peer),
    );
    let send = position(&|body| {
        matches!(body, Body::SendRpc(send) if send.send_to == leaf_peer
            && send.meta.as_ref().unwrap().messages.iter().any(|message| message.message_id == id))
    });
    let remove = position(&|body| matches!(body, Body::RemovePeer(remove) if remove.peer_id == leaf_peer));
    let places = [join, add, graft, publish, deliver, send, remove];
    assert!(places.iter().all(Option::is_some), "{places:?} in {hub:#?}");
    assert!(places.is_sorted(), "{places:?}");

    let leaf = read("leaf.trace");
    let has = |wanted: &dyn Fn(&Body) -> bool| leaf.iter().any(wanted);
    assert!(has(&|body| {
        matches!(body, Body::DeliverMessage(message) if message.message_id == id && message.received_from == hub_peer)
    }));
    assert!(has(&|body| {
        matches!(body, Body::RecvRpc(recv) if recv.received_from == hub_peer
            && recv.meta.as_ref().unwrap().messages.iter().any(|message| message.message_id == id))
    }));
    assert!(has(&|body| {
        matches!(body, Body::RecvRpc(recv) if recv.meta.as_ref().unwrap().subscription.iter()
            .any(|change| change.subscribe == Some(true) && change.topic == topic))
    }));
    assert!(has(&|body| matches!(body, Body::Leave(leave) if leave.topic == topic)));
    assert!(has(
        &|body| matches!(body, Body::Prune(prune) if prune.peer_id == hub_peer && prune.topic == topic)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_and_rejections_are_traced() {
    let quiet = "heartbeat = \"100 ms\"\nidontwant = false\n";
    let config = |messages: &str| format!("[protocol]\npreset = \"ethereum\"\n{quiet}[format]\n{messages}");
    let anonymous = config("authenticity = \"anonymous\"\nid = \"sha256\"\n");
    let path = file("victim.trace");
    let victim = node(55, &["t"], "", &format!("{anonymous}[trace]\nfile = {path:?}\n")).await;
    // The stranger signs, which the victim must reject.
    let signing = config("authenticity = \"signed\"\nid = \"sha256\"\n");
    let stranger = node(56, &["t"], &dial(&victim), &signing).await;
    // Two nodes that send the same message.
    let twins = [
        node(57, &["t"], &dial(&victim), &anonymous).await,
        node(58, &["t"], &dial(&victim), &anonymous).await,
    ];
    victim.mesh_of("t", 3).await;
    for node in twins.iter().chain([&stranger]) {
        node.mesh_of("t", 1).await;
    }
    stranger.post("/v1/publish", text("t", "signed")).await;
    // Repeat until both are fast enough: the victim forwards a message to the other node, which
    // cannot publish it afterwards.
    let duplicate = async {
        for number in 0.. {
            let body = text("t", &format!("the same {number}")).to_string();
            tokio::join!(twins[0].try_post("/v1/publish", &body), twins[1].try_post("/v1/publish", &body));
            if value(&victim.metrics().await, "samara_duplicates_received_total") > 0.0 {
                return;
            }
        }
    };
    timeout(PATIENCE, duplicate).await.expect("a duplicate");
    victim.counted("samara_ignored_total{cause=\"message_signature\"}", 1.0).await;
    victim.counted("samara_messages_delivered_total", 1.0).await;
    let stranger = bytes(&stranger.peer);
    let twins = twins.map(|twin| bytes(&twin.peer));
    victim.running.stop().await.expect("stopped");
    let events = read("victim.trace");
    assert!(events.iter().any(|body| {
        matches!(body, Body::RejectMessage(reject) if reject.received_from == stranger
            && reject.reason.as_deref() == Some("unexpected signature") && reject.topic.as_deref() == Some("t"))
    }));
    assert!(events.iter().any(|body| {
        matches!(body, Body::DuplicateMessage(copy) if twins.contains(&copy.received_from)
            && copy.message_id.as_ref().is_some_and(|id| id.len() == 20))
    }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_the_start_before_is_kept() {
    let path = file("restarted.trace");
    std::fs::write(&path, "before the crash").expect("a file");
    let trace = format!("{FAST}[trace]\nfile = {path:?}\n");
    node(53, &["t"], "", &trace).await.running.stop().await.expect("stopped");
    let kept = std::fs::read_to_string(file("restarted.trace.1")).expect("the previous trace");
    assert_eq!(kept, "before the crash");
    assert!(read("restarted.trace").iter().any(|body| matches!(body, Body::Join(_))), "a new trace");
}
