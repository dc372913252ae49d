//! Compares throughput, latency and memory of samara-net with rust-libp2p's gossipsub and
//! go-libp2p-pubsub under equal configuration and load: `cargo run --release -p samara-libp2p
//! --example throughput -- [ROUNDS [SECONDS [speed | memory | limit | quic]]]`.
//!
//! Every node is a separate process on loopback, over TCP, Noise and Yamux, or over QUIC. A round
//! covers all message lengths, and each measurement covers all implementations, whose order changes
//! from round to round. Messages have no author and no signature, and their ids are hashes of their content:
//! the benchmark measures the protocol, not the cryptography of messages. See
//! docs/guides/sockets.md. `limit` compares one order over all links with and without the limit of
//! what a node has under way. `quic` compares this crate's QUIC with libp2p's under the same behaviour,
//! and the former with one order and the limit.

mod cluster;
mod histogram;
mod implementation;
mod node;
mod process;
mod table;

use std::path::Path;
use std::process::Command;

use libp2p::gossipsub;

use crate::cluster::{Cluster, Implementation, Node};
use crate::histogram::median;
use crate::implementation::Anyhow;
use crate::table::Table;

const NODES: usize = 5;
/// Number of slices of each latency measurement.
const SLICES: usize = 5;
const LENGTHS: [usize; 3] = [1 << 10, 16 << 10, 256 << 10];

/// Returns how many messages a publisher may be ahead of the slowest receiver: 1 MiB, and 4 to 64
/// messages.
fn window(bytes: usize) -> u64 {
    ((1 << 20) / bytes as u64).clamp(4, 64)
}

/// For memory: the connections of one process before and after, and the load over them.
const CONNECTIONS: (usize, usize) = (5, 45);
const MEMORY_BYTES: usize = 16 << 10;
const MEMORY_PER_SECOND: f64 = 40.0;
/// Longer than messages are cached to answer IWANT, so that the caches are equally full before and
/// after.
const MEMORY_SECONDS: f64 = 6.0;

fn main() -> Anyhow<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["node", which, "-index", index, "-of", of] => node(which, index.parse()?, of.parse()?),
        [] => compare(&implementations()?, 3, 3.0, true, true),
        [rounds] => compare(&implementations()?, rounds.parse()?, 3.0, true, true),
        [rounds, seconds] => compare(&implementations()?, rounds.parse()?, seconds.parse()?, true, true),
        [rounds, seconds, "speed"] => {
            compare(&implementations()?, rounds.parse()?, seconds.parse()?, true, false)
        }
        [rounds, seconds, "memory"] => {
            compare(&implementations()?, rounds.parse()?, seconds.parse()?, false, true)
        }
        [rounds, seconds, "limit"] => {
            let orders = [this("one-order")?, this("one-order-limited")?];
            compare(&orders, rounds.parse()?, seconds.parse()?, true, false)
        }
        [rounds, seconds, "quic"] => {
            let transports = [this("quic")?, this("libp2p-quic")?, this("quic-limited")?];
            compare(&transports, rounds.parse()?, seconds.parse()?, true, false)
        }
        _ => Err("expected: [ROUNDS [SECONDS [speed | memory | limit | quic]]]".into()),
    }
}

#[tokio::main]
async fn node(which: &str, index: usize, of: usize) -> Anyhow<()> {
    match which {
        "rust-libp2p" => node::run::<gossipsub::Behaviour>(which, index, of).await,
        _ => node::run::<samara_libp2p::Behaviour>(which, index, of).await,
    }
}

/// Returns an implementation of this program.
fn this(name: &'static str) -> Anyhow<Implementation> {
    Ok(Implementation { name, program: std::env::current_exe()?, arguments: vec!["node", name] })
}

fn implementations() -> Anyhow<Vec<Implementation>> {
    let mut all = vec![this("samara-net")?, this("rust-libp2p")?];
    if Command::new("go").arg("version").output().is_err() {
        println!("Go is not installed, so go-libp2p-pubsub is SKIPPED.");
        return Ok(all);
    }
    let program = std::env::current_exe()?.with_file_name("throughput-go");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/go-bench");
    let built =
        Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).status()?;
    if !built.success() {
        return Err("interop/go-bench does not build: see above".into());
    }
    all.push(Implementation { name: "go-libp2p-pubsub", program, arguments: vec![] });
    Ok(all)
}

