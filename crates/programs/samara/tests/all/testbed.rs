//! Tests of `samara testbed`: real processes of samara, of go-libp2p-pubsub (`interop/go-host`) and of
//! rust-libp2p (the example `rust_host` of `samara-interop`) over emulated links, and runs whose hosts
//! fail.
//!
//! They need permission to emulate links, and some need Go or the example. Without these they print
//! that they were skipped, or fail if `SAMARA_REQUIRE_PEERS` is set.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::go_program::{GoProgram, Release};

/// Maximum time for any step; a step that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(150);

/// A scenario with this name, number of nodes, rate in Mbit/s, and further keys. All nodes are
/// connected.
macro_rules! connected {
    ($name:literal, $nodes:literal, $mbps:literal, $more:literal) => {
        concat!(
            "[scenario]\nname = \"",
            $name,
            "\"\ntitle = \"A network\"\n[network]\nnodes = ",
            $nodes,
            "\nlatency = \"10 ms\"\nbandwidth = \"",
            $mbps,
            " Mbit/s\"\n[network.topology]\nkind = \"full-mesh\"\n",
            $more
        )
    };
}

/// Six nodes, all connected; the publisher of blocks is node 0.
const COLUMNS: &str = connected!(
    "mixed",
    "6",
    "20",
    r#"[protocol]
preset = "ethereum"
withdraw = false
schedule_publish = { kind = "interleaved" }
[columns]
blobs = 1
blob_size = "64 KiB"
count = 16
custody = 8
slots = 2
slot_interval = "1 s"
warm_up = "5 s"
deadline = "30 s"
"#
);

/// Eight nodes; any 16 of 64 pieces restore the payload.
const PIECES: &str = connected!(
    "pieces",
    "8",
    "10",
    r#"[protocol]
preset = "go-libp2p-pubsub"
dispatch = "node"
withdraw = true
ihave_messages = 4096
spread = {}
[columns]
count = 16
warm_up = "5 s"
deadline = "60 s"
[columns.pieces]
size = "8 KiB"
parity = 48
"#
);

/// Six nodes; half of the four blobs are in a mempool, and one in none.
const CELLS: &str = connected!(
    "cells",
    "6",
    "20",
    r#"[protocol]
preset = "ethereum"
version = "1.3"
[columns]
blobs = 4
blob_size = "64 KiB"
count = 64
custody = 32
publisher = 2
slots = 2
slot_interval = "2 s"
warm_up = "5 s"
deadline = "60 s"
[columns.cells]
hits = "50 %"
private = "50 %"
"#
);

/// A group whose member 1 crashes and starts again.
const GROUP: &str = r#"
[scenario]
name = "group"
title = "A group"
[network]
nodes = 5
latency = "5 ms"
uplink = "10 Mbit/s"
downlink = "10 Mbit/s"
[protocol]
kind = "ring"
[group]
size = "1 KiB"
messages = 600
warm_up = "2 s"
[[fault]]
kind = "crash"
at = "2100 ms"
until = "3 s"
nodes = [1]
"#;

/// Three sites of three members behind narrow links. The first member of the first site leads it, and
/// crashes.
const FEDERATION: &str = r#"
[scenario]
name = "federation"
title = "A federation"
[network]
nodes = 9
latency = "200 us"
bandwidth = "100 Mbit/s"
[network.regions]
names = ["Paris", "London", "Zurich"]
weights = [1, 1, 1]
placed = "in-order"
latency = [["200 us", "20 ms", "20 ms"], ["20 ms", "200 us", "20 ms"], ["20 ms", "20 ms", "200 us"]]
gateway = "10 Mbit/s"
gateway_queue = { kind = "drop-tail", size = "1 MB" }
[protocol]
kind = "ring"
federated = true
[group]
size = "1 KiB"
duration = "4 s"
rate = 25.0
[[fault]]
kind = "crash"
at = "5 s"
nodes = [0]
"#;

/// Every node publishes.
const MESSAGES: &str = connected!(
    "mixed",
    "6",
    "20",
    r#"[protocol]
preset = "go-libp2p-pubsub"
heartbeat = "500 ms"
degree = 3
degree_low = 2
degree_high = 4
degree_score = 0
degree_out = 0
queue = 1000
[messages]
rate = 20.0
size = "1 KiB"
warm_up = "3 s"
duration = "2 s"
cool_down = "30 s"
"#
);

/// 20 transactions at five pools, all connected.
const POOLS: &str = connected!(
    "pools",
    "5",
    "50",
    r#"[transport.connection]
send_rate = "0 bit/s"
receive_rate = "0 bit/s"
[protocol]
preset = "cat"
[pool]
rate = 10.0
size = "4 kB"
signed = false
warm_up = "1 s"
duration = "2 s"
cool_down = "30 s"
block_interval = "1500 ms"
"#
);

/// A team whose nodes have half a processor each, with rounds for hours.
const TEAM: &str = r#"
[scenario]
name = "team"
title = "Rounds"
[network]
nodes = 3
latency = "5 ms"
bandwidth = "100 Mbit/s"
[transport]
kind = "grpc"
[mix]
team = 3
group = "modp-2048"
batch = 4
rounds = 100000
stock = 1
processor = "50 %"
"#;

/// Prints the reason for skipping a test; fails if `SAMARA_REQUIRE_PEERS` forbids that.
fn skipped(why: &str) {
    assert!(std::env::var_os("SAMARA_REQUIRE_PEERS").is_none(), "SAMARA_REQUIRE_PEERS is set, but {why}");
    // Written directly: the test harness captures the output of macros and shows it for failures
    // only.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

static GO_HOST: GoProgram = GoProgram::new("go-host", "no testbed had hosts of go-libp2p-pubsub");

/// The host of rust-libp2p. Cargo builds the examples of all packages for the tests of the workspace, and
/// not for those of this package; `None` then.
fn rust_host() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_samara")).with_file_name("examples").join("rust_host");
    if !program.exists() {
        skipped("found no rust_host; build it with `cargo build -p samara-interop --example rust_host`");
        return None;
    }
    Some(program)
}

