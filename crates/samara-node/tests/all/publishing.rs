//! Tests that messages are delivered, publications are made at their time, and reports follow their
//! copies.

use serde_json::{Value, json};

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
    assert!(error.contains("was already published or received: messages.id derives its id"), "{error}");
    assert!(error.contains("change the contents, or set messages.id = \"from-seqno\""), "{error}");
    assert_eq!(done["messages"][4]["copies"], 0);
    assert_eq!(done["messages"][4]["note"], "no connected peer has joined topic nobody");
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
    let note = "no connected peer has joined topic nosuch";
    let answer = hub.post("/v1/publish", text("nosuch", "a")).await;
    assert_eq!((&answer["copies"], &answer["note"]), (&json!(0), &json!(note)));
    let report = hub.get(&format!("/v1/batches/{}", answer["batch"])).await;
    assert_eq!(report["messages"][0]["note"], note);
    let plan =
        json!({ "publications": [{ "at_unix_ns": in_ms(100), "topic": "nosuch", "random_bytes": 5 }] });
    hub.post("/v1/schedule", plan).await;
    let planned = hub.until("/v1/schedule", "a publication", |list| list[0]["state"] == "published").await;
    let report = hub.get(&format!("/v1/batches/{}", planned[0]["batch"])).await;
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
async fn publications_are_made_at_their_time() {
    let hub = node(21, &["t"], "", FAST).await;
    let other = node(22, &["t"], &dial(&hub), FAST).await;
    hub.mesh_of("t", 1).await;
    let now = in_ms(0);
    // Not in order, and the last two at the same time.
    let at = [500, 300, 400, 400].map(|ms| now + ms * 1_000_000);
    let asked = hub
        .post(
            "/v1/schedule",
            json!({ "publications": [
                { "at_unix_ns": at[0], "topic": "t", "random_bytes": 1000 },
                { "at_unix_ns": at[1], "topic": "t", "text": "first" },
                { "at_unix_ns": at[2], "batch": [{ "topic": "t", "random_bytes": 5 }, { "topic": "t", "text": "2" }],
                  "schedule": { "kind": "interleaved", "peers": "random" } },
                { "at_unix_ns": at[3], "topic": "t", "text": "same time" },
            ] }),
        )
        .await;
    assert_eq!(asked["planned"], json!([0, 1, 2, 3]));
    other.counted("samara_messages_delivered_total", 5.0).await;
    let is_made = |planned: &Value| planned["state"] == "published";
    let all_made = |plan: &Value| plan.as_array().unwrap().iter().all(is_made);
    let plan = hub.until("/v1/schedule", "all publications", all_made).await;
    for (planned, at) in plan.as_array().unwrap().iter().zip(at) {
        assert_eq!(planned["at_unix_ns"], at);
        let actual = planned["actual_unix_ns"].as_u64().unwrap();
        assert!(actual >= at, "{planned}: never too early");
        assert_eq!(planned["late_ns"].as_u64().unwrap(), actual - at);
        println!("late by {} us", planned["late_ns"].as_u64().unwrap() / 1000);
        let batch = hub.get(&format!("/v1/batches/{}", planned["batch"])).await;
        assert_eq!(batch["published_at_unix_ns"], actual);
    }

    let (status, answer) = hub
        .try_post(
            "/v1/schedule",
            &json!({ "publications": [{ "at_unix_ns": at[0], "topic": "t", "text": "late" }] }).to_string(),
        )
        .await;
    assert_eq!(status, 400);
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with("publications[0].at_unix_ns: found ") && error.contains("ms ago"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_redialled() {
    let hub = node(31, &["t"], "", FAST).await;
    let address = hub.address.clone();
    let network = format!("{}redial_first = \"50 ms\"\nredial_max = \"200 ms\"\n", dial(&hub));
    let leaf = node(32, &["t"], &network, FAST).await;
    leaf.mesh_of("t", 1).await;
    hub.running.stop().await.expect("stopped");
    leaf.counted("samara_dials_failed_total", 2.0).await;
    let listen = address.split("/p2p/").next().unwrap();
    let again = node(31, &["t"], &format!("listen = [\"{listen}\"]\n"), FAST).await;
    again.mesh_of("t", 1).await;
}

/// A chain of a publisher, a node that exchanges no cells, and two that do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_column_becomes_cells_again() {
    const GROUP: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let column = "/eth2/00000000/data_column_sidecar_3/ssz_snappy";
    let fast = FAST.replace("ethereum\"", "ethereum\"\nversion = \"1.3\"");
    let with_cells = format!("{fast}[cells]\nblocks = [{{ group = {GROUP:?}, blobs = 2, mempool = [1] }}]\n");
    let publisher = node(81, &[column], "", &with_cells).await;
    let old = node(82, &[column], &dial(&publisher), FAST).await;
    let third = node(83, &[column], &dial(&old), &with_cells).await;
    let last = node(84, &[column], &dial(&third), &with_cells).await;
    for (node, peers) in [(&publisher, 1), (&old, 2), (&third, 2), (&last, 1)] {
        node.mesh_of(column, peers).await;
    }
    let block = json!({ "group": GROUP, "topics": [column], "push": [] });
    publisher
        .post("/v1/schedule", json!({ "publications": [{ "at_unix_ns": in_ms(100), "block": block }] }))
        .await;
    old.counted("samara_messages_delivered_total", 1.0).await;
    // Its own publication, once the last cell is there.
    last.counted("samara_messages_published_total", 1.0).await;
    let parts = |metrics: &[(String, f64)]| value(metrics, "samara_partial_received_total{kind=\"parts\"}");
    assert_eq!(parts(&third.metrics().await), 0.0, "it has received no cells");
    let metrics = last.metrics().await;
    assert_eq!(parts(&metrics), 1.0, "the cell that the mempool lacks");
    assert_eq!(value(&metrics, "samara_cells_missing_total"), 1.0);
}