fn compare(
    all: &[Implementation],
    rounds: usize,
    seconds: f64,
    with_speed: bool,
    with_memory: bool,
) -> Anyhow<()> {
    println!("{NODES} nodes in a full mesh, {rounds} rounds, {seconds} s for each load");
    let mut table = Table::new(all.iter().map(|implementation| implementation.name).collect());
    for round in 0..rounds {
        let mut one_round = || {
            let mut lengths = LENGTHS.into_iter().filter(|_| with_speed);
            lengths.try_for_each(|bytes| speed(all, round, bytes, seconds, &mut table))?;
            if with_memory { memory(all, round, &mut table) } else { Ok(()) }
        };
        let done = one_round();
        // Measurements from before an error remain valid.
        println!("after round {} of {rounds}:\n{table}", round + 1);
        done?;
    }
    Ok(())
}

/// Returns all indices, with a different first index each time.
fn order(count: usize, time: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| (at + time) % count)
}

/// Measures the saturated rate of each implementation, and then the latency of all at half the rate
/// of the slowest. The load is then the same for all. The latency is the median over alternating
/// slices, which limits the influence of other activity on the machine.
fn speed(all: &[Implementation], round: usize, bytes: usize, seconds: f64, table: &mut Table) -> Anyhow<()> {
    let clusters = all.iter().map(|implementation| Cluster::full_mesh(implementation, NODES));
    let mut clusters: Vec<Cluster> = clusters.collect::<Result<_, _>>()?;
    let mut slowest = f64::INFINITY;
    for at in order(all.len(), round) {
        let done =
            clusters[at].fill(bytes, window(bytes), seconds).map_err(|error| case(all, at, bytes, error))?;
        let rate = done.copies as f64 / done.seconds;
        slowest = slowest.min(rate);
        table.add(&format!("{bytes} B: saturated, deliveries/s"), at, rate);
        let per_processor = done.copies as f64 / done.processor_seconds;
        table.add(&format!("{bytes} B: deliveries/s of processor"), at, per_processor);
    }
    let per_node = slowest / 2.0 / (NODES * (NODES - 1)) as f64;
    // On a very slow machine, a slice still contains some messages of each node.
    let slice_seconds = (seconds / 2.0).max(5.0 / per_node);
    let ranks = [(0.5, "median"), (0.99, "p99")];
    // By implementation and rank: one value for each slice.
    let mut latencies = vec![[Vec::new(), Vec::new()]; all.len()];
    for slice in 0..SLICES {
        for at in order(all.len(), round + slice) {
            let taken = clusters[at]
                .pace(bytes, per_node, slice_seconds, 0)
                .map_err(|error| case(all, at, bytes, error))?;
            for (values, (rank, _)) in latencies[at].iter_mut().zip(ranks) {
                let micros = taken.quantile(rank).ok_or("no message was delivered")?;
                values.push(micros as f64 / 1000.0);
            }
        }
    }
    for (at, latencies) in latencies.into_iter().enumerate() {
        for (values, (_, name)) in latencies.into_iter().zip(ranks) {
            table.add(&format!("{bytes} B: latency, {name}, ms"), at, median(&values));
        }
    }
    Ok(())
}

/// Adds the implementation and the message length to an error.
fn case(
    all: &[Implementation],
    at: usize,
    bytes: usize,
    error: Box<dyn std::error::Error + Send + Sync>,
) -> String {
    format!("{} with messages of {bytes} B: {error}; nothing is reported", all[at].name)
}

/// Measures the cost of a connection: the growth of a process that opens more of them.
fn memory(all: &[Implementation], round: usize, table: &mut Table) -> Anyhow<()> {
    for at in order(all.len(), round) {
        let (few, many) = CONNECTIONS;
        let mut star = Cluster::new(vec![Node::start(&all[at], 0, many + 1)?]);
        let named = |error| case(all, at, MEMORY_BYTES, error);
        let before = grow(&mut star, &all[at], few).map_err(named)?;
        let after = grow(&mut star, &all[at], many).map_err(named)?;
        let each = after.saturating_sub(before) as f64 / (many - few) as f64;
        table.add(&format!("memory with {few} connections, MiB"), at, before as f64 / f64::from(1 << 20));
        table.add("memory for each one more, KiB", at, each / 1024.0);
    }
    Ok(())
}

/// Connects more nodes with the first one, applies the load, and returns the memory of the first
/// one in bytes.
fn grow(star: &mut Cluster, implementation: &Implementation, connections: usize) -> Anyhow<u64> {
    for index in star.nodes.len()..=connections {
        let mut node = Node::start(implementation, index, CONNECTIONS.1 + 1)?;
        node.dial(&star.nodes[0])?;
        star.nodes.push(node);
    }
    star.nodes[0].wait_for_mesh(connections)?;
    star.pace(MEMORY_BYTES, MEMORY_PER_SECOND / connections as f64, MEMORY_SECONDS, 1)?;
    star.nodes[0].memory("VmRSS")
}