/// A running testbed, whose processes end with it.
struct Testbed {
    child: Child,
    directory: PathBuf,
}

impl Testbed {
    fn start(name: &str, scenario: &str, nodes: &[&Path]) -> Self {
        Self::start_with(&[], name, scenario, nodes)
    }

    fn start_with(options: &[&str], name: &str, scenario: &str, nodes: &[&Path]) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("testbed").join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("scenario.toml");
        std::fs::write(&file, scenario).expect("written");
        let errors = std::fs::File::create(directory.join("errors.txt")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
        command
            .arg("testbed")
            .arg(&file)
            .args(options)
            .arg("--quiet")
            .arg("--out")
            .arg(directory.join("out"));
        nodes.iter().for_each(|node| {
            command.arg("--host").arg(node);
        });
        let child = command.stdout(Stdio::null()).stderr(errors).spawn().expect("the testbed starts");
        Self { child, directory }
    }

    /// Waits for the end, and returns the exit status and the error output; `None` where links
    /// cannot be emulated.
    fn end(&mut self) -> Option<(ExitStatus, String)> {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a process") {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(50)),
            }
            assert!(start.elapsed() < PATIENCE, "the testbed does not end");
        };
        let errors = std::fs::read_to_string(self.directory.join("errors.txt")).expect("a file");
        if !status.success() && (errors.contains("emulate links") || errors.contains("CAP_NET_ADMIN")) {
            skipped(&errors);
            return None;
        }
        Some((status, errors))
    }

    /// The results of the only run.
    fn results(&mut self) -> Option<Value> {
        let (status, errors) = self.end()?;
        assert!(status.success(), "{errors}");
        let text = std::fs::read(self.directory.join("out/summary.json")).expect("results");
        let mut summary: Value = serde_json::from_slice(&text).expect("JSON");
        Some(summary["runs"][0].take())
    }

    /// The processes that the testbed has started, by the node's number.
    fn nodes(&self) -> Vec<(Pid, u32)> {
        let parent = format!(" {} ", self.child.id());
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let mut nodes: Vec<_> = processes
            .filter_map(|entry| {
                let id: i32 = entry.file_name().to_str()?.parse().ok()?;
                let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
                // The fields after the name: state, then parent.
                let child = stat.rsplit_once(") ")?.1.get(1..)?.starts_with(&parent);
                child.then(|| node_of(id).map(|node| (Pid::from_raw(id), node)))?
            })
            .collect();
        nodes.sort_unstable_by_key(|(_, node)| *node);
        nodes
    }

    /// Waits until a condition holds; returns false if the testbed ends before.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> bool {
        let start = Instant::now();
        while !holds(self) {
            if self.child.try_wait().expect("a process").is_some() {
                return false;
            }
            assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Waits until a condition holds. Returns `None` where links cannot be emulated.
    fn reaches(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Option<()> {
        if !self.until(what, holds) {
            let (_, errors) = self.end()?;
            panic!("the testbed ended early: {errors}");
        }
        Some(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // The testbed has ended already, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The control groups of the processes of a testbed.
fn control_groups(testbed: u32) -> Vec<PathBuf> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let entries = roots.iter().flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten());
    let own = format!("samara-{testbed}-");
    let is_own =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own));
    entries.map(|entry| entry.path()).filter(is_own).collect()
}

/// Writes a program for `--host` to a file.
fn script(name: &str, text: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    program
}

/// The number of the host that a process runs, by the file of its log; `None` if the process has ended or
/// is none.
fn node_of(process: i32) -> Option<u32> {
    let log = std::fs::read_link(format!("/proc/{process}/fd/2")).ok()?;
    let directory = log.parent()?.file_name()?.to_str()?;
    directory.strip_prefix("host-")?.parse().ok()
}

fn assert_gone(nodes: &[(Pid, u32)]) {
    for (process, node) in nodes {
        assert_eq!(node_of(process.as_raw()), None, "node {node} is still running");
    }
}

#[test]
fn blocks_of_go_reach_all_nodes() {
    for release in Release::ALL {
        let Some(go) = GO_HOST.path(release) else { return };
        let name = format!("columns-{release:?}");
        let mut testbed = Testbed::start(&name, COLUMNS, &[go, Path::new("samara")]);
        let Some(run) = testbed.results() else { return };
        assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
        assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
        assert_eq!(run["real"]["programs"], serde_json::json!(["go-host", "samara host"]));
        // The events of the Go host explain the time to custody.
        let explained = &run["explained"];
        let parts = explained["by_cause_ms"].as_object().unwrap();
        let sum: f64 = parts.values().map(|ms| ms.as_f64().unwrap()).sum();
        let mean = run["metrics"]["time_to_custody_ms"]["mean"].as_f64().unwrap();
        assert!((sum - mean).abs() < 1e-6 * mean && parts.contains_key("transport"), "{run}");
    }
}

/// Nodes end their requests with the last needed piece, so they never have all pieces, and the run
/// must not wait for them. Without the right headers of pieces they request all.
#[test]
fn any_sixteen_pieces_restore_a_payload() {
    let mut testbed = Testbed::start("pieces", PIECES, &[]);
    let start = Instant::now();
    let Some(run) = testbed.results() else { return };
    assert!(start.elapsed() < Duration::from_secs(50), "the run waited for its deadline");
    let metrics = &run["metrics"];
    assert_eq!(metrics["incomplete"], 0, "{run}");
    let delivered = metrics["delivery_ratio"].as_f64().expect("a number");
    assert!((0.25..1.0).contains(&delivered), "{run}");
    // The mean includes the publisher. All pieces are four copies; on a busy machine withdrawals come
    // late, and nodes receive up to two.
    let copies = metrics["payload_copies"].as_f64().expect("a number");
    assert!((7.0 / 8.0..3.0).contains(&copies), "{run}");
}

