//! `samara node` as a process: its lines on standard output, signals, exit codes.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Nothing here takes this long unless it does not work.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory of a test's own.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

fn command(directory: &Path, text: &str) -> Command {
    let config = directory.join("node.toml");
    std::fs::write(&config, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
    command.args(["node", "--config"]).arg(config);
    command
}

struct Node {
    child: Child,
    lines: BufReader<ChildStdout>,
    ready: Value,
}

impl Node {
    fn start(directory: &Path, rest: &str) -> Self {
        let text = format!(
            "topics = [\"t\"]\n[identity]\nkey_file = \"key\"\n[control]\naddress = \"127.0.0.1:0\"\n\
             [gossipsub]\nheartbeat = \"100 ms\"\n[network]\nlisten = [\"/ip4/127.0.0.1/tcp/0\"]\n{rest}"
        );
        let mut command = command(directory, &text);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the node starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(ready["ready"], true);
        Self { child, lines, ready }
    }

    fn dial(&self) -> String {
        format!("dial = [{}]\n", self.ready["listen"][0])
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("an id");
        kill(Pid::from_raw(id), signal).expect("the node runs");
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let address = self.ready["control"].as_str().expect("a control API");
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|_| json!(body))
    }

    fn until(&self, what: &str, holds: impl Fn(&Value, &str) -> bool) {
        let start = Instant::now();
        loop {
            let status = self.request("GET", "/v1/status", &json!({}));
            let metrics = self.request("GET", "/metrics", &json!({}));
            if holds(&status, metrics.as_str().unwrap_or_default()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what}: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn meshed(&self) {
        self.until("a mesh", |status, _| {
            status["topics"][0]["mesh"].as_array().is_some_and(|mesh| !mesh.is_empty())
        });
    }

    fn publish(&self, messages: usize, bytes: usize) {
        let messages: Vec<Value> =
            (0..messages).map(|_| json!({ "topic": "t", "random_bytes": bytes })).collect();
        let count = messages.len();
        let report = self.request("POST", "/v1/publish-batch", &json!({ "messages": messages }));
        assert_eq!(report["copies"], count, "{report}");
    }

    /// The last line, and how the process has ended.
    fn end(mut self) -> (Value, ExitStatus) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                return (serde_json::from_str(&line).expect("JSON"), status);
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already. A process that is stopped is killed as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sigterm_lets_copies_leave_and_ends_the_trace() {
    let here = directory("drained");
    let hub = Node::start(&here, "[trace]\nfile = \"hub.trace\"\nformat = \"json\"\n");
    let id = hub.ready["peer_id"].clone();
    let leaf = Node::start(&directory("drained-leaf"), &hub.dial());
    hub.meshed();
    hub.publish(30, 200_000);
    hub.signal(Signal::SIGTERM);
    let (stopped, status) = hub.end();
    assert_eq!(status.code(), Some(0), "{stopped}");
    assert_eq!((&stopped["stopped"], &stopped["drained"]), (&json!(true), &json!(true)), "{stopped}");
    leaf.until("all messages", |_, metrics| metrics.contains("\nsamara_messages_delivered_total 30\n"));
    let trace = std::fs::read_to_string(here.join("hub.trace")).expect("a trace");
    assert_eq!(trace.lines().count() as u64, stopped["trace"]["written"].as_u64().unwrap());
    assert_eq!(trace.lines().filter(|line| line.starts_with("{\"type\":0,")).count(), 30, "PUBLISH_MESSAGE");

    // The same key, and so the same node.
    let again = Node::start(&here, "");
    assert_eq!(again.ready["peer_id"], id);
    again.signal(Signal::SIGINT);
    assert_eq!(again.end().1.code(), Some(0));
}

#[test]
fn what_a_stuck_peer_did_not_take_is_reported() {
    let hub = Node::start(&directory("stuck-hub"), "[stop]\ndrain = \"1 s\"\n");
    let leaf = Node::start(&directory("stuck-leaf"), &hub.dial());
    hub.meshed();
    leaf.signal(Signal::SIGSTOP);
    hub.publish(60, 1_000_000);
    hub.signal(Signal::SIGTERM);
    let (stopped, status) = hub.end();
    assert_eq!(status.code(), Some(3), "{stopped}");
    assert_eq!(stopped["drained"], false);
    let left = stopped["left_copies"].as_u64().expect("a number");
    assert!((1..=60).contains(&left), "{stopped}");
    assert_eq!(stopped["left"][leaf.ready["peer_id"].as_str().expect("a peer")], left);
}

#[test]
fn mistakes_of_the_configuration_end_the_process() {
    let here = directory("mistakes");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = busy.local_addr().expect("an address").port();
    let cases = [
        ("[identity]\nsed = 1\n".to_owned(), "identity.sed: unknown field"),
        ("[identity]\nseed = 1\n[metrics]\naddress = \"0.0.0.0:1\"\n".to_owned(), "allow_remote = true"),
        (
            format!("[identity]\nseed = 1\n[control]\naddress = \"127.0.0.1:{port}\"\n"),
            "control.address: 127.0.0.1",
        ),
        (
            format!("[identity]\nseed = 1\n[network]\nlisten = [\"/ip4/127.0.0.1/tcp/{port}\"]\n"),
            "network.listen.0: /ip4/127.0.0.1/tcp/",
        ),
        ("[identity]\nseed = 1\n[trace]\nfile = \"no/where\"\n".to_owned(), "trace.file: "),
    ];
    for (text, expected) in cases {
        let output = command(&here, &text).output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {error}");
        assert!(error.contains("node.toml") && error.contains(expected), "{text}: {error}");
        assert!(output.stdout.is_empty());
    }
}
