//! Tests that messages are delivered, and that reports follow their copies.

use serde_json::json;

use crate::common::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_all_nodes_over_tcp_and_quic() {
    let listen = "listen = [\"/ip4/127.0.0.1/udp/0/quic-v1\", \"/ip4/127.0.0.1/tcp/0\"]\n";
    let hub = node(1, &["t"], listen, FAST).await;
    assert!(hub.address.contains("/quic-v1/p2p/"), "{}", hub.address);
    let over_quic = node(2, &["t"], &dial(&hub), FAST).await;
    let tcp = hub.running.ready().listen.iter().find(|address| address.contains("/tcp/")).expect("TCP");
    let over_tcp = node(3, &["t"], &format!("dial = [\"{tcp}\"]\n"), FAST).await;
    hub.mesh_of("t", 2).await;
    over_quic.mesh_of("t", 1).await;
    over_tcp.mesh_of("t", 1).await;

    let receipt = over_quic.post("/v1/publish", text("t", "hello")).await;
    assert_eq!(receipt["copies"], 1);
    assert_eq!(receipt["id"].as_str().unwrap().len(), 40, "20 bytes in hexadecimal: {receipt}");
    hub.counted("samara_messages_delivered_total", 1.0).await;
    over_tcp.counted("samara_messages_delivered_total", 1.0).await;

    let status = hub.get("/v1/status").await;
    assert_eq!(status["peer_id"], hub.peer.as_str());
    let peers = status["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 2);
    assert!(peers.iter().all(|peer| peer["protocol"] == "/meshsub/1.3.0" && peer["score"] == 0.0));
    assert_eq!(status["topics"][0]["subscribers"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_reports_all_copies() {
    let hub = node(11, &["a", "b"], "", FAST).await;
    let first = node(12, &["a", "b"], &dial(&hub), FAST).await;
    let second = node(13, &["a", "b"], &dial(&hub), FAST).await;
    for topic in ["a", "b"] {
        hub.mesh_of(topic, 2).await;
    }
    let batch = json!({ "schedule": "interleaved", "messages": [
        { "topic": "a", "random_bytes": 20_000 },
        { "topic": "b", "data": "AAEC" },
        { "topic": "b", "text": "once" },
        { "topic": "b", "text": "once" },
        { "topic": "nobody", "text": "x" },
    ] });
    let report = hub.post("/v1/publish-batch", batch).await;
    assert_eq!(report["copies"], 6, "{report}");
    let done = hub.complete(&report["batch"]).await;
    assert_eq!(
        (&done["sent"], &done["owed"], &done["not_sent"]),
        (&json!(6), &json!(0), &json!(0)),
        "{done}"
    );
    let mut to: Vec<&str> = (done["messages"][0]["sent_copies"].as_array().unwrap().iter())
        .map(|copy| copy["peer"].as_str().unwrap())
        .collect();
    to.sort_unstable();
    let mut expected = [first.peer.as_str(), second.peer.as_str()];
    expected.sort_unstable();
    assert_eq!(to, expected);
    let copies = done["messages"][0]["sent_copies"].as_array().unwrap();
    assert!(copies.iter().all(|copy| copy["at_unix_ns"].as_u64() >= done["published_at_unix_ns"].as_u64()));
    // The links decide which of the two is written first.
    assert_eq!(copies.iter().map(|copy| copy["rank"].as_u64().unwrap()).sum::<u64>(), 1, "ranks 0 and 1");
    let error = done["messages"][3]["error"].as_str().unwrap();
    assert!(error.contains("was already published or received: format.id derives its id"), "{error}");
    assert!(error.contains("change the contents, or set format.id = \"from-seqno\""), "{error}");
    assert_eq!(done["messages"][4]["copies"], 0);
    let unheard = done["messages"][4]["note"].as_str().unwrap_or_default();
    assert!(unheard.starts_with("no connected peer has joined topic nobody: "), "{unheard}");
    assert!(done["messages"][0].get("note").is_none(), "{done}");
    for node in [&first, &second] {
        node.counted("samara_messages_delivered_total", 3.0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publications_without_receivers_name_the_topic() {
    let hub = node(24, &["t"], "", FAST).await;
    let other = node(25, &["t"], &dial(&hub), FAST).await;
    hub.mesh_of("t", 1).await;
    let answer = hub.post("/v1/publish", text("nosuch", "a")).await;
    let note = answer["note"].as_str().unwrap_or_default();
    let said = "no connected peer has joined topic nosuch: the message went to nobody; ";
    assert!(answer["copies"] == 0 && note.starts_with(said), "{answer}");
    let report = hub.get(&format!("/v1/batches/{}", answer["batch"])).await;
    assert_eq!(report["messages"][0]["note"], note);
    // With a peer in the topic there is no note, whether this node has joined it or not.
    assert!(hub.post("/v1/publish", text("t", "b")).await.get("note").is_none());
    other.post("/v1/subscribe", json!({ "topic": "nosuch" })).await;
    let published = async {
        for number in 0.. {
            let answer = hub.post("/v1/publish", text("nosuch", &number.to_string())).await;
            if answer["copies"] == 1 {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        unreachable!()
    };
    let answer = tokio::time::timeout(PATIENCE, published).await.expect("the peer joins in time");
    assert!(answer.get("note").is_none(), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_redialled() {
    let at = free();
    let listen = format!("listen = [\"/ip4/{}/tcp/{}\"]\n", at.ip(), at.port());
    let hub = node(31, &["t"], &listen, FAST).await;
    let network = format!("{}redial_first = \"50 ms\"\nredial_max = \"200 ms\"\n", dial(&hub));
    let leaf = node(32, &["t"], &network, FAST).await;
    leaf.mesh_of("t", 1).await;
    hub.running.stop().await.expect("stopped");
    leaf.counted("samara_dials_failed_total", 2.0).await;
    let again = node(31, &["t"], &listen, FAST).await;
    again.mesh_of("t", 1).await;
}
