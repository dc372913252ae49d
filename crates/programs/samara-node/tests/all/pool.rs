//! The transaction pool of a node.

use serde_json::{Value, json};

use crate::common::*;

/// Returns a section for a pool that dials these peers.
fn pool(peers: &[String]) -> String {
    let listen = "listen = \"127.0.0.1:0\"\ninbound_per_address_max = 64";
    format!("[pool]\nnetwork = \"test\"\n{listen}\npeers = {peers:?}\n{FAST}")
}

fn pool_address(node: &Node) -> String {
    node.running.ready().pool.as_ref().expect("a pool").address.clone().expect("it listens")
}

async fn with_pool(seed: u64, peers: &[String]) -> Node {
    let redial = "redial_first = \"50 ms\"\nredial_max = \"500 ms\"";
    node(seed, &[], redial, &pool(peers)).await
}

fn peers_of(status: &Value) -> usize {
    status["peers"].as_array().expect("peers").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_forwarded_committed_and_counted() {
    let hub = with_pool(70, &[]).await;
    let leaf = with_pool(71, &[pool_address(&hub)]).await;
    let far = with_pool(72, &[pool_address(&hub)]).await;
    hub.until("/v1/pool", "links", |status| peers_of(status) == 2).await;
    let submitted = leaf.post("/v1/pool/submit", json!({ "text": "one ".repeat(99) })).await;
    assert_eq!((&submitted["added"], &submitted["refused"]), (&json!(true), &Value::Null));
    let again = leaf.post("/v1/pool/submit", json!({ "data": "b25lIG9uZSBvbmUg".repeat(33) })).await;
    assert_eq!((&again["added"], &again["refused"]), (&json!(false), &json!("in_pool")), "{again}");
    let other = far.post("/v1/pool/submit", json!({ "random_bytes": 4096 })).await;
    for node in [&hub, &leaf, &far] {
        let status = node.until("/v1/pool", "transactions", |status| status["txs"] == 2).await;
        assert_eq!(status["bytes"], 4492);
        let keys = node.get("/v1/pool/txs/10").await;
        assert!(keys.as_array().unwrap().contains(&submitted["key"]), "{keys}");
        assert!(node.get("/v1/pool/txs/1").await.as_array().unwrap().len() == 1);
    }

    let arrivals = far.get("/v1/pool/arrivals/0").await;
    let list = arrivals["arrivals"].as_array().unwrap();
    assert_eq!((list.len(), &arrivals["next"]), (2, &json!(2)));
    let of = |key: &Value| list.iter().find(|arrival| arrival["key"] == *key).expect("it arrived");
    assert_eq!(of(&submitted["key"])["from"], hub.get("/v1/pool").await["id"]);
    assert_eq!(of(&other["key"])["from"], Value::Null);
    let sent = submitted["at_unix_ns"].as_u64().unwrap();
    assert!(of(&submitted["key"])["at_unix_ns"].as_u64().unwrap() > sent);
    assert_eq!(far.get("/v1/pool/arrivals/1").await["arrivals"].as_array().unwrap().len(), 1);

    let committed = json!({ "height": 7, "keys": [submitted["key"]] });
    far.post("/v1/pool/commit", committed).await;
    let status = far.until("/v1/pool", "a block", |status| status["txs"] == 1).await;
    assert_eq!(status["height"], 7);
    let metrics = far.metrics().await;
    let expected = [
        ("samara_mempool_size", 1.0),
        ("samara_mempool_size_bytes", 4096.0),
        ("samara_mempool_successful_txs_total", 1.0),
        ("samara_mempool_requested_txs_total", 1.0),
        ("samara_mempool_rerequested_txs_total", 0.0),
        ("samara_mempool_already_seen_txs_total", 0.0),
        ("samara_mempool_peers{protocol=\"cat/2\"}", 1.0),
        ("samara_mempool_active_outbound_connections", 1.0),
        ("samara_mempool_payload_bytes_up_total", 4096.0),
        ("samara_mempool_payload_bytes_down_total", 396.0),
        ("samara_mempool_received_total{kind=\"txs\"}", 1.0),
    ];
    for (name, expected) in expected {
        assert!(metrics.iter().any(|(known, _)| known == name), "{name} is missing");
        assert_eq!(value(&metrics, name), expected, "{name}");
    }
    assert!(value(&metrics, "samara_mempool_bytes_up_total") >= 5.0 * 1044.0);
}

/// Every generation carries transactions, over two links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_preset_works() {
    let presets = [
        "flood-fifo",
        "flood-priority",
        "seen-only",
        "cat-2023",
        "cat2-2023",
        "cat-merged",
        "cat-2025",
        "cat-2026",
    ];
    for (seed, preset) in (100..).step_by(3).zip(presets) {
        let section = |peers: &[String]| {
            pool(peers).replace("[pool]", &format!("[pool]\nprotocol.preset = {preset:?}"))
        };
        let hub = node(seed, &[], "", &section(&[])).await;
        let peers = [pool_address(&hub)];
        let one = node(seed + 1, &[], "", &section(&peers)).await;
        let other = node(seed + 2, &[], "", &section(&peers)).await;
        hub.until("/v1/pool", "links", |status| peers_of(status) == 2).await;
        for leaf in [&one, &other] {
            leaf.until("/v1/pool", "the link to the hub", |status| peers_of(status) == 1).await;
        }
        one.post("/v1/pool/submit", json!({ "random_bytes": 3000 })).await;
        other.until("/v1/pool", preset, |status| status["txs"] == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owed_transactions_leave_before_the_end() {
    let hub = with_pool(74, &[]).await;
    let leaf = with_pool(75, &[]).await;
    leaf.post("/v1/pool/dial", json!({ "address": pool_address(&hub) })).await;
    leaf.until("/v1/pool", "a link", |status| peers_of(status) == 1).await;
    for _ in 0..20 {
        leaf.post("/v1/pool/submit", json!({ "random_bytes": 500_000 })).await;
    }
    let stopped = leaf.running.stop().await.unwrap();
    assert!(stopped.drained, "{stopped:?}");
    assert_eq!(stopped.pool.unwrap().left_copies, 0);
    hub.until("/v1/pool", "all", |status| status["txs"] == 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_pool_requests_are_rejected_with_a_reason() {
    let without = node(76, &[], "", FAST).await;
    let (status, body) = request(without.control, "GET", "/v1/pool", "").await;
    assert!(status == 404 && body.contains("expected a section [pool]"), "{status} {body}");
    let node = with_pool(77, &[]).await;
    let cases: &[(&str, &str, u16, &str)] = &[
        ("/v1/pool/submit", "{}", 400, "exactly one of data, text and random_bytes"),
        (
            "/v1/pool/submit",
            "{\"random_bytes\":\"9\"}",
            422,
            "random_bytes: found \"9\"; expected a whole number",
        ),
        ("/v1/pool/submit", "{\"txt\":\"\"}", 422, "unknown key `txt`; expected one of"),
        (
            "/v1/pool/commit",
            "{\"height\":-1,\"keys\":[]}",
            422,
            "height: found -1; expected a whole number from 0",
        ),
        ("/v1/pool/commit", "{\"height\":1,\"keys\":[7]}", 422, "keys[0]: found 7; expected a text"),
        (
            "/v1/pool/submit",
            "{\"data\":\"%\"}",
            400,
            "transaction.data: found '%' at character 0; expected base64",
        ),
        ("/v1/pool/submit", "{\"random_bytes\":9000000}", 400, "9000000 bytes; expected at most 8388608"),
        ("/v1/pool/commit", "{\"height\":1,\"keys\":[\"x\"]}", 400, "keys[0]: found \"x\"; expected 64 hex"),
        ("/v1/pool/dial", "{\"address\":\"x@y\"}", 400, "expected id@host:port"),
    ];
    for (path, body, expected, words) in cases {
        let (status, answer) = node.try_post(path, body).await;
        let error = answer["error"].as_str().expect("an error");
        assert!(status == *expected && error.contains(words), "{path} {body}: {status} {error}");
    }
    let refusals = [("{\"random_bytes\":0}", "empty"), ("{\"random_bytes\":2000000}", "too_large")];
    for (body, cause) in refusals {
        let (status, answer) = node.try_post("/v1/pool/submit", body).await;
        assert_eq!((status, &answer["refused"]), (200, &json!(cause)), "{answer}");
    }
    for path in ["/v1/pool/txs/x", "/v1/pool/arrivals/-1"] {
        let (status, body) = request(node.control, "GET", path, "").await;
        assert!(
            status == 400 && body.contains("expected a whole number after the last slash"),
            "{path}: {status} {body}"
        );
    }
}
