//! Nodes within the test's process, and a client of their control API.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use samara_node::{NodeConfig, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Nothing here takes this long unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Heartbeats fast enough for a test.
pub(crate) const FAST: &str = "[protocol]\npreset = \"ethereum\"\nheartbeat = \"100 ms\"\n";

pub(crate) struct Node {
    pub(crate) running: Running,
    pub(crate) control: SocketAddr,
    pub(crate) peer: String,
    pub(crate) address: String,
}

/// Starts a node with a control API on loopback. `network` has lines of that section, `rest` other
/// sections.
pub(crate) async fn node(seed: u64, topics: &[&str], network: &str, rest: &str) -> Node {
    let listen = if network.contains("listen") { "" } else { "listen = [\"/ip4/127.0.0.1/tcp/0\"]\n" };
    // A busy machine may take longer than the default to write what is owed.
    let stop = if rest.contains("[stop]") { "" } else { "[stop]\ndrain = \"60 s\"\n" };
    let text = format!(
        "topics = {topics:?}\n[identity]\nseed = {seed}\n[control]\nlisten = \"127.0.0.1:0\"\n\
         {stop}[network]\n{listen}{network}\n{rest}"
    );
    let config = NodeConfig::parse(&text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"));
    let running = Running::start(config).await.expect("the node starts");
    let ready = running.ready();
    let control = ready.control.expect("a control API");
    let (peer, address) = (ready.peer_id.clone(), ready.listen.first().cloned().unwrap_or_default());
    Node { running, control, peer, address }
}

/// Returns an address with a free port, each call at another host: outgoing connections take no
/// port there, so that the port stays free until it is used, and after that.
pub(crate) fn free() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 0, 12, HOSTS.fetch_add(1, Ordering::Relaxed));
    TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Returns the line of a configuration that dials a node.
pub(crate) fn dial(node: &Node) -> String {
    format!("dial = [\"{}\"]\n", node.address)
}

impl Node {
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = request(self.control, "GET", path, "").await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.try_post(path, &body.to_string()).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn try_post(&self, path: &str, body: &str) -> (u16, Value) {
        let (status, answer) = request(self.control, "POST", path, body).await;
        (status, serde_json::from_str(&answer).expect("JSON"))
    }

    pub(crate) async fn metrics(&self) -> Vec<(String, f64)> {
        let (status, text) = request(self.control, "GET", "/metrics", "").await;
        assert_eq!(status, 200);
        parse_metrics(&text)
    }

    /// Waits until `is_so` holds for an answer.
    pub(crate) async fn until(&self, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let answer = self.get(path).await;
            if is_so(&answer) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "timeout waiting for {what}: {answer}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until at least this many peers are in the mesh of a topic.
    pub(crate) async fn mesh_of(&self, topic: &str, at_least: usize) {
        let what = format!("{at_least} peers in the mesh of {topic}");
        let is_grown = |status: &Value| {
            let mut topics = status["topics"].as_array().expect("topics").iter();
            let known = topics.find(|known| known["topic"] == topic);
            known.is_some_and(|known| known["mesh"].as_array().expect("a mesh").len() >= at_least)
        };
        self.until("/v1/status", &what, is_grown).await;
    }

    /// Waits until a counter has reached a value.
    pub(crate) async fn counted(&self, name: &str, at_least: f64) {
        let reached = async {
            while value(&self.metrics().await, name) < at_least {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{name} stays below {at_least}"));
    }

    /// Waits until no copy of a batch is owed any more.
    pub(crate) async fn complete(&self, batch: &Value) -> Value {
        let path = format!("/v1/batches/{batch}");
        self.until(&path, "the whole batch", |report| report["complete"] == true).await
    }
}

/// Returns the value of a metric, with its labels as written, or 0 if it is missing.
pub(crate) fn value(metrics: &[(String, f64)], name: &str) -> f64 {
    metrics.iter().find(|(known, _)| known == name).map_or(0.0, |(_, value)| *value)
}

/// Parses OpenMetrics. Every line must be valid.
pub(crate) fn parse_metrics(text: &str) -> Vec<(String, f64)> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    let parse = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(parse).collect()
}

/// Sends one request on its own connection. Returns status and body.
pub(crate) async fn request(server: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    raw(server, &(head + body)).await
}

pub(crate) async fn raw(server: SocketAddr, request: &str) -> (u16, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await.expect("a server");
        // A server that rejects a body may close before it has read it.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).expect("text")
    };
    let answer = timeout(PATIENCE, exchange).await.expect("an answer in time");
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, body.to_owned())
}

/// Returns the path of a file for a test.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn text(topic: &str, text: &str) -> Value {
    json!({ "topic": topic, "text": text })
}

/// A peer that has stopped reading.
pub(crate) struct Stuck {
    pub(crate) peer: String,
}

/// Starts a node that owes copies to a peer that has stopped reading.
pub(crate) async fn hub_with_stuck_peer(seed: u64, leaf_seed: u64, rest: &str) -> (Node, Stuck) {
    let hub = node(seed, &["t"], "", &format!("{FAST}{rest}")).await;
    let network = dial(&hub);
    let (started, name) = tokio::sync::oneshot::channel();
    let (freeze, frozen) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _leaf = runtime.block_on(async move {
            let leaf = node(leaf_seed, &["t"], &network, FAST).await;
            started.send(leaf.peer.clone()).expect("the test runs");
            frozen.await.expect("the test runs");
            leaf
        });
        // Its sockets stay open, but nothing on this runtime runs any more.
        loop {
            std::thread::park();
        }
    });
    let peer = name.await.expect("the peer starts");
    hub.mesh_of("t", 1).await;
    freeze.send(()).expect("the peer runs");
    // More than the window of its stream (256 KiB).
    let messages: Vec<_> = (0..20).map(|_| json!({ "topic": "t", "random_bytes": 100_000 })).collect();
    let report = hub.post("/v1/publish-batch", json!({ "messages": messages })).await;
    assert_eq!(report["copies"], 20, "{report}");
    (hub, Stuck { peer })
}
