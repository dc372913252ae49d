//! Tests of the control API: rejected requests, their error texts, and metrics.

use std::path::Path;

use samara_node::{NodeConfig, Running};
use serde_json::json;
use tokio::time::timeout;

use crate::common::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_requests_are_rejected_with_a_reason() {
    let node = node(41, &[], "", FAST).await;
    let cases: &[(&str, &str, u16, &[&str])] = &[
        ("/v1/dial", "{\"address\":\"nowhere\"}", 400, &["address: found \"nowhere\"", "/ip4/"]),
        ("/v1/dial", "{\"addres\":\"x\"}", 422, &["unknown key `addres`; expected `address`; did you mean"]),
        ("/v1/dial", "{}", 422, &["missing key `address`"]),
        ("/v1/dial", "{\"address\":null}", 422, &["missing key `address`"]),
        ("/v1/dial", "[7]", 422, &["found a list; expected an object with the keys address"]),
        ("/v1/dial", "7", 422, &["found 7; expected an object with the keys address"]),
        ("/v1/subscribe", "{\"topic\":7}", 422, &["topic: found 7; expected a text"]),
        ("/v1/unsubscribe", "{\"topic\":[\"t\"]}", 422, &["topic: found a list; expected a text"]),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":-1}",
            422,
            &["random_bytes: found -1; expected a whole number of bytes without a unit"],
        ),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":1e30}",
            422,
            &["random_bytes: found 1e30; expected a whole number"],
        ),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":9e99999}",
            400,
            &["the body is not JSON: random_bytes: number out of range"],
        ),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":18446744073709551615}",
            422,
            &["found 18446744073709551615; expected at most 9223372036854775807"],
        ),
        ("/v1/publish-batch", "{\"messages\":{}}", 422, &["messages: found an object; expected a list"]),
        (
            "/v1/publish-batch",
            "{\"messages\":[{\"topic\":\"t\",\"text\":\"\"},{\"topic\":\"t\",\"txt\":\"\"}]}",
            422,
            &["messages[1].txt: unknown key `txt`; expected one of", "did you mean `text`?"],
        ),
        ("/v1/publish-batch", "{\"messages\":[null]}", 422, &["found null"]),
        ("/v1/dial", "{\"address\":", 400, &["EOF"]),
        ("/v1/subscribe", "{\"topic\":\"\"}", 400, &["topic: found a topic of 0 bytes"]),
        ("/v1/publish", "{\"topic\":\"t\"}", 400, &["exactly one of data, text and random_bytes"]),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"data\":\"%\"}",
            400,
            &["message.data: found '%' at character 0; expected base64"],
        ),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":11000000}",
            400,
            &[
                "topic t: found a payload of 11000000 bytes; expected at most 10485760, which protocol.message_max",
            ],
        ),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":99999999999}",
            400,
            &["expected at most 67108864"],
        ),
        ("/v1/publish-batch", "{\"messages\":[]}", 400, &["found 0 messages; expected 1 to 4096"]),
        (
            "/v1/publish-batch",
            "{\"messages\":[{\"topic\":\"t\",\"text\":\"\"}],\"schedule\":{\"kind\":\"feedback\",\"source\":\"observer\"}}",
            400,
            &["schedule: ", "none of the 0 observers"],
        ),
        (
            "/v1/publish-batch",
            "{\"messages\":[],\"schedule\":\"backwards\"}",
            422,
            &["schedule: found `backwards`; expected one of", "`interleaved`, `staggered`, `feedback`"],
        ),
        (
            "/v1/publish-batch",
            "{\"messages\":[],\"schedule\":{\"sort\":1}}",
            422,
            &["schedule: missing key `kind`"],
        ),
        ("/v1/stop", "", 400, &["the body is empty; expected {}"]),
        ("/v1/dial", "", 400, &["the body is empty; expected an object (docs/guides/node.md)"]),
        ("/v1/stop", "{", 400, &["the body is not JSON: EOF", "expected an object (docs/guides/node.md)"]),
        ("/v1/stop", "{\"now\":true}", 422, &["unknown key `now`; expected none here"]),
        ("/v1/nothing", "{}", 404, &["unknown path /v1/nothing", "docs/guides/node.md"]),
        ("/v1/publsh", "{}", 404, &["unknown path /v1/publsh", "; did you mean `/v1/publish`?"]),
        ("/v1/metrics", "{}", 404, &["; did you mean `/metrics`?"]),
        ("/v1/pool/arrivals", "{}", 404, &["; did you mean `/v1/pool/arrivals/{from}`?"]),
        ("/v1/group/nothing", "{}", 404, &["unknown path /v1/group/nothing", "docs/guides/groups.md"]),
        ("/v1/status", "{}", 405, &["/v1/status does not accept POST; expected GET"]),
        (
            "/v1/publish",
            "{\"topic\":\"t\",\"random_bytes\":\"1 MB\"}",
            422,
            &["found \"1 MB\"; expected a whole number of bytes without a unit, such as 1000000"],
        ),
    ];
    for (path, body, expected, words) in cases {
        let (status, answer) = node.try_post(path, body).await;
        assert_eq!(status, *expected, "{path} {body}: {answer}");
        let error = answer["error"].as_str().expect("an error");
        for word in *words {
            assert!(error.contains(word), "{path} {body}: {error} does not contain {word:?}");
        }
        assert!(!error.contains("`custom`"), "{path} {body}: a node has no such schedule: {error}");
        assert!(!error.contains("nothing") || !error.contains("did you mean"), "{path}: {error}");
    }
    for (path, word) in [
        ("/v1/batches/7", "batch 7 is unknown"),
        ("/v1/batches/x", "found the path /v1/batches/x; expected a whole number after"),
        ("/v1/batches/-1", "expected a whole number"),
        ("/v1/batches/%ff", "{\"error\":\"found the path /v1/batches/%ff; expected a whole number"),
        ("/v1/publish", "/v1/publish does not accept GET; expected POST"),
    ] {
        let (status, body) = request(node.control, "GET", path, "").await;
        assert!(status >= 400 && body.contains(word), "{path}: {status} {body}");
        assert!(body.ends_with("}\n"), "{path}: an answer is a line: {body:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_and_web_pages_are_refused() {
    let node = node(42, &[], "", FAST).await;
    let server = node.control;
    let head = "POST /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let (status, body) = raw(server, &format!("{head}content-length: 17000000\r\n\r\n")).await;
    assert_eq!(status, 413, "{body}");
    assert!(body.contains("17000000 bytes; expected at most 16777216"), "{body}");
    let stop = head.replace("/v1/publish", "/v1/stop");
    let (status, body) = raw(server, &format!("{stop}content-length: 2000000\r\n\r\n")).await;
    assert!(status == 413 && body.contains("at most 1048576"), "{status} {body}");
    // A body without an announced length.
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 17_000_000, " ".repeat(17_000_000));
    let (status, body) = raw(server, &format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}")).await;
    assert_eq!(status, 413, "{body}");

    // A name that resolves to this machine, as in DNS rebinding.
    let (status, body) =
        raw(server, "GET /v1/status HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert!(status == 403 && body.contains("evil.example"), "{status} {body}");
    // A request that a page of another origin can send without a preflight request.
    let form = "POST /v1/stop HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                content-length: 2\r\n\r\n{}";
    let (status, body) = raw(server, form).await;
    assert!(status == 415 && body.contains("application/json"), "{status} {body}");
    node.get("/v1/status").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_joined_and_left_and_peers_dialled() {
    let hub = node(43, &[], "", FAST).await;
    let leaf = node(44, &[], "", FAST).await;
    for node in [&hub, &leaf] {
        assert_eq!(node.post("/v1/subscribe", json!({ "topic": "t" })).await["changed"], true);
        assert_eq!(node.post("/v1/subscribe", json!({ "topic": "t" })).await["changed"], false);
    }
    leaf.post("/v1/dial", json!({ "address": hub.address })).await;
    hub.mesh_of("t", 1).await;
    assert_eq!(leaf.post("/v1/unsubscribe", json!({ "topic": "t" })).await["changed"], true);
    assert_eq!(leaf.post("/v1/unsubscribe", json!({ "topic": "t" })).await["changed"], false);
    assert_eq!(leaf.get("/v1/status").await["topics"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_events() {
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let hub = node(45, &["t"], "", &format!("{metrics}{FAST}")).await;
    let leaf = node(46, &["t"], &dial(&hub), FAST).await;
    hub.mesh_of("t", 1).await;
    let receipt = hub.post("/v1/publish", json!({ "topic": "t", "random_bytes": 30_000 })).await;
    hub.complete(&receipt["batch"]).await;
    leaf.counted("samara_messages_delivered_total", 1.0).await;
    hub.counted("samara_heartbeats_total", 1.0).await;

    let own = hub.running.ready().metrics.expect("a server for metrics");
    let (status, text) = request(own, "GET", "/metrics", "").await;
    assert_eq!(status, 200);
    let hub = parse_metrics(&text);
    let at_least = [
        ("samara_messages_published_total", 1.0),
        ("samara_published_copies_total", 1.0),
        ("samara_payload_bytes_up_total", 30_000.0),
        ("samara_control_bytes_up_total", 5.0),
        ("samara_control_bytes_down_total", 5.0),
        ("samara_peers{protocol=\"/meshsub/1.3.0\"}", 1.0),
        ("samara_mesh_size{topic=\"t\"}", 1.0),
        ("samara_topic_peers{topic=\"t\"}", 1.0),
        ("samara_heartbeats_total", 1.0),
        ("samara_cpu_seconds_total", 0.001),
        ("samara_rss_bytes", 1e6),
        ("samara_open_fds", 5.0),
    ];
    for (name, least) in at_least {
        assert!(value(&hub, name) >= least, "{name}: {} in\n{text}", value(&hub, name));
    }
    for name in
        ["samara_queue_drops_total{cause=\"newest\"}", "samara_ignored_total{cause=\"message_signature\"}"]
    {
        assert!(hub.iter().any(|(known, value)| known == name && *value == 0.0), "{name} in\n{text}");
    }
    assert_eq!(value(&hub, "samara_payload_bytes_up_total"), 30_000.0);
    let leaf = leaf.metrics().await;
    assert_eq!(value(&leaf, "samara_payload_bytes_down_total"), 30_000.0);
    let (status, _) = request(own, "GET", "/v1/status", "").await;
    assert_eq!(status, 404, "the server for metrics serves nothing else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_are_counted() {
    let hub = node(48, &[], "connections_max = 1\n", FAST).await;
    let network = format!("{}redial_first = \"20 ms\"\n", dial(&hub));
    let _first = node(49, &[], &network, FAST).await;
    hub.until("/v1/status", "a peer", |status| status["peers"].as_array().is_some_and(|p| p.len() == 1))
        .await;
    let _second = node(50, &[], &network, FAST).await;
    hub.counted("samara_connections_refused_total{limit=\"all\"}", 2.0).await;
    assert_eq!(hub.get("/v1/status").await["peers"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_token_serves_only_its_holders() {
    use std::os::unix::fs::PermissionsExt;

    let token = "0123456789abcdef";
    let path = file("control.token");
    let config = || {
        let text = format!(
            "[identity]\nseed = 51\n[control]\nlisten = \"127.0.0.1:0\"\nallow_remote = true\n\
             token_file = {path:?}\n[metrics]\nlisten = \"127.0.0.1:0\"\ntoken_file = {path:?}\n"
        );
        NodeConfig::parse(&text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"))
    };
    let _ = std::fs::remove_file(&path);
    let refused = async || Running::start(config()).await.expect_err("no start");
    let error = refused().await;
    assert!(error.contains("control.token_file: ") && error.contains("openssl rand -hex 32"), "{error}");
    std::fs::write(&path, "short\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused().await.contains("chmod 600"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused().await.contains("found a token of 5 characters"));

    std::fs::write(&path, format!("{token}\n")).unwrap();
    let running = Running::start(config()).await.expect("the node starts");
    let servers = [running.ready().control, running.ready().metrics].map(|server| server.expect("a server"));
    for server in servers {
        let get = async |header: &str| {
            let head = "GET /metrics HTTP/1.1\r\nhost: node.example\r\nconnection: close\r\n";
            raw(server, &format!("{head}{header}\r\n")).await
        };
        for header in ["", "authorization: Bearer 0123456789abcdeF\r\n", "authorization: Basic x\r\n"] {
            let (status, body) = get(header).await;
            // Without `allow_remote`, the name of the server counts first.
            let expected = if server == servers[0] { 401 } else { 403 };
            assert_eq!(status, expected, "{header}: {body}");
            assert!(!body.contains("samara_"), "{body}");
        }
    }
    let (_, metrics) = raw(
        servers[0],
        &format!(
            "GET /metrics HTTP/1.1\r\nhost: node.example\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        ),
    )
    .await;
    // Two guesses at the control API, of which no token is none.
    assert!(metrics.contains("samara_control_refused_total{cause=\"wrong_token\"} 2\n"), "{metrics}");
    let ask = async |header: &str| {
        let head = "POST /v1/stop HTTP/1.1\r\nhost: node.example\r\nconnection: close\r\n\
                    content-type: application/json\r\ncontent-length: 2\r\n";
        raw(servers[0], &format!("{head}{header}\r\n{{}}")).await
    };
    assert_eq!(ask("").await.0, 401);
    assert_eq!(ask(&format!("authorization: Bearer {token}\r\n")).await.0, 200);
    timeout(PATIENCE, running.stopped()).await.expect("in time").expect("stopped");
}
