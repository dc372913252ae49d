//! Tests of `samara node` as a process: its lines on standard output, signals, exit statuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::common::{Scratch, names};

/// Maximum time for any step; a step that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn scratch(name: &str) -> Scratch {
    Scratch::new(&format!("node-{name}"))
}

fn command(scratch: &Scratch, text: &str) -> Command {
    command_with(scratch, "node.toml", text)
}

fn command_with(scratch: &Scratch, file: &str, text: &str) -> Command {
    scratch.write(file, text);
    scratch.command(["node", "--config", file])
}

/// A page or a file of the documentation, with a loopback address that only this test uses in place
/// of 127.0.0.1.
///
/// The documented ports may be in use on 127.0.0.1. Only Linux has all of 127/8.
fn documented(path: &str, test: u8) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(path);
    let text = std::fs::read_to_string(path).expect("a file");
    let [low, high, ..] = std::process::id().to_le_bytes();
    if cfg!(target_os = "linux") {
        text.replace("127.0.0.1", &format!("127.{high}.{low}.{test}"))
    } else {
        text
    }
}

/// The documented configuration with all settings that are commented out.
///
/// These are behind a `#` without a space, or with the four spaces of a continuation.
fn with_all_settings(text: &str) -> String {
    let is_prose = |rest: &str| rest.is_empty() || (rest.starts_with(' ') && !rest.starts_with("    "));
    let lines =
        text.lines().map(|line| line.strip_prefix('#').filter(|rest| !is_prose(rest)).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The files in a directory except the configuration.
fn left_in(scratch: &Scratch) -> Vec<String> {
    let mut names = names(&scratch.0);
    names.retain(|name| name != "node.toml");
    names
}

struct Node {
    child: Child,
    lines: BufReader<ChildStdout>,
    ready: Value,
}

impl Node {
    fn start(scratch: &Scratch, rest: &str) -> Self {
        let text = format!(
            "topics = [\"t\"]\n[identity]\nkey_file = \"key\"\n[control]\nlisten = \"127.0.0.1:0\"\n\
             [protocol]\nheartbeat = \"100 ms\"\n[network]\nlisten = [\"/ip4/127.0.0.1/tcp/0\"]\n{rest}"
        );
        Self::of(command(scratch, &text))
    }

    fn of(mut command: Command) -> Self {
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

    #[cfg(target_os = "linux")]
    fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("proc(5)");
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        kib.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
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
            assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}: {status}");
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

    /// Waits for the end of the process, and returns its last line and exit status.
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
        // The process may have ended already. Killing also ends a stopped one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sigterm_drains_copies_and_completes_the_trace() {
    let (here, leaf) = (scratch("drained"), scratch("drained-leaf"));
    let hub = Node::start(&here, "[trace]\nfile = \"hub.trace\"\nformat = \"json\"\n");
    let id = hub.ready["peer_id"].clone();
    let leaf = Node::start(&leaf, &hub.dial());
    hub.meshed();
    hub.publish(30, 200_000);
    hub.signal(Signal::SIGTERM);
    let (stopped, status) = hub.end();
    assert_eq!(status.code(), Some(0), "{stopped}");
    assert_eq!((&stopped["stopped"], &stopped["drained"]), (&json!(true), &json!(true)), "{stopped}");
    leaf.until("all messages", |_, metrics| metrics.contains("\nsamara_messages_delivered_total 30\n"));
    let trace = here.read("hub.trace");
    assert_eq!(trace.lines().count() as u64, stopped["trace"]["written"].as_u64().unwrap());
    assert_eq!(trace.lines().filter(|line| line.starts_with("{\"type\":0,")).count(), 30, "PUBLISH_MESSAGE");

    // The same key gives the same peer id.
    let again = Node::start(&here, "");
    assert_eq!(again.ready["peer_id"], id);
    again.signal(Signal::SIGINT);
    assert_eq!(again.end().1.code(), Some(0));
}

#[test]
fn reports_copies_that_a_stuck_peer_did_not_take() {
    let (hub, leaf) = (scratch("stuck-hub"), scratch("stuck-leaf"));
    let hub = Node::start(&hub, "[stop]\ndrain = \"1 s\"\n");
    let leaf = Node::start(&leaf, &hub.dial());
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

/// Messages wait for a stuck peer and are freed when it goes. Without a regular purge, the allocator
/// keeps their memory until some thread frees more.
#[test]
#[cfg(target_os = "linux")]
fn memory_of_a_burst_returns_to_the_system() {
    let (hub, leaf) = (scratch("burst-hub"), scratch("burst-leaf"));
    let hub = Node::start(&hub, "");
    let leaf = Node::start(&leaf, &hub.dial());
    hub.meshed();
    let before = hub.rss_bytes();
    leaf.signal(Signal::SIGSTOP);
    hub.publish(60, 1_000_000);
    let most = hub.rss_bytes();
    assert!(most > before + (50 << 20), "{most} bytes after {before}");
    leaf.signal(Signal::SIGKILL);
    let start = Instant::now();
    while hub.rss_bytes() > before + (most - before) / 4 {
        assert!(start.elapsed() < PATIENCE, "{} bytes stay of {most}", hub.rss_bytes());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A section `[mix]` with a pool whose only node has this fingerprint.
fn mix(fingerprint: &str) -> String {
    let peer =
        |fingerprint: &str| format!("{{ fingerprint = \"{fingerprint}\", address = \"127.0.0.1:1\" }}");
    format!(
        "[mix]\nrole = \"node\"\nidentity = \"mix.pem\"\nlisten = \"127.0.0.1:0\"\nteam = 2\n\
         nodes = [{}, {}]\nscheduler = {}\n",
        peer(fingerprint),
        peer(&"2".repeat(64)),
        peer(&"3".repeat(64))
    )
}

/// Creates a certificate and returns its fingerprint.
fn new_certificate(scratch: &Scratch) -> String {
    scratch.ok(["node", "--new-certificate", "mix.pem"]).trim().to_owned()
}

#[test]
fn invalid_configuration_is_rejected_before_writing_files() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = busy.local_addr().expect("an address").port();
    let cases = [
        ("[network]\nlisen = []\n".to_owned(), "network.lisen: unknown key"),
        ("[metrics]\nlisten = \"0.0.0.0:1\"\n".to_owned(), "allow_remote = true"),
        (format!("[control]\nlisten = \"127.0.0.1:{port}\"\n"), "control.listen: cannot listen on 127.0.0.1"),
        (
            format!("[network]\nlisten = [\"/ip4/127.0.0.1/tcp/{port}\"]\n"),
            "network.listen.0: cannot listen on /ip4/127.0.0.1/tcp/",
        ),
        ("[trace]\nfile = \"no/where\"\n".to_owned(), "trace.file: "),
        (mix(&"1".repeat(64)), "mix.pem: there is no such file; `samara node --new-certificate "),
    ];
    for (text, expected) in cases {
        let here = scratch("mistakes");
        here.write("node.toml", format!("[identity]\nkey_file = \"key\"\n{text}"));
        let error = here.refused(["node", "--config", "node.toml"]);
        assert!(error.contains("node.toml") && error.contains(expected), "{text}: {error}");
        assert_eq!(left_in(&here), [""; 0], "{text}");
    }
}

#[test]
fn certificate_is_created_once_and_must_be_in_the_pool() {
    let here = scratch("certificate");
    let fingerprint = new_certificate(&here);
    here.write("node.toml", format!("[identity]\nkey_file = \"key\"\n{}", mix(&"1".repeat(64))));
    let error = here.refused(["node", "--config", "node.toml"]);
    assert!(error.contains(&fingerprint) && error.contains("certificate of a node of the pool"), "{error}");
    assert_eq!(left_in(&here), ["mix.pem"], "no key file is written");
    let node = Node::of(command(&here, &format!("[identity]\nkey_file = \"key\"\n{}", mix(&fingerprint))));
    assert_eq!(node.ready["mix"]["fingerprint"], fingerprint);
    // An existing certificate is kept.
    here.refused(["node", "--new-certificate", "mix.pem"]);
}

#[test]
fn documented_configuration_starts_unchanged() {
    let here = scratch("documented");
    let node = Node::of(command(&here, &documented("node.toml", 1)));
    let parts = ["control", "metrics", "pool", "group", "mix"];
    assert_eq!(parts.map(|part| node.ready[part].is_null()), [false, true, true, true, true]);
    let topics = node.request("GET", "/v1/status", &json!({}))["topics"].as_array().map(Vec::len);
    assert_eq!(topics, Some(2));
    node.signal(Signal::SIGTERM);
    let (stopped, status) = node.end();
    assert_eq!(status.code(), Some(0), "{stopped}");
    assert_eq!(left_in(&here), ["node.key"]);
}

#[test]
fn documented_configuration_starts_with_all_settings() {
    let here = scratch("documented-parts");
    let fingerprint = new_certificate(&here);
    here.write("publications.json", "{\"publications\": []}");
    for secret in ["group.secret", "control.token", "metrics.token"] {
        here.write(secret, "0123456789abcdef0123456789abcdef\n");
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(here.path(secret), only_owner).expect("its own file");
    }
    let text = with_all_settings(&documented("node.toml", 2)).replace(&"1".repeat(64), &fingerprint);
    // Nobody listens at the seeds of the documentation.
    let text = text.replace("require_seed = \"10 s\"\n", "");
    let node = Node::of(command(&here, &text));
    for part in ["control", "metrics", "pool", "group", "mix"] {
        assert!(!node.ready[part].is_null(), "{part}: {}", node.ready);
    }
    node.signal(Signal::SIGTERM);
    let (stopped, status) = node.end();
    assert_eq!(status.code(), Some(0), "{stopped}");
}

/// The code blocks of a Markdown page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = page.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Runs a line of the guide until it prints the expected text, since meshes and messages take a
/// moment.
fn until_printed(line: &str, expected: &str) {
    let start = Instant::now();
    loop {
        let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout);
        if printed.contains(expected) {
            return;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(start.elapsed() < PATIENCE, "{line}: {printed}{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_two_nodes_of_the_guide_exchange_messages() {
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("SAMARA_REQUIRE_PEERS").is_none(), "no curl");
        eprintln!("skipped: no curl");
        return;
    }
    let guide = documented("own-node.md", 3);
    let here = scratch("guide");
    let files = blocks(&guide, "toml");
    let node = |name: &str, at: usize| Node::of(command_with(&here, name, &files[at]));
    let (a, b) = (node("a.toml", 0), node("b.toml", 1));
    a.meshed();
    // A shell joins a line that ends in a backslash with the next one.
    let commands = blocks(&guide, "sh").concat().replace("\\\n", " ");
    let commands: Vec<&str> = commands.lines().collect();
    let [publish, metrics, stop_a, stop_b] = commands[..] else { panic!("{commands:?}") };
    until_printed(publish, "\"copies\":1");
    until_printed(metrics, "samara_messages_delivered_total 1");
    for (stop, node) in [(stop_a, a), (stop_b, b)] {
        until_printed(stop, "{");
        let (stopped, status) = node.end();
        assert_eq!((stopped["drained"].as_bool(), status.code()), (Some(true), Some(0)), "{stopped}");
    }
}