/// Runs [`CELLS`], and compares it with the simulation. The mempools are those of the simulation, so
/// nodes lack as many cells as there.
fn cells_complete_columns(name: &str, programs: &[&Path]) {
    // Nodes forget groups after some seconds, so networks must not delay each other.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut testbed = Testbed::start(name, CELLS, programs);
    let start = Instant::now();
    let Some(run) = testbed.results() else { return };
    assert!(start.elapsed() < Duration::from_secs(50), "the run waited for its deadline");
    let metrics = &run["metrics"];
    assert_eq!(metrics["incomplete"], 0, "{run}");
    let simulated = testbed.directory.join("simulated");
    let _ = std::fs::remove_dir_all(&simulated);
    let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
    command
        .arg("run")
        .arg(testbed.directory.join("scenario.toml"))
        .args(["--quiet", "--format", "json", "--out"]);
    let output = command.arg(&simulated).output().expect("the simulator runs").stdout;
    let summary: Value = serde_json::from_slice(&output).expect("JSON");
    let missing = |run: &Value| run["metrics"]["cells"]["missing_per_node"].as_f64().expect("a number");
    assert_eq!(missing(&run), missing(&summary["runs"][0]), "{run}");
    let copies = metrics["cells"]["copies_per_missing"].as_f64().expect("a number");
    assert!((1.0..4.0).contains(&copies), "{run}");
}

#[test]
fn cells_complete_the_columns_of_mempools() {
    cells_complete_columns("cells", &[]);
}

/// All programs write the same bytes of a column. Host 2 is the publisher.
#[test]
fn cells_of_go_complete_columns() {
    let samara = Path::new("samara");
    let Some(newest) = GO_HOST.path(Release::Newest) else { return };
    cells_complete_columns("cells-of-newest-go", &[samara, samara, newest]);
    let Some(go) = GO_HOST.path(Release::Pinned) else { return };
    cells_complete_columns("cells-of-go", &[samara, samara, go]);
    let Some(rust) = rust_host() else { return };
    cells_complete_columns("cells-of-samara", &[go, &rust, samara]);
    cells_complete_columns("cells-of-go-for-rust", &[&rust, samara, go]);
}

#[test]
fn cells_of_rust_complete_columns() {
    let Some(rust) = rust_host() else { return };
    cells_complete_columns("cells-for-rust", &[Path::new("samara"), &rust]);
}

#[test]
fn rejects_what_rust_lacks() {
    let Some(rust) = rust_host() else { return };
    for (from, to, error) in [
        ("version = ", "withdraw = true\nversion = ", "withdraw: found true, expected false"),
        ("version = ", "parts = { asking = \"one\" }\nversion = ", "parts"),
    ] {
        let mut testbed =
            Testbed::start("refused-by-rust", &CELLS.replace(from, to), &[&rust, Path::new("samara")]);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success());
        assert!(errors.contains(error), "{errors}");
    }
}

#[test]
fn what_no_briefing_has_is_refused_before_the_first_run() {
    let other = script("other-program", "read -r line");
    for (scenario, from, to, expected) in [
        (PIECES, "parity = 48", "parity = 48", "columns.pieces: programs of others do not have it"),
        (COLUMNS, "slots = 2", "slots = 2\nobserver = true", "columns.observer: programs of others"),
        (MESSAGES, "rate = 20.0", "rate = 20.0", "messages.signed: programs of others do not have it"),
        (GROUP, "size = ", "size = ", "this experiment has no briefing for programs of others"),
        (TEAM, "team = 3", "team = 3", "this experiment has no briefing for programs of others"),
    ] {
        let mut testbed =
            Testbed::start("unbriefed", &scenario.replace(from, to), &[Path::new("samara"), &other]);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success());
        assert!(errors.contains("--host other-program: ") && errors.contains(expected), "{errors}");
    }
}

/// Samara's hosts of the same run may be hostile.
#[test]
fn programs_of_others_are_never_hostile() {
    let other = script("honest-program", "read -r line");
    let programs = [Path::new("samara"), other.as_path()];
    let scenario = |node: u32| {
        let fault = format!("[[fault]]\nkind = \"replay\"\nat = \"1 s\"\nnodes = [{node}]\n");
        format!("{MESSAGES}signed = false\n{fault}")
    };
    for (node, expected) in [
        (3, "--host honest-program: fault: host 3 is to break the rules of its protocol"),
        (2, " ended during start"),
    ] {
        let mut testbed = Testbed::start("never-hostile", &scenario(node), &programs);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success() && errors.contains(expected), "{errors}");
    }
}

