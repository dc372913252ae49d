//! Tests of `/live/N`: what dashboards on other machines read.

use std::time::Duration;

use samara_trace::live::{Event, FEED_BYTES_MAX, FeedReader, Head, Line};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::common::*;

/// Reads the new lines of a node.
async fn read(node: &Node, reader: &mut FeedReader) -> (Head, Vec<Line>) {
    let (status, body) = request(node.control, "GET", &format!("/live/{}", reader.next()), "").await;
    assert_eq!(status, 200, "{body}");
    assert!(body.len() <= FEED_BYTES_MAX);
    let mut lines = Vec::new();
    let head = reader.take(body.as_bytes(), |line| lines.push(line)).unwrap().expect("the same start");
    let counts = reader.counts();
    assert_eq!((counts.garbage, counts.unknown, counts.unknown_fields, counts.missing), (0, 0, 0, 0));
    (head, lines)
}

fn total(lines: &[Line], counted: &str) -> Option<u64> {
    lines.iter().find_map(|line| match &line.event {
        Event::Throughput { of, total, .. } if of == counted => Some(*total),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_each_part_report_links_and_rates() {
    let pool = "[pool]\nnetwork = \"samara-test\"\nlisten = \"127.0.0.1:0\"\n";
    let first = node(70, &["t"], "", &format!("{FAST}{pool}")).await;
    let second = node(71, &["t"], &dial(&first), FAST).await;
    second.mesh_of("t", 1).await;
    second.post("/v1/publish", text("t", "a")).await;
    let submitted = json!({ "text": "a transaction" });
    first.post("/v1/pool/submit", submitted).await;
    let mut reader = FeedReader::default();
    let (head, lines) = read(&first, &mut reader).await;
    assert_eq!((head.name, head.more, head.omitted, head.next), (None, false, 0, 1));
    assert!(matches!(&lines[0].event, Event::Started { role, .. } if role == "node"));
    let has_link = |lines: &[Line]| {
        lines
            .iter()
            .any(|line| matches!(&line.event, Event::Link { peer, up: true, .. } if *peer == second.peer))
    };
    assert!(has_link(&lines), "{lines:?}");
    let delivered = async {
        loop {
            let (_, lines) = read(&first, &mut reader).await;
            assert!(!lines.iter().any(|line| matches!(line.event, Event::Started { .. })));
            if total(&lines, "messages") == Some(1) && total(&lines, "transactions") == Some(1) {
                break lines;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let lines = timeout(PATIENCE, delivered).await.expect("the message and the transaction");
    let size = lines.iter().find_map(|line| match &line.event {
        Event::Queue { queue, entries, bytes } if queue == "transactions" => Some((*entries, *bytes)),
        _ => None,
    });
    assert_eq!(size, Some((1, Some(13))));
    // Errors are counted, although there are none.
    assert!(lines.iter().any(|line| matches!(line.event, Event::Errors { .. })), "{lines:?}");
    for path in ["/live", "/live/", "/live/x", "/live/-1"] {
        let (status, _) = request(first.control, "GET", path, "").await;
        assert!(status == 400 || status == 404, "{path}: {status}");
    }
}

/// Readers that take nothing, and those that vanish, harm neither the node nor other readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_harm_nothing() {
    let node = node(72, &["t"], "", FAST).await;
    let mut held = Vec::new();
    for at in 0..40 {
        let mut stream = TcpStream::connect(node.control).await.unwrap();
        stream.write_all(b"GET /live/0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        if at % 2 == 0 {
            held.push(stream);
        }
    }
    let mut reader = FeedReader::default();
    for _ in 0..5 {
        timeout(Duration::from_secs(10), read(&node, &mut reader)).await.expect("in time");
    }
    let mut byte = [0];
    assert_eq!(held[0].read(&mut byte).await.unwrap(), 1);
    assert!(value(&node.metrics().await, "samara_live_kept_bytes") > 0.0);
}

/// The separate server for metrics has the lines too, behind its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_for_metrics_has_the_lines_behind_its_token() {
    use std::os::unix::fs::PermissionsExt;
    let secret = file("live.token");
    std::fs::write(&secret, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let metrics = format!("{FAST}[metrics]\nlisten = \"127.0.0.1:0\"\ntoken_file = {secret:?}\n");
    let node = node(73, &[], "", &metrics).await;
    let server = node.running.ready().metrics.expect("a server for metrics");
    let ask = |header: &'static str| async move {
        let head = format!("GET /live/0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n");
        raw(server, &head).await
    };
    assert_eq!(ask("").await.0, 401);
    let (status, body) = ask("authorization: Bearer 0123456789abcdef\r\n").await;
    assert!(status == 200 && body.starts_with("{\"v\":1,"), "{body}");
}