#[test]
fn messages_of_both_implementations_reach_all_nodes() {
    let (Some(go), Some(newest)) = (GO_HOST.path(Release::Pinned), GO_HOST.path(Release::Newest)) else {
        return;
    };
    let scenario = format!("{MESSAGES}signed = false\n");
    let mut testbed = Testbed::start("messages", &scenario, &[Path::new("samara"), go, newest]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
}

/// Beside an idle node, an upload takes what the uplink has, and fills the queue in which the call waits.
#[test]
fn rivals_of_a_node_share_its_uplink() {
    let rivals = r#"
[[fault]]
kind = "upload"
at = "1 s"
until = "8 s"
nodes = [0]
factor = 2
[[fault]]
kind = "call"
at = "5 s"
nodes = [0]
"#;
    let scenario = MESSAGES
        .replace("nodes = 6", "nodes = 4\nuplink_queue = { kind = \"fifo\", time = \"200 ms\" }")
        .replace("20 Mbit/s", "8 Mbit/s")
        .replace("warm_up = \"3 s\"", "warm_up = \"6 s\"")
        .replace("duration = \"2 s\"", "duration = \"4 s\"");
    let mut testbed = Testbed::start("rivals", &(scenario + rivals), &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["delivery_ratio"], 1.0, "{run}");
    let [upload, call] = run["rivals"].as_array().expect("rivals").as_slice() else { panic!("{run}") };
    let number = |rival: &Value, key: &str| rival[key].as_f64().expect("a number");
    assert_eq!((&upload["kind"], &call["kind"]), (&"upload".into(), &"call".into()));
    // It begins 5 s before the first message, whatever time the nodes need.
    assert!((6.9..7.5).contains(&number(upload, "seconds")), "{upload}");
    assert!((0.25..=1.02).contains(&number(upload, "share")), "{upload}");
    assert!(number(upload, "share") + number(upload, "node_share") < 1.05, "{upload}");
    // 200 bytes of payload and 28 of headers, 50 times a second.
    let packets = number(call, "packets") + number(call, "lost");
    assert!((packets / number(call, "seconds") - 50.0).abs() < 3.0, "{call}");
    assert_eq!(number(call, "bytes"), number(call, "packets") * 228.0, "{call}");
    let delay = |of: &str| number(&call["delay_ms"], of);
    // Half of the packets, since a host that waits for its processor is late beyond the queue's 200 ms.
    assert!(delay("mean") > 10.0 && delay("mean") < delay("max") && delay("p50") < 300.0, "{call}");
    // The traffic of a node is its own only.
    let own = number(&run["metrics"], "bytes_up_per_node");
    assert!(4.0 * own < number(upload, "bytes"), "{own} {upload}");
}

/// The frames that each host has received, in the order of its reports, from its live file.
fn live_totals(path: &Path) -> Vec<(String, u64)> {
    use samara_trace::live::{Event, LiveReader, Said};

    let mut totals = Vec::new();
    let take = |said| {
        if let Said::Line(line) = said
            && let (Some(host), Event::Throughput { of, total, .. }) = (line.node, line.event)
        {
            assert_eq!(of, "frames");
            totals.push((host, total));
        }
    };
    LiveReader::new(path).poll(usize::MAX, take).expect("the file can be read");
    totals
}

#[test]
fn transactions_reach_every_pool_about_once() {
    let mut testbed = Testbed::start("pools", POOLS, &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    assert_eq!(metrics["transactions"], 20, "{run}");
    assert_eq!(metrics["delivered_share"], 1.0, "{run}");
    assert_eq!(metrics["incomplete"], 0, "{run}");
    let copies = metrics["duplication_factor"].as_f64().expect("a number");
    assert!((0.7..=1.02).contains(&copies), "{run}");
    // The live file has counts from during the run.
    let totals = live_totals(&testbed.directory.join("out/live/testbed-pools__seed_1.jsonl"));
    for host in 0..5 {
        let name = format!("host-{host}");
        let own: Vec<u64> = totals.iter().filter(|(of, _)| *of == name).map(|(_, total)| *total).collect();
        assert!(own.len() > 2 && own.is_sorted() && own[own.len() - 1] > 0, "{name}: {totals:?}");
    }
    // Blocks removed all transactions at every node.
    assert_eq!(metrics["successful_txs"], 100, "{run}");
    assert!(metrics["blocks"].as_u64().is_some_and(|blocks| blocks >= 2), "{run}");
    // The latency is at least 10 ms, and three times that with an announcement and a request.
    let latency = metrics["delivery_latency_ms"]["p50"].as_f64().expect("a number");
    assert!((10.0..200.0).contains(&latency), "{run}");
    assert!(run["real"]["node_peak_rss_bytes"]["mean"].as_f64().is_some_and(|bytes| bytes > 1e6), "{run}");
}

/// Ten clients, each of which submits when a block has its last transaction: at 1 s, after 2.5 and
/// after 4 s.
#[test]
fn clients_wait_for_blocks() {
    let scenario = POOLS
        .replace("rate = 10.0", "clients = 10\nspread = \"500 ms\"")
        .replace("duration = \"2 s\"", "duration = \"4 s\"");
    let mut testbed = Testbed::start("pools-closed", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    let transactions = metrics["transactions"].as_u64().expect("a number");
    // A slow machine delays blocks; a client never has two transactions in progress.
    assert!((20..=30).contains(&transactions), "{run}");
    assert_eq!(metrics["delivered_share"], 1.0, "{run}");
    assert_eq!(metrics["successful_txs"], 5 * transactions, "{run}");
    assert!(metrics["block_txs"]["max"].as_f64().is_some_and(|most| most <= 10.0), "{run}");
}

#[test]
fn rejects_settings_that_go_lacks() {
    let Some(go) = GO_HOST.path(Release::Newest) else { return };
    for (scenario, from, to, error) in [
        (COLUMNS, "withdraw = false", "withdraw = true", "withdraw"),
        (CELLS, "version = ", "parts = { asking = \"one\" }\nversion = ", "parts.asking"),
    ] {
        let mut testbed = Testbed::start("refused", &scenario.replace(from, to), &[go, Path::new("samara")]);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success());
        assert!(errors.contains(" ended during start (exit status: "), "{errors}");
        assert!(errors.contains(error), "{errors}");
    }
}

#[test]
fn program_that_hangs_at_start_fails_the_run() {
    let program = script("hangs", "echo waiting for nothing >&2\nwhile read -r line; do :; done");
    let mut testbed =
        Testbed::start_with(&["--ready-timeout", "5"], "hangs", COLUMNS, &[Path::new("samara"), &program]);
    let started = testbed.until("six processes", |testbed| testbed.nodes().len() == 6);
    let nodes = testbed.nodes();
    let Some((status, errors)) = testbed.end() else { return };
    assert!(started && !status.success(), "{errors}");
    assert!(errors.contains("host 1 failed during start: it did not listen within 5s"), "{errors}");
    assert!(errors.contains("waiting for nothing"), "{errors}");
    assert_gone(&nodes);
}

#[test]
fn interrupt_ends_a_testbed_with_hanging_programs() {
    // The program ignores the end of its standard input and all signals that it can ignore.
    let program = script("hangs-for-ever", "trap '' TERM INT\nwhile :; do sleep 1; done");
    for (name, signal) in [("term", Signal::SIGTERM), ("int", Signal::SIGINT)] {
        let mut testbed = Testbed::start(name, COLUMNS, &[Path::new("samara"), &program]);
        let Some(()) = testbed.reaches("six processes", |testbed| testbed.nodes().len() == 6) else { return };
        let nodes = testbed.nodes();
        let pid = Pid::from_raw(testbed.child.id() as i32);
        kill(pid, signal).expect("the testbed runs");
        let start = Instant::now();
        let Some((status, errors)) = testbed.end() else { return };
        assert!(start.elapsed() < Duration::from_secs(15), "{signal}: {:?}", start.elapsed());
        assert_eq!(status.code(), Some(130), "{signal}: {errors}");
        assert!(errors.contains("samara: interrupted; 0 of 1 runs are in "), "{errors}");
        assert!(
            !testbed.directory.join("out/complete").exists() && !testbed.directory.join("out/lock").exists()
        );
        assert_gone(&nodes);
    }
}

#[test]
fn testbed_always_removes_processes_and_control_groups() {
    let mut killed = Vec::new();
    for (name, signal) in [("team-kill", Signal::SIGKILL), ("team-term", Signal::SIGTERM)] {
        let mut testbed = Testbed::start(name, TEAM, &[]);
        let pid = testbed.child.id();
        // One for each node, and one that checked that control groups can be created.
        if !testbed.until("control groups", |_| control_groups(pid).len() == 4) {
            let Some((_, errors)) = testbed.end() else { return };
            assert!(errors.contains("cannot limit processes to a part of a processor"), "{errors}");
            return skipped(&errors);
        }
        assert!(
            killed.iter().all(|pid| control_groups(*pid).is_empty()),
            "the control groups of the killed testbed remain"
        );
        let nodes = testbed.nodes();
        assert_eq!(nodes.len(), 4, "nodes and scheduler: {nodes:?}");
        kill(Pid::from_raw(pid as i32), signal).expect("the testbed runs");
        let Some((status, errors)) = testbed.end() else { return };
        if signal == Signal::SIGTERM {
            assert_eq!(status.code(), Some(130), "{errors}");
            assert_eq!(control_groups(pid), Vec::<PathBuf>::new());
        } else {
            // The kernel kills them a moment after their parent.
            let start = Instant::now();
            while nodes.iter().any(|(process, _)| node_of(process.as_raw()).is_some()) {
                assert!(start.elapsed() < Duration::from_secs(10), "{nodes:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
            killed.push(pid);
        }
        assert_gone(&nodes);
    }
}

// ---- hosts ----

#[test]
fn runs_that_are_not_selected_need_not_be_valid() {
    let runs = "[[run]]\nname = \"one\"\n[[run]]\nname = \"two\"\nset.\"fault.0.nodes\" = [7]\n";
    let mut testbed = Testbed::start_with(&["--only", "one"], "only", &format!("{GROUP}{runs}"), &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["lost"], 0);
}

#[test]
fn a_team_on_hosts_mixes_after_the_crash_of_a_node() {
    let text = TEAM
        // Four slots come out in their original order once in 24 rounds.
        .replace("batch = 4", "batch = 16")
        .replace("rounds = 100000", "rounds = 60\ninterval = \"100 ms\"")
        .replace("processor = \"50 %\"\n", "");
    let crash = "[[fault]]\nkind = \"crash\"\nat = \"3 s\"\nuntil = \"4 s\"\nnodes = [1]\n";
    let mut testbed = Testbed::start("team-crash", &format!("{text}{crash}"), &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    let number = |name: &str| metrics[name].as_u64().unwrap_or_else(|| panic!("{name}: {metrics}"));
    assert_eq!(number("rounds"), 60);
    assert!((1..30).contains(&number("failed")), "{metrics}");
    assert_eq!((number("wrong"), number("disagreements"), number("unmixed")), (0, 0, 0), "{metrics}");
    assert!(testbed.directory.join("out/runs/team-seed1/paths.parquet").exists(), "samara explain");
}

#[test]
fn a_group_on_hosts_survives_the_crash_of_a_member() {
    let mut testbed = Testbed::start("group", GROUP, &[]);
    let Some(run) = testbed.results() else { return };
    let metric = |name: &str| run["metrics"][name].as_f64().unwrap_or(f64::NAN);
    for none in ["lost", "duplicates", "order_violations", "disagreements"] {
        assert_eq!(metric(none), 0.0, "{none}: {run}");
    }
    assert!(metric("deliveries") > 5.0 * 600.0 && metric("throughput_mb_per_s") > 0.1, "{run}");
    assert_eq!(run["real"]["programs"], serde_json::json!(["samara host"]));
    assert!(run["real"]["publish_error_ms"]["mean"].as_f64().is_some_and(|late| late < 1_000.0), "{run}");
    let logs = testbed.directory.join("out/nodes/group-seed1/host-1");
    assert!(logs.join("log.txt").exists() && logs.join("log-1.txt").exists(), "two processes of member 1");
}

#[test]
fn blocks_on_hosts_reach_observers_and_nodes_that_start_again() {
    let faults = "[[fault]]\nkind = \"crash\"\nat = \"3 s\"\nuntil = \"4 s\"\nnodes = [1]\n";
    let scenario = COLUMNS.replace("[columns]\n", "[columns]\nobserver = true\n") + faults;
    let mut testbed = Testbed::start("blocks-on-hosts", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
    let doubts = run["real"]["doubts"].to_string();
    assert!(!doubts.contains("plain TCP"), "{doubts}");
    assert!(testbed.directory.join("out/runs/mixed-seed1/paths.parquet").exists(), "samara explain");
}

/// The block is published while the network is at fault, and arrives everywhere after it.
#[test]
fn blocks_on_hosts_arrive_after_faults_of_the_network() {
    let fault = |rest: &str| format!("[[fault]]\nat = \"4.5 s\"\nuntil = \"7 s\"\n{rest}\n");
    let scenario = COLUMNS.to_owned()
        + &fault("kind = \"partition\"\nnodes = [1, 2]")
        + &fault("kind = \"cut\"\nnodes = [3]\npeers = [0, 4]\ndirection = \"in\"")
        + &fault("kind = \"slow\"\nnodes = [5]\nfactor = 0.1");
    let mut testbed = Testbed::start("network-faults", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
    let late = run["metrics"]["time_to_custody_ms"]["max"].as_f64();
    assert!(late.is_some_and(|late| late > 2_000.0), "nothing waited for the end: {run}");
    let lost = run["metrics"]["packet_drops"]["partition"].as_u64();
    assert!(lost.is_some_and(|lost| lost > 10), "{run}");
}

#[test]
fn blocks_on_hosts_travel_over_quic() {
    let scenario = format!("{COLUMNS}[transport]\nkind = \"quic\"\n");
    let mut testbed = Testbed::start("blocks-over-quic", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
    assert_eq!(run["real"]["programs"], serde_json::json!(["samara host"]));
}

/// One host in five has the pool of 2023, and one in five is hostile. A host crashes, and another one
/// loses its links.
#[test]
fn pools_on_hosts_have_the_connections_of_cometbft() {
    let more = r#"
[[pool.group]]
name = "old"
share = "20 %"
preset = "cat-merged"
[[pool.group]]
name = "hostile"
share = "20 %"
adversary = "garbage"
[[fault]]
kind = "crash"
at = "1600 ms"
until = "2100 ms"
nodes = [1]
[[fault]]
kind = "reconnect"
at = "1800 ms"
nodes = [2]
"#;
    let scenario = POOLS.replace("nodes = 5", "nodes = 10").replace("\"50 Mbit/s\"", "\"20 Mbit/s\"") + more;
    let mut testbed = Testbed::start("pools-on-hosts", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    assert_eq!(run["real"]["programs"], serde_json::json!(["samara host"]));
    assert!(metrics["transactions"].as_u64().is_some_and(|count| count >= 14), "{run}");
    assert_eq!(metrics["incomplete"], 0, "{run}");
    let doubts = run["real"]["doubts"].to_string();
    assert!(!doubts.contains("transport.connection") && !doubts.contains("pool.group"), "{doubts}");
}

// ---- hostile hosts ----

/// In a ring, both neighbours of the publisher keep the first block to themselves. One of them starts
/// again before it, and still does; the other one passes on the second block.
#[test]
fn what_hostile_hosts_withhold_arrives_nowhere() {
    let fault = |rest: &str| format!("[[fault]]\n{rest}\n");
    let scenario = COLUMNS
        .replace("full-mesh", "ring")
        .replace("custody = 8", "custody = 16")
        .replace("slot_interval = \"1 s\"", "slot_interval = \"3 s\"")
        .replace("deadline = \"30 s\"", "deadline = \"8 s\"");
    let scenario = scenario
        + &fault("kind = \"withhold\"\nat = \"0 s\"\nnodes = [1]")
        + &fault("kind = \"crash\"\nat = \"1 s\"\nuntil = \"2 s\"\nnodes = [1]")
        + &fault("kind = \"withhold\"\nat = \"4500 ms\"\nuntil = \"6500 ms\"\nnodes = [5]");
    let mut testbed = Testbed::start("withhold", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 3, "{run}");
    assert_eq!(run["metrics"]["delivery_ratio"], 0.5, "{run}");
}

#[test]
fn others_complete_blocks_past_hostile_hosts() {
    let fault =
        |kind: &str, node: u32| format!("[[fault]]\nkind = \"{kind}\"\nat = \"2 s\"\nnodes = [{node}]\n");
    let faults = fault("withhold", 1) + &fault("alter", 2) + &fault("replay", 3) + &fault("flood", 4);
    let scenario = COLUMNS.replace("nodes = 6", "nodes = 9").replace("custody = 8", "custody = 16");
    let mut testbed = Testbed::start("past-hostile", &(scenario + &faults), &[]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
}

/// Checks that members of a federation without a fault have every message once, in the order of its
/// sender, and that gateways carried each message once to each other site.
fn assert_federated(run: &Value, sites: u64, steady: u64) {
    let metrics = &run["metrics"];
    for none in ["lost", "duplicates", "order_violations", "disagreements", "garbled"] {
        assert_eq!(metrics[none], 0, "{none}: {run}");
    }
    // Each steady sender has four seconds with 25 messages a second.
    let (messages, members) = (metrics["messages"].as_u64(), metrics["members"].as_u64());
    assert!(messages.is_some_and(|count| count >= 100 * steady), "{run}");
    assert_eq!(members, Some(3 * sites), "{run}");
    let copies = metrics["gateways"]["copies"].as_f64().expect("gateways have figures");
    // Headers, acknowledgements and heartbeats count, too, and messages of 1 KiB are short.
    let once = (sites - 1) as f64;
    assert!((once..once * 2.5).contains(&copies), "{run}");
}

#[test]
fn a_federation_on_hosts_survives_the_crash_of_a_leader() {
    let mut testbed = Testbed::start("federation", FEDERATION, &[]);
    let Some(run) = testbed.results() else { return };
    assert_federated(&run, 3, 8);
    assert!(run["metrics"]["suspicions"].as_u64().is_some_and(|count| count > 0), "{run}");
}

/// The other site keeps messages for the one that is cut off, whose members have no fault.
#[test]
fn a_site_on_hosts_that_was_cut_off_gets_all_messages() {
    let three = r#"["200 us", "20 ms", "20 ms"], ["20 ms", "200 us", "20 ms"], ["20 ms", "20 ms", "200 us"]"#;
    let scenario = FEDERATION
        .replace("nodes = 9", "nodes = 6")
        .replace(r#", "Zurich"]"#, "]")
        .replace("[1, 1, 1]", "[1, 1]")
        .replace(three, r#"["200 us", "20 ms"], ["20 ms", "200 us"]"#)
        .replace("\"crash\"", "\"partition\"")
        .replace("at = \"5 s\"\nnodes = [0]", "at = \"4 s\"\nuntil = \"7 s\"\nnodes = [3, 4, 5]");
    let mut testbed = Testbed::start("federation-cut", &scenario, &[]);
    let Some(run) = testbed.results() else { return };
    assert_federated(&run, 2, 6);
    // Messages waited for the end of the cut.
    let latest = run["metrics"]["delivery_latency_ms"]["max"].as_f64();
    assert!(latest.is_some_and(|ms| ms > 1_000.0), "{run}");
}

/// Members repair what one of them withholds, also if it does so until the end.
#[test]
fn a_group_on_hosts_repairs_what_a_hostile_member_withholds() {
    let from = GROUP.find("[[fault]]").expect("a fault");
    let fault = "[[fault]]\nkind = \"withhold\"\nat = \"2100 ms\"\nnodes = [1]\nfactor = 0.05\n";
    let mut testbed = Testbed::start("group-withhold", &(GROUP[..from].to_owned() + fault), &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    for none in ["lost", "duplicates", "order_violations", "disagreements", "garbled"] {
        assert_eq!(metrics[none], 0, "{none}: {run}");
    }
    // Without hostile members, there is nothing to repair.
    assert!(metrics["repaired"].as_u64().is_some_and(|units| units > 0), "{run}");
}

/// Members part from one that repeats their frames, and lose nothing of each other.
#[test]
fn a_group_on_hosts_parts_from_a_member_that_replays() {
    let from = GROUP.find("[[fault]]").expect("a fault");
    let fault = "[[fault]]\nkind = \"replay\"\nat = \"2100 ms\"\nnodes = [1]\n";
    let mut testbed = Testbed::start("group-replay", &(GROUP[..from].to_owned() + fault), &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    for none in ["lost", "duplicates", "order_violations", "disagreements", "garbled"] {
        assert_eq!(metrics[none], 0, "{none}: {run}");
    }
    assert!(metrics["ignored"]["forged"].as_u64().is_some_and(|frames| frames > 0), "{run}");
}

/// One host floods its peers with frames that they never asked for, and links with another one end.
#[test]
fn pools_on_hosts_complete_past_hostile_hosts() {
    let faults = "[[fault]]\nkind = \"flood\"\nat = \"500 ms\"\nnodes = [1]\nfactor = 10\n\
                  [[fault]]\nkind = \"alter\"\nat = \"500 ms\"\nnodes = [3]\n";
    let mut testbed = Testbed::start("pools-past-hostile", &(POOLS.to_owned() + faults), &[]);
    let Some(run) = testbed.results() else { return };
    let metrics = &run["metrics"];
    assert_eq!(metrics["incomplete"], 0, "{run}");
    let unasked = metrics["ignored"]["not_found_unasked"].as_u64();
    assert!(unasked.is_some_and(|frames| frames > 50), "{run}");
}

#[test]
fn a_host_that_is_killed_fails_the_run() {
    let scenario = GROUP.replace("messages = 600", "duration = \"60 s\"");
    let mut testbed = Testbed::start("killed-host", &scenario, &[]);
    let Some(()) = testbed.reaches("five hosts", |testbed| testbed.nodes().len() == 5) else { return };
    let nodes = testbed.nodes();
    assert!(nodes.iter().map(|(_, node)| *node).eq(0..5), "{nodes:?}");
    kill(nodes[3].0, Signal::SIGKILL).expect("the host runs");
    let (status, errors) = testbed.end().expect("links are emulated");
    assert!(!status.success(), "{errors}");
    assert!(errors.contains("host 3 ended during "), "{errors}");
    assert!(errors.contains(" (signal: 9 (SIGKILL)); its log, "), "{errors}");
    assert_gone(&nodes);
}

#[test]
fn what_hosts_lack_is_refused_before_the_first_run() {
    let cases = [
        (
            "[network]\n",
            "[transport]\nkind = \"quic\"\n[network]\n",
            "transport.kind: hosts of this protocol have",
        ),
        (
            "[[fault]]\nkind = \"crash\"",
            "[network.uplink_queue]\nkind = \"fifo\"\ntime = \"100 ms\"\n[[fault]]\nkind = \"node\"",
            "fault.0.kind: second nodes exist in the simulator only",
        ),
        (
            "[network]\n",
            "[network.regions]\nnames = [\"a\", \"b\"]\nweights = [1, 1]\ngateway = \"5 Mbit/s\"\n\
             latency = [[\"1 ms\", \"9 ms\"], [\"9 ms\", \"1 ms\"]]\n\
             gateway_queue = { kind = \"fq-codel\" }\n[network]\n",
            "network.regions.gateway_queue.kind: \"fq-codel\" exists in the simulator only",
        ),
    ];
    for (from, to, expected) in cases {
        let mut testbed = Testbed::start("lacks", &GROUP.replace(from, to), &[]);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success() && errors.contains(expected), "{errors}");
    }
}

#[test]
fn a_host_names_wrong_orders() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("testbed");
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("orders.toml");
    std::fs::write(&file, GROUP).expect("written");
    let answer = |run: &str, orders: &str| {
        let mut host = Command::new(env!("CARGO_BIN_EXE_samara"))
            .args(["host", "--run", run, "--seed", "1"])
            .args([file.as_os_str(), "2".as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the host starts");
        host.stdin.take().expect("a pipe").write_all(orders.as_bytes()).expect("written");
        let output = host.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let listen = |host: u32, address: &str| {
        let listen = serde_json::json!({
            "host": host, "address": address, "peers": [address], "token": "00".repeat(16), "restart": false
        });
        format!("{{\"listen\":{listen}}}\n")
    };
    assert!(answer("group", "hello\n").contains("an order: expected value at line 1"));
    assert!(answer("group", "{\"sync\":1}\n").contains("the first order was not to listen"));
    let other = answer("group", &listen(1, "127.0.0.1:0"));
    assert!(other.contains("the orders are for host 1; this is host 2"), "{other}");
    let early = answer("group", &(listen(2, "127.0.0.1:0") + "{\"sync\":1}\n"));
    assert!(early.contains("the second order was not to begin"), "{early}");
    let nowhere = answer("group", &listen(2, "192.0.2.1:1"));
    assert!(nowhere.contains("192.0.2.1:1: "), "{nowhere}");
    let other = answer("other", "");
    assert!(other.contains("--run other: ") && other.contains("the runs are group"), "{other}");
}

// ---- programs of others ----

/// The smallest host passes its own check, and so does ours.
#[test]
fn smallest_host_passes_the_check() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("found no python3");
    }
    let flood = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/flood.py");
    for program in [flood.as_path(), Path::new("samara")] {
        let checked = check(program);
        assert!(checked.0, "{}", checked.1);
        assert!(checked.1.contains("can be a host of messages-small"), "{}", checked.1);
    }
}

#[test]
fn check_names_what_a_program_does_wrong() {
    for (name, text, wrong) in [
        ("silent", "cat > /dev/null", "✗ a line that is no JSON is an error: it ended with status 0"),
        ("quiet", "exit 3", "✗ a line that is no JSON is an error: it said nothing on standard error"),
        ("loud", "echo no >&2; exit 3", "✗ it ends when its input ends: it ended with an error"),
        ("garbled", "echo hello; cat > /dev/null", "it said \"hello\\n\" before it listened"),
        ("deaf", "exec 1>&-; cat > /dev/null", "it closed its standard output or input, and did not end"),
        ("binary", "printf '\\377\\n'; cat > /dev/null", "it wrote a line that is no UTF-8"),
        ("orphaned", "sleep 60 & exit 0", "ended during start (exit status: 0)"),
        ("nameless", "echo '{\"ready\":{\"host\":99}}'; cat > /dev/null", "it calls itself host 99"),
    ] {
        let (is_right, said) = check(&script(&format!("check-{name}"), text));
        assert!(!is_right && said.contains(wrong), "{name}: {said}");
    }
}

#[test]
fn files_that_are_no_programs_are_named_before_anything_runs() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-program");
    std::fs::write(&file, "text").expect("written");
    for path in [file.as_path(), Path::new(env!("CARGO_TARGET_TMPDIR"))] {
        let (is_right, said) = check(path);
        assert!(!is_right && said.contains("is no file that can be executed"), "{said}");
        assert!(!said.contains('✓'), "{said}");
    }
}

/// Returns whether a program passes its check, and what the check says.
fn check(program: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
    let output = command.arg("host-check").arg(program).output().expect("the check runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

/// Hosts of Go start again after a crash, and speak with those of samara.
#[test]
fn hosts_of_go_start_again() {
    let Some(go) = GO_HOST.path(Release::Newest) else { return };
    let faults = "[[fault]]\nkind = \"crash\"\nat = \"2 s\"\nuntil = \"3 s\"\nnodes = [1]\n";
    let mut testbed = Testbed::start("go-again", &(COLUMNS.to_owned() + faults), &[Path::new("samara"), go]);
    let Some(run) = testbed.results() else { return };
    assert_eq!(run["metrics"]["incomplete"], 0, "{run}");
}

/// A host that reads nothing does not take the memory of the testbed.
#[test]
fn check_names_a_program_that_reads_no_orders() {
    let deaf = script(
        "check-deaf",
        "read -r listen || exit 0\n\
         case $listen in\n\
         *'\"host\":0,\"address'*) echo '{\"ready\":{\"host\":0}}';;\n\
         *'\"host\":1,\"address'*) echo '{\"ready\":{\"host\":1}}';;\n\
         *) echo no >&2; exit 3;;\n\
         esac\nwhile :; do sleep 1; done",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
    command.args(["host-check", "--set", "network.nodes=2", "--set", "network.topology.kind=full-mesh"]);
    command.args(["--set", "messages.rate=20000", "--set", "messages.size=4 B"]).arg(&deaf);
    let output = command.output().expect("the check runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("it read no orders for 30s"), "{said}");
}

static GO_CAT_HOST: GoProgram = GoProgram::new("go-cat-host", "no testbed had hosts of celestia-core");

/// Pools of Samara, of its generation and of our own, beside those of celestia-core.
#[test]
fn transactions_of_both_implementations_reach_all_pools() {
    let Some(go) = GO_CAT_HOST.path(Release::Pinned) else { return };
    for preset in ["cat-merged", "cat"] {
        let scenario = POOLS
            .replace("preset = \"cat\"", &format!("preset = \"{preset}\""))
            .replace("[transport.connection]", "[transport.connection]\nflush = \"10 ms\"")
            .replace("signed = false", "invalid = \"10 %\"");
        let name = format!("pools-of-celestia-{preset}");
        let mut testbed = Testbed::start(&name, &scenario, &[Path::new("samara"), go]);
        let Some(run) = testbed.results() else { return };
        let metrics = &run["metrics"];
        assert_eq!(run["real"]["programs"], serde_json::json!(["samara host", "go-cat-host"]));
        assert!(metrics["transactions"].as_u64().is_some_and(|count| count >= 15), "{run}");
        assert_eq!((&metrics["incomplete"], &metrics["delivered_share"]), (&0.into(), &1.0.into()), "{run}");
        assert!(metrics["by_block_share"].as_f64().is_some_and(|share| share < 0.2), "{run}");
    }
}

#[test]
fn what_programs_lack_in_pools_is_refused() {
    let Some(go) = GO_CAT_HOST.path(Release::Pinned) else { return };
    let connection = "[transport.connection]\nsend_rate = \"0 bit/s\"\nreceive_rate = \"0 bit/s\"\n";
    let hostile = "[[pool.group]]\nname = \"a\"\nshare = \"40 %\"\nadversary = \"silent\"\n[pool]";
    for (from, to, expected) in [
        (connection, "", "transport.connection: is missing"),
        ("[pool]", hostile, "pool.group.0.adversary: programs of others follow the protocol"),
        ("[pool]", "[pool]", "flush: found when-idle, expected a time"),
        ("preset = \"cat\"", "preset = \"cat-2026\"", "preset: found \"cat-2026\", expected cat-merged"),
    ] {
        let scenario = POOLS.replace(from, to).replace("signed = false\n", "");
        let mut testbed = Testbed::start("unbriefed-pools", &scenario, &[go]);
        let Some((status, errors)) = testbed.end() else { return };
        assert!(!status.success() && errors.contains(expected), "{errors}");
    }
}
